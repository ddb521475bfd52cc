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

    /// Whether it tells of an instant, and so of one subscription. Other answers are the same for many rows.
    package var holdsInstant: Bool {
        inputs.contains { input in
            if case .instant = input.value { true } else { false }
        }
    }
}

/// An increase of a subscription that took effect.
package struct PastIncrease: Hashable, Sendable {
    /// Who tells of it.
    package enum Source: String, Hashable, Sendable, CaseIterable {
        /// A statement that Apple signed.
        case statement
        /// A person, by `history import`.
        case imported
    }

    package var sku: String
    /// The renewal that charged it.
    package var at: Instant
    package var source: Source
    /// Whether a change of ours brought it.
    package var isOurs: Bool

    package init(
        sku: String, at: Instant, source: Source = .statement, isOurs: Bool = false
    ) {
        self.sku = sku
        self.at = at
        self.source = source
        self.isOurs = isOurs
    }
}
