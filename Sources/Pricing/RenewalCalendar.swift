/// The renewals of one subscription, stepped by calendar in UTC from an anchor day: 31 January, 28 February,
/// 31 March.
package struct RenewalCalendar: Hashable, Sendable {
    private var knownAt: Instant
    private var knownMonth: Int
    private let step: Period.Step
    private let anchorDay: Int

    /// The calendar of a known renewal.
    ///
    /// The anchor day is the start day of the running subscription, where stepping from it leads to that renewal: by the
    /// running period, which may be another than that from the renewal on. Otherwise, as after an extension, it is the
    /// renewal's own day. Nil where the period cannot be stepped, or the renewal is off the calendar.
    package init?(
        knownAt: Instant, period: Period, runningPeriod: Period? = nil, startedAt: Instant?
    ) {
        guard knownAt.isOnCalendar, let step = period.step else { return nil }
        self.knownAt = knownAt
        self.step = step
        let known = knownAt.day
        knownMonth = known.monthIndex
        guard case .months(var months) = step else {
            anchorDay = known.day
            return
        }
        if case .months(let running)? = runningPeriod?.step { months = running }
        let anchor = startedAt.flatMap { $0.isOnCalendar ? $0.day : nil }.flatMap { start in
            let distance = known.monthIndex - start.monthIndex
            let reached = CivilDate(monthIndex: known.monthIndex, clampedDay: start.day)
            return distance >= 0 && distance % months == 0 && reached == known ? start : nil
        }
        anchorDay = anchor?.day ?? known.day
    }

    /// The renewal `index` steps after the known one.
    package func renewal(_ index: Int) -> Instant {
        switch step {
        case .days(let days):
            return knownAt.advanced(by: Int64(index * days) * Instant.millisecondsPerDay)
        case .months(let months):
            let date = CivilDate(
                monthIndex: knownMonth + index * months, clampedDay: anchorDay)
            return date.startAt.advanced(by: knownAt.timeOfDay)
        }
    }

    /// The same renewals, counted from the one at `index`.
    func counted(from index: Int) -> RenewalCalendar {
        var calendar = self
        calendar.knownAt = renewal(index)
        if case .months(let months) = step { calendar.knownMonth += index * months }
        return calendar
    }

    /// The first index, from 0 on, whose renewal is at or after the instant.
    package func firstIndex(atOrAfter instant: Instant) -> Int {
        guard instant > knownAt else { return 0 }
        let bounded = min(instant, Instant(milliseconds: 253_402_300_799_999))
        var index = max(0, estimate(bounded) - 1)
        while renewal(index) < bounded { index += 1 }
        return index
    }

    private func estimate(_ instant: Instant) -> Int {
        switch step {
        case .days(let days):
            Int((instant.milliseconds - knownAt.milliseconds) / Instant.millisecondsPerDay) / days
        case .months(let months):
            (instant.day.monthIndex - knownMonth) / months
        }
    }
}

extension SubscriptionFacts {
    /// Whether a known renewal lies before an instant: nothing has been heard of it.
    package func isStale(at now: Instant) -> Bool {
        (renewalAt ?? expiresAt).map { $0 < now } ?? false
    }

    /// Whether a known renewal has passed for longer than a notification of it takes, and nothing was signed since. A
    /// stale subscription of which something was heard is in billing retry, say.
    package func isUnheard(at now: Instant) -> Bool {
        guard let renewal = renewalAt ?? expiresAt else { return false }
        let margin = sandboxPeriod ?? Instant.millisecondsPerDay
        return renewal.advanced(by: margin) < now && (signedAt.map { $0 < renewal } ?? true)
    }

    /// The start of the running subscription, as far as it is known.
    var startedAt: Instant? { recentSubscriptionStartAt ?? originalPurchaseAt }

    /// Whether a statement told of the running subscription's first period.
    var isKnownFromStart: Bool {
        guard let knownSince, let startedAt else { return false }
        return knownSince <= startedAt
    }

    /// The calendar of a renewal of this subscription.
    func renewals(from renewalAt: Instant) -> RenewalCalendar? {
        comingPeriod.flatMap {
            RenewalCalendar(
                knownAt: renewalAt, period: Period($0), runningPeriod: period.map(Period.init),
                startedAt: startedAt)
        }
    }
}
