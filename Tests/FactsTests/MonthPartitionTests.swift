import Notifications
import Postgres
import ServiceKit
import TestSupport
import Testing

@Suite(.database) struct MonthPartitionTests {
    typealias Table = MonthPartitions.Table

    /// Those that hold versions are made and moved as the history is.
    static let tables: [Table] = [.notifications, .history, .statements]

    static func at(_ text: String) throws -> Int64 { try #require(RFC3339.parse(text)) }

    static func prepare(
        _ table: Table, _ now: String, ahead: Int, on connection: PostgresConnection
    ) async throws -> Int {
        let now = try at(now)
        return try await connection.read {
            try MonthPartitions.prepare(table, now: now, monthsAhead: ahead, on: $0)
        }
    }

    static func bounds(_ table: Table, _ connection: PostgresConnection) async throws -> [String] {
        try await connection.read { connection in
            try MonthPartitions.all(of: table, on: connection).map { partition in
                let bounds = [partition.months?.lowerBound, partition.months?.upperBound].map {
                    $0.map(RFC3339.format) ?? "-"
                }
                return "\(partition.name) \(bounds[0]) \(bounds[1])"
            }
        }
    }

    /// Stores a row of that name at the instant, as the programs do; whether it is new.
    static func store(_ table: Table, _ name: String, at instant: String) async throws -> Bool {
        let milliseconds = try at(instant)
        switch table {
        case .notifications:
            return try await NotificationStoreTests.withStore {
                try await $0.storeArrivals(
                    [NotificationStoreTests.arrival(name)], receivedAt: milliseconds)
            } == [true]
        case .history:
            let connection = try await TestDatabase.connect()
            let lines = try await connection.execute(
                """
                INSERT INTO repricer.price_change_history
                    (original_transaction_id, bucket, change_id, occurred_at, state, evidence_kind, evidence_id)
                VALUES ('1', repricer.bucket_of('1'), '00000000-0000-7000-8000-000000000001', \(timestamp: milliseconds),
                    'queued', 'judgement', \(name))
                ON CONFLICT DO NOTHING
                """)
            await connection.close()
            return lines == 1
        default:
            let connection = try await TestDatabase.connect()
            let lines = try await connection.execute(
                """
                INSERT INTO repricer.subscription_events
                    (original_transaction_id, bucket, signed_at, evidence_id, source, statement)
                VALUES ('1', repricer.bucket_of('1'), \(timestamp: milliseconds), \(name), 'notification', '{}')
                ON CONFLICT DO NOTHING
                """)
            await connection.close()
            return lines == 1
        }
    }

    /// The partition of each stored row, without its schema.
    static func places(
        _ table: Table, _ connection: PostgresConnection
    ) async throws -> [String: String] {
        let name = table == .notifications ? "notification_uuid" : "evidence_id"
        let rows = try await connection.query(
            """
            SELECT \(unsafe: name) AS name, relname::text AS place
            FROM repricer.\(unsafe: table.rawValue) t JOIN pg_class c ON c.oid = t.tableoid
            """)
        var places: [String: String] = [:]
        for row in rows { places[try row.text("name")] = try row.text("place") }
        return places
    }

    /// Whoever reads the partitions while another session drops one is not told of it, and does not fail.
    @Test func partition_thatAnotherSessionHasDropped_isLeftOut() async throws {
        let (reader, owner) = (try await TestDatabase.connect(), try await TestDatabase.connect())
        _ = try await Self.prepare(.statements, "2021-03-05T00:00:00Z", ahead: 0, on: owner)
        let before = try await Self.bounds(.statements, owner)
        // A snapshot in which the partition is still there.
        try await reader.script(
            "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_inherits")

        try await owner.script("DROP TABLE repricer.subscription_events_2021_03")
        let seen = try await Self.bounds(.statements, reader)

        try await reader.script("COMMIT")
        let after = try await Self.bounds(.statements, owner)
        #expect(before.contains { $0.hasPrefix("subscription_events_2021_03 ") })
        #expect(seen == after)
        await reader.close()
        await owner.close()
    }

    @Test(arguments: Self.tables)
    func prepare_acrossTheYear_makesWholeMonthsInUTCOnce(_ table: Table) async throws {
        let connection = try await TestDatabase.connect()
        // The session's zone must not move a bound.
        try await connection.script("SET timezone = 'America/Los_Angeles'")

        let made = try await Self.prepare(
            table, "2027-12-31T23:59:59.999Z", ahead: 2, on: connection)
        let again = try await Self.prepare(table, "2028-01-01T00:00:00Z", ahead: 1, on: connection)

        #expect([made, again] == [3, 0])
        try await connection.script("SET timezone = 'UTC'")
        #expect(
            try await Self.bounds(table, connection) == [
                "\(table.rawValue)_2027_12 2027-12-01T00:00:00Z 2028-01-01T00:00:00Z",
                "\(table.rawValue)_2028_01 2028-01-01T00:00:00Z 2028-02-01T00:00:00Z",
                "\(table.rawValue)_2028_02 2028-02-01T00:00:00Z 2028-03-01T00:00:00Z",
                "\(table.rawValue)_default - -",
            ])
        await connection.close()
    }

