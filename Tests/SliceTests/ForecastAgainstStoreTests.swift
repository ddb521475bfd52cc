import Pricing
import TestSupport
import Testing

@testable import SandboxStore

/// Two readings of Apple's pages, written apart, of the same random subscriptions: the product's forecast and what the
/// simulated store does with the call. A failure prints the seed.
@Suite(.ownThread) struct ForecastAgainstStoreTests {
    private struct Setting {
        var subscription: StoreSubscription
        var facts: SubscriptionFacts
        var context = JudgeContext(increaseHistory: [])
        var now: Int64
    }

    private static let day: Int64 = 86_400_000
    /// 1 March 2026.
    private static let start: Int64 = 1_772_323_200_000

    @Test(arguments: 1...2000 as ClosedRange<UInt64>)
    func plan_saysWhatTheStoreDoes(seed: UInt64) throws {
        var random = SeededRandom(seed: seed, "world")
        let setting = Self.setting(&random)
        let item = setting.subscription.items[0]
        let step = Markets.priceStep(of: setting.subscription.currency) ?? 10
        let share = random.pick(-30...160)
        let price = max(step, (item.price * Int64(100 + share) / 100) / step * step)
        guard price != item.price else { return }

        let decision = ConsentRule(
            subscription: setting.subscription, calendar: BillingCalendar(), now: setting.now
        ).decide(item: item, price: price)
        let judge = Judge(
            rules: Self.rules.inForce(at: Instant(milliseconds: setting.now)),
            environment: .production, now: Instant(milliseconds: setting.now))
        let row = BatchRow(
            line: 2, originalTransactionID: setting.facts.originalTransactionID, sku: item.sku,
            newPrice: price, currency: setting.subscription.currency)
        let plan = try #require(
            judge.judge(rows: [row], facts: setting.facts, context: setting.context).first)

        #expect(plan.code == nil, "seed \(seed)")
        #expect((plan.consent == .required) == decision.needsConsent, "seed \(seed)")
        #expect(plan.consent != .notKnown, "seed \(seed)")
        #expect(plan.effectiveAt?.milliseconds == decision.effectiveAt, "seed \(seed)")
        if plan.direction == .increase {
            #expect(plan.noticeAt?.milliseconds == decision.tellsAt, "seed \(seed)")
        }
    }

    /// Apple's rules where the store has published ones, and the word that no storefront always asks.
    private static let rules: RuleSet = {
        var rules = RuleSet.shipped
        rules[.alwaysConsent] = ["KOR", "JPN", "USA", "BRA"].map {
            .alwaysConsent($0, isRequired: false)
        }
        for storefront in ["KOR", "JPN"] {
            guard let market = Markets.byStorefront[storefront] else { continue }
            for (kind, amount) in [
                (PeriodKind.nonannual, market.thresholds.nonAnnual),
                (.annual, market.thresholds.annual),
            ] {
                rules[.threshold].append(
                    .threshold(
                        storefront: storefront, currency: market.currency, kind: kind,
                        amount: amount, source: .apple))
            }
        }
        return rules
    }()

    private static func setting(_ random: inout SeededRandom) -> Setting {
        let places = ["KOR", "KOR", "USA", "BRA", "JPN"]
        let storefront = places[Int(random.pick(0...4))]
        let currency = Markets.byStorefront[storefront]?.currency ?? "USD"
        let period = BillingPeriod.allCases[Int(random.pick(0...5))]
        let step = Markets.priceStep(of: currency) ?? 10
        let purchasedAt = start + random.pick(0...60) * day
        let calendar = BillingCalendar()
        let anchorDay = Milliseconds.date(of: purchasedAt).day
        var items = ["A", "B", "C"].prefix(Int(random.pick(1...3))).map { sku in
            StoreItem(
                sku: sku, displayName: sku, description: sku,
                price: random.pick(100...900) * step)
        }
        for index in items.indices.dropFirst() where random.chance(50) {
            items[index].offer = StoreOffer(
                price: 0, periodsLeft: Int(random.pick(0...4)), periodCount: 5, reason: "WIN_BACK")
        }
        let expiresAt = calendar.end(of: period, from: purchasedAt, anchorDay: anchorDay)
        var subscription = StoreSubscription(
            originalTransactionID: 2_000_000_000_000_000, storefront: storefront,
            currency: currency, period: period, appAccountToken: "t", purchaseReferenceID: "r",
            startedAt: purchasedAt, anchorDay: anchorDay, purchasedAt: purchasedAt,
            expiresAt: expiresAt, items: Array(items), lastSignedAt: purchasedAt)
        // A sibling's increase was called for some time before.
        let calledAt = purchasedAt + random.pick(0...Int64((expiresAt - purchasedAt) / 2))
        var context = JudgeContext(increaseHistory: [])
        if items.count > 1, items[1].offer == nil, random.chance(60) {
            let raised = items[1].price + random.pick(1...200) * step
            let rule = ConsentRule(
                subscription: subscription, calendar: calendar, now: calledAt)
            let decision = rule.decide(item: items[1], price: raised)
            subscription.items[1].change = PendingChange(
                price: raised, effectiveAt: decision.effectiveAt,
                kind: .increase(
                    PendingIncrease(
                        needsConsent: decision.needsConsent, communicatesAt: decision.tellsAt,
                        dependentSKUs: [])))
            if random.chance(50) {
                // A change of ours, whose renewal we know.
                context.openChanges = [
                    .init(
                        changeID: "ours", sku: "B", newPrice: raised, dependentSKUs: [],
                        state: .scheduled,
                        increasesAt: Instant(milliseconds: decision.effectiveAt))
                ]
            }
        }
        if random.chance(30) {
            subscription.increasedAt = purchasedAt - random.pick(1...500) * day
            context.increaseHistory = [
                PastIncrease(
                    sku: "C",
                    at: Instant(milliseconds: subscription.increasedAt ?? 0))
            ]
        }
        let now = calledAt + random.pick(0...max(1, (expiresAt - calledAt) / 3))
        return Setting(
            subscription: subscription, facts: facts(subscription, signedAt: calledAt),
            context: context, now: now)
    }

    private static func facts(
        _ subscription: StoreSubscription, signedAt: Int64
    ) -> SubscriptionFacts {
        var facts = SubscriptionFacts(originalTransactionID: subscription.id)
        facts.status = 1
        facts.autoRenews = true
        facts.storefront = subscription.storefront
        facts.currency = subscription.currency
        facts.period = subscription.period.rawValue
        let started = Instant(milliseconds: subscription.startedAt)
        (facts.originalPurchaseAt, facts.recentSubscriptionStartAt) = (started, started)
        (facts.purchasedAt, facts.knownSince) = (started, started)
        facts.expiresAt = Instant(milliseconds: subscription.expiresAt)
        facts.renewalAt = facts.expiresAt
        facts.signedAt = Instant(milliseconds: signedAt)
        facts.items = subscription.items.map { item in
            var known = SubscriptionFacts.Item(sku: item.sku)
            known.currentPrice = item.price
            known.renewalPrice = item.price
            known.renews = true
            if let offer = item.offer {
                var running = SubscriptionFacts.Offer(price: offer.price)
                running.period = subscription.period.rawValue
                running.periodsLeft = offer.periodsLeft
                running.isRunning = true
                known.offer = running
            }
            if let change = item.change {
                var increase = SubscriptionFacts.Increase(status: "SCHEDULED")
                increase.price = change.price
                known.increase = increase
            }
            return known
        }
        return facts
    }
}
