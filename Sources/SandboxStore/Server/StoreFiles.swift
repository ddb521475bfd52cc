import Foundation
import JOSE

/// What went wrong with the data folder or the arguments.
package struct SandboxError: Error, Hashable, CustomStringConvertible {
    package enum Code: Hashable, Sendable {
        case usage, failed, inputRejected, conflict
    }

    package var code: Code
    package var description: String

    init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }
}

/// The store's own facts, written once: `store.json`.
struct StoreFile: Codable, Sendable {
    static let currentVersion = 1

    var version = StoreFile.currentVersion
    var identity: StoreIdentity
    var issuerID: String
    var keyID: String
    var options: StoreEngine.Options
    /// The instant of the subscriptions below.
    var start: Int64
    var subscriptions: [StoreSubscription]
}

/// The data folder: keys, certificates, the store and its journal.
struct StoreFolder: Sendable {
    var path: String

    func file(_ name: String) -> String { "\(path)/\(name)" }

    /// Creates the folder, and makes its path absolute.
    init(_ given: String) throws(SandboxError) {
        let absolute = try StoreFolder.absolute(given)
        do {
            try FileManager.default.createDirectory(
                atPath: absolute, withIntermediateDirectories: true)
        } catch {
            throw SandboxError(.failed, "cannot make the folder \(given): \(error)")
        }
        path = absolute
    }

    static func absolute(_ given: String) throws(SandboxError) -> String {
        guard !given.isEmpty else { throw SandboxError(.usage, "an empty path") }
        return given.hasPrefix("/")
            ? given : "\(FileManager.default.currentDirectoryPath)/\(given)"
    }

    func exists(_ name: String) -> Bool {
        FileManager.default.fileExists(atPath: file(name))
    }

    func read(_ name: String) throws(SandboxError) -> [UInt8]? {
        guard exists(name) else { return nil }
        guard let data = FileManager.default.contents(atPath: file(name)) else {
            throw SandboxError(.failed, "cannot read \(file(name))")
        }
        return [UInt8](data)
    }

    func readText(_ name: String) throws(SandboxError) -> String? {
        try read(name).map { String(decoding: $0, as: UTF8.self) }
    }

    /// Writes a temporary file and renames it, so that nobody reads half of it.
    func write(_ name: String, _ bytes: [UInt8], isPrivate: Bool = false) throws(SandboxError) {
        let target = name.hasPrefix("/") ? name : file(name)
        let temporary = "\(target).new"
        do {
            if FileManager.default.fileExists(atPath: temporary) {
                try FileManager.default.removeItem(atPath: temporary)
            }
            let mode = isPrivate ? 0o600 : 0o644
            guard
                FileManager.default.createFile(
                    atPath: temporary, contents: Data(bytes),
                    attributes: [.posixPermissions: mode])
            else { throw SandboxError(.failed, "cannot write \(temporary)") }
            guard rename(temporary, target) == 0 else {
                throw SandboxError(.failed, "cannot rename to \(target)")
            }
        } catch let error as SandboxError {
            throw error
        } catch {
            throw SandboxError(.failed, "cannot write \(target): \(error)")
        }
    }

    /// Removes a file, which need not exist.
    func remove(_ name: String) throws(SandboxError) {
        guard unlink(file(name)) == 0 || errno == ENOENT else {
            throw SandboxError(.failed, "cannot remove \(file(name))")
        }
    }

    func write(_ name: String, _ text: String, isPrivate: Bool = false) throws(SandboxError) {
        try write(name, Array(text.utf8), isPrivate: isPrivate)
    }

    func loadStore() throws(SandboxError) -> StoreFile? {
        guard let bytes = try read("store.json") else { return nil }
        do {
            let store = try JSONDecoder().decode(StoreFile.self, from: Data(bytes))
            guard store.version == StoreFile.currentVersion else {
                throw SandboxError(.conflict, "store.json has version \(store.version)")
            }
            return store
        } catch let error as SandboxError {
            throw error
        } catch {
            throw SandboxError(.failed, "cannot read \(file("store.json")): \(error)")
        }
    }

    func save(_ store: StoreFile) throws(SandboxError) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys]
        do {
            try write("store.json", [UInt8](encoder.encode(store)))
        } catch let error as SandboxError {
            throw error
        } catch {
            throw SandboxError(.failed, "cannot encode the store: \(error)")
        }
    }
}

/// Keys and certificates of the store, made once and kept.
struct StoreKeys: Sendable {
    var authority: CertificateAuthority
    var apiKey: ES256PrivateKey

    /// Virtual time may run from 2020 to 2040.
    static let validFrom: Int64 = 1_577_836_800_000
    static let validUntil: Int64 = 2_208_988_800_000

    static func loadOrMake(in folder: StoreFolder) throws(SandboxError) -> StoreKeys {
        do {
            let authority: CertificateAuthority
            if let stored = try folder.readText("authority.pem") {
                authority = try CertificateAuthority(storedPEM: stored)
            } else {
                authority = try CertificateAuthority(
                    validFrom: validFrom, validUntil: validUntil)
                try folder.write("authority.pem", authority.storedPEM(), isPrivate: true)
            }
            let storedKey = try folder.readText("key.p8")
            let key = try storedKey ?? ES256PrivateKey.newPEM()
            if storedKey == nil { try folder.write("key.p8", key, isPrivate: true) }
            let chain = try authority.chainPEM()
            try folder.write("root.pem", authority.rootPEM())
            try folder.write("tls-ca.pem", authority.rootPEM())
            for (name, text) in zip(["leaf.pem", "intermediate.pem"], chain) {
                try folder.write(name, text)
            }
            return StoreKeys(authority: authority, apiKey: try ES256PrivateKey(pem: key))
        } catch let error as SandboxError {
            throw error
        } catch {
            throw SandboxError(.failed, "cannot make keys and certificates: \(error)")
        }
    }
}
