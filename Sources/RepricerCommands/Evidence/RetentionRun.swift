import Notifications
import Postgres
import Pricing
import ServiceKit

/// The lock that dropping a month needs. It excludes all others, and writers queue behind the wait for it, so it waits
/// only half a second.
enum MonthLock {
    /// How often a table is tried in a row.
    static let attemptsMax = 4
    /// The time between later attempts, each of which tries every table once.
    static let pause: Duration = .seconds(60)

    /// Returns nil where a reader or writer held the table all the time. Writers that queued behind an attempt get
    /// their turn before the next one.
    static func patiently<T: Sendable>(
        attempts: Int, _ body: () async throws -> T
    ) async throws -> T? {
        for _ in 0..<attempts {
            do {
                return try await body()
            } catch let error as PostgresError where error.sqlState == .lockNotAvailable {
                await Task.yield()
            }
        }
        return nil
    }
}

/// The outcome for a month.
enum MonthFate: Hashable {
    case dropped
    case wouldDrop
    /// Something of it is still needed.
    case kept
    /// Another session held its table.
    case heldUp

    var name: String {
        switch self {
        case .dropped: "dropped"
        case .wouldDrop: "would_drop"
        case .kept, .heldUp: "kept"
        }
    }

    static func heldUpLine(_ partition: String) -> String {
        "\(partition) stays: its table was in use all the time, by a backup or a long report; the next run tries again"
    }
}

/// One run over the evidence: what to do, and what was done.
struct RetentionRun {
    fileprivate struct Outcome {
        let candidate: EvidenceRetention.Candidate
        var fate: MonthFate
    }

    /// How many ids one transaction forgets.
    private static let idsMax = 1000

    /// Partitions that end at this instant or before are dropped (UTC milliseconds).
    private let horizon: Int64
    private let isDry: Bool
    private var strays: [EvidenceRetention.Stray] = []
    private var areStraysHeldUp = false
    private var outcomes: [Outcome] = []
    private var forgotten = 0

    init(horizon: Int64, isDry: Bool) {
        self.horizon = horizon
        self.isDry = isDry
    }

    var isEmpty: Bool { outcomes.isEmpty }
    /// Whether a later attempt may do more.
    var isHeldUp: Bool { areStraysHeldUp || outcomes.contains { $0.fate == .heldUp } }
    var hasKept: Bool { isHeldUp || outcomes.contains { $0.fate == .kept } }

    /// Drops the months. A month that another session holds is left, so that it does not delay the rest.
    mutating func run(_ pool: PostgresPool) async throws {
        strays = try await pool.withTransaction { try EvidenceRetention.strays(on: $0) }
        if !isDry { areStraysHeldUp = try await !settleStrays(pool, MonthLock.attemptsMax) }
        try await find(pool)
        try await dropMonths(pool, areStraysHeldUp ? 0 : MonthLock.attemptsMax)
    }

    /// Tries again what other sessions held.
    mutating func tryAgain(_ pool: PostgresPool, isTimeUp: () -> Bool) async throws {
        guard isHeldUp else { return }
        if areStraysHeldUp {
            areStraysHeldUp = try await !settleStrays(pool, 1)
            guard !areStraysHeldUp else { return }
            try await find(pool)
        }
        try await dropMonths(pool, 1)
        guard !isHeldUp else { return }
        try await forgetIDs(pool, isTimeUp: isTimeUp)
    }

    /// Finds the months that it does not know yet. Each counts as held until it was tried.
    private mutating func find(_ pool: PostgresPool) async throws {
        let horizon = horizon
        let candidates = try await pool.withTransaction { connection in
            try EvidenceRetention.candidates(before: horizon, on: connection)
        }
        let known = Set(outcomes.map(\.candidate.partition))
        outcomes += candidates.filter { !known.contains($0.partition) }
            .map { Outcome(candidate: $0, fate: .heldUp) }
    }

    /// All months need the lock of the same table, so after one has failed to get it, the others need not try.
    private mutating func dropMonths(_ pool: PostgresPool, _ attempts: Int) async throws {
        var attempts = attempts
        for index in outcomes.indices where outcomes[index].fate == .heldUp {
            let fate = try await fate(of: outcomes[index].candidate, attempts, pool)
            outcomes[index].fate = fate
            if fate == .heldUp { attempts = 0 }
        }
    }

    /// Makes a partition for every month of the default one, so that each can be dropped whole. Returns false where
    /// another session held the tables.
    private func settleStrays(_ pool: PostgresPool, _ attempts: Int) async throws -> Bool {
        for stray in strays {
            let done: Bool? = try await MonthLock.patiently(attempts: attempts) {
                _ = try await pool.withTransaction { connection in
                    try MonthPartitions.prepare(
                        .notifications, now: stray.month, monthsAhead: 0, on: connection)
                }
                return true
            }
            if done == nil { return false }
        }
        return true
    }

    private func fate(
        of candidate: EvidenceRetention.Candidate, _ attempts: Int, _ pool: PostgresPool
    ) async throws -> MonthFate {
        if candidate.waiting > 0 { return .kept }
        if isDry { return .wouldDrop }
        let isDropped = try await MonthLock.patiently(attempts: attempts) {
            try await pool.withTransaction { try EvidenceRetention.drop(candidate, on: $0) }
        }
        return isDropped.map { $0 ? .dropped : .kept } ?? .heldUp
    }

    /// Forgets the ids of the months that are gone, a few at a time.
    mutating func forgetIDs(_ pool: PostgresPool, isTimeUp: () -> Bool) async throws {
        let horizon = horizon
        let ranges = try await pool.withTransaction {
            try EvidenceRetention.goneRanges(before: horizon, on: $0)
        }
        for range in ranges {
            var left: Range<Int64>? = range
            while let next = left, !isTimeUp() {
                let step = try await pool.withTransaction {
                    try EvidenceRetention.forgetIDs(of: next, limit: Self.idsMax, on: $0)
                }
                forgotten += step.count
                left = step.left
            }
        }
    }

    // MARK: What is told

    func json(keep: String) -> JSONValue {
        [
            "keep": keep, "dry_run": isDry, "horizon": horizon.instantText,
            "partitions": outcomes.json(Self.columns),
            "in_default_partition": strays.reduce(0) { $0 + $1.notifications },
            "ids_forgotten": forgotten,
        ]
    }

    func text() -> String { outcomes.table(Self.columns) }

    func keptLines() -> [String] {
        let strays = areStraysHeldUp ? [MonthFate.heldUpLine("notifications_default")] : []
        return strays
            + outcomes.compactMap { outcome in
                let name = outcome.candidate.partition
                switch outcome.fate {
                case .dropped, .wouldDrop: return nil
                case .heldUp: return MonthFate.heldUpLine(name)
                case .kept:
                    return
                        "\(name) stays: \(outcome.candidate.waiting) notifications are not folded; "
                        + "see report notification_health"
                }
            }
    }

    private static let columns: [Column<Outcome>] = [
        .text("PARTITION", "partition") { $0.candidate.partition },
        .key("starts_at") { $0.candidate.months.lowerBound.instantText },
        .instant("UNTIL", "ends_at") { $0.candidate.months.upperBound },
        .number("NOTIFICATIONS", "notifications") { $0.candidate.notifications },
        .number("NOT UNDERSTOOD", "not_understood") { $0.candidate.notUnderstood },
        .number("WAITING", "waiting") { $0.candidate.waiting },
        .number("BYTES", "bytes") { $0.candidate.bytes }, .key("outcome") { $0.fate.name },
        .shown(.left("OUTCOME")) { $0.fate.name.replacing("_", with: " ") },
    ]
}
