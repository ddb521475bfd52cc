package import Postgres
package import Pricing

/// What stops a batch without a person, and what its guard rails count.
package enum GuardQueries {
    /// A batch under way that has guard rails and still something to hold back.
    package struct Guarded: Sendable, Equatable {
        package var batchID: String
        package var name: String
        package var rails: [GuardRail]
        /// UTC milliseconds: only changes sent since then count.
        package var countFrom: Int64?
    }

    package struct Count: Sendable, Equatable {
        package var count: Int64
        package var all: Int64
    }

    /// Approved, not paused, with changes that wait to be sent.
    package static func guarded(on connection: isolated PostgresConnection) throws -> [Guarded] {
        let rows = try connection.query(
            """
            -- name: guardedBatches
            SELECT b.batch_id, b.name, b.guards_count_from, g.*
            FROM repricer.batches b
            CROSS JOIN LATERAL jsonb_to_recordset(b.guards) AS g (guard text, over integer, least integer)
            WHERE b.guards <> '[]' AND b.state = 'approved' AND NOT b.is_paused
                AND EXISTS (
                    SELECT FROM repricer.price_changes c
                    WHERE c.batch_id = b.batch_id AND c.state = 'queued')
            ORDER BY b.batch_id, g.guard
            """)
        var batches: [Guarded] = []
        for row in rows {
            let id = try row.text("batch_id")
            if batches.last?.batchID != id {
                batches.append(
                    Guarded(
                        batchID: id, name: try row.text("name"), rails: [],
                        countFrom: try row.millisecondsOrNil("guards_count_from")))
            }
            batches[batches.count - 1].rails.append(try rail(row))
        }
        return batches
    }

    /// The guard rails of a batch, and since when they count.
    package static func rails(
        of batchID: String, on connection: isolated PostgresConnection
    ) throws -> (rails: [GuardRail], countFrom: Int64?) {
        let rows = try connection.query(
            """
            -- name: guardsOfBatch
            SELECT b.guards_count_from, g.* FROM repricer.batches b
            CROSS JOIN LATERAL jsonb_to_recordset(b.guards) AS g (guard text, over integer, least integer)
            WHERE b.batch_id = \(uuid: batchID) ORDER BY g.guard
            """)
        return (try rows.map(rail), try rows.first?.millisecondsOrNil("guards_count_from"))
    }

    private static func rail(_ row: Row) throws -> GuardRail {
        guard let figure = GuardRail.Figure(rawValue: try row.text("guard")) else {
            throw LedgerError.unreadable("batches.guards")
        }
        return GuardRail(
            figure: figure, over: try row.int("over"), least: try row.int("least"))
    }

    /// What has come of a batch: for each figure asked for how many, and of how many. Reads the batch's answered
    /// changes once; `autoRenewOff` their subscriptions, too.
    package static func counts(
        of batchID: String, since: Int64?, figures: Set<GuardRail.Figure>,
        on connection: isolated PostgresConnection
    ) throws -> [GuardRail.Figure: Count] {
        let row = try connection.query(
            """
            -- name: guardCounts
            SELECT count(*) FILTER (WHERE state = 'rejected') AS refused, count(*) AS answered,
                count(*) FILTER (WHERE state = 'declined' AND consent_asked_at IS NOT NULL) AS declined,
                count(*) FILTER (WHERE consent_asked_at IS NOT NULL) AS asked,
                count(*) FILTER (WHERE state = 'cancelled' AND reason = 'left_voluntarily'
                    AND (consent_asked_at IS NOT NULL OR accepted_at IS NOT NULL)) AS has_left,
                count(*) FILTER (WHERE consent_asked_at IS NOT NULL OR accepted_at IS NOT NULL) AS told
            FROM repricer.price_changes
            WHERE batch_id = \(uuid: batchID) AND state IN ('scheduled', 'pending_consent', 'accepted',
                    'effective', 'declined', 'cancelled', 'lapsed', 'invalidated', 'rejected')
                AND (\(timestamp: since)::timestamptz IS NULL OR sent_at >= \(timestamp: since)::timestamptz)
            """
        ).one()
        var counts: [GuardRail.Figure: Count] = [
            .errors: Count(count: try row.int64("refused"), all: try row.int64("answered")),
            .declined: Count(count: try row.int64("declined"), all: try row.int64("asked")),
        ]
        if figures.contains(.autoRenewOff) {
            let off = try renewalsOff(batchID, since: since, on: connection)
            counts[.autoRenewOff] = Count(
                count: try row.int64("has_left") + off, all: try row.int64("told"))
        }
        return counts.filter { figures.contains($0.key) }
    }

    private static func renewalsOff(
        _ batchID: String, since: Int64?, on connection: isolated PostgresConnection
    ) throws -> Int64 {
        try connection.query(
            """
            -- name: guardRenewalsOff
            SELECT count(*) AS rows FROM repricer.price_changes c
            JOIN repricer.subscriptions s ON s.original_transaction_id = c.original_transaction_id
            WHERE c.batch_id = \(uuid: batchID) AND c.state IN ('pending_consent', 'accepted')
                AND (c.consent_asked_at IS NOT NULL OR c.accepted_at IS NOT NULL) AND NOT s.auto_renews
                AND (\(timestamp: since)::timestamptz IS NULL OR c.sent_at >= \(timestamp: since)::timestamptz)
            """
        ).one().int64("rows")
    }

    /// Pauses a batch for the service, durably; false where it is paused or ended already.
    ///
    /// - Parameters:
    ///   - by: The guard, or the App Store's code.
    ///   - details: JSON, for the audit trail.
    package static func halt(
        _ batchID: String, by: String, reason: String, details: String?, at: Int64,
        on connection: isolated PostgresConnection
    ) throws -> Bool {
        try connection.query(
            """
            -- name: haltBatch
            SELECT repricer.halt_batch(\(uuid: batchID), \(timestamp: at), \(by)::text,
                \(reason)::text, \(details)::json) AS is_new
            """
        ).one().bool("is_new")
    }

    /// The batches whose changes a call carries.
    package static func batches(
        of request: RequestQueries.Held, on connection: isolated PostgresConnection
    ) throws -> [String] {
        try connection.query(
            """
            -- name: batchesOfRequest
            SELECT DISTINCT batch_id FROM repricer.price_changes
            WHERE original_transaction_id = \(request.originalTransactionID)
                AND change_id = ANY (\(uuids: request.changeIDs)::uuid[])
            ORDER BY batch_id
            """
        ).map { try $0.text("batch_id") }
    }
}

extension [GuardRail] {
    /// As `batches.guards` keeps it.
    var json: String {
        var json = JSONWriter()
        json.list(self) { rail, json in
            json.object { json in
                json.text("guard", rail.figure.rawValue)
                json.number("over", Int64(rail.over))
                json.number("least", Int64(rail.least))
            }
        }
        return json.text
    }
}
