internal import JSON
internal import Pricing

/// `responseBodyV2DecodedPayload`: the payload of a notification, with one of four bodies according to its kind.
struct WireNotification: WireObject {
    let json: JSONNode

    var notificationType: String? { json["notificationType"]?.word }
    var subtype: String? { json["subtype"]?.word }
    var signedDate: Instant? { json["signedDate"]?.instant }
    var data: JSONNode? { json.object("data") }
    var summary: JSONNode? { json.object("summary") }
    var appData: JSONNode? { json.object("appData") }
    var externalPurchaseToken: JSONNode? { json.object("externalPurchaseToken") }

    /// Its id, the `notificationUUID`; nil where that is missing or cannot be a key, because it is far longer than
    /// Apple's ids or has a prefix that only we use.
    var name: String? {
        guard let id = json["notificationUUID"]?.storableText, !id.isEmpty,
            id.utf8.count <= Self.nameBytesMax, !Self.ownPrefixes.contains(where: id.hasPrefix)
        else { return nil }
        return id
    }

    /// The longest name. Apple's have 36 characters, and an index of PostgreSQL takes 2,700.
    private static let nameBytesMax = 256
    static let digestPrefix = "sha256:"
    /// The beginning of the ids that V1 notifications get.
    static let legacyPrefix = "v1:"
    private static let ownPrefixes = [digestPrefix, legacyPrefix]

    /// What the payload is, if it is no notification; otherwise nil. Apple's chain also signs other statements that
    /// every app gets, and a forwarder may send the wrong one. Every notification of Apple's has `notificationType` and
    /// `notificationUUID`. One of them, or one of the four bodies, is enough to store it, whatever else is new. A
    /// payload that is not JSON is stored too, because it may be either. A payload with none of them is recognised by
    /// fields that Apple documents for another statement but for no notification.
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

    /// Every object in it: where no body is of a known kind, one of them may be a kind that Apple has added since.
    var bodiesOfUnknownKind: [JSONNode] {
        var bodies: [JSONNode] = []
        json.forEachMember { _, value in
            if value.kind == .object { bodies.append(value) }
        }
        return bodies
    }
}
