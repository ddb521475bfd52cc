import Testing

@testable import Pricing

/// What a refusal of consent would cost: the item and what falls with it, as charged today.
struct AtRiskTests {
    @Test(
        arguments: [
            (12_990, [], 9990), (12_990, ["OTHER"], 13_980), (7990, ["OTHER"], nil),
        ] as [(Int64, [String], Int64?)])
    func row_countsItsItemAndItsDependents(
        price: Int64, dependents: [String], expected: Int64?
    ) {
        let plan = Judge.make().one(.make(price, dependents: dependents))

        #expect(plan.code == nil)
        #expect(plan.atRisk == expected)
        #expect(plan.atRiskElsewhere.isEmpty)
    }

    @Test func itemThatJoinsAtTheRenewal_countsWithWhatItWillCostThere() {
        let facts = SubscriptionFacts.make { $0.edit { $0.currentPrice = nil } }

        let plan = Judge.make().one(.make(dependents: ["OTHER"]), facts)

        #expect(plan.code == nil)
        #expect(plan.atRisk == 13_980)
    }

    /// A price is that of one seat, and what a period costs and loses is that of all. A warning counts such rows.
    @Test func seats_areAllAtRisk() {
        let facts = SubscriptionFacts.make { $0.quantity = 3 }

        let plan = Judge.make().one(.make(12_990, dependents: ["OTHER"]), facts)
        var forecast = BatchForecast()
        forecast.add(plan)

        #expect(plan.atRisk == 41_940)
        #expect(plan.currentPrice == 9990)
        #expect(forecast.money.values.map(\.now) == [29_970])
        #expect(forecast.money.values.map(\.then) == [38_970])
        #expect(forecast.figures.warnings[.severalSeats]?.count == 1)
    }

    /// A plan is approved by its sums, so another number of seats is another plan, of a decrease too.
    @Test func seats_arePartOfThePlansHash() {
        func hash(seats: Int) -> String {
            let judge = Judge.make()
            var hash = PlanHash(
                rules: RuleSet.shipped.inForce(at: judge.now), environment: .production)
            hash.add(judge.one(.make(7990), .make { $0.quantity = seats }))
            return hash.text
        }

        #expect(hash(seats: 1) == hash(seats: 0))
        #expect(hash(seats: 1) != hash(seats: 2))
    }

    @Test func dependent_inAnOffer_countsAtWhatItIsCharged() {
        let facts = SubscriptionFacts.make {
            $0.edit("OTHER") { $0.offer = .init(price: 990, isRunning: true) }
        }

        #expect(Judge.make().one(.make(dependents: ["OTHER"]), facts).atRisk == 10_980)
    }

    @Test func dependents_onOtherSubscriptions_countWhereCurrencyAndPeriodAgree() {
        func charge(_ sku: String, _ currency: String, _ period: String) -> ItemCharge {
            ItemCharge(
                originalTransactionID: "7", sku: sku, currency: currency, storefront: "USA",
                period: period, amount: 1000)
        }
        let charges = [
            charge("SAME", "USD", "P1M"), charge("YEAR", "USD", "P1Y"),
            charge("EURO", "EUR", "P1M"),
        ]
        var context = JudgeContext()
        for charge in charges {
            context.charges["7/\(charge.sku)"] = charge
            context.siblingSKUs.insert("7/\(charge.sku)")
        }
        let row = BatchRow.make(19_990, dependents: ["7/SAME", "7/YEAR", "7/EURO"])

        let plan = Judge.make().one(row, .make(), context)
        var forecast = BatchForecast()
        forecast.add(plan)

        #expect(plan.code == nil)
        #expect(plan.atRisk == 10_990)
        #expect(plan.atRiskElsewhere == Array(charges.dropFirst()))
        #expect(
            plan.json.contains(
                #""at_risk_milliunits":10990,"at_risk_elsewhere":[{"original_transaction_id":"7","#)
        )
        let sums = forecast.money.sorted { $0.key < $1.key }.map { [$1.now, $1.atRisk] }
        #expect(sums.map { $0.map(\.milliunits) } == [[0, 1000], [9990, 10_990], [0, 1000]])
    }

