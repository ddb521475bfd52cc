internal import COpenSSL
import Digests

/// The form in which PostgreSQL stores a password: a SCRAM-SHA-256 verifier (RFC 5802, RFC 7677). SQL that carries it
/// sets the password without revealing it to the server or its log.
package enum ScramVerifier {
    /// PostgreSQL's own default.
    private static let iterations: Int32 = 4096

    /// - Parameter password: Printable ASCII, which SASLprep leaves unchanged. Returns nil where OpenSSL failed.
    package static func text(of password: String, salt: [UInt8]) -> String? {
        let bytes = Array(password.utf8)
        var salted = [UInt8](repeating: 0, count: 32)
        let isDerived = bytes.withUnsafeBytes { raw in
            PKCS5_PBKDF2_HMAC(
                raw.baseAddress?.assumingMemoryBound(to: CChar.self), Int32(raw.count), salt,
                Int32(salt.count), iterations, EVP_sha256(), Int32(salted.count), &salted)
        }
        guard isDerived == 1, let clientKey = mac(of: "Client Key", salted),
            let serverKey = mac(of: "Server Key", salted)
        else { return nil }
        let storedKey = SHA256.digest(of: clientKey)
        return "SCRAM-SHA-256$\(iterations):\(Base64.encode(salt))"
            + "$\(Base64.encode(storedKey)):\(Base64.encode(serverKey))"
    }

    private static func mac(of message: String, _ key: [UInt8]) -> [UInt8]? {
        let message = Array(message.utf8)
        var code = [UInt8](repeating: 0, count: 32)
        guard HMAC(EVP_sha256(), key, Int32(key.count), message, message.count, &code, nil) != nil
        else { return nil }
        return code
    }
}
