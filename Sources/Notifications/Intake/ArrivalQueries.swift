import Facts
import Postgres

/// Arrivals on their way into the tables: one statement for the headers that they share, and one for everything else.
struct ArrivalBatch: Sendable {
    private let count: Int
    /// The first arrival of each id, by id. Every writer has the same order, so two batches with the same ids wait
    /// for each other, never in a circle.
    private let firsts: [(place: Int, arrival: Arrival)]

    init(_ arrivals: [Arrival]) {
        count = arrivals.count
        var firsts: [[UInt8]: (place: Int, arrival: Arrival)] = [:]
        for (place, arrival) in arrivals.enumerated() {
            let id = Self.id(arrival.notificationUUID)
            if firsts[id] == nil { firsts[id] = (place, arrival) }
        }
        self.firsts = firsts.sorted { $0.key.lexicographicallyPrecedes($1.key) }.map(\.value)
    }

    /// The id as its bytes, by which PostgreSQL compares: to Swift, two spellings of é are equal.
    private static func id(_ text: String) -> [UInt8] { Array(text.utf8) }

    /// The statements, of which the last one answers with the ids that were new.
    func statements(receivedAt: Int64) -> [SQL] {
        // Headers are sent with every batch, even if stored already. A process must not rely on what it remembers, because
        // after a restore the table may lack them, and evidence could not be rebuilt.
        let headers = firsts.flatMap(\.arrival.evidence.headers)
        return EvidenceQueries.storeHeaders(headers)
            + [insertion(of: firsts.map(\.arrival), receivedAt: receivedAt)]
    }

    /// Whether each arrival was new, in the order of the call.
    func isNew(_ rows: Rows) throws(PostgresError) -> [Bool] {
        var new: Set<[UInt8]> = []
        for row in rows { new.insert(Self.id(try row.text("notification_uuid"))) }
        var isNew = Array(repeating: false, count: count)
        for (place, arrival) in firsts {
            isNew[place] = new.contains(Self.id(arrival.notificationUUID))
        }
        return isNew
    }
}

/// Stores arrivals. The first arrival of an id wins. Only for that one are the evidence and the inbox row written.
private func insertion(of arrivals: [Arrival], receivedAt: Int64) -> SQL {
    """
    -- name: storeArrivals
    WITH arrivals AS MATERIALIZED (
        SELECT * FROM unnest(
            \(arrivals.map(\.notificationUUID))::text[],
            \(timestamps: arrivals.map(\.signedAtMilliseconds))::timestamptz[],
            \(texts: arrivals.map(\.type))::text[],
            \(texts: arrivals.map(\.subtype))::text[],
            \(texts: arrivals.map(\.originalTransactionID))::text[],
            \(bools: arrivals.map(\.understood))::boolean[],
            \(bools: arrivals.map(\.isWork))::boolean[],
            \(texts: arrivals.map(\.unknownLines))::text[],
            \(texts: arrivals.map(\.evidence.whole))::text[],
            \(blobs: arrivals.map(\.evidence.packed))::bytea[],
            \(blobs: arrivals.map(\.evidence.headerDigests))::bytea[])
            AS a (notification_uuid, signed_at, type, subtype, original_transaction_id,
                understood, is_work, unknown, signed_payload, packed, header_digests)
        WHERE \(fragment: ServiceControlQueries.allowsThisProgram)
    ), first_arrivals AS (
        INSERT INTO repricer.notification_ids (notification_uuid, received_at)
        SELECT notification_uuid, \(timestamp: receivedAt) FROM arrivals
        ON CONFLICT (notification_uuid) DO NOTHING
        RETURNING notification_uuid, received_at
    ), evidence AS (
        INSERT INTO repricer.notifications
            (notification_uuid, received_at, signed_at, type, subtype, original_transaction_id,
             understood, unknown, signed_payload, packed, header_digests)
        SELECT a.notification_uuid, f.received_at, a.signed_at, a.type, a.subtype,
            a.original_transaction_id, a.understood, string_to_array(a.unknown, chr(10)),
            a.signed_payload, a.packed, a.header_digests
        FROM arrivals a JOIN first_arrivals f USING (notification_uuid)
    ), work AS (
        INSERT INTO repricer.inbox
            (original_transaction_id, bucket, notification_uuid, received_at, signed_at)
        SELECT a.original_transaction_id, repricer.bucket_of(a.original_transaction_id), a.notification_uuid, f.received_at, a.signed_at
        FROM arrivals a JOIN first_arrivals f USING (notification_uuid)
        WHERE a.is_work AND a.original_transaction_id IS NOT NULL
    ), summaries AS (
        INSERT INTO repricer.extension_summaries (notification_uuid, received_at, signed_at)
        SELECT a.notification_uuid, f.received_at, a.signed_at
        FROM arrivals a JOIN first_arrivals f USING (notification_uuid)
        WHERE a.type = 'RENEWAL_EXTENSION' AND a.subtype IN ('SUMMARY', 'SUCCESS')
        ON CONFLICT DO NOTHING
    )
    SELECT notification_uuid FROM first_arrivals
    """
}

extension Arrival {
    /// The unknown parts in one text, since PostgreSQL unnests an array of arrays to its leaves; nil where there are
    /// none.
    fileprivate var unknownLines: String? {
        unknown.isEmpty ? nil : unknown.joined(separator: "\n")
    }
}
