import Foundation
import TestSupport
import Testing

@testable import Pricing

/// What the rules say in random cases, one line a case. A mutant that changes nothing for anybody changes none of them.
///
/// `Deploy/mutate` runs it, and no other run of the tests. The cases crowd where an answer turns: a millisecond around
/// leads, twelve months, renewals and thresholds.
@Suite struct RandomAnswers {
    private static let settings = ProcessInfo.processInfo.environment

    @Test(.enabled(if: settings["REPRICER_ANSWERS"] != nil, "only Deploy/mutate asks for them"))
    func say() throws {
        let file = try #require(Self.settings["REPRICER_ANSWERS"])
        let count = try #require(Self.settings["REPRICER_CASES"].flatMap { UInt64($0) })
        let lines = (1...count).map { seed in
            var random = RandomCase(seed: seed)
            return String(Self.digest(random.answers()), radix: 16)
        }
        try (lines.joined(separator: "\n") + "\n").write(
            toFile: file, atomically: true, encoding: .utf8)
    }

    /// FNV-1a, so that a line a case is enough.
    private static func digest(_ text: String) -> UInt64 {
        text.utf8.reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x0000_0100_0000_01B3 }
    }
}

private struct RandomCase: RandomNumberGenerator {
    private static let day: Int64 = 86_400_000
    private static let periods = [
        "P1W", "P1W", "P1M", "P1M", "P2M", "P3M", "P6M", "P1Y", "P9Z",
    ]
    private static let places = [
        ("USA", "USD"), ("USA", "USD"), ("KOR", "KRW"), ("KOR", "KRW"), ("DEU", "EUR"),
        ("ALB", "USD"), ("BRA", "BRL"), ("IND", "INR"), ("JPN", "JPY"), ("FIN", "EUR"),
    ]
    private var random: SeededGenerator

    init(seed: UInt64) { random = SeededGenerator(seed: seed &* 0x2545_F491_4F6C_DD1D) }

    mutating func next() -> UInt64 { random.next() }

    private mutating func one<Value>(_ values: [Value]) -> Value {
        values[Int(next() % UInt64(values.count))]
    }
    private mutating func maybe(_ percent: UInt64) -> Bool { next() % 100 < percent }
    private mutating func number(_ range: ClosedRange<Int64>) -> Int64 {
        Int64.random(in: range, using: &self)
    }

    /// An instant at which something may turn, or a millisecond beside it.
    private mutating func instant(near others: [Instant]) -> Instant {
        let days = one([0, 0, 1, 7, 8, 21, 22, 27, 28, 30, 60, 61, number(0...400)])
        return one(others).advanced(
            by: one([-1, 1]) * days * Self.day + one([0, 0, -1, 1, number(-Self.day...Self.day)]))
    }

    mutating func answers() -> String {
        let now = Instant(milliseconds: number(1_780_000_000_000...1_820_000_000_000))
        let renewal = instant(near: [now])
        let facts = facts(now, renewal)
        let edges = [now, renewal, facts.expiresAt ?? now].flatMap {
            [$0, $0.advanced(byMonths: -12)]
        }
        let environment: StoreEnvironment = maybe(85) ? .production : .sandbox
        let rules = rules(edges)
        let judge = Judge(
            rules: maybe(90) ? RuleCourse(rules, from: now) : RuleCourse(rules.inForce(at: now)),
            environment: environment, now: now)
        let context = context(facts, edges)
        let rows = rows(facts, renewal)
        let plans = judge.judge(rows: rows, facts: facts, context: context)
        let sent = plans.map { stored($0, facts) }.map {
            text(judge.judgeForSending($0, facts: facts, context: context))
        }
        let prices = [9990, number(1...100_000_000)].map { price in
            judge.rules.rules(at: now).largestBelowThreshold(
                from: price, storefront: facts.storefront ?? "USA",
                currency: Currency.apple.first { $0.code == facts.currency }
                    ?? Currency(code: "USD", decimals: 2),
                kind: one([.annual, .nonannual]))
        }
        return plans.map(text).joined() + "\(sent)\(prices)"
            + "\(rules.inForce(at: now).estimateRows.filter { $0.currency == facts.currency })"
    }

