import Pricing
import ServiceKit

/// How a receiver recognises that a webhook is ours and new: `t=SECONDS,v1=HEX`, where HEX is HMAC-SHA256 with the
/// shared secret over `SECONDS.BODY`.
package enum WebhookSignature {
    package static let header = "Repricer-Signature"

    package static func value(
        of body: [UInt8], at milliseconds: Int64, secret: [UInt8]
    ) -> String {
        let seconds = String(milliseconds / 1000)
        let mac = authenticationCode(Array("\(seconds).".utf8) + body, secret: secret)
        return "t=\(seconds),v1=\(Hex.text(of: mac))"
    }

    /// The HMAC of RFC 2104 over SHA-256.
    package static func authenticationCode(_ message: [UInt8], secret: [UInt8]) -> [UInt8] {
        let blockSize = 64
        var key = secret.count > blockSize ? digest(secret) : secret
        key += [UInt8](repeating: 0, count: blockSize - key.count)
        let inner = digest(key.map { $0 ^ 0x36 } + message)
        return digest(key.map { $0 ^ 0x5C } + inner)
    }

    private static func digest(_ bytes: [UInt8]) -> [UInt8] {
        var hash = SHA256()
        hash.update(bytes)
        return hash.digest()
    }
}
