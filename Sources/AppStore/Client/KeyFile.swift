internal import Glibc
package import JOSE

/// Loads the App Store key (`AuthKey_….p8`).
package enum KeyFile {
    /// A P-256 key in PEM takes about 250 bytes.
    private static let bytesMax = 64 << 10

    /// Reads and checks the key; throws with the path and a remedy, never with a byte of the
    /// content.
    package static func load(_ path: String) throws(KeyFileError) -> ES256PrivateKey {
        let text = try content(path)
        do {
            return try ES256PrivateKey(pem: text)
        } catch {
            throw KeyFileError(error.code == .curve ? .notP256 : .notAKey, path: path)
        }
    }

    private static func content(_ path: String) throws(KeyFileError) -> String {
        // A pipe without a writer would keep us waiting for ever.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else {
            throw KeyFileError(errno == ENOENT ? .missing : .unreadable, path: path)
        }
        defer { close(descriptor) }
        var facts = stat()
        guard fstat(descriptor, &facts) == 0, facts.st_mode & S_IFMT == S_IFREG else {
            throw KeyFileError(.unreadable, path: path)
        }
        // Judged on the open file, so that nobody swaps it between the look and the reading.
        guard facts.st_mode & (S_IRGRP | S_IWGRP | S_IROTH | S_IWOTH) == 0 else {
            throw KeyFileError(.exposed, path: path)
        }
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = read(descriptor, &buffer, buffer.count)
            if count < 0 && errno == EINTR { continue }
            guard count >= 0 else { throw KeyFileError(.unreadable, path: path) }
            if count == 0 { return String(decoding: bytes, as: UTF8.self) }
            bytes += buffer.prefix(count)
            guard bytes.count <= bytesMax else { throw KeyFileError(.notAKey, path: path) }
        }
    }
}

/// Why the App Store key cannot be used.
package struct KeyFileError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Code: String, Hashable, Sendable, CaseIterable {
        case missing = "key_file_missing"
        case unreadable = "key_file_unreadable"
        case exposed = "key_file_exposed"
        case notAKey = "key_file_not_a_key"
        case notP256 = "key_file_not_p256"
    }

    package var code: Code
    package var path: String

    init(_ code: Code, path: String) {
        self.code = code
        self.path = path
    }

    /// What is wrong and what to do.
    package var description: String {
        switch code {
        case .missing: "\(path) does not exist; set the path of the .p8 key"
        case .unreadable: "\(path) cannot be read; make it a file that this user may read"
        case .exposed: "\(path) is open to others than its owner; run chmod 600 on it"
        case .notAKey: "\(path) is not an unencrypted PEM private key; download the .p8 key again"
        case .notP256: "\(path) is not a P-256 key; use the In-App Purchase key"
        }
    }
}
