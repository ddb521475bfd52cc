/// Which items of one subscription share a call, as their batch was submitted.
package enum RequestGrouping: String, Hashable, Sendable, CaseIterable {
    /// Those whose increase is only announced share one, decreases another, each that needs consent is alone.
    case announced
    /// None.
    case item
    /// All that can go at the same time, whatever they need. Apple does not say what a mixed request does.
    case subscription
}

/// Which items of one subscription share one Change Subscription Price request, unless their batch says otherwise
/// (`RequestGrouping`).
///
/// Items whose increase is only announced share one, because the subscriber then gets one summary. Each item
/// that needs consent is a request of its own, because Apple does not say what a mixed one does.
/// Decreases share one of their own: nobody is told of them, and Apple does not say that they may
/// travel with increases. Items that take effect at different renewals are never sent together.
package struct RequestGroup: Hashable, Sendable {
    package enum Kind: String, Hashable, Sendable, CaseIterable {
        case announced, consent, decrease

        package init(_ consent: Consent) {
            switch consent {
            case .required: self = .consent
            case .notRequired: self = .announced
            case .none: self = .decrease
            }
        }
    }

    package var kind: Kind
    package var effectiveAt: Instant
    /// In the order of the rows.
    package var skus: [String]

    /// The same for all items of a group, and different for each group of a subscription.
    package static func key(consent: Consent, effectiveAt: Instant, sku: String) -> String {
        let kind = Kind(consent)
        switch kind {
        case .announced, .decrease: return "\(kind.rawValue)/\(effectiveAt.text)"
        case .consent: return "\(kind.rawValue)/\(effectiveAt.text)/\(sku)"
        }
    }

    /// The same for all items that share a call under a batch's grouping; nil for one that goes alone.
    package static func key(
        _ grouping: RequestGrouping, consent: Consent, effectiveAt: Instant, sku: String
    ) -> String? {
        switch grouping {
        case .announced: key(consent: consent, effectiveAt: effectiveAt, sku: sku)
        case .item: nil
        case .subscription: "all"
        }
    }

    /// The requests for the rows of one subscription, in the order of their first rows; rows that cannot go
    /// are in none.
    package static func groups(of rows: [PlanRow]) -> [RequestGroup] {
        var groups: [RequestGroup] = []
        var places: [String: Int] = [:]
        for row in rows where row.fault == nil {
            guard let consent = row.consent, let effectiveAt = row.effectiveAt else { continue }
            let key = key(consent: consent, effectiveAt: effectiveAt, sku: row.sku)
            if let place = places[key] {
                groups[place].skus.append(row.sku)
            } else {
                places[key] = groups.count
                groups.append(
                    RequestGroup(kind: Kind(consent), effectiveAt: effectiveAt, skus: [row.sku]))
            }
        }
        return groups
    }
}
