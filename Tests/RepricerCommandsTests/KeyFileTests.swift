import Foundation
import JOSE
import SandboxStore
import TestSupport
import Testing

@testable import RepricerCommands

@Suite struct KeyFileTests {
    private func fault(_ content: String?, mode: Int = 0o600) throws -> String? {
        let path = FileManager.default.temporaryDirectory.path + "/key-\(UUID().uuidString).p8"
        defer { try? FileManager.default.removeItem(atPath: path) }
        if let content {
            let attributes: [FileAttributeKey: Any] = [.posixPermissions: mode]
            #expect(
                FileManager.default.createFile(
                    atPath: path, contents: Data(content.utf8), attributes: attributes))
        }
        do {
            _ = try SecretFile.readKey(path)
            return nil
        } catch {
            #expect(error.wrong.hasPrefix(path))
            return String(error.wrong.dropFirst(path.utf8.count + 1))
        }
    }

    @Test func load_whenUsable_returnsTheKey() throws {
        let pem = try ES256PrivateKey.newPEM()

        #expect(try fault(pem) == nil)
        #expect(try fault(pem, mode: 0o400) == nil)
    }

    @Test(arguments: [0o644, 0o640, 0o604, 0o620, 0o602, 0o666])
    func load_whenOpenToOthers_isRefused(mode: Int) throws {
        #expect(
            try fault(ES256PrivateKey.newPEM(), mode: mode)
                == "can be read by others (mode \(String(mode, radix: 8)))")
    }

    /// Read as text, all of them would become the same secret.
    @Test(arguments: [[0xff, 0xfe, 0x41] as [UInt8], [0x41, 0x00, 0x42], [0xc3, 0x28]])
    func token_ofBytesThatAreNoText_isRefused(bytes: [UInt8]) throws {
        let path = try ScratchFolder().path + "/token"
        try FileManager.default.createDirectory(
            atPath: String(path.dropLast(6)), withIntermediateDirectories: true)
        #expect(
            FileManager.default.createFile(
                atPath: path, contents: Data(bytes), attributes: [.posixPermissions: 0o600]))

        let fault = #expect(throws: ConfigurationFault.self) {
            try SecretFile.readToken(path, of: .forwarderTokenFile)
        }
        #expect(fault?.problems.first?.wrong.contains("no text") == true)
    }

    /// systemd lets a service in by an access control list, which looks like a right of the group.
    @Test(arguments: [
        (0o440, "", true), (0o400, "", true), (0o444, "", false), (0o460, "", false),
        (0o440, "/sub/..", false), (0o440, "-other", false),
    ])
    func read_ofACopyOfSystemd_mayBeTheGroups(
        mode: Int, detour: String, isRead: Bool
    ) throws {
        let folder = try ScratchFolder().path
        try FileManager.default.createDirectory(
            atPath: "\(folder)/own/sub", withIntermediateDirectories: true)
        try FileManager.default.createDirectory(
            atPath: "\(folder)/own-other", withIntermediateDirectories: true)
        for path in ["own/key", "own-other/key"] {
            #expect(
                FileManager.default.createFile(
                    atPath: "\(folder)/\(path)", contents: Data("a".utf8),
                    attributes: [.posixPermissions: mode]))
        }

        let text = try? SecretFile.read(
            "\(folder)/own\(detour)/key", credentialsIn: "\(folder)/own")

        #expect((text == "a") == isRead)
    }

    @Test func load_whenUnusable_saysWhy() throws {
        let p384 = """
            -----BEGIN PRIVATE KEY-----
            MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDDKWTYEc8vXuUH1eqEC
            T+A3SUN65+w8UD61wWioZWhXlXGBeR9XaDL//R2nbjYVWw+hZANiAASYDtGnMCHI
            Ecs9r4rRDYp6HvYIEHKZeWyIECuslICFKkrJvC/z6bKhtQS/idbkdZrkUlUF2uR5
            itjQJvOwQMvwO3g/I8eceOV1JaPFxsM0KALjn6m6FOEfKmwXzlTM/GU=
            -----END PRIVATE KEY-----
            """

        #expect(try fault(nil) == "cannot be opened: No such file or directory")
        #expect(try fault("nonsense") == "is not an unencrypted PEM private key")
        #expect(try fault(String(repeating: "a", count: 70_000)) == "is larger than 64 KiB")
        #expect(try fault(p384) == "is not a P-256 key")
        #expect(throws: SecretFile.Fault.self) { try SecretFile.readKey("/") }
        #expect(throws: SecretFile.Fault.self) { try SecretFile.readKey("") }
    }
}
