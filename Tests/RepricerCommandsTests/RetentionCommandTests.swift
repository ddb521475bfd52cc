import Foundation
import Postgres
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

        let blocked = await Self.retention("--keep", "13m")

        #expect(blocked.code == .conflict, "\(blocked.messages)")
        #expect(try await Self.ids("notifications") == [old])
        try await reader.script("ROLLBACK")
        await reader.close()
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
