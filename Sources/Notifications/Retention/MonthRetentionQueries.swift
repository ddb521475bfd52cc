import Facts
import Postgres

enum MonthRetentionQueries {
    static func lock(
        _ table: MonthPartitions.Table, on connection: isolated PostgresConnection
    ) throws {
        try connection.script(
            """
            SET LOCAL lock_timeout = '500ms';
            LOCK TABLE repricer.\(table.rawValue) IN ACCESS EXCLUSIVE MODE;
            \(ServiceControlQueries.allowingThisProgram)
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

    /// Deletes about `limit` of the first rows. A spread database cannot find rows by `ctid`, and needs a separate
    /// statement to check the program.
    static func dropStrayVersions(
        of table: MonthPartitions.Table, before: Int64, limit: Int,
        on connection: isolated PostgresConnection
    ) throws -> Int {
        let strays: SQL = "repricer.\(unsafe: table.rawValue)_default"
        let last = try connection.query(
            """
            -- name: lastStrayVersion
            SELECT recorded_until AS instant FROM \(fragment: strays) WHERE recorded_until < \(timestamp: before)
            ORDER BY 1 OFFSET \(limit - 1) LIMIT 1
            """
        ).oneOrNil()?.milliseconds("instant")
        // The instant is cut to a millisecond, so the step ends with the millisecond in which it lies.
        let until = last.map { min($0 + 1, before) } ?? before
        try connection.script(ServiceControlQueries.allowingThisProgram)
        return try connection.execute(
            """
            -- name: dropStrayVersions
            DELETE FROM \(fragment: strays) WHERE recorded_until < \(timestamp: until)
            """)
    }

    /// The instant of the row with which a step ends; nil where fewer than `limit` are left.
    static func last(
        _ rows: OldRows, of span: Range<Int64>, limit: Int,
        on connection: isolated PostgresConnection
    ) throws -> Int64? {
        let instant: SQL = "r.\(unsafe: instant(of: rows))"
        return try connection.query(
            """
            -- name: lastOldRow
            SELECT \(fragment: instant) AS instant FROM \(fragment: table(of: rows)) r
            WHERE \(fragment: isOld(rows)) AND \(fragment: instant) >= \(timestamp: span.lowerBound)
                AND \(fragment: instant) < \(timestamp: span.upperBound)
            ORDER BY 1 OFFSET \(limit - 1) LIMIT 1
            """
        ).oneOrNil()?.milliseconds("instant")
    }

    static func delete(
        _ rows: OldRows, of span: Range<Int64>, before: Int64,
        on connection: isolated PostgresConnection
    ) throws -> Int {
        let instant: SQL = "r.\(unsafe: instant(of: rows))"
        try connection.script(ServiceControlQueries.allowingThisProgram)
        return try connection.execute(
            """
            -- name: deleteOldRows
            DELETE FROM \(fragment: table(of: rows)) r
            WHERE \(fragment: instant) >= \(timestamp: span.lowerBound) AND \(fragment: instant) < \(timestamp: span.upperBound)
                AND \(fragment: isOld(rows)) AND \(fragment: mayGo(rows, before: before))
            """)
    }

    static func count(
        _ rows: OldRows, before: Int64, on connection: isolated PostgresConnection
    ) throws -> Int {
        try connection.query(
            """
            -- name: countOldRows
            SELECT count(*) AS count FROM \(fragment: table(of: rows)) r
            WHERE r.\(unsafe: instant(of: rows)) < \(timestamp: before) AND \(fragment: isOld(rows))
                AND \(fragment: mayGo(rows, before: before))
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

    /// The column that says how old a row is. An index leads with it.
    private static func instant(of rows: OldRows) -> String {
        switch rows {
        case .calls: "settled_at"
        case .statusChecks: "done_at"
        case .overdue: "recorded_at"
        }
    }

    /// The condition of that index.
    private static func isOld(_ rows: OldRows) -> SQL {
        switch rows {
        case .calls: "r.kind IN ('price_change', 'extension') AND NOT r.is_doubtful"
        case .statusChecks: "r.done_at IS NOT NULL"
        case .overdue: "true"
        }
    }

    private static func mayGo(_ rows: OldRows, before: Int64) -> SQL {
        guard rows == .calls else { return "true" }
        let old: SQL = "\(timestamp: before)::timestamptz"
        // A fold of an open change may still need which dependents its call named.
        return """
            NOT EXISTS (
                SELECT FROM repricer.price_changes c
                WHERE c.original_transaction_id = r.subject AND c.bucket = r.bucket
                    AND c.change_id = ANY (r.carries)
                    AND (c.ended_at IS NULL AND c.effective_at IS NULL
                        OR coalesce(c.ended_at, c.effective_at) >= \(fragment: old)))
            """
    }
}
