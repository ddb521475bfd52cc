/// Subscribers of a simulation, their subscriptions and their unprompted actions, drawn from one seed.
struct SimulatedLives {
    static let firstID: Int64 = 2_000_000_000_010_000
    private static let day = Milliseconds.day
    /// Storefront, currency, and what its prices are multiples of.
    private static let homes: [(String, String, Int64)] = [
        ("USA", "USD", 10), ("USA", "USD", 10), ("GBR", "GBP", 10), ("DEU", "EUR", 10),
        ("JPN", "JPY", 1000),
    ]

    let seed: UInt64
    let start: Int64
    let until: Int64

    func all(_ count: Int) -> [StoreSubscription] { (0..<count).map { life(Int64($0)) } }

    private func life(_ number: Int64) -> StoreSubscription {
        let id = Self.firstID + number * StoreSubscription.transactionsMax
        var random = SeededRandom(seed: seed, "simulated", String(id))
        // Every fourth subscription belongs to the customer of the one before, so that dependents may be on another
        // subscription.
        var customer = SeededRandom(
            seed: seed, "customer", String(number % 4 == 3 ? number - 1 : number))
        let home = Self.homes[Int(random.pick(0...Int64(Self.homes.count - 1)))]
        let periods: [BillingPeriod] = [.month, .month, .month, .month, .threeMonths, .week, .year]
        let period = periods[Int(random.pick(0...Int64(periods.count - 1)))]
        let purchasedAt =
            start - random.pick(1...(period == .week ? 6 : 27)) * Self.day
            - random.pick(0...86_399) * 1000
        let anchorDay = Milliseconds.date(of: purchasedAt).day
        var life = StoreSubscription(
            originalTransactionID: id, storefront: home.0, currency: home.1, period: period,
            appAccountToken: customer.uuid(), purchaseReferenceID: random.uuid(),
            startedAt: purchasedAt, anchorDay: anchorDay, purchasedAt: purchasedAt,
            expiresAt: BillingCalendar().end(of: period, from: purchasedAt, anchorDay: anchorDay),
            items: items(number, unit: home.2, &random), lastSignedAt: purchasedAt)
        if random.chance(3) { life.isFamilyShared = true }
        plan(&life, &random)
        return life
    }

    private func items(_ number: Int64, unit: Int64, _ random: inout SeededRandom) -> [StoreItem] {
        let names =
            number % 4 == 3 ? ["FAR", "B"] : random.chance(40) ? ["A", "B", "C"] : ["A", "B"]
        return names.map { name in
            var item = StoreItem(
                sku: name, displayName: name, description: name,
                price: random.pick(200...1500) * unit)
            // An item in its offer cannot be changed until the offer ends.
            if name == "C", random.chance(50) {
                item.offer = StoreOffer(
                    price: item.price / 2 / unit * unit, periodsLeft: 3, periodCount: 3,
                    reason: "ACQUISITION")
            }
            return item
        }
    }

    private func plan(_ life: inout StoreSubscription, _ random: inout SeededRandom) {
        life.plan.answer =
            SubscriberPlan.Answer.allCases.randomElement(using: &random) ?? .consentsEarly
        if random.chance(30) {
            life.plan.trouble = .init(
                from: random.pick(start...until), hasGrace: random.chance(50),
                recoversAfter: random.chance(60) ? random.pick(1...12) * Self.day : nil)
        }
        if random.chance(20) {
            let leavesAt = random.pick(start...until)
            life.plan.cancelsAt = leavesAt
            if random.chance(50) { life.plan.resumesAt = leavesAt + random.pick(1...20) * Self.day }
        }
        if random.chance(3) { life.plan.revokedAt = random.pick(start...until) }
        if random.chance(50) {
            life.plan.doings = Doing.adversarial(
                of: life.id, seed: seed, from: start + Self.day, until: until)
        }
    }
}