    private func text(_ plan: PlanRow) -> String {
        let turned = plan.turn.map { turn in
            "\(turn.at.milliseconds) \(turn.consent) "
                + ConsentReason.allCases.map { "\(String(describing: turn.answers[$0]))" }.joined()
        }
        return plan.json + (turned ?? "")
    }

    private func text(_ verdict: SendingVerdict) -> String {
        switch verdict {
        case .send(let plan): text(plan)
        case .wait(let until): "wait \(until.milliseconds)"
        case .ineligible(let fault): "\(fault)"
        }
    }

    private mutating func facts(_ now: Instant, _ renewal: Instant) -> SubscriptionFacts {
        let (storefront, currency) = one(Self.places)
        var facts = SubscriptionFacts(originalTransactionID: "2000000000000001")
        facts.status = one([1, 1, 1, 1, 1, 1, 1, 2, 3, 4, nil])
        facts.autoRenews = one([true, true, true, true, nil, false])
        facts.isInBillingRetry = maybe(5)
        facts.storefront = maybe(97) ? storefront : nil
        facts.currency = maybe(97) ? currency : nil
        facts.period = maybe(97) ? one(Self.periods) : nil
        let start = renewal.advanced(
            byMonths: -Int(number(0...30))
        ).advanced(by: one([0, 0, -7 * Self.day, Self.day]))
        facts.recentSubscriptionStartAt = maybe(90) ? start : nil
        facts.originalPurchaseAt = maybe(50) ? instant(near: [start]) : nil
        facts.purchasedAt = maybe(90) ? renewal.advanced(by: -number(1...31) * Self.day) : nil
        facts.renewalAt = maybe(90) ? renewal : nil
        facts.expiresAt = maybe(90) ? renewal : nil
        facts.signedAt = maybe(90) ? instant(near: [now]) : nil
        facts.knownSince = one([
            nil, start, start, start.advanced(by: 1), now.advanced(byMonths: -12),
            now.advanced(byMonths: -12).advanced(by: 1),
        ])
        facts.items = ["A", "B", "C"].map { item($0, isOffered: maybe(25)) }
        return facts
    }

    private mutating func item(_ sku: String, isOffered: Bool) -> SubscriptionFacts.Item {
        let price = one([9990, 3990, 10_000, 1, 90_000, number(1...20_000) * 10])
        var item = SubscriptionFacts.Item(sku: sku)
        item.currentPrice = maybe(95) ? price : nil
        item.renewalPrice = one([price, price, price, price - 1, price + 1000, nil])
        item.renews = maybe(95)
        if isOffered {
            var offer = SubscriptionFacts.Offer(price: one([nil, 0, 990]))
            offer.isRunning = maybe(70)
            offer.periodsLeft = one([nil, 0, 1, 2, 3, 4, 1200, 1201])
            offer.period = maybe(40) ? one(Self.periods) : nil
            item.offer = offer
        }
        if maybe(20) {
            var increase = SubscriptionFacts.Increase(
                status: one(["SCHEDULED", "PENDING", "ACCEPTED", "OTHER"]))
            increase.price = one([nil, price + 1000, price * 2, price])
            item.increase = increase
        }
        return item
    }

    private mutating func rules(_ edges: [Instant]) -> RuleSet {
        var rules = RuleSet.shipped
        for (code, rate) in [
            ("USD", 1_100_000_000), ("KRW", 1_500_000_000_000), ("JPY", 160_000_000_000),
        ]
        where maybe(60) {
            rules[.exchangeRate].append(
                .exchangeRate(
                    code,
                    perEuro: Rate(billionths: Int64(rate) + number(0...1000)) ?? .one,
                    validFrom: one([nil, instant(near: edges)]), source: "ecb"))
        }
        for _ in 0..<number(0...4) {
            let (storefront, currency) = one(Self.places)
            rules[.threshold].append(
                .threshold(
                    storefront: storefront, currency: currency,
                    kind: one([.annual, .nonannual]), amount: number(1...10) * 1000,
                    validFrom: one([nil, instant(near: edges)]),
                    source: one([.apple, .apple, .estimated])))
        }
        for _ in 0..<number(0...3) {
            rules[.alwaysConsent].append(
                .alwaysConsent(
                    one(Self.places).0, isRequired: maybe(40),
                    validFrom: one([nil, instant(near: edges)])))
        }
        return rules
    }

