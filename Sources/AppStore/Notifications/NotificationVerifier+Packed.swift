internal import JOSE
internal import JSON
package import Pricing

extension NotificationVerifier {
    /// Decodes a payload that was verified before and stored packed, without base64 and headers:
    /// ten times faster than from its text.
    ///
    /// `rawSignedPayload` of the result is empty. Throws where the bytes are damaged; a payload that
    /// does not read as a notification is no error.
    ///
    /// - Parameters:
    ///   - packed: From our own database only: nothing is proved here.
    ///   - receivedAt: Stands in where the payload has no time of its own.
    package static func decode(
        packed: PackedPayload, receivedAt: Instant
    ) throws(PackedPayload.Damage) -> VerifiedNotification {
        let contents = try packed.contents()
        // Without an id of its own, the digest of the whole payload is its id.
        guard !contents.isAmbiguous,
            let wire = JSONDocument.read(contents.payload).flatMap(WireNotification.init),
            wire.name != nil
        else {
            return decode(signedPayload: try packed.text(), receivedAt: receivedAt)
        }
        return NotificationParts(
            payload: contents.payload, rawSignedPayload: "", wire: wire,
            transaction: contents.nested(wire.data?["signedTransactionInfo"]),
            renewal: contents.nested(wire.data?["signedRenewalInfo"])
        ).notification(receivedAt: receivedAt)
    }
}

extension PackedPayload.Contents {
    /// Whether each of the payloads is JSON.
    package var isJSON: Bool {
        ([payload] + nested).allSatisfy { JSONDocument.read($0) != nil }
    }

    fileprivate func nested(_ value: JSONNode?) -> NotificationParts.Nested {
        guard let value, !value.isNull else { return .absent }
        guard let text = value.text else { return .unreadable }
        // What was not taken apart still stands there as it was.
        let payload = payload(markedBy: text) ?? (try? CompactJWS(parsing: text))?.payload
        return NotificationParts.Nested(payload.flatMap { JSONDocument.read($0) })
    }
}
