import Facts
package import Postgres

/// Parked work other than price changes: cancellations of dependents, and extensions. The App Store refused it with a
/// code that is not about the customer, or does not answer.
package enum ParkedWorkQueries {
    /// From this many attempts without an answer on, work is shown, because it is no longer a short outage.
    private static let attemptsMin = 8
    /// From this many status checks without an outcome on, a dependent is shown, because it is no longer a short
    /// outage.
    private static let checksMin = 10
    /// A refusal begins with its code, or with the HTTP status where it has none.
    private static let refusal = "^[0-9]{3,} "

    /// The condition that the dependent `d` waits to be judged again.
    static let isWaiting: SQL = """
        (d.state = 'requested' AND (d.detail ~ \(refusal) OR d.checks >= \(checksMin)))
        """

    /// What the dependent `d` waits for.
    static let whyWaiting: SQL = "coalesce(d.detail, 'its status is refused, or gets no answer')"

    /// The condition that a mass extension waits. There are few, so one is shown as soon as an answer is lost.
    private static let isMassWaiting: SQL =
        "(state = 'unknown' OR state = 'queued' AND detail ~ \(refusal))"

    /// The extensions that wait, and the calls of any such kind that get no answer, at most `limit` of each.
    package static func besidesBatches(
        limit: Int, on connection: isolated PostgresConnection
    ) throws -> [StatusQueries.Refused] {
        try connection.query(
            """
            -- name: unansweredCalls
            SELECT kind AS what, subject,
                coalesce(error_code || ' ' || coalesce(error_message, ''), 'no answer') AS reason, prepared_at AS since, next_attempt_at
            FROM repricer.store_calls
            WHERE kind IN ('cancel', 'extension') AND settled_at IS NULL
                AND attempts >= \(attemptsMin)
            ORDER BY prepared_at, subject LIMIT \(limit)
            """
        ).map(refused)
            + connection.query(
                """
                -- name: parkedExtensions
                SELECT 'extension' AS what, original_transaction_id AS subject, detail AS reason,
                    requested_at AS since, next_attempt_at
                FROM repricer.extension_requests
                WHERE state = 'queued' AND requested_at > '-infinity' AND detail ~ \(refusal)
                ORDER BY requested_at, original_transaction_id LIMIT \(limit)
                """
            ).map(refused)
            + connection.query(
                """
                -- name: parkedMassExtensions
                SELECT 'mass_extension' AS what, extension_id::text AS subject,
                    coalesce(detail, 'no answer') AS reason,
                    submitted_at AS since, next_attempt_at
                FROM repricer.mass_extensions
                WHERE \(fragment: isMassWaiting)
                ORDER BY submitted_at, extension_id LIMIT \(limit)
                """
            ).map(refused)
    }

    private static func refused(_ row: Row) throws -> StatusQueries.Refused {
        try StatusQueries.Refused(
            batchName: "", originalTransactionID: row.text("subject"), sku: row.text("what"),
            state: "parked", reason: row.text("reason"), since: row.milliseconds("since"),
            nextAttemptAt: row.millisecondsOrNil("next_attempt_at"))
    }

    /// How much work of each kind waits: `cancel`, `extension` and `mass_extension`.
    package static func counts(
        on connection: isolated PostgresConnection
    ) throws -> [String: Int64] {
        var counts = ["cancel": Int64(0), "extension": 0, "mass_extension": 0]
        let found =
            try connection.query(
                """
                -- name: countUnansweredCalls
                SELECT kind AS what, count(*) AS waiting FROM repricer.store_calls
                WHERE kind IN ('cancel', 'extension') AND settled_at IS NULL
                    AND attempts >= \(attemptsMin)
                GROUP BY kind
                """
            ).map { (try $0.text("what"), try $0.int64("waiting")) }
            + connection.query(
                """
                -- name: countWaitingDependents
                SELECT count(*) AS waiting FROM repricer.dependent_cancellations d
                WHERE \(fragment: isWaiting) AND d.requested_at > '-infinity'
                """
            ).map { ("cancel", try $0.int64("waiting")) }
            + connection.query(
                """
                -- name: countParkedExtensions
                SELECT count(*) AS waiting FROM repricer.extension_requests
                WHERE state = 'queued' AND requested_at > '-infinity' AND detail ~ \(refusal)
                """
            ).map { ("extension", try $0.int64("waiting")) }
            + connection.query(
                """
                -- name: countParkedMassExtensions
                SELECT count(*) AS waiting FROM repricer.mass_extensions
                WHERE \(fragment: isMassWaiting)
                """
            ).map { ("mass_extension", try $0.int64("waiting")) }
        for (kind, waiting) in found { counts[kind, default: 0] += waiting }
        return counts
    }
}
