import Notifications
import Postgres
import Pricing
import ServiceKit

extension Commands {
    private static let keep = ValueOption(
        "keep", "TIME",
        "how long evidence is kept: months or years, such as 13m or 2y; at least 7m",
        isRequired: true)
    private static let dryRun = Flag("dry-run", "only say what would be dropped")

    private static let minutes = ValueOption(
        "minutes", "N", "stop after so many; the next run goes on there (default: 240)")

    static let retention = Command(
        "retention", "drop what is too old, a month at a time", options: [keep, dryRun, minutes],
        discussion: """
            Drops each month that ended before TIME ago: of notifications with their ids, of decoded statements, of the \
            history of changes, and of what was known before it was replaced. Settled calls, done status checks and \
            statements that came too late leave a few at a time. What stays: facts, states, charges, money, kept figures, \
            closed months, the audit trail, and of each subscription a checkpoint from which folding goes on. Reports of \
            a past before that are refused. A month with work that is not folded stays: exit code 5. Run it as \
            the owner of the database, as `repricer migrate`.
            """
    ) { invocation in
        let text = try invocation.arguments.required(keep)
        let months = try RetentionTime.months(text)
        let configuration = try invocation.configuration()
        let clock = try await configuration.makeClock(dependencies: invocation.dependencies)
        let now = Instant(milliseconds: clock.nowMilliseconds())
        let horizon = now.advanced(byMonths: -months).milliseconds
        let limit = try RetentionTime.minutes(invocation.arguments[minutes])
        let isDry = invocation.arguments[dryRun]
        let (result, rest) = try await invocation.withPool(configuration) { pool in
            let end = ContinuousClock.now + .seconds(60 * limit)
            var run = RetentionRun(horizon: horizon, isDry: isDry)
            try await run.run(pool)
            var rest = RuleRun(horizon: horizon, isDry: isDry, end: end)
            try await rest.run(pool)
            return (run, rest)
        }
        try invocation.print(
            json: result.json(keep: text) + rest.json(),
            result.outcomes.table(columns) + rest.text())
        if result.outcomes.isEmpty && !invocation.isJSON {
            invocation.note("nothing ended before \(horizon.instantText)")
        }
        for kept in result.outcomes where kept.what == .kept {
            invocation.dependencies.say(
                "\(kept.candidate.partition) stays: \(kept.candidate.waiting) notifications are not folded; "
                    + "see report notification_health")
        }
        if !rest.isComplete {
            invocation.note("statements are not done yet: the next run goes on with them")
        }
        return result.outcomes.contains { $0.what == .kept } ? .conflict : .done
    }
}

/// `--keep`.
enum RetentionTime {
    /// The App Store tells the notifications of 180 days again, so younger ones must stay known.
    static let monthsMin = 7
    private static let monthsMax = 1200

    static func minutes(_ text: String?) throws(UsageError) -> Int {
        guard let text else { return 240 }
        guard let minutes = Int(text), (0...10_080).contains(minutes) else {
            throw UsageError(
                "--minutes cannot be \(quoted(text)); write a whole number from 0 to 10080")
        }
        return minutes
    }

    static func months(_ text: String) throws(UsageError) -> Int {
        let factor =
            switch text.last {
            case "m": 1
            case "y": 12
            default: 0
            }
        guard factor > 0, let count = Int(text.dropLast()), count > 0, count <= monthsMax else {
            throw UsageError(
                "--keep cannot be \(quoted(text)); write months or years, such as 13m or 2y")
        }
        guard count * factor >= monthsMin else {
            throw UsageError(
                "--keep cannot be under \(monthsMin)m: the App Store tells the notifications of 180 days again"
            )
        }
        return count * factor
    }
}

/// One run of retention: what to do, and what was done.
private struct RetentionRun {
    enum What: String {
        case dropped
        case wouldDrop = "would_drop"
        case kept
    }

    struct Outcome {
        let candidate: EvidenceRetention.Candidate
        let what: What
    }

    /// How often it waits for the tables' lock, half a second each time.
    private static let attemptsMax = 4

    /// Partitions that end at this instant or before are dropped (UTC milliseconds).
    let horizon: Int64
    let isDry: Bool
    var strays: [EvidenceRetention.Stray] = []
    var outcomes: [Outcome] = []
    var forgotten = 0

    mutating func run(_ pool: PostgresPool) async throws {
        let horizon = horizon
        strays = try await settleStrays(pool)
        let candidates = try await pool.withTransaction { connection in
            try EvidenceRetention.candidates(before: horizon, on: connection)
        }
        for candidate in candidates {
            outcomes.append(.init(candidate: candidate, what: try await drop(candidate, pool)))
        }
        guard !isDry else { return }
        forgotten = try await pool.withTransaction { connection in
            try EvidenceRetention.forgetIDs(before: horizon, on: connection)
        }
    }

    /// Makes a partition for every month of the default one, so that each can be dropped whole.
    private func settleStrays(_ pool: PostgresPool) async throws -> [EvidenceRetention.Stray] {
        let strays = try await pool.withTransaction { try EvidenceRetention.strays(on: $0) }
        guard !isDry else { return strays }
        for stray in strays {
            try await patiently {
                _ = try await pool.withTransaction { connection in
                    try MonthPartitions.prepare(
                        .notifications, now: stray.month, monthsAhead: 0, on: connection)
                }
            }
        }
        return strays
    }

    private func drop(
        _ candidate: EvidenceRetention.Candidate, _ pool: PostgresPool
    ) async throws -> What {
        if candidate.waiting > 0 { return .kept }
        if isDry { return .wouldDrop }
        let isDropped = try await patiently {
            try await pool.withTransaction { try EvidenceRetention.drop(candidate, on: $0) }
        }
        return isDropped ? .dropped : .kept
    }

    /// Tries again when a long reader holds the tables. Writers that queued behind us go first.
    private func patiently<T: Sendable>(_ body: () async throws -> T) async throws -> T {
        for _ in 1..<Self.attemptsMax {
            do {
                return try await body()
            } catch let error as PostgresError where error.sqlState == .lockNotAvailable {
                await Task.yield()
            }
        }
        return try await body()
    }

    func json(keep: String) -> JSONValue {
        [
            "keep": keep, "dry_run": isDry, "horizon": horizon.instantText,
            "partitions": outcomes.json(columns),
            "in_default_partition": strays.reduce(0) { $0 + $1.notifications },
            "ids_forgotten": forgotten,
        ]
    }
}

private let columns: [Column<RetentionRun.Outcome>] = [
    .text("PARTITION", "partition") { $0.candidate.partition },
    .key("starts_at") { $0.candidate.months.lowerBound.instantText },
    .instant("UNTIL", "ends_at") { $0.candidate.months.upperBound },
    .number("NOTIFICATIONS", "notifications") { $0.candidate.notifications },
    .number("NOT UNDERSTOOD", "not_understood") { $0.candidate.notUnderstood },
    .number("WAITING", "waiting") { $0.candidate.waiting },
    .number("BYTES", "bytes") { $0.candidate.bytes }, .key("outcome") { $0.what.rawValue },
    .shown(.left("OUTCOME")) { $0.what.rawValue.replacing("_", with: " ") },
]
