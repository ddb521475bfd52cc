import Facts
import Postgres
import Pricing

/// Refusals with one code that make up nearly all answers of batches. A guard of errors that halts for them has met a
/// common cause, so they say nothing about the customers whose changes they ended.
enum AlikeRefusalQueries {
    /// The least number of such refusals: as many as a code about a customer may end in a row before its batch is
    /// halted.
    private static let refusalsMin: Int64 = 10

    /// Their least share of all answers: three of four. Half of a list of customers may well be out of date. But if
    /// three quarters of it are refused, the mistake is ours or the App Store's.
    private static let shareMin = (of: Int64(4), least: Int64(3))

    /// A batch that met the code.
    struct Concerned: Sendable {
        var batchID: String
        var name: String
        var rail: GuardRail
        /// When its first change ended with the code, in UTC milliseconds of the business clock.
        var since: Int64
    }

    struct Alike: Sendable {
        var code: String
        /// In the order of ids, so that all lock them in one order.
        var batches: [Concerned]
    }

    /// The code of so many refusals; nil where there is none.
    ///
    /// - Parameters:
    ///   - batches: A query of `batch_id` and `count_from`, the instant from which answers of the batch count.
    ///   - errors: All answers of these batches, and the refusals among them.
    static func alike(
        in batches: SQL, _ errors: GuardQueries.Count, on connection: isolated PostgresConnection
    ) throws -> Alike? {
        guard errors.count >= refusalsMin else { return nil }
        let rows = try connection.query(
            """
            -- name: alikeRefusals
            WITH judged AS (\(fragment: batches)), refused AS (
                SELECT j.batch_id, c.code, count(*) AS refusals, min(c.ended_at) AS since
                FROM judged j CROSS JOIN LATERAL (
                    SELECT split_part(reason, ' ', 1) AS code, ended_at FROM repricer.price_changes
                    WHERE batch_id = j.batch_id AND stage = 'rejected' AND sent_at >= j.count_from
                        AND reason ~ '^[0-9]{3,} ') c
                GROUP BY j.batch_id, c.code
            )
            SELECT r.batch_id, r.code, r.refusals, r.since, b.name, g.value ->> 'guard' AS guard,
                (g.value ->> 'over')::integer AS over, (g.value ->> 'least')::integer AS least
            FROM refused r JOIN repricer.batches b ON b.batch_id = r.batch_id
            CROSS JOIN LATERAL jsonb_array_elements(b.guards) AS g (value)
            WHERE g.value ->> 'guard' = 'errors'
            ORDER BY r.batch_id
            """)
        var refusals: [String: Int64] = [:]
        for row in rows { refusals[try row.text("code"), default: 0] += try row.int64("refusals") }
        guard let (code, count) = refusals.max(by: { ($0.value, $1.key) < ($1.value, $0.key) }),
            count >= refusalsMin, count * shareMin.of >= errors.all * shareMin.least
        else { return nil }
        return Alike(
            code: code,
            batches: try rows.filter { try $0.text("code") == code }.map { row in
                try Concerned(
                    batchID: row.text("batch_id"), name: row.text("name"),
                    rail: GuardQueries.rail(row), since: row.milliseconds("since"))
            })
    }
}
