package import Postgres
import ServiceKit
import Synchronization

/// The database's clock, extended by this machine's monotonic clock. Replicas compare each other's leases, so a replica
/// whose own clock is wrong must not take over the calls of a living one.
package final class SharedClock: WallClock {
    private let told = Mutex<(milliseconds: Int64, at: ContinuousClock.Instant)?>(nil)

    package init() {}

    package func nowMilliseconds() -> Int64 {
        guard let told = told.withLock({ $0 }) else { return SystemClock().nowMilliseconds() }
        return told.milliseconds + (ContinuousClock.now - told.at).milliseconds
    }

    package var isKnown: Bool { told.withLock { $0 } != nil }

    /// Reads the database's clock. Earlier instants are not adjusted, because a lease is only ever compared with a
    /// later reading.
    package func follow(_ connection: isolated PostgresConnection) throws {
        try connection.ask(following)
    }

    /// The question for the clock. Ask it last of several, so that no other answer delays it.
    package var following: Question<Void> {
        RateQueries.clockMicros.map { micros in
            let now = ContinuousClock.now
            self.told.withLock { $0 = (micros / 1000, now) }
        }
    }
}
