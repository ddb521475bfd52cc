import Facts
import Postgres
import Reports

/// The queries of the home page about all batches. They read stored figures, and only the open changes.
enum HomeQueries {
    static let openStages: SQL =
        "('awaiting_approval', 'queued', 'unknown', 'scheduled', 'pending_consent', 'accepted')"

    /// The open rows by batch and stage. A row whose call is in flight counts as queued. Each counted batch has an
    /// entry.
    static func openRows(
        on connection: isolated PostgresConnection
    ) throws -> [String: [String: Int64]] {
        let rows = try connection.query(
            """
            -- name: homeOpenRows
            SELECT b.batch_id, NULL AS stage, 0::bigint AS rows FROM repricer.batches b
            UNION ALL
            SELECT c.batch_id, c.stage, count(*) FROM repricer.price_changes c
            WHERE c.batch_id = ANY (ARRAY(SELECT b.batch_id FROM repricer.batches b)) AND c.stage IN \(fragment: openStages)
            GROUP BY c.batch_id, c.stage
            """)
        var open: [String: [String: Int64]] = [:]
        for row in rows {
            var stages = open[try row.text("batch_id")] ?? [:]
            if let stage = try row.textOrNil("stage") { stages[stage] = try row.int64("rows") }
            open[try row.text("batch_id")] = stages
        }
        return open
    }

    /// A mass extension that waits for a second person.
    struct WaitingExtension: Sendable, Equatable {
        var extensionID: String
        var productID: String
        /// Empty for all storefronts.
        var storefronts: [String]
        /// How many subscriptions could be extended when it was requested.
        var subscriptions: Int64
        var days: Int64
        var note: String?
        var requestedBy: String
    }

    /// The oldest of them.
    static func waitingExtensions(
        limit: Int, on connection: isolated PostgresConnection
    ) throws -> [WaitingExtension] {
        try connection.query(
            """
            -- name: homeWaitingExtensions
            SELECT extension_id, product_id, coalesce(storefronts, '{}') AS storefronts, eligible_count,
                extend_by_days::bigint AS days, note, submitted_by
            FROM repricer.mass_extensions WHERE state = 'awaiting_approval'
            ORDER BY submitted_at, extension_id LIMIT \(limit)
            """
        ).map { row in
            try WaitingExtension(
                extensionID: row.text("extension_id"), productID: row.text("product_id"),
                storefronts: row.texts("storefronts"), subscriptions: row.int64("eligible_count"),
                days: row.int64("days"), note: row.textOrNil("note"),
                requestedBy: row.text("submitted_by"))
        }
    }

    struct Consent: Sendable, Equatable {
        var agreed: Int64 = 0
        var informed: Int64 = 0
        var declined: Int64 = 0
    }

    /// The customers' answers to changes that have ended.
    static func consents(
        on connection: isolated PostgresConnection
    ) throws -> [String: Consent] {
        let rows = try connection.query(
            """
            -- name: homeConsents
            SELECT t.batch_id, sum(t.consented)::bigint AS agreed, sum(t.informed)::bigint AS informed,
                sum(t.declined)::bigint AS declined
            FROM repricer.figure_tallies t WHERE NOT t.is_undo GROUP BY t.batch_id
            """)
        var consents: [String: Consent] = [:]
        for row in rows {
            consents[try row.text("batch_id")] = try Consent(
                agreed: row.int64("agreed"), informed: row.int64("informed"),
                declined: row.int64("declined"))
        }
        return consents
    }

    /// How many rows of each rejected or aborted batch were called before.
    static func called(on connection: isolated PostgresConnection) throws -> [String: Int64] {
        let rows = try connection.query(
            """
            -- name: homeCalledOfWithdrawn
            SELECT b.batch_id, count(*) AS rows FROM repricer.batches b
            JOIN repricer.price_changes c ON c.batch_id = b.batch_id AND c.stage IN ('unknown', 'scheduled',
                'pending_consent', 'accepted', 'effective', 'declined', 'cancelled', 'lapsed', 'invalidated', 'rejected')
            WHERE b.state IN ('rejected', 'aborted')
            GROUP BY b.batch_id
            """)
        return Dictionary(
            try rows.map { (try $0.text("batch_id"), try $0.int64("rows")) },
            uniquingKeysWith: { first, _ in first })
    }

    struct Effect: Sendable, Equatable {
        var currency: String
        /// Milliunits a month: the gain from the new prices, and the loss from customers who left.
        var uplift: Int128
        var lost: Int128
        var net: Int128 { uplift - lost }
    }

    private static func whole(_ text: String) throws -> Int128 {
        guard let number = Int128(text) else {
            throw PostgresError(.undecodableColumn, "\(text) is no whole number")
        }
        return number
    }

