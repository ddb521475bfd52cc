import Batches
import Facts
import Pricing
import Reports

/// The figures of all batches at one instant, for the home page.
struct HomeFigures: Sendable {
    /// The open rows by batch and stage. A batch that was submitted after the count has no entry.
    var open: [String: [String: Int64]] = [:]
    var consents: [String: HomeQueries.Consent] = [:]
    var effects: [String: [HomeQueries.Effect]] = [:]
    var unsummed: Int64 = 0
    var parked: [HomeQueries.Parked] = []
    var deadlines: [HomeQueries.Deadline] = []
    var discrepancies: [String: Int64] = [:]
    /// How many rows of a rejected or aborted batch were called; no entry where there were none.
    var called: [String: Int64] = [:]
    var waitingWaves: [TroubleQueries.WaitingWave] = []
    /// The effects of a batch in the reporting currency, where each currency has a rate.
    var totals: [String: Int64] = [:]
    /// UTC milliseconds.
    var countedAt: Int64 = 0
    /// Whether anything was counted at all.
    var isCounted = false
    var readAt = ContinuousClock.now

    static let reportingCurrency = "USD"

    static let unsummedMax = 100_000
    private static let parkedMax = 200
    private static let day: Int64 = 86_400_000
    private static let week = 7 * day
    /// How long a dependent that is left to a person is shown. The next renewal shows its outcome.
    private static let discrepancyShown = 60 * day

    static func read(_ pool: DatabasePool, now: Int64) async throws -> HomeFigures {
        let at = Instant(milliseconds: now)
        return try await pool.withTransaction(.repeatableRead) { connection in
            let rules = try RuleQueries.load(.from, at, knownAt: nil, on: connection)
            var figures = HomeFigures(
                open: try HomeQueries.openRows(on: connection),
                consents: try HomeQueries.consents(on: connection),
                effects: try HomeQueries.effects(on: connection),
                unsummed: try HomeQueries.unsummed(limit: unsummedMax, on: connection),
                parked: try HomeQueries.parked(of: nil, limit: parkedMax, on: connection),
                deadlines: try HomeQueries.deadlines(now: now, until: now + week, on: connection),
                discrepancies: try HomeQueries.discrepancies(
                    since: now - discrepancyShown, on: connection),
                called: try HomeQueries.called(on: connection),
                waitingWaves: try TroubleQueries.waitingWaves(of: nil, now: now, on: connection),
                countedAt: now, isCounted: true)
            figures.addTotals(by: rules.inForce(at: at))
            return figures
        }
    }

    private mutating func addTotals(by rules: RulesInForce) {
        totals = effects.compactMapValues { lines in
            Self.total(lines.map { ($0.currency, $0.net) }, by: rules)
        }
    }

    /// The sum in the reporting currency; nil where a rate is missing.
    static func total(
        _ lines: [(currency: String, net: Int128)], by rules: RulesInForce
    ) -> Int64? {
        guard let reporting = ReportingCurrency(reportingCurrency, rules: rules) else { return nil }
        var sum = MoneySum.zero
        for line in lines {
            guard let net = MoneySum(String(line.net)),
                let part = reporting.converted(net, from: line.currency)
            else { return nil }
            sum += part
        }
        return sum.milliunits
    }
}

/// The progress of a batch's rows.
struct Progress: Sendable, Equatable {
    var rows: Int64
    /// The rows that the App Store has answered, or that need no call any more.
    var delivered: Int64
    /// The rows whose customer has agreed or was informed, or whose change has ended.
    var answered: Int64
    var final: Int64

    /// `open` are its open rows by stage. All others are final.
    init(rows: Int64, open: [String: Int64]) {
        let undelivered = ["awaiting_approval", "queued", "unknown"].map { open[$0, default: 0] }
            .reduce(0, +)
        let unanswered = ["scheduled", "pending_consent"].map { open[$0, default: 0] }
            .reduce(undelivered, +)
        self.rows = rows
        delivered = max(0, rows - undelivered)
        answered = max(0, rows - unanswered)
        final = max(0, rows - open.values.reduce(0, +))
    }

    var isFinal: Bool { final >= rows }

    /// Of a batch that was withdrawn: rows that ended before their call were neither delivered nor answered. They are
    /// final all the same.
    func withoutWithdrawn(called: Int64) -> Progress {
        var progress = self
        let withdrawn = max(0, rows - called)
        progress.delivered = max(0, delivered - withdrawn)
        progress.answered = max(0, answered - withdrawn)
        return progress
    }
}
