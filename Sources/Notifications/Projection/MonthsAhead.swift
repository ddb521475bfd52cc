package import Facts
package import ServiceKit

/// Keeps partitions of evidence and of the history of changes ready for the months to come. Nothing is lost without a
/// partition, because the default partition takes the rows.
package struct MonthsAhead: Service {
    /// How many months after the running one must be ready.
    package static let count = 3

    package let name = "months ahead"
    private let pool: DatabasePool
    private let clock: any WallClock
    private let log: Log

    package init(pool: DatabasePool, clock: any WallClock, log: Log) {
        self.pool = pool
        self.clock = clock
        self.log = log
    }

    package func run() async throws {
        // The pause is a day of the business clock, but at least so long that a fast clock does not overload the
        // database.
        let pause = max(.milliseconds(200), clock.realDuration(of: .seconds(86_400)))
        let every = min(pause, .seconds(3600))
        await Rounds(
            log: log, level: .warning, failure: "the months to come are not prepared; trying again",
            failureWait: every
        ).run {
            try await prepareOnce()
            return every
        }
    }

    /// Makes the missing partitions, and returns how many.
    @discardableResult
    package func prepareOnce() async throws -> Int {
        let now = clock.nowMilliseconds()
        let made = try await pool.read {
            try MonthPartitions.prepareAll(now: now, monthsAhead: Self.count, on: $0)
        }
        if made > 0 { log.info("months prepared", ["partitions": String(made)]) }
        return made
    }
}
