import Facts
import FoldStories
import Postgres
import Pricing
import Reports
import TestSupport
import Testing

/// Lives in which money does what it likes, of which a third is told months late: what was known before stays to the byte, and
/// a month that was closed keeps its figures beside what they have become.
@Suite(.database) struct MoneyPastTests {
    private static let lives = 40

    private static func setClock(_ instant: String, on owner: PostgresConnection) async throws {
        try await owner.script(
            """
            UPDATE repricer.service_controls SET is_rehearsal = true, clock_rate = 0.001,
                clock_origin = clock_timestamp(), clock_start = '\(instant)';
            """)
    }

    private static func lines(_ sql: SQL, on owner: PostgresConnection) async throws -> [String] {
        try await owner.query(sql).map { try $0.text("line") }
    }

    private static func known(at instant: String, on owner: PostgresConnection) async throws
        -> [String]
    {
        var all: [String] = []
        for name in ReportName.allCases where name.hasPast {
            all += try await lines(
                """
                SELECT \(name.rawValue) || ' ' || v::text AS line
                FROM report.\(unsafe: name.rawValue)_as_of(\(instant)::timestamptz) v ORDER BY 1
                """, on: owner)
        }
        return all
    }

    /// `month batch currency kind closed`, and what the ledger and the renewals say of closed months otherwise than the report.
    private static let closed: SQL = """
        SELECT concat_ws(' ', month, batch_id, currency, kind, closed_milliunits) AS line FROM report.closed_period
        WHERE closed_milliunits <> 0 ORDER BY 1
        """
    private static let wrong: SQL = """
        WITH plain AS (
            SELECT date_trunc('month', occurred_at, 'UTC')::date AS month, batch_id, currency, kind,
                sum(amount_milliunits) AS sum
            FROM report.money GROUP BY 1, 2, 3, 4
        )
        SELECT concat_ws(' ', coalesce(p.month, c.month), coalesce(p.currency, c.currency), coalesce(p.kind, c.kind), p.sum,
            c.known_milliunits, c.closed_milliunits, c.restated_milliunits) AS line
        FROM (SELECT * FROM plain WHERE month IN (SELECT month FROM report.closed_period)) p
        FULL JOIN (SELECT * FROM report.closed_period WHERE kind <> 'uplift') c ON c.month = p.month
            AND c.batch_id IS NOT DISTINCT FROM p.batch_id AND c.currency = p.currency AND c.kind = p.kind
        WHERE coalesce(p.sum, 0) <> coalesce(c.known_milliunits, 0)
            OR c.closed_milliunits + c.restated_milliunits <> c.known_milliunits
        """

    @Test(arguments: [UInt64(11), 12])
    func livesToldLate_restateWhatWasClosed_andNothingThatWasKnown(seed: UInt64) async throws {
        // What the owner writes, the tests keep versions of; the service keeps its own.
        let conninfo = try await TestDatabase.login("service", memberOf: ["repricer_service"])
        let pool = DatabasePool(conninfo: conninfo, applicationName: "service", size: 1)
        let owner = try await TestDatabase.connect()
        let lives = (0..<Self.lives).map {
            MoneyLife(
                seed: seed &* 1_000_003 &+ UInt64($0), id: String(1000 + $0),
                requestID: MoneyLivesTests.uuid(1, $0))
        }
        try await MoneyLivesTests.submit(lives, on: owner)
        var random = StoryRandom(seed: seed)
        let told = lives.map { life in
            life.events.map { (event: $0, isLate: random.chance(33)) }
        }
        let keeper = FigureKeeper(pool: pool, log: .silent)
        func tell(late isLate: Bool) async throws {
            for story in told {
                let events = story.filter { $0.isLate == isLate }.map(\.event)
                for piece in ArrivalOrder(events, random: &random).pieces {
                    try await FoldOrderDatabaseTests.fold(piece, pool)
                }
            }
        }

        try await Self.setClock("2040-01-01Z", on: owner)
        try await tell(late: false)
        while try await keeper.keepOnce() > 0 {}
        try await Self.setClock("2040-02-01Z", on: owner)
        for month in ["2025-06", "2025-07", "2025-08"] {
            _ = try await owner.query("SELECT report.close_month(\(month), '2040-02-01Z')")
        }
        let instant = "2040-01-15Z"
        let before = try await Self.known(at: instant, on: owner)
        let closed = try await Self.lines(Self.closed, on: owner)
        #expect(try await Self.lines(Self.wrong, on: owner) == [])
        try await Self.setClock("2040-03-01Z", on: owner)
        try await tell(late: true)

        for what in ["from the facts", "from what is kept"] {
            let after = try await Self.known(at: instant, on: owner)
            #expect(Set(after).symmetricDifference(before).sorted().prefix(4) == [], "\(what)")
            #expect(after.count == before.count)
            #expect(try await Self.lines(Self.closed, on: owner) == closed, "\(what)")
            #expect(try await Self.lines(Self.wrong, on: owner) == [], "\(what)")
            while try await keeper.keepOnce() > 0 {}
        }

        let restated = try await Self.lines(
            "SELECT 'x' AS line FROM report.closed_period WHERE restated_milliunits <> 0", on: owner
        )
        #expect(restated.count > 3)
        #expect(closed.count > 6)
        await owner.close()
        await pool.close()
    }
}
