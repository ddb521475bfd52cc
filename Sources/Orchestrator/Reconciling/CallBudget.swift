package import Ledger
import Pricing
package import ServiceKit

/// The calls of one endpoint that all replicas share. Instants are the service clock's, so a rehearsal keeps the
/// rates of its own time.
package struct CallBudget: Sendable {
    /// Waits in real time. Tests move their clocks instead.
    package typealias Wait = @Sendable (Duration) async throws -> Void

    /// Between two asks for calls; an App Store that asked for silence is asked about no more often.
    private static let pauseMin: Duration = .milliseconds(10)
    private static let pauseMax: Duration = .seconds(1)

    let pool: LedgerPool
    let endpoint: String
    let perSecond: Int
    let clock: any WallClock
    /// A longer silence ends the run instead of being waited out.
    let silenceMax: Duration
    let wait: Wait

    package init(
        pool: LedgerPool, endpoint: String, perSecond: Int, clock: any WallClock,
        silenceMax: Duration, wait: @escaping Wait = { try await Task.sleep(for: $0) }
    ) {
        self.pool = pool
        self.endpoint = endpoint
        self.perSecond = perSecond
        self.clock = clock
        self.silenceMax = silenceMax
        self.wait = wait
    }

    /// Waits until one call may be made.
    func takeOne() async throws {
        while true {
            let now = clock.nowMilliseconds()
            let lease = try await pool.withTransaction { connection in
                try RateQueries.create(
                    endpoint: endpoint, perSecond: perSecond, now: now, on: connection)
                return try RateQueries.lease(
                    endpoint: endpoint, wanted: 1, perSecond: perSecond, now: now, on: connection)
            }
            if lease.granted > 0 { return }
            try await pause(blockedUntil: lease.blockedUntil, now: now)
        }
    }

    /// Waits a moment before asking again; throws where the App Store asked for a long silence.
    func pause(blockedUntil: Int64?, now: Int64) async throws {
        guard let until = blockedUntil else {
            let one = clock.realDuration(of: .milliseconds(1000 / Int64(max(1, perSecond)) + 1))
            return try await wait(min(max(one, Self.pauseMin), Self.pauseMax))
        }
        let silence = clock.realDuration(of: .milliseconds(max(0, until - now) + 1))
        guard silence <= silenceMax else {
            throw ReconcileError.silenced(until: Instant(milliseconds: until))
        }
        try await wait(min(max(silence, Self.pauseMin), Self.pauseMax))
    }

    /// A 429: silence for every replica.
    func block(until: Instant) async throws {
        _ = try await pool.withConnection { connection in
            try await connection.pipeline([
                RateQueries.block(endpoint: endpoint, until: until.milliseconds)
            ])
        }
    }
}
