import Postgres
import Pricing
import TestSupport
import Testing

@testable import Batches

/// Who submits a large batch looks at it at once, and others decide on it, before the server has statistics of its rows.
/// It expects a few then. Were one statement to read the batch once for each of its rows, `show` would take minutes.
@Suite(.database, .serialized) struct DecisionReadTests {
    private static let batch = "00000000-0000-7000-8000-000000000001"

    @Test func figures_ofABatchWithoutStatistics_readItOnce() async throws {
        let plans = try await Self.plansWithoutStatistics { connection in
            _ = try ShowQueries.figures(
                of: Self.batch, asOf: Instant(milliseconds: 1_790_000_000_000), on: connection)
        }

        #expect(plans.contains { $0.name == "showSharedMoney" })
        #expect(plans.count >= 6)
        for plan in plans {
            // Here it would still be by the key of a row; of thirty times as many it is by the batch.
            let repeated = plan.scans.filter { $0.relation == "price_changes" && $0.isRepeated }
            #expect(repeated.isEmpty, "\(plan.name)")
        }
    }

    /// The plans of statements over a batch of 10,000 rows, each with a dependent, of which the server knows nothing.
    private static func plansWithoutStatistics(
        of body: @Sendable (isolated PostgresConnection) throws -> Void
    ) async throws -> [StatementPlan] {
        try await TestDatabase.plans(settings: [:]) {
            let connection = try await TestDatabase.connect()
            try await LargeTables.fill(connection)
            try await connection.script(
                """
                UPDATE repricer.price_changes SET dependent_skus = '{B}', at_risk_milliunits = 1;
                DELETE FROM pg_statistic WHERE starelid IN (
                    SELECT oid FROM pg_class WHERE relnamespace = 'repricer'::regnamespace);
                UPDATE pg_class SET reltuples = -1, relpages = 0
                WHERE oid = 'repricer.price_changes'::regclass
                """)
            try await connection.transaction { try body($0) }
            await connection.close()
        }.filter { $0.text.contains("price_changes") && $0.name.hasPrefix("show") }
    }
}
