package import Postgres

/// Reads stored notifications back, packed or whole.
package enum EvidenceQueries {
    /// One stored notification.
    package struct Stored: Hashable, Sendable {
        package var notificationUUID: String
        /// When it arrived, in UTC milliseconds.
        package var receivedAt: Int64
        /// When Apple signed it, in UTC milliseconds.
        package var signedAt: Int64?
        package var type: String?
        package var subtype: String?
        package var originalTransactionID: String?
        package var understood: Bool
        package var evidence: Evidence
    }

    /// When the notification with this id was first stored, in UTC milliseconds; nil if it never was.
    package static func storedAt(
        _ uuid: String, on connection: isolated PostgresConnection
    ) throws -> Int64? {
        try connection.query(
            """
            -- name: storedAt
            SELECT received_at FROM repricer.notification_ids WHERE notification_uuid = \(uuid)
            """
        ).oneOrNil()?.milliseconds("received_at")
    }

    /// The columns that `evidence(of:)` reads of a table or alias `n`.
    package static let evidenceColumns = "n.signed_payload, n.packed, n.header_digests"

    /// The notification with this id; nil if it never came, or if its evidence was dropped.
    package static func stored(
        _ uuid: String, on connection: isolated PostgresConnection
    ) throws -> Stored? {
        let rows = try connection.query(
            """
            -- name: storedNotification
            SELECT n.notification_uuid, n.received_at, n.signed_at, n.type, n.subtype,
                n.original_transaction_id, n.understood, \(unsafe: evidenceColumns)
            FROM repricer.notifications n
            WHERE n.notification_uuid = \(uuid)
            ORDER BY n.received_at LIMIT 1
            """)
        return try stored(rows, on: connection).first
    }

    /// Reads rows with the columns of `Stored` and `evidenceColumns`.
    package static func stored(
        _ rows: Rows, on connection: isolated PostgresConnection
    ) throws -> [Stored] {
        let evidence = try evidence(of: rows, on: connection)
        return try zip(rows, evidence).map { row, evidence in
            try Stored(
                notificationUUID: row.text("notification_uuid"),
                receivedAt: row.milliseconds("received_at"),
                signedAt: row.millisecondsOrNil("signed_at"), type: row.textOrNil("type"),
                subtype: row.textOrNil("subtype"),
                originalTransactionID: row.textOrNil("original_transaction_id"),
                understood: row.bool("understood"), evidence: evidence)
        }
    }

    /// The evidence of rows with `evidenceColumns`. It asks once for all their headers.
    ///
    /// Where a header is missing, it and those after it are left out, and rebuilding the payload fails.
    package static func evidence(
        of rows: Rows, on connection: isolated PostgresConnection
    ) throws -> [Evidence] {
        let digests = try rows.map { row in
            try row.bytesOrNil("header_digests").map(separate) ?? []
        }
        let headers = try headers(Set(digests.joined()), on: connection)
        return try zip(rows, digests).map { row, digests in
            guard let packed = try row.bytesOrNil("packed") else {
                return .whole(try row.text("signed_payload"))
            }
            let found = digests.map { headers[$0] }
            return .packed(packed, headers: found.prefix { $0 != nil }.compactMap { $0 })
        }
    }

    /// Keeps the headers of what is stored in the same transaction. Every writer writes them in the same order, so
    /// that no two wait for each other.
    ///
    /// They are sent each time, even if stored already. A process must not rely on what it remembers, because after a
    /// restore the table may lack them, and evidence could not be rebuilt.
    package static func storeHeaders(_ used: [SigningHeader]) -> [SQL] {
        let headers = Set(used).sorted { $0.digest.lexicographicallyPrecedes($1.digest) }
        guard !headers.isEmpty else { return [] }
        return [
            """
            -- name: storeSigningHeaders
            INSERT INTO repricer.signing_headers (digest, header)
            SELECT * FROM unnest(\(blobs: headers.map(\.digest))::bytea[],
                \(blobs: headers.map(\.text))::bytea[])
            ON CONFLICT DO NOTHING
            """
        ]
    }

    /// What the App Store answered to a call.
    package struct StoredAnswer: Hashable, Sendable {
        package var kind: String
        package var httpStatus: Int?
        /// When it was settled, in UTC milliseconds; nil while the call is open.
        package var settledAt: Int64?
        /// nil where no answer came, or where it is not kept.
        package var evidence: Evidence?
    }

    /// The answer to the call with this id of a subscription; nil where there is no such call.
    package static func answer(
        to callID: String, of subscription: String, on connection: isolated PostgresConnection
    ) throws -> StoredAnswer? {
        let rows = try connection.query(
            """
            -- name: storedAnswer
            SELECT n.kind, n.http_status, n.settled_at, n.answer AS signed_payload, n.packed, n.header_digests
            FROM repricer.store_calls n
            WHERE n.subject = \(subscription) AND n.bucket = repricer.bucket_of(\(subscription))
                AND n.call_id::text = \(callID)
            """)
        guard let row = rows.first else { return nil }
        let isKept = try row.textOrNil("signed_payload") != nil || row.bytesOrNil("packed") != nil
        return StoredAnswer(
            kind: try row.text("kind"),
            httpStatus: try row.int64OrNil("http_status").map { Int($0) },
            settledAt: try row.millisecondsOrNil("settled_at"),
            evidence: isKept ? try evidence(of: rows, on: connection).first : nil)
    }

    private static func separate(_ digests: [UInt8]) -> [[UInt8]] {
        stride(from: 0, to: digests.count, by: SigningHeader.digestBytes).map {
            Array(digests[$0..<min($0 + SigningHeader.digestBytes, digests.count)])
        }
    }

    private static func headers(
        _ digests: Set<[UInt8]>, on connection: isolated PostgresConnection
    ) throws -> [[UInt8]: SigningHeader] {
        guard !digests.isEmpty else { return [:] }
        let rows = try connection.query(
            """
            -- name: signingHeaders
            SELECT digest, header FROM repricer.signing_headers
            WHERE digest = ANY (\(blobs: Array(digests))::bytea[])
            """)
        var headers: [[UInt8]: SigningHeader] = [:]
        for row in rows {
            let digest = try row.bytes("digest")
            headers[digest] = SigningHeader(digest: digest, text: try row.bytes("header"))
        }
        return headers
    }
}
