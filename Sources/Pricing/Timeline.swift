/// The dates of one change.
package struct Timeline: Hashable, Sendable {
    /// R0: the next renewal.
    package var renewalAt: Instant
    /// The instant of the call, for which it was judged.
    package var judgedAt: Instant
    /// When the App Store starts to tell the subscriber, never before now; nil for a decrease.
    package var noticeAt: Instant?
    /// The first instant at which a call leads to this `effectiveAt`; nil when a call now already does.
    package var sendAfter: Instant?
    /// The last instant at which a call leads to this `effectiveAt`.
    package var sendBy: Instant
    /// The renewal that charges the new price.
    package var effectiveAt: Instant
    /// The first instant at which a call with this `effectiveAt` gets another verdict; nil where there is none.
    package var turn: ConsentTurn?
    /// The first later call that leads to an earlier renewal, because it needs no consent any more; nil where none does.
    package var soonerFrom: Instant?

    /// How long before the renewal the App Store starts to tell the subscriber, unless the renewal is a conversion.
    package static func lead(consent: Consent, period: Period) -> Int64 {
        let days: Int64 =
            switch consent {
            case .none: 0
            case .notRequired: 27
            case .required, .notKnown:
                switch period {
                case .week: 7
                case .month: 27
                // An unknown period gets the longest notice.
                case .twoMonths, .threeMonths, .sixMonths, .year, .other: longestLeadDays
                }
            }
        return days * Instant.millisecondsPerDay
    }

    static let longestLeadDays: Int64 = 60
}

/// A change of a consent verdict by time alone: an earlier increase no longer counts, or a rule comes into force.
package struct ConsentTurn: Hashable, Sendable {
    package var at: Instant
    /// The consent from then on.
    package var consent: Consent
    /// The rules whose answers turn, and their new answers.
    package var answers: [ConsentReason: Bool?]
}
