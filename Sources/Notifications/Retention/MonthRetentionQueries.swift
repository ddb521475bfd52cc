import Postgres

enum MonthRetentionQueries {
    static func lock(
        _ table: MonthPartitions.Table, on connection: isolated PostgresConnection
    ) throws {
        try connection.script(
            """
            SET LOCAL lock_timeout = '500ms';
            LOCK TABLE repricer.\(table.rawValue) IN ACCESS EXCLUSIVE MODE;
            """)
    }

    /// - Parameter partition: The quoted name.
    static func drop(_ partition: String, on connection: isolated PostgresConnection) throws {
        try connection.script("DROP TABLE repricer.\(partition)")
    }

    static func note(
        _ rule: RetentionRule, before: Int64, on connection: isolated PostgresConnection
    ) throws {
        _ = try connection.execute(
            """
            -- name: noteRetention
            INSERT INTO repricer.retention_floors AS f (rule, dropped_before)
            VALUES (\(rule.rawValue), \(timestamp: before))
            ON CONFLICT (rule) DO UPDATE SET dropped_before = greatest(f.dropped_before, excluded.dropped_before),
                dropped_at = excluded.dropped_at, dropped_by = excluded.dropped_by
            """)
    }

    static func dropStrayVersions(
        of table: MonthPartitions.Table, before: Int64, limit: Int,
        on connection: isolated PostgresConnection
    ) throws -> Int {
        let strays: SQL = "repricer.\(unsafe: table.rawValue)_default"
        return try connection.execute(
            """
            -- name: dropStrayVersions
            DELETE FROM \(fragment: strays) WHERE ctid = ANY (ARRAY(
                SELECT ctid FROM \(fragment: strays) WHERE recorded_until < \(timestamp: before) LIMIT \(limit)))
            """)
    }

    static func delete(
        _ rows: OldRows, before: Int64, limit: Int, on connection: isolated PostgresConnection
    ) throws -> Int {
        let table = Self.table(of: rows)
        let keys = Self.key(of: rows)
        return try connection.execute(
            """
            -- name: deleteOldRows
            DELETE FROM \(fragment: table) o USING (
                SELECT bucket, \(unsafe: keys) FROM \(fragment: table) r
                WHERE \(fragment: condition(of: rows, before: before)) LIMIT \(limit)
            ) old
            WHERE o.bucket = old.bucket AND (\(unsafe: prefixed(keys, by: "o"))) = (\(unsafe: prefixed(keys, by: "old")))
                AND \(fragment: condition(of: rows, before: before, alias: "o"))
            """)
    }

    static func count(
        _ rows: OldRows, before: Int64, on connection: isolated PostgresConnection
    ) throws -> Int {
        try connection.query(
            """
            -- name: countOldRows
            SELECT count(*) AS count FROM \(fragment: table(of: rows)) r
            WHERE \(fragment: condition(of: rows, before: before))
            """
        ).one().int("count")
    }

    private static func table(of rows: OldRows) -> SQL {
        switch rows {
        case .calls: "repricer.store_calls"
        case .statusChecks: "repricer.status_checks"
        case .overdue: "repricer.overdue_statements"
        }
    }

    private static func key(of rows: OldRows) -> String {
        switch rows {
        case .calls: "subject, call_id"
        case .statusChecks: "original_transaction_id, reason, list_id"
        case .overdue: "original_transaction_id, signed_at, evidence_id"
        }
    }

    private static func prefixed(_ columns: String, by alias: String) -> String {
        columns.split(separator: ", ").map { "\(alias).\($0)" }.joined(separator: ", ")
    }

    private static func condition(
        of rows: OldRows, before: Int64, alias: String = "r"
    ) -> SQL {
        let old: SQL = "\(timestamp: before)::timestamptz"
        return switch rows {
        case .calls:
            // A change that is still open may be folded by what its call said of dependents.
            """
            \(unsafe: alias).kind IN ('price_change', 'extension') AND \(unsafe: alias).settled_at < \(fragment: old)
                AND NOT \(unsafe: alias).is_doubtful AND NOT EXISTS (
                    SELECT FROM repricer.price_changes c
                    WHERE c.original_transaction_id = \(unsafe: alias).subject AND c.bucket = \(unsafe: alias).bucket
                        AND c.change_id = ANY (\(unsafe: alias).carries)
                        AND (c.ended_at IS NULL AND c.effective_at IS NULL
                            OR coalesce(c.ended_at, c.effective_at) >= \(fragment: old)))
            """
        case .statusChecks: "\(unsafe: alias).done_at < \(fragment: old)"
        case .overdue: "\(unsafe: alias).recorded_at < \(fragment: old)"
        }
    }
}
