/// Subscribers whose rows a planner accepts.
extension SampleMaker {
    private enum Change: Hashable {
        case consent, announced, smallAmount, decrease
    }

    func addGood(index: Int, to sample: inout Sample) {
        var random = SeededRandom(seed: options.seed, "subscriber", String(index))
        let periods = BillingPeriod.allCases
        let itemCount = index % 4 + 1
        let period = periods[(index / 4) % periods.count]
        let storefront = pickStorefront(index, &random)
        let changes = pickChanges(itemCount: itemCount, isIndia: storefront == "IND", &random)
        let renewalAt = start + pickRenewal(period, changes, &random)
        var subscription = subscription(
            Blank(
                storefront: storefront, period: period, itemCount: itemCount,
                renewalAt: renewalAt),
            index: index, random: &random)
        var rows = makeRows(changes, for: subscription, &random)
        let parent = addDependents(to: &rows, of: subscription, changes, &random)
        subscription.plan = pickPlan(period, isParent: parent, &random)
        sample.subscriptions.append(subscription)
        sample.rows += rows
    }

    private func pickStorefront(_ index: Int, _ random: inout SeededRandom) -> String {
        if index % 97 == 0 { return "IND" }
        let all = SampleCatalogue.storefronts
        return random.chance(25) ? "USA" : all[Int(random.pick(0...Int64(all.count - 1)))]
    }

    private func pickChanges(
        itemCount: Int, isIndia: Bool, _ random: inout SeededRandom
    ) -> [Change] {
        let rowCount = itemCount == 4 ? 2 : itemCount == 1 ? 1 : random.chance(55) ? 2 : 1
        return (0..<rowCount).map { _ in
            if isIndia { return .decrease }
            switch random.pick(0...99) {
            case 0..<42: return .consent
            case 42..<72: return .announced
            case 72..<82: return .smallAmount
            default: return .decrease
            }
        }
    }

    /// The next renewal after the start, so that every change is charged before day 88.
    private func pickRenewal(
        _ period: BillingPeriod, _ changes: [Change], _ random: inout SeededRandom
    ) -> Int64 {
        // A planner may not know whether an increase needs consent, so each increase gets the longer notice.
        let asks = changes.contains { $0 != .decrease }
        let window: ClosedRange<Int64> =
            switch period {
            case .week: 0...5
            case .month: 2...28
            // Sixty days' notice means the renewal after the next one.
            case .twoMonths: asks ? 22...24 : 45...57
            case .threeMonths, .sixMonths, .year: asks ? 80...85 : 45...83
            }
        return days(random.pick(window)) + random.pick(days(1) / 20...days(1) - 1)
    }

    private func makeRows(
        _ changes: [Change], for subscription: StoreSubscription, _ random: inout SeededRandom
    ) -> [SampleRow] {
        let market = SampleCatalogue.market(subscription.storefront)
        let prices = SamplePrices(market: market, period: subscription.period)
        let date = pickDate(subscription.period, &random)
        return zip(subscription.items, changes).map { item, change in
            let price =
                switch change {
                case .consent: prices.needingConsent(from: item.price, &random)
                case .announced: prices.announced(from: item.price, &random)
                case .smallAmount:
                    prices.smallAmount(from: item.price, &random)
                        ?? prices.announced(from: item.price, &random)
                case .decrease: prices.lowered(from: item.price, &random)
                }
            var made = row(subscription, item, price: price)
            // Rows of one subscription share the date, because otherwise one increase would count against the other.
            made.effectiveOnOrAfter = date
            if random.chance(30) { made.storefront = nil }
            if random.chance(40) {
                made.expectedPrice = SamplePrices.text(
                    item.price, currency: subscription.currency)
            }
            return made
        }
    }

    private func pickDate(_ period: BillingPeriod, _ random: inout SeededRandom) -> String? {
        guard period == .week || period == .month, random.chance(12) else { return nil }
        return Milliseconds.date(of: start + days(random.pick(36...43))).text
    }

    /// Gives the first row that asks for consent some dependents; true when it got one.
    private func addDependents(
        to rows: inout [SampleRow], of subscription: StoreSubscription, _ changes: [Change],
        _ random: inout SeededRandom
    ) -> Bool {
        guard let parent = changes.firstIndex(of: .consent), subscription.items.count > 1,
            random.chance(60)
        else { return false }
        let others = subscription.items.map(\.sku).filter { $0 != rows[parent].sku }
        let changed = Set(rows.map(\.sku))
        // Now and then a dependent has a change of its own, which the rules allow.
        let free = others.filter { !changed.contains($0) }
        let pool = free.isEmpty || random.chance(12) ? others : free
        rows[parent].dependentSKUs = Array(pool.prefix(Int(random.pick(1...2))))
        return true
    }

    private func pickPlan(
        _ period: BillingPeriod, isParent: Bool, _ random: inout SeededRandom
    ) -> SubscriberPlan {
        var plan = SubscriberPlan()
        let isShort = period == .week || period == .month
        switch random.pick(0...99) {
        case 0..<44: plan.answer = .consentsEarly
        case 44..<60: plan.answer = .consentsLate
        case 60..<72: plan.answer = .ignores
        case 72..<76: plan.answer = .consentsToSome
        case 76..<83: plan.answer = .cancels
        case 83..<87: plan.cancelsAt = start + days(random.pick(31...60))
        case 87..<89:
            let at = start + days(random.pick(31...60))
            plan.cancelsAt = at
            plan.resumesAt = at + days(1) + 1
        case 89..<92: plan.trouble = trouble(period, grace: true, recovers: 1...3, &random)
        case 92..<95: plan.trouble = trouble(period, grace: false, recovers: 1...3, &random)
        case 95..<98:
            plan.trouble = trouble(period, grace: false, recovers: 1...3, &random)
            if isShort { plan.trouble?.recoversAfter = nil }
        case 98: plan.refundedAt = start + days(random.pick(31...70))
        default: plan.revokedAt = start + days(random.pick(31...70))
        }
        if isParent, random.chance(25) { plan = SubscriberPlan(answer: .ignores) }
        return plan
    }

    /// The first renewal of the second month, or the last of the quarter for long periods.
    private func trouble(
        _ period: BillingPeriod, grace: Bool, recovers: ClosedRange<Int64>,
        _ random: inout SeededRandom
    ) -> SubscriberPlan.BillingTrouble {
        SubscriberPlan.BillingTrouble(
            from: start + days(31), hasGrace: grace,
            recoversAfter: random.pick(recovers) * Milliseconds.day
                - random.pick(0...12) * Milliseconds.hour)
    }
}
