package import Facts
import JSON
package import Postgres
package import Pricing

/// The guard rails of batches: what they count, and how they stop a batch without a person.
package enum GuardQueries {
    /// A batch in delivery that has guard rails.
    package struct Guarded: Sendable, Equatable {
        package var batchID: String
        package var name: String
        package var rails: [GuardRail]
        /// Only changes that were sent since then count (UTC milliseconds).
        package var countFrom: Int64?
        /// Whether it still has changes to hold back. Otherwise it is only counted, so that people can see the figures.
        package var isJudged: Bool
    }

    package struct Count: Sendable, Equatable {
        package var count: Int64
        package var all: Int64
    }

    /// The batches with guard rails to judge or count: those that are not paused and have changes waiting to be sent,
    /// and those that had open changes at their last count, if that was before `countedBefore` (machine's clock). A
    /// batch is also counted once right after its last call, and after its halt.
    package static func guarded(
        countedBefore: Int64, on connection: isolated PostgresConnection
    ) throws -> [Guarded] {
        let waits = try waits(on: connection)
        let rows = try connection.query(
            """
            -- name: guardedBatches
            SELECT b.batch_id, b.name, b.guards_count_from, b.is_judged, g.*
            FROM (
                SELECT *, NOT is_paused AND \(fragment: waits) AS is_judged
                FROM repricer.batches o WHERE guards <> '[]' AND state = 'approved'
            ) b
            CROSS JOIN LATERAL jsonb_to_recordset(b.guards) AS g (guard text, over integer, least integer)
            WHERE b.is_judged OR (
                NOT coalesce((b.guard_reading ->> 'is_last')::boolean, false)
                AND (coalesce((b.guard_reading ->> 'counted_ms')::bigint, 0) < \(countedBefore)
                    OR NOT coalesce((b.guard_reading ->> 'is_settled')::boolean, false)))
            ORDER BY b.batch_id, g.guard
            """)
        var batches: [Guarded] = []
        for row in rows {
            let id = try row.text("batch_id")
            if batches.last?.batchID != id {
                batches.append(
                    try Guarded(
                        batchID: id, name: row.text("name"), rails: [],
                        countFrom: row.millisecondsOrNil("guards_count_from"),
                        isJudged: row.bool("is_judged")))
            }
            batches[batches.count - 1].rails.append(try rail(row))
        }
        return batches
    }

    /// The condition that the batch `o` has changes waiting to be sent. In one PostgreSQL, this takes one index step
    /// for each batch. A spread database cannot run that subquery for each row of a table that every node has, so there
    /// the batches with such changes are read first.
    private static func waits(on connection: isolated PostgresConnection) throws -> SQL {
        guard try DatabaseLayout.read(on: connection) == .spread else {
            return """
                EXISTS (
                    SELECT FROM repricer.price_changes c
                    WHERE c.batch_id = o.batch_id AND c.stage = 'queued' AND c.state = 'queued')
                """
        }
        let waiting = try connection.query(
            """
            -- name: waitingBatches
            SELECT DISTINCT c.batch_id FROM repricer.price_changes c
            JOIN repricer.batches b ON b.batch_id = c.batch_id
            WHERE b.guards <> '[]' AND b.state = 'approved' AND c.stage = 'queued' AND c.state = 'queued'
            """
        ).map { try $0.text("batch_id") }
        return "o.batch_id = ANY (\(uuids: waiting)::uuid[])"
    }

    /// Returns the batch if it is in delivery, has a guard of errors, and has so few answers that counting them is
    /// cheap. Of a batch with more, few answers come before the batch watch judges it.
    package static func guardedErrors(
        of batchID: String, answersMax: Int, on connection: isolated PostgresConnection
    ) throws -> Guarded? {
        try connection.query(
            """
            -- name: guardedErrors
            SELECT b.name, b.guards_count_from, g.value ->> 'guard' AS guard, (g.value ->> 'over')::integer AS over,
                (g.value ->> 'least')::integer AS least
            FROM repricer.batches b CROSS JOIN LATERAL jsonb_array_elements(b.guards) AS g (value)
            WHERE b.batch_id = \(uuid: batchID) AND b.state = 'approved' AND NOT b.is_paused
                AND g.value ->> 'guard' = 'errors'
                AND \(answersMax) >= (
                    SELECT count(*) FROM (
                        SELECT 1 FROM repricer.price_changes
                        WHERE batch_id = \(uuid: batchID) AND \(fragment: isAnswered) LIMIT \(answersMax + 1)) a)
            """
        ).oneOrNil().map { row in
            try Guarded(
                batchID: batchID, name: row.text("name"), rails: [rail(row)],
                countFrom: row.millisecondsOrNil("guards_count_from"), isJudged: true)
        }
    }

    /// The condition that the App Store has answered for the change.
    static let isAnswered: SQL = """
        stage IN ('scheduled', 'pending_consent', 'accepted', 'effective', 'declined', 'cancelled', 'lapsed',
            'invalidated', 'rejected')
        """

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
        return try (rows.map(rail), rows.first?.millisecondsOrNil("guards_count_from"))
    }

    static func rail(_ row: Row) throws -> GuardRail {
        guard let figure = GuardRail.Figure(rawValue: try row.text("guard")) else {
            throw FactsError.unreadable("batches.guards")
        }
        return try GuardRail(figure: figure, over: row.int("over"), least: row.int("least"))
    }

    /// The figures of a batch, each with a count and its total. Errors and moved rows are counted in changes; what
    /// customers do is counted in subscriptions, however many of their items the batch has. It reads the batch's
    /// answered changes once, and for `autoRenewOff` their subscriptions too.
    package static func counts(
        of batchID: String, since: Int64?, figures: Set<GuardRail.Figure>, now: Int64,
        on connection: isolated PostgresConnection
    ) throws -> [GuardRail.Figure: Count] {
        let row = try answered(batchID, since: since, on: connection)
        var counts: [GuardRail.Figure: Count] = [
            .errors: try Count(count: row.int64("refused"), all: row.int64("answered")),
            .declined: try Count(count: row.int64("declined"), all: row.int64("asked")),
        ]
        if figures.contains(.autoRenewOff) {
            let off = try renewalsOff(batchID, since: since, on: connection)
            counts[.autoRenewOff] = try Count(
                count: row.int64("has_left") + off, all: row.int64("told"))
        }
        if figures.contains(.moved) {
            counts[.moved] = try moved(batchID, since: since, now: now, on: connection)
        }
        return counts.filter { figures.contains($0.key) }
    }

    /// The figure of errors alone.
    static func errors(
        of batchID: String, since: Int64?, on connection: isolated PostgresConnection
    ) throws -> Count {
        let row = try answered(batchID, since: since, on: connection)
        return try Count(count: row.int64("refused"), all: row.int64("answered"))
    }

    private static func answered(
        _ batchID: String, since: Int64?, on connection: isolated PostgresConnection
    ) throws -> Row {
        try connection.query(
            """
            -- name: guardCounts
            SELECT coalesce(sum(s.refused), 0)::bigint AS refused, coalesce(sum(s.answered), 0)::bigint AS answered,
                count(*) FILTER (WHERE s.has_declined) AS declined, count(*) FILTER (WHERE s.is_asked) AS asked,
                count(*) FILTER (WHERE s.has_left) AS has_left, count(*) FILTER (WHERE s.is_told) AS told
            FROM (
                SELECT count(*) FILTER (WHERE c.state = 'rejected') AS refused, count(*) AS answered,
                    bool_or(\(fragment: hasDeclined("c"))) AS has_declined,
                    bool_or(\(fragment: isAsked("c"))) AS is_asked,
                    bool_or(\(fragment: hasLeft("c"))) AS has_left, bool_or(\(fragment: isTold("c"))) AS is_told
                FROM repricer.price_changes c
                WHERE c.batch_id = \(uuid: batchID) AND \(fragment: isAnswered)
                    AND (\(timestamp: since)::timestamptz IS NULL OR c.sent_at >= \(timestamp: since)::timestamptz)
                GROUP BY c.bucket, c.original_transaction_id) s
            """
        ).one()
    }

    /// The condition that the customer of a change declined it; not a parent's.
    static func hasDeclined(_ change: String) -> SQL {
        """
        (\(unsafe: change).state = 'declined' AND \(unsafe: change).reason IS DISTINCT FROM 'parent_declined')
        """
    }

    /// The condition that the customer of a change was asked for consent, as `report.consent_funnel` counts it. Nobody
    /// consents or declines unasked: the notification that told of the question was lost.
    static func isAsked(_ change: String) -> SQL {
        """
        (\(unsafe: change).consent_asked_at IS NOT NULL
            OR coalesce(\(unsafe: change).acceptance = 'consented', false) OR \(fragment: hasDeclined(change)))
        """
    }

    /// The condition that the customer of a change was told of it.
    private static func isTold(_ change: String) -> SQL {
        "(\(fragment: isAsked(change)) OR \(unsafe: change).accepted_at IS NOT NULL)"
    }

    /// The condition that the customer left after being told of the change, by removing the item or by a refund.
    private static func hasLeft(_ change: String) -> SQL {
        """
        (\(unsafe: change).state = 'cancelled' AND \(fragment: isTold(change)) AND \(unsafe: change).reason IN (
            'left_voluntarily', 'refunded_or_revoked', 'item_refunded', 'item_missing_at_renewal'))
        """
    }

    /// Counts moved changes among those that were sent or whose wave is released. An unsent change counts too once it is
    /// overdue, if it is not parked. With `since`, only changes that were sent, became overdue or were released since then count.
    private static func moved(
        _ batchID: String, since: Int64?, now: Int64, on connection: isolated PostgresConnection
    ) throws -> Count {
        let isReleasedLate: SQL = """
            (c.state = 'queued' AND NOT c.is_held AND c.parked_reason IS NULL AND c.wave <= b.released_wave
                AND NOT b.halted_storefronts ? c.storefront AND \(fragment: TroubleQueries.isOverdue(now: now)))
            """
        let row = try connection.query(
            """
            -- name: guardMoved
            SELECT count(*) AS rows,
                count(*) FILTER (WHERE \(fragment: TroubleQueries.isMoved) OR \(fragment: isReleasedLate)) AS moved
            FROM repricer.price_changes c
            JOIN repricer.batches b ON b.batch_id = c.batch_id
            WHERE c.batch_id = \(uuid: batchID) AND c.stage NOT IN ('awaiting_approval', 'ineligible', 'aborted')
                AND (c.sent_at IS NOT NULL OR c.wave <= b.released_wave)
                AND (\(timestamp: since)::timestamptz IS NULL OR c.sent_at >= \(timestamp: since)::timestamptz
                    OR c.sent_at IS NULL AND \(fragment: isReleasedLate) AND greatest(c.send_by,
                        (b.waves -> (c.wave - 1) ->> 'released_at')::timestamptz) >= \(timestamp: since)::timestamptz)
            """
        ).one()
        return try Count(count: row.int64("moved"), all: row.int64("rows"))
    }

    private static func renewalsOff(
        _ batchID: String, since: Int64?, on connection: isolated PostgresConnection
    ) throws -> Int64 {
        try connection.query(
            """
            -- name: guardRenewalsOff
            SELECT count(DISTINCT c.original_transaction_id) AS rows FROM repricer.price_changes c
            JOIN repricer.subscriptions s ON s.original_transaction_id = c.original_transaction_id AND s.bucket = c.bucket
            WHERE c.batch_id = \(uuid: batchID) AND c.stage IN ('pending_consent', 'accepted')
                AND \(fragment: isTold("c")) AND NOT s.auto_renews
                -- Who has left with another item is counted already.
                AND NOT EXISTS (
                    SELECT FROM repricer.price_changes o
                    WHERE o.original_transaction_id = c.original_transaction_id AND o.bucket = c.bucket
                        AND o.batch_id = c.batch_id AND \(fragment: hasLeft("o"))
                        AND (\(timestamp: since)::timestamptz IS NULL OR o.sent_at >= \(timestamp: since)::timestamptz))
                -- A renewal that we turned off ourselves, for a parent on another subscription, does not count.
                AND NOT EXISTS (
                    SELECT FROM repricer.store_calls k
                    WHERE k.subject = c.original_transaction_id AND k.bucket = c.bucket
                        AND k.kind = 'cancel' AND (k.state <> 'refused' OR k.is_doubtful)
                        AND k.reenabled_at IS NULL)
                AND (\(timestamp: since)::timestamptz IS NULL OR c.sent_at >= \(timestamp: since)::timestamptz)
            """
        ).one().int64("rows")
    }

    /// What was counted of a batch, and when by the business clock.
    package struct Reading: Sendable, Equatable {
        package var counts: [GuardRail.Figure: Count]
        /// When it was counted, in UTC milliseconds.
        package var at: Int64
    }

    /// Counts and stores the figures, unless a person has resumed the batch meanwhile. The statement checks whether
    /// anything is open before it counts, so that a reading marked as the last one is complete.
    package static func count(
        _ batch: Guarded, at: Int64, realNow: Int64, on connection: isolated PostgresConnection
    ) throws -> [GuardRail.Figure: Count] {
        let isLast = try connection.query(
            """
            -- name: isBatchOver
            SELECT 1 FROM repricer.price_changes
            WHERE batch_id = \(uuid: batch.batchID) AND stage IN ('awaiting_approval', 'queued', 'unknown',
                'scheduled', 'pending_consent', 'accepted') LIMIT 1
            """
        ).isEmpty
        let isSettled =
            try !batch.isJudged
            && connection.query(
                """
                -- name: isBatchCalling
                SELECT 1 FROM repricer.price_changes
                WHERE batch_id = \(uuid: batch.batchID) AND stage = 'queued' AND state = 'sending' LIMIT 1
                """
            ).isEmpty
        let counts = try counts(
            of: batch.batchID, since: batch.countFrom, figures: Set(batch.rails.map(\.figure)),
            now: at,
            on: connection)
        _ = try connection.execute(
            """
            -- name: keepGuardReading
            UPDATE repricer.batches SET guard_reading = \(json: json(counts, at, realNow, isLast: isLast, isSettled: isSettled))
            WHERE batch_id = (
                    -- A person who is deciding on this batch must not delay the others.
                    SELECT batch_id FROM repricer.batches WHERE batch_id = \(uuid: batch.batchID)
                    FOR NO KEY UPDATE SKIP LOCKED)
                AND guards_count_from IS NOT DISTINCT FROM \(timestamp: batch.countFrom)::timestamptz
            """)
        return counts
    }

    private static func json(
        _ counts: [GuardRail.Figure: Count], _ at: Int64, _ realNow: Int64, isLast: Bool,
        isSettled: Bool
    ) -> String {
        JSONWriter.object { json in
            json.text("at", Instant(milliseconds: at).text)
            json.number("counted_ms", realNow)
            json.flag("is_last", isLast)
            json.flag("is_settled", isSettled)
            json.key("figures") { json in
                json.list(counts.sorted { $0.key.rawValue < $1.key.rawValue }) { entry, json in
                    json.object { json in
                        json.text("guard", entry.key.rawValue)
                        json.number("count", entry.value.count)
                        json.number("of", entry.value.all)
                    }
                }
            }
        }
    }

    /// The last reading; nil where there is none yet.
    package static func reading(
        of batchID: String, on connection: isolated PostgresConnection
    ) throws -> Reading? {
        let rows = try connection.query(
            """
            -- name: guardReading
            SELECT (b.guard_reading ->> 'at')::timestamptz AS at, f.*
            FROM repricer.batches b
            CROSS JOIN LATERAL jsonb_to_recordset(b.guard_reading -> 'figures')
                AS f (guard text, count bigint, "of" bigint)
            WHERE b.batch_id = \(uuid: batchID)
            """)
        guard let first = rows.first else { return nil }
        var reading = Reading(counts: [:], at: try first.milliseconds("at"))
        for row in rows {
            guard let figure = GuardRail.Figure(rawValue: try row.text("guard")) else { continue }
            reading.counts[figure] = try Count(count: row.int64("count"), all: row.int64("of"))
        }
        return reading
    }

    /// The code that a guard of errors has met, where it has a common cause.
    struct PutBack: Sendable, Equatable {
        var code: String
        /// When the first of these refusals came, in UTC milliseconds of the business clock.
        var since: Int64
    }

    /// A query of the batch, and of the instant from which its answers count.
    static func counted(_ batch: Guarded) -> SQL {
        """
        SELECT \(uuid: batch.batchID)::uuid AS batch_id,
            coalesce(\(timestamp: batch.countFrom)::timestamptz, '-infinity') AS count_from
        """
    }

    /// Pauses a batch for the service, durably. Returns false where it is paused or has ended already.
    ///
    /// - Parameters:
    ///   - by: The guard, or the App Store's code.
    ///   - details: JSON for the audit trail.
    ///   - probeAt: From this instant (real time, UTC milliseconds) one call at a time probes whether the batch may
    ///     go on; nil where only a person resumes it.
    ///   - since: When the first of the refusals that caused the halt came, in UTC milliseconds of the business clock.
    ///     The rows that they ended are put back.
    ///   - code: Their code, where a guard halts the batch. Then each row is put back only once: after a person has
    ///     resumed the batch, a further refusal is final.
    package static func halt(
        _ batchID: String, by: String, reason: String, details: String?, at: Int64,
        probeAt: Int64? = nil, since: Int64? = nil, code: String? = nil,
        on connection: isolated PostgresConnection
    ) throws -> Bool {
        try connection.decide(
            "haltBatch",
            """
            repricer.halt_batch(\(uuid: batchID), \(timestamp: at), \(by)::text,
                \(reason)::text, \(details)::json, \(timestamp: probeAt), \(timestamp: since), \(code)::text)
            """, onlyHoldsBack: true
        ).bool("answer")
    }

    /// Ends the halt of a batch by a code. Returns false where a person has paused it, or where it is not halted any
    /// more.
    package static func recover(
        _ batchID: String, at: Int64, on connection: isolated PostgresConnection
    ) throws -> Bool {
        try connection.query(
            """
            -- name: recoverBatch
            SELECT repricer.recover_batch(\(uuid: batchID), \(timestamp: at)) AS is_new
            """
        ).one().bool("is_new")
    }

    /// Takes the right to make the one probe of a halted batch. No other process has it until the transaction ends.
    package static func lockProbe(
        _ batchID: String, realNow: Int64, on connection: isolated PostgresConnection
    ) throws -> Bool {
        try connection.query(
            """
            -- name: lockProbe
            SELECT repricer.lock_probe(\(uuid: batchID), \(timestamp: realNow)) AS is_ours
            """
        ).one().bool("is_ours")
    }

    /// Notes that the probe is made, and that the next one is due at `next` (real time).
    package static func moveProbe(_ batchID: String, next: Int64) -> SQL {
        """
        -- name: moveProbe
        SELECT repricer.move_probe(\(uuid: batchID), \(timestamp: next))
        """
    }

    /// Notes the answer with which a probe was refused, and its subscription.
    package static func noteProbeAnswer(_ batchID: String, _ answer: String) -> SQL {
        """
        -- name: noteProbeAnswer
        SELECT repricer.note_probe_answer(\(uuid: batchID), \(answer)::text)
        """
    }

    /// Halts a storefront of a batch, durably. Returns false where it is halted already, or where the batch has
    /// ended.
    package static func haltStorefront(
        _ concerned: Concerned, by: String, reason: String, at: Int64, probeAt: Int64,
        on connection: isolated PostgresConnection
    ) throws -> Bool {
        try connection.decide(
            "haltStorefront",
            """
            repricer.halt_storefront(\(uuid: concerned.batchID),
                \(concerned.storefront)::text, \(timestamp: at), \(by)::text,
                \(reason)::text, \(timestamp: probeAt))
            """, onlyHoldsBack: true
        ).bool("answer")
    }

    /// Takes rows of halted storefronts out of the queues, and returns how many.
    package static func parkHalted(
        limit: Int, on connection: isolated PostgresConnection
    ) throws -> Int {
        try connection.decide(
            "parkHalted", "repricer.park_halted(\(limit)::integer)", onlyHoldsBack: true
        ).int("answer")
    }

    /// A batch whose changes a call carries, with their storefront. All changes of a subscription share one.
    package struct Concerned: Sendable, Equatable {
        package var batchID: String
        package var storefront: String

        package var wasParked = false
        /// How often the token of its call was refused before.
        package var staleTokens = 0
        /// Whether a code has halted it.
        package var isHalted = false
        /// That code; nil where none has.
        package var haltedBy: Int?
        package var isStorefrontHalted = false

        package init(batchID: String, storefront: String) {
            self.batchID = batchID
            self.storefront = storefront
        }
    }

    /// The batches by call id. The calls share a bucket.
    package static func batches(
        of calls: [StoreCall], on connection: isolated PostgresConnection
    ) throws -> [String: [Concerned]] {
        guard let bucket = calls.first?.bucket else { return [:] }
        let rows = try connection.query(
            """
            -- name: batchesOfCalls
            SELECT t.call, p.batch_id, p.storefront, bool_or(p.parks > 0) AS was_parked,
                max(p.stale_tokens) AS stale_tokens, bool_or(b.probe_at IS NOT NULL) AS is_halted,
                max(b.halted_by) FILTER (WHERE b.probe_at IS NOT NULL) AS halted_by,
                bool_or(b.halted_storefronts ? p.storefront) AS is_storefront_halted
            FROM unnest(\(calls.map(\.subject))::text[], \(uuids: calls.map(\.callID))::uuid[]) AS t (id, call)
            CROSS JOIN LATERAL (
                SELECT p.batch_id, p.storefront, p.parks, p.stale_tokens FROM repricer.price_changes p
                WHERE p.original_transaction_id = t.id AND p.request_reference_id = t.call
                    AND p.bucket = \(bucket)::smallint
                OFFSET 0
            ) p
            JOIN repricer.batches b ON b.batch_id = p.batch_id
            GROUP BY t.call, p.batch_id, p.storefront ORDER BY t.call, p.batch_id
            """)
        var found: [String: [Concerned]] = [:]
        for row in rows {
            var concerned = try Concerned(
                batchID: row.text("batch_id"), storefront: row.text("storefront"))
            concerned.wasParked = try row.bool("was_parked")
            concerned.staleTokens = try row.int("stale_tokens")
            concerned.isHalted = try row.bool("is_halted")
            concerned.haltedBy = try row.textOrNil("halted_by").flatMap(Int.init)
            concerned.isStorefrontHalted = try row.bool("is_storefront_halted")
            found[try row.text("call"), default: []].append(concerned)
        }
        return found
    }
}

extension [GuardRail] {
    /// The guard rails as `batches.guards` keeps them.
    var json: String {
        JSONWriter.list(self) { rail, json in
            json.object { json in
                json.text("guard", rail.figure.rawValue)
                json.number("over", Int64(rail.over))
                json.number("least", Int64(rail.least))
            }
        }
    }
}
