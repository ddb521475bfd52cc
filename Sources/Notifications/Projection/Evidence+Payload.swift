package import AppStore
package import Facts
package import Pricing

extension Evidence {
    /// The `signedPayload`, to the byte. `decoded` serves those who only need its content.
    package func signedPayload() throws(PackedPayload.Damage) -> String {
        switch self {
        case .whole(let text): text
        case .packed(let bytes, let headers):
            try PackedPayload(bytes: bytes, headers: headers.map(\.text)).text()
        }
    }

    /// The content, which was verified when it was stored.
    ///
    /// - Parameter receivedAt: Used where the payload has no time of its own.
    package func decoded(receivedAt: Instant) throws(PackedPayload.Damage) -> VerifiedNotification {
        switch self {
        case .whole(let text):
            NotificationVerifier.decode(signedPayload: text, receivedAt: receivedAt)
        case .packed(let bytes, let headers):
            try NotificationVerifier.decode(
                packed: PackedPayload(bytes: bytes, headers: headers.map(\.text)),
                receivedAt: receivedAt)
        }
    }
}
