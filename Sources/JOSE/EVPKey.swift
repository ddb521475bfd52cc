internal import COpenSSL

/// Owns one `EVP_PKEY`.
///
/// Unchecked: the pointer never changes after `init`, and OpenSSL 3 allows concurrent signing and verifying with one
/// key, because each operation has its own context.
final class EVPKey: @unchecked Sendable {
    let pointer: OpaquePointer

    init(owning pointer: OpaquePointer) {
        self.pointer = pointer
    }

    deinit { EVP_PKEY_free(pointer) }

    /// True for keys on NIST P-256 under its own name.
    var isP256: Bool {
        var name = [CChar](repeating: 0, count: 64)
        var length = 0
        guard EVP_PKEY_get_group_name(pointer, &name, name.count, &length) == 1 else {
            ERR_clear_error()
            return false
        }
        return name.prefix(length).elementsEqual("prime256v1".utf8.lazy.map(CChar.init))
    }

    /// Reads an unencrypted private key; nil when there is none.
    static func privateKey(pem: String) -> EVPKey? {
        withMemoryBIO(Array(pem.utf8)) { bio in
            // An encrypted key must fail here, not ask for a password on the terminal.
            PEM_read_bio_PrivateKey(bio, nil, { _, _, _, _ in 0 }, nil).map(EVPKey.init(owning:))
        }
    }
}

/// Runs `body` with a BIO over `bytes`, and then empties OpenSSL's error queue.
func withMemoryBIO<T>(_ bytes: [UInt8], _ body: (OpaquePointer) -> T?) -> T? {
    defer { ERR_clear_error() }
    return bytes.withUnsafeBytes { buffer in
        guard let length = Int32(exactly: buffer.count),
            let bio = BIO_new_mem_buf(buffer.baseAddress, length)
        else { return nil }
        defer { BIO_free(bio) }
        return body(bio)
    }
}

/// The error for failures that no input causes. It empties the error queue, which is per thread and would mislead the
/// next caller.
func openSSLFailure(_ what: String) -> JOSEError {
    ERR_clear_error()
    return JOSEError(.library, "\(what) failed inside OpenSSL")
}