    /// An item that is a row of its own, and falls with another one, is lost once.
    @Test(
        arguments: [
            (9990, 13_980, 0), (4990, 9990 + 3990, 0), (2990, 13_980, 0),
        ] as [(Int64, Int64, Int64)])
    func sums_countAnItemOnce_thatIsARowAndADependent(
        price: Int64, atRisk: Int64, maybe: Int64
    ) {
        let rows = [
            BatchRow.make(19_990, dependents: ["OTHER"]),
            .make(price, sku: "OTHER", line: 3),
        ]

        let plans = Judge.make().judge(rows: rows, facts: .make(), context: JudgeContext())
        var forecast = BatchForecast()
        plans.forEach { forecast.add($0) }

        #expect(plans.map(\.code) == [nil, nil])
        #expect(plans[0].atRisk == 13_980)
        let sums = forecast.money.values.map { [$0.atRisk, $0.maybeAtRisk] }
        #expect(sums.map { $0.map(\.milliunits) } == [[atRisk, maybe]])
    }

    /// Of a dependent elsewhere nobody has said what it costs. What is known counts all the same.
    @Test func dependent_ofWhichNoChargeIsKnown_hidesNoOther() {
        let context = JudgeContext(siblingSKUs: ["7/FAR"])

        let plan = Judge.make().one(
            .make(19_990, dependents: ["7/FAR", "OTHER"]), .make(), context)

        #expect(plan.code == nil)
        #expect(plan.atRisk == 13_980)
    }

    /// Where both losses are as certain, it counts with its own row.
    @Test func rowOfItsOwn_countsTheItem_whereBothAreAsCertain() {
        let rows = [
            BatchRow.make(19_990, dependents: ["OTHER"]),
            .make(9990, sku: "OTHER", line: 3),
        ]

        let plans = Judge.make().judge(rows: rows, facts: .make(), context: JudgeContext())

        #expect(plans.map(\.consent) == [.required, .required])
        #expect(plans.map { $0.countedAtRisk(0) } == [9990, 3990])
    }

    /// It counts where its loss is more certain.
    @Test func sums_countAnItemOnce_whereItsLossIsSurer() {
        let facts = SubscriptionFacts.make { $0.knownSince = nil }
        let rows = [
            BatchRow.make(19_990, dependents: ["OTHER"]), .make(4990, sku: "OTHER", line: 3),
        ]

        let plans = Judge.make().judge(rows: rows, facts: facts, context: JudgeContext())
        var forecast = BatchForecast()
        plans.forEach { forecast.add($0) }

        #expect(plans.map(\.consent) == [.required, .notKnown])
        let sums = forecast.money.values.map { [$0.atRisk, $0.maybeAtRisk] }
        #expect(sums.map { $0.map(\.milliunits) } == [[13_980, 0]])
    }

