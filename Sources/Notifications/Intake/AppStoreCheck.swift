package import AppStore
import Facts
import Pricing

/// The check that Apple's own notifications must pass.
package func appStoreCheck(_ verifier: NotificationVerifier) -> NotificationCheck {
    let packer = PayloadPacker()
    return { signedPayload, now throws(NotificationRefusal) in
        do throws(NotificationError) {
            let notification = try verifier.verify(
                signedPayload: signedPayload, nowMilliseconds: now)
            return arrival(notification, of: signedPayload, packedBy: packer)
        } catch {
            let kind: NotificationRefusal.Kind =
                switch error {
                case .malformed, .otherStatement: .malformed
                case .refused: .forbidden
                }
            throw NotificationRefusal(kind, code: error.code, message: error.detail)
        }
    }
}

private func arrival(
    _ notification: VerifiedNotification, of signedPayload: String, packedBy packer: PayloadPacker
) -> Arrival {
    Arrival(
        notificationUUID: notification.notificationUUID,
        signedAtMilliseconds: notification.signedAt.milliseconds,
        type: notification.type, subtype: notification.subtype,
        originalTransactionID: notification.originalTransactionID,
        understood: notification.understood, isWork: notification.isWork,
        unknown: notification.unknown.map(\.description),
        evidence: Evidence(packing: signedPayload, by: packer))
}

extension Evidence {
    /// Packs a payload, or keeps it whole where packing would not give it back to the byte.
    init(packing signedPayload: String, by packer: PayloadPacker) {
        if let packed = packer.pack(signedPayload) {
            self = .packed(
                packed.bytes,
                headers: packed.headers.map { SigningHeader(digest: $0.digest, text: $0.text) })
        } else {
            self = .whole(signedPayload)
        }
    }
}
