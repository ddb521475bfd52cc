extension SubscriptionState {
    /// Notes since when statements show what the subscription was charged. Before that an increase may have been
    /// missed.
    mutating func noteCoverage(_ reading: Reading) {
        noteStartUnseen(reading)
        guard let transaction = reading.event.transaction, let told = transaction.purchasedAt,
            !transaction.addsSeats, transaction.tellsEveryPrice,
            told >= facts.startedAt ?? told
        else { return }
        guard facts.knownSince != nil else {
            facts.knownSince = told
            return
        }
        if reading.mayHideIncrease { facts.knownSince = told }
    }

    /// Notes that the running subscription began after the last known period, and no statement is about its first
    /// period. What was known before the lapse says nothing about the time between, whichever statement showed the
    /// start.
    private mutating func noteStartUnseen(_ reading: Reading) {
        let before = reading.before
        guard let start = facts.startedAt, let known = facts.knownSince, known < start,
            let running = facts.purchasedAt, running > start,
            start != before.startedAt || before.purchasedAt.map({ $0 < start }) ?? false
        else { return }
        facts.knownSince = running
        if let last = toldPeriods.indices.last, toldPeriods[last].purchasedAt == running {
            toldPeriods[last].knownSince = running
        }
    }

    /// Updates since when no increase can have been missed, after a late statement about a period: it may close a gap,
    /// or show one. It does not affect a lapse before the running subscription.
    mutating func noteCoverage(around place: Int) {
        let (told, start) = (toldPeriods[place], facts.startedAt)
        guard told.purchasedAt >= start ?? told.purchasedAt else { return }
        var known = told.purchasedAt
        if place > 0, let earlier = toldPeriods[place - 1].knownSince,
            toldPeriods[place - 1].isFollowed(by: told, start: start)
        {
            known = earlier
        }
        toldPeriods[place].knownSince = known
        guard place + 1 < toldPeriods.count, let before = toldPeriods[place + 1].knownSince else {
            return
        }
        let next = toldPeriods[place + 1]
        if told.isFollowed(by: next, start: start) {
            // There may be periods before the first one that is kept.
            toldPeriods[place + 1].knownSince = place == 0 ? min(before, known) : known
        } else if before < told.purchasedAt {
            toldPeriods[place + 1].knownSince = next.purchasedAt
        }
        for index in toldPeriods.indices.dropFirst(place + 2) {
            guard let known = toldPeriods[index].knownSince, known < toldPeriods[index].purchasedAt
            else { break }
            toldPeriods[index].knownSince = toldPeriods[index - 1].knownSince
        }
        if let last = toldPeriods.last, last.purchasedAt == facts.purchasedAt {
            facts.knownSince = last.knownSince
        }
    }
}

extension Reading {
    /// Whether it shows that no unknown period lies between the former one and its own, because it is a retried payment
    /// or a new purchase after the end.
    var isAfterToldPause: Bool {
        let isRetried = before.isInBillingRetry || before.status == 3 || before.status == 4
        if isRetried, event.subtype == "BILLING_RECOVERY" { return !hasLongPause }
        guard before.status == 2 || before.status == 5, isCustomersDoing else { return false }
        return !hasLongPause || startsAnew
    }

    /// Whether the pause is longer than the App Store retries a payment, and longer than a lapse that Apple leaves out of
    /// `recentSubscriptionStartDate`: 60 days each, and a day for charges that are not to the hour. Then one statement of an
    /// end does not tell of the whole pause.
    private var hasLongPause: Bool {
        guard let began = newTransaction?.purchasedAt, let ended = formerPeriodEnd else {
            return false
        }
        return began.milliseconds(since: ended) > 61 * Instant.millisecondsPerDay
    }

    /// Whether Apple says that the subscription itself began with this purchase or later than the end.
    private var startsAnew: Bool {
        guard let started = facts.recentSubscriptionStartAt, let ended = formerPeriodEnd else {
            return false
        }
        return started >= ended
    }

    /// When the period before ended. An unsigned statement may move only `expiresAt`, and one without a new period only
    /// `renewalAt`. So the earlier of both counts.
    private var formerPeriodEnd: Instant? {
        [before.expiresAt, before.renewalAt].compactMap(\.self).min()
    }

