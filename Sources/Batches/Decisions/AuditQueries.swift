package import Postgres

/// The audit trail: what people decided, append-only and hash-chained. The functions that decide add its lines.
package enum AuditQueries {
    /// The lines that one query reads, so that a long trail needs no more memory than a short one.
    package static let linesPerPage = 1000

    /// Stored decisions that differ from the trail, or that it does not record: batches, versions of the rules and mass
    /// extensions.
    private static func untraced(on connection: isolated PostgresConnection) throws -> [String] {
        try connection.query(
            """
            -- name: decisionsWithoutTrace
            WITH changes AS (
                SELECT batch_id, count(*) AS rows FROM repricer.price_changes GROUP BY batch_id
            ), refused AS (
                SELECT batch_id, count(*) AS rows FROM repricer.batch_rejects GROUP BY batch_id
            ), batches AS (
                SELECT b.*, 'batch:' || b.batch_id AS object, coalesce(c.rows, 0) AS held,
                    coalesce(r.rows, 0) AS refused
                FROM repricer.batches b LEFT JOIN changes c USING (batch_id) LEFT JOIN refused r USING (batch_id)
            ), submissions AS (
                SELECT object, actor, occurred_at, (details ->> 'rows')::bigint AS rows,
                    coalesce((details ->> 'refused_rows')::bigint, 0) AS refused, details ->> 'plan_hash' AS plan_hash
                FROM repricer.audit_trail WHERE action = 'submit'
            ), rules AS (
                SELECT revision FROM repricer.consent_thresholds
                UNION ALL SELECT revision FROM repricer.always_consent_storefronts
                UNION ALL SELECT revision FROM repricer.currency_decimals
                UNION ALL SELECT revision FROM repricer.exchange_rates
            ), imports AS (
                SELECT i.revision, i.imported_by, i.imported_at, count(r.revision) AS rows
                FROM repricer.rule_imports i LEFT JOIN rules r USING (revision)
                -- The first version ships with the product.
                WHERE i.revision > 1 GROUP BY i.revision
            ), imported AS (
                SELECT object, actor, occurred_at, (details ->> 'rules')::bigint AS rows
                FROM repricer.audit_trail WHERE action = 'import_rules'
            ), faults AS (
                SELECT b.object, CASE
                    WHEN s.object IS NULL THEN 'no line says that it was submitted'
                    WHEN (b.held, b.row_count) <> (s.rows, s.rows) THEN
                        format('holds %s rows and says %s, %s were submitted', b.held, b.row_count, s.rows)
                    WHEN (b.refused, b.rejected_row_count) <> (s.refused, s.refused) THEN
                        format('holds %s refused rows and says %s, %s were submitted', b.refused,
                            b.rejected_row_count, s.refused)
                    WHEN (b.submitted_by::text, b.submitted_at, b.plan_hash)
                        <> (s.actor, s.occurred_at, s.plan_hash)
                        THEN 'says otherwise than its line who submitted it, when or what'
                    END AS said
                FROM batches b LEFT JOIN submissions s USING (object)
                UNION ALL
                SELECT b.object, format('is %s, and no line says so of that person and instant', b.state)
                FROM batches b
                WHERE b.state IN ('approved', 'rejected', 'aborted') AND NOT EXISTS (
                    SELECT FROM repricer.audit_trail d
                    WHERE d.object = b.object AND CASE b.state
                        WHEN 'aborted' THEN d.action = 'abort'
                        ELSE (d.actor, d.occurred_at) = (b.decided_by::text, b.decided_at)
                            AND d.action = CASE b.state WHEN 'approved' THEN 'approve' ELSE 'reject' END END)
                UNION ALL
                SELECT 'rules:' || i.revision, CASE
                    WHEN l.object IS NULL THEN 'no line says that they were imported'
                    WHEN i.rows <> l.rows THEN format('hold %s rules, %s were imported', i.rows, l.rows)
                    WHEN (i.imported_by, i.imported_at) <> (l.actor, l.occurred_at)
                        THEN 'say otherwise than their line who imported them, or when' END
                FROM imports i LEFT JOIN imported l ON l.object = 'rules:' || i.revision
                UNION ALL
                SELECT 'extension:' || m.extension_id, 'no line says that it was submitted'
                FROM repricer.mass_extensions m
                WHERE NOT EXISTS (SELECT FROM submissions s WHERE s.object = 'extension:' || m.extension_id)
            )
            SELECT object || ': ' || said AS message FROM faults WHERE said IS NOT NULL ORDER BY 1
            """
        ).map { try $0.text("message") }
    }

    /// The same for imports of past increases.
    private static func untracedHistories(
        on connection: isolated PostgresConnection
    ) throws -> [String] {
        try connection.query(
            """
            -- name: historiesWithoutTrace
            WITH histories AS (
                SELECT 'history:' || h.number AS object, h.imported_by, h.imported_at, count(i.number) AS rows
                FROM repricer.history_imports h LEFT JOIN repricer.imported_increases i USING (number)
                -- Citus does not know that the number says the rest.
                GROUP BY h.number, h.imported_by, h.imported_at
            ), recorded AS (
                SELECT object, actor, occurred_at, (details ->> 'increases')::bigint AS rows
                FROM repricer.audit_trail WHERE action = 'import_history'
            ), faults AS (
                SELECT h.object, CASE
                    WHEN r.object IS NULL THEN 'no line says that it was imported'
                    WHEN h.rows <> r.rows THEN format('holds %s increases, %s were imported', h.rows, r.rows)
                    WHEN (h.imported_by, h.imported_at) <> (r.actor, r.occurred_at)
                        THEN 'says otherwise than its line who imported it, or when' END AS said
                FROM histories h LEFT JOIN recorded r USING (object)
            )
            SELECT object || ': ' || said AS message FROM faults WHERE said IS NOT NULL ORDER BY 1
            """
        ).map { try $0.text("message") }
    }

    /// Chains the lines of decisions that were made while another session held the end of the chain. Returns how many
    /// still wait; a standby chains none.
    package static func settle(on connection: isolated PostgresConnection) throws -> Int {
        try connection.query(
            """
            -- name: settleAudit
            SELECT repricer.settle_audit() AS waiting
            """
        ).one().int("waiting")
    }

    /// The end of the chain.
    package static func head(
        on connection: isolated PostgresConnection
    ) throws -> AuditChain.Head {
        let row = try connection.query(
            """
            -- name: auditHead
            SELECT sequence, hash FROM repricer.audit_head
            """
        ).one()
        return try AuditChain.Head(sequence: row.int64("sequence"), hash: row.text("hash"))
    }

    /// The next lines after a number, of one object (such as `batch:ID`) or of all objects.
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
                // An infinite instant has no such text, and no line was ever stored with one.
                occurredAt: try row.textOrNil("occurred") ?? "",
                recordedAt: try row.textOrNil("recorded") ?? "",
                actor: try row.text("actor"), action: try row.text("action"),
                object: try row.text("object"), details: try row.text("details"),
                previousHash: try row.text("previous_hash"), hash: try row.text("hash"))
        }
    }

    /// Recomputes the whole chain, and looks for the line of each decision. It must run in a transaction that reads one
    /// snapshot.
    package static func verify(
        kept: AuditChain.Head?, on connection: isolated PostgresConnection,
        reporting: (_ done: Int64, _ total: Int64) -> Void = { _, _ in }
    ) throws -> AuditChain {
        let end = try head(on: connection)
        var chain = AuditChain(kept: kept, lastSequence: end.sequence ?? 0)
        var last = Int64.min
        while true {
            let lines = try page(after: last, on: connection)
            for line in lines { chain.add(line) }
            reporting(Int64(chain.lineCount), end.sequence ?? 0)
            guard let newest = lines.last, lines.count == linesPerPage else { break }
            last = newest.sequence
        }
        chain.finish(stored: end)
        let untraced = try untraced(on: connection) + untracedHistories(on: connection)
        // An object that was already named is not named again.
        let objects = Set(untraced.map { $0.prefix { $0 != " " } })
        let altered = try AuditedContentQueries.altered(on: connection).filter { line in
            !objects.contains(line.prefix { $0 != " " })
        }
        for message in try untraced + altered + AuditedContentQueries.gone(on: connection) {
            chain.noteUntraced(message)
        }
        return chain
    }
}
