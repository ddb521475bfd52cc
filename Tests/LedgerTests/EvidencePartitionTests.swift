import Ledger
import Postgres
import ServiceKit
import TestSupport
import Testing

@Suite(.database) struct EvidencePartitionTests {
    static func at(_ text: String) throws -> Int64 { try #require(RFC3339.parse(text)) }

    static func prepare(_ now: String, ahead: Int, on connection: PostgresConnection) async throws
        -> Int
    {
        let now = try at(now)
        return try await connection.read {
            try EvidencePartitions.prepare(now: now, monthsAhead: ahead, on: $0)
        }
    }

    static func bounds(_ connection: PostgresConnection) async throws -> [String] {
        try await connection.read { connection in
            try EvidencePartitions.all(on: connection).map { partition in
                let bounds = [partition.startsAt, partition.endsAt].map {
                    $0.map(RFC3339.format) ?? "-"
                }
                return "\(partition.name) \(bounds[0]) \(bounds[1])"
            }
        }
    }

    /// The partition of each stored id.
    static func places(_ connection: PostgresConnection) async throws -> [String: String] {
        let rows = try await connection.query(
            "SELECT notification_uuid, tableoid::regclass::text AS place FROM repricer.notifications"
        )
        var places: [String: String] = [:]
        for row in rows {
            places[try row.text("notification_uuid")] = try row.text("place")
        }
        return places
    }

    @Test func prepare_acrossTheYear_makesWholeMonthsInUTCOnce() async throws {
        let connection = try await TestDatabase.connect()
        // The session's zone must not move a bound.
        try await connection.script("SET timezone = 'America/Los_Angeles'")

        let made = try await Self.prepare("2027-12-31T23:59:59.999Z", ahead: 2, on: connection)
        let again = try await Self.prepare("2028-01-01T00:00:00Z", ahead: 1, on: connection)

        #expect([made, again] == [3, 0])
        try await connection.script("SET timezone = 'UTC'")
        #expect(
            try await Self.bounds(connection) == [
                "notifications_2027_12 2027-12-01T00:00:00Z 2028-01-01T00:00:00Z",
                "notifications_2028_01 2028-01-01T00:00:00Z 2028-02-01T00:00:00Z",
                "notifications_2028_02 2028-02-01T00:00:00Z 2028-03-01T00:00:00Z",
                "notifications_default - -",
            ])
        await connection.close()
    }

    @Test func storeArrivals_atTheEdgesOfAMonth_goToTheirPartition() async throws {
        let connection = try await TestDatabase.connect()
        _ = try await Self.prepare("2028-02-01T00:00:00Z", ahead: 1, on: connection)
        let edges = [
            ("a", "2028-01-31T23:59:59.999Z", "repricer.notifications_default"),
            ("b", "2028-02-01T00:00:00Z", "repricer.notifications_2028_02"),
            ("c", "2028-02-29T23:59:59.999Z", "repricer.notifications_2028_02"),
            ("d", "2028-03-01T00:00:00Z", "repricer.notifications_2028_03"),
            ("e", "2028-04-01T00:00:00Z", "repricer.notifications_default"),
        ]

        for (id, at, _) in edges {
            let receivedAt = try Self.at(at)
            _ = try await NotificationStoreTests.withStore {
                try await $0.storeArrivals(
                    [NotificationStoreTests.arrival(id)], receivedAt: receivedAt)
            }
        }

        let places = try await Self.places(connection)
        #expect(places == Dictionary(uniqueKeysWithValues: edges.map { ($0.0, $0.2) }))
        await connection.close()
    }

    @Test func storeArrivals_ofAnIdOfAnotherMonth_isKnown() async throws {
        let connection = try await TestDatabase.connect()
        _ = try await Self.prepare("2028-02-01T00:00:00Z", ahead: 1, on: connection)
        let (first, later) = (
            try Self.at("2028-02-29T23:59:59.999Z"), try Self.at("2028-03-01T00:00:00Z")
        )

        let isNew = try await NotificationStoreTests.withStore { store in
            let arrivals = [NotificationStoreTests.arrival("a")]
            return [
                try await store.storeArrivals(arrivals, receivedAt: first),
                try await store.storeArrivals(arrivals, receivedAt: later),
            ]
        }

        #expect(isNew == [[true], [false]])
        #expect(try await Self.places(connection) == ["a": "repricer.notifications_2028_02"])
        await connection.close()
    }

