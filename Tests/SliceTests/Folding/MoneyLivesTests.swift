import Facts
import FoldStories
import Foundation
import Notifications
import Postgres
import Pricing
import Reports
import TestSupport
import Testing

/// Lives in which money does what it likes, told in any order: the ledger is what was told, each charge above the old price
/// belongs to one effective change or is named, and the bridge adds up.
@Suite(.database) struct MoneyLivesTests {
    private static let lives = 60
    private static let batch = "00000000-0000-7000-8000-0000000000aa"
    /// `REPRICER_LIVES=50` tells so many worlds.
    private static let seeds =
        1...(ProcessInfo.processInfo.environment["REPRICER_LIVES"].flatMap(UInt64.init) ?? 2)

    static func uuid(_ kind: Int, _ number: Int) -> String {
        let digits = String(number * 10 + kind)
        return "00000000-0000-7000-8000-" + String(repeating: "0", count: 12 - digits.count)
            + digits
    }

    static func submit(_ lives: [MoneyLife], on owner: PostgresConnection) async throws {
        try await owner.script(
            """
            INSERT INTO repricer.batches (batch_id, name, state, content_sha256, plan_hash, planned_as_of, row_count,
                submitted_at, submitted_by, decided_at, decided_by)
            VALUES ('\(batch)', 'lives', 'approved', 'c', 'h', '2025-03-01Z', \(lives.count), '2025-03-01Z', 'alice',
                '2025-03-02Z', 'bob');
            """)
        for (number, life) in lives.enumerated() {
            let due = MoneyLife.start + 60 * MoneyLife.day
            _ = try await owner.execute(
                """
                INSERT INTO repricer.price_changes (original_transaction_id, bucket, change_id, batch_id, submitted_by, line, sku,
                    direction, currency, storefront, period, current_price_milliunits, new_price_milliunits,
                    forecast_consent, forecast_renewal_at, forecast_effective_at, send_by, due_effective_at, called_renewal_at,
                    request_reference_id, state, sent_at, state_since)
                VALUES (\(life.id), repricer.bucket_of(\(life.id)), \(uuid: uuid(0, number)), \(uuid: batch), 'alice',
                    \(Int64(number + 2)), \(life.calledSKU), \(life.new > MoneyLife.old ? "increase" : "decrease"), 'USD', 'USA', 'P1M',
                    \(MoneyLife.old), \(life.new), \(life.new > MoneyLife.old ? "required" : "none"),
                    \(timestamp: due), \(timestamp: due), \(timestamp: due), \(timestamp: due), \(timestamp: due),
                    \(uuid: uuid(1, number)), 'sending', \(timestamp: life.calledAt), \(timestamp: life.calledAt))
                """)
        }
    }

    private static func lines(_ sql: SQL, on owner: PostgresConnection) async throws -> [String] {
        try await owner.query(sql).map { try $0.text("line") }
    }

    /// `transaction charged given-back currency`, by what was told last of each transaction.
    private static func book(_ lives: [MoneyLife]) -> [String] {
        lives.flatMap { $0.told.values }.map {
            "\($0.transaction) \($0.sku) \($0.total) \($0.given) \($0.currency ?? "XXX")"
        }.sorted()
    }

    /// Each charge since the call above the old price, of one seat and in our currency, that no offer explains. A seat that
    /// was added may have cost a part of the new price.
    private static func above(_ lives: [MoneyLife]) -> [String] {
        lives.flatMap { life in
            life.told.values.filter {
                $0.item == "A" && $0.from >= life.calledAt && $0.price > MoneyLife.old
                    && $0.currency == "USD" && !$0.isOffer
                    && !($0.isAddedSeat && $0.price < life.new)
            }.map { "\($0.transaction)" }
        }.sorted()
    }

