package import Postgres

/// The other data that is dropped by whole months, each rule with its tables.
package enum RetentionRule: String, CaseIterable, Sendable {
    /// The decoded statements, which checkpoints replace.
    case statements
    /// The lines of the history of changes. The outcome of each change stays in its row.
    case history
    /// The former versions of rows. Reports of an earlier past are refused afterwards.
    case versions

    var tables: [MonthPartitions.Table] {
        switch self {
        case .statements: [.statements]
        case .history: [.history]
        case .versions:
            [.statementVersions, .chargeVersions, .changeVersions, .cancellationVersions]
        }
    }
}

/// One month of a table that is older than its rule keeps.
package struct OldMonth: Hashable, Sendable {
    package var rule: RetentionRule
    package var table: MonthPartitions.Table
    package var partition: MonthPartitions.Partition
}

package enum MonthRetention {
    /// The months that end at `before` (UTC milliseconds) or earlier, the oldest first.
    package static func candidates(
        of rule: RetentionRule, before: Int64, on connection: isolated PostgresConnection
    ) throws -> [OldMonth] {
        try rule.tables.flatMap { table in
            try MonthPartitions.all(of: table, on: connection).compactMap { partition in
                guard let months = partition.months, months.upperBound <= before else { return nil }
                return OldMonth(rule: rule, table: table, partition: partition)
            }
        }
    }

    /// Drops a month in the caller's transaction, and notes how far its rule has dropped. Returns false where a
    /// statement of that month arrived meanwhile that no checkpoint replaces.
    ///
    /// A lock keeps writers and readers out while it checks and drops. It waits half a second for the lock (then throws
    /// `lockNotAvailable`), because they queue behind the wait.
    package static func drop(
        _ month: OldMonth, before: Int64, on connection: isolated PostgresConnection
    ) throws -> Bool {
        try MonthRetentionQueries.lock(month.table, on: connection)
        if month.rule == .statements {
            let late = try StatementRetentionQueries.uncovered(before: before, on: connection)
            guard late.isEmpty else { return false }
        }
        let name = try MonthPartitions.quoted(month.partition, of: month.table, on: connection)
        // Another process may have dropped it already.
        if let name { try MonthRetentionQueries.drop(name, on: connection) }
        try MonthRetentionQueries.note(month.rule, before: before, on: connection)
        return true
    }

    /// Deletes a few rows of the default partition at a time, and returns how many. Statements and history there
    /// stay, because checkpoints take the former out themselves.
    package static func dropStrays(
        of rule: RetentionRule, before: Int64, limit: Int,
        on connection: isolated PostgresConnection
    ) throws -> Int {
        guard rule == .versions else { return 0 }
        let gone = try rule.tables.reduce(0) { sum, table in
            try sum
                + MonthRetentionQueries.dropStrayVersions(
                    of: table, before: before, limit: limit, on: connection)
        }
        // Some months may stay because another session holds them, but a report of their time would still lack these
        // rows.
        if gone > 0 { try MonthRetentionQueries.note(rule, before: before, on: connection) }
        return gone
    }
}

/// Rows that are deleted a few at a time, because their table has unique keys that a monthly partition could not
/// enforce. Their pages are reused.
package enum OldRows: String, CaseIterable, Sendable {
    /// Settled calls of changes and extensions that have ended. Calls of cancellations stay, because folds read them.
    case calls
    /// Status checks that were done.
    case statusChecks = "status_checks"
    /// Statements that arrived after their checkpoint.
    case overdue

    /// All instants of rows that are old enough (UTC milliseconds).
    package static func all(before: Int64) -> Range<Int64> { 0..<max(0, before) }

    /// Deletes the first rows of the span, about `limit`. Rows that must stay are skipped, and the next step starts
    /// after them, so that a whole run reads each old row only once.
    package func delete(
        of span: Range<Int64>, before: Int64, limit: Int, on connection: isolated PostgresConnection
    ) throws -> DeletedSpan {
        let last = try MonthRetentionQueries.last(self, of: span, limit: limit, on: connection)
        let (step, left) = DeletedSpan.split(span, afterMillisecond: last)
        let count = try MonthRetentionQueries.delete(
            self, of: step, before: before, on: connection)
        return DeletedSpan(count: count, left: left)
    }

    /// How many rows would be deleted.
    package func count(
        before: Int64, on connection: isolated PostgresConnection
    ) throws -> Int {
        try MonthRetentionQueries.count(self, before: before, on: connection)
    }
}
