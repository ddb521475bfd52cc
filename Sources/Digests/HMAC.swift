internal import COpenSSL

/// The HMAC of RFC 2104 over SHA-256: who made a message knows the secret.
package enum HMAC {
    /// 32 bytes. As with a digest, the process ends where OpenSSL cannot compute one.
    package static func sha256(of message: [UInt8], secret: [UInt8]) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: Int(EVP_MAX_MD_SIZE)) { code, count in
            var length = 0
            let made = EVP_Q_mac(
                nil, "HMAC", nil, "SHA256", nil, secret, secret.count, message, message.count,
                code.baseAddress, Int(EVP_MAX_MD_SIZE), &length)
            precondition(made != nil, "OpenSSL cannot reckon an HMAC")
            count = length
        }
    }
}
