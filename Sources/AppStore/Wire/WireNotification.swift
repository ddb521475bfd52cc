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

    /// What else of the App Store's it is, where it is no notification: every app gets such statements, signed by the same
    /// chain, and a forwarder may send the wrong one. Told by the fields that Apple documents for each and for no
    /// notification.
    var otherStatement: String? {
        guard json["notificationType"] == nil, json["notificationUUID"] == nil else { return nil }
        if json["transactionId"] != nil { return "a transaction" }
        if json["autoRenewProductId"] != nil || json["autoRenewStatus"] != nil {
            return "a renewal info"
        }
        if json["receiptType"] != nil || json["deviceVerification"] != nil {
            return "an app transaction"
        }
        return json["originalTransactionId"] == nil ? nil : "a transaction"
    }

    /// Every object in it: where no body is of a known kind, one that Apple invented since.
    var bodiesOfUnknownKind: [JSONNode] {
        var bodies: [JSONNode] = []
        json.forEachMember { _, value in
            if value.kind == .object { bodies.append(value) }
        }
        return bodies
    }
}
