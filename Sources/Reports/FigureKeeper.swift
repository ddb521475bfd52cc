package import Facts
import Postgres
package import ServiceKit

/// Keeps the figures of ended changes up to date, so that a report need not count them. Where it lags or does not
/// run, reports say the same and take longer: what is marked is counted from the facts.
package struct FigureKeeper: Service {
    /// How many marks one transaction handles, which takes some tens of milliseconds.
    package static let marks = 500
    /// The real time between two readings of the marks. Marks of one subscription that come together are handled at
    /// once.
    private static let pause: Duration = .seconds(2)

    package let name = "figures"
    private let pool: DatabasePool
    private let log: Log

    package init(pool: DatabasePool, log: Log) {
        self.pool = pool
        self.log = log
    }

    package func run() async throws {
        await Rounds(
            log: log, level: .warning, failure: "figures are not summarised; trying again",
            failureWait: Self.pause
        ).run {
            // Calls and folds go first.
            try await keepUndisturbed() > 0 ? .milliseconds(20) : Self.pause
        }
    }

    /// Where another replica was at the same marks, this is no failure of the round and no success of it either: it is
    /// tried again.
    private func keepUndisturbed() async throws -> Int {
        while true {
            do {
                return try await keepOnce()
            } catch let error as PostgresError where error.sqlState == .serializationFailure {
                try await Task.sleep(for: Self.pause)
            }
        }
    }

    /// Computes marked figures anew, and returns of how many subscriptions. It is 0 where nothing is marked, or where
    /// another replica is doing it.
    @discardableResult
    package func keepOnce(marks: Int = Self.marks) async throws -> Int {
        try await pool.withTransaction(.repeatableRead) { connection in
            try FigureQueries.summarise(limit: marks, on: connection)
        }
    }
}