    @Test func prepare_whenTheDefaultTookRows_movesThem() async throws {
        let connection = try await TestDatabase.connect()
        for (id, at) in [("a", "2028-02-01T00:00:00Z"), ("b", "2028-03-01T00:00:00Z")] {
            let receivedAt = try Self.at(at)
            _ = try await NotificationStoreTests.withStore {
                try await $0.storeArrivals(
                    [NotificationStoreTests.arrival(id)], receivedAt: receivedAt)
            }
        }

        let made = try await Self.prepare("2028-02-10T00:00:00Z", ahead: 0, on: connection)

        #expect(made == 1)
        #expect(
            try await Self.places(connection) == [
                "a": "repricer.notifications_2028_02", "b": "repricer.notifications_default",
            ])
        await connection.close()
    }

    /// The writer has chosen the default partition already, and waits for the one who makes the month.
    @Test func storeArrivals_whileItsMonthIsMade_goToTheMonth() async throws {
        let receivedAt = try Self.at("2028-02-10T00:00:00Z")
        let maker = try await TestDatabase.connect()
        try await maker.script("BEGIN")
        _ = try await Self.prepare("2028-02-10T00:00:00Z", ahead: 0, on: maker)

        let isNew = try await NotificationStoreTests.withStore { store in
            async let stored = store.storeArrivals(
                [NotificationStoreTests.arrival("a")], receivedAt: receivedAt)
            try await Self.waitUntilSomebodyIsBlocked()
            try await maker.script("COMMIT")
            return try await stored
        }

        #expect(isNew == [true])
        #expect(try await Self.places(maker) == ["a": "repricer.notifications_2028_02"])
        await maker.close()
    }

    /// Who reads meanwhile waits, and then finds what was moved where it is.
    @Test func reader_whileRowsMoveToTheirMonth_missesNone() async throws {
        let receivedAt = try Self.at("2028-02-10T00:00:00Z")
        _ = try await NotificationStoreTests.withStore {
            try await $0.storeArrivals(
                [NotificationStoreTests.arrival("a")], receivedAt: receivedAt)
        }
        let (maker, reader) = (try await TestDatabase.connect(), try await TestDatabase.connect())
        try await maker.script("BEGIN")
        _ = try await Self.prepare("2028-02-10T00:00:00Z", ahead: 0, on: maker)

        async let places = Self.places(reader)
        try await Self.waitUntilSomebodyIsBlocked()
        try await maker.script("COMMIT")

        #expect(try await places == ["a": "repricer.notifications_2028_02"])
        await maker.close()
        await reader.close()
    }

    private static func waitUntilSomebodyIsBlocked() async throws {
        let connection = try await TestDatabase.connect()
        let blocked: SQL = """
            SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
            WHERE NOT l.granted AND d.datname = current_database()
            """
        try await eventually("a blocked statement") {
            try await !connection.query(blocked).isEmpty
        }
        await connection.close()
    }

    @Test func prepare_asTheService_isAllowed() async throws {
        let url = try await TestDatabase.login("svc", memberOf: ["repricer_service"])
        let connection = try await PostgresConnection.connect(url, applicationName: "test")

        #expect(try await Self.prepare("2028-02-10T00:00:00Z", ahead: 3, on: connection) == 4)
        await connection.close()
    }

    @Test func prepare_byManyAtOnce_makesEachMonthOnce() async throws {
        let made = try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    let connection = try await TestDatabase.connect()
                    let made = try await Self.prepare(
                        "2028-02-10T00:00:00Z", ahead: 3, on: connection)
                    await connection.close()
                    return made
                }
            }
            return try await group.reduce(0, +)
        }

        #expect(made == 4)
    }
}
