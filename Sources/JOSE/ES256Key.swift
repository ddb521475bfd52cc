internal import COpenSSL

/// A private key on P-256, for ES256 signatures.
package struct ES256PrivateKey: Sendable {
    let key: EVPKey

    init(key: EVPKey) throws(JOSEError) {
        guard key.isP256 else { throw JOSEError(.curve, "the key is not on the curve P-256") }
        self.key = key
    }

    /// Reads an unencrypted PEM key (PKCS #8 as in Apple's `.p8`, or SEC 1).
    package init(pem: String) throws(JOSEError) {
        guard let key = EVPKey.privateKey(pem: pem) else {
            throw JOSEError(.key, "not an unencrypted PEM private key")
        }
        try self.init(key: key)
    }

    /// A new random key.
    package static func generate() throws(JOSEError) -> ES256PrivateKey {
        try ES256PrivateKey(key: .generateP256())
    }

    /// The key as PKCS #8 PEM, unencrypted: write it only to files that others cannot read.
    package func pem() throws(JOSEError) -> String { try key.privatePEM() }

    /// The half that checks.
    package var publicKey: ES256PublicKey { ES256PublicKey(checked: key) }

    /// Signs the SHA-256 of `message`; the answer is r then s, 32 bytes each.
    package func signature(over message: some Collection<UInt8>) throws(JOSEError) -> [UInt8] {
        let der = try derSignature(over: Array(message))
        return try rawSignature(der: der)
    }

    private func derSignature(over message: [UInt8]) throws(JOSEError) -> [UInt8] {
        guard let context = EVP_MD_CTX_new() else { throw openSSLFailure("memory") }
        defer { EVP_MD_CTX_free(context) }
        var length = 128
        var der = [UInt8](repeating: 0, count: length)
        guard EVP_DigestSignInit(context, nil, Digest.sha256.pointer, nil, key.pointer) == 1,
            EVP_DigestSign(context, &der, &length, message, message.count) == 1
        else { throw openSSLFailure("signing") }
        return Array(der.prefix(length))
    }

    private func rawSignature(der: [UInt8]) throws(JOSEError) -> [UInt8] {
        let parsed = der.withUnsafeBufferPointer { buffer in
            var cursor = buffer.baseAddress
            return d2i_ECDSA_SIG(nil, &cursor, buffer.count)
        }
        guard let parsed else { throw openSSLFailure("signing") }
        defer { ECDSA_SIG_free(parsed) }
        var r = [UInt8](repeating: 0, count: 32)
        var s = r
        guard BN_bn2binpad(ECDSA_SIG_get0_r(parsed), &r, 32) == 32,
            BN_bn2binpad(ECDSA_SIG_get0_s(parsed), &s, 32) == 32
        else { throw openSSLFailure("signing") }
        return r + s
    }
}

/// A public key on P-256, for ES256 signatures.
package struct ES256PublicKey: Sendable {
    let key: EVPKey
    private let contexts: VerificationContexts

    fileprivate init(checked key: EVPKey) {
        self.key = key
        contexts = VerificationContexts(key: key)
    }

    init(key: EVPKey) throws(JOSEError) {
        guard key.isP256 else { throw JOSEError(.curve, "the key is not on the curve P-256") }
        self.init(checked: key)
    }

    /// Reads a PEM `PUBLIC KEY`.
    package init(pem: String) throws(JOSEError) {
        guard let key = EVPKey.publicKey(pem: pem) else {
            throw JOSEError(.key, "not a PEM public key")
        }
        try self.init(key: key)
    }

    /// Reads a DER SubjectPublicKeyInfo.
    package init(der: [UInt8]) throws(JOSEError) {
        guard let key = EVPKey.publicKey(der: der) else {
            throw JOSEError(.key, "not a DER public key")
        }
        try self.init(key: key)
    }

    /// The key as PEM `PUBLIC KEY`.
    package func pem() throws(JOSEError) -> String { try key.publicPEM() }

    /// True when `signature` is exactly 64 bytes (r then s) and right for the SHA-256 of `message`.
    package func isValid(
        signature: some Collection<UInt8>, over message: some Collection<UInt8>
    ) -> Bool {
        Array(signature).withUnsafeBufferPointer { signature in
            message.withContiguousStorageIfAvailable { isValid(signature: signature, over: $0) }
                ?? Array(message).withUnsafeBufferPointer {
                    isValid(signature: signature, over: $0)
                }
        }
    }

    /// The same over memory. r and s of 0, or of the curve's order and more, are refused by OpenSSL.
    func isValid(
        signature: UnsafeBufferPointer<UInt8>, over message: UnsafeBufferPointer<UInt8>
    ) -> Bool {
        guard let context = contexts.take() else { return false }
        defer { contexts.giveBack(context) }
        return context.isValid(signature: signature, over: message)
    }
}
