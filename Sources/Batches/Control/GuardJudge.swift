package import Facts
import Postgres
import Pricing
package import ServiceKit

/// Counts the figures of a batch's guard rails, and halts a batch that breaks one. It stores the halt and logs it at
/// error level.
package struct GuardJudge: Sendable {
    /// The most answers of a batch that are counted after each refusal. If a batch has more, only the batch watch
    /// counts them, a few seconds later. At Apple's rate the answers of that time are a twentieth at most.
    private static let answersMax = 2000
    /// How long a halt waits for a lock that a person's open decision on the batch holds. The next judgement tries
    /// again.
    private static let lockWait: Duration = .milliseconds(500)

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

    /// Judges all guard rails of a batch, and stores the counted figures.
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
                let errors = try GuardQueries.errors(
                    of: batchID, since: batch.countFrom, on: connection)
                return (batch, errors)
            }
        }
        guard let (batch, errors) = found else { return }
        try await judge(batch, by: [.errors: errors])
    }

    private func judge(
        _ batch: GuardQueries.Guarded, by counts: [GuardRail.Figure: GuardQueries.Count]
    ) async throws {
        for rail in batch.rails {
            guard let found = counts[rail.figure],
                rail.isExceeded(by: found.count, of: found.all)
            else { continue }
            let text = "\(found.count) of \(found.all)"
            guard rail.figure == .errors else { return try await halt(batch, rail, found, text) }
            return try await haltForErrors(
                batch, rail, found, text, in: GuardQueries.counted(batch))
        }
        guard let rail = batch.rails.first(where: { $0.figure == .errors }),
            let own = counts[.errors], rail.isShareExceeded(by: own.count, of: own.all)
        else { return }
        try await judgeWithSmallBatches(batch, rail)
    }

    /// Judges a batch with fewer rows than its guard waits for together with the answers of other small batches.
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
        try await haltForErrors(
            batch, rail, answers.errors,
            "\(answers.errors.count) of \(answers.errors.all) in \(answers.batches) batches with fewer rows each",
            in: SmallBatchQueries.small(least: rail.least, since: batch.countFrom, at: now))
    }

    /// Halts the batch. If nearly all counted answers are refusals with one code, it halts every batch that met the
    /// code, and the rows that the code ended are put back.
    ///
    /// - Parameter counted: A query of the batches whose answers were counted.
    private func haltForErrors(
        _ batch: GuardQueries.Guarded, _ rail: GuardRail, _ found: GuardQueries.Count,
        _ text: String, in counted: SQL
    ) async throws {
        let alike = try await pool.read {
            try AlikeRefusalQueries.alike(in: counted, found, on: $0)
        }
        guard let alike else { return try await halt(batch, rail, found, text) }
        if !alike.batches.contains(where: { $0.batchID == batch.batchID }) {
            try await halt(batch, rail, found, text)
        }
        for concerned in alike.batches
        where concerned.rail.isExceeded(by: found.count, of: found.all) {
            try await halt(
                GuardQueries.Guarded(
                    batchID: concerned.batchID, name: concerned.name, rails: [concerned.rail],
                    countFrom: nil, isJudged: true),
                concerned.rail, found, "\(text), nearly all with \(alike.code)",
                putBack: .init(code: alike.code, since: concerned.since))
        }
    }

    private func halt(
        _ batch: GuardQueries.Guarded, _ rail: GuardRail, _ found: GuardQueries.Count,
        _ counted: String, putBack: GuardQueries.PutBack? = nil
    ) async throws {
        let now = clock.nowMilliseconds()
        let reason = "\(rail.text): \(counted)"
        let details = "{\"count\":\(found.count),\"of\":\(found.all),\"over\":\(rail.over)}"
        let isNew = try await pool.withTransaction { connection in
            // An uncommitted decision on this batch must not stop the guards of other batches from being judged.
            _ = try connection.execute(
                LockWaitQueries.limit(milliseconds: Self.lockWait.milliseconds))
            return try GuardQueries.halt(
                batch.batchID, by: rail.figure.rawValue, reason: reason, details: details, at: now,
                since: putBack?.since, code: putBack?.code, on: connection)
        }
        guard isNew else { return }
        log.error("batch halted", ["batch": batch.batchID, "name": batch.name, "guard": reason])
        metrics.increment(
            "repricer_batch_halts_total", labels: ["by": rail.figure.rawValue])
    }
}
