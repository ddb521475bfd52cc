package import Postgres

/// The audit trail: what people decided, append-only and hash-chained. Lines are added by the functions that decide.
package enum AuditQueries {
    /// Lines a query, so that a long trail needs no more memory than a short one.
    package static let linesPerPage = 1000

    /// Where the chain ends.
    package static func head(
        on connection: isolated PostgresConnection
    ) throws -> AuditChain.Head {
        let row = try connection.query(
            """
            -- name: auditHead
            SELECT sequence, hash FROM repricer.audit_head
            """
        ).one()
        return AuditChain.Head(
            sequence: try row.int64("sequence"), hash: try row.text("hash"))
    }

    /// The next lines after a number, of one object (as `batch:ID`) or of all.
    package static func page(
        after sequence: Int64, object: String? = nil, limit: Int = linesPerPage,
        on connection: isolated PostgresConnection
    ) throws -> [AuditChain.Line] {
        try connection.query(
            """
            -- name: auditPage
            SELECT sequence,
                to_char(occurred_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS occurred,
                to_char(recorded_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS recorded,
                actor, action, object, details::text AS details, previous_hash, hash
            FROM repricer.audit_trail
            WHERE sequence > \(sequence) AND (\(object)::text IS NULL OR object = \(object)::text)
            ORDER BY sequence LIMIT \(limit)
            """
        ).map { row in
            AuditChain.Line(
                sequence: try row.int64("sequence"),
                // Infinity has no such text; no line was ever stored with it.
                occurredAt: try row.textOrNil("occurred") ?? "",
                recordedAt: try row.textOrNil("recorded") ?? "",
                actor: try row.text("actor"), action: try row.text("action"),
                object: try row.text("object"), details: try row.text("details"),
                previousHash: try row.text("previous_hash"), hash: try row.text("hash"))
        }
    }

    /// Recomputes the whole chain. Run it in a transaction that reads one snapshot.
    package static func verify(
        kept: AuditChain.Head?, on connection: isolated PostgresConnection
    ) throws -> AuditChain {
        let end = try head(on: connection)
        var chain = AuditChain(kept: kept, lastSequence: end.sequence ?? 0)
        var last = Int64.min
        while true {
            let lines = try page(after: last, on: connection)
            for line in lines { chain.add(line) }
            guard let newest = lines.last, lines.count == linesPerPage else { break }
            last = newest.sequence
        }
        chain.finish(stored: end)
        return chain
    }
}