    private mutating func context(
        _ facts: SubscriptionFacts, _ edges: [Instant]
    ) -> JudgeContext {
        var context = JudgeContext()
        context.increaseHistory = (0..<number(0...2)).map { _ in
            PastIncrease(
                sku: one(["A", "B", "C"]), at: instant(near: edges),
                source: one([.statement, .imported]), isOurs: maybe(30))
        }
        if maybe(30) { context.increaseHistory += context.increaseHistory }
        context.openChanges = (0..<one([0, 0, 1, 2])).map { index in
            JudgeContext.OpenChange(
                changeID: maybe(90) ? "change-\(index)" : nil, sku: one(["A", "B", "C"]),
                newPrice: number(1...40) * 1000, dependentSKUs: [],
                state: one([.awaitingApproval, .queued, .queued, .sending, .scheduled, .accepted]),
                increasesAt: maybe(85) ? instant(near: edges) : nil)
        }
        for sku in ["A", "B", "C"] where maybe(30) {
            context.announcedAt[sku] = instant(near: edges)
        }
        context.siblingSKUs = ["7/D"]
        context.charges["7/D"] = ItemCharge(
            originalTransactionID: "7", sku: "D", currency: one(["USD", "EUR"]),
            storefront: "USA", period: one(["P1M", "P1Y"]), amount: 990)
        return context
    }

    private mutating func rows(_ facts: SubscriptionFacts, _ renewal: Instant) -> [BatchRow] {
        let skus = one([
            ["A"], ["A", "B"], ["B", "A", "C"], Array(repeating: "A", count: 7) + ["B", "C"],
        ])
        let isHeld = maybe(40)
        return skus.enumerated().map { index, sku in
            let current = facts.items.first { $0.sku == sku }?.currentPrice ?? 5000
            let prices = [
                current * 11 / 10, current * 3 / 2, current * 3 / 2 + 1, current * 2,
                current + number(4990...5010), current + 8000, current * 12, current - 1, current,
            ]
            return BatchRow(
                line: index + 2, originalTransactionID: facts.originalTransactionID, sku: sku,
                newPrice: max(1, one(prices)),
                currency: maybe(95) ? facts.currency ?? "USD" : "EUR",
                storefront: maybe(20) ? facts.storefront : nil,
                dependentSKUs: maybe(20) ? ["7/D"] : [],
                expectedPrice: maybe(10) ? current : nil,
                effectiveOnOrAfter: isHeld && maybe(70) ? instant(near: [renewal]).day : nil)
        }
    }

    /// Consent that the plan foresaw, or said that it does not know of.
    private mutating func foreseen(near plan: PlanRow) -> ForeseenConsent? {
        let turns = [plan.sendBy, plan.sendAfter, plan.effectiveAt].compactMap(\.self)
        guard !turns.isEmpty else { return nil }
        return ForeseenConsent(
            from: instant(near: turns),
            reasons: [one(ConsentReason.allCases), one(ConsentReason.allCases)])
    }

    private mutating func stored(_ plan: PlanRow, _ facts: SubscriptionFacts) -> StoredChange {
        StoredChange(
            changeID: "change-0", originalTransactionID: facts.originalTransactionID, sku: plan.sku,
            newPrice: plan.newPrice ?? 1, currentPrice: plan.currentPrice ?? 1,
            currency: maybe(95) ? plan.currency ?? "USD" : "EUR", storefront: plan.storefront,
            period: plan.period,
            consent: maybe(60) ? plan.consent ?? .none : one([.required, .notRequired, .notKnown]),
            dependentSKUs: plan.dependentSKUs, effectiveOnOrAfter: plan.effectiveOnOrAfter,
            foreseen: maybe(30) ? foreseen(near: plan) : nil)
    }
}
