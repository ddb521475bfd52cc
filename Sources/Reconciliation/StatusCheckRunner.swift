package import Calls
package import Facts
package import PriceChanges
import Pricing
package import ServiceKit
import Synchronization

/// Reads the statuses of a list, at the allowed rate and with enough concurrent calls to reach it.
///
/// Claims and results are rows. So after a process died, only its pending checks are read again. Memory holds only
/// pending checks, however long the list is.
///
/// It does not use the call engine; `Sources/README.md` says why.
package struct StatusCheckRunner: Sendable {
    package struct Limits: Sendable {
        package var inFlightMax = 64
        /// How many checks one claim takes, so that results are written between claims.
        package var claimMax = 64
        /// How often one id is tried without an answer.
        package var attemptsMax = 5
        package var retry = Backoff(first: .milliseconds(500), max: .seconds(20))
        /// How long a claim holds a check. Where the App Store asks for a longer silence, another process may claim it
        /// meanwhile, and the status is read twice.
        package var claimFor: Duration = .seconds(60)
        package var pace: Duration = .milliseconds(10)
        /// How many lines of drift are kept for the report. All are counted.
        package var driftLinesMax = 1000

        package init() {}
    }

    package let pool: DatabasePool
    package let store: any StoreCalls
    package let permitSource: CallPermitSource
    package let clock: any WallClock
    package let realClock: any WallClock
    package let limits: Limits
    package let log: Log

    package init(
        pool: DatabasePool, store: any StoreCalls, permitSource: CallPermitSource,
        clock: any WallClock,
        realClock: any WallClock, limits: Limits = Limits(), log: Log
    ) {
        self.pool = pool
        self.store = store
        // A list may have a million ids, and other work may wait for a single status.
        self.permitSource = permitSource.forBulk
        self.clock = clock
        self.realClock = realClock
        self.limits = limits
        self.log = log
    }

    private struct Finished: Sendable {
        var check: StatusCheckQueries.Claimed
        var answer: StoreAnswer
    }

    /// Runs until no check of the list is open. `summary` has the settled checks even where it throws.
    package func run(
        _ list: StatusCheckQueries.List, into summary: inout StatusCheckSummary,
        progress: (StatusCheckSummary) -> Void = { _ in }
    ) async throws {
        let finished = FinishedChecks()
        var run = Run(
            settlement: StatusCheckSettlement(pool: pool, list: list, realClock: realClock),
            summary: summary)
        defer { summary = run.summary }
        try await withThrowingDiscardingTaskGroup { group in
            var inFlight = 0
            while true {
                let done = finished.take()
                inFlight -= done.count
                if !done.isEmpty {
                    try await settle(done, &run)
                    progress(run.summary)
                }
                if run.stop == nil, inFlight == 0, run.refused.areSeveral {
                    try await judgeRefused(&run)
                }
                if run.stop != nil || run.refused.areSeveral {
                    if inFlight == 0, let stop = run.stop { try await end(&run, stop) }
                    try await permitSource.wait(limits.pace)
                    continue
                }
                let claim = try await claim(list, limits.inFlightMax - inFlight, &run)
                if let permits = claim.permits, !claim.checks.isEmpty {
                    group.addTask { await permitSource.watchSilences(while: permits) }
                }
                for check in claim.checks {
                    inFlight += 1
                    group.addTask {
                        if let permits = claim.permits {
                            try await permitSource.take(from: permits)
                        }
                        let answer = await store.checkStatus(
                            transactionID: check.originalTransactionID)
                        try await permitSource.heed(answer, of: check.originalTransactionID)
                        finished.add(Finished(check: check, answer: answer))
                    }
                }
                guard done.isEmpty && claim.checks.isEmpty else { continue }
                if inFlight > 0 {
                    try await permitSource.wait(limits.pace)
                } else if !claim.hasDue, run.refused.count > 0 {
                    // Nothing else is due, and so few refusals do not show a common cause, so they end as refused.
                    try await write([], run.refused.takeAll().map(\.settled), [], &run)
                } else if try await !waitForNext(list, claim) {
                    return
                }
            }
        }
    }

    /// The answers that have come and wait for the loop.
    private final class FinishedChecks: Sendable {
        private let waiting = Mutex<[Finished]>([])

        func add(_ one: Finished) { waiting.withLock { $0.append(one) } }

        func take() -> [Finished] {
            waiting.withLock { waiting in
                let all = waiting
                waiting = []
                return all
            }
        }
    }

    private struct Run {
        let settlement: StatusCheckSettlement
        var summary: StatusCheckSummary
        var stop: ReconcileError?
        var refused = RefusedChecks()
        /// How many answers have come since the last check without one.
        var answersInARow = 0
        /// The bucket with which the next claim starts, so that every bucket has its turn.
        var bucket = 0
    }

    private struct Claim {
        var checks: [StatusCheckQueries.Claimed] = []
        var hasDue = false
        var permits: CallPermits?
    }

    /// Leases permits and claims as many checks, bucket by bucket.
    private func claim(
        _ list: StatusCheckQueries.List, _ free: Int, _ run: inout Run
    ) async throws -> Claim {
        let wanted = min(free, limits.claimMax)
        guard wanted > 0 else { return Claim(hasDue: true) }
        let realNow = realClock.nowMilliseconds()
        let (permitSource, first, until) = (
            permitSource, run.bucket, realNow + limits.claimFor.milliseconds
        )
        let (claim, last) = try await pool.withTransaction { connection in
            let buckets = try StatusCheckQueries.dueBuckets(list, realNow: realNow, on: connection)
            guard !buckets.isEmpty else { return (Claim(), first) }
            let permits = try permitSource.lease(wanted, on: connection)
            var claim = Claim(hasDue: true, permits: permits)
            var last = first
            for bucket in buckets.filter({ $0 >= first }) + buckets.filter({ $0 < first })
            where claim.checks.count < permits.granted {
                claim.checks += try StatusCheckQueries.claim(
                    list, bucket: bucket, until: until, realNow: realNow,
                    limit: permits.granted - claim.checks.count, on: connection)
                last = bucket
            }
            if claim.checks.count < permits.granted {
                _ = try connection.pipeline([
                    permitSource.returnUnused(permits, used: claim.checks.count)
                ])
            }
            return (claim, last)
        }
        run.bucket = last
        return claim
    }

    /// Waits for a permit, or for the next try. Returns false where no check of the list is open.
    private func waitForNext(_ list: StatusCheckQueries.List, _ claim: Claim) async throws -> Bool {
        if claim.hasDue {
            if let permits = claim.permits, permits.granted == 0 {
                try await permitSource.pause(after: permits)
            } else {
                try await permitSource.wait(limits.pace)
            }
            return true
        }
        let next = try await pool.read { try StatusCheckQueries.nextCheck(of: list, on: $0) }
        guard let next else { return false }
        let wait = Duration.milliseconds(max(10, next - realClock.nowMilliseconds()))
        try await permitSource.wait(min(wait, .seconds(1)))
        return true
    }

    private func settle(_ done: [Finished], _ run: inout Run) async throws {
        var statuses: [StatusCheckSettlement.Status] = []
        var ended: [StatusCheckQueries.Settled] = []
        var back: [(id: String, attempts: Int, at: Int64)] = []
        let realNow = realClock.nowMilliseconds()
        for one in done {
            let id = one.check.originalTransactionID
            let verdict = StatusCheckVerdict(
                one.answer, of: id, for: run.settlement.list.reason, attempts: one.check.attempts)
            switch verdict {
            case .read(let events):
                statuses.append(StatusCheckSettlement.Status(askedFor: id, events: events))
                run.refused.remove(id)
                run.answersInARow += 1
            case .ended(let outcome, let detail, let isAboutUs):
                let settled = StatusCheckQueries.Settled(id, outcome, detail: detail)
                run.answersInARow += 1
                // A person's list may have many ids that the App Store does not know, and no other work waits for them.
                if outcome == .notFound, run.settlement.list.reason == .sync {
                    ended.append(settled)
                } else {
                    run.refused.add(
                        .init(settled: settled, attempts: one.check.attempts, isAboutUs: isAboutUs))
                }
            case .throttled: back.append((id, one.check.attempts, realNow))
            case .unanswered(let reason):
                if let tried = unanswered(one, reason, realNow, &run) {
                    back.append(tried)
                } else {
                    ended.append(StatusCheckQueries.Settled(id, .unanswered, detail: reason))
                }
            }
        }
        if !statuses.isEmpty { ended += run.refused.takeAll().map(\.settled) }
        try await write(statuses, ended, back, &run)
    }

    /// Decides what several answers without a status mean, once no check is pending. If only these refused checks are
    /// left and others were read, they end; otherwise they would stop every run.
    private func judgeRefused(_ run: inout Run) async throws {
        let list = run.settlement.list
        let counts = try await pool.read { try StatusCheckQueries.counts(of: list, on: $0) }
        let read =
            counts.outcomes[.read, default: 0] + counts.outcomes[.drifted, default: 0]
        guard read > 0, counts.open <= run.refused.count else {
            run.stop = .refused(run.refused.why)
            return
        }
        try await write([], run.refused.takeAll().map(\.settled), [], &run)
    }

    /// Stops the run early. The next run tries the refused checks again.
    private func end(_ run: inout Run, _ stop: ReconcileError) async throws {
        let realNow = realClock.nowMilliseconds()
        let back = run.refused.takeAll().map {
            (id: $0.settled.originalTransactionID, attempts: $0.attempts, at: realNow)
        }
        try await write([], [], back, &run)
        throw stop
    }

    /// The next try of a check without an answer; nil where it has none left although others are answered.
    private func unanswered(
        _ one: Finished, _ reason: String, _ realNow: Int64, _ run: inout Run
    ) -> (id: String, attempts: Int, at: Int64)? {
        let attempts = one.check.attempts + 1
        if attempts >= limits.attemptsMax {
            if run.answersInARow > 0 { return nil }
            run.stop = run.stop ?? .storeAway(reason)
        }
        run.answersInARow = 0
        run.summary.retries += 1
        var random = SystemRandomNumberGenerator()
        let delay = limits.retry.delay(attempt: attempts, random: &random)
        return (one.check.originalTransactionID, attempts, realNow + delay.milliseconds)
    }

    private func write(
        _ statuses: [StatusCheckSettlement.Status], _ ended: [StatusCheckQueries.Settled],
        _ back: [(id: String, attempts: Int, at: Int64)], _ run: inout Run
    ) async throws {
        let at = clock.nowMilliseconds()
        let list = run.settlement.list
        try await run.settlement.end(ended, at: at)
        if !back.isEmpty {
            let statements = StatusCheckQueries.release(back, in: list)
            _ = try await pool.withConnection { try await $0.pipeline(statements) }
        }
        for settled in ended { run.summary.add(settled, [], keep: limits.driftLinesMax) }
        guard !statuses.isEmpty else { return }
        let settled = try await run.settlement.settle(statuses, at: at)
        for (one, lines) in settled.sorted(by: {
            $0.key.originalTransactionID < $1.key.originalTransactionID
        }) {
            run.summary.add(one, lines, keep: limits.driftLinesMax)
            for line in lines {
                log.notice(
                    "drift",
                    [
                        "subscription": line.originalTransactionID,
                        "fields": line.drifts.map(\.field).joined(separator: ","),
                    ])
            }
        }
    }
}

/// The result of checks.
package struct StatusCheckSummary: Hashable, Sendable {
    package var outcomes: [StatusCheckQueries.Outcome: Int] = [:]
    package var retries = 0
    /// The subscriptions whose facts differed from Apple's.
    package var drifted = 0
    /// How often each field differed, over all subscriptions.
    package var driftFields: [String: Int] = [:]
    package var driftLines: [DriftLine] = []

    package init() {}

    package var done: Int { outcomes.values.reduce(0, +) }
    package var read: Int { outcomes[.read, default: 0] + outcomes[.drifted, default: 0] }

    mutating func add(_ settled: StatusCheckQueries.Settled, _ lines: [DriftLine], keep: Int) {
        outcomes[settled.outcome, default: 0] += 1
        for line in lines {
            drifted += 1
            for drift in line.drifts { driftFields[drift.countedField, default: 0] += 1 }
            if driftLines.count < keep { driftLines.append(line) }
        }
    }
}
