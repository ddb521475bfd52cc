package import Pricing

/// The counts of a mass extension that is complete (`summary`). nil is what it doesn't say.
package struct ExtensionSummary: Hashable, Sendable {
    package var requestIdentifier: String?
    package var productID: String?
    /// nil: all.
    package var storefronts: [String]?
    package var succeeded: Int64?
    package var failed: Int64?
}

/// A notification that the App Store signed for our app, decoded as far as it can be.
///
/// Every extracted text has U+0000 replaced by U+FFFD, because PostgreSQL cannot store it.
package struct VerifiedNotification: Hashable, Sendable {
    /// The App Store's id, or `sha256:` and the payload's digest where it gave none: what
    /// deduplicates.
    package var notificationUUID: String
    /// As the App Store wrote it, known or not; nil where it is missing.
    package var type: String?
    package var subtype: String?
    /// The payload's `signedDate`, else that of its parts, else when we received it.
    package var signedAt: Instant
    package var originalTransactionID: String?
    /// nil for everything that says nothing about one subscription, or that we cannot read.
    package var event: SubscriptionEvent?
    /// Only of `RENEWAL_EXTENSION`/`SUMMARY`.
    package var summary: ExtensionSummary?
    /// Whether type, subtype and body are of the table, and the body can be read.
    package var understood: Bool
    /// What today's table and shapes do not know, each once; at most 16.
    package var unknown: [UnknownPart]

    /// Whether it is work for the fold. Also where the type is unknown: what is signed about a
    /// subscription holds whatever the occasion was.
    package var isWork: Bool {
        event != nil && NotificationRule.find(type: type, subtype: subtype)?.effect != .nothing
    }
}
