import TestSupport
import Testing

@testable import SandboxStore

/// The promises that the quickstart stands on.
@Suite(.ownThread) struct SampleTests {
    static let start = Fixture.instant("2026-01-05")
    static let options = StoreEngine.Options(seed: 1, calendar: BillingCalendar())

    static func make(seed: UInt64 = 1, count: Int = 1000) -> SampleMaker.Sample {
        var options = options
        options.seed = seed
        return SampleMaker(options: options, start: start, count: count).make()
    }

    static func request(_ row: SampleRow, _ number: Int) throws -> ChangePriceRequest {
        let step = Markets.priceStep(of: row.currency) == 1000 ? 1000 : 10
        let digits = row.price.filter { $0 != "." }
        let price = try #require(Int64(digits)) * Int64(step)
        return try Fixture.request(
            row.sku, price, dependents: row.dependentSKUs, reference: number)
    }

    @Test func sample_ofAThousand_hasTheSpreadAndTheRows() {
        let sample = Self.make()
        let good = sample.rows.filter { $0.code == nil }

        #expect(sample.subscriptions.count == 1000)
        #expect(good.count >= 1260)
        #expect(Set(sample.subscriptions.map(\.storefront)).count >= 12)
        #expect(Set(sample.subscriptions.map(\.currency)).count >= 12)
        #expect(Set(sample.subscriptions.map(\.period)) == Set(BillingPeriod.allCases))
        #expect(Set(sample.subscriptions.map(\.items.count)) == [1, 2, 3, 4])
        #expect(good.contains { !$0.dependentSKUs.isEmpty && $0.effectiveOnOrAfter != nil })
        #expect(Set(sample.subscriptions.map(\.originalTransactionID)).count == 1000)
    }

    @Test func sample_refusedRows_areAtLeastTwoForEachCode() {
        let refused = Self.make().rows.compactMap(\.code)
        let counts = Dictionary(grouping: refused, by: { $0 }).mapValues(\.count)

        #expect(refused.count == 40)
        #expect(Set(counts.keys) == Set(Refusal.allCases.map(\.rawValue)))
        #expect(counts.values.allSatisfy { $0 >= 2 })
    }

    @Test func sample_withTheSameSeed_isTheSame() {
        #expect(Self.make().rows == Self.make().rows)
        #expect(Self.make().subscriptions == Self.make().subscriptions)
        #expect(Self.make(seed: 2).rows != Self.make().rows)
    }

    @Test func sample_subscriptions_leadToTheirRenewalFromTheirAnchor() {
        let active = Self.make().subscriptions.filter { $0.status == .active }

        let wrong = active.filter { subscription in
            let end = BillingCalendar().end(
                of: subscription.period, from: subscription.startedAt,
                count: subscription.renewalCount + 1, anchorDay: subscription.anchorDay)
            return end != subscription.expiresAt || subscription.purchasedAt >= Self.start
                || subscription.startedAt > subscription.purchasedAt || end <= Self.start
        }
        #expect(active.count > 900)
        #expect(wrong.isEmpty)
    }

    @Test(arguments: [(UInt64(1), Int64(1)), (2, 8), (3, 14), (1, 14)])
    func sample_sentInTheFirstWeeks_isFinalWithinTheQuarter(seed: UInt64, day: Int64) throws {
        let sample = Self.make(seed: seed)
        var engine = StoreEngine(
            options: Self.options, now: Self.start, subscriptions: sample.subscriptions)
        let sendAt = Self.start + day * Milliseconds.day
        _ = engine.advance(to: sendAt)
        let good = sample.rows.filter { $0.code == nil && $0.effectiveOnOrAfter == nil }

        for (number, row) in good.enumerated() {
            let request = try Self.request(row, number)
            _ = try engine.changePrice(transaction: row.transaction, request: request)
        }
        let events = engine.advance(to: Self.start + 90 * Milliseconds.day)

        let open = engine.subscriptions.values.filter { subscription in
            subscription.isBilledOrWaiting && subscription.items.contains { $0.change != nil }
        }
        #expect(open.isEmpty)
        let kinds = Set(events.map { "\($0.kind.rawValue)/\($0.subtype?.rawValue ?? "-")" })
        for kind in [
            "PRICE_INCREASE/PENDING", "PRICE_INCREASE/ACCEPTED", "EXPIRED/PRICE_INCREASE",
            "EXPIRED/VOLUNTARY", "EXPIRED/BILLING_RETRY", "DID_RENEW/BILLING_RECOVERY",
            "DID_FAIL_TO_RENEW/-", "DID_FAIL_TO_RENEW/GRACE_PERIOD", "REFUND/-", "REVOKE/-",
        ] {
            #expect(kinds.contains(kind), "\(kind)")
        }
    }

    @Test func sample_decliners_takeDependentsWithThem() throws {
        let sample = Self.make()
        var engine = StoreEngine(
            options: Self.options, now: Self.start, subscriptions: sample.subscriptions)
        let parents = sample.rows.filter {
            $0.code == nil && !$0.dependentSKUs.isEmpty && $0.effectiveOnOrAfter == nil
        }
        for (number, row) in parents.enumerated() {
            let request = try Self.request(row, number)
            _ = try engine.changePrice(transaction: row.transaction, request: request)
        }

        _ = engine.advance(to: Self.start + 90 * Milliseconds.day)

        var declined = 0
        for row in parents {
            let left = try #require(engine.subscription(ofTransaction: row.transaction))
            let skus = Set(left.renewingItems.map(\.sku))
            guard !skus.contains(row.sku), left.status == .active || left.expirationIntent == 3
            else { continue }
            declined += 1
            #expect(skus.isDisjoint(with: row.dependentSKUs))
        }
        #expect(declined >= 20)
    }

    /// Those beyond change nothing of the others, and each names an item of its customer's other subscription.
    @Test func pairs_addCustomersOfTwoSubscriptions_oneADependentOfTheOther() throws {
        let plain = Self.make(count: 200)
        let sample = SampleMaker(
            options: Self.options, start: Self.start, count: 200, pairs: 16
        ).make()
        let pairs = Array(sample.subscriptions.dropFirst(200))
        let rows = sample.rows.filter { row in pairs.contains { $0.id == row.transaction } }

        #expect(Array(sample.subscriptions.prefix(200)) == plain.subscriptions)
        #expect(pairs.count == 32)
        #expect(Set(pairs.map(\.id)).count == 32)
        #expect(rows.count == 16)
        #expect(rows.count { $0.code == "dependent_unknown" } == 2)
        for row in rows where row.code == nil {
            let first = try #require(pairs.first { $0.id == row.transaction })
            let others = pairs.filter {
                $0.appAccountToken == first.appAccountToken && $0.id != first.id
            }
            let carried = others.flatMap { other in
                other.items.flatMap { [$0.sku, "\(other.id)/\($0.sku)"] }
            }
            #expect(others.count == 1)
            #expect(!row.dependentSKUs.isEmpty && Set(carried).isSuperset(of: row.dependentSKUs))
        }
    }

    @Test func rows_asCSV_haveTheColumnsOfTheInterface() {
        let row = SampleRow(
            transaction: "2000000000010000", sku: "A", price: "12.99", currency: "USD",
            storefront: "USA", dependentSKUs: ["B", "C"], effectiveOnOrAfter: "2026-02-10")

        #expect(row.csv == "2000000000010000,A,12.99,USD,USA,B;C,,2026-02-10")
        #expect(SampleRow.header.split(separator: ",").count == 8)
    }
}
