package import Ledger
package import ServiceKit

/// Looks after batches under way: releases the waves whose time has come.
///
/// Every replica does; the rows of the database see to it that each thing is done once.
package struct BatchWatch: Service {
    package let name = "batch watch"
    private let pool: LedgerPool
    private let clock: any WallClock
    private let log: Log
    private let metrics: Metrics
    private let every: Duration

    /// - Parameter every: Real time between two looks.
    package init(
        pool: LedgerPool, clock: any WallClock, log: Log, metrics: Metrics,
        every: Duration = .milliseconds(500)
    ) {
        self.pool = pool
        self.clock = clock
        self.log = log
        self.metrics = metrics
        self.every = every
        metrics.describe("repricer_waves_released_total", "Waves released by their time.")
    }

    package func run() async throws {
        while !Task.isCancelled {
            do {
                try await round()
                try await Task.sleep(for: every)
            } catch is CancellationError {
                return
            } catch {
                log.error(
                    "looking after batches failed; trying again",
                    ["error": String(describing: error)])
                try await Task.sleep(for: .seconds(1))
            }
        }
    }

    /// One look at all batches. Tests drive it by hand.
    package func round() async throws {
        let now = clock.nowMilliseconds()
        let released = try await pool.withTransaction {
            try ControlQueries.releaseDue(at: now, on: $0)
        }
        for wave in released {
            log.notice(
                "wave released",
                ["batch": wave.batchID, "wave": String(wave.wave), "label": wave.label])
            metrics.increment("repricer_waves_released_total")
        }
    }
}
