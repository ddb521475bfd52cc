internal import JOSE
internal import Pricing

/// A notification taken apart, the nested payloads too, without a proof of any of it.
struct NotificationParts {
    let rawSignedPayload: String
    private let payload: [UInt8]
    /// nil where the payload is no JSON object.
    let wire: WireNotification?
    /// nil where there is none, or where a part does not decode: half a pair must not pass for a
    /// whole.
    let pair: SignedPair?

    init(payload: [UInt8], rawSignedPayload: String) {
        self.payload = payload
        self.rawSignedPayload = rawSignedPayload
        wire = decodeWire(WireNotification.self, payload)
        pair = wire?.data.flatMap(Self.pair)
    }

    private static func pair(_ data: WireNotification.Container) -> SignedPair? {
        var pair = SignedPair()
        if let jws = data.signedTransactionInfo {
            guard let transaction = nested(WireTransaction.self, jws) else { return nil }
            pair.transaction = transaction
        }
        if let jws = data.signedRenewalInfo {
            guard let renewal = nested(WireRenewal.self, jws) else { return nil }
            pair.renewal = renewal
        }
        return pair.transaction == nil && pair.renewal == nil ? nil : pair
    }

    private static func nested<Model: Decodable>(_ type: Model.Type, _ jws: String) -> Model? {
        // What is no JWS is refused by the verifier; here it only has nothing to say.
        (try? CompactJWS(parsing: jws)).flatMap { decodeWire(type, $0.payload) }
    }

    func notification(receivedAt: Instant) -> VerifiedNotification {
        let uuid = wire?.notificationUUID?.text ?? ""
        let id = uuid.isEmpty ? "sha256:\(SHA256Hash.hex(payload))" : uuid
        let signedAt = wire?.signedDate?.instant ?? pair?.signedAt
        return VerifiedNotification(
            notificationUUID: id,
            type: wire?.notificationType?.text,
            subtype: wire?.subtype?.text,
            signedAt: signedAt ?? receivedAt,
            originalTransactionID: pair?.originalTransactionID,
            event: signedAt.flatMap { event(id: id, signedAt: $0) },
            rawSignedPayload: rawSignedPayload)
    }

    /// nil without a time of signing: an event that cannot be ordered must not be folded.
    private func event(id: String, signedAt: Instant) -> SubscriptionEvent? {
        guard let wire, let pair, let subscription = pair.originalTransactionID,
            pair.transaction?.isSubscription ?? true
        else { return nil }
        return SubscriptionEvent(
            key: SubscriptionEvent.Key(signedAt: signedAt, evidenceID: id),
            source: .notification,
            originalTransactionID: subscription,
            type: wire.notificationType?.text,
            subtype: wire.subtype?.text,
            status: wire.data?.status,
            transaction: pair.transaction?.statement,
            renewal: pair.renewal?.statement)
    }
}
