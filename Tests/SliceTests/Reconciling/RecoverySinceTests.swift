import Postgres
import Reconciliation
import TestSupport
import Testing

/// From when on a row may have been called by a database that is lost.
@Suite(.database) struct RecoverySinceTests {
    /// Nothing that was signed before a row was submitted can be the answer to a call of it.
    @Test func row_isInDoubtFromItsSubmissionOn_andIsAskedFor() async throws {
        let harness = try await DeliveryHarness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([DeliveryHarness.row("1")])
        let since = harness.now.advanced(by: -90 * 86_400_000).milliseconds
        let at = harness.now.milliseconds

        let followed = try await harness.service.withTransaction { connection in
            try connection.query(
                """
                SELECT repricer.begin_catch_up(\(timestamp: since), \(timestamp: at), \(timestamp: at), false) AS rows
                """
            ).one().int("rows")
        }
        let asked = try await harness.service.withTransaction { connection in
            try RecoveryQueries.wantChecks(
                since: since, in: .init(.recover), at: at, on: connection)
            return try connection.query("SELECT 1 FROM repricer.status_checks").count
        }

        #expect(followed == 1)
        #expect(asked == 1)
        #expect(
            try await harness.texts(
                """
                SELECT (c.doubtful_since = b.submitted_at)::text AS text
                FROM repricer.price_changes c JOIN repricer.batches b ON b.batch_id = c.batch_id
                """) == ["true"])
        await harness.close()
    }

    /// The lost database may have sent an open call once more right before its end, so no check before then is the last.
    @Test func openCall_mayBeOnItsWay_untilNoCallOfTheLostDatabaseIs() async throws {
        let harness = try await DeliveryHarness.make()
        try await harness.submitRows(1...1)
        harness.store.setAnswers([], nil, all: .lost)
        try await harness.deliver(harness.scheduler())
        let (at, from) = (harness.now.milliseconds, Int64(1_900_000_000_000))

        _ = try await harness.service.withTransaction { connection in
            try connection.query(
                "SELECT repricer.begin_catch_up(\(timestamp: at), \(timestamp: from), \(timestamp: at), false)"
            ).count
        }

        #expect(
            try await harness.texts(
                """
                SELECT next_step || ' ' || extract(epoch FROM in_flight_until)::bigint AS text
                FROM repricer.store_calls WHERE settled_at IS NULL
                """) == ["check 1900000000"])
        await harness.close()
    }
}
