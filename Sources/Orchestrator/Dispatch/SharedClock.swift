import Ledger
import ServiceKit
import Synchronization

/// The database's clock, carried on by this machine's monotonic one: leases are compared between replicas, and a
/// replica whose own clock is wrong must not take a living one's calls for abandoned.
final class SharedClock: WallClock {
    private let told = Mutex<(milliseconds: Int64, at: ContinuousClock.Instant)?>(nil)

    func nowMilliseconds() -> Int64 {
        guard let told = told.withLock({ $0 }) else { return SystemClock().nowMilliseconds() }
        return told.milliseconds + (ContinuousClock.now - told.at).milliseconds
    }

    /// Asks the database. Instants told before stay as they are: a lease is only ever compared with a later answer.
    func follow(_ connection: isolated LedgerConnection) throws {
        let milliseconds = try RateQueries.clockMicros(on: connection) / 1000
        let now = ContinuousClock.now
        told.withLock { $0 = (milliseconds, now) }
    }
}
