/// Customers with two subscriptions: an item of the second is a dependent of an increase on the first.
///
/// The first one asks for consent and mostly gets none, so that what hangs on it is to fall.
extension SampleMaker {
    /// What the second subscription is, in this order over and over.
    private enum Pair: Int, CaseIterable {
        /// Carries the dependent alone: named with its subscription, or by its SKU.
        case named, alone
        /// Carries two items, and both are dependents.
        case both
        /// Carries an item that lives on.
        case company
        /// Is another customer's: the row is refused.
        case foreign
        /// Its customer leaves by themselves first.
        case leaving
        /// Carries the dependent alone, and the customer consents at last.
        case late
        /// As the second, so that most are cancelled.
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
