/// Why a subscription's renewal date cannot be extended, according to the newest facts. Apple decides. The reasons
/// come from "Extending the renewal date for auto-renewable subscriptions".
package enum ExtensionObstacle: String, Hashable, Sendable, CaseIterable {
    case unknownSubscription = "unknown_subscription"
    case familyMember = "family_member"
    case assignedSeat = "assigned_seat"
    case revoked
    case expired
    case billingRetry = "billing_retry"
    case gracePeriod = "grace_period"
    case freeOffer = "free_offer"
    case twoWithinAYear = "two_within_365_days"
    case extensionOpen = "extension_open"

    /// What is the case, and what to do.
    package var meaning: String {
        switch self {
        case .unknownSubscription:
            "nothing was ever received of it; check the id, or read its state with repricer sync"
        case .familyMember:
            "a family member's; extend the purchaser's subscription, and this one moves along"
        case .assignedSeat:
            "an assigned seat; extend the purchaser's subscription"
        case .revoked: "it was refunded or revoked"
        case .expired: "it has expired"
        case .billingRetry:
            "its renewal failed and is in billing retry; extend it once it recovered"
        case .gracePeriod:
            "its renewal failed and it lives on in a grace period; extend it once it recovered"
        case .freeOffer: "its running period is free; extend it once a period was paid"
        case .twoWithinAYear:
            "its customer has had two extensions within 365 days, told or under way"
        case .extensionOpen: "another extension of it is under way; see repricer extend status"
        }
    }
}

/// Judges whether a renewal date can be extended. It is pure.
package enum ExtensionEligibility {
    static let year = 365 * Instant.millisecondsPerDay
    static let extensionsMax = 2

    /// - Parameters:
    ///   - facts: The facts; nil where nothing is known.
    ///   - extendedAt: When the customer had earlier extensions. Apple allows two a year for each customer, counted
    ///     over all subscriptions (an inference).
    ///   - openElsewhere: How many requests of ours may still extend other subscriptions of the customer.
    ///   - hasOpen: Whether another request of ours may still extend it.
    package static func obstacle(
        _ facts: SubscriptionFacts?, extendedAt: [Instant], openElsewhere: Int = 0, hasOpen: Bool,
        now: Instant
    ) -> ExtensionObstacle? {
        guard let facts, facts.signedAt != nil else { return .unknownSubscription }
        switch facts.holder {
        case .familyMember: return .familyMember
        // AssignedSubscriptionExtensionIneligible, 4030028.
        case .assignedSeat: return .assignedSeat
        case nil: break
        }
        switch facts.status {
        case 2: return .expired
        case 3: return .billingRetry
        case 4:
            // A charge may fail, and the grace period may begin, before the period has ended. Such a period may be
            // extended.
            if facts.expiresAt.map({ $0 <= now }) ?? true { return .gracePeriod }
        case 5: return .revoked
        case .some, .none: if facts.isInBillingRetry { return .billingRetry }
        }
        // The renewal is off and its day has passed, so the subscription has expired, though no statement says so
        // yet.
        if facts.autoRenews == false, let expiresAt = facts.expiresAt, expiresAt < now {
            return .expired
        }
        if isFree(facts) { return .freeOffer }
        let recent = extendedAt.count { $0 > now.advanced(by: -year) }
        if recent + openElsewhere >= extensionsMax { return .twoWithinAYear }
        return hasOpen ? .extensionOpen : nil
    }

    /// Whether the running period is a free trial, or every item of it is in an offer that costs nothing. A paid item
    /// makes the period a paid one (an inference: Apple's page knows only subscriptions of one item).
    private static func isFree(_ facts: SubscriptionFacts) -> Bool {
        let charged = facts.items.filter { $0.currentPrice != nil }
        // An ordinary subscription has no items.
        guard !charged.isEmpty else { return facts.offerDiscountType == "FREE_TRIAL" }
        return charged.allSatisfy { $0.offer?.chargedPrice == 0 }
    }
}
