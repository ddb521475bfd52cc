import Foundation
import Postgres
import Synchronization
import TestSupport
import Testing

@testable import RepricerCommands

/// The test harness's clock stands at 2026-01-05T00:00:00Z.
@Suite(.database) struct RetentionCommandTests {
    static func retention(_ arguments: String...) async -> Outcome {
        await run(
            ["retention"] + arguments, environment: ["REPRICER_DATABASE_URL": TestDatabase.url])
    }

    /// One notification at each instant, in months of their own where `prepared` says so.
    static func fill(_ instants: [String], prepared: [String] = []) async throws {
        let connection = try await TestDatabase.connect()
        for month in prepared {
            _ = try await connection.query(
                "SELECT repricer.prepare_months('notifications', \(month)::timestamptz, 0)")
        }
        for instant in instants {
            try await connection.script(
                """
                INSERT INTO repricer.notification_ids VALUES ('\(instant)', '\(instant)');
                INSERT INTO repricer.notifications
                    (notification_uuid, received_at, understood, signed_payload)
                VALUES ('\(instant)', '\(instant)', true, 'whole');
                """)
        }
        await connection.close()
    }

    static func ids(_ table: String) async throws -> [String] {
        let connection = try await TestDatabase.connect()
        let ids = try await connection.query(
            "SELECT notification_uuid FROM repricer.\(unsafe: table) ORDER BY 1"
        ).map { try $0.text("notification_uuid") }
        await connection.close()
        return ids
    }

