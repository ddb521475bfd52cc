import Facts
package import Postgres
import Pricing

/// Troubles of batches that a person should see: rows that take effect later than was approved, and rows that wait past
/// their dates.
package enum TroubleQueries {
    /// Rows of a batch, counted by what is wrong with them.
    package struct Trouble: Sendable, Equatable {
        /// Rows that take effect at a later renewal than was approved, as their call said or as it is planned now.
        package var moved: Int64 = 0
        /// Rows that were not sent, though the last instant for the planned renewal has passed.
        package var overdue: Int64 = 0
        /// Parked rows: they were refused with a code that is not about the customer, or got no answer.
        package var parked: Int64 = 0
        /// Rows that ended unsent, because their facts had changed after the submission.
        package var drifted: Int64 = 0
        /// Rows that ended unsent, because no renewal was left for them.
        package var missed: Int64 = 0

        package init() {}

        package static func += (left: inout Trouble, right: Trouble) {
            left.moved += right.moved
            left.overdue += right.overdue
            left.parked += right.parked
            left.drifted += right.drifted
            left.missed += right.missed
        }
    }

    /// The condition that the change `c` has moved. An extension or an offer that moves the renewal after the call
    /// does not count, because the call was in time.
    static let isMoved: SQL = """
        (coalesce(c.planned_effective_at, c.due_effective_at) > c.forecast_effective_at)
        """

    /// The same, for people who ask what takes effect later: what ended unsent or was refused takes effect at no renewal.
    private static let takesEffectLater: SQL = """
        (\(fragment: isMoved) AND c.state NOT IN ('ineligible', 'missed', 'aborted', 'rejected'))
        """

    /// The condition that the change `c` is overdue: it was not sent, and the last instant for the planned renewal has
    /// passed. Held-out rows are never sent, so they are never overdue. An overdue row does not also count as late:
    /// late rows are those that only the rate delays.
    package static func isOverdue(now: Int64) -> SQL {
        """
        (c.state IN ('awaiting_approval', 'queued') AND NOT c.is_held_out AND c.send_by < \(timestamp: now)::timestamptz)
        """
    }

    /// The columns of a `Trouble` over the changes `c`, as of `now`.
    static func counts(now: Int64) -> SQL {
        """
        count(*) FILTER (WHERE \(fragment: takesEffectLater)) AS moved,
        count(*) FILTER (WHERE \(fragment: isOverdue(now: now))) AS overdue,
        count(*) FILTER (WHERE c.stage IN ('queued', 'unknown') AND c.parked_reason IS NOT NULL) AS parked,
        count(*) FILTER (WHERE c.state = 'ineligible' AND c.reason = \(RowCode.drifted.rawValue)) AS drifted,
        count(*) FILTER (WHERE c.state = 'missed') AS missed
        """
    }

    static func trouble(_ row: Row) throws -> Trouble {
        var trouble = Trouble()
        trouble.moved = try row.int64("moved")
        trouble.overdue = try row.int64("overdue")
        trouble.parked = try row.int64("parked")
        trouble.drifted = try row.int64("drifted")
        trouble.missed = try row.int64("missed")
        return trouble
    }

    /// A batch with its troubles.
    package struct Troubled: Sendable, Equatable {
        package var batchID: String
        package var name: String
        package var isOpen: Bool
        package var trouble: Trouble
        /// Rows that would miss their renewal at the allowed rate; 0 where nobody has delivered yet.
        package var late: Int
    }

    /// The troubles of each batch with open changes, of batches decided since `decidedSince` (whose changes may all
    /// have ended already), and of these `others`. It reads the changes of a batch once.
    package static func open(
        now: Int64, decidedSince: Int64, others: [String],
        on connection: isolated PostgresConnection
    ) throws -> [Troubled] {
        let batches = try connection.query(
            """
            -- name: troubledBatches
            SELECT batch_id, name, coalesce(decided_at >= \(timestamp: decidedSince)::timestamptz
                OR batch_id = ANY (\(uuids: others)::uuid[]), false) AS was_open
            FROM repricer.batches WHERE state IN ('awaiting_approval', 'approved')
            ORDER BY submitted_at, batch_id
            """
        ).map {
            try (id: $0.text("batch_id"), name: $0.text("name"), wasOpen: $0.bool("was_open"))
        }
        let open = try connection.query(
            """
            -- name: openBatches
            SELECT DISTINCT batch_id FROM repricer.price_changes
            WHERE batch_id = ANY (\(uuids: batches.map(\.id))::uuid[]) AND stage IN ('awaiting_approval', 'queued',
                'unknown', 'scheduled', 'pending_consent', 'accepted')
            """
        ).map { try $0.text("batch_id") }
        let read = Set(open).union(batches.filter(\.wasOpen).map(\.id))
        guard !read.isEmpty else { return [] }
        let rate = try ServiceControlQueries.changePriceRate(on: connection)
        let late = try rate.map {
            try OpenCallQueries.lateRowCounts(
                callsPerThousandSeconds: $0, now: now, on: connection)
        }
        let lateRows = Dictionary((late ?? []).map { ($0.batchID, $0.rows) }) { first, _ in first }
        let troubles = try connection.query(
            """
            -- name: batchTroubles
            SELECT c.batch_id, \(fragment: counts(now: now)) FROM repricer.price_changes c
            WHERE c.batch_id = ANY (\(uuids: read.sorted())::uuid[]) GROUP BY c.batch_id
            """
        ).map { (try $0.text("batch_id"), try trouble($0)) }
        let found = Dictionary(troubles) { first, _ in first }
        return batches.compactMap { batch in
            found[batch.id].map {
                Troubled(
                    batchID: batch.id, name: batch.name, isOpen: open.contains(batch.id),
                    trouble: $0, late: lateRows[batch.id] ?? 0)
            }
        }
    }

    /// A change that moved to a later renewal. Instants are UTC milliseconds.
    package struct Moved: Sendable, Equatable {
        package var originalTransactionID: String
        package var sku: String
        package var state: String
        /// The renewal that was approved.
        package var from: Int64
        /// The renewal for which it was sent, or will be.
        package var to: Int64
    }

    /// The moved changes of a batch, at most `limit`, in the order of its file.
    package static func moved(
        of batchID: String, limit: Int, on connection: isolated PostgresConnection
    ) throws -> [Moved] {
        try connection.query(
            """
            -- name: movedChanges
            SELECT c.original_transaction_id, c.sku, c.state, c.forecast_effective_at,
                coalesce(c.planned_effective_at, c.due_effective_at) AS moved_to
            FROM repricer.price_changes c WHERE c.batch_id = \(uuid: batchID) AND \(fragment: takesEffectLater)
            ORDER BY c.line, c.original_transaction_id LIMIT \(limit)
            """
        ).map { row in
            try Moved(
                originalTransactionID: row.text("original_transaction_id"), sku: row.text("sku"),
                state: row.text("state"), from: row.milliseconds("forecast_effective_at"),
                to: row.milliseconds("moved_to"))
        }
    }

    /// A wave that is not released, though some of its rows must be sent within a day or are late.
    package struct WaitingWave: Sendable, Equatable {
        package var batchID: String
        package var batchName: String
        package var number: Int
        package var label: String
        package var waitsFor: String
        package var due: Int64
        /// How many of the `due` rows are past their last instant.
        package var overdue: Int64
        /// The earliest `send_by` in UTC milliseconds.
        package var firstSendBy: Int64
    }

    private static let nearly: Int64 = 86_400_000

    /// The waiting waves of all approved batches, or of one batch.
    package static func waitingWaves(
        of batchID: String?, now: Int64, on connection: isolated PostgresConnection
    ) throws -> [WaitingWave] {
        try connection.query(
            """
            -- name: waitingWaves
            SELECT b.batch_id, b.name, c.wave, b.waves -> (c.wave - 1) ->> 'label' AS label,
                b.waves -> (c.wave - 1) ->> 'release' AS release, b.is_paused, b.next_release_at,
                c.wave = b.released_wave + 1 AS is_next, c.due, c.overdue, c.first_send_by
            FROM repricer.batches b
            JOIN (
                SELECT c.batch_id, c.wave, count(*) AS due, min(c.send_by) AS first_send_by,
                    count(*) FILTER (WHERE \(fragment: isOverdue(now: now))) AS overdue
                FROM repricer.price_changes c
                JOIN repricer.batches o ON o.batch_id = c.batch_id AND o.state = 'approved'
                    AND o.waves <> '[]' AND c.wave > o.released_wave
                WHERE c.stage = 'queued' AND c.send_by < \(timestamp: now + nearly)::timestamptz
                    AND (\(uuid: batchID)::uuid IS NULL OR c.batch_id = \(uuid: batchID)::uuid)
                GROUP BY c.batch_id, c.wave
            ) c ON c.batch_id = b.batch_id
            ORDER BY b.submitted_at, b.batch_id, c.wave
            """
        ).map { row in
            try WaitingWave(
                batchID: row.text("batch_id"), batchName: row.text("name"), number: row.int("wave"),
                label: row.text("label"), waitsFor: waitsFor(row), due: row.int64("due"),
                overdue: row.int64("overdue"), firstSendBy: row.milliseconds("first_send_by"))
        }
    }

    private static func waitsFor(_ row: Row) throws -> String {
        let batch = try row.text("batch_id")
        let hand = try row.text("release") == "hand" ? "`repricer release \(batch)`" : nil
        if try row.bool("is_paused") {
            let commands = ["`repricer resume \(batch)`", hand].compactMap { $0 }
            return "\(commands.joined(separator: " and ")): its batch is paused"
        }
        if let hand { return hand }
        guard try row.bool("is_next"), let at = try row.instant("next_release_at") else {
            return "the wave before it"
        }
        return at.text
    }
}
