/// Whether the subscriber must agree.
package enum Consent: String, Hashable, Sendable, CaseIterable {
    case required
    /// No rule says yes, and one can't say no. It is dated and sent as if consent were required.
    case notKnown = "not_known"
    /// An increase that is only announced.
    case notRequired = "not_required"
    /// A decrease.
    case none
}

/// A rule that may require consent; in the order in which they are listed.
package enum ConsentReason: String, Hashable, Sendable, CaseIterable {
    case alwaysConsentStorefront = "always_consent_storefront"
    case threshold
    case increaseWithin12Months = "increase_within_12_months"
    case koreaOfferConversion = "korea_offer_conversion"
}

/// One rule, what it looked at and what it said.
package struct RuleAnswer: Hashable, Sendable {
    package var rule: ConsentReason
    /// Nil: not known.
    package var answer: Bool?
    package var inputs: [Input]

    package struct Input: Hashable, Sendable {
        package var name: String
        package var value: Value
    }

    package enum Value: Hashable, Sendable {
        case flag(Bool)
        case number(Int64)
        case text(String)
        case instant(Instant)
        /// Not known.
        case missing
    }
}

/// An earlier increase of a subscription: `at` is when it took effect, else when it was communicated.
package struct PastIncrease: Hashable, Sendable {
    package var sku: String
    package var at: Instant

    package init(sku: String, at: Instant) {
        self.sku = sku
        self.at = at
    }
}
