import Testing

@testable import Pricing

struct ConsentTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var period: String
        var storefront: String
        var currency: String
        var from: Int64
        var to: Int64
        var reasons: [ConsentReason]
        var notKnown: [ConsentReason]

        init(
            _ period: String, _ storefront: String, _ currency: String, _ from: Int64, _ to: Int64,
            _ reasons: [ConsentReason], notKnown: [ConsentReason] = []
        ) {
            self.period = period
            self.storefront = storefront
            self.currency = currency
            self.from = from
            self.to = to
            self.reasons = reasons
            self.notKnown = notKnown
        }

        var testDescription: String { "\(storefront) \(period) \(from) → \(to)" }
    }

    @Test(arguments: [
        Case("P1M", "USA", "USD", 9990, 15_990, [.threshold]),
        Case("P1M", "USA", "USD", 9990, 12_990, []),
        Case("P1M", "USA", "USD", 2990, 7990, []),
        Case("P1M", "USA", "USD", 2990, 8000, [.threshold]),
        Case("P1M", "USA", "USD", 2990, 7991, [.threshold]),
        Case("P1M", "USA", "USD", 20_000, 30_000, []),
        Case("P1M", "USA", "USD", 20_000, 30_001, [.threshold]),
        Case("P6M", "USA", "USD", 9990, 15_990, [.threshold]),
        Case("P1W", "USA", "USD", 9990, 15_990, [.threshold]),
        Case("P1Y", "USA", "USD", 9990, 15_990, []),
        Case("P1Y", "USA", "USD", 60_000, 90_000, []),
        Case("P1Y", "USA", "USD", 99_990, 149_990, []),
        Case("P1Y", "USA", "USD", 99_990, 150_000, [.threshold]),
        Case("P1Y", "USA", "USD", 500_000, 745_000, []),
        Case("P1M", "ALB", "USD", 5000, 11_000, []),
        Case("P1M", "ALB", "USD", 5000, 11_010, [.threshold]),
        Case("P1M", "BRA", "BRL", 10_000, 50_000, []),
        Case("P1M", "BRA", "BRL", 10_000, 50_010, [.threshold]),
        Case("P1M", "JPN", "JPY", 1_000_000, 1_500_000, [], notKnown: [.alwaysConsentStorefront]),
        Case(
            "P1M", "JPN", "JPY", 1_000_000, 1_501_000, [],
            notKnown: [.alwaysConsentStorefront, .threshold]),
        // The amount of another currency says nothing without a rate.
        Case("P1M", "AUT", "GBP", 2000, 3010, [], notKnown: [.threshold]),
        Case("P1M", "USA", "USD", 1, .max, [.threshold]),
        Case("P1M", "USA", "USD", .max - 1, .max, []),
        Case("P1M", "USA", "USD", .max / 3 * 2, .max - 1, []),
    ])
    func increase_whenJudged_needsConsentOnlyAboveBothLimits(_ item: Case) {
        let facts = SubscriptionFacts.make(
            period: item.period, price: item.from, storefront: item.storefront,
            currency: item.currency)

        let plan = Judge.make().one(.make(item.to, currency: item.currency), facts)

        #expect(plan.code == nil)
        #expect(plan.reasons == item.reasons)
        #expect(plan.notKnown == item.notKnown)
        let open: Consent = item.notKnown.isEmpty ? .notRequired : .notKnown
        #expect(plan.consent == (item.reasons.isEmpty ? open : .required))
        #expect(plan.rules.map(\.rule) == ConsentReason.allCases)
        #expect(plan.rules.filter { $0.answer == true }.map(\.rule) == item.reasons)
        #expect(plan.rules.filter { $0.answer == nil }.map(\.rule) == item.notKnown)
    }

    @Test(arguments: [
        ("2025-11-01T00:00:00.000Z", "2026-11-01T00:00:00Z", false),
        ("2025-11-01T00:00:00.001Z", "2026-11-01T00:00:00Z", true),
        ("2024-02-29T00:00:00Z", "2025-02-28T00:00:00Z", false),
        ("2024-02-29T00:00:00Z", "2025-02-27T23:59:59.999Z", true),
    ])
    func history_whenWithin12CalendarMonths_needsConsent(
        earlier: String, now: String, expected: Bool
    ) {
        let context = JudgeContext(increaseHistory: [
            PastIncrease(sku: "OTHER", at: at(earlier)),
            PastIncrease(sku: "ITEM", at: at("2020-01-01T00:00:00Z")),
        ])

        let plan = Judge.make(now: now).one(.make(9999), .make(), context)

        #expect(plan.reasons == (expected ? [.increaseWithin12Months] : []))
    }

    /// A person states a day, which begins and ends elsewhere at other instants.
    @Test(arguments: [
        ("2026-11-11T23:59:59.999Z", true), ("2026-11-12T00:00:00Z", false),
    ])
    func history_thatWasImported_countsUntilItsDayIsOverEverywhere(now: String, expected: Bool) {
        let day = PastIncrease(sku: "ITEM", at: at("2025-11-10T00:00:00Z"), source: .imported)
        // It is later, and counts no longer.
        let charged = PastIncrease(sku: "OTHER", at: at("2025-11-10T20:00:00Z"))

        for history in [[day], [day, charged]] {
            let plan = Judge.make(now: now).one(
                .make(9999), .make(), JudgeContext(increaseHistory: history))
            #expect(plan.reasons == (expected ? [.increaseWithin12Months] : []))
        }
    }

    /// 27 February 2028 is over everywhere on the 29th, and twelve months later on 1 March.
    @Test(arguments: [
        ("2029-02-28T23:59:59.999Z", true), ("2029-03-01T00:00:00Z", false),
    ])
    func history_thatWasImportedBeforeALeapDay_countsForAsLong(now: String, expected: Bool) {
        let day = PastIncrease(sku: "ITEM", at: at("2028-02-27T00:00:00Z"), source: .imported)

        let plan = Judge.make(now: now).one(
            .make(9999), .make(), JudgeContext(increaseHistory: [day]))

        #expect(plan.reasons == (expected ? [.increaseWithin12Months] : []))
    }

    /// A statement tells exactly when an imported increase was charged.
    @Test(arguments: [
        ("ITEM", "2025-11-10T20:00:00Z", false), ("ITEM", "2025-11-11T23:59:59.999Z", false),
        ("ITEM", "2025-11-12T00:00:00Z", true), ("ITEM", "2025-11-09T23:59:59.999Z", true),
        ("OTHER", "2025-11-10T20:00:00Z", true),
    ])
    func history_thatWasImportedAndIsTold_countsFromWhereItWasCharged(
        sku: String, charged: String, isAnother: Bool
    ) {
        let context = JudgeContext(increaseHistory: [
            PastIncrease(sku: "ITEM", at: at("2025-11-10T00:00:00Z"), source: .imported),
            PastIncrease(sku: sku, at: at(charged)),
        ])
        let end = at(charged).advanced(byMonths: 12)
        let now = isAnother ? at("2026-11-11T23:59:59Z") : end

        let plan = Judge.make(now: now.text).one(.make(9999), .make(), context)

        #expect(plan.reasons == (isAnother ? [.increaseWithin12Months] : []))
    }

    @Test(arguments: [
        ("KOR", 0, "2026-11-01T00:00:00Z", true), ("KOR", 1, "2026-11-01T00:00:00Z", false),
        ("KOR", 1, "2026-11-20T00:00:00Z", true), ("USA", 0, "2026-11-01T00:00:00Z", false),
    ])
    func korea_whenAnotherItemsOfferEndsAtTheRenewal_needsConsent(
        storefront: String, periodsLeft: Int, now: String, expected: Bool
    ) {
        let facts = SubscriptionFacts.make(
            price: 3_300_000, storefront: storefront, currency: "KRW"
        ) {
            $0.edit("OTHER") {
                $0.offer = .init(price: 0, period: "P1M", periodsLeft: periodsLeft, isRunning: true)
            }
        }

        let plan = Judge.make(now: now).one(.make(3_900_000, currency: "KRW"), facts)

        #expect(plan.code == nil)
        #expect(plan.reasons == (expected ? [.koreaOfferConversion] : []))
    }

    @Test func rules_whenSeveralApply_areListedInOrder() {
        var rules = RuleSet.shipped
        rules[.alwaysConsent] = [.alwaysConsent("CHL")]
        let context = JudgeContext(increaseHistory: [
            PastIncrease(sku: "ITEM", at: at("2026-06-01T00:00:00Z"))
        ])
        let facts = SubscriptionFacts.make(price: 1000, storefront: "CHL", currency: "CLP")

        let plan = Judge.make(rules: rules).one(.make(9000, currency: "CLP"), facts, context)

        #expect(plan.reasons == [.alwaysConsentStorefront, .increaseWithin12Months])
        #expect(plan.notKnown == [.threshold])
        #expect(plan.consent == .required)
        #expect(plan.thresholdSource == .unknown)
    }

    @Test func rules_whenDated_judgeFromTheirDay() {
        var rules = RuleSet.shipped
        rules[.threshold].append(
            .threshold(
                storefront: "USA", currency: "USD", kind: .nonannual, amount: 7000,
                validFrom: at("2026-11-01T00:00:00Z"), source: .estimated))
        let before = Judge.make(now: "2026-10-31T23:59:59.999Z", rules: rules)
        let after = Judge.make(now: "2026-11-01T00:00:00Z", rules: rules)

        #expect(before.one(.make(15_990)).reasons == [.threshold])
        #expect(before.one(.make(15_990)).thresholdSource == .apple)
        #expect(after.one(.make(15_990)).reasons == [])
        #expect(after.one(.make(15_990)).thresholdSource == .estimated)
    }

    @Test func decrease_whenJudged_asksNoRule() {
        let plan = Judge.make().one(.make(7990))

        #expect(plan.direction == .decrease)
        #expect(plan.consent == Consent.none)
        #expect(plan.rules.isEmpty)
        #expect(plan.noticeAt == nil)
    }

    @Test func shippedRules_whenCounted_areApplesRowsAndTheRulesOwn() {
        let storefronts = Set(RuleSet.shipped[.threshold].map(\.storefront))

        #expect(storefronts.count == 28)
        #expect(RuleSet.shipped[.threshold].count == 56)
        #expect(
            RuleSet.shipped[.threshold].allSatisfy { $0.isApples && $0.validFrom == nil })
        #expect(RuleSet.shipped[.alwaysConsent].isEmpty)
    }
}
