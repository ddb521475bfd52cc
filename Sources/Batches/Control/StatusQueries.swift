package import Postgres
import Pricing

/// What `status` shows besides the counts: the progress of delivery, and what the App Store's limits allow.
package enum StatusQueries {
    /// Instants are UTC milliseconds; nil where nothing is open.
    package struct Outlook: Sendable, Equatable {
        /// The earliest instant by which a change that is queued or awaits approval must be sent.
        package var nextSendBy: Int64?
        /// The latest instant at which an open change is due to take effect.
        package var lastDueEffectiveAt: Int64?
        package var trouble = TroubleQueries.Trouble()
        /// The batches that have an open change.
        package var openBatches: Set<String> = []
    }

    package struct Quota: Sendable, Equatable {
        package var endpoint: String
        /// Until when calls are reserved, in UTC milliseconds.
        package var nextPermitAt: Int64
        /// Until when the App Store asked for silence.
        package var blockedUntil: Int64?
    }

    /// The rows by state and the outlook, of one batch or of all. It reads the changes once, because a batch may have
    /// a million.
    package static func tally(
        batchID: String?, now: Int64, on connection: isolated PostgresConnection
    ) throws -> (states: [String: Int64], outlook: Outlook) {
        let rows = try connection.query(
            """
            -- name: statesAndOutlook
            SELECT state, batch_id, count(*) AS rows, min(send_by) AS next_send_by,
                max(due_effective_at) AS last_due_effective_at, max(state_since) AS last_moved_at,
                \(fragment: TroubleQueries.counts(now: now))
            FROM repricer.price_changes c
            WHERE \(uuid: batchID)::uuid IS NULL OR batch_id = \(uuid: batchID)::uuid
            GROUP BY state, batch_id
            """)
        var states: [String: Int64] = [:]
        var outlook = Outlook()
        var troubles: [String: TroubleQueries.Trouble] = [:]
        var lastMovedAt: [String: Int64] = [:]
        for row in rows {
            let name = try row.text("state")
            states[name, default: 0] += try row.int64("rows")
            let id = try row.text("batch_id")
            troubles[id, default: TroubleQueries.Trouble()] += try TroubleQueries.trouble(row)
            lastMovedAt[id] = try max(lastMovedAt[id] ?? .min, row.milliseconds("last_moved_at"))
            guard let state = ChangeState(rawValue: name), !state.isFinal else { continue }
            outlook.openBatches.insert(id)
            if state == .queued || state == .awaitingApproval {
                let sendBy = try row.millisecondsOrNil("next_send_by")
                outlook.nextSendBy = [outlook.nextSendBy, sendBy].compactMap(\.self).min()
            }
            let dueAt = try row.millisecondsOrNil("last_due_effective_at")
            outlook.lastDueEffectiveAt = [outlook.lastDueEffectiveAt, dueAt].compactMap(\.self)
                .max()
        }
        for (id, trouble) in troubles {
            var trouble = trouble
            // What a finished batch moved is shown only when that batch is requested, and what it left unsent also for
            // a day, as the metrics do.
            if batchID == nil, !outlook.openBatches.contains(id) {
                trouble.moved = 0
                if lastMovedAt[id, default: .min] < now - TroubleWatch.toldFor { continue }
            }
            outlook.trouble += trouble
        }
        return (states, outlook)
    }

    /// Work that the App Store refused or does not answer. It has ended, or is parked and tried again.
    package struct Refused: Sendable, Equatable {
        /// Empty for an extension, which belongs to no batch.
        package var batchName: String
        /// The subscription. Of a mass extension it is the extension's id.
        package var originalTransactionID: String
        /// The item, or the kind of a call that is about no item.
        package var sku: String
        package var state: String
        /// Apple's code and its name.
        package var reason: String
        /// Since when it is in this state, in UTC milliseconds of the business clock. For a dependent it is since
        /// when it should be cancelled.
        package var since: Int64
        /// When it is tried again, in UTC milliseconds of real time; nil where it has ended.
        package var nextAttemptAt: Int64?
    }

    /// The refused changes of a batch, at most `limit`, and its dependents whose cancellation is tried again. Those
    /// that are tried again come first. Without a batch, only those that wait, of all approved batches.
    package static func refused(
        of batchID: String?, limit: Int, on connection: isolated PostgresConnection
    ) throws -> [Refused] {
        try connection.query(
            """
            -- name: refusedChanges
            SELECT b.name, c.original_transaction_id, c.sku, c.send_by, c.state_since AS since,
                CASE c.stage WHEN 'rejected' THEN c.stage ELSE 'parked' END AS state,
                CASE c.stage WHEN 'rejected' THEN coalesce(c.reason, '') ELSE c.parked_reason END AS reason,
                CASE c.stage WHEN 'queued' THEN c.next_attempt_at WHEN 'unknown' THEN (
                    SELECT r.next_attempt_at FROM repricer.store_calls r
                    WHERE r.subject = c.original_transaction_id AND r.call_id = c.request_reference_id
                        AND r.bucket = c.bucket) END AS next_attempt_at
            FROM repricer.price_changes c JOIN repricer.batches b ON b.batch_id = c.batch_id
            WHERE \(fragment: isAskedFor(batchID))
                AND (c.stage = 'rejected' AND \(batchID != nil)
                    OR c.stage IN ('queued', 'unknown') AND c.parked_reason IS NOT NULL)
            UNION ALL
            SELECT b.name, coalesce(d.target_transaction_id, d.original_transaction_id), d.dependent_sku, NULL, d.requested_at, 'parked',
                \(fragment: ParkedWorkQueries.whyWaiting), d.next_check_at
            FROM repricer.dependent_cancellations d JOIN repricer.batches b ON b.batch_id = d.batch_id
            WHERE \(fragment: batchID.map { "b.batch_id = \(uuid: $0)" } ?? "true")
                AND \(fragment: ParkedWorkQueries.isWaiting)
            ORDER BY state, send_by, original_transaction_id, sku LIMIT \(limit)
            """
        ).map { row in
            try Refused(
                batchName: row.text("name"),
                originalTransactionID: row.text("original_transaction_id"), sku: row.text("sku"),
                state: row.text("state"), reason: row.text("reason"),
                since: row.milliseconds("since"),
                nextAttemptAt: row.millisecondsOrNil("next_attempt_at"))
        }
    }

    /// How many changes of these batches were claimed, were not applied and wait to be called again. In a halted batch
    /// these are the changes that the App Store refused, and those whose call had not been sent when it halted.
    package static func putBack(
        of batchIDs: [String], on connection: isolated PostgresConnection
    ) throws -> [String: Int64] {
        guard !batchIDs.isEmpty else { return [:] }
        let rows = try connection.query(
            """
            -- name: putBackChanges
            SELECT batch_id, count(*) AS rows FROM repricer.price_changes
            WHERE batch_id = ANY (\(uuids: batchIDs)) AND stage = 'queued'
                AND (next_attempt_at IS NOT NULL OR reason = 'halted')
            GROUP BY batch_id
            """)
        return Dictionary(
            uniqueKeysWithValues: try rows.map { (try $0.text("batch_id"), try $0.int64("rows")) })
    }

    private static func isAskedFor(_ batchID: String?) -> SQL {
        batchID.map { "b.batch_id = \(uuid: $0)" } ?? "b.state = 'approved'"
    }

    package static func quotas(on connection: isolated PostgresConnection) throws -> [Quota] {
        try connection.query(
            """
            -- name: quotas
            SELECT endpoint, next_permit_micros, blocked_until FROM repricer.rate_limits
            ORDER BY endpoint
            """
        ).map { row in
            try Quota(
                endpoint: row.text("endpoint"),
                nextPermitAt: row.int64("next_permit_micros") / 1000,
                blockedUntil: row.millisecondsOrNil("blocked_until"))
        }
    }

    /// The notifications that arrived and are not settled, over all replicas.
    package struct Notifications: Sendable, Equatable {
        package struct Unknown: Sendable, Equatable {
            package var kind: String
            package var name: String
            package var notifications: Int64
            /// When the last one arrived, in UTC milliseconds.
            package var lastReceivedAt: Int64
        }

        package var waiting: Int64 = 0
        package var quarantined: Int64 = 0
        package var notUnderstood: Int64 = 0
        /// The unknown parts, the most frequent first.
        package var unknown: [Unknown] = []
    }

    /// How many of the newest notifications with unknown parts are counted. It is limited, because a field that is new
    /// to us may be in every notification.
    package static let unknownWindow = 100_000
    private static let unknownShown = 50

    /// The notifications that arrived and are not in the facts yet.
    package static func notificationsWaiting(
        on connection: isolated PostgresConnection
    ) throws -> Int64 {
        try connection.query(
            """
            -- name: notificationsWaiting
            SELECT count(*) AS waiting FROM repricer.inbox WHERE error IS NULL
            """
        ).one().int64("waiting")
    }

    package static func notifications(
        on connection: isolated PostgresConnection
    ) throws -> Notifications {
        let inbox = try connection.query(
            """
            -- name: inboxCounts
            SELECT count(*) FILTER (WHERE error IS NULL) AS waiting,
                count(*) FILTER (WHERE error IS NOT NULL) AS quarantined
            FROM repricer.inbox
            """
        ).one()
        let notUnderstood = try connection.query(
            """
            -- name: notUnderstoodCount
            SELECT count(*) AS n FROM repricer.notifications WHERE NOT understood
            """
        ).one()
        let unknown = try connection.query(
            """
            -- name: unknownParts
            SELECT part, count(*) AS notifications, max(received_at) AS last_received_at
            FROM (
                SELECT received_at, unknown FROM repricer.notifications
                WHERE unknown IS NOT NULL ORDER BY received_at DESC LIMIT \(unknownWindow)
            ) newest
            CROSS JOIN LATERAL unnest(unknown) AS u(part)
            GROUP BY part ORDER BY notifications DESC, part LIMIT \(unknownShown)
            """)
        return Notifications(
            waiting: try inbox.int64("waiting"), quarantined: try inbox.int64("quarantined"),
            notUnderstood: try notUnderstood.int64("n"),
            unknown: try unknown.map { row in
                let part = try row.text("part")
                let kind = part.prefix { $0 != ":" }
                return try Notifications.Unknown(
                    kind: String(kind), name: String(part.dropFirst(kind.count + 1)),
                    notifications: row.int64("notifications"),
                    lastReceivedAt: row.milliseconds("last_received_at"))
            })
    }
}
