import Facts
import Postgres
import TestSupport
import Testing

/// The reports beside the oracle, and faults that it has to find.
extension LivesEvidence {
    private func oracle() async throws -> MoneyOracle {
        let owner = try await TestDatabase.connect()
        let called = try await owner.query(
            """
            SELECT original_transaction_id AS id, sku, current_price_milliunits AS old, new_price_milliunits AS new, currency,
                coalesce(sent_at, doubtful_since, scheduled_at) AS at, state
            FROM repricer.price_changes WHERE coalesce(sent_at, doubtful_since, scheduled_at) IS NOT NULL
            """
        ).map { row in
            MoneyOracle.Called(
                id: try row.text("id"), sku: try row.text("sku"), old: try row.int64("old"),
                new: try row.int64("new"), currency: try row.text("currency"),
                at: try row.milliseconds("at"), state: try row.text("state"))
        }
        await owner.close()
        return MoneyOracle(
            charges: await book(), called: called, now: rehearsal.harness.now.milliseconds)
    }

    private static let uplifts: SQL = """
        SELECT concat_ws(' ', original_transaction_id, charged_renewals, charged_total_milliunits,
            charged_uplift_milliunits) AS line
        FROM report.price_change WHERE sent_at IS NOT NULL
        """

    private static func bridge(_ now: Int64) -> SQL {
        """
        SELECT concat_ws(' ', to_char(month, 'YYYY-MM'), round(sum(opening) / 12), round(sum(closing) / 12)) AS line
        FROM repricer.batches b CROSS JOIN LATERAL repricer.bridge_moves(\(timestamp: now)::timestamptz, b.batch_id)
        GROUP BY month
        """
    }

    /// Each charge above the old price as often as something claims or names it.
    private static let above: SQL = """
        SELECT concat_ws(' ', n.transaction_id, n.sku) AS line
        FROM (SELECT transaction_id, sku, amount_milliunits, currency, original_transaction_id, occurred_at
                FROM report.money
                WHERE kind = 'charge' AND explained_as IN ('new_price', 'offer', 'new_purchase', 'undone')
            UNION ALL
            SELECT transaction_id, sku, amount_milliunits, currency, original_transaction_id, occurred_at
                FROM report.charge_exception WHERE exception <> 'missing') n
        JOIN repricer.price_changes c ON c.original_transaction_id = n.original_transaction_id AND c.sku = n.sku
        JOIN repricer.charges h ON h.original_transaction_id = n.original_transaction_id
            AND h.transaction_id = n.transaction_id AND h.sku = n.sku
        WHERE h.price_milliunits > c.current_price_milliunits AND n.currency = c.currency
            AND n.occurred_at >= c.sent_at
        """

    private static let refunded: SQL = """
        SELECT concat_ws(' ', x.transaction_id, x.sku) AS line FROM report.charge_exception x
        WHERE x.refunded_milliunits > 0
        UNION
        SELECT concat_ws(' ', m.transaction_id, m.sku) FROM report.money m
        JOIN repricer.charges h ON h.transaction_id = m.transaction_id AND h.sku = m.sku
        WHERE m.kind = 'charge' AND m.change_id IS NOT NULL AND h.refunded_milliunits > 0
        """

    private func months(until now: Int64) async throws -> [MoneyOracle.Month] {
        try await query(
            """
            SELECT concat_ws(' ', to_char(m, 'YYYY-MM'), extract(epoch FROM m)::bigint,
                extract(epoch FROM m + interval '1 month')::bigint) AS line
            FROM generate_series(timestamp '2026-01-01', \(timestamp: now)::timestamptz AT TIME ZONE 'UTC',
                interval '1 month') AS m
            """
        ).map { line in
            let parts = line.split(separator: " ")
            return MoneyOracle.Month(
                name: String(parts[0]), from: (Int64(parts[1]) ?? 0) * 1000,
                to: (Int64(parts[2]) ?? 0) * 1000)
        }
    }

