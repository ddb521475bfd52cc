import Postgres
import TestSupport
import Testing

@testable import Pricing

/// The item was renamed while its period ran, and only then submitted under its new name. Its figures are those of an item that
/// always had that name.
@Suite(.database) struct RenamedBeforeTests {
    @Test func figures_ofAnItemRenamedBeforeItsSubmission_areThoseOfAnyItem() async throws {
        let harness = try await DeliveryHarness.make()
        for (id, name) in [("1", "A"), ("2", "A2")] {
            try await Self.begin(id, as: name, harness)
        }
        harness.clock.advance(by: .seconds(15 * 86_400))
        let renamed = try await Self.figures(of: "1", harness)
        let always = try await Self.figures(of: "2", harness)
        await harness.close()

        #expect(renamed == always)
    }

    private static func begin(_ id: String, as name: String, _ harness: DeliveryHarness)
        async throws
    {
        try await harness.tell(
            RenamedItem.event(
                id, "SUBSCRIBED", 0, charged: [(name, 9990), ("B", 9990)], from: 0, to: 40))
        if name != "A2" {
            try await harness.tell(
                RenamedItem.event(id, "METADATA_UPDATE", 12, renewing: [("A2", 9990), ("B", 9990)]))
        }
    }

    private static func figures(
        of id: String, _ harness: DeliveryHarness
    ) async throws -> [String] {
        try await harness.approve(
            harness.submit(
                [DeliveryHarness.row(id, "A2", to: 14990)], content: id))
        try await harness.deliver(harness.scheduler())
        try await harness.tell(
            RenamedItem.event(
                id, "DID_RENEW", 40, charged: [("A2", 9990), ("B", 9990)], from: 40, to: 71))
        try await harness.tell(
            RenamedItem.event(
                id, "DID_RENEW", 71, charged: [("A2", 14990), ("B", 9990)], from: 71, to: 102))
        let owner = try await TestDatabase.connect()
        let batch: SQL =
            "batch_id = (SELECT batch_id FROM repricer.price_changes WHERE original_transaction_id = \(id))"
        let figures = try await owner.query(
            """
            SELECT concat_ws(' ', 'change', state, charged_renewals, charged_uplift_milliunits) AS text FROM report.price_change WHERE \(fragment: batch)
            UNION ALL SELECT concat_ws(' ', exception, sku, amount_milliunits, expected_milliunits) FROM report.charge_exception WHERE \(fragment: batch)
            UNION ALL SELECT concat_ws(' ', check_name, problems) FROM report.reconciliation WHERE NOT is_ok AND \(fragment: batch)
            UNION ALL SELECT concat_ws(' ', month, opening_milliunits, price_effect_milliunits, other_milliunits,
                closing_milliunits) FROM report.revenue_bridge WHERE \(fragment: batch)
            ORDER BY 1
            """
        ).map { try $0.text("text") }
        await owner.close()
        return figures
    }
}
