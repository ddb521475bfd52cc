import Facts
import Pricing
import ServiceKit
import Synchronization

/// Exports the troubles of batches in delivery as metrics, and logs them. Each replica does this, and logs only what is
/// new to it: one line for a batch or wave at each reading.
final class TroubleWatch: Sendable {
    /// Counting takes at most one part in this many of the time.
    private static let share = 50
    /// How long, in milliseconds, a batch is still reported after nothing of it is open any more.
    static let toldFor: Int64 = 86_400_000

    private struct Memory {
        /// When the next reading is due, in UTC milliseconds of real time.
        var dueAt: Int64 = 0
        var batches: [String: TroubleQueries.Troubled] = [:]
        /// When each batch was last seen open, in UTC milliseconds of the business clock.
        var openAt: [String: Int64] = [:]
        var waves: [TroubleQueries.WaitingWave] = []
    }

    private let memory = Mutex(Memory())
    private let pool: DatabasePool
    private let log: Log
    private let metrics: Metrics
    private let every: Duration

    init(pool: DatabasePool, log: Log, metrics: Metrics, every: Duration) {
        self.pool = pool
        self.log = log
        self.metrics = metrics
        self.every = every
        metrics.declareGauge(
            "repricer_changes_moved",
            "Changes of open batches that take effect at a later renewal than was approved.")
        metrics.declareGauge(
            "repricer_changes_overdue",
            "Unsent changes whose last instant for their planned renewal has passed.")
        metrics.declareGauge(
            "repricer_changes_parked",
            "Changes that wait by themselves, after a refusal or without an answer.")
        metrics.declareGauge(
            "repricer_work_parked",
            "Cancellations and extensions that wait by themselves, after a refusal or without an answer, by kind."
        )
        metrics.declareGauge(
            "repricer_changes_drifted",
            "Changes of batches that were open within a day, and ended unsent since their facts had changed."
        )
        metrics.declareGauge(
            "repricer_changes_missed",
            "Changes of batches that were open within a day, and ended unsent since no renewal was left."
        )
        metrics.declareGauge(
            "repricer_waves_waiting",
            "Unreleased waves with rows that have to be sent within a day, or had to be.")
    }

    /// Reads the troubles when the time has come.
    func round(now: Int64, realNow: Int64) async throws {
        guard memory.withLock({ $0.dueAt <= realNow }) else { return }
        let started = ContinuousClock.now
        let recent = memory.withLock { memory in
            memory.openAt = memory.openAt.filter { $0.value >= now - Self.toldFor }
            return memory.openAt.keys.sorted()
        }
        let (batches, waves, parked) = try await pool.read { connection in
            (
                try TroubleQueries.open(
                    now: now, decidedSince: now - Self.toldFor, others: recent, on: connection),
                try TroubleQueries.waitingWaves(of: nil, now: now, on: connection),
                try ParkedWorkQueries.counts(on: connection)
            )
        }
        let pause = max(every, (ContinuousClock.now - started) * Self.share)
        var sum = TroubleQueries.Trouble()
        for batch in batches where batch.isOpen { sum += batch.trouble }
        for batch in batches where !batch.isOpen {
            sum.drifted += batch.trouble.drifted
            sum.missed += batch.trouble.missed
        }
        metrics.set("repricer_changes_moved", to: Double(sum.moved))
        metrics.set("repricer_changes_overdue", to: Double(sum.overdue))
        metrics.set("repricer_changes_parked", to: Double(sum.parked))
        metrics.set(
            "repricer_work_parked", toAll: parked.map { (["kind": $0.key], Double($0.value)) })
        metrics.set("repricer_changes_drifted", to: Double(sum.drifted))
        metrics.set("repricer_changes_missed", to: Double(sum.missed))
        metrics.set("repricer_waves_waiting", to: Double(waves.count))
        let known = memory.withLock { memory in
            let known = memory
            memory.batches = Dictionary(batches.map { ($0.batchID, $0) }) { first, _ in first }
            for batch in batches where batch.isOpen { memory.openAt[batch.batchID] = now }
            memory.waves = waves
            memory.dueAt = realNow + pause.milliseconds
            return known
        }
        for batch in batches {
            let (trouble, former) = (batch.trouble, known.batches[batch.batchID])
            guard trouble != former?.trouble ?? .init() || batch.late != former?.late ?? 0 else {
                continue
            }
            log.warning(
                "rows need attention",
                [
                    "batch": batch.batchID, "name": batch.name, "moved": String(trouble.moved),
                    "overdue": String(trouble.overdue), "parked": String(trouble.parked),
                    "drifted": String(trouble.drifted), "missed": String(trouble.missed),
                    "late": String(batch.late),
                ])
        }
        for wave in waves where !known.waves.contains(wave) {
            log.warning(
                "a wave waits past its dates",
                [
                    "batch": wave.batchID, "name": wave.batchName, "wave": String(wave.number),
                    "label": wave.label, "waits_for": wave.waitsFor, "due": String(wave.due),
                    "overdue": String(wave.overdue),
                    "first_send_by": Instant(milliseconds: wave.firstSendBy).text,
                ])
        }
    }
}
