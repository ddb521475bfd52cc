package import Facts
import Postgres
package import ServiceKit

/// Keeps the figures of ended changes up to date, so that a report need not count them. If it lags or does not run,
/// reports have the same content but take longer, because they count marked subscriptions from the facts.
package struct FigureKeeper: Service {
    /// How many marks one transaction handles, which takes some tens of milliseconds.
    package static let marks = 500
    /// The real time between two reads of the marks. Marks of one subscription that come within it are handled
    /// together.
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
            // The pause gives calls and folds priority.
            try await keepUndisturbed() > 0 ? .milliseconds(20) : Self.pause
        }
    }

    /// A conflict with another replica over the same marks is neither a failure nor a success of the round, so it is
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

    /// Recomputes marked figures, and returns for how many subscriptions. It is 0 where nothing is marked, or where
    /// another replica is doing it.
    @discardableResult
    package func keepOnce(marks: Int = Self.marks) async throws -> Int {
        try await pool.withTransaction(.repeatableRead) { connection in
            try FigureQueries.summarise(limit: marks, on: connection)
        }
    }
}
