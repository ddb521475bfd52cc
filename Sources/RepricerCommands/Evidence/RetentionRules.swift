import Notifications
import Postgres
import Pricing
import ServiceKit

/// The part of retention besides the evidence: it drops statements, history and versions by month, and deletes rows of
/// the few tables without monthly partitions.
struct RuleRun {
    private struct Outcome {
        let month: OldMonth
        var fate: MonthFate
    }

    /// How many rows one transaction deletes.
    private static let rowsMax = 1000
    /// Checkpoints get three quarters of the time, so that old rows are deleted too while checkpoints need many nights.
    private static let coverQuarters = 3

    /// The first instant of the month that is still kept whole, in UTC milliseconds.
    private let before: Int64
    private let isDry: Bool
    private let coverEnd: ContinuousClock.Instant
    private let end: ContinuousClock.Instant
    private var outcomes: [Outcome] = []
    private var statements = StatementRetention.Counts()
    private var rows: [(rows: OldRows, count: Int)] = []
    private(set) var isComplete = true

    init(
        horizon: Int64, isDry: Bool, start: ContinuousClock.Instant, end: ContinuousClock.Instant
    ) {
        before = Instant(milliseconds: horizon).startOfMonth.milliseconds
        self.isDry = isDry
        self.end = end
        coverEnd = start + (end - start) * Self.coverQuarters / 4
    }

    /// Whether a later attempt may do more.
    var isHeldUp: Bool { outcomes.contains { $0.fate == .heldUp } }
    var hasKept: Bool { isHeldUp || outcomes.contains { $0.fate == .kept } }

    private var isTimeUp: Bool { ContinuousClock.now >= end }

    mutating func run(_ pool: PostgresPool) async throws {
        let before = before
        if !isDry { try await coverStatements(pool) }
        for rule in RetentionRule.allCases where rule != .statements || isDry || isComplete {
            let months = try await pool.withTransaction {
                try MonthRetention.candidates(of: rule, before: before, on: $0)
            }
            for month in months {
                // All months of a table need the same lock, so after one has failed to get it, the others need not try.
                let attempts = isHeldUp(month.table) ? 0 : MonthLock.attemptsMax
                let fate = try await fate(of: month, attempts, pool)
                outcomes.append(Outcome(month: month, fate: fate))
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

    private func isHeldUp(_ table: MonthPartitions.Table) -> Bool {
        outcomes.contains { $0.month.table == table && $0.fate == .heldUp }
    }

    /// Tries again what other sessions held, once for each table.
    mutating func tryAgain(_ pool: PostgresPool) async throws {
        var busy: Set<MonthPartitions.Table> = []
        for index in outcomes.indices where outcomes[index].fate == .heldUp {
            let month = outcomes[index].month
            guard !busy.contains(month.table) else { continue }
            outcomes[index].fate = try await fate(of: month, 1, pool)
            if outcomes[index].fate == .heldUp { busy.insert(month.table) }
        }
    }

    /// Replaces statements by checkpoints. Their months are dropped only once a checkpoint replaces all of them.
    private mutating func coverStatements(_ pool: PostgresPool) async throws {
        let retention = StatementRetention(before: before, pool: pool)
        let end = coverEnd
        statements = try await retention.run { ContinuousClock.now >= end }
        isComplete = statements.isComplete
        guard isComplete else { return }
        let late = try await retention.coverLateOnes()
        statements.covered += late.covered
        statements.carried += late.carried
    }

    private func fate(
        of month: OldMonth, _ attempts: Int, _ pool: PostgresPool
    ) async throws -> MonthFate {
        if isDry { return .wouldDrop }
        let before = before
        let isDropped = try await MonthLock.patiently(attempts: attempts) {
            try await pool.withTransaction {
                try MonthRetention.drop(month, before: before, on: $0)
            }
        }
        return isDropped.map { $0 ? .dropped : .kept } ?? .heldUp
    }

    /// How many rows were deleted, or would be.
    private func leave(_ old: OldRows, _ pool: PostgresPool) async throws -> Int {
        let before = before
        guard !isDry else {
            return try await pool.withTransaction { try old.count(before: before, on: $0) }
        }
        var count = 0
        var left: Range<Int64>? = OldRows.all(before: before)
        while let next = left, !isTimeUp {
            let step = try await pool.withTransaction {
                try old.delete(of: next, before: before, limit: Self.rowsMax, on: $0)
            }
            count += step.count
            left = step.left
        }
        return count
    }

    // MARK: What is told

    func keptLines() -> [String] {
        outcomes.compactMap { outcome in
            let name = outcome.month.partition.name
            switch outcome.fate {
            case .dropped, .wouldDrop: return nil
            case .heldUp: return MonthFate.heldUpLine(name)
            case .kept:
                return
                    "\(name) stays: a statement of it came meanwhile; the next run goes on with it"
            }
        }
    }

    func json() -> JSONValue {
        [
            "rules_before": before.instantText, "rules": outcomes.json(Self.columns),
            "subscriptions_covered": statements.covered,
            "subscriptions_carried": statements.carried, "is_complete": isComplete,
            "rows": JSONValue.counts(rows.map { ($0.rows.rawValue, Int64($0.count)) }),
        ]
    }

    var isEmpty: Bool { outcomes.isEmpty && rows.allSatisfy { $0.count == 0 } }

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
        .key("outcome") { $0.fate.name },
        .shown(.left("OUTCOME")) { $0.fate.name.replacing("_", with: " ") },
    ]
}