    @Test func retention_ofOldMonths_dropsThemWholeAndForgetsTheirIds() async throws {
        let old = ["2024-02-29T23:59:59Z", "2024-12-31T23:59:59Z"]
        let young = ["2025-01-01T00:00:00Z", "2026-01-04T00:00:00Z"]
        try await Self.fill(
            old + young, prepared: ["2024-02-01Z", "2024-12-01Z", "2025-01-01Z", "2026-01-01Z"])

        let dry = await Self.retention("--keep", "1y", "--dry-run", "--json")
        let untouched = try await Self.ids("notifications")
        let outcome = await Self.retention("--keep", "12m")

        #expect(dry.code == .done)
        #expect(
            dry.output.hasPrefix(
                #"{"keep":"1y","dry_run":true,"horizon":"2025-01-05T00:00:00Z","partitions":["#
                    + #"{"partition":"notifications_2024_02","starts_at":"2024-02-01T00:00:00Z","#
                    + #""ends_at":"2024-03-01T00:00:00Z","notifications":1,"not_understood":0,"waiting":0,"#
            ), "\(dry.output)")
        #expect(dry.output.contains(#""outcome":"would_drop"}"#))
        #expect(untouched == old + young)
        #expect(outcome.code == .done, "\(outcome.messages)")
        #expect(outcome.output.contains("notifications_2024_12  2025-01-01T00:00:00Z"))
        #expect(try await Self.ids("notifications") == young)
        #expect(try await Self.ids("notification_ids") == young)
    }

    @Test func retention_ofStraysInTheDefault_dropsAndSortsThem() async throws {
        try await Self.fill(["2024-06-01T00:00:00Z", "2025-12-31T00:00:00Z"])

        let dry = await Self.retention("--keep", "13m", "--dry-run", "--json")
        let outcome = await Self.retention("--keep", "13m", "--json")

        #expect(dry.output.contains(#""partitions":[],"in_default_partition":2"#))
        #expect(outcome.code == .done, "\(outcome.messages)")
        #expect(outcome.output.contains(#""partition":"notifications_2024_06""#))
        #expect(outcome.output.contains(#""ids_forgotten":1"#))
        #expect(try await Self.ids("notifications") == ["2025-12-31T00:00:00Z"])
        #expect(try await Self.ids("notifications_default") == [])
    }

    @Test func retention_ofAMonthWithWorkThatWaits_keepsIt() async throws {
        let old = "2024-02-10T00:00:00Z"
        try await Self.fill([old], prepared: ["2024-02-01Z"])
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            INSERT INTO repricer.inbox (original_transaction_id, bucket, notification_uuid, received_at, error)
            VALUES ('1', repricer.bucket_of('1'), '\(old)', '\(old)', 'stuck')
            """)

        let kept = await Self.retention("--keep", "13m", "--json")

        #expect(kept.code == .conflict)
        #expect(kept.output.contains(#""waiting":1,"#))
        #expect(kept.output.contains(#""outcome":"kept""#))
        #expect(
            kept.messages.contains("notifications_2024_02 stays: 1 notifications are not folded"))
        #expect(try await Self.ids("notification_ids") == [old])
        try await connection.script("DELETE FROM repricer.inbox")
        #expect(await Self.retention("--keep", "13m").code == .done)
        #expect(try await Self.ids("notification_ids") == [])
        await connection.close()
    }

    @Test func retention_whileAReportReads_waitsThenGivesUpAndKeepsAll() async throws {
        let old = "2024-02-10T00:00:00Z"
        try await Self.fill([old], prepared: ["2024-02-01Z"])
        let reader = try await TestDatabase.connect()
        try await reader.script("BEGIN; SELECT count(*) FROM repricer.notifications")

        let blocked = await Self.retention("--keep", "13m", "--minutes", "0", "--json")

        #expect(blocked.code == .conflict, "\(blocked.messages)")
        #expect(
            blocked.output.contains(#""partition":"notifications_2024_02""#),
            "\(blocked.output) \(blocked.messages)")
        #expect(blocked.messages.contains("notifications_2024_02 stays: its table was in use"))
        #expect(try await Self.ids("notifications") == [old])
        try await reader.script("ROLLBACK")
        await reader.close()
    }

    /// A backup holds the evidence all night, and that is no reason to keep anything else.
    @Test func retention_whileABackupHoldsTheEvidence_dropsWhatElseIsOld() async throws {
        try await Self.fill(["2024-02-10T00:00:00Z"], prepared: ["2024-02-01Z"])
        let owner = try await TestDatabase.connect()
        try await owner.script(
            "SELECT repricer.prepare_months('price_change_history', '2024-02-01Z'::timestamptz, 0)")
        let backup = try await TestDatabase.connect()
        try await backup.script("BEGIN; SELECT count(*) FROM repricer.notifications")

        let blocked = await Self.retention("--keep", "13m", "--minutes", "0")

        let left = try await owner.query(
            "SELECT partition FROM repricer.month_partitions WHERE starts_at = '2024-02-01Z' ORDER BY 1"
        ).map { try $0.text("partition") }
        #expect(left == ["notifications_2024_02"])
        #expect(blocked.code == .conflict)
        try await backup.script("ROLLBACK")
        await backup.close()
        await owner.close()
    }

    /// It waits for the end of the backup, and only then is done.
    @Test(arguments: ["notifications", "price_change_history"])
    func retention_whenTheBackupEnds_dropsWhatItHeld(_ table: String) async throws {
        try await Self.fill(["2024-02-10T00:00:00Z"], prepared: ["2024-02-01Z"])
        let backup = try await TestDatabase.connect()
        try await backup.script(
            "SELECT repricer.prepare_months('price_change_history', '2024-02-01Z'::timestamptz, 0)")
        try await backup.script("BEGIN; SELECT count(*) FROM repricer.\(table)")

        let outcome = await run(
            ["retention", "--keep", "13m", "--json"],
            environment: ["REPRICER_DATABASE_URL": TestDatabase.url]
        ) {
            $0.wait = { _ in try await backup.script("ROLLBACK") }
        }

        #expect(outcome.code == .done, "\(outcome.messages)")
        #expect(outcome.output.contains(#""ids_forgotten":1"#), "\(outcome.output)")
        let left = try await backup.query(
            "SELECT count(*)::int AS n FROM repricer.month_partitions WHERE starts_at = '2024-02-01Z'"
        ).one().int("n")
        #expect(left == 0)
        #expect(try await Self.ids("notification_ids") == [])
        await backup.close()
    }

    /// A month that stands keeps its ids, whatever is dropped before and after it; many ids leave a few at a time.
    @Test func retention_besideAMonthThatStays_forgetsTheIdsOfTheOthers() async throws {
        let stuck = "2024-03-10T00:00:00Z"
        try await Self.fill(
            ["2024-02-10T00:00:00Z", stuck, "2024-04-10T00:00:00Z"],
            prepared: ["2024-02-01Z", "2024-03-01Z", "2024-04-01Z"])
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            INSERT INTO repricer.inbox (original_transaction_id, bucket, notification_uuid, received_at, error)
            VALUES ('1', repricer.bucket_of('1'), '\(stuck)', '\(stuck)', 'stuck');
            INSERT INTO repricer.notification_ids (notification_uuid, received_at)
            SELECT 'many-' || n, '2024-02-11Z'::timestamptz + n * interval '0.3 milliseconds'
            FROM generate_series(1, 2500) n;
            CREATE TABLE repricer.deletions (rows bigint);
            CREATE FUNCTION repricer.note_deletion() RETURNS trigger LANGUAGE plpgsql AS
                'BEGIN INSERT INTO repricer.deletions SELECT count(*) FROM gone; RETURN NULL; END';
            CREATE TRIGGER noted AFTER DELETE ON repricer.notification_ids REFERENCING OLD TABLE AS gone
                FOR EACH STATEMENT EXECUTE FUNCTION repricer.note_deletion();
            """)

        let outcome = await Self.retention("--keep", "13m", "--json")

        #expect(outcome.output.contains(#""ids_forgotten":2502"#), "\(outcome.output)")
        #expect(try await Self.ids("notification_ids") == [stuck])
        let most = try await owner.query("SELECT max(rows) AS n FROM repricer.deletions").one()
            .int("n")
        #expect((900...1010).contains(most), "a transaction of \(most)")
        await owner.close()
    }

    /// What may not go yet is passed over, and what lies behind it leaves all the same, each row visited once.
    @Test func retention_ofManyOldCalls_deletesThemAFewAtATimeBehindThoseThatStay() async throws {
        let owner = try await TestDatabase.connect()
        func calls(_ kind: String, _ from: Int, _ count: Int, _ settled: String) -> String {
            """
            INSERT INTO repricer.store_calls (subject, bucket, call_id, kind, carries, intent, state, lease_owner,
                lease_until, in_flight_until, prepared_at, settled_at, next_step)
            SELECT n::text, repricer.bucket_of(n::text), gen_random_uuid(), '\(kind)', ARRAY[gen_random_uuid()], '{}',
                'answered', gen_random_uuid(), '2024-01-01Z', '2024-01-01Z', '2024-01-01Z',
                '\(settled)'::timestamptz + n * interval '1 second', 'send'
            FROM generate_series(\(from), \(from + count - 1)) n;
            """
        }
        try await owner.script(
            calls("cancel", 1, 1500, "2024-01-01Z")
                + calls("price_change", 2001, 2300, "2024-02-01Z")
                + calls("price_change", 9001, 3, "2025-12-01Z"))
        try await owner.script(
            """
            INSERT INTO repricer.status_checks (original_transaction_id, bucket, reason, requested_at, done_at, outcome)
            SELECT n::text, repricer.bucket_of(n::text), 'sync', '2024-01-01Z', d, CASE WHEN d IS NOT NULL THEN 'read' END
            FROM (VALUES (1, '2024-01-02Z'::timestamptz), (2, '2025-12-01Z'), (3, NULL)) v (n, d)
            """)

        let outcome = await Self.retention("--keep", "13m", "--json")

        #expect(outcome.code == .done, "\(outcome.messages)")
        #expect(outcome.output.contains(#""calls":2300"#), "\(outcome.output)")
        #expect(outcome.output.contains(#""status_checks":1"#), "\(outcome.output)")
        let left = try await owner.query(
            "SELECT kind, count(*)::int AS n FROM repricer.store_calls GROUP BY kind ORDER BY kind"
        ).map { "\(try $0.text("kind")) \(try $0.int("n"))" }
        #expect(left == ["cancel 1500", "price_change 3"])
        try await owner.script(
            "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off")
        let plan = try await owner.query(
            """
            EXPLAIN SELECT settled_at FROM repricer.store_calls r
            WHERE r.kind IN ('price_change', 'extension') AND NOT r.is_doubtful AND settled_at >= '2024-01-01Z'
            ORDER BY 1 OFFSET 999 LIMIT 1
            """
        ).map { try $0.text("QUERY PLAN") }.joined()
        #expect(plan.contains("store_calls_settled") && !plan.contains("Sort"), "\(plan)")
        await owner.close()
    }

    /// Versions that came while no month was prepared lie in the default partition.
    @Test func retention_ofStrayVersions_refusesThePastThatTheyTold() async throws {
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            SELECT repricer.prepare_months('charge_versions', '2024-01-01Z'::timestamptz, 0);
            INSERT INTO repricer.charge_versions_default (original_transaction_id, bucket, transaction_id, sku,
                purchased_at, price_milliunits, quantity, currency, is_offer, is_purchase, is_added_seat,
                is_relisted, refunded_milliunits, recorded_at, recorded_until)
            VALUES ('1', repricer.bucket_of('1'), 't', 'PLAN', '2024-02-01Z', 1, 1, 'USD', false, false, false, false, 0,
                '2024-02-01Z', '2024-02-10Z');
            """)
        let reader = try await TestDatabase.connect()
        try await reader.script("BEGIN; SELECT count(*) FROM repricer.charge_versions")

        let floor = Mutex<String?>(nil)

        let outcome = await run(
            ["retention", "--keep", "13m"], environment: ["REPRICER_DATABASE_URL": TestDatabase.url]
        ) {
            $0.wait = { _ in
                let row = try await owner.query(
                    """
                    SELECT (dropped_before AT TIME ZONE 'UTC')::date::text || ' with '
                        || (SELECT count(*) FROM repricer.charge_versions_default) AS at
                    FROM repricer.retention_floors WHERE rule = 'versions'
                    """
                ).oneOrNil()
                let text = try row?.text("at")
                floor.withLock { $0 = text }
                try await reader.script("ROLLBACK")
            }
        }

        #expect(outcome.code == .done, "\(outcome.messages)")
        #expect(floor.withLock { $0 } == "2024-12-01 with 0", "while the month itself still stood")
        await reader.close()
        await owner.close()
    }

    @Test func retention_asTheService_isRefused() async throws {
        try await Self.fill(["2024-02-10T00:00:00Z"], prepared: ["2024-02-01Z"])
        let url = try await TestDatabase.login("svc", memberOf: ["repricer_service"])

        let outcome = await run(
            "retention", "--keep", "13m", environment: ["REPRICER_DATABASE_URL": url])

        #expect(outcome.code == .approvalNeededOrRefused, "\(outcome.messages)")
        #expect(try await Self.ids("notifications").count == 1)
    }

    @Test(arguments: [
        "6m", "0y", "13", "m", "-13m", "13d", "1.5y", "99999999999999999999y", "1201m",
    ])
    func retention_ofABadTime_isUsage(_ keep: String) async {
        let outcome = await Self.retention("--keep=\(keep)")

        #expect(outcome.code == .usage)
        #expect(outcome.messages.contains("retention: --keep cannot be "))
    }

    @Test func retention_withoutATime_isUsage() async {
        #expect(await Self.retention().code == .usage)
    }
}
