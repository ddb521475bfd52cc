import Facts
package import Postgres
package import Pricing

/// The calls that stored batches still need, which a forecast of late rows counts.
package enum OpenCallQueries {
    package struct Open: Sendable {
        /// The calls of the batch that was asked about, approved or not.
        package var own: [CallList.Stored] = []
        /// The calls of all other approved batches.
        package var others: [CallList.Stored] = []
    }

    /// The open calls. Dates are rounded up to the minute, so that a million rows become a few thousand. nil asks
    /// only for the others. Rows that are overdue are left out: their calls go for a later renewal.
    package static func open(
        of batchID: String?, now: Int64, on connection: isolated PostgresConnection
    ) throws -> Open {
        let rows = try connection.query(
            """
            -- name: openCalls
            SELECT is_own, send_by, send_after, rows, count(*) AS calls
            FROM (
                SELECT c.batch_id IS NOT DISTINCT FROM \(uuid: batchID)::uuid AS is_own, count(*) AS rows,
                    \(fragment: minute("min(c.send_by)")) AS send_by,
                    \(fragment: minute("max(c.send_after)")) AS send_after
                FROM repricer.batches b JOIN repricer.price_changes c ON c.batch_id = b.batch_id
                    AND c.stage IN ('awaiting_approval', 'queued') AND c.state <> 'sending' AND NOT c.is_held_out
                    AND NOT \(fragment: TroubleQueries.isOverdue(now: now))
                WHERE b.state = 'approved' OR b.batch_id = \(uuid: batchID)::uuid
                -- Rows that share a call are grouped as `RequestGroup` groups them.
                GROUP BY c.batch_id, c.original_transaction_id,
                    CASE b.grouping WHEN 'subscription' THEN c.send_after ELSE c.due_effective_at END,
                    CASE b.grouping WHEN 'subscription' THEN NULL ELSE c.forecast_consent END,
                    CASE WHEN b.grouping = 'item' OR b.grouping = 'announced'
                        AND c.forecast_consent NOT IN ('none', 'not_required') THEN c.change_id END
            ) calls
            GROUP BY is_own, send_by, send_after, rows
            """)
        var open = Open()
        for row in rows {
            let stored = CallList.Stored(
                sendBy: Instant(milliseconds: try row.milliseconds("send_by")),
                sendAfter: try row.instant("send_after"), calls: try row.int("calls"),
                rowsEach: try row.int("rows"))
            if try row.bool("is_own") {
                open.own.append(stored)
            } else {
                open.others.append(stored)
            }
        }
        return open
    }

    private static func minute(_ instant: SQL) -> SQL {
        "date_bin('1 minute', \(fragment: instant) + interval '59.999 seconds', 'epoch')"
    }
}
