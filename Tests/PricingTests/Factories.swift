@testable import Pricing

/// The instant that a test names.
func at(_ text: String) -> Instant {
    guard let instant = Instant(text) else { preconditionFailure("no instant: \(text)") }
    return instant
}

func day(_ text: String) -> CivilDate {
    guard let date = CivilDate(text) else { preconditionFailure("no date: \(text)") }
    return date
}

extension SubscriptionFacts {
    /// An active monthly subscription in the USA with `ITEM` at 9.99, next renewal on 1 December 2026, of which
    /// statements tell from its start on.
    static func make(
        period: String? = "P1M", renewalAt: String? = "2026-12-01T00:00:00Z",
        startedAt: String? = "2026-01-01T00:00:00Z", price: Int64 = 9990,
        storefront: String? = "USA", currency: String? = "USD",
        change: (inout Self) -> Void = { _ in }
    ) -> SubscriptionFacts {
        var facts = SubscriptionFacts(
            originalTransactionID: "2000000000000001", status: 1, autoRenews: true,
            isInBillingRetry: false, storefront: storefront, currency: currency, period: period,
            recentSubscriptionStartAt: startedAt.map(at), renewalAt: renewalAt.map(at),
            items: [.make("ITEM", price: price), .make("OTHER", price: 3990)],
            knownSince: startedAt.map(at))
        change(&facts)
        return facts
    }

    mutating func edit(_ sku: String = "ITEM", _ change: (inout Item) -> Void) {
        for index in items.indices where items[index].sku == sku { change(&items[index]) }
    }
}

extension SubscriptionFacts.Item {
    static func make(_ sku: String, price: Int64?) -> SubscriptionFacts.Item {
        .init(sku: sku, currentPrice: price, renewalPrice: price, renews: true)
    }
}

extension MoneySum: ExpressibleByIntegerLiteral {
    package init(integerLiteral milliunits: Int64) { self.init(milliunits) }
}

extension BatchRow {
    static func make(
        _ newPrice: Int64 = 12_990, sku: String = "ITEM", line: Int = 2, currency: String = "USD",
        storefront: String? = nil, dependents: [String] = [], expected: Int64? = nil,
        onOrAfter: String? = nil
    ) -> BatchRow {
        BatchRow(
            line: line, originalTransactionID: "2000000000000001", sku: sku, newPrice: newPrice,
            currency: currency, storefront: storefront, dependentSKUs: dependents,
            expectedPrice: expected, effectiveOnOrAfter: onOrAfter.map(day))
    }
}

extension Judge {
    static func make(
        now: String = "2026-11-01T00:00:00Z", rules: RuleSet = .shipped,
        environment: StoreEnvironment = .production
    ) -> Judge {
        make(now: at(now), rules: rules, environment: environment)
    }

    static func make(
        now: Instant, rules: RuleSet = .shipped, environment: StoreEnvironment = .production
    ) -> Judge {
        Judge(rules: rules.inForce(at: now), environment: environment, now: now)
    }

    func one(
        _ row: BatchRow = .make(), _ facts: SubscriptionFacts? = .make(),
        _ context: JudgeContext = JudgeContext()
    ) -> PlanRow {
        judge(rows: [row], facts: facts, context: context)[0]
    }
}

extension RuleSet {
    /// These rules, and that no storefront of these always asks.
    func neverAlways(_ storefronts: String...) -> RuleSet {
        var rules = self
        rules[.alwaysConsent] += storefronts.map {
            .alwaysConsent($0, isRequired: false)
        }
        return rules
    }
}

extension PlanHash {
    mutating func add(_ row: PlanRow) {
        var bytes: [UInt8] = []
        row.appendHashed(to: &bytes)
        add(bytes)
    }
}

/// A small generator whose seed is printed by the test that fails.
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