    /// Whether an increase may have been missed between the running period and the new one in this statement.
    fileprivate var mayHideIncrease: Bool {
        guard let transaction = newTransaction, let purchasedAt = transaction.purchasedAt,
            let running = before.purchasedAt, !isAfterToldPause
        else { return false }
        var known = ToldPeriod(
            purchasedAt: running, currency: before.currency, storefront: before.storefront,
            period: before.period, prices: [])
        known.endsAt = formerPeriodEnd
        var told = ToldPeriod(
            purchasedAt: purchasedAt, currency: transaction.currency,
            storefront: transaction.storefront, period: transaction.period, prices: [])
        told.endsAt = transaction.expiresAt
        // There is hardly ever a pause, and without one the prices are not needed.
        guard known.leavesRoom(before: told), let told = ToldPeriod(transaction, facts) else {
            return false
        }
        known.prices = before.items.compactMap { item in
            item.currentPrice.map { ToldPeriod.Price(sku: item.sku, price: $0) }
        }
        known.announced = before.announced
        return !known.tellsOfEveryPrice(in: told)
    }
}

extension SubscriptionFacts {
    /// The items of which the App Store has announced an increase.
    var announced: [String] { items.filter { $0.increase != nil }.map(\.sku) }
}

extension ToldPeriod {
    /// Whether no increase can have been missed between the two: no unknown period lies between them, or each price of
    /// the later one can be compared with one of this.
    fileprivate func isFollowed(by later: ToldPeriod, start: Instant?) -> Bool {
        if let start, purchasedAt < start, start < later.purchasedAt { return false }
        return later.isAfterToldPause || !leavesRoom(before: later) || tellsOfEveryPrice(in: later)
    }

    fileprivate func tellsOfEveryPrice(in later: ToldPeriod) -> Bool {
        guard isComparable(to: later) else { return false }
        let places = SKUPlaces(prices.map(\.sku))
        guard later.prices.allSatisfy({ places[$0.sku] != nil }) else { return false }
        return announced.isEmpty || shows(riseOfAll: announced, in: later)
    }

    /// Whether the later period shows a higher price of each of these items, so that no increase of them is unseen.
    private func shows(riseOfAll announced: [String], in later: ToldPeriod) -> Bool {
        announced.allSatisfy { sku in
            guard let former = prices.first(where: { $0.sku == sku }),
                let told = later.prices.first(where: { $0.sku == sku })
            else { return false }
            return told.price > former.price
        }
    }

    /// Whether an unknown period may lie between the two: the pause is at least half of the shorter one. A shorter
    /// pause is only a late payment.
    fileprivate func leavesRoom(before later: ToldPeriod) -> Bool {
        let pause = later.purchasedAt.milliseconds(since: endsAt ?? purchasedAt)
        guard pause > 0 else { return false }
        let shortest = (lengths + later.lengths).filter { $0 > 0 }.min() ?? 0
        return pause >= shortest / 2
    }

    /// Its length by its dates, and the least length by its name. An extension makes the dates longer, and Apple's
    /// Sandbox makes them shorter.
    private var lengths: [Int64] {
        let told = endsAt.map { $0.milliseconds(since: purchasedAt) }
        return [told, period.flatMap { Period($0).shortest }].compactMap(\.self)
    }
}

extension Instant {
    fileprivate func milliseconds(since earlier: Instant) -> Int64 {
        milliseconds.addingSaturated(earlier.milliseconds.negatedSaturated)
    }
}

extension Period {
    /// In milliseconds; nil where it is not known.
    fileprivate var shortest: Int64? {
        switch step {
        case .days(let days): Int64(days) * Instant.millisecondsPerDay
        case .months(let months): Int64(months) * 28 * Instant.millisecondsPerDay
        case nil: nil
        }
    }
}

extension TransactionStatement {
    /// Whether it says what each item was charged. Where it leaves a price out, nobody sees that item rise afterwards.
    var tellsEveryPrice: Bool { !items.isEmpty && items.allSatisfy { $0.price != nil } }
}
