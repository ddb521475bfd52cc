import Postgres
import TestSupport
import Testing

@testable import Batches

/// A submission fills `price_changes` while its plan still reads, a piece at a time, with statistics of a table that was
/// empty. Were a piece to read all changes that are open, or all that there are, the time would grow with the square of
/// the rows.
@Suite(.database, .serialized) struct SubmissionReadTests {
    /// As many as a piece has: for so many ids, another way than by their key looks as cheap.
    private static let ids = (1...4096).map(String.init)

    @Test(arguments: [false, true])
    func plan_readsTheChangesOfItsSubscriptionsAlone(isLarge: Bool) async throws {
        let plans = try await Self.plans(isLarge: isLarge) {
            _ = try PlanQueries.openChanges(Self.ids, on: $0)
            _ = try PlanQueries.claims(on: Self.ids, on: $0)
        }

        #expect(Set(plans.map(\.name)) == ["planOpenChanges", "dependentClaims"])
        #expect(Self.faults(plans) == [])
    }

    /// The statements as they once were: the check above finds both.
    @Test func formerStatements_areFound() async throws {
        let open = """
            ('awaiting_approval', 'queued', 'unknown', 'scheduled', 'pending_consent', 'accepted')
            """

        let plans = try await Self.plans(isLarge: true) {
            _ = try $0.query(
                """
                -- name: planOpenChanges
                SELECT original_transaction_id, change_id FROM repricer.price_changes
                WHERE original_transaction_id = ANY (\(Self.ids)::text[]) AND stage IN \(unsafe: open)
                    AND (undoes_change_id IS NULL OR state NOT IN ('scheduled', 'pending_consent', 'accepted'))
                ORDER BY original_transaction_id, send_by, change_id
                """)
            _ = try $0.query(
                """
                -- name: dependentClaims
                SELECT d.original_transaction_id || '/' || d.sku AS name, coalesce(c.current_sku, c.sku) AS sku
                FROM repricer.dependent_claims d
                JOIN repricer.price_changes c ON c.original_transaction_id = d.claimed_by
                    AND c.change_id = d.change_id AND c.state IN \(unsafe: open)
                WHERE d.original_transaction_id = ANY (\(Self.ids)::text[])
                ORDER BY name, d.claimed_by, d.change_id
                """)
        }

        #expect(
            Self.faults(plans) == [
                "dependentClaims: price_changes from end to end",
                "planOpenChanges: price_changes by price_changes_batch",
            ])
    }

    private static func plans(
        isLarge: Bool,
        of statements: @Sendable (isolated PostgresConnection) throws -> Void
    ) async throws -> [StatementPlan] {
        let all = try await TestDatabase.plans(settings: [:]) {
            let connection = try await TestDatabase.connect()
            if isLarge { try await LargeTables.fill(connection) }
            try await PlanQueries.beginSnapshot(on: connection)
            try await statements(connection)
            try await PlanQueries.endSnapshot(on: connection)
            await connection.close()
        }
        return all.filter { ["planOpenChanges", "dependentClaims"].contains($0.name) }
    }

    private static func faults(_ plans: [StatementPlan]) -> [String] {
        plans.flatMap { plan in
            plan.scans.filter { $0.relation == "price_changes" }.compactMap { scan in
                guard scan.hasKey else {
                    return "\(plan.name): price_changes from end to end"
                }
                // Its key begins with the subscription.
                guard let index = scan.index, index != "price_changes_pkey" else { return nil }
                return "\(plan.name): price_changes by \(index)"
            }
        }.sorted()
    }
}
