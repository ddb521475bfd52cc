import Digests
internal import JOSE
internal import JSON
internal import Pricing

/// A notification taken apart, with its nested payloads. Whoever makes it decides what of it is proved.
struct NotificationParts {
    /// The result of reading a nested JWS.
    enum Nested {
        case absent
        /// There is a value, but it cannot be read: it is no JWS, or contains no JSON object.
        case unreadable
        case read(JSONNode)

        init(_ json: JSONNode?) {
            self = json.map(Nested.read) ?? .unreadable
        }

        /// Reads a JWS that was verified before, or resolves the mark of one in a packed payload.
        init(_ value: JSONNode?, in packed: PackedPayload.Contents?) {
            guard let value, !value.isNull else {
                self = .absent
                return
            }
            let payload = value.text.flatMap { text in
                // The verifier refuses a text that is not a JWS; here such a text only gives no information.
                packed?.payload(markedBy: text) ?? (try? CompactJWS(parsing: text))?.payload
            }
            self.init(payload.flatMap { JSONDocument.read($0) })
        }
    }

    let payload: [UInt8]
    /// nil where the payload is no JSON object.
    let wire: WireNotification?
    /// nil where there is none, or where a part does not decode, because half a pair must not pass for a whole.
    let pair: SignedPair?

    /// Parses a notification that was verified before. `packed` has the nested payloads that marks in `payload` stand
    /// for.
    init(proved payload: [UInt8], packed: PackedPayload.Contents? = nil) {
        let wire = JSONDocument.read(payload).flatMap(WireNotification.init)
        self.init(
            payload: payload, wire: wire,
            transaction: Nested(wire?.data?["signedTransactionInfo"], in: packed),
            renewal: Nested(wire?.data?["signedRenewalInfo"], in: packed))
    }

    init(payload: [UInt8], wire: WireNotification?, transaction: Nested, renewal: Nested) {
        self.payload = payload
        self.wire = wire
        pair = SignedPair(transaction: transaction, renewal: renewal)
    }

    func notification(receivedAt: Instant) -> VerifiedNotification {
        let id = wire?.name ?? WireNotification.digestPrefix + SHA256.hexadecimalDigest(of: payload)
        let signedAt = wire?.signedDate ?? pair?.signedAt
        let event = signedAt.flatMap { self.event(id: id, signedAt: $0) }
        let understanding = understanding(of: event)
        return VerifiedNotification(
            notificationUUID: id,
            type: wire?.notificationType,
            subtype: wire?.subtype,
            signedAt: signedAt ?? receivedAt,
            originalTransactionID: pair?.originalTransactionID,
            event: event,
            summary: wire?.summary.map(ExtensionSummary.init),
            understood: understanding.isComplete,
            unknown: understanding.unknown)
    }

    /// The statement; nil without a time of signing, because an event that cannot be ordered must not be folded.
    private func event(id: String, signedAt: Instant) -> SubscriptionEvent? {
        guard let wire, let pair, let subscription = pair.originalTransactionID,
            pair.transaction?.isSubscription ?? true
        else { return nil }
        var event = SubscriptionEvent(
            key: SubscriptionEvent.Key(signedAt: signedAt, evidenceID: id),
            source: .notification, originalTransactionID: subscription)
        event.type = wire.notificationType
        event.subtype = wire.subtype
        event.status = wire.data?["status"]?.int
        event.transaction = pair.transaction?.statement
        event.renewal = pair.renewal?.statement
        return event
    }
}

extension ExtensionSummary {
    fileprivate init(_ json: JSONNode) {
        self.init(
            requestIdentifier: json["requestIdentifier"]?.storableText,
            productID: json["productId"]?.storableText,
            storefronts: json["storefrontCountryCodes"]?.texts,
            succeeded: json["succeededCount"]?.int64, failed: json["failedCount"]?.int64)
    }
}

extension SignedPair {
    /// nil where there is neither, or where one does not decode.
    init?(transaction: NotificationParts.Nested, renewal: NotificationParts.Nested) {
        switch transaction {
        case .absent: break
        case .unreadable: return nil
        case .read(let json):
            guard let transaction = WireTransaction(json) else { return nil }
            self.transaction = transaction
        }
        switch renewal {
        case .absent: break
        case .unreadable: return nil
        case .read(let json):
            guard let renewal = WireRenewal(json) else { return nil }
            self.renewal = renewal
        }
        if self.transaction == nil, self.renewal == nil { return nil }
    }
}