    /// An item of another subscription that is a row there, and falls with a row here, is lost once: where its loss is more
    /// certain, and otherwise with its own row. In whatever order the rows come, and whatever the period of the other one.
    @Test(arguments: [true, false], ["P1M", "P1Y"])
    func sums_countAnItemOnce_thatIsADependentOfAnotherSubscription(
        isParentFirst: Bool, period: String
    ) throws {
        for (isHereKnown, isThereKnown) in [(true, true), (true, false), (false, true)] {
            let here = SubscriptionFacts.make()
            var there = SubscriptionFacts.make(period: period) {
                $0.originalTransactionID = "7"
                $0.knownSince = isThereKnown ? $0.knownSince : nil
            }
            there.items = [.make("THERE", price: 70_000)]
            var context = JudgeContext()
            context.siblingSKUs = ["7/THERE"]
            context.charges["7/THERE"] = there.charge(of: "THERE")
            var own = BatchRow.make(isThereKnown ? 190_000 : 71_000, sku: "THERE", line: 3)
            own.originalTransactionID = "7"

            let plans = [
                Judge.make().one(
                    .make(isHereKnown ? 19_990 : 10_990, dependents: ["7/THERE"]),
                    isHereKnown
                        ? here : SubscriptionFacts.make { $0.knownSince = nil }, context),
                Judge.make().one(own, there),
            ]
            var forecast = BatchForecast()
            for plan in isParentFirst ? plans : plans.reversed() { forecast.add(plan) }
            let before = forecast.figures.money
            forecast.finish()

            #expect(plans.map(\.code) == [nil, nil])
            #expect(
                plans.map(\.consent) == [
                    isHereKnown ? .required : .notKnown, isThereKnown ? .required : .notKnown,
                ])
            #expect(before == forecast.figures.money)
            let sums = forecast.money.values
            #expect(
                sums.reduce(MoneySum.zero) { $0 + $1.atRisk }
                    == MoneySum(isHereKnown ? 79_990 : 70_000))
            #expect(
                sums.reduce(MoneySum.zero) { $0 + $1.maybeAtRisk }
                    == MoneySum(isHereKnown ? 0 : 9990))
        }
    }

    /// A row may name an item in two ways, and an item of its own with the subscription's id.
    @Test(
        arguments: [
            (["7/THERE", "THERE"], 10_990), (["OTHER", "2000000000000001/OTHER"], 13_980),
            (["2000000000000001/OTHER"], 13_980),
        ] as [([String], Int64)])
    func dependent_thatARowNamesInTwoWays_countsOnce(names: [String], expected: Int64) {
        var context = JudgeContext()
        context.siblingSKUs = ["THERE", "7/THERE", "2000000000000001/OTHER"]
        context.places["THERE"] = [DependentReference("7/THERE")]
        context.charges["7/THERE"] = Self.charge("THERE", "USD", 1000)
        context.charges["2000000000000001/OTHER"] = SubscriptionFacts.make().charge(of: "OTHER")
        let rows = [
            BatchRow.make(19_990, dependents: names), .make(9990, sku: "OTHER", line: 3),
        ]

        let plan = Judge.make().one(rows[0], .make(), context)
        var forecast = BatchForecast()
        Judge.make().judge(rows: rows, facts: .make(), context: context).forEach {
            forecast.add($0)
        }

        #expect(plan.code == nil)
        #expect(plan.atRisk == expected)
        // OTHER is at risk by its own row in each case.
        let whole = names.contains("THERE") ? expected + 3990 : expected
        #expect(forecast.money.values.map(\.atRisk) == [MoneySum(whole)])
    }

    /// The item renews on another subscription of the customer, and only there can it fall.
    @Test func dependent_thatLeavesHereAndRenewsElsewhere_countsThereAlone() {
        let facts = SubscriptionFacts.make { $0.edit("OTHER") { $0.renews = false } }
        var context = JudgeContext()
        context.siblingSKUs = ["OTHER", "7/OTHER"]
        context.places["OTHER"] = [DependentReference("7/OTHER")]
        context.charges["7/OTHER"] = Self.charge("OTHER", "USD", 1000)

        let plan = Judge.make().one(.make(19_990, dependents: ["OTHER"]), facts, context)

        #expect(plan.code == nil)
        #expect(plan.atRisk == 10_990)
        #expect(plan.atRiskElsewhere.isEmpty)
    }

    /// A line of money with neither rows nor anything at risk would only raise the question why it is there.
    @Test(arguments: [(12_990, "USD", 1000), (19_990, "USD", 1000), (19_990, "EUR", 0)])
    func moneyOfDependentsElsewhere_isListedWhereItIsAtRisk(
        price: Int64, currency: String, amount: Int64
    ) {
        var context = JudgeContext()
        context.siblingSKUs = ["7/THERE"]
        context.charges["7/THERE"] = Self.charge("THERE", currency, amount, period: "P1Y")
        var forecast = BatchForecast()

        forecast.add(Judge.make().one(.make(price, dependents: ["7/THERE"]), .make(), context))

        let isAtRisk = price == 19_990 && amount > 0
        #expect(forecast.money.count == (isAtRisk ? 2 : 1))
        #expect(forecast.money.values.map(\.rows).reduce(0, +) == 1)
    }

    private static func charge(
        _ sku: String, _ currency: String, _ amount: Int64, period: String = "P1M"
    ) -> ItemCharge {
        ItemCharge(
            originalTransactionID: "7", sku: sku, currency: currency, storefront: "USA",
            period: period, amount: amount)
    }
}
