package import Facts
import Pricing
package import ServiceKit

/// Counts what the guard rails of a batch ask for, and halts one that breaks them: written down, and told at error level.
package struct GuardJudge: Sendable {
    /// Answers that are counted after each refusal. Of a batch with more, the batch watch counts them a few seconds later:
    /// at Apple's rate these are a twentieth at most.
    private static let answersMax = 2000

    private let pool: DatabasePool
    private let clock: any WallClock
    private let realClock: any WallClock
    private let log: Log
    private let metrics: Metrics

    package init(
        pool: DatabasePool, clock: any WallClock, realClock: any WallClock, log: Log,
        metrics: Metrics
    ) {
        self.pool = pool
        self.clock = clock
        self.realClock = realClock
        self.log = log
        self.metrics = metrics
    }

    /// Judges all guard rails of a batch, and keeps what was counted.
    func judge(_ batch: GuardQueries.Guarded) async throws {
        let (now, realNow) = (clock.nowMilliseconds(), realClock.nowMilliseconds())
        let counts = try await pool.withTransaction { connection in
            try GuardQueries.count(batch, at: now, realNow: realNow, on: connection)
        }
        guard batch.isJudged else { return }
        try await judge(batch, by: counts)
    }

    /// Judges the guard of errors of a batch, some of whose calls were just refused.
    package func judgeErrors(of batchID: String) async throws {
        let found = try await pool.read { connection in
            try GuardQueries.guardedErrors(
                of: batchID, answersMax: Self.answersMax, on: connection
            ).map { batch in
                let counts = try GuardQueries.counts(
                    of: batchID, since: batch.countFrom, figures: [.errors], on: connection)
                return (batch, counts)
            }
        }
        guard let (batch, counts) = found else { return }
        try await judge(batch, by: counts)
    }

    private func judge(
        _ batch: GuardQueries.Guarded, by counts: [GuardRail.Figure: GuardQueries.Count]
    ) async throws {
        for rail in batch.rails {
            guard let found = counts[rail.figure],
                rail.isExceeded(by: found.count, of: found.all)
            else { continue }
            return try await halt(batch, rail, found, "\(found.count) of \(found.all)")
        }
        guard let rail = batch.rails.first(where: { $0.figure == .errors }),
            let own = counts[.errors], rail.isShareExceeded(by: own.count, of: own.all)
        else { return }
        try await judgeWithSmallBatches(batch, rail)
    }

    /// A batch with fewer rows than its guard waits for is judged by what others of that size got as well.
    private func judgeWithSmallBatches(
        _ batch: GuardQueries.Guarded, _ rail: GuardRail
    ) async throws {
        let now = clock.nowMilliseconds()
        let answers = try await pool.read {
            try SmallBatchQueries.answers(
                with: batch.batchID, least: rail.least, since: batch.countFrom, at: now, on: $0)
        }
        guard let answers, answers.batches > 1,
            rail.isExceeded(by: answers.errors.count, of: answers.errors.all)
        else { return }
        try await halt(
            batch, rail, answers.errors,
            "\(answers.errors.count) of \(answers.errors.all) in \(answers.batches) batches with fewer rows each"
        )
    }

    private func halt(
        _ batch: GuardQueries.Guarded, _ rail: GuardRail, _ found: GuardQueries.Count,
        _ counted: String
    ) async throws {
        let now = clock.nowMilliseconds()
        let reason = "\(rail.text): \(counted)"
        let details = "{\"count\":\(found.count),\"of\":\(found.all),\"over\":\(rail.over)}"
        let isNew = try await pool.withTransaction {
            try GuardQueries.halt(
                batch.batchID, by: rail.figure.rawValue, reason: reason, details: details, at: now,
                on: $0)
        }
        guard isNew else { return }
        log.error("batch halted", ["batch": batch.batchID, "name": batch.name, "guard": reason])
        metrics.increment(
            "repricer_batch_halts_total", labels: ["by": rail.figure.rawValue])
    }
}
