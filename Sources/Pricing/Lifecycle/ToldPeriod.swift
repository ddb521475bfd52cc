/// What a statement told that a paid period cost, with all that prices must share to be compared.
///
/// A fold of all statements knows each told period. So one that is told late, by a refund, say, is compared with those
/// beside it, and an increase is noted where it was, whatever the order in which it was told.
package struct ToldPeriod: Hashable, Sendable {
    package struct Price: Hashable, Sendable {
        package var sku: String
        package var price: Int64

        package init(sku: String, price: Int64) {
            self.sku = sku
            self.price = price
        }
    }

    package var purchasedAt: Instant
    package var currency: String?
    package var storefront: String?
    package var period: String?
    package var prices: [Price]
    /// When it ends, as far as that was told.
    package var endsAt: Instant?
    /// Since when every increase until this period was noticed; nil where it is no part of what was known then.
    package var knownSince: Instant?
    /// Whether the pause between the former period and this one was told, so that none can lie between them.
    package var isAfterToldPause = false

    package init(
        purchasedAt: Instant, currency: String?, storefront: String?, period: String?,
        prices: [Price]
    ) {
        self.purchasedAt = purchasedAt
        self.currency = currency
        self.storefront = storefront
        self.period = period
        self.prices = prices
    }

    /// nil where the transaction tells no price of a period: seats that are added are no period. Its items go by the names
    /// that they have today: one that was renamed since may be signed under either.
    init?(_ transaction: TransactionStatement, _ facts: SubscriptionFacts) {
        guard let purchasedAt = transaction.purchasedAt, !transaction.addsSeats else { return nil }
        let names = facts.namesToday(in: transaction)
        let prices = transaction.items.compactMap { item in
            item.price.map { Price(sku: names[item.sku] ?? item.sku, price: $0) }
        }
        guard !prices.isEmpty else { return nil }
        self.init(
            purchasedAt: purchasedAt, currency: transaction.currency,
            storefront: transaction.storefront, period: transaction.period, prices: prices)
        endsAt = transaction.expiresAt
    }

    /// Whether prices of the two can be compared.
    func isComparable(to other: ToldPeriod) -> Bool {
        !Reading.differs(currency, other.currency) && !Reading.differs(storefront, other.storefront)
            && !Reading.differs(period, other.period)
    }

    /// Keeps what was known when it was told first.
    fileprivate mutating func repeats(_ former: ToldPeriod) {
        endsAt = endsAt ?? former.endsAt
        knownSince = former.knownSince
        isAfterToldPause = former.isAfterToldPause
    }

    /// The items whose price is higher in a later period.
    fileprivate func rises(to later: ToldPeriod) -> [Price] {
        guard isComparable(to: later) else { return [] }
        let places = SKUPlaces(prices.map(\.sku))
        return later.prices.filter { told in
            places[told.sku].map { prices[$0].price < told.price } ?? false
        }
    }
}

extension SubscriptionState {
    /// How long before a statement an increase may lie to be noted by a period that it tells late. An older one counts
    /// for nothing any more, and a checkpoint need not keep the periods of then.
    private static let lateness: Int64 = 400 * Instant.millisecondsPerDay

    /// Notes what a statement tells of a period, and the increases that a period told late brings to light.
    mutating func notePeriod(_ reading: Reading) {
        guard var told = reading.event.transaction.flatMap({ ToldPeriod($0, facts) }) else {
            return
        }
        told.isAfterToldPause = reading.isAfterToldPause
        let place = toldPeriods.firstIndex { $0.purchasedAt >= told.purchasedAt }
        guard let place else {
            // The newest. What is charged in a running period is compared with the facts before.
            told.knownSince = facts.knownSince
            return toldPeriods.append(told)
        }
        let isRepeated = toldPeriods[place].purchasedAt == told.purchasedAt
        if isRepeated {
            told.repeats(toldPeriods[place])
            if toldPeriods[place].prices == told.prices {
                toldPeriods[place].endsAt = told.endsAt
                return
            }
            toldPeriods[place] = told
        } else {
            toldPeriods.insert(told, at: place)
        }
        // Of the running period a repetition is compared with the facts, too.
        guard reading.runningTransaction == nil else { return }
        noteRises(around: place, toldAt: reading.at)
        noteCoverage(around: place)
    }

    private mutating func noteRises(around place: Int, toldAt signedAt: Instant) {
        let told = toldPeriods[place]
        let first = signedAt.advanced(by: -Self.lateness)
        if place + 1 < toldPeriods.count, toldPeriods[place + 1].purchasedAt >= first {
            let later = toldPeriods[place + 1]
            let rises = told.rises(to: later)
            for rise in rises { noteRise(rise, at: later.purchasedAt) }
            for price in later.prices where told.isComparable(to: later) && !rises.contains(price) {
                moveRise(of: price, at: later.purchasedAt, to: told)
            }
        }
        guard place > 0, told.purchasedAt >= first else { return }
        for rise in toldPeriods[place - 1].rises(to: told) {
            noteRise(rise, at: told.purchasedAt)
        }
    }

    private mutating func noteRise(_ rise: ToldPeriod.Price, at instant: Instant) {
        let isNoted = increases.contains {
            $0.sku == rise.sku && $0.price == rise.price && $0.effectiveAt == instant
        }
        guard !isNoted else { return }
        increases.append(
            RecordedIncrease(sku: rise.sku, price: rise.price, effectiveAt: instant))
    }

    /// A price that seemed to have risen at a period, and was charged in the one before already, rose earlier. Where that
    /// one cannot be compared nothing moves.
    private mutating func moveRise(
        of price: ToldPeriod.Price, at instant: Instant, to earlier: ToldPeriod
    ) {
        guard let before = earlier.prices.first(where: { $0.sku == price.sku }),
            before.price >= price.price,
            let index = increases.firstIndex(where: {
                $0.sku == price.sku && $0.price == price.price && $0.effectiveAt == instant
            })
        else { return }
        if increases[index].communicatedAt == nil {
            increases.remove(at: index)
        } else if before.price == price.price {
            increases[index].effectiveAt = earlier.purchasedAt
        }
    }

    /// The told periods that a checkpoint keeps: those that a later statement may make count.
    static func kept(_ periods: [ToldPeriod], before: Instant) -> [ToldPeriod] {
        let first = before.advanced(by: -lateness)
        guard let place = periods.firstIndex(where: { $0.purchasedAt >= first }) else {
            return Array(periods.suffix(1))
        }
        return Array(periods[max(0, place - 1)...])
    }
}
