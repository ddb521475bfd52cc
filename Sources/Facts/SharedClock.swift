package import Postgres
import ServiceKit
import Synchronization

/// The database's clock, carried on by this machine's monotonic one. Replicas compare leases with one another, and a
/// replica whose own clock is wrong must not take the calls of a living one for abandoned.
package final class SharedClock: WallClock {
    private let told = Mutex<(milliseconds: Int64, at: ContinuousClock.Instant)?>(nil)

    package init() {}

    package func nowMilliseconds() -> Int64 {
        guard let told = told.withLock({ $0 }) else { return SystemClock().nowMilliseconds() }
        return told.milliseconds + (ContinuousClock.now - told.at).milliseconds
    }

    package var isKnown: Bool { told.withLock { $0 } != nil }

    /// Asks the database. Instants that were told before stay as they are, because a lease is only ever compared with
    /// a later answer.
    package func follow(_ connection: isolated PostgresConnection) throws {
        try connection.ask(following)
    }

    /// The question for the clock. It comes last of several, so that nothing lies between the clock and its answer.
    package var following: Question<Void> {
        RateQueries.clockMicros.map { micros in
            let now = ContinuousClock.now
            self.told.withLock { $0 = (micros / 1000, now) }
        }
    }
}
