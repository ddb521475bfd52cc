import Facts
import Pricing
import ServiceKit
import Synchronization

/// Shows in figures and in the log what of batches under way a person should see. Each replica does, and logs only
/// what is new to it: one line for a batch or wave at each reading.
final class TroubleWatch: Sendable {
    /// Counting takes at most one part in this many of the time.
    private static let share = 50

    private struct Memory {
        /// When the next reading is due, in UTC milliseconds of real time.
        var dueAt: Int64 = 0
        var batches: [String: TroubleQueries.Trouble] = [:]
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
            "Changes of open batches that ended unsent, since their facts had changed.")
        metrics.declareGauge(
            "repricer_waves_waiting",
            "Unreleased waves with rows that have to be sent within a day, or had to be.")
    }

    /// Reads the troubles when the time has come.
    func round(now: Int64, realNow: Int64) async throws {
        guard memory.withLock({ $0.dueAt <= realNow }) else { return }
        let started = ContinuousClock.now
        let (batches, waves, parked) = try await pool.read { connection in
            (
                try TroubleQueries.open(now: now, on: connection),
                try TroubleQueries.waitingWaves(of: nil, now: now, on: connection),
                try ParkedWorkQueries.counts(on: connection)
            )
        }
        let pause = max(every, (ContinuousClock.now - started) * Self.share)
        var sum = TroubleQueries.Trouble()
        for batch in batches { sum += batch.trouble }
        metrics.set("repricer_changes_moved", to: Double(sum.moved))
        metrics.set("repricer_changes_overdue", to: Double(sum.overdue))
        metrics.set("repricer_changes_parked", to: Double(sum.parked))
        metrics.set(
            "repricer_work_parked", toAll: parked.map { (["kind": $0.key], Double($0.value)) })
        metrics.set("repricer_changes_drifted", to: Double(sum.drifted))
        metrics.set("repricer_waves_waiting", to: Double(waves.count))
        let known = memory.withLock { memory in
            let known = memory
            memory.batches = Dictionary(batches.map { ($0.batchID, $0.trouble) }) { first, _ in
                first
            }
            memory.waves = waves
            memory.dueAt = realNow + pause.milliseconds
            return known
        }
        for batch in batches where batch.trouble != known.batches[batch.batchID] ?? .init() {
            let trouble = batch.trouble
            log.warning(
                "rows need attention",
                [
                    "batch": batch.batchID, "name": batch.name, "moved": String(trouble.moved),
                    "overdue": String(trouble.overdue), "parked": String(trouble.parked),
                    "drifted": String(trouble.drifted),
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
