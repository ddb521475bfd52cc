import Batches
import Facts
import Pricing
import Reconciliation
import Reports
import ServiceKit

/// The facts that the page of one batch shows.
struct BatchFacts: Sendable {
    var batch: BatchQueries.Batch
    var terms: ShowQueries.Terms
    var states: [String: Int64]
    var outlook: StatusQueries.Outlook
    var refused: [String: Int64]
    var dependents: [String: Int64]
    var days: [BatchPageQueries.Day]
    var waves: [ControlQueries.Wave]
    var rails: [GuardRail]
    var reading: GuardQueries.Reading?
    var storefronts: [ControlQueries.HaltedStorefront]
    var waitingWaves: [TroubleQueries.WaitingWave]
    var parked: [HomeQueries.Parked]
    var moved: [TroubleQueries.Moved]
    var ended: [BatchPageQueries.Ended]
    var exceptions: [BatchPageQueries.Exception]
    /// The number of changes without a statement that was due.
    var silent: Int64
    var funnel: ReportTable
    var money: ReportTable
    var accuracy: ReportTable
    /// The effect a month in the reporting currency; nil where a currency has no rate.
    var total: Int64?
    /// UTC milliseconds.
    var countedAt: Int64

    static let listMax = 20

    static func read(
        _ text: String, _ pool: DatabasePool, _ reports: ReportStore, clock: any WallClock,
        silentAfter: Int64
    ) async throws -> BatchFacts {
        let id = text.lowercased()
        let now = clock.nowMilliseconds()
        // These are read in parallel, each in its own snapshot. That is safe, because no figure of the page combines
        // two of them.
        async let funnel = table(.consentFunnel, id, now, reports)
        async let money = table(.revenueImpact, id, now, reports)
        async let accuracy = table(.forecastAccuracy, id, now, reports)
        var facts = try await stored(id, pool, now: now, silentAfter: silentAfter)
        (facts.funnel, facts.money, facts.accuracy) = try await (funnel, money, accuracy)
        let at = Instant(milliseconds: now)
        let rules = try await pool.read {
            try RuleQueries.load(.from, at, knownAt: nil, on: $0)
        }
        facts.total = HomeFigures.total(
            BatchView.currencies(of: facts.money).filter(\.hasMoved).map { ($0.currency, $0.net) },
            by: rules.inForce(at: at))
        return facts
    }

    private static func table(
        _ name: ReportName, _ id: String, _ now: Int64, _ reports: ReportStore
    ) async throws -> ReportTable {
        try await readTable(ReportQuery(name, batchID: id, judgedAt: now), from: reports)
    }

    private static func stored(
        _ id: String, _ pool: DatabasePool, now: Int64, silentAfter: Int64
    ) async throws -> BatchFacts {
        try await pool.withTransaction(.repeatableRead) { connection in
            let all = try BatchQueries.all(on: connection)
            guard let batch = all.first(where: { $0.batchID == id }) else {
                throw PageFault.noBatch(id)
            }
            let (states, outlook) = try StatusQueries.tally(batchID: id, now: now, on: connection)
            let empty = ReportTable(name: .consentFunnel)
            return BatchFacts(
                batch: batch, terms: try ShowQueries.terms(of: id, on: connection), states: states,
                outlook: outlook,
                refused: try BatchQueries.rejectCounts(batchID: id, on: connection),
                dependents: try BatchQueries.dependentCounts(batchID: id, on: connection),
                days: try BatchPageQueries.days(of: id, on: connection),
                waves: try ControlQueries.waves(of: id, on: connection),
                rails: try GuardQueries.rails(of: id, on: connection).rails,
                reading: try GuardQueries.reading(of: id, on: connection),
                storefronts: try ControlQueries.haltedStorefronts(of: id, on: connection),
                waitingWaves: try TroubleQueries.waitingWaves(of: id, now: now, on: connection),
                parked: try HomeQueries.parked(of: id, limit: listMax, on: connection),
                moved: try outlook.trouble.moved == 0
                    ? [] : TroubleQueries.moved(of: id, limit: listMax, on: connection),
                ended: try BatchPageQueries.ended(of: id, limit: listMax, on: connection),
                exceptions: try BatchPageQueries.exceptions(of: id, on: connection),
                silent: try StalenessQueries.silentChanges(
                    of: id, now: now, margin: silentAfter, on: connection),
                funnel: empty, money: empty, accuracy: empty, total: nil, countedAt: now)
        }
    }

    /// The open rows by stage.
    var open: [String: Int64] {
        states.reduce(into: [:]) { open, entry in
            guard let state = ChangeState(rawValue: entry.key), !state.isFinal else { return }
            open[state == .sending ? "queued" : entry.key, default: 0] += entry.value
        }
    }

    /// The rows that were called, whatever the outcome.
    var called: Int64 {
        let unsent: Set<ChangeState> = [
            .awaitingApproval, .queued, .sending, .ineligible, .missed, .aborted,
        ]
        return states.reduce(0) { sum, entry in
            let isSent = ChangeState(rawValue: entry.key).map { !unsent.contains($0) } ?? false
            return isSent ? sum + entry.value : sum
        }
    }

    /// As on the home page.
    var progress: Progress {
        let progress = Progress(rows: batch.rowCount, open: open)
        return batch.isWithdrawn ? progress.withoutWithdrawn(called: called) : progress
    }

    /// Whether nothing of it is open any more.
    var isFinal: Bool { open.isEmpty }
}
