/// The renewals of one subscription in one environment.
struct Renewals {
    private enum Basis {
        case calendar(RenewalCalendar)
        case sandbox(SandboxRenewals)
    }

    private var basis: Basis
    let period: Period
    private let startedAt: Instant?

    /// nil where Apple has sent no renewal date, or no period that can be stepped.
    init?(facts: SubscriptionFacts, environment: StoreEnvironment) {
        guard let knownAt = facts.renewalAt ?? facts.expiresAt, let text = facts.comingPeriod else {
            return nil
        }
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

    /// Whether they are those of Apple's Sandbox, which has no lead times.
    var isSandbox: Bool {
        switch basis {
        case .calendar: false
        case .sandbox: true
        }
    }

    /// The renewal so many steps after the last known one. A negative number steps back.
    func renewal(_ index: Int) -> Instant {
        switch basis {
        case .calendar(let calendar): calendar.renewal(index)
        case .sandbox(let renewals): renewals.renewal(index)
        }
    }

    /// The same renewals, counted from the one at `index`.
    func counted(from index: Int) -> Renewals {
        var renewals = self
        switch basis {
        case .calendar(let calendar): renewals.basis = .calendar(calendar.counted(from: index))
        case .sandbox(let sandbox): renewals.basis = .sandbox(sandbox.counted(from: index))
        }
        return renewals
    }

    /// The first index, from 0 on, whose renewal is at or after the instant. For the current instant that renewal is
    /// R0: the last known renewal or, where that has passed, the first computed one after it.
    func firstIndex(atOrAfter instant: Instant) -> Int {
        switch basis {
        case .calendar(let calendar): calendar.firstIndex(atOrAfter: instant)
        case .sandbox(let renewals): renewals.firstIndex(atOrAfter: instant)
        }
    }

    /// The renewal at which an item changes from its offer to its full price; nil where that is not known.
    func conversion(of offer: SubscriptionFacts.Offer) -> Instant? {
        // Apple's largest count is 12. A garbled one must not overflow the stepping.
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
                    knownAt: renewal(0), period: offerPeriod, startedAt: startedAt)?.renewal(left)
            else { return nil }
            return calendar.renewal(calendar.firstIndex(atOrAfter: end))
        }
    }
}

/// The shortened renewals of Apple's Sandbox, which are as far apart as the running period is long.
struct SandboxRenewals {
    private(set) var knownAt: Instant
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

    func counted(from index: Int) -> SandboxRenewals {
        var renewals = self
        renewals.knownAt = renewal(index)
        return renewals
    }

    func firstIndex(atOrAfter instant: Instant) -> Int {
        guard instant > knownAt else { return 0 }
        let late = instant.milliseconds - knownAt.milliseconds
        return Int(late / span + (late % span == 0 ? 0 : 1))
    }
}
