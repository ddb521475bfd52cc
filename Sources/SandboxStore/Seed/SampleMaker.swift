/// Makes subscribers and a batch for them: the same for a seed, a count and a start, on every machine.
///
/// Every good row becomes final within 90 days. An increase that may need 60 days' notice is due at a renewal late in
/// the quarter, and adverse events begin after day 30, so that the rows of a batch sent in the first weeks are still
/// valid.
struct SampleMaker: Sendable {
    static let subscriptionsMax = 200_000
    /// With fewer subscriptions a batch with all its refused rows does not fit.
    static let subscriptionsMinForRefusals = 100

    var options: StoreEngine.Options
    var start: Int64
    var count: Int
    /// Customers with two subscriptions, beyond `count`.
    var pairs = 0

    struct Sample: Sendable {
        var subscriptions: [StoreSubscription] = []
        var rows: [SampleRow] = []
    }

    func make() -> Sample {
        var sample = Sample()
        var index = 0
        if count >= SampleMaker.subscriptionsMinForRefusals {
            for kind in Refusal.allCases {
                for turn in 0..<kind.subscriptionCount {
                    addRefused(kind, turn: turn, index: index, to: &sample)
                    index += 1
                }
            }
        }
        while index < count {
            addGood(index: index, to: &sample)
            index += 1
        }
        for turn in 0..<pairs { addPair(turn, index: count + 2 * turn, to: &sample) }
        var random = SeededRandom(seed: options.seed, "order of the rows")
        sample.rows.shuffle(using: &random)
        return sample
    }

    /// Days of the store's calendar after the start, in milliseconds.
    func days(_ number: Int64) -> Int64 {
        guard let month = options.calendar.shortMonth else { return number * Milliseconds.day }
        return number * month / 30
    }

    struct Blank {
        var storefront: String
        var period: BillingPeriod
        var itemCount: Int
        var renewalAt: Int64
        /// Periods paid so far.
        var ages: ClosedRange<Int64> = 1...24
    }

    /// An active subscription whose next renewal is at about the requested instant.
    func subscription(
        _ blank: Blank, index: Int, random: inout SeededRandom
    ) -> StoreSubscription {
        let market = SampleCatalogue.market(blank.storefront)
        let age = Int(random.pick(blank.ages))
        let begin = beginning(blank, age: age)
        let paidTo = end(of: blank.period, from: begin, count: age)
        let paidFrom = age == 1 ? begin : end(of: blank.period, from: begin, count: age - 1)
        let prices = SamplePrices(market: market, period: blank.period)
        let first = Int(random.pick(0...7))
        let items = (0..<blank.itemCount).map { offset in
            let catalogue = SampleCatalogue.products
            let product = catalogue[(first + offset) % catalogue.count]
            return StoreItem(
                sku: SampleCatalogue.sku(product, blank.period), displayName: product.name,
                description: product.description, price: prices.base(&random))
        }
        return StoreSubscription(
            originalTransactionID: options.firstTransactionID
                + Int64(index + 1) * StoreSubscription.transactionsMax,
            renewalCount: age - 1, storefront: blank.storefront, currency: market.currency,
            period: blank.period, appAccountToken: random.uuid(),
            purchaseReferenceID: random.uuid(), startedAt: begin,
            anchorDay: Milliseconds.date(of: begin).day, purchasedAt: paidFrom,
            expiresAt: paidTo, items: items, lastSignedAt: paidFrom)
    }

    private func beginning(_ blank: Blank, age: Int) -> Int64 {
        if blank.period == .week || options.calendar.isShortened {
            let length = end(of: blank.period, from: 0, count: 1)
            return blank.renewalAt - length * Int64(age)
        }
        let (renewalDay, rest) = Milliseconds.split(blank.renewalAt)
        let date = CivilDate(daysSinceEpoch: renewalDay)
        let begin = date.stepped(months: -blank.period.months * age, anchorDay: date.day)
        return begin.daysSinceEpoch * Milliseconds.day + rest
    }

    private func end(of period: BillingPeriod, from begin: Int64, count: Int) -> Int64 {
        options.calendar.end(
            of: period, from: begin, count: count, anchorDay: Milliseconds.date(of: begin).day)
    }

    /// A row without a change: the caller still sets its price.
    func row(
        _ subscription: StoreSubscription, _ item: StoreItem, price: Int64, code: String? = nil
    ) -> SampleRow {
        SampleRow(
            transaction: subscription.id, sku: item.sku,
            price: SamplePrices.text(price, currency: subscription.currency),
            currency: subscription.currency, storefront: subscription.storefront, code: code)
    }
}
