/// The dates of one change that is called for now.
package struct Timeline: Hashable, Sendable {
    /// R0: the next renewal.
    package var renewalAt: Instant
    /// When the App Store starts to tell the subscriber, never before now; nil for a decrease.
    package var noticeAt: Instant?
    /// The first instant whose call gives this `effectiveAt`; nil when now already does.
    package var sendAfter: Instant?
    /// The last instant whose call gives this `effectiveAt`.
    package var sendBy: Instant
    /// The renewal that charges the new price.
    package var effectiveAt: Instant

    /// How long before the renewal the App Store starts to tell the subscriber.
    package static func lead(consent: Consent, period: Period) -> Int64 {
        let days: Int64 =
            switch consent {
            case .none: 0
            case .notRequired: 27
            case .required, .notKnown:
                switch period {
                case .week: 7
                case .month: 27
                // A period that nobody knows gets the longest notice.
                case .twoMonths, .threeMonths, .sixMonths, .year, .other: 60
                }
            }
        return days * Instant.millisecondsPerDay
    }

    /// The dates in Production.
    init(
        calendar: RenewalCalendar, period: Period, consent: Consent, onOrAfter: CivilDate?,
        now: Instant
    ) {
        let lead = Timeline.lead(consent: consent, period: period)
        // 27 days span four weekly renewals: the price applies on the fourth that the call is in time for.
        let isFourthRenewal = consent == .notRequired && period == .week
        let skipped = isFourthRenewal ? 3 : 0
        let margin =
            isFourthRenewal
            ? Instant.millisecondsPerDay : max(lead, Instant.millisecondsPerDay)
        let earliest = calendar.firstIndex(atOrAfter: now.advanced(by: margin))
        var index = earliest
        if let onOrAfter {
            index = max(
                earliest, calendar.firstIndex(atOrAfter: onOrAfter.startAt) - skipped)
        }
        renewalAt = calendar.renewal(calendar.firstIndex(atOrAfter: now))
        effectiveAt = calendar.renewal(index + skipped)
        sendBy = calendar.renewal(index).advanced(by: -margin)
        sendAfter =
            index > earliest ? calendar.renewal(index - 1).advanced(by: 1 - margin) : nil
        noticeAt = consent == .none ? nil : max(now, effectiveAt.advanced(by: -lead))
    }

    /// The dates in the Sandbox environment: no lead times, and an increase skips one renewal.
    init(sandbox renewals: SandboxRenewals, consent: Consent, now: Instant) {
        let next = renewals.next(now)
        renewalAt = next
        sendBy = next
        switch consent {
        case .none:
            effectiveAt = next
        case .required, .notKnown, .notRequired:
            effectiveAt = next.advanced(by: renewals.span)
            noticeAt = next
        }
    }
}

/// The shortened renewals of Apple's Sandbox: as far apart as the running period is long.
struct SandboxRenewals {
    let knownAt: Instant
    let span: Int64

    init?(knownAt: Instant, purchasedAt: Instant) {
        guard knownAt.isOnCalendar, purchasedAt.isOnCalendar, purchasedAt < knownAt else {
            return nil
        }
        self.knownAt = knownAt
        span = knownAt.milliseconds - purchasedAt.milliseconds
    }

    func renewal(_ index: Int) -> Instant {
        let (distance, overflow) = span.multipliedReportingOverflow(by: Int64(index))
        return knownAt.advanced(by: overflow ? .max : distance)
    }

    func next(_ now: Instant) -> Instant {
        guard now > knownAt else { return knownAt }
        let late = now.milliseconds - knownAt.milliseconds
        return renewal(Int(late / span + (late % span == 0 ? 0 : 1)))
    }
}
