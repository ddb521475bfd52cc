/// Which items of one subscription share a call, as their batch was submitted.
package enum RequestGrouping: String, Hashable, Sendable, CaseIterable {
    /// Increases that are only announced share a call, decreases share another, and each increase that may need
    /// consent is alone.
    case announced
    /// No items share a call.
    case item
    /// All items that can be sent at the same time share a call. Apple does not say what a mixed request does.
    case subscription
}

/// Which items of one subscription share one Change Subscription Price request, unless their batch says otherwise
/// (`RequestGrouping`).
///
/// Items whose increase is only announced share one, because the subscriber then gets one summary. Each item that needs
/// consent, or may need it, has a request of its own, because Apple does not say what a mixed one does. Decreases share
/// another request: customers are not told of them, and Apple does not say that they may be mixed with increases. Items
/// that take effect at different renewals are never sent together.
package enum RequestGroup {
    enum Kind: String {
        case announced, consent, decrease

        init(_ consent: Consent) {
            switch consent {
            case .required, .notKnown: self = .consent
            case .notRequired: self = .announced
            case .none: self = .decrease
            }
        }
    }

    /// A key that is the same for all items that share a call under a batch's grouping; nil for an item that goes
    /// alone.
    package static func key(
        _ grouping: RequestGrouping, consent: Consent, effectiveAt: Instant, sku: String
    ) -> String? {
        switch grouping {
        case .item: return nil
        case .subscription: return "all"
        case .announced:
            let kind = Kind(consent)
            let key = "\(kind.rawValue)/\(effectiveAt.text)"
            return kind == .consent ? "\(key)/\(sku)" : key
        }
    }
}
