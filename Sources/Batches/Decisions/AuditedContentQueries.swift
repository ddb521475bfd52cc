import Postgres

/// Compares stored content with what the audit trail says of it, by digests, because counts would not show a changed
/// price or rate.
enum AuditedContentQueries {
    /// Batches that ask for something else than was submitted, as another price, item or guard, or other rows held out,
    /// and those that others approved first; rules, past increases and closed months with other contents; and other limits.
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
        return try found + otherFirstApprovals(on: connection) + otherLimits(on: connection)
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

    /// Limits of approvers that differ from what the newest line about them says, and default limits that differ from
    /// that or, where no line is about them, from those that are shipped.
    private static func otherLimits(
        on connection: isolated PostgresConnection
    ) throws -> [String] {
        try connection.query(
            """
            -- name: otherLimits
            WITH newest AS (
                SELECT DISTINCT ON (t.object, is_of_all) t.object, t.action = 'set_default_limits' AS is_of_all,
                    CASE WHEN t.action <> 'drop_limit' THEN t.details::jsonb END AS limits
                FROM repricer.audit_trail t WHERE t.action IN ('set_limit', 'drop_limit', 'set_default_limits')
                ORDER BY t.object, is_of_all, t.sequence DESC
            ), said AS (
                SELECT * FROM newest
                UNION ALL
                -- As 0009_approval.sql ships them.
                SELECT 'approver:everyone', true, jsonb_build_object(
                    'max_rise_basis_points', 10000, 'max_fall_basis_points', round(20000 / 3.0, 6))
                WHERE NOT EXISTS (SELECT FROM newest WHERE is_of_all)
            ), stored AS (
                SELECT 'approver:' || l.approver AS object, false AS is_of_all, jsonb_build_object(
                    'max_rows', l.max_rows, 'max_basis_points', l.max_basis_points,
                    'max_monthly_milliunits', l.max_monthly_milliunits, 'needs_first', l.needs_first) AS limits
                FROM repricer.approval_limits l
                UNION ALL
                SELECT 'approver:everyone', true, jsonb_build_object(
                    'max_rise_basis_points', d.max_rise_basis_points, 'max_fall_basis_points', d.max_fall_basis_points)
                FROM repricer.default_limits d
            )
            SELECT coalesce(s.object, n.object) || CASE
                WHEN s.limits IS NULL THEN ': a line sets limits that are not stored'
                WHEN n.limits IS NULL THEN ': has limits that no line sets'
                ELSE ': has other limits than the newest line says' END AS message
            FROM stored s FULL JOIN said n ON n.object = s.object AND n.is_of_all = s.is_of_all
            -- What is not limited is null, or left out.
            WHERE jsonb_strip_nulls(s.limits) IS DISTINCT FROM jsonb_strip_nulls(n.limits) ORDER BY 1
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
