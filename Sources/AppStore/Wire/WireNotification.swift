internal import JSON
internal import Pricing

/// `responseBodyV2DecodedPayload`: the payload of a notification, with one of four bodies by its
/// kind.
struct WireNotification: WireObject {
    let json: JSONNode

    var notificationType: String? { json["notificationType"]?.word }
    var subtype: String? { json["subtype"]?.word }
    var signedDate: Instant? { json["signedDate"]?.instant }
    var data: JSONNode? { json.object("data") }
    var summary: JSONNode? { json.object("summary") }
    var appData: JSONNode? { json.object("appData") }
    var externalPurchaseToken: JSONNode? { json.object("externalPurchaseToken") }

    /// What it is known by: the `notificationUUID`. nil where that is missing or no name to keep something under:
    /// far longer than any of Apple's, or of a form that only we give.
    var name: String? {
        guard let id = json["notificationUUID"]?.storableText, !id.isEmpty,
            id.utf8.count <= Self.nameBytesMax, !Self.ownPrefixes.contains(where: id.hasPrefix)
        else { return nil }
        return id
    }

    /// Apple's have 36; an index of PostgreSQL takes 2,700.
    private static let nameBytesMax = 256
    static let digestPrefix = "sha256:"
    private static let ownPrefixes = [digestPrefix, LegacyNotification.idPrefix]

    /// What it is, where it is no notification: every app gets other statements that the same chain has signed, and a
    /// forwarder may send the wrong one. Every notification of Apple's has `notificationType` and `notificationUUID`; one of
    /// them, or one of the four bodies, is enough to be kept, whatever else is new; so is a payload that nobody can read as
    /// JSON, for it may be either. What has none of them is told by the fields that Apple documents for each statement and
    /// for no notification.
    var otherStatement: String? {
        guard !isNamed("notificationType"), !isNamed("notificationUUID"), data == nil,
            summary == nil,
            appData == nil, externalPurchaseToken == nil
        else { return nil }
        if json["requestIdentifier"] != nil, json["userLocale"] != nil {
            return "a request for a retention message"
        }
        if json["transactionId"] != nil { return "a transaction" }
        if json["autoRenewProductId"] != nil || json["autoRenewStatus"] != nil {
            return "a renewal info"
        }
        if json["receiptType"] != nil || json["deviceVerification"] != nil {
            return "an app transaction"
        }
        return json["originalTransactionId"] == nil
            ? "a JSON object without notificationType and notificationUUID" : "a transaction"
    }

    private func isNamed(_ field: StaticString) -> Bool { json[field].map { !$0.isNull } ?? false }

    /// Every object in it: where no body is of a known kind, one that Apple invented since.
    var bodiesOfUnknownKind: [JSONNode] {
        var bodies: [JSONNode] = []
        json.forEachMember { _, value in
            if value.kind == .object { bodies.append(value) }
        }
        return bodies
    }
}
