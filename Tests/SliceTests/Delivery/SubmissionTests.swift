import Batches
import Postgres
import Pricing
import TestSupport
import Testing

@Suite(.database) struct SubmissionTests {
    private typealias Harness = DeliveryHarness

    @Test func approval_bySubmitter_isRefusedByTheDatabase() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        let batchID = try await harness.submit([Harness.row("1")])
        let at = harness.now.milliseconds

        await #expect(throws: PostgresError.self) {
            _ = try await harness.submitter.withTransaction {
                try BatchQueries.approve(batchID, at: at, on: $0)
            }
        }
        await #expect(throws: PostgresError.self) {
            try await harness.submitter.withTransaction { connection in
                _ = try connection.execute(
                    "UPDATE repricer.batches SET state = 'approved', decided_by = 'somebody'")
            }
        }

        #expect(try await harness.changes() == ["A awaiting_approval"])
        await harness.close()
    }

    @Test func submission_sameContentTwice_writesNothingNew() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        let first = try await harness.submit([Harness.row("1")])

        let planned = try await Planner(
            pool: harness.submitter, rules: .shipped, environment: .production
        ).plan(rows: [Harness.row("1")], asOf: harness.now)
        let again = try await harness.stored(planned, content: "content")

        #expect(again.batchID == first && !again.isNew)
        #expect(try await harness.changes().count == 1)
        await harness.close()
    }

    @Test func plan_openChangeOfTheItem_isAConflict_andTheDatabaseRefusesItToo() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submit([Harness.row("1")])

        let planned = try await Planner(
            pool: harness.submitter, rules: .shipped, environment: .production
        ).plan(rows: [Harness.row("1", to: 11990)], asOf: harness.now)

        #expect(planned.map(\.code) == [.conflictOpenChange])
        await #expect(throws: PostgresError.self) {
            try await harness.insertBySQL(sku: "A", dependents: "{}")
        }
        await harness.close()
    }

    /// The database stores a piece while the next one is made, and may refuse it after others were handed over.
    @Test func submission_whenTheDatabaseRefusesAPieceInTheMiddle_storesNothing_andSaysWhy()
        async throws
    {
        let harness = try await Harness.make()
        for id in ["1", "2", "3", "4"] { try await harness.subscribe(id) }
        let rows = ["1", "2", "3", "4"].map { Harness.row($0) }
        let planned = try await Planner(
            pool: harness.submitter, rules: .shipped, environment: .production
        ).plan(rows: rows, asOf: harness.now)
        try await harness.submit([Harness.row("2")])

        let refused = await #expect(throws: PostgresError.self) {
            _ = try await harness.stored(planned, content: "pieces", rowsAPiece: 1)
        }

        #expect(refused?.constraint == "price_changes_one_open")
        #expect(try await harness.changes().count == 1)
        // The next submission goes on with the same connection.
        let others = planned.filter { $0.originalTransactionID != "2" }
        #expect(try await harness.stored(others, content: "others", rowsAPiece: 1).isNew)
        #expect(try await harness.changes().count == 4)
        await harness.close()
    }

    @Test func approval_datedBeforeTheSubmission_isOfTheSubmissionsInstant() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        let batchID = try await harness.submit([Harness.row("1")])
        let early = harness.now.milliseconds - 86_400_000

        _ = try await harness.approver.withTransaction {
            try BatchQueries.approve(batchID, at: early, on: $0)
        }

        let owner = try await TestDatabase.connect()
        let row = try await owner.query(
            "SELECT decided_at = submitted_at AS alike FROM repricer.batches"
        ).one()
        #expect(try row.bool("alike"))
        await owner.close()
        await harness.close()
    }

    @Test(arguments: [
        ("B", "{A}", "a chain"), ("C", "{B}", "a shared dependent"),
    ])
    func dependents_writtenBySQL_areRefusedByTheDatabase(
        sku: String, dependents: String, why: String
    ) async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submit([Harness.row("1", dependents: ["B"])])

        await #expect(throws: PostgresError.self, "\(why)") {
            try await harness.insertBySQL(sku: sku, dependents: dependents)
        }

        #expect(try await harness.changes().count == 1)
        await harness.close()
    }

    @Test func dependents_writtenWithoutTheirParts_areNotApproved() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        let batchID = try await harness.submit([Harness.row("1")])
        let at = harness.now.milliseconds
        try await harness.insertBySQL(sku: "C", dependents: "{B}", withParts: false)
        let owner = try await TestDatabase.connect()
        try await owner.script("UPDATE repricer.batches SET row_count = row_count + 1")
        await owner.close()

        let refused = await #expect(throws: PostgresError.self) {
            _ = try await harness.approver.withTransaction {
                try BatchQueries.approve(batchID, at: at, on: $0)
            }
        }

        let said = refused.map { String(reflecting: $0) } ?? ""
        #expect(said.contains("names dependents without their part"))
        #expect(try await harness.changes() == ["A awaiting_approval", "C awaiting_approval"])
        await harness.close()
    }

    @Test func roles_pricingCannotTouchStates_andTheServiceCannotApprove() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        let batchID = try await harness.submit([Harness.row("1")])
        let at = harness.now.milliseconds

        await #expect(throws: PostgresError.self) {
            try await harness.submitter.withTransaction { connection in
                _ = try connection.execute("UPDATE repricer.price_changes SET state = 'queued'")
            }
        }
        await #expect(throws: PostgresError.self) {
            _ = try await harness.service.withTransaction {
                try BatchQueries.approve(batchID, at: at, on: $0)
            }
        }
        await #expect(throws: PostgresError.self) {
            try await harness.service.withTransaction { connection in
                _ = try connection.execute(
                    "INSERT INTO repricer.batch_rejects VALUES (gen_random_uuid(), 1, '', '', '', '')"
                )
            }
        }
        await harness.close()
    }
}

extension DeliveryHarness {
    /// A change inserted by the owner past the functions, with the parts its SKUs would play unless they are to be left
    /// out.
    func insertBySQL(sku: String, dependents: String, withParts: Bool = true) async throws {
        let owner = try await TestDatabase.connect()
        do {
            try await owner.transaction {
                _ = try $0.execute(Self.change(sku: sku, dependents: dependents))
                if withParts { _ = try $0.execute(Self.parts) }
            }
        } catch {
            await owner.close()
            throw error
        }
        await owner.close()
    }

    private static func change(sku: String, dependents: String) -> SQL {
        """
        INSERT INTO repricer.price_changes (original_transaction_id, bucket, change_id, batch_id, submitted_by,
            line, sku, direction, currency, storefront, period, current_price_milliunits,
            new_price_milliunits, dependent_skus, forecast_consent, forecast_effective_at, send_by,
            due_effective_at, state_since)
        SELECT original_transaction_id, bucket, 'ffffffff-0000-7000-8000-000000000001', batch_id, submitted_by,
            99, \(sku), direction, currency, storefront, period, current_price_milliunits,
            new_price_milliunits, \(dependents)::text[], forecast_consent, forecast_effective_at, send_by,
            due_effective_at, state_since
        FROM repricer.price_changes WHERE line = 2
        """
    }

    private static let parts: SQL = """
        INSERT INTO repricer.dependency_roles (original_transaction_id, bucket, sku, role, change_id)
        SELECT original_transaction_id, bucket, unnest(dependent_skus), 'dependent', change_id
        FROM repricer.price_changes WHERE line = 99
        UNION ALL
        SELECT original_transaction_id, bucket, sku, 'parent', change_id
        FROM repricer.price_changes WHERE line = 99 AND cardinality(dependent_skus) > 0
        """
}
