/// The renewals of one subscription in one environment.
struct Renewals {
    private enum Basis {
        case calendar(RenewalCalendar)
        case sandbox(SandboxRenewals)
    }

    private let basis: Basis
    private let knownAt: Instant
    private let period: Period
    private let startedAt: Instant?

    /// Nil where Apple has not sent a renewal date or a period that can be stepped.
    init?(facts: SubscriptionFacts, environment: StoreEnvironment) {
        guard let knownAt = facts.renewalAt ?? facts.expiresAt, let text = facts.period else {
            return nil
        }
        self.knownAt = knownAt
        period = Period(text)
        startedAt = facts.startedAt
        switch environment {
        case .production:
            guard let calendar = facts.renewals(from: knownAt) else { return nil }
            basis = .calendar(calendar)
        case .sandbox:
            guard let purchasedAt = facts.purchasedAt,
                let renewals = SandboxRenewals(knownAt: knownAt, purchasedAt: purchasedAt)
            else { return nil }
            basis = .sandbox(renewals)
        }
    }

    /// R0: the last known renewal, or where it lies before now the first stepped one at or after now.
    func next(_ now: Instant) -> Instant {
        switch basis {
        case .calendar(let calendar): calendar.renewal(calendar.firstIndex(atOrAfter: now))
        case .sandbox(let renewals): renewals.next(now)
        }
    }

    func timeline(consent: Consent, onOrAfter: CivilDate?, now: Instant) -> Timeline {
        switch basis {
        case .calendar(let calendar):
            Timeline(
                calendar: calendar, period: period, consent: consent, onOrAfter: onOrAfter,
                now: now)
        case .sandbox(let renewals): Timeline(sandbox: renewals, consent: consent, now: now)
        }
    }

    /// The renewal at which an item goes from its offer to its full price.
    func conversion(of offer: SubscriptionFacts.Offer) -> Instant? {
        // Apple's largest count is 12; a garbled one must not overflow the stepping.
        guard let left = Int(exactly: offer.periodsLeft ?? 0), (0...1200).contains(left) else {
            return nil
        }
        let offerPeriod = offer.period.map(Period.init) ?? period
        switch basis {
        case .sandbox(let renewals):
            return left == 0 || offerPeriod == period ? renewals.renewal(left) : nil
        case .calendar(let calendar):
            if left == 0 || offerPeriod == period { return calendar.renewal(left) }
            guard
                let end = RenewalCalendar(
                    knownAt: knownAt, period: offerPeriod, startedAt: startedAt)?.renewal(left)
            else { return nil }
            return calendar.renewal(calendar.firstIndex(atOrAfter: end))
        }
    }
}
