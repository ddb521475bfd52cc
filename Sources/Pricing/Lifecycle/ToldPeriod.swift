/// The prices of a paid period in a statement, with all that two periods must share for their prices to be comparable.
///
/// A fold of all statements knows every stated period. So a period that becomes known late, by a refund for example, is
/// compared with its neighbours, and an increase is noted at its own time, whatever the order of the statements.
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
    /// The items of which the App Store had announced an increase when it ended. A later period that does not show that
    /// increase leaves open whether it took effect between.
    package var announced: [String] = []
    /// When it ends, as far as a statement says.
    package var endsAt: Instant?
    /// Since when no increase up to this period can have been missed; nil where the period is not part of that known
    /// time.
    package var knownSince: Instant?
    /// Whether a statement explained the pause before this period, so that no unknown period can lie in it.
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

    /// nil where the transaction does not tell each price of a period: seats that are added are no period. Its items go by
    /// the names that they have today: one that was renamed since may be signed under either.
    init?(_ transaction: TransactionStatement, _ facts: SubscriptionFacts) {
        guard let purchasedAt = transaction.purchasedAt, !transaction.addsSeats,
            transaction.tellsEveryPrice
        else { return nil }
        let names = facts.namesToday(in: transaction)
        let prices = transaction.items.compactMap { item in
            item.price.map { Price(sku: names[item.sku] ?? item.sku, price: $0) }
        }
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
        announced = former.announced
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
    /// How long before a statement an increase may be to be noted from a period that becomes known late. An older one
    /// does not count any more, so a checkpoint need not keep older periods.
    private static let lateness: Int64 = 400 * Instant.millisecondsPerDay

    /// Notes the period in a statement, and the increases that a late one reveals.
    mutating func notePeriod(_ reading: Reading) {
        guard var told = reading.event.transaction.flatMap({ ToldPeriod($0, facts) }) else {
            return
        }
        told.isAfterToldPause = reading.isAfterToldPause
        let place = toldPeriods.firstIndex { $0.purchasedAt >= told.purchasedAt }
        guard let place else {
            // The newest. What is charged in a running period is compared with the facts before.
            if let last = toldPeriods.indices.last,
                toldPeriods[last].purchasedAt == reading.before.purchasedAt
            {
                toldPeriods[last].announced = reading.before.announced
            }
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
        // A repeated statement about the running period is compared with the facts too.
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

    /// Moves an increase earlier: a price that seemed to have risen at a period was already charged in the one before.
    /// Nothing moves where that period cannot be compared.
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

    /// The periods that a checkpoint keeps, because a later statement may be compared with them.
    static func kept(_ periods: [ToldPeriod], before: Instant) -> [ToldPeriod] {
        let first = before.advanced(by: -lateness)
        guard let place = periods.firstIndex(where: { $0.purchasedAt >= first }) else {
            return Array(periods.suffix(1))
        }
        return Array(periods[max(0, place - 1)...])
    }
}
