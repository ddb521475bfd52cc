import Facts
import Postgres

/// What `reprocess` reads and corrects. It never touches evidence.
enum ReprocessQueries {
    /// Where a page ended. The next page begins after it.
    struct Place: Hashable, Sendable {
        var receivedAt: Int64
        var notificationUUID: String
    }

    /// A stored notification, and what is kept about it besides its evidence.
    struct Candidate: Sendable {
        var stored: EvidenceQueries.Stored
        var unknown: [String]
        /// Why the fold has quarantined it; nil where it has not.
        var error: String?

        var place: Place {
            Place(receivedAt: stored.receivedAt, notificationUUID: stored.notificationUUID)
        }
    }

    /// What today's code reads from it.
    struct Reading: Sendable {
        var signedAtMilliseconds: Int64?
        var type: String?
        var subtype: String?
        var originalTransactionID: String?
        var understood: Bool
        var unknown: [String]
    }

    /// The notifications that were received since `since` (UTC milliseconds) and not fully understood: the first
    /// `limit` after `place`.
    static func notUnderstood(
        since: Int64, after place: Place?, limit: Int, on connection: isolated PostgresConnection
    ) throws -> [Candidate] {
        let after = place ?? Place(receivedAt: since, notificationUUID: "")
        return try candidates(
            """
            -- name: notificationsToReprocess
            SELECT \(unsafe: columns)
            FROM \(unsafe: withInbox)
            WHERE (NOT n.understood OR n.unknown IS NOT NULL)
                AND (n.received_at, n.notification_uuid)
                    > (\(timestamp: after.receivedAt), \(after.notificationUUID))
            ORDER BY n.received_at, n.notification_uuid
            LIMIT \(limit)
            """, on: connection)
    }

    /// The notifications that were received since `since` and that the fold has quarantined: the first `limit` after
    /// `place`.
    static func quarantined(
        since: Int64, after place: Place?, limit: Int, on connection: isolated PostgresConnection
    ) throws -> [Candidate] {
        let after = place ?? Place(receivedAt: since, notificationUUID: "")
        return try candidates(
            """
            -- name: quarantinedToReprocess
            SELECT \(unsafe: columns)
            FROM repricer.inbox i
            JOIN repricer.notifications n
                ON n.notification_uuid = i.notification_uuid AND n.received_at = i.received_at
            WHERE i.error IS NOT NULL
                AND (i.received_at, i.notification_uuid)
                    > (\(timestamp: after.receivedAt), \(after.notificationUUID))
            ORDER BY i.received_at, i.notification_uuid
            LIMIT \(limit)
            """, on: connection)
    }

    /// All notifications that were received since `since`: the first `limit` after `place`. They come by id, because
    /// that order needs no sort.
    static func all(
        since: Int64, after place: Place?, limit: Int, on connection: isolated PostgresConnection
    ) throws -> [Candidate] {
        try candidates(
            """
            -- name: notificationsToReadAnew
            SELECT \(unsafe: columns)
            FROM \(unsafe: withInbox)
            WHERE n.received_at >= \(timestamp: since)
                AND n.notification_uuid > \(place?.notificationUUID ?? "")
            ORDER BY n.notification_uuid
            LIMIT \(limit)
            """, on: connection)
    }

    private static let columns = """
        n.notification_uuid, n.received_at, n.signed_at, n.type, n.subtype,
        n.original_transaction_id, n.understood, n.unknown, i.error,
        \(EvidenceQueries.evidenceColumns)
        """

    /// Notifications, and the rows of those that are not folded yet.
    private static let withInbox = """
        repricer.notifications n
            LEFT JOIN repricer.inbox i
                ON i.original_transaction_id = n.original_transaction_id
                AND i.bucket = repricer.bucket_of(n.original_transaction_id)
                AND i.notification_uuid = n.notification_uuid
        """

    private static func candidates(
        _ question: SQL, on connection: isolated PostgresConnection
    ) throws -> [Candidate] {
        let rows = try connection.query(question)
        let stored = try EvidenceQueries.stored(rows, on: connection)
        return try zip(rows, stored).map { row, stored in
            try Candidate(
                stored: stored, unknown: row.textsOrNil("unknown") ?? [],
                error: row.textOrNil("error"))
        }
    }

    /// Stores what today's code reads from a notification.
    static func correct(_ candidate: Candidate, _ reading: Reading) -> SQL {
        """
        -- name: correctNotification
        UPDATE repricer.notifications
        SET signed_at = \(timestamp: reading.signedAtMilliseconds), type = \(reading.type)::text,
            subtype = \(reading.subtype)::text,
            original_transaction_id = \(reading.originalTransactionID)::text,
            understood = \(reading.understood),
            unknown = nullif(\(reading.unknown)::text[], '{}')
        WHERE notification_uuid = \(candidate.stored.notificationUUID)
            AND received_at = \(timestamp: candidate.stored.receivedAt)
            AND \(fragment: ServiceControlQueries.allowsThisProgram)
        """
    }

    /// Puts a notification into the inbox as if it had just arrived. Its former statement stays until the fold replaces
    /// it, so that no fold in between lacks it; only a subscription that it is no longer about loses it at once. Both
    /// subscriptions are marked as folded to the end of time, so that the next statement counts as late and makes them
    /// fold from the beginning. The caller holds their locks.
    static func requeue(
        _ candidate: Candidate, under id: String, signedAtMilliseconds: Int64?
    ) -> [SQL] {
        let uuid = candidate.stored.notificationUUID
        let former = candidate.stored.originalTransactionID.flatMap { $0 == id ? nil : $0 }
        let ids = [former, id].compactMap { $0 }
        return (former.map { [EventQueries.forgetting([$0], uuids: [uuid])] } ?? []) + [
            """
            -- name: unfoldSubscriptions
            UPDATE repricer.subscriptions
            SET folded_signed_at = '9999-12-31T00:00:00Z', folded_evidence_id = ''
            WHERE original_transaction_id = ANY (\(ids)::text[]) AND \(fragment: Bucket.isThat(of: ids))
                AND folded_signed_at IS NOT NULL
            """,
            takeOut(uuid, of: ids),
            """
            -- name: putIntoInbox
            INSERT INTO repricer.inbox
                (original_transaction_id, bucket, notification_uuid, received_at, signed_at, is_reread)
            VALUES (\(id), \(Bucket.of(id))::smallint, \(uuid), \(timestamp: candidate.stored.receivedAt),
                \(timestamp: signedAtMilliseconds), true)
            """,
        ]
    }

    /// Takes a notification out of the inbox of these subscriptions, because today's code reads no statement from it.
    static func takeOut(_ uuid: String, of ids: [String]) -> SQL {
        """
        -- name: takeOutOfInbox
        DELETE FROM repricer.inbox
        WHERE original_transaction_id = ANY (\(ids)::text[]) AND \(fragment: Bucket.isThat(of: ids))
            AND notification_uuid = \(uuid)
        """
    }
}
