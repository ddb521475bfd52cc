package import JSONReading
package import Pricing

/// `responseBodyV2DecodedPayload`: the payload of a notification, with one of four bodies by its
/// kind.
package struct WireNotification: WireObject {
    package let json: JSONNode

    package init?(_ json: JSONNode) {
        guard json.kind == .object else { return nil }
        self.json = json
    }

    package var notificationType: String? { json["notificationType"]?.word }
    package var subtype: String? { json["subtype"]?.word }
    package var notificationUUID: String? { json["notificationUUID"]?.storableText }

    /// What it is known by: the `notificationUUID`. nil where that is missing or no name to keep something under:
    /// far longer than any of Apple's, or of a form that only we give.
    package var name: String? {
        guard let id = notificationUUID, !id.isEmpty, id.utf8.count <= Self.nameBytesMax,
            !Self.ownPrefixes.contains(where: id.hasPrefix)
        else { return nil }
        return id
    }

    /// Apple's have 36; an index of PostgreSQL takes 2,700.
    private static let nameBytesMax = 256
    package static let digestPrefix = "sha256:"
    private static let ownPrefixes = [digestPrefix, LegacyNotification.idPrefix]

    package var version: String? { json["version"]?.storableText }
    package var signedDate: Instant? { json["signedDate"]?.instant }
    package var data: Body? { json.object("data") }
    package var summary: Body? { json.object("summary") }
    package var appData: Body? { json.object("appData") }
    package var externalPurchaseToken: Body? { json.object("externalPurchaseToken") }
    /// No notification has it; a transaction posted in a notification's place does.
    package var bundleId: String? { json["bundleId"]?.storableText }

    /// Whether it is a transaction or a renewal posted in a notification's place.
    var isBareStatement: Bool { json["originalTransactionId"] != nil }

    /// Every object in it: where no body is of a known kind, one that Apple invented since.
    var bodiesOfUnknownKind: [Body] {
        var bodies: [Body] = []
        json.forEachMember { _, value in
            if let body = Body(value) { bodies.append(body) }
        }
        return bodies
    }

    /// The union of the four bodies' fields.
    package struct Body: WireObject {
        package let json: JSONNode

        package init?(_ json: JSONNode) {
            guard json.kind == .object else { return nil }
            self.json = json
        }

        /// Absent in Sandbox.
        package var appAppleId: Int64? { json["appAppleId"]?.int64 }
        package var bundleId: String? { json["bundleId"]?.storableText }
        package var bundleVersion: String? { json["bundleVersion"]?.storableText }
        package var environment: String? { json["environment"]?.storableText }

        /// 1 active, 2 expired, 3 billing retry, 4 grace period, 5 revoked.
        package var status: Int? { json["status"]?.int }
        package var signedTransactionInfo: String? { json["signedTransactionInfo"]?.text }
        package var signedRenewalInfo: String? { json["signedRenewalInfo"]?.text }
        package var consumptionRequestReason: String? {
            json["consumptionRequestReason"]?.storableText
        }

        package var requestIdentifier: String? { json["requestIdentifier"]?.storableText }
        package var productId: String? { json["productId"]?.storableText }
        package var storefrontCountryCodes: WireList<String>? {
            json.texts("storefrontCountryCodes")
        }
        package var succeededCount: Int64? { json["succeededCount"]?.int64 }
        package var failedCount: Int64? { json["failedCount"]?.int64 }

        /// Begins with `SANDBOX` where the token is one of Sandbox.
        package var externalPurchaseId: String? { json["externalPurchaseId"]?.storableText }
        package var tokenCreationDate: Instant? { json["tokenCreationDate"]?.instant }
        package var tokenExpirationDate: Instant? { json["tokenExpirationDate"]?.instant }
        package var tokenType: String? { json["tokenType"]?.storableText }

        package var signedAppTransactionInfo: String? { json["signedAppTransactionInfo"]?.text }
    }
}
