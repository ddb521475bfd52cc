internal import JSON
package import Pricing

extension NotificationVerifier {
    /// Decodes a payload that was verified before and stored packed, without base64 and headers:
    /// ten times faster than from its text.
    ///
    /// Throws where the bytes are damaged; a payload that does not read as a notification is no error.
    ///
    /// - Parameters:
    ///   - packed: From our own database only: nothing is proved here.
    ///   - receivedAt: Stands in where the payload has no time of its own.
    package static func decode(
        packed: PackedPayload, receivedAt: Instant
    ) throws(PackedPayload.Damage) -> VerifiedNotification {
        let contents = try packed.contents()
        // Without an id of its own, its id is the digest of the whole payload.
        if !contents.isAmbiguous {
            let parts = NotificationParts(proved: contents.payload, packed: contents)
            if parts.wire?.name != nil { return parts.notification(receivedAt: receivedAt) }
        }
        return decode(signedPayload: try packed.text(), receivedAt: receivedAt)
    }
}

extension PackedPayload.Contents {
    /// Whether each of the payloads is JSON.
    package var isJSON: Bool {
        ([payload] + nested).allSatisfy { JSONDocument.read($0) != nil }
    }
}
