import COpenSSL
package import JOSE

/// Owns one private key.
///
/// Unchecked: it never changes after `init`, and each use makes its own context.
final class MadeKey: @unchecked Sendable {
    let pointer: OpaquePointer

    private init(owning pointer: OpaquePointer) {
        self.pointer = pointer
    }

    deinit { EVP_PKEY_free(pointer) }

    static func p256() throws(JOSEError) -> MadeKey {
        guard let key = shim_EVP_EC_gen_p256() else { throw openSSLFailure("key generation") }
        return MadeKey(owning: key)
    }

    static func p384() throws(JOSEError) -> MadeKey {
        guard let key = shim_EVP_EC_gen_p384() else { throw openSSLFailure("key generation") }
        return MadeKey(owning: key)
    }

    /// Every unencrypted private key of a PEM text, in its order.
    static func all(pem: String) -> [MadeKey] {
        everything(in: pem) { bio in
            PEM_read_bio_PrivateKey(bio, nil, { _, _, _, _ in 0 }, nil).map(MadeKey.init(owning:))
        }
    }

    /// PKCS #8, unencrypted: write it only to files that others cannot read.
    func pem() throws(JOSEError) -> String {
        try writtenPEM { bio in PEM_write_bio_PKCS8PrivateKey(bio, pointer, nil, nil, 0, nil, nil) }
    }
}

extension ES256PrivateKey {
    /// A new random key as PKCS #8 PEM, unencrypted: write it only to files that others cannot read.
    package static func newPEM() throws(JOSEError) -> String { try MadeKey.p256().pem() }

    /// A new random key.
    package static func generate() throws(JOSEError) -> ES256PrivateKey {
        try ES256PrivateKey(pem: newPEM())
    }
}

/// Owns one certificate.
///
/// Unchecked: it never changes once it is built.
final class MadeCertificate: @unchecked Sendable {
    let pointer: OpaquePointer

    init(owning pointer: OpaquePointer) {
        self.pointer = pointer
    }

    deinit { X509_free(pointer) }

    /// Every certificate of a PEM text, in its order.
    static func all(pem: String) -> [MadeCertificate] {
        everything(in: pem) { bio in
            PEM_read_bio_X509(bio, nil, { _, _, _, _ in 0 }, nil).map(
                MadeCertificate.init(owning:))
        }
    }

    func pem() throws(JOSEError) -> String {
        try writtenPEM { bio in PEM_write_bio_X509(bio, pointer) }
    }

    func der() throws(JOSEError) -> [UInt8] {
        try written { bio in i2d_X509_bio(bio, pointer) }
    }
}

/// The results of `read`, repeated until the text is exhausted.
private func everything<Part>(in text: String, _ read: (OpaquePointer) -> Part?) -> [Part] {
    defer { ERR_clear_error() }
    return Array(text.utf8).withUnsafeBytes { bytes in
        guard let bio = BIO_new_mem_buf(bytes.baseAddress, Int32(clamping: bytes.count)) else {
            return []
        }
        defer { BIO_free(bio) }
        var parts: [Part] = []
        while let part = read(bio) { parts.append(part) }
        return parts
    }
}

private func writtenPEM(_ write: (OpaquePointer) -> Int32) throws(JOSEError) -> String {
    String(decoding: try written(write), as: UTF8.self)
}

/// The bytes that `write` puts into a BIO.
private func written(_ write: (OpaquePointer) -> Int32) throws(JOSEError) -> [UInt8] {
    guard let bio = BIO_new(BIO_s_mem()) else { throw openSSLFailure("memory") }
    defer { BIO_free(bio) }
    guard write(bio) == 1 else { throw openSSLFailure("encoding") }
    var start: UnsafeMutablePointer<CChar>?
    let length = shim_BIO_get_mem_data(bio, &start)
    guard let start, length > 0 else { throw openSSLFailure("encoding") }
    return Array(UnsafeRawBufferPointer(start: start, count: length))
}

/// Empties the error queue, which is per thread and would mislead the next caller.
func openSSLFailure(_ what: String) -> JOSEError {
    ERR_clear_error()
    return JOSEError(.library, "\(what) failed inside OpenSSL")
}
