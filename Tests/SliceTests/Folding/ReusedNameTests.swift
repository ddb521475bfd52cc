import Postgres
import TestSupport
import Testing

@testable import Pricing

/// The changed item was renamed, and the customer buys another item that bears the former name. No figure of the change may
/// take one for the other: each life is told twice, and the other item's name is the only difference.
@Suite(.database) struct ReusedNameTests {
    enum Life: CaseIterable {
        case bothRenew, theChangedOneStops, theOtherStops, renamedAgain, seatsAdded
    }

    @Test(arguments: Life.allCases, [Int64(14990), 9990, 4990])
    func figures_anotherItemUnderTheFormerName_areThoseOfAnyName(
        life: Life, price: Int64
    ) async throws {
        let harness = try await DeliveryHarness.make()
        let former = try await Self.told(life, of: "1", other: "A", at: price, harness)
        let fresh = try await Self.told(life, of: "2", other: "NEW", at: price, harness)
        await harness.close()

        #expect(
            former.change == [
                "\(life == .renamedAgain ? "A3" : "A2") A \(RenamedItem.start(71).milliseconds)"
            ])
        #expect(former.figures == fresh.figures)
        #expect(
            former.figures.contains { $0.hasPrefix("missing A2") } == (life == .theChangedOneStops))
    }

    /// A change that took effect on day 40, whose item was renamed on day 41 and charged under its new name on day 71.
    private static func rename(_ id: String, _ harness: DeliveryHarness) async throws {
        try await harness.subscribe(id)
        try await harness.approve(
            harness.submit([DeliveryHarness.row(id, to: 14990)], content: id))
        try await harness.deliver(harness.scheduler())
        try await harness.tell(
            RenamedItem.event(
                id, "DID_RENEW", 40, charged: [("A", 14990), ("B", 9990)], from: 40, to: 71))
        try await harness.tell(
            RenamedItem.event(id, "METADATA_UPDATE", 41, renewing: [("A2", 14990), ("B", 9990)]))
        try await harness.tell(
            RenamedItem.event(
                id, "DID_RENEW", 71, charged: [("A2", 14990), ("B", 9990)], from: 71, to: 102))
    }

    private static func told(
        _ life: Life, of id: String, other name: String, at price: Int64,
        _ harness: DeliveryHarness
    ) async throws -> (change: [String], figures: [String]) {
        try await rename(id, harness)
        let ours = [("A2", Int64(14990)), ("B", 9990)]
        var bought = RenamedItem.event(
            id, "DID_CHANGE_RENEWAL_PREF", 80, charged: ours + [(name, price)], from: 80, to: 111)
        bought.subtype = "UPGRADE"
        bought.transaction?.reason = "PURCHASE"
        try await harness.tell(bought)
        if life == .seatsAdded {
            var seats = RenamedItem.event(
                id, "ONE_TIME_CHARGE", 90, charged: [(name, price)], from: 90, to: 111)
            seats.transaction?.reason = "PURCHASE"
            seats.transaction?.details[.additionalTransactionReason] = .text("SEAT_ADDITION")
            seats.renewal = nil
            try await harness.tell(seats)
        }
        let later =
            switch life {
            case .bothRenew, .renamedAgain, .seatsAdded: ours + [(name, price)]
            case .theChangedOneStops: [("B", 9990), (name, price)]
            case .theOtherStops: ours
            }
        for day in [Int64(111), 142, 173] {
            try await harness.tell(
                RenamedItem.event(id, "DID_RENEW", day, charged: later, from: day, to: day + 31))
        }
        if life == .renamedAgain {
            try await harness.tell(
                RenamedItem.event(
                    id, "METADATA_UPDATE", 180,
                    renewing: [("A3", 14990), ("B", 9990), (name, price)]))
        }
        let owner = try await TestDatabase.connect()
        let change = try await owner.query(
            """
            SELECT concat_ws(' ', current_sku, former_skus[1], (extract(epoch FROM former_until[1]) * 1000)::bigint) AS text
            FROM repricer.price_changes WHERE original_transaction_id = \(id)
            """
        ).map { try $0.text("text") }
        let batch: SQL =
            "batch_id = (SELECT batch_id FROM repricer.price_changes WHERE original_transaction_id = \(id))"
        let figures = try await owner.query(
            """
            SELECT concat_ws(' ', 'change', state, charged_renewals, charged_uplift_milliunits) AS text FROM report.price_change WHERE \(fragment: batch)
            UNION ALL SELECT concat_ws(' ', exception, sku, amount_milliunits, expected_milliunits) FROM report.charge_exception WHERE \(fragment: batch)
            UNION ALL SELECT concat_ws(' ', check_name, problems) FROM report.reconciliation WHERE NOT is_ok AND \(fragment: batch)
            UNION ALL SELECT concat_ws(' ', month, opening_milliunits, price_effect_milliunits, other_milliunits,
                closing_milliunits) FROM report.revenue_bridge WHERE \(fragment: batch)
            UNION ALL SELECT concat_ws(' ', charged_renewals, uplift_per_period_milliunits, new_per_period_milliunits, silent)
                FROM report.revenue_impact WHERE \(fragment: batch)
            ORDER BY 1
            """
        ).map {
            try $0.text("text").replacingOccurrences(
                of: name == "A" ? " A " : " NEW ", with: " other ")
        }
        await owner.close()
        return (change, figures)
    }
}
