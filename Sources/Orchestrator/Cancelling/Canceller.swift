package import Ledger
import Pricing
package import ServiceKit

/// Proves that a decliner's dependents are gone. Most are proved by the very notification that showed the
/// decline; for the others it reads the subscription's status, and what stays unproved becomes a discrepancy
/// that reports show.
package struct Canceller: Service {
    package let name = "canceller"
    private let pool: LedgerPool
    private let store: any StoreCalls
    private let clock: any WallClock
    private let realClock: any WallClock
    private let log: Log
    private let limits: Limits

    package struct Limits: Sendable {
        package var statusPerSecond = 50
        package var looksMax = 5
        package var dependentsPerRound = 25
        package var lookAgainAfter: Duration = .seconds(30)
        package var idleWait: Duration = .seconds(1)

        package init() {}
    }

    static let endpoint = "status"

    package init(
        pool: LedgerPool, store: any StoreCalls, clock: any WallClock,
        realClock: any WallClock = SystemClock(), log: Log, limits: Limits = Limits()
    ) {
        self.pool = pool
        self.store = store
        self.clock = clock
        self.realClock = realClock
        self.log = log
        self.limits = limits
    }

    package func run() async throws {
        while !Task.isCancelled {
            do {
                if try await round() == 0 { try await Task.sleep(for: limits.idleWait) }
            } catch is CancellationError {
                return
            } catch {
                log.error(
                    "proving dependents failed; trying again", ["error": String(describing: error)])
                try await Task.sleep(for: limits.idleWait)
            }
        }
    }

    /// Looks once at each dependent that is due; returns how many were.
    package func round() async throws -> Int {
        let now = clock.nowMilliseconds()
        let realNow = realClock.nowMilliseconds()
        let limits = limits
        let due = try await pool.withTransaction { connection in
            try RateQueries.create(
                endpoint: Self.endpoint, perSecond: limits.statusPerSecond, now: now, on: connection
            )
            let lease = try RateQueries.lease(
                endpoint: Self.endpoint, wanted: limits.dependentsPerRound,
                perSecond: limits.statusPerSecond, now: now, on: connection)
            guard lease.granted > 0 else { return [DependentQueries.Open]() }
            let taken = try DependentQueries.takeDue(
                realNow: realNow, nextLookAt: realNow + limits.lookAgainAfter.milliseconds,
                limit: lease.granted, on: connection)
            _ = try connection.pipeline([
                RateQueries.giveBack(endpoint: Self.endpoint, tokens: lease.granted - taken.count)
            ])
            return taken
        }
        var failure: (any Error)?
        for open in due {
            // Each is taken already: one that fails must not cost the others their look.
            do { try await look(open) } catch { failure = failure ?? error }
        }
        if let failure { throw failure }
        return due.count
    }

    private func look(_ open: DependentQueries.Open) async throws {
        let answer = await store.look(transactionID: open.originalTransactionID)
        let now = clock.nowMilliseconds()
        if case .throttled(let until, _) = answer {
            _ = try await pool.withConnection { connection in
                try await connection.pipeline([
                    RateQueries.block(endpoint: Self.endpoint, until: until.milliseconds)
                ])
            }
        }
        // No answer says nothing of the dependent, however often it fails to come.
        guard case .answered(let events, _) = answer else { return }
        let isLast = open.looks >= limits.looksMax
        try await pool.withTransaction { connection in
            let id = open.originalTransactionID
            try SubscriptionQueries.lock([id], on: connection)
            try SubscriptionFolder.fold(
                events.filter { $0.originalTransactionID == id }, on: connection)
            guard isLast else { return }
            _ = try connection.pipeline([
                DependentQueries.giveUp(
                    open, detail: "still listed after \(open.looks) looks at its status", at: now)
            ])
        }
    }
}
