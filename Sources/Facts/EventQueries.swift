import JSON
package import Postgres
package import Pricing

/// The inbox, and the decoded statements that a fold reads.
package enum EventQueries {
    /// A notification that waits to be folded, with its evidence.
    package struct Waiting: Sendable {
        package var originalTransactionID: String
        package var notificationUUID: String
        /// When it arrived, in UTC milliseconds. It stands in for a `signedDate` that is missing.
        package var receivedAt: Int64
        package var evidence: Evidence
        /// Whether a statement was read from it before, which its fold replaces.
        package var isReread: Bool
    }

    /// The buckets with notifications to fold. An idle service runs only this cheap query.
    package static func bucketsWithWork(
        on connection: isolated PostgresConnection
    ) throws -> [Int] {
        try connection.query(
            """
            -- name: inboxBuckets
            SELECT b.bucket FROM repricer.bucket_turns b
            WHERE NOT \(fragment: ServiceControlQueries.isForNewerPrograms) AND EXISTS (
                SELECT 1 FROM repricer.inbox i
                WHERE i.bucket = b.bucket AND i.error IS NULL
                    AND i.received_at > '-infinity')
            """
        ).map { try $0.int("bucket") }
    }

    /// When the newest waiting notification was received, in UTC milliseconds; nil where none waits.
    package static func newestWaiting(
        on connection: isolated PostgresConnection
    ) throws -> Int64? {
        try connection.query(
            """
            -- name: newestWaiting
            SELECT max(received_at) AS newest FROM repricer.inbox WHERE error IS NULL
            """
        ).one().millisecondsOrNil("newest")
    }

    /// Whether a notification received at or before `last` (UTC milliseconds) still waits.
    package static func waits(
        until last: Int64, on connection: isolated PostgresConnection
    ) throws -> Bool {
        try !connection.query(
            """
            -- name: waitsUntil
            SELECT 1 FROM repricer.inbox
            WHERE error IS NULL AND received_at <= \(timestamp: last) LIMIT 1
            """
        ).isEmpty
    }

    /// The subscriptions of a bucket that have waited longest, taken from its first `limit` notifications. So the query
    /// stays cheap however many wait.
    package static func waitingSubscriptions(
        bucket: Int, limit: Int, on connection: isolated PostgresConnection
    ) throws -> [String] {
        try connection.query(
            """
            -- name: waitingSubscriptions
            SELECT DISTINCT first.original_transaction_id FROM (
                SELECT original_transaction_id FROM repricer.inbox
                WHERE bucket = \(bucket)::smallint AND error IS NULL AND received_at > '-infinity'
                ORDER BY received_at LIMIT \(limit)
            ) first
            """
        ).map { try $0.text("original_transaction_id") }
    }

    /// The notifications that wait for these subscriptions, in the order of signing. A subscription with more than
    /// `limit` is folded in pieces that follow one another.
    ///
    /// Returns none once a breaking migration that this program does not know was announced. Every transaction that
    /// folds calls this, so no fold that begins after the announcement follows the old rules.
    package static func waiting(
        _ ids: [String], limit: Int = 1000, on connection: isolated PostgresConnection
    ) throws -> [Waiting] {
        try waiting(
            """
            i.original_transaction_id = ANY (\(ids)::text[]) AND i.error IS NULL
                AND \(fragment: Bucket.isThat(of: ids, "i.bucket"))
            ORDER BY i.original_transaction_id, i.signed_at LIMIT \(limit)
            """, on: connection)
    }

    /// One notification, if it still waits.
    package static func waiting(
        _ id: String, uuid: String, on connection: isolated PostgresConnection
    ) throws -> [Waiting] {
        try waiting(
            """
            i.original_transaction_id = \(id) AND i.notification_uuid = \(uuid) AND i.error IS NULL
                AND \(fragment: Bucket.isThat(of: id, "i.bucket"))
            """, on: connection)
    }

    private static func waiting(
        _ condition: SQL, on connection: isolated PostgresConnection
    ) throws -> [Waiting] {
        let rows = try connection.query(
            """
            -- name: waitingNotifications
            SELECT i.original_transaction_id, i.notification_uuid, i.received_at, i.is_reread,
                \(unsafe: EvidenceQueries.evidenceColumns)
            FROM repricer.inbox i
            JOIN repricer.notifications n
                ON n.notification_uuid = i.notification_uuid AND n.received_at = i.received_at
            WHERE NOT \(fragment: ServiceControlQueries.isForNewerPrograms) AND \(fragment: condition)
            """)
        let evidence = try EvidenceQueries.evidence(of: rows, on: connection)
        return try zip(rows, evidence).map { row, evidence in
            try Waiting(
                originalTransactionID: row.text("original_transaction_id"),
                notificationUUID: row.text("notification_uuid"),
                receivedAt: row.milliseconds("received_at"), evidence: evidence,
                isReread: row.bool("is_reread"))
        }
    }

    /// Deletes the statements of these subscriptions that were read from these notifications before. The reports of the
    /// past keep them.
    package static func forgetting(_ ids: [String], uuids: [String]) -> SQL {
        """
        -- name: forgetStatements
        WITH forgotten AS (
            DELETE FROM repricer.subscription_events
            WHERE original_transaction_id = ANY (\(ids)::text[]) AND \(fragment: Bucket.isThat(of: ids))
                AND evidence_id = ANY (\(uuids)::text[]) AND source IN ('notification', 'legacy')
            RETURNING *
        ), marked AS (
            INSERT INTO repricer.stale_figures (original_transaction_id, bucket)
            SELECT DISTINCT original_transaction_id, bucket FROM forgotten
        ), kept AS (
            INSERT INTO repricer.subscription_event_versions
            SELECT f.*, n.at FROM forgotten f CROSS JOIN (SELECT repricer.recording_instant() AS at) n
            ON CONFLICT DO NOTHING
        )
        SELECT DISTINCT original_transaction_id FROM forgotten
        """
    }

    package static func deleteWaiting(_ ids: [String], uuids: [String]) -> SQL {
        """
        -- name: deleteWaiting
        DELETE FROM repricer.inbox
        WHERE original_transaction_id = ANY (\(ids)::text[]) AND \(fragment: Bucket.isThat(of: ids))
            AND notification_uuid = ANY (\(uuids)::text[])
        """
    }

    /// Quarantines a notification with the reason, so that it never stops those behind it.
    package static func quarantine(_ id: String, uuid: String, error: String) -> SQL {
        """
        -- name: quarantineNotification
        UPDATE repricer.inbox SET error = \(error)
        WHERE original_transaction_id = \(id) AND notification_uuid = \(uuid) AND \(fragment: Bucket.isThat(of: id))
        """
    }

    /// Keeps each decoded statement once, and returns those that were not kept before.
    ///
    /// - Parameter areNew: The caller knows that none was kept before and that none stands here twice. If one was,
    ///   the database refuses all of them.
    package static func inserting(
        _ events: [SubscriptionEvent], areNew: Bool
    ) -> Question<[SubscriptionEvent]> {
        guard !areNew else {
            return Question(
                """
                -- name: insertNewEvents
                \(fragment: insert(events))
                """
            ) { _ in events }
        }
        return Question(
            """
            -- name: insertSubscriptionEvents
            \(fragment: insert(events))
            ON CONFLICT DO NOTHING
            RETURNING original_transaction_id, signed_at, evidence_id
            """
        ) { try events.filter(isAmong($0)) }
    }

    private static func insert(_ events: [SubscriptionEvent]) -> SQL {
        let statements = events.column { StoredJSON.text($0) }
        return """
            INSERT INTO repricer.subscription_events
                (original_transaction_id, signed_at, evidence_id, source, type, subtype, statement, bucket, recorded_at)
            SELECT t.*, repricer.bucket_of(t.id), (SELECT repricer.recording_instant()) FROM unnest(
                \(events.column { $0.originalTransactionID })::text[],
                \(timestamps: events.column { $0.key.signedAt.milliseconds })::timestamptz[],
                \(events.column { $0.key.evidenceID })::text[],
                \(events.column { $0.source.rawValue })::text[],
                \(texts: events.sparseColumn { $0.type })::text[],
                \(texts: events.sparseColumn { $0.subtype })::text[],
                \(jsons: statements)::jsonb[]) AS t (id, signed_at, evidence_id, source, type, subtype, statement)
            """
    }

    /// Returns a function that says whether a statement is one of these rows. For each row it says so only once.
    private static func isAmong(_ new: Rows) throws -> (SubscriptionEvent) -> Bool {
        // They are compared by content, because the server may return them in another order.
        var isNew: Set<Place> = []
        isNew.reserveCapacity(new.count)
        for row in new {
            isNew.insert(
                try Place(
                    id: row.text("original_transaction_id"),
                    signedAt: row.milliseconds("signed_at"), evidenceID: row.text("evidence_id")))
        }
        // Each is removed when it is found, so that a statement which arrived twice in one call is folded once.
        return { event in
            let place = Place(
                id: event.originalTransactionID, signedAt: event.key.signedAt.milliseconds,
                evidenceID: event.key.evidenceID)
            return isNew.remove(place) != nil
        }
    }

    private struct Place: Hashable {
        var id: String
        var signedAt: Int64
        var evidenceID: String
    }

    /// Notes statements that were signed before the checkpoint of their subscription and arrived after it. They are not
    /// folded; `overdue_statements` lists them.
    static func notingOverdue(_ events: [SubscriptionEvent]) -> [SQL] {
        Bucket.groups(events, of: \.originalTransactionID).map { events in
            """
            -- name: noteOverdue
            INSERT INTO repricer.overdue_statements
                (original_transaction_id, signed_at, evidence_id, type, subtype, bucket)
            SELECT t.*, repricer.bucket_of(t.id) FROM unnest(
                \(events.map(\.originalTransactionID))::text[],
                \(timestamps: events.map(\.key.signedAt.milliseconds))::timestamptz[],
                \(events.map(\.key.evidenceID))::text[],
                \(texts: events.map(\.type))::text[], \(texts: events.map(\.subtype))::text[]
            ) AS t (id, signed_at, evidence_id, type, subtype)
            ON CONFLICT DO NOTHING
            """
        }
    }

    /// All kept statements about these subscriptions, in the order of folding.
    package static func all(
        _ ids: [String], on connection: isolated PostgresConnection
    ) throws -> [String: [SubscriptionEvent]] {
        let rows = try connection.query(
            """
            -- name: allSubscriptionEvents
            SELECT original_transaction_id, statement FROM repricer.subscription_events
            WHERE original_transaction_id = ANY (\(ids)::text[]) AND \(fragment: Bucket.isThat(of: ids))
            UNION ALL
            SELECT original_transaction_id, statement FROM repricer.kept_statements
            WHERE original_transaction_id = ANY (\(ids)::text[]) AND \(fragment: Bucket.isThat(of: ids))
                AND statement IS NOT NULL
            """)
        var events: [String: [SubscriptionEvent]] = [:]
        // While retention runs, a statement may be in both tables.
        var seen: [String: Set<SubscriptionEvent.Key>] = [:]
        for row in rows {
            let event: SubscriptionEvent = try row.stored("statement")
            let id = try row.text("original_transaction_id")
            guard seen[id, default: []].insert(event.key).inserted else { continue }
            events[id, default: []].append(event)
        }
        // They are sorted here, because the server's collation may order evidence ids in another way.
        return events.mapValues { $0.sorted { $0.key < $1.key } }
    }
}