    /// The effects by batch, with the currency of most changes first, where something was charged or lost.
    static func effects(
        on connection: isolated PostgresConnection
    ) throws -> [String: [Effect]] {
        let rows = try connection.query(
            """
            -- name: homeEffects
            SELECT e.batch_id, e.currency, e.uplift_milliunits::text AS uplift, e.lost_milliunits::text AS lost
            FROM repricer.batch_effects e ORDER BY e.changes DESC, e.currency
            """)
        var effects: [String: [Effect]] = [:]
        for row in rows {
            effects[try row.text("batch_id"), default: []].append(
                try Effect(
                    currency: row.text("currency"), uplift: Self.whole(row.text("uplift")),
                    lost: Self.whole(row.text("lost"))))
        }
        return effects
    }

    /// How many subscriptions have facts that are not in the stored figures yet; at most `limit` are counted.
    static func unsummed(
        limit: Int, on connection: isolated PostgresConnection
    ) throws -> Int64 {
        try connection.query(
            """
            -- name: homeUnsummed
            SELECT count(*) AS rows FROM (SELECT 1 FROM repricer.stale_figures LIMIT \(limit)) s
            """
        ).one().int64("rows")
    }

    struct Parked: Sendable, Equatable {
        var batchID: String
        var reason: String
        var rows: Int64
        /// One of these subscriptions.
        var subscription: String
    }

    /// The parked rows by batch and reason, of one batch or of all.
    static func parked(
        of batchID: String?, limit: Int, on connection: isolated PostgresConnection
    ) throws -> [Parked] {
        try connection.query(
            """
            -- name: parkedRows
            SELECT c.batch_id, c.parked_reason, count(*) AS rows, min(c.original_transaction_id) AS example
            FROM repricer.price_changes c
            WHERE c.parked_reason IS NOT NULL AND c.stage IN ('queued', 'unknown')
                AND (\(uuid: batchID)::uuid IS NULL OR c.batch_id = \(uuid: batchID)::uuid)
            GROUP BY c.batch_id, c.parked_reason ORDER BY rows DESC, c.batch_id, c.parked_reason LIMIT \(limit)
            """
        ).map { row in
            try Parked(
                batchID: row.text("batch_id"), reason: row.text("parked_reason"),
                rows: row.int64("rows"), subscription: row.text("example"))
        }
    }

    struct Deadline: Sendable, Equatable {
        enum Kind: String, Sendable {
            case call, answer, effect
        }

        var batchID: String
        var kind: Kind
        /// Those that are not overdue.
        var rows: Int64
        /// UTC milliseconds; nil: all of them are overdue.
        var firstAt: Int64?
        var overdue: Int64
    }

    /// What is due before `until`, by batch: calls that must be sent, customers who must have answered, and new prices
    /// that take effect.
    static func deadlines(
        now: Int64, until: Int64, on connection: isolated PostgresConnection
    ) throws -> [Deadline] {
        try connection.query(
            """
            -- name: homeDeadlines
            SELECT batch_id, 'call' AS kind, count(*) FILTER (WHERE send_by >= \(timestamp: now)::timestamptz) AS rows,
                min(send_by) FILTER (WHERE send_by >= \(timestamp: now)::timestamptz) AS first_at,
                count(*) FILTER (WHERE send_by < \(timestamp: now)::timestamptz) AS overdue
            FROM repricer.price_changes
            WHERE batch_id = ANY (ARRAY(
                    SELECT b.batch_id FROM repricer.batches b WHERE b.state IN ('awaiting_approval', 'approved')))
                AND stage IN ('awaiting_approval', 'queued')
                AND send_by < \(timestamp: until)::timestamptz AND NOT is_held_out
            GROUP BY batch_id
            UNION ALL
            SELECT batch_id, kind, count(*), min(due_effective_at), 0
            FROM repricer.price_changes, LATERAL (
                SELECT CASE stage WHEN 'pending_consent' THEN 'answer' ELSE 'effect' END AS kind) k
            WHERE stage IN ('scheduled', 'pending_consent', 'accepted') AND undoes_change_id IS NULL
                AND due_effective_at >= \(timestamp: now)::timestamptz
                AND due_effective_at < \(timestamp: until)::timestamptz
            GROUP BY batch_id, kind
            ORDER BY first_at, batch_id, kind
            """
        ).compactMap { row in
            guard let kind = Deadline.Kind(rawValue: try row.text("kind")) else { return nil }
            return try Deadline(
                batchID: row.text("batch_id"), kind: kind, rows: row.int64("rows"),
                firstAt: row.millisecondsOrNil("first_at"), overdue: row.int64("overdue"))
        }
    }

    /// Dependents whose cancellation could not be proved and that were left to a person since `since`, by batch. No
    /// command settles one, so older ones would stay on the page for ever; the report has them all.
    static func discrepancies(
        since: Int64, on connection: isolated PostgresConnection
    ) throws -> [String: Int64] {
        let rows = try connection.query(
            """
            -- name: homeDiscrepancies
            SELECT batch_id, count(*) AS rows FROM repricer.dependent_cancellations
            WHERE state = 'discrepancy' AND coalesce(settled_at, requested_at) >= \(timestamp: since)::timestamptz
            GROUP BY batch_id
            """)
        return Dictionary(
            try rows.map { (try $0.text("batch_id"), try $0.int64("rows")) },
            uniquingKeysWith: { first, _ in first })
    }
}