    /// A month between two that exist is made by itself.
    @Test(arguments: Self.tables)
    func prepare_withAGapBetweenMonths_fillsIt(_ table: Table) async throws {
        let connection = try await TestDatabase.connect()
        _ = try await Self.prepare(table, "2028-01-15T00:00:00Z", ahead: 0, on: connection)
        _ = try await Self.prepare(table, "2028-03-15T00:00:00Z", ahead: 0, on: connection)
        _ = try await Self.store(table, "a", at: "2028-02-15T00:00:00Z")

        let made = try await Self.prepare(table, "2028-01-15T00:00:00Z", ahead: 2, on: connection)

        #expect(made == 1)
        #expect(
            try await Self.places(table, connection) == ["a": "\(table.rawValue)_2028_02"])
        await connection.close()
    }

    @Test(arguments: Self.tables)
    func rows_atTheEdgesOfAMonth_goToTheirPartition(_ table: Table) async throws {
        let connection = try await TestDatabase.connect()
        _ = try await Self.prepare(table, "2028-02-01T00:00:00Z", ahead: 1, on: connection)
        let edges = [
            ("a", "2028-01-31T23:59:59.999Z", "default"), ("b", "2028-02-01T00:00:00Z", "2028_02"),
            ("c", "2028-02-29T23:59:59.999Z", "2028_02"), ("d", "2028-03-01T00:00:00Z", "2028_03"),
            ("e", "2028-04-01T00:00:00Z", "default"),
        ]

        for (name, instant, _) in edges { _ = try await Self.store(table, name, at: instant) }

        let expected = edges.map { ($0.0, "\(table.rawValue)_\($0.2)") }
        #expect(
            try await Self.places(table, connection)
                == Dictionary(uniqueKeysWithValues: expected))
        await connection.close()
    }

    @Test func storeArrivals_ofAnIdOfAnotherMonth_isKnown() async throws {
        let connection = try await TestDatabase.connect()
        _ = try await Self.prepare(
            .notifications, "2028-02-01T00:00:00Z", ahead: 1, on: connection)

        let first = try await Self.store(.notifications, "a", at: "2028-02-29T23:59:59.999Z")
        let later = try await Self.store(.notifications, "a", at: "2028-03-01T00:00:00Z")

        #expect([first, later] == [true, false])
        #expect(
            try await Self.places(.notifications, connection) == ["a": "notifications_2028_02"])
        await connection.close()
    }

    @Test(arguments: Self.tables)
    func prepare_whenTheDefaultTookRows_movesThem(_ table: Table) async throws {
        let connection = try await TestDatabase.connect()
        _ = try await Self.store(table, "a", at: "2028-02-01T00:00:00Z")
        _ = try await Self.store(table, "b", at: "2028-03-01T00:00:00Z")

        let made = try await Self.prepare(table, "2028-02-10T00:00:00Z", ahead: 0, on: connection)

        #expect(made == 1)
        #expect(
            try await Self.places(table, connection) == [
                "a": "\(table.rawValue)_2028_02", "b": "\(table.rawValue)_default",
            ])
        await connection.close()
    }

    @Test func historyLine_repeatedAfterItMoved_isKnown() async throws {
        let connection = try await TestDatabase.connect()
        let first = try await Self.store(.history, "a", at: "2028-02-10T00:00:00Z")
        _ = try await Self.prepare(.history, "2028-02-10T00:00:00Z", ahead: 0, on: connection)

        let again = try await Self.store(.history, "a", at: "2028-02-10T00:00:00Z")

        #expect([first, again] == [true, false])
        await connection.close()
    }

    /// The writer has chosen the default partition already, and waits for the one who makes the month.
    @Test(arguments: Self.tables)
    func writer_whileItsMonthIsMade_writesToTheMonth(_ table: Table) async throws {
        let maker = try await TestDatabase.connect()
        try await maker.script("BEGIN")
        _ = try await Self.prepare(table, "2028-02-10T00:00:00Z", ahead: 0, on: maker)

        async let stored = Self.store(table, "a", at: "2028-02-10T00:00:00Z")
        try await Self.waitUntilSomebodyIsBlocked()
        try await maker.script("COMMIT")

        #expect(try await stored)
        #expect(try await Self.places(table, maker) == ["a": "\(table.rawValue)_2028_02"])
        await maker.close()
    }

    /// Who reads meanwhile waits, and then finds what was moved where it is.
    @Test(arguments: Self.tables)
    func reader_whileRowsMoveToTheirMonth_missesNone(_ table: Table) async throws {
        _ = try await Self.store(table, "a", at: "2028-02-10T00:00:00Z")
        let (maker, reader) = (try await TestDatabase.connect(), try await TestDatabase.connect())
        try await maker.script("BEGIN")
        _ = try await Self.prepare(table, "2028-02-10T00:00:00Z", ahead: 0, on: maker)

        async let places = Self.places(table, reader)
        try await Self.waitUntilSomebodyIsBlocked()
        try await maker.script("COMMIT")

        #expect(try await places == ["a": "\(table.rawValue)_2028_02"])
        await maker.close()
        await reader.close()
    }

    /// Whoever has written a line and then reads the history needs the default partition: the maker, who needs the
    /// table for rows of a later month, must wait without it.
    @Test(arguments: Self.tables)
    func prepare_besideATransactionThatWroteAndThenReads_waitsForIt(
        _ table: Table
    ) async throws {
        _ = try await Self.store(table, "later", at: "2028-03-10T00:00:00Z")
        let (maker, writer) = (try await TestDatabase.connect(), try await TestDatabase.connect())
        try await writer.script(
            "BEGIN; LOCK TABLE ONLY repricer.\(table.rawValue) IN ROW EXCLUSIVE MODE")

        async let made = Self.prepare(table, "2028-02-10T00:00:00Z", ahead: 1, on: maker)
        try await Self.waitUntilSomebodyIsBlocked()
        let seen = try await Self.places(table, writer)
        try await writer.script("COMMIT")

        #expect(seen == ["later": "\(table.rawValue)_default"])
        #expect(try await made == 2)
        #expect(try await Self.places(table, maker) == ["later": "\(table.rawValue)_2028_03"])
        await maker.close()
        await writer.close()
    }

    private static func waitUntilSomebodyIsBlocked() async throws {
        let connection = try await TestDatabase.connect()
        let blocked: SQL = """
            SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
            WHERE NOT l.granted AND d.datname = current_database()
            """
        // The maker gives up after two seconds, and then nobody is blocked any more.
        let deadline = ContinuousClock.now + .seconds(60)
        while try await connection.query(blocked).isEmpty {
            try #require(ContinuousClock.now < deadline, "nobody was seen to be blocked")
            await Task.yield()
        }
        await connection.close()
    }

    @Test func prepareAll_asTheService_isAllowed() async throws {
        let url = try await TestDatabase.login("svc", memberOf: ["repricer_service"])
        let connection = try await PostgresConnection.connect(url, applicationName: "test")
        let now = try Self.at("2028-02-10T00:00:00Z")

        let made = try await connection.read {
            try MonthPartitions.prepareAll(now: now, monthsAhead: 3, on: $0)
        }

        // Four months of each, and of statements those behind them as well.
        #expect(made == 6 * 4 + 11)
        await connection.close()
    }

    @Test(arguments: Self.tables, [false, true])
    func prepare_byManyAtOnce_makesEachMonthOnce(
        _ table: Table, withRows: Bool
    ) async throws {
        if withRows {
            for month in 2...5 {
                _ = try await Self.store(table, "\(month)", at: "2028-0\(month)-10T00:00:00Z")
            }
        }

        let made = try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    let connection = try await TestDatabase.connect()
                    let made = try await Self.prepare(
                        table, "2028-02-10T00:00:00Z", ahead: 3, on: connection)
                    await connection.close()
                    return made
                }
            }
            return try await group.reduce(0, +)
        }

        #expect(made == 4)
    }

    /// The function runs as the owner: it makes nothing but months of these tables.
    @Test func prepare_ofAnotherTable_isRefused() async throws {
        let connection = try await TestDatabase.connect()

        let error = await #expect(throws: PostgresError.self) {
            _ = try await connection.query("SELECT repricer.prepare_months('batches', now(), 1)")
        }

        #expect(error?.sqlState?.code == "22023")
        await connection.close()
    }
}
