internal import COpenSSL

/// Owns one `EVP_PKEY`.
///
/// Unchecked: the pointer is never changed after `init`, and OpenSSL 3 allows concurrent signing,
/// verifying and exporting with one key because each operation makes its own context.
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

    static func generateP256() throws(JOSEError) -> EVPKey {
        guard let key = shim_EVP_EC_gen_p256() else { throw openSSLFailure("key generation") }
        return EVPKey(owning: key)
    }

    static func generateP384() throws(JOSEError) -> EVPKey {
        guard let key = shim_EVP_EC_gen_p384() else { throw openSSLFailure("key generation") }
        return EVPKey(owning: key)
    }

    /// Reads an unencrypted private key; nil when there is none.
    static func privateKey(pem: String) -> EVPKey? {
        withMemoryBIO(Array(pem.utf8)) { bio in
            // An encrypted key must fail here, not ask for a password on the terminal.
            PEM_read_bio_PrivateKey(bio, nil, { _, _, _, _ in 0 }, nil).map(EVPKey.init(owning:))
        }
    }

    /// Every unencrypted private key of a PEM text, in its order.
    static func privateKeys(pem: String) -> [EVPKey] {
        withMemoryBIO(Array(pem.utf8)) { bio in
            var keys: [EVPKey] = []
            while let key = PEM_read_bio_PrivateKey(bio, nil, { _, _, _, _ in 0 }, nil) {
                keys.append(EVPKey(owning: key))
            }
            return keys
        } ?? []
    }

    static func publicKey(pem: String) -> EVPKey? {
        withMemoryBIO(Array(pem.utf8)) { bio in
            PEM_read_bio_PUBKEY(bio, nil, { _, _, _, _ in 0 }, nil).map(EVPKey.init(owning:))
        }
    }

    static func publicKey(der: [UInt8]) -> EVPKey? {
        der.withUnsafeBufferPointer { buffer in
            var cursor = buffer.baseAddress
            let key = d2i_PUBKEY(nil, &cursor, buffer.count)
            if key == nil { ERR_clear_error() }
            return key.map(EVPKey.init(owning:))
        }
    }

    func privatePEM() throws(JOSEError) -> String {
        try writtenPEM { bio in PEM_write_bio_PKCS8PrivateKey(bio, pointer, nil, nil, 0, nil, nil) }
    }

    func publicPEM() throws(JOSEError) -> String {
        try writtenPEM { bio in PEM_write_bio_PUBKEY(bio, pointer) }
    }
}

/// Reads with `body` from a BIO over `bytes`; what OpenSSL left in its error queue is dropped.
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

/// The text that `write` puts into a BIO.
func writtenPEM(_ write: (OpaquePointer) -> Int32) throws(JOSEError) -> String {
    guard let bio = BIO_new(BIO_s_mem()) else { throw openSSLFailure("memory") }
    defer { BIO_free(bio) }
    guard write(bio) == 1 else { throw openSSLFailure("PEM encoding") }
    var start: UnsafeMutablePointer<CChar>?
    let length = shim_BIO_get_mem_data(bio, &start)
    guard let start, length > 0 else { throw openSSLFailure("PEM encoding") }
    return UnsafeRawBufferPointer(start: start, count: length)
        .withMemoryRebound(to: UInt8.self) { String(decoding: $0, as: UTF8.self) }
}

/// For failures that no input causes. The error queue is emptied: it is per thread and would
/// mislead the next.
func openSSLFailure(_ what: String) -> JOSEError {
    ERR_clear_error()
    return JOSEError(.library, "\(what) failed inside OpenSSL")
}
