import Batches
import Postgres
import Pricing
import TestSupport
import Testing

@Suite(.database) struct SubmissionTests {
    private typealias World = DeliveryWorld

    @Test func approval_bySubmitter_isRefusedByTheDatabase() async throws {
        let world = try await World.make()
        try await world.subscribe("1")
        let batchID = try await world.submit([World.row("1")])
        let at = world.now.milliseconds

        await #expect(throws: PostgresError.self) {
            _ = try await world.submitter.withTransaction {
                try BatchQueries.approve(batchID, at: at, on: $0)
            }
        }
        await #expect(throws: PostgresError.self) {
            try await world.submitter.withTransaction { connection in
                _ = try connection.execute(
                    "UPDATE repricer.batches SET state = 'approved', decided_by = 'somebody'")
            }
        }

        #expect(try await world.changes() == ["A awaiting_approval"])
        await world.close()
    }

    @Test func submission_sameContentTwice_writesNothingNew() async throws {
        let world = try await World.make()
        try await world.subscribe("1")
        let first = try await world.submit([World.row("1")])

        let planned = try await Planner(
            pool: world.submitter, rules: .shipped, environment: .production
        ).plan(rows: [World.row("1")], asOf: world.now)
        let again = try await Submission.store(
            planned, name: "again", contentSHA256: "content", planHash: "hash", asOf: world.now,
            pool: world.submitter)

        #expect(again == .sameAsBefore(batchID: first))
        #expect(try await world.changes().count == 1)
        await world.close()
    }

    @Test func plan_openChangeOfTheItem_isAConflict_andTheDatabaseRefusesItToo() async throws {
        let world = try await World.make()
        try await world.subscribe("1")
        try await world.submit([World.row("1")])

        let planned = try await Planner(
            pool: world.submitter, rules: .shipped, environment: .production
        ).plan(rows: [World.row("1", to: 11990)], asOf: world.now)

        #expect(planned.map(\.code) == [.conflictOpenChange])
        await #expect(throws: PostgresError.self) {
            try await world.insertBySQL(sku: "A", dependents: "{}")
        }
        await world.close()
    }

    @Test(arguments: [
        ("B", "{A}", "a chain"), ("C", "{B}", "a shared dependent"),
    ])
    func dependents_writtenBySQL_areRefusedByTheDatabase(
        sku: String, dependents: String, why: String
    ) async throws {
        let world = try await World.make()
        try await world.subscribe("1")
        try await world.submit([World.row("1", dependents: ["B"])])

        await #expect(throws: PostgresError.self, "\(why)") {
            try await world.insertBySQL(sku: sku, dependents: dependents)
        }

        #expect(try await world.changes().count == 1)
        await world.close()
    }

    @Test func dependents_writtenWithoutTheirParts_areNotApproved() async throws {
        let world = try await World.make()
        try await world.subscribe("1")
        let batchID = try await world.submit([World.row("1")])
        let at = world.now.milliseconds
        try await world.insertBySQL(sku: "C", dependents: "{B}", withParts: false)
        let owner = try await TestDatabase.connect()
        try await owner.script("UPDATE repricer.batches SET row_count = row_count + 1")
        await owner.close()

        let refused = await #expect(throws: PostgresError.self) {
            _ = try await world.approver.withTransaction {
                try BatchQueries.approve(batchID, at: at, on: $0)
            }
        }

        let said = refused.map { String(reflecting: $0) } ?? ""
        #expect(said.contains("names dependents without their part"))
        #expect(try await world.changes() == ["A awaiting_approval", "C awaiting_approval"])
        await world.close()
    }

    @Test func roles_pricingCannotTouchStates_andTheServiceCannotApprove() async throws {
        let world = try await World.make()
        try await world.subscribe("1")
        let batchID = try await world.submit([World.row("1")])
        let at = world.now.milliseconds

        await #expect(throws: PostgresError.self) {
            try await world.submitter.withTransaction { connection in
                _ = try connection.execute("UPDATE repricer.price_changes SET state = 'queued'")
            }
        }
        await #expect(throws: PostgresError.self) {
            _ = try await world.service.withTransaction {
                try BatchQueries.approve(batchID, at: at, on: $0)
            }
        }
        await #expect(throws: PostgresError.self) {
            try await world.service.withTransaction { connection in
                _ = try connection.execute(
                    "INSERT INTO repricer.batch_rejects VALUES (gen_random_uuid(), 1, '', '', '', '')"
                )
            }
        }
        await world.close()
    }
}

extension DeliveryWorld {
    /// A change inserted past the program, with the parts its SKUs would play unless they are to be left out.
    func insertBySQL(sku: String, dependents: String, withParts: Bool = true) async throws {
        try await submitter.withTransaction { connection in
            _ = try connection.execute(
                """
                INSERT INTO repricer.price_changes (original_transaction_id, change_id, batch_id, line,
                    sku, direction, currency, storefront, period, current_price_milliunits,
                    new_price_milliunits, dependent_skus, forecast_consent, forecast_effective_at,
                    send_by, due_effective_at, state_since)
                SELECT original_transaction_id, 'ffffffff-0000-7000-8000-000000000001', batch_id, 99,
                    \(sku), direction, currency, storefront, period, current_price_milliunits,
                    new_price_milliunits, \(dependents)::text[], forecast_consent,
                    forecast_effective_at, send_by, due_effective_at, state_since
                FROM repricer.price_changes WHERE line = 2
                """)
            guard withParts else { return }
            _ = try connection.execute(
                """
                INSERT INTO repricer.dependency_roles (original_transaction_id, sku, role, change_id)
                SELECT original_transaction_id, unnest(dependent_skus), 'dependent', change_id
                FROM repricer.price_changes WHERE line = 99
                UNION ALL
                SELECT original_transaction_id, sku, 'parent', change_id
                FROM repricer.price_changes WHERE line = 99 AND cardinality(dependent_skus) > 0
                """)
        }
    }
}
