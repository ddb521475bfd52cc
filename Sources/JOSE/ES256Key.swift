internal import COpenSSL
internal import Synchronization

/// A private key on P-256, for ES256 signatures.
package struct ES256PrivateKey: Sendable {
    let key: EVPKey

    /// Reads an unencrypted PEM key (PKCS #8 as in Apple's `.p8`, or SEC 1).
    package init(pem: String) throws(JOSEError) {
        guard let key = EVPKey.privateKey(pem: pem) else {
            throw JOSEError(.key, "not an unencrypted PEM private key")
        }
        guard key.isP256 else { throw JOSEError(.curve, "the key is not on the curve P-256") }
        self.key = key
    }

    /// The public key, which verifies this key's signatures.
    package var publicKey: ES256PublicKey { ES256PublicKey(checked: key) }

    /// Signs the SHA-256 of `message`. Returns r then s, 32 bytes each.
    package func signature(over message: [UInt8]) throws(JOSEError) -> [UInt8] {
        guard let context = EVP_MD_CTX_new() else { throw openSSLFailure("memory") }
        defer { EVP_MD_CTX_free(context) }
        var length = 128
        var der = [UInt8](repeating: 0, count: length)
        guard EVP_DigestSignInit(context, nil, Digest.sha256.pointer, nil, key.pointer) == 1,
            EVP_DigestSign(context, &der, &length, message, message.count) == 1
        else { throw openSSLFailure("signing") }
        let parsed = der.withUnsafeBufferPointer { buffer in
            var cursor = buffer.baseAddress
            return d2i_ECDSA_SIG(nil, &cursor, length)
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

/// A public key on P-256, for ES256 signatures, with a pool of OpenSSL contexts.
package final class ES256PublicKey: Sendable {
    /// The most contexts in the pool. Further ones are made when needed, and freed after use.
    private static let keptMax = 16

    let key: EVPKey
    private let free = Mutex<[VerificationContext]>([])

    /// The caller has checked that the key is on P-256.
    init(checked key: EVPKey) {
        self.key = key
    }

    /// True when `signature` is exactly 64 bytes (r then s) and right for the SHA-256 of `message`.
    package func isValid(signature: [UInt8], over message: [UInt8]) -> Bool {
        signature.withUnsafeBufferPointer { signature in
            message.withUnsafeBufferPointer { isValid(signature: signature, over: $0) }
        }
    }

    /// The same over buffers. OpenSSL refuses r or s of 0, or of the curve's order or more.
    func isValid(
        signature: UnsafeBufferPointer<UInt8>, over message: UnsafeBufferPointer<UInt8>
    ) -> Bool {
        // nil only where OpenSSL has no memory.
        guard let context = free.withLock({ $0.popLast() }) ?? VerificationContext(key: key)
        else { return false }
        defer {
            free.withLock { free in
                if free.count < Self.keptMax { free.append(context) }
            }
        }
        return context.isValid(signature: signature, over: message)
    }
}
