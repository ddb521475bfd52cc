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
}
