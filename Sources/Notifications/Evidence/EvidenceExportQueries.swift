package import Facts
package import Postgres

package enum EvidenceExportQueries {
    /// The next notifications of a month (UTC milliseconds, its end excluded), in the order of their ids.
    package static func page(
        of month: Range<Int64>, after uuid: String, limit: Int,
        on connection: isolated PostgresConnection
    ) throws -> [EvidenceQueries.Stored] {
        let rows = try connection.query(
            """
            -- name: exportEvidence
            SELECT n.notification_uuid, n.received_at, n.signed_at, n.type, n.subtype,
                n.original_transaction_id, n.understood, \(unsafe: EvidenceQueries.evidenceColumns)
            FROM repricer.notifications n
            WHERE n.received_at >= \(timestamp: month.lowerBound) AND n.received_at < \(timestamp: month.upperBound)
                AND n.notification_uuid > \(uuid)
            ORDER BY n.notification_uuid LIMIT \(limit)
            """)
        return try EvidenceQueries.stored(rows, on: connection)
    }
}
