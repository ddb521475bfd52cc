import TestSupport
import Testing

@testable import Pricing

/// Properties over seeded random subscriptions; a failure prints the seed.
@Suite(.ownThread) struct PlanPropertyTests {
    static let seeds: [UInt64] = Array(1...200)

    private static func facts(_ random: inout SeededGenerator) -> SubscriptionFacts {
        let periods = ["P1W", "P1M", "P2M", "P3M", "P6M", "P1Y"]
        let places = [
            ("USA", "USD"), ("ALB", "USD"), ("BRA", "BRL"), ("DEU", "EUR"), ("JPN", "JPY"),
        ]
        let place = places.randomElement(using: &random) ?? places[0]
        let renewal = Instant(
            milliseconds: Int64.random(
                in: 1_780_000_000_000...1_820_000_000_000, using: &random))
        return .make(
            period: periods.randomElement(using: &random),
            renewalAt: renewal.text, startedAt: "2026-01-31T00:00:00Z",
            price: Int64.random(in: 1...30_000, using: &random) * 1000, storefront: place.0,
            currency: place.1)
    }

    @Test(arguments: seeds)
    func increase_whenItGrows_neverLosesAReason(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let facts = Self.facts(&random)
        let price = facts.items[0].currentPrice ?? 0
        var context = JudgeContext()
        if Bool.random(using: &random) {
            context.increaseHistory = [PastIncrease(sku: "X", at: at("2026-05-01T00:00:00Z"))]
        }
        let raises = (0..<12).map { _ in Int64.random(in: 1...3 * price, using: &random) }.sorted()

        let reasons = raises.map { raise in
            let row = BatchRow.make(price + raise, currency: facts.currency ?? "")
            return Set(Judge.make().one(row, facts, context).reasons)
        }

        for (smaller, larger) in zip(reasons, reasons.dropFirst()) {
            #expect(smaller.isSubset(of: larger), "seed \(seed)")
        }
    }

    @Test(arguments: seeds)
    func effectiveAt_asTimePasses_neverMovesEarlier(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let facts = Self.facts(&random)
        let price = facts.items[0].currentPrice ?? 0
        let row = BatchRow.make(
            max(1, Int64.random(in: price / 2...price * 3, using: &random) + 1),
            currency: facts.currency ?? "",
            onOrAfter: Bool.random(using: &random) ? "2027-03-15" : nil)
        let instants = (0..<20).map { _ in
            Instant(
                milliseconds: Int64.random(
                    in: 1_780_000_000_000...1_830_000_000_000, using: &random))
        }.sorted()

        let plans = instants.map { Judge.make(now: $0).one(row, facts) }

        try #require(plans.allSatisfy { $0.code == nil || $0.code == .noChange })
        let dates = plans.compactMap(\.effectiveAt)
        #expect(zip(dates, dates.dropFirst()).allSatisfy { $0 <= $1 }, "seed \(seed)")
    }

    @Test(arguments: seeds)
    func sendByAndSendAfter_whenTried_areTheEdgesOfTheEffect(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let facts = Self.facts(&random)
        let price = facts.items[0].currentPrice ?? 0
        let raises: [Int64] = [-price / 3, price / 3, price * 2]
        let raise = raises.randomElement(using: &random) ?? 1
        let free = BatchRow.make(price + raise, currency: facts.currency ?? "")
        var held = free
        held.effectiveOnOrAfter = day("2028-06-15")
        let now = at("2026-11-01T00:00:00Z")

        let plan = Judge.make(now: now).one(held, facts)

        func effect(_ instant: Instant) -> Instant? {
            Judge.make(now: instant).one(free, facts).effectiveAt
        }
        let sendBy = try #require(plan.sendBy)
        let effectiveAt = try #require(plan.effectiveAt)
        #expect(effectiveAt >= day("2028-06-15").startAt)
        #expect(sendBy >= now)
        #expect(effect(sendBy) == effectiveAt, "seed \(seed)")
        #expect(try #require(effect(sendBy.advanced(by: 1))) > effectiveAt, "seed \(seed)")
        let sendAfter = try #require(plan.sendAfter)
        #expect(effect(sendAfter) == effectiveAt, "seed \(seed)")
        #expect(try #require(effect(sendAfter.advanced(by: -1))) < effectiveAt, "seed \(seed)")
        #expect(plan.consent == Consent.none ? plan.noticeAt == nil : plan.noticeAt ?? now >= now)
    }
}