    /// What the reports say otherwise than the oracle.
    private func differences() async throws -> [String] {
        let oracle = try await oracle()
        let months = try await months(until: oracle.now)
        var found: [String] = []
        for (what, book, sql) in [
            ("uplift", oracle.uplifts, Self.uplifts),
            ("bridge", oracle.bridge(months), Self.bridge(oracle.now)),
            ("above", oracle.above, Self.above), ("refunded", oracle.refunded, Self.refunded),
        ] {
            let report = try await query(sql)
            found += Set(book).subtracting(report).sorted().map { "\(what), the book: \($0)" }
            found += Set(report).subtracting(book).sorted().map { "\(what), the report: \($0)" }
            if Set(book) == Set(report), book.count != report.count {
                found.append("\(what): \(book.count) lines in the book, \(report.count) in it")
            }
        }
        return found
    }

    func expectTheOraclesFigures() async throws {
        let differences = try await differences()
        #expect(differences == [], "seed \(seed)")
        let oracle = try await oracle()
        #expect(oracle.above.count > 5 && oracle.uplifts.count > 10)
    }

    /// A charge that a change claims.
    private static let one = """
        (SELECT transaction_id, sku FROM repricer.money_entries WHERE explained_as = 'new_price'
            ORDER BY transaction_id LIMIT 1)
        """
    private static let itsChange = """
        (SELECT change_id FROM repricer.money_entries WHERE explained_as = 'new_price' ORDER BY transaction_id LIMIT 1)
        """

    /// In the facts and in what is kept beside them.
    private static let faults = [
        "UPDATE repricer.charges SET price_milliunits = price_milliunits + 10 WHERE (transaction_id, sku) IN \(one)",
        "UPDATE repricer.charges SET refunded_milliunits = 1 WHERE (transaction_id, sku) IN \(one)",
        "UPDATE repricer.charges SET currency = 'EUR' WHERE (transaction_id, sku) IN \(one)",
        "DELETE FROM repricer.charges WHERE (transaction_id, sku) IN \(one)",
        """
        UPDATE repricer.price_changes SET state = 'lapsed', ended_at = state_since WHERE change_id IN \(itsChange)
        """,
        "UPDATE repricer.change_figures SET renewals = renewals + 1 WHERE change_id IN \(itsChange)",
        "UPDATE repricer.move_tallies SET closing = closing + 12",
        // Of an increase: the charge of a decrease is not above the old price.
        """
        UPDATE repricer.money_entries SET explained_as = 'old_price' WHERE (transaction_id, sku) IN (
            SELECT m.transaction_id, m.sku FROM repricer.money_entries m
            JOIN repricer.charges h ON h.transaction_id = m.transaction_id AND h.sku = m.sku
            WHERE m.explained_as = 'new_price' AND h.price_milliunits > 9990 ORDER BY m.transaction_id LIMIT 1)
        """,
    ]

    func expectPlantedFaultsToBeFound() async throws {
        let owner = try await TestDatabase.connect()
        for fault in Self.faults {
            try await owner.script(
                """
                CREATE TABLE test_support.kept_charges AS TABLE repricer.charges;
                CREATE TABLE test_support.kept_figures AS TABLE repricer.change_figures;
                CREATE TABLE test_support.kept_entries AS TABLE repricer.money_entries;
                CREATE TABLE test_support.kept_tallies AS TABLE repricer.move_tallies;
                CREATE TABLE test_support.kept_changes AS SELECT original_transaction_id, change_id, state, ended_at
                    FROM repricer.price_changes;
                """ + fault)
            let found = try await differences()
            try await owner.script(
                """
                DELETE FROM repricer.charges;
                INSERT INTO repricer.charges TABLE test_support.kept_charges;
                DELETE FROM repricer.change_figures;
                INSERT INTO repricer.change_figures TABLE test_support.kept_figures;
                DELETE FROM repricer.money_entries;
                INSERT INTO repricer.money_entries TABLE test_support.kept_entries;
                DELETE FROM repricer.move_tallies;
                INSERT INTO repricer.move_tallies TABLE test_support.kept_tallies;
                UPDATE repricer.price_changes c SET state = k.state, ended_at = k.ended_at
                    FROM test_support.kept_changes k
                    WHERE k.original_transaction_id = c.original_transaction_id AND k.change_id = c.change_id
                        AND k.state <> c.state;
                DELETE FROM repricer.stale_figures;
                DROP TABLE test_support.kept_charges, test_support.kept_figures, test_support.kept_entries,
                    test_support.kept_tallies, test_support.kept_changes;
                """)
            #expect(found != [], "nobody saw: \(fault)")
        }
        await owner.close()
        #expect(try await differences() == [], "after all faults were taken out")
    }
}
