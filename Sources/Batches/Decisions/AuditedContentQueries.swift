import Postgres

/// Compares stored content with what the audit trail says of it, by digests, because counts would not show a changed
/// price or rate.
enum AuditedContentQueries {
    /// Batches that ask for something else than was submitted, as another price, item or guard, or other rows held out,
    /// and those that others approved first; rules, past increases and closed months with other contents.
    static func altered(on connection: isolated PostgresConnection) throws -> [String] {
        let submitted = try lines(
            connection.query(
                """
                -- name: submittedDigests
                SELECT t.object, b.batch_id::text AS key, t.details ->> 'batch_sha256' AS digest FROM repricer.batches b
                JOIN repricer.audit_trail t ON t.object = 'batch:' || b.batch_id AND t.action = 'submit'
                WHERE b.state <> 'submitting' ORDER BY b.batch_id
                """))
        let rules = try lines(
            connection.query(
                """
                -- name: importedRulesDigests
                SELECT t.object, i.revision::text AS key, t.details ->> 'rules_sha256' AS digest FROM repricer.rule_imports i
                JOIN repricer.audit_trail t ON t.object = 'rules:' || i.revision AND t.action = 'import_rules'
                ORDER BY i.revision
                """))
        let histories = try lines(
            connection.query(
                """
                -- name: importedHistoryDigests
                SELECT t.object, h.number::text AS key, t.details ->> 'history_sha256' AS digest FROM repricer.history_imports h
                JOIN repricer.audit_trail t ON t.object = 'history:' || h.number AND t.action = 'import_history'
                ORDER BY h.number
                """))
        let months = try lines(
            connection.query(
                """
                -- name: closedMonthDigests
                SELECT t.object, m.month::text AS key, t.details ->> 'figures_sha256' AS digest FROM repricer.closed_months m
                JOIN repricer.audit_trail t ON t.object = 'month:' || to_char(m.month, 'YYYY-MM') AND t.action = 'close_month'
                ORDER BY m.month
                """))
        // Each digest is a statement of its own. In a query over spread tables the functions would run on the nodes,
        // where they cannot read other rows.
        let found =
            try submitted.filter {
                try $0.digest != digest("batch_sha256(\(uuid: $0.key))", on: connection)
            }
            .map { "\($0.object): asks for something else than was submitted" }
            + rules.filter {
                try $0.digest != digest("rules_sha256(\($0.key)::integer)", on: connection)
            }
            .map { "\($0.object): hold something else than was imported" }
            + histories.filter {
                try $0.digest != digest("history_sha256(\($0.key)::integer)", on: connection)
            }
            .map { "\($0.object): holds something else than was imported" }
            + months.filter {
                try $0.digest != digest("closed_month_sha256(\($0.key)::date)", on: connection)
            }
            .map { "\($0.object): has other figures than when it was closed" }
        return try found + otherFirstApprovals(on: connection)
    }

    private typealias Line = (object: String, key: String, digest: String?)

    private static func lines(_ rows: Rows) throws -> [Line] {
        try rows.map { row in
            (
                object: try row.text("object"), key: try row.text("key"),
                digest: try row.textOrNil("digest")
            )
        }
    }

    private static func digest(_ call: SQL, on connection: isolated PostgresConnection) throws
        -> String?
    {
        try connection.query(
            """
            -- name: digestOfContent
            SELECT repricer.\(fragment: call) AS digest
            """
        ).one().textOrNil("digest")
    }

    private static func otherFirstApprovals(
        on connection: isolated PostgresConnection
    ) throws -> [String] {
        try connection.query(
            """
            -- name: otherFirstApprovals
            SELECT 'batch:' || f.batch_id || ': no line says that ' || f.approver || ' approved it first' AS message
            FROM repricer.first_approvals f
            WHERE NOT EXISTS (
                SELECT FROM repricer.audit_trail d
                WHERE d.action = 'approve_first' AND d.object = 'batch:' || f.batch_id
                    AND d.actor = f.approver AND d.occurred_at = f.approved_at)
            UNION ALL
            SELECT d.object || ': nothing stored says that ' || d.actor || ' approved it first'
            FROM repricer.audit_trail d
            WHERE d.action = 'approve_first' AND d.object LIKE 'batch:%' AND NOT EXISTS (
                SELECT FROM repricer.first_approvals f
                WHERE d.object = 'batch:' || f.batch_id AND d.actor = f.approver
                    AND d.occurred_at = f.approved_at)
            ORDER BY 1
            """
        ).map { try $0.text("message") }
    }

    /// What a line records but is not stored any more, and months that were closed differently from what a line says.
    /// The product never deletes any of it.
    static func gone(on connection: isolated PostgresConnection) throws -> [String] {
        try connection.query(
            """
            -- name: decisionsThatAreGone
            WITH stored AS (
                SELECT 'submit' AS action, 'batch:' || batch_id AS object FROM repricer.batches
                UNION ALL SELECT 'submit', 'extension:' || extension_id FROM repricer.mass_extensions
                UNION ALL SELECT 'import_rules', 'rules:' || revision FROM repricer.rule_imports
                UNION ALL SELECT 'import_history', 'history:' || number FROM repricer.history_imports
                UNION ALL SELECT 'close_month', 'month:' || to_char(month, 'YYYY-MM') FROM repricer.closed_months
            )
            SELECT t.object || ': a line tells of it, and it is not stored any more' AS message
            FROM repricer.audit_trail t
            WHERE t.action IN ('submit', 'import_rules', 'import_history', 'close_month')
                AND NOT EXISTS (SELECT FROM stored s WHERE s.action = t.action AND s.object = t.object)
            UNION ALL
            SELECT 'month:' || to_char(m.month, 'YYYY-MM') || ': no line says that it was closed by that person, at that instant'
            FROM repricer.closed_months m
            WHERE NOT EXISTS (
                SELECT FROM repricer.audit_trail t
                WHERE t.action = 'close_month' AND t.object = 'month:' || to_char(m.month, 'YYYY-MM')
                    AND t.actor = m.closed_by::text AND t.occurred_at = m.closed_at)
            ORDER BY 1
            """
        ).map { try $0.text("message") }
    }
}
