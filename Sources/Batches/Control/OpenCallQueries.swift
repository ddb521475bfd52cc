import Facts
package import Postgres
package import Pricing

/// The calls that stored batches still need, which a forecast of late rows counts.
package enum OpenCallQueries {
    /// Rows of a batch that would be late.
    package struct Late: Sendable, Equatable {
        package var batchID: String
        package var name: String
        package var rows: Int

        package init(batchID: String, name: String, rows: Int) {
            self.batchID = batchID
            self.name = name
            self.rows = rows
        }
    }

    package struct Open: Sendable {
        /// The calls of the requested batch, approved or not.
        package var own: [CallList.Stored] = []
        /// The calls of all other approved batches.
        package var others: [CallList.Stored] = []
    }

    /// How many rows of each open batch would be late at the allowed rate, with its name. Batches without any are left out.
    package static func lateRowCounts(
        callsPerThousandSeconds rate: Int, now: Int64,
        on connection: isolated PostgresConnection
    ) throws -> [Late] {
        let batches = try openBatches(including: nil, on: connection)
        let open = try calls(of: batches, including: nil, now: now, on: connection)
        let counts = CallList.lateRowCounts(
            of: open.map(\.calls), callsPerThousandSeconds: rate,
            now: Instant(milliseconds: now))
        return zip(open, counts).compactMap { batch, count in
            count > 0 ? Late(batchID: batch.batchID, name: batch.name, rows: count) : nil
        }
    }

    /// Batches with more late rows because of the batch `batchID`, and how many more.
    package static func lateRowCounts(
        becauseOf batchID: String, callsPerThousandSeconds rate: Int, now: Int64,
        on connection: isolated PostgresConnection
    ) throws -> [Late] {
        let batches = try openBatches(including: batchID, on: connection)
        // The only open batch delays no other, and counting a million of its calls takes seconds.
        guard batches.contains(where: { $0.id != batchID }) else { return [] }
        let open = try calls(of: batches, including: batchID, now: now, on: connection)
        func counts(_ batches: [(batchID: String, name: String, calls: [CallList.Stored])])
            -> [String: Int]
        {
            let counts = CallList.lateRowCounts(
                of: batches.map(\.calls), callsPerThousandSeconds: rate,
                now: Instant(milliseconds: now))
            return Dictionary(zip(batches.map(\.batchID), counts)) { first, _ in first }
        }
        let (with, without) = (counts(open), counts(open.filter { $0.batchID != batchID }))
        return open.compactMap { batch in
            let more = with[batch.batchID, default: 0] - without[batch.batchID, default: 0]
            guard batch.batchID != batchID, more > 0 else { return nil }
            return Late(batchID: batch.batchID, name: batch.name, rows: more)
        }
    }

    private typealias Batch = (id: String, name: String)

    /// The approved batches and this one, in the order of their submission.
    private static func openBatches(
        including batchID: String?, on connection: isolated PostgresConnection
    ) throws -> [Batch] {
        try connection.query(
            """
            -- name: batchesWithCalls
            SELECT batch_id, name FROM repricer.batches
            WHERE state = 'approved' OR batch_id = \(uuid: batchID)::uuid ORDER BY submitted_at, batch_id
            """
        ).map { (id: try $0.text("batch_id"), name: try $0.text("name")) }
    }

    /// Their open calls. Batches without any are left out.
    private static func calls(
        of batches: [Batch], including batchID: String?, now: Int64,
        on connection: isolated PostgresConnection
    ) throws -> [(batchID: String, name: String, calls: [CallList.Stored])] {
        var found: [String: [CallList.Stored]] = [:]
        for (id, calls) in try stored(of: batchID, now: now, on: connection) {
            found[id, default: []].append(calls)
        }
        return batches.compactMap { batch in
            found[batch.id].map { (batchID: batch.id, name: batch.name, calls: $0) }
        }
    }

    /// The open calls of this batch (nil: none) and of all others. To turn a million rows into some thousands without
    /// missing a late row, deadlines are rounded down, to the second within a day and to the minute after it, and the
    /// earliest instants of calls are rounded up to the minute. Overdue rows are left out, because their calls are for
    /// a later renewal.
    package static func open(
        of batchID: String?, now: Int64, on connection: isolated PostgresConnection
    ) throws -> Open {
        var open = Open()
        for (id, calls) in try stored(of: batchID, now: now, on: connection) {
            if id == batchID { open.own.append(calls) } else { open.others.append(calls) }
        }
        return open
    }

    /// The calls, each with its batch. Those of an unreleased wave may be sent from its earliest release on.
    private static func stored(
        of batchID: String?, now: Int64, on connection: isolated PostgresConnection
    ) throws -> [(batchID: String, calls: CallList.Stored)] {
        let rows = try rows(of: batchID, now: now, on: connection)
        let places = try rows.map { row -> WaveReleaseQueries.Place? in
            guard let wave = try row.int64OrNil("waits_for_wave") else { return nil }
            return WaveReleaseQueries.Place(batchID: try row.text("batch_id"), wave: Int(wave))
        }
        let releases = try WaveReleaseQueries.releases(
            of: Set(places.compactMap { $0?.batchID }), now: Instant(milliseconds: now),
            on: connection)
        return try zip(rows, places).map { row, place in
            let calls = try CallList.Stored(
                sendBy: Instant(milliseconds: row.milliseconds("send_by")),
                sendAfter: [row.instant("send_after"), place.flatMap { releases[$0] }]
                    .compactMap { $0 }.max(),
                calls: row.int("calls"), rowsEach: row.int("rows"))
            return (try row.text("batch_id"), calls)
        }
    }

    private static func rows(
        of batchID: String?, now: Int64, on connection: isolated PostgresConnection
    ) throws -> Rows {
        try connection.query(
            """
            -- name: openCalls
            SELECT batch_id, send_by, send_after, waits_for_wave, rows, count(*) AS calls
            FROM (
                SELECT c.batch_id, count(*) AS rows,
                    -- All rows of a call are of one subscription, and so of one wave.
                    max(c.wave) FILTER (WHERE c.wave > b.released_wave) AS waits_for_wave,
                    \(fragment: rounded("min(c.send_by)", now: now)) AS send_by,
                    date_bin('1 minute', max(c.send_after) + interval '59.999 seconds', 'epoch') AS send_after
                FROM repricer.batches b JOIN repricer.price_changes c ON c.batch_id = b.batch_id
                    AND c.stage IN ('awaiting_approval', 'queued') AND c.state <> 'sending' AND NOT c.is_held_out
                    AND NOT \(fragment: TroubleQueries.isOverdue(now: now))
                WHERE b.state = 'approved' OR b.batch_id = \(uuid: batchID)::uuid
                -- Rows that share a call are grouped as `RequestGroup` groups them.
                GROUP BY c.batch_id, c.original_transaction_id,
                    CASE WHEN b.grouping = 'subscription' AND c.undoes_change_id IS NULL THEN c.send_after ELSE c.due_effective_at END,
                    CASE b.grouping WHEN 'subscription' THEN NULL ELSE c.forecast_consent END,
                    CASE WHEN b.grouping = 'item' OR b.grouping = 'announced'
                        AND c.forecast_consent NOT IN ('none', 'not_required') THEN c.change_id END
            ) calls
            GROUP BY batch_id, send_by, send_after, waits_for_wave, rows
            """)
    }

    /// The second of an instant within the next day, and the minute of a later one.
    private static func rounded(_ instant: SQL, now: Int64) -> SQL {
        """
        CASE WHEN \(fragment: instant) < \(timestamp: now)::timestamptz + interval '1 day'
            THEN date_bin('1 second', \(fragment: instant), 'epoch')
            ELSE date_bin('1 minute', \(fragment: instant), 'epoch') END
        """
    }
}
