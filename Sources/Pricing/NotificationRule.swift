/// One row of the table of App Store Server Notifications V2: what a type with a subtype tells us, and what we do
/// with it. The table decides what is understood, and what becomes work for the fold.
///
/// It follows Apple's pages `notificationType` and `subtype`, and the changelogs after them.
package struct NotificationRule: Hashable, Sendable {
    /// Which body the notification carries, and what it must contain.
    package enum Body: String, Hashable, Sendable, CaseIterable {
        /// `data` with a transaction or a renewal of a subscription.
        case subscription
        /// `data` with a transaction of any product. One of a subscription is a statement about it.
        case purchase
        /// `data` without anything signed in it.
        case data
        case summary
        case appData
        case externalPurchaseToken
    }

    /// What folding it can change.
    package enum Effect: String, Hashable, Sendable, CaseIterable {
        /// The state of a change of ours, beside the facts.
        case lifecycle
        /// What is known of the subscription. A change of ours follows only where it was due anyway.
        case facts
        /// Nothing: it is kept as evidence and never folded.
        case nothing
    }

    package let type: String
    /// The subtype; nil for the type without one.
    package let subtype: String?
    package let body: Body
    package let effect: Effect

    init(_ type: String, _ subtype: String? = nil, _ body: Body, _ effect: Effect) {
        self.type = type
        self.subtype = subtype
        self.body = body
        self.effect = effect
    }

    private static let byType = Dictionary(grouping: all, by: \.type).mapValues { rules in
        Dictionary(rules.map { ($0.subtype, $0) }) { first, _ in first }
    }

    /// The row; nil where type or subtype is unknown. An empty subtype counts as none.
    package static func find(type: String?, subtype: String?) -> NotificationRule? {
        guard let type else { return nil }
        return byType[type]?[subtype.flatMap { $0.isEmpty ? nil : $0 }]
    }

    /// Whether there is a row of that type, whatever the subtype.
    package static func isKnown(type: String) -> Bool { byType[type] != nil }
}
