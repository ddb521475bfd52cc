package import Pricing

/// The counts of a completed mass extension (`summary`). A missing count is nil.
package struct ExtensionSummary: Hashable, Sendable {
    package var requestIdentifier: String?
    package var productID: String?
    /// The storefronts; nil for all.
    package var storefronts: [String]?
    package var succeeded: Int64?
    package var failed: Int64?
}

/// A notification that the App Store signed for our app, decoded as far as it can be.
///
/// Every extracted text has U+0000 replaced by U+FFFD, because PostgreSQL cannot store it.
package struct VerifiedNotification: Hashable, Sendable {
    /// The App Store's id, or `sha256:` and the payload's digest where there is none. Duplicates are recognised by it.
    package var notificationUUID: String
    /// The type as the App Store wrote it, known or not; nil where it is missing.
    package var type: String?
    package var subtype: String?
    /// The payload's `signedDate`, otherwise that of its parts, otherwise when we received it.
    package var signedAt: Instant
    package var originalTransactionID: String?
    /// The statement; nil where it says nothing about one subscription, or cannot be read.
    package var event: SubscriptionEvent?
    /// The summary of a `RENEWAL_EXTENSION`/`SUMMARY`.
    package var summary: ExtensionSummary?
    /// Whether the table has its type, subtype and body, and the body can be read.
    package var understood: Bool
    /// The parts that today's table and shapes do not know, each once and at most 16.
    package var unknown: [UnknownPart]

    /// Whether it must be folded. It must even if the type is unknown, because a signed statement about a subscription
    /// is valid whatever its occasion.
    package var isWork: Bool {
        event != nil && NotificationRule.find(type: type, subtype: subtype)?.effect != .nothing
    }
}
