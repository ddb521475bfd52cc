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

    static let retention = Command(
        "retention", "drop old evidence, a month at a time", options: [keep, dryRun],
        discussion: """
            Drops each month of notifications that ended before TIME ago, and forgets their ids. Facts, states and \
            timelines stay. A month with work that is not folded stays as well: exit code 5. Run it as the owner \
            of the database, as `repricer migrate`.
            """
    ) { invocation in
        let text = try invocation.arguments.required(keep)
        let months = try RetentionTime.months(text)
        let configuration = try invocation.configuration()
        let clock = try await configuration.makeClock(world: invocation.world)
        let now = Instant(milliseconds: clock.nowMilliseconds())
        let run = RetentionRun(
            horizon: now.advanced(byMonths: -months).milliseconds,
            isDry: invocation.arguments[dryRun])
        let result = try await invocation.withPool(configuration) { try await run.run($0) }
        if invocation.isJSON {
            try invocation.print(result.json(keep: text))
        } else {
            try invocation.print(result.text)
            if result.outcomes.isEmpty {
                invocation.note("nothing ended before \(RFC3339.format(run.horizon))")
            }
        }
        for kept in result.outcomes where kept.what == .kept {
            invocation.world.say(
                "\(kept.candidate.partition) stays: \(kept.candidate.waiting) notifications are not folded; "
                    + "see report notification_health")
        }
        return result.outcomes.contains { $0.what == .kept } ? .conflict : .done
    }
}

/// `--keep`.
enum RetentionTime {
    /// The App Store tells the notifications of 180 days again; what is younger must stay known.
    static let monthsMin = 7
    private static let monthsMax = 1200

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
    /// Waits for the tables' lock, half a second each.
    private static let attemptsMax = 4

    /// UTC milliseconds: partitions that end here or before go.
    let horizon: Int64
    let isDry: Bool

    func run(_ pool: PostgresPool) async throws -> RetentionResult {
        let moved = try await settleStrays(pool)
        let horizon = horizon
        let candidates = try await pool.withTransaction { connection in
            try EvidenceRetention.candidates(before: horizon, on: connection)
        }
        var outcomes: [RetentionResult.Outcome] = []
        for candidate in candidates {
            outcomes.append(.init(candidate: candidate, what: try await drop(candidate, pool)))
        }
        var forgotten = 0
        if !isDry {
            forgotten = try await pool.withTransaction { connection in
                try EvidenceRetention.forgetIDs(before: horizon, on: connection)
            }
        }
        return RetentionResult(
            isDry: isDry, horizon: horizon, strays: moved, outcomes: outcomes, forgotten: forgotten)
    }

    /// Gives every month of the default partition one of its own, so that it can be dropped whole.
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
    ) async throws -> RetentionResult.What {
        if candidate.waiting > 0 { return .kept }
        if isDry { return .wouldDrop }
        let isDropped = try await patiently {
            try await pool.withTransaction { try EvidenceRetention.drop(candidate, on: $0) }
        }
        return isDropped ? .dropped : .kept
    }

    /// Tries again when a long reader holds the tables; writers that queued behind us go first.
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
}

private struct RetentionResult {
    enum What: String {
        case dropped
        case wouldDrop = "would_drop"
        case kept
    }

    struct Outcome {
        let candidate: EvidenceRetention.Candidate
        let what: What
    }

    let isDry: Bool
    let horizon: Int64
    let strays: [EvidenceRetention.Stray]
    let outcomes: [Outcome]
    let forgotten: Int

    var text: String {
        guard !outcomes.isEmpty else { return "" }
        var table = Table([
            .left("PARTITION"), .left("UNTIL"), .right("NOTIFICATIONS"), .right("NOT UNDERSTOOD"),
            .right("WAITING"), .right("BYTES"), .left("OUTCOME"),
        ])
        for outcome in outcomes {
            let candidate = outcome.candidate
            table.add([
                candidate.partition, RFC3339.format(candidate.months.upperBound),
                "\(candidate.notifications)",
                "\(candidate.notUnderstood)", "\(candidate.waiting)", "\(candidate.bytes)",
                outcome.what.rawValue.replacing("_", with: " "),
            ])
        }
        return table.text
    }

    func json(keep: String) -> JSONValue {
        .object([
            "keep": .string(keep), "dry_run": .bool(isDry),
            "horizon": .string(RFC3339.format(horizon)),
            "partitions": .array(outcomes.map(json)),
            "in_default_partition": .integer(strays.reduce(0) { $0 + Int64($1.notifications) }),
            "ids_forgotten": .integer(Int64(forgotten)),
        ])
    }

    private func json(_ outcome: Outcome) -> JSONValue {
        let candidate = outcome.candidate
        return .object([
            "partition": .string(candidate.partition),
            "starts_at": .string(RFC3339.format(candidate.months.lowerBound)),
            "ends_at": .string(RFC3339.format(candidate.months.upperBound)),
            "notifications": .integer(Int64(candidate.notifications)),
            "not_understood": .integer(Int64(candidate.notUnderstood)),
            "waiting": .integer(Int64(candidate.waiting)),
            "bytes": .integer(candidate.bytes), "outcome": .string(outcome.what.rawValue),
        ])
    }
}
