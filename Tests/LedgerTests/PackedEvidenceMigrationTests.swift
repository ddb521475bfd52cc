import Foundation
import Ledger
import Postgres
import TestSupport
import Testing

/// Rows that were stored before payloads were packed.
@Suite(.database) struct PackedEvidenceMigrationTests {
    /// A database at the version before that one, with what `script` does to it, then migrated to the end.
    static func migrated(
        before version: String = "0008", after script: String
    ) async throws -> PostgresConnection {
        let folder = try ScratchFolder()
        let migrations = RepositoryFiles.path("Migrations")
        for name in try FileManager.default.contentsOfDirectory(atPath: migrations)
        where name.hasSuffix(".sql") && name < version {
            let text = try String(contentsOfFile: "\(migrations)/\(name)", encoding: .utf8)
            _ = try folder.file(name, text)
        }
        let connection = try await PostgresConnection.connect(
            TestDatabase.makeEmptyDatabase(), applicationName: "test")
        try await Migrator(directory: folder.path).migrate(connection, at: 0)
        withExtendedLifetime(folder) {}
        try await connection.script(script)
        try await Migrator(directory: migrations).migrate(connection, at: 0)
        return connection
    }

    static func row(_ id: String, at instant: String) -> String {
        """
        INSERT INTO repricer.notification_ids VALUES ('\(id)', '\(instant)');
        INSERT INTO repricer.notifications
            (notification_uuid, received_at, understood, signed_payload, original_transaction_id)
        VALUES ('\(id)', '\(instant)', true, 'text of \(id)', '1');
        INSERT INTO repricer.inbox (original_transaction_id, notification_uuid, received_at)
        VALUES ('1', '\(id)', '\(instant)');

        """
    }

    @Test func migrate_withRowsOfBefore_keepsThemReadableInAPartitionThatEnds() async throws {
        let connection = try await Self.migrated(
            after: Self.row("a", at: "2025-11-30T23:59:59Z")
                + Self.row("b", at: "2026-01-31T23:59:59.999Z"))

        let bounds = try await EvidencePartitionTests.bounds(connection)
        let waiting = try await connection.read { try EventQueries.waiting(["1"], on: $0) }
        let stored = try await connection.read { try EvidenceQueries.stored("b", on: $0) }

        #expect(
            bounds == [
                "notifications_before_0008 - 2026-02-01T00:00:00Z", "notifications_default - -",
            ])
        #expect(
            waiting.map(\.evidence).sorted { "\($0)" < "\($1)" }
                == [.whole("text of a"), .whole("text of b")])
        #expect(stored?.evidence == .whole("text of b"))
        await connection.close()
    }

    @Test func prepare_afterRowsOfBefore_beginsWhereTheyEnd() async throws {
        let connection = try await Self.migrated(after: Self.row("a", at: "2026-01-10T00:00:00Z"))

        let made = try await EvidencePartitionTests.prepare(
            "2026-01-10T00:00:00Z", ahead: 1, on: connection)

        #expect(made == 1)
        #expect(
            try await EvidencePartitionTests.bounds(connection) == [
                "notifications_before_0008 - 2026-02-01T00:00:00Z",
                "notifications_2026_02 2026-02-01T00:00:00Z 2026-03-01T00:00:00Z",
                "notifications_default - -",
            ])
        await connection.close()
    }

    @Test func retention_ofThePartitionOfBefore_dropsItOnceItsNewestIsOld() async throws {
        let connection = try await Self.migrated(
            after: Self.row("a", at: "2025-11-30T00:00:00Z") + "DELETE FROM repricer.inbox")
        let end = try EvidencePartitionTests.at("2025-12-01T00:00:00Z")

        let early = try await connection.read {
            try EvidenceRetention.candidates(before: end - 1, on: $0)
        }
        let due = try await connection.read {
            try EvidenceRetention.candidates(before: end, on: $0)
        }
        let candidate = try #require(due.first)
        let isDropped = try await connection.transaction {
            try EvidenceRetention.drop(candidate, on: $0)
        }

        #expect(early == [])
        #expect(candidate.partition == "notifications_before_0008")
        #expect(candidate.notifications == 1)
        #expect(isDropped)
        #expect(
            try await EvidencePartitionTests.bounds(connection) == ["notifications_default - -"])
        await connection.close()
    }
}
