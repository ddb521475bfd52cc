import HTTP
import Postgres
import ServiceKit
import TestSupport
import Testing

@testable import Notifications

/// Whatever the database does: 503 while it fails, nothing lost, and one effect when the sender comes again.
@Suite(.database) struct StorageFailureTests {
    private static let body = #"{"signedPayload":"ok:a"}"#

    /// A receiver whose commits go to this test's database; the connection is its owner's.
    private func withReceiver(
        settings: String = "", deadline: Duration = .seconds(60),
        _ body: @Sendable (ReceiverHarness, PostgresConnection) async throws -> Void
    ) async throws {
        let pool = PostgresPool(
            conninfo: TestDatabase.url + settings, applicationName: "receiver under test", size: 2)
        let store = NotificationStore(pool: pool)
        var limits = ArrivalBatcher.Limits()
        limits.commitDeadline = deadline
        let intake = NotificationIntake(
            check: simpleCheck, clock: ManualClock(1), metrics: Metrics(), limits: limits
        ) { batch throws(ArrivalError) in try await store.storeArrivals(batch, receivedAt: 1) }
        let owner = try await TestDatabase.connect()
        try await ReceiverHarness.run(intake: intake) { harness in
            try await body(harness, owner)
        }
        await owner.close()
        await pool.close()
    }

    private func expectStoredOnce(_ owner: PostgresConnection) async throws {
        let counts = try await owner.query(
            """
            SELECT (SELECT count(*) FROM repricer.notifications) AS evidence,
                (SELECT count(*) FROM repricer.inbox) AS work
            """
        ).one()
        #expect(try counts.int("evidence") == 1)
        #expect(try counts.int("work") == 1)
    }

    /// Disk full, memory, statement timeout, read only, deadlock, shutdown, a damaged page, closed to us.
    @Test(arguments: ["53100", "53200", "57014", "25006", "40P01", "57P01", "XX001", "42501"])
    func post_whenTheServerFails_answers503AndStoresOnceLater(_ state: String) async throws {
        try await withReceiver { harness, owner in
            try await owner.script(
                """
                CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
                    $$ BEGIN RAISE EXCEPTION 'made to fail' USING ERRCODE = '\(state)'; END $$;
                CREATE TRIGGER fail BEFORE INSERT ON repricer.notifications
                    FOR EACH ROW EXECUTE FUNCTION fail();
                """)
            let failed = try await harness.post(Self.body)
            try await owner.script("DROP TRIGGER fail ON repricer.notifications")
            let stored = try await harness.post(Self.body)
            let again = try await harness.post(Self.body)

            #expect(failed.status == 503)
            #expect(failed.headers["Retry-After"] == "5")
            #expect(stored.text == "{\"stored\":true,\"new\":true,\"understood\":true}\n")
            #expect(again.text == "{\"stored\":true,\"new\":false,\"understood\":true}\n")
            try await expectStoredOnce(owner)
        }
    }

    /// What PostgreSQL says when the month's partition appears between the plan and the row.
    @Test func post_whenAPartitionAppearsMeanwhile_isTriedAgainAndStored() async throws {
        try await withReceiver { harness, owner in
            try await owner.script(
                """
                CREATE SEQUENCE tries;
                GRANT USAGE ON SEQUENCE tries TO PUBLIC;
                CREATE FUNCTION fail_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    IF nextval('tries') = 1 THEN
                        RAISE EXCEPTION 'violates partition constraint' USING ERRCODE = '23514';
                    END IF;
                    RETURN NEW;
                END $$;
                CREATE TRIGGER fail_once BEFORE INSERT ON repricer.notifications
                    FOR EACH ROW EXECUTE FUNCTION fail_once();
                """)
            let stored = try await harness.post(Self.body)

            #expect(stored.status == 200)
            try await expectStoredOnce(owner)
        }
    }

    @Test func post_whenItsBackendIsKilledMidBatch_answers503AndStoresOnceLater() async throws {
        try await withReceiver { harness, owner in
            let locker = try await Self.locker()
            async let answer = harness.post(Self.body)
            try await eventually { try await self.waitingBackends(owner) == 1 }
            _ = try await owner.query(
                """
                SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE application_name = 'receiver under test' AND datname = current_database()
                """)
            let failed = try await answer
            try await letGo(locker)
            let stored = try await harness.post(Self.body)

            #expect(failed.status == 503)
            #expect(stored.text == "{\"stored\":true,\"new\":true,\"understood\":true}\n")
            try await expectStoredOnce(owner)
        }
    }

    @Test func post_whenTheServersTimeoutEndsIt_answers503AndStoresOnceLater() async throws {
        try await withReceiver(settings: "&options=-c%20statement_timeout%3D50") { harness, owner in
            let locker = try await Self.locker()
            let failed = try await harness.post(Self.body)
            try await letGo(locker)
            let stored = try await posted(harness)

            #expect(failed.status == 503)
            #expect(stored.status == 200)
            try await expectStoredOnce(owner)
        }
    }

    /// The sender was told 503, and the batch became durable all the same: its repetition is known then.
    @Test func post_whenACommitOutlastsItsDeadline_isOneEffect() async throws {
        try await withReceiver(deadline: .milliseconds(50)) { harness, owner in
            let locker = try await Self.locker()
            let failed = try await harness.post(Self.body)
            try await letGo(locker)
            try await eventually { try await self.waitingBackends(owner) == 0 }
            let stored = try await posted(harness)

            #expect(failed.status == 503)
            #expect(stored.status == 200)
            try await expectStoredOnce(owner)
        }
    }

    /// Holds back every commit until it is closed.
    private static func locker() async throws -> PostgresConnection {
        let connection = try await TestDatabase.connect()
        try await connection.script("BEGIN; LOCK TABLE repricer.notification_ids")
        return connection
    }

    /// A backend that only loses its client keeps its locks until it notices.
    private func letGo(_ locker: PostgresConnection) async throws {
        try await locker.script("ROLLBACK")
        await locker.close()
    }

    /// As the App Store does, it comes again for as long as it is told to: the time that the test leaves a commit is
    /// short, and a busy machine exceeds it now and then.
    private func posted(_ harness: ReceiverHarness) async throws -> HTTPResponse {
        for _ in 0..<200 {
            let response = try await harness.post(Self.body)
            if response.status != 503 { return response }
        }
        return try await harness.post(Self.body)
    }

    private func waitingBackends(_ owner: PostgresConnection) async throws -> Int {
        try await owner.query(
            """
            SELECT count(*) AS n FROM pg_stat_activity
            WHERE application_name = 'receiver under test' AND datname = current_database()
                AND wait_event_type = 'Lock'
            """
        ).one().int("n")
    }
}
