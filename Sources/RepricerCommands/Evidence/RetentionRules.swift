import Notifications
import Postgres
import Pricing
import ServiceKit

/// What retention does besides the evidence: it drops statements, history and versions by the month, and deletes rows
/// of the few tables that have no months.
struct RuleRun {
    private enum What: String {
        case dropped
        case wouldDrop = "would_drop"
        case kept
    }

    private struct Outcome {
        let month: OldMonth
        let what: What
    }

    /// How many rows one transaction deletes.
    private static let rowsMax = 1000
    /// How often it waits for a table's lock, half a second each time.
    private static let attemptsMax = 4

    /// The first instant of the month that is still kept whole, in UTC milliseconds.
    private let before: Int64
    private let isDry: Bool
    private let end: ContinuousClock.Instant
    private var outcomes: [Outcome] = []
    private var statements = StatementRetention.Counts()
    private var rows: [(rows: OldRows, count: Int)] = []
    private(set) var isComplete = true

    init(horizon: Int64, isDry: Bool, end: ContinuousClock.Instant) {
        before = Instant(milliseconds: horizon).startOfMonth.milliseconds
        self.isDry = isDry
        self.end = end
    }

    private var isTimeUp: Bool { ContinuousClock.now >= end }

    mutating func run(_ pool: PostgresPool) async throws {
        let before = before
        if !isDry { try await coverStatements(pool) }
        for rule in RetentionRule.allCases where rule != .statements || isDry || isComplete {
            let months = try await pool.withTransaction {
                try MonthRetention.candidates(of: rule, before: before, on: $0)
            }
            for month in months {
                outcomes.append(Outcome(month: month, what: try await drop(month, pool)))
            }
            while !isDry, !isTimeUp {
                let gone = try await pool.withTransaction {
                    try MonthRetention.dropStrays(
                        of: rule, before: before, limit: Self.rowsMax, on: $0)
                }
                if gone == 0 { break }
            }
        }
        for old in OldRows.allCases { rows.append((old, try await leave(old, pool))) }
    }

    /// Replaces statements by checkpoints. Their months are dropped only once a checkpoint replaces all of them.
    private mutating func coverStatements(_ pool: PostgresPool) async throws {
        let retention = StatementRetention(before: before, pool: pool)
        let end = end
        statements = try await retention.run { ContinuousClock.now >= end }
        isComplete = statements.isComplete
        guard isComplete else { return }
        let late = try await retention.coverLateOnes()
        statements.covered += late.covered
        statements.carried += late.carried
    }

    private func drop(_ month: OldMonth, _ pool: PostgresPool) async throws -> What {
        if isDry { return .wouldDrop }
        for attempt in 1...Self.attemptsMax {
            do {
                let isDropped = try await pool.withTransaction { [before] in
                    try MonthRetention.drop(month, before: before, on: $0)
                }
                return isDropped ? .dropped : .kept
            } catch let error as PostgresError
                where error.sqlState == .lockNotAvailable && attempt < Self.attemptsMax
            {
                // Writers that queued behind us go first.
                await Task.yield()
            }
        }
        return .kept
    }

    /// How many rows were deleted, or would be.
    private func leave(_ old: OldRows, _ pool: PostgresPool) async throws -> Int {
        let before = before
        guard !isDry else {
            return try await pool.withTransaction { try old.count(before: before, on: $0) }
        }
        var count = 0
        while !isTimeUp {
            let gone = try await pool.withTransaction {
                try old.delete(before: before, limit: Self.rowsMax, on: $0)
            }
            if gone == 0 { break }
            count += gone
        }
        return count
    }

    func json() -> JSONValue {
        [
            "rules_before": before.instantText, "rules": outcomes.json(Self.columns),
            "subscriptions_covered": statements.covered,
            "subscriptions_carried": statements.carried, "is_complete": isComplete,
            "rows": JSONValue.counts(rows.map { ($0.rows.rawValue, Int64($0.count)) }),
        ]
    }

    func text() -> String {
        var text = outcomes.isEmpty ? "" : "\n" + outcomes.table(Self.columns)
        if !isDry {
            text +=
                "\n\(statements.covered) subscriptions have a checkpoint, "
                + "\(statements.carried) keep their statements\n"
        }
        for (old, count) in rows where count > 0 {
            let name = old.rawValue.replacing("_", with: " ")
            text += "\(count) \(name) \(isDry ? "would leave" : "left")\n"
        }
        return text
    }

    private static let columns: [Column<Outcome>] = [
        .text("RULE", "rule") { $0.month.rule.rawValue },
        .text("PARTITION", "partition") { $0.month.partition.name },
        .number("BYTES", "bytes") { $0.month.partition.bytes },
        .key("outcome") { $0.what.rawValue },
        .shown(.left("OUTCOME")) { $0.what.rawValue.replacing("_", with: " ") },
    ]
}
