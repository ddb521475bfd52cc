/// Whether the subscriber must agree.
package enum Consent: String, Hashable, Sendable, CaseIterable {
    case required
    /// No rule says yes, and one cannot say no. It is dated and sent as if consent were required.
    case notKnown = "not_known"
    /// It is an increase that is only announced.
    case notRequired = "not_required"
    /// It is a decrease.
    case none
}

/// A rule that may require consent. The cases stand in the order in which they are listed.
package enum ConsentReason: String, Hashable, Sendable, CaseIterable {
    case alwaysConsentStorefront = "always_consent_storefront"
    case threshold
    case increaseWithin12Months = "increase_within_12_months"
    case koreaOfferConversion = "korea_offer_conversion"
}

/// One rule with its inputs and its answer.
package struct RuleAnswer: Hashable, Sendable {
    package var rule: ConsentReason
    /// The answer; nil where it is not known.
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
        /// The value is not known.
        case missing
    }

    /// Whether it holds an instant, and so belongs to one subscription. Other answers are the same for many rows.
    package var holdsInstant: Bool {
        inputs.contains { input in
            if case .instant = input.value { true } else { false }
        }
    }
}

/// An increase of a subscription that took effect.
package struct PastIncrease: Hashable, Sendable {
    /// How we know of the increase.
    package enum Source: String, Hashable, Sendable, CaseIterable {
        /// Apple signed a statement about it.
        case statement
        /// A person stated it, with `history import`.
        case imported
    }

    package var sku: String
    /// The renewal that charged it.
    package var at: Instant
    package var source: Source
    /// Whether a change of ours caused it.
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
