import Facts
import Notifications
import Postgres
import TestSupport
import Testing

@Suite(.database) struct NotificationStoreTests {
    static let receivedAt: Int64 = 1_780_272_000_123

    static func withStore<T: Sendable>(
        conninfo: String = TestDatabase.url,
        _ body: @Sendable (NotificationStore) async throws -> T
    ) async throws -> T {
        let pool = PostgresPool(conninfo: conninfo, applicationName: "test", size: 4)
        let result: Result<T, any Error>
        do {
            result = .success(try await body(NotificationStore(pool: pool)))
        } catch {
            result = .failure(error)
        }
        await pool.close()
        return try result.get()
    }

    static func count(_ table: String) async throws -> Int {
        let connection = try await TestDatabase.connect()
        let count = try await connection.query(
            "SELECT count(*) AS n FROM repricer.\(unsafe: table)"
        ).one().int("n")
        await connection.close()
        return count
    }

    static func arrival(
        _ id: String, subscription: String? = "1", understood: Bool = true, isWork: Bool? = nil
    ) -> Arrival {
        Arrival(
            notificationUUID: id, signedAtMilliseconds: 1_780_000_000_456, type: "DID_RENEW",
            subtype: nil, originalTransactionID: subscription, understood: understood,
            isWork: isWork, evidence: .whole("payload of \(id)"))
    }

    @Test func storeArrivals_whenNew_keepsEvidenceAndWork() async throws {
        let isNew = try await Self.withStore { store in
            try await store.storeArrivals([Self.arrival("a")], receivedAt: Self.receivedAt)
        }

        let connection = try await TestDatabase.connect()
        let kept = try await connection.query(
            """
            SELECT n.*, i.received_at AS work_at FROM repricer.notifications n
            JOIN repricer.inbox i USING (notification_uuid)
            """
        ).one()
        #expect(isNew == [true])
        #expect(try kept.text("signed_payload") == "payload of a")
        #expect(try kept.text("type") == "DID_RENEW")
        #expect(try kept.textOrNil("subtype") == nil)
        #expect(try kept.milliseconds("received_at") == Self.receivedAt)
        #expect(try kept.milliseconds("work_at") == Self.receivedAt)
        #expect(try kept.milliseconds("signed_at") == 1_780_000_000_456)
        #expect(try kept.bool("understood"))
        await connection.close()
    }

    @Test func storeArrivals_whenKnown_changesNothing() async throws {
        let later = try await Self.withStore { store in
            _ = try await store.storeArrivals(
                [Self.arrival("b"), Self.arrival("a")], receivedAt: Self.receivedAt)
            return try await store.storeArrivals(
                [Self.arrival("c"), Self.arrival("a"), Self.arrival("c"), Self.arrival("b")],
                receivedAt: Self.receivedAt + 1)
        }

        #expect(later == [true, false, false, false])
        #expect(try await Self.count("notifications") == 3)
        #expect(try await Self.count("inbox") == 3)
    }

    @Test func storeArrivals_whenThereIsNothingToFold_keepsEvidenceOnly() async throws {
        try await Self.withStore { store in
            let isNew = try await store.storeArrivals(
                [
                    Self.arrival("a", understood: false), Self.arrival("b", subscription: nil),
                    Self.arrival("c", isWork: false),
                ], receivedAt: Self.receivedAt)
            #expect(isNew == [true, true, true])
        }

        #expect(try await Self.count("notifications") == 3)
        #expect(try await Self.count("inbox") == 0)
    }

    @Test func storeArrivals_whenOneValueCannotBeStored_storesNone() async throws {
        for bad in [
            Self.arrival("nul", subscription: "1\u{0}"),
            Self.arrival(
                (0..<9000).map { String($0, radix: 36) }.joined()),
        ] {
            let error = await #expect(throws: ArrivalError.self) {
                try await Self.withStore { store in
                    _ = try await store.storeArrivals(
                        [Self.arrival("a"), bad, Self.arrival("z")], receivedAt: Self.receivedAt)
                }
            }
            guard case .refused? = error else {
                Issue.record("another error: \(String(describing: error))")
                return
            }
        }

