import Digests
import ServiceKit

/// How a receiver recognises that a webhook is ours and new: `t=SECONDS,v1=HEX`, where HEX is HMAC-SHA256 with the
/// shared secret over `SECONDS.BODY`.
package enum WebhookSignature {
    package static let header = "Repricer-Signature"

    package static func value(
        of body: [UInt8], at milliseconds: Int64, secret: [UInt8]
    ) -> String {
        let seconds = String(milliseconds / 1000)
        let mac = HMAC.sha256(of: Array("\(seconds).".utf8) + body, secret: secret)
        return "t=\(seconds),v1=\(Hex.text(of: mac))"
    }
}
