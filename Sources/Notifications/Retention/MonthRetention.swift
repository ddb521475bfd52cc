package import Postgres

/// What else goes by the month, whole partitions of it: each rule with the tables that it drops.
package enum RetentionRule: String, CaseIterable, Sendable {
    /// Decoded statements; checkpoints stand for them.
    case statements
    /// Lines of the history of changes; what came of each stays in its row.
    case history
    /// What was known before something replaced it: reports of an earlier past are refused.
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
    /// Those that end at `before` (UTC milliseconds) or earlier, oldest first.
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

    /// Drops it, and says until when its rule has dropped. To be called in a transaction. False where a statement of
    /// it came meanwhile that no checkpoint stands for.
    ///
    /// The lock keeps writers and readers out for the moment of the look and the drop; it is waited for half a second
    /// (`lockNotAvailable`), since they queue behind the wait.
    package static func drop(
        _ month: OldMonth, before: Int64, on connection: isolated PostgresConnection
    ) throws -> Bool {
        try MonthRetentionQueries.lock(month.table, on: connection)
        if month.rule == .statements {
            let late = try StatementRetentionQueries.uncovered(before: before, on: connection)
            guard late.isEmpty else { return false }
        }
        let name = try MonthPartitions.quoted(month.partition, of: month.table, on: connection)
        // Another one may have been faster.
        if let name { try MonthRetentionQueries.drop(name, on: connection) }
        try MonthRetentionQueries.note(month.rule, before: before, on: connection)
        return true
    }

    /// What stands in no month of its own goes a few rows at a time; returns how many went. Statements and history of no
    /// month stay: checkpoints take the former out themselves.
    package static func dropStrays(
        of rule: RetentionRule, before: Int64, limit: Int,
        on connection: isolated PostgresConnection
    ) throws -> Int {
        guard rule == .versions else { return 0 }
        return try rule.tables.reduce(0) { sum, table in
            try sum
                + MonthRetentionQueries.dropStrayVersions(
                    of: table, before: before, limit: limit, on: connection)
        }
    }
}

/// Rows that leave a few at a time, since their table has keys that no month can hold: their pages are used again.
package enum OldRows: String, CaseIterable, Sendable {
    /// Calls that were settled, of changes and extensions that ended; of a cancellation they stay, since folds ask for them.
    case calls
    /// Status checks that were done.
    case statusChecks = "status_checks"
    /// Statements that came too late.
    case overdue

    /// Deletes at most `limit`; returns how many.
    package func delete(
        before: Int64, limit: Int, on connection: isolated PostgresConnection
    ) throws -> Int {
        try MonthRetentionQueries.delete(self, before: before, limit: limit, on: connection)
    }

    /// How many would go.
    package func count(
        before: Int64, on connection: isolated PostgresConnection
    ) throws -> Int {
        try MonthRetentionQueries.count(self, before: before, on: connection)
    }
}