        #expect(try await Self.count("notification_ids") == 0)
    }

    @Test func storeArrivals_whenBatchesWithTheSameIdsRace_keepsEachOnce() async throws {
        let new = try await Self.withStore { store in
            try await withThrowingTaskGroup(of: Int.self) { group in
                for worker in 0..<4 {
                    group.addTask {
                        var ids = (0..<100).map { "\(($0 * 37 + worker * 13) % 100)" }
                        if worker.isMultiple(of: 2) { ids.reverse() }
                        return try await store.storeArrivals(
                            ids.map { Self.arrival($0) }, receivedAt: Self.receivedAt
                        ).count { $0 }
                    }
                }
                return try await group.reduce(0, +)
            }
        }

        #expect(new == 100)
        #expect(try await Self.count("inbox") == 100)
    }

    @Test func storeArrivals_whenDatabaseIsAway_isUnavailable() async throws {
        let error = await #expect(throws: ArrivalError.self) {
            try await Self.withStore(conninfo: "host=/nowhere") { store in
                _ = try await store.storeArrivals([Self.arrival("a")], receivedAt: 0)
            }
        }

        guard case .unavailable(let why)? = error else {
            Issue.record("another error: \(String(describing: error))")
            return
        }
        #expect(why.contains("No such file or directory"))
    }

    /// `/readyz` shows it to whoever reaches the port.
    @Test func obstacle_whenDatabaseIsAway_namesNeitherHostNorUser() async throws {
        let obstacle = try await Self.withStore(conninfo: "host=/nowhere password=s3cret") {
            await $0.obstacle()
        }

        #expect(obstacle?.hasPrefix("the database is away: ") == true)
        #expect(obstacle?.contains("nowhere") == false)
        #expect(obstacle?.contains("s3cret") == false)
    }

    @Test func storeArrivals_whenRunAsTheService_hasTheRightsItNeeds() async throws {
        let service = try await TestDatabase.login("sam", memberOf: ["repricer_service"])

        let (isNew, obstacle) = try await Self.withStore(conninfo: service) { store in
            (
                try await store.storeArrivals([Self.arrival("a")], receivedAt: Self.receivedAt),
                await store.obstacle()
            )
        }

        #expect(isNew == [true])
        #expect(obstacle == nil)
    }

    @Test func obstacle_whenSchemaIsAnother_namesBoth() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.script(
            "UPDATE repricer.schema_migrations SET version = 99, is_breaking = true WHERE version = 1"
        )
        await connection.close()

        let obstacle = try await Self.withStore { await $0.obstacle() }

        #expect(
            obstacle
                == "the database is for programs of schema version 99 or newer, this one is of "
                + "\(expectedSchemaVersion)")
    }

    @Test func obstacle_whenTheDatabaseTakesNoWrites_saysSo() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.script(
            "DO $$BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END$$"
        )
        await connection.close()

        let obstacle = try await Self.withStore { await $0.obstacle() }

        #expect(obstacle == "the database is read-only")
    }

    static func packed(_ id: String, _ headers: [UInt8]...) -> Arrival {
        let headers = headers.map {
            SigningHeader(digest: Array(repeating: $0.first ?? 0, count: 32), text: $0)
        }
        return Arrival(
            notificationUUID: id, understood: true,
            evidence: .packed(Array("bytes of \(id)".utf8), headers: headers))
    }

    static func stored(_ id: String) async throws -> Evidence? {
        let connection = try await TestDatabase.connect()
        let stored = try await connection.read { try EvidenceQueries.stored(id, on: $0) }
        await connection.close()
        return stored?.evidence
    }

    @Test func storeArrivals_whenPacked_keepsEachHeaderOnceAndGivesAllBack() async throws {
        let arrivals = [
            Self.packed("a", [1, 1], [2]), Self.packed("b", [2]), Self.packed("c", [2], [1, 1]),
            Self.packed("d"), Self.arrival("e"),
        ]

        let isNew = try await Self.withStore { store in
            let first = try await store.storeArrivals(arrivals, receivedAt: Self.receivedAt)
            return first
                + (try await store.storeArrivals(
                    [Self.packed("f", [3], [1, 1])], receivedAt: Self.receivedAt))
        }

        #expect(isNew == Array(repeating: true, count: 6))
        #expect(try await Self.count("signing_headers") == 3)
        for arrival in arrivals + [Self.packed("f", [3], [1, 1])] {
            #expect(try await Self.stored(arrival.notificationUUID) == arrival.evidence)
        }
    }

    @Test func storeArrivals_whenWhole_givesItBackToTheFoldAndToReaders() async throws {
        let whole = Evidence.whole("payload of a")
        _ = try await Self.withStore {
            try await $0.storeArrivals([Self.arrival("a")], receivedAt: Self.receivedAt)
        }
        let connection = try await TestDatabase.connect()

        let waiting = try await connection.read { try EventQueries.waiting(["1"], on: $0) }

        #expect(waiting.map(\.evidence) == [whole])
        #expect(try await Self.stored("a") == whole)
        await connection.close()
    }

    /// Whoever restores a backup under a running service must not lose what comes after.
    @Test func storeArrivals_whenAKnownHeaderIsGone_keepsItAgain() async throws {
        try await Self.withStore { store in
            _ = try await store.storeArrivals(
                [Self.packed("a", [1])], receivedAt: Self.receivedAt)
            let connection = try await TestDatabase.connect()
            try await connection.script("DELETE FROM repricer.signing_headers")
            await connection.close()
            _ = try await store.storeArrivals(
                [Self.packed("b", [1])], receivedAt: Self.receivedAt)
        }

        #expect(try await Self.stored("a") == Self.packed("a", [1]).evidence)
        #expect(try await Self.stored("b") == Self.packed("b", [1]).evidence)
    }

    /// To Swift these two ids are equal texts; to the database, and to Apple, they are two.
    @Test func storeArrivals_ofIdsThatDifferInBytesOnly_keepsBoth() async throws {
        let isNew = try await Self.withStore { store in
            try await store.storeArrivals(
                [Self.arrival("\u{E9}"), Self.arrival("e\u{301}"), Self.arrival("\u{E9}")],
                receivedAt: Self.receivedAt)
        }

        #expect(isNew == [true, true, false])
        #expect(try await Self.count("notifications") == 2)
    }

    @Test func storeArrivals_whenPartsAreUnknown_keepsThemByName() async throws {
        var odd = Self.arrival("odd", understood: false)
        odd.unknown = ["type:NEW", "value:a=b'\"{},\\c", "field:ü"]
        let arrivals = [Self.arrival("plain"), odd]
        _ = try await Self.withStore { store in
            try await store.storeArrivals(arrivals, receivedAt: Self.receivedAt)
        }

        let connection = try await TestDatabase.connect()
        let rows = try await connection.query(
            "SELECT unknown FROM repricer.notifications ORDER BY notification_uuid")
        let parts = try await connection.query(
            "SELECT kind, name, notifications FROM report.unknown_part ORDER BY kind")
        #expect(try rows.map { try $0.textsOrNil("unknown") } == [odd.unknown, nil])
        #expect(try parts.map { try $0.text("kind") } == ["field", "type", "value"])
        #expect(try parts.map { try $0.text("name") } == ["ü", "NEW", "a=b'\"{},\\c"])
        await connection.close()
    }
}
