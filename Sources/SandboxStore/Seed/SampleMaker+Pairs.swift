/// Customers with two subscriptions: an item of the second is a dependent of an increase on the first.
///
/// The first subscription's increase needs consent and mostly gets none, so that its dependents must be cancelled.
extension SampleMaker {
    /// The kind of second subscription; the pairs cycle through this order.
    private enum Pair: Int, CaseIterable {
        /// Carries only the dependent, which the row names with its subscription or by its SKU alone.
        case named, alone
        /// Carries two items, and both are dependents.
        case both
        /// Carries another item, which stays.
        case company
        /// Belongs to another customer, so that the row is refused.
        case foreign
        /// Its customer cancels it first.
        case leaving
        /// Carries only the dependent, and the customer consents late.
        case late
        /// Like `alone`, so that most are cancelled.
        case another
    }

    func addPair(_ turn: Int, index: Int, to sample: inout Sample) {
        guard let kind = Pair(rawValue: turn % Pair.allCases.count) else { return }
        var random = SeededRandom(seed: options.seed, "pair", String(turn))
        var first = member(index, &random)
        var second = member(index + 1, &random)
        let isCompanioned = kind == .company || kind == .both
        second.items = Array(second.items.prefix(isCompanioned ? 2 : 1))
        for place in second.items.indices { second.items[place].sku += "_EXTRA" }
        first.items = Array(first.items.prefix(1))
        if kind != .foreign { second.appAccountToken = first.appAccountToken }
        first.plan.answer = kind == .late ? .consentsLate : .ignores
        if kind == .leaving { second.plan.cancelsAt = start + days(random.pick(5...20)) }
        let prices = SamplePrices(
            market: SampleCatalogue.market(first.storefront), period: first.period)
        let item = first.items[0]
        var row = row(
            first, item, price: prices.needingConsent(from: item.price, &random),
            code: kind == .foreign ? "dependent_unknown" : nil)
        let named = kind == .both ? second.items : Array(second.items.prefix(1))
        let isNamed = kind == .named || kind == .foreign || random.chance(30)
        row.dependentSKUs = named.map { isNamed ? "\(second.id)/\($0.sku)" : $0.sku }
        sample.subscriptions += [first, second]
        sample.rows.append(row)
    }

    /// Young enough that the shortened mode's twelve renewals are not used up.
    private func member(_ index: Int, _ random: inout SeededRandom) -> StoreSubscription {
        let renewalAt = start + days(random.pick(2...28)) + random.pick(days(1) / 20...days(1) - 1)
        return subscription(
            Blank(
                storefront: "USA", period: .month, itemCount: 2, renewalAt: renewalAt, ages: 1...3),
            index: index, random: &random)
    }
}