    private static let ledger: SQL = """
        SELECT concat_ws(' ', transaction_id, sku, charged, given, currency) AS line FROM (
            SELECT transaction_id, sku, currency, sum(amount_milliunits) FILTER (WHERE kind = 'charge') AS charged,
                coalesce(-sum(amount_milliunits) FILTER (WHERE kind <> 'charge'), 0) AS given
            FROM report.money GROUP BY transaction_id, sku, currency) t
        WHERE charged <> 0 OR given <> 0
        """
    /// Those that an effective change brought, or that are named, a line each.
    private static let claimed: SQL = """
        SELECT r.transaction_id AS line FROM repricer.charged_renewals r
        JOIN report.money m ON m.transaction_id = r.transaction_id AND m.kind = 'charge' AND NOT m.is_correction AND m.sku LIKE 'A%'
            AND m.explained_as = 'new_price' AND m.change_id = r.change_id
        UNION ALL
        SELECT transaction_id FROM report.charge_exception x WHERE x.exception <> 'missing'
        """
    /// With no explanation and no name, or with both, or named twice.
    private static let bare: SQL = """
        WITH m AS MATERIALIZED (
            SELECT transaction_id, sku, max(explained_as) AS explained_as FROM report.money
            WHERE kind = 'charge' GROUP BY transaction_id, sku
        ), x AS MATERIALIZED (
            SELECT transaction_id, count(*) AS count, string_agg(exception, '+') AS names FROM report.charge_exception
            GROUP BY transaction_id
        )
        SELECT concat_ws(' ', h.transaction_id, h.price_milliunits, h.currency, h.storefront, h.purchased_at, c.state, c.reason,
            m.explained_as, x.names) AS line
        FROM repricer.charges h
        JOIN repricer.price_changes c ON c.original_transaction_id = h.original_transaction_id AND h.sku LIKE 'A%'
            AND h.purchased_at >= c.sent_at AND c.state NOT IN ('rejected', 'ineligible', 'missed', 'aborted')
        LEFT JOIN m ON m.transaction_id = h.transaction_id AND m.sku = h.sku
        LEFT JOIN x ON x.transaction_id = h.transaction_id
        WHERE (m.explained_as IS NOT NULL)::integer + coalesce(x.count, 0) <> 1
        """
    /// A month's closing is the next one's opening, and closing less opening what lies between.
    private static let bridge: SQL = """
        SELECT concat_ws(' ', b.month, b.currency, b.opening_milliunits, b.closing_milliunits, n.opening_milliunits) AS line
        FROM report.revenue_bridge b
        LEFT JOIN report.revenue_bridge n ON n.batch_id = b.batch_id AND n.currency = b.currency
            AND n.storefront = b.storefront AND n.month = b.month + interval '1 month'
        WHERE b.opening_milliunits + b.price_effect_milliunits + b.declined_milliunits + b.left_milliunits + b.lapsed_milliunits
                + b.dependents_milliunits + b.refunds_milliunits + b.other_milliunits <> b.closing_milliunits
            OR b.month > '2025-05-01' AND b.closing_milliunits <> coalesce(n.opening_milliunits, 0)
                AND b.month < date_trunc('month', now())
        """
    /// Who was charged at the new price since, and no change says so, nor any check.
    private static let silentYes: SQL = """
        SELECT concat_ws(' ', c.original_transaction_id, c.state) AS line FROM repricer.price_changes c
        WHERE c.state = 'effective' AND NOT EXISTS (
                SELECT FROM repricer.charged_renewals r WHERE r.change_id = c.change_id)
            AND NOT EXISTS (SELECT FROM report.charge_exception x WHERE x.change_id = c.change_id)
            AND (SELECT sum(problems) FROM report.reconciliation WHERE check_name = 'effective_without_charge') = 0
        """

    private static let missing: SQL = """
        SELECT concat_ws(' ', original_transaction_id, (extract(epoch FROM occurred_at) * 1000)::bigint, expected_milliunits) AS line
        FROM report.charge_exception WHERE exception = 'missing'
        """

    private func expectAll(_ lives: [MoneyLife], _ what: Comment, on owner: PostgresConnection)
        async throws
    {
        let ledger = try await Self.lines(Self.ledger, on: owner)
        #expect(Set(ledger).symmetricDifference(Self.book(lives)).sorted() == [], what)
        let above = Self.above(lives)
        let claimed = Set(try await Self.lines(Self.claimed, on: owner))
        #expect(above.filter { !claimed.contains($0) } == [], what)
        #expect(above.count > 20)
        let bare = try await Self.lines(Self.bare, on: owner)
        #expect(bare == [], what)
        #expect(try await Self.lines(Self.bridge, on: owner) == [], what)
        #expect(try await Self.lines(Self.silentYes, on: owner) == [], what)
        let wrong = try await RunOracle.faults(of: lives, on: owner)
        #expect(wrong == [], what)
        #expect(try await ReturnOracle.faults(of: lives, on: owner) == [], what)
        let causes = try await CauseOracle(lives, on: owner)
        #expect(causes.faults == [], what)
        #expect(
            causes.ends > 0 && causes.effects > 5, "\(causes.ends) ends, \(causes.effects) effects")
        let missing = try await Self.lines(Self.missing, on: owner)
        let oracle = MissingOracle(lives, of: try await MissingOracle.ends(on: owner))
        #expect(Set(missing).symmetricDifference(oracle.lines).sorted() == [], what)
        #expect(missing.count == oracle.lines.count && oracle.gapsOfSeveral > 0, what)
    }

    @Test(arguments: seeds)
    func lives_toldInAnyOrder_areInTheLedgerAndExplained(seed: UInt64) async throws {
        let pool = DatabasePool(conninfo: TestDatabase.url, applicationName: "owner", size: 1)
        let owner = try await TestDatabase.connect()
        let lives = (0..<Self.lives).map {
            MoneyLife(
                seed: seed &* 1_000_003 &+ UInt64($0), id: String(1000 + $0),
                requestID: Self.uuid(1, $0))
        }
        try await Self.submit(lives, on: owner)
        var random = StoryRandom(seed: seed)

        let pieces = lives.flatMap { ArrivalOrder($0.events, random: &random).pieces }
            .shuffled(using: &random)
        for piece in pieces { try await FoldOrderDatabaseTests.fold(piece, pool) }

        try await expectAll(lives, "seed \(seed), from the facts", on: owner)
        let keeper = FigureKeeper(pool: pool, log: .silent)
        while try await keeper.keepOnce() > 0 {}
        try await expectAll(lives, "seed \(seed), from what is kept", on: owner)
        await owner.close()
        await pool.close()
    }
}
