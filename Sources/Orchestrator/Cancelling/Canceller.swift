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
    private let budget: CallBudget

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
        realClock: any WallClock = SystemClock(), log: Log, limits: Limits = Limits(),
        wait: @escaping CallBudget.Wait = CallBudget.sleep
    ) {
        self.pool = pool
        self.store = store
        self.clock = clock
        self.realClock = realClock
        self.log = log
        self.limits = limits
        budget = CallBudget(
            pool: pool, endpoint: Self.endpoint, perSecond: limits.statusPerSecond, clock: clock,
            wait: wait)
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
        let realNow = realClock.nowMilliseconds()
        let limits = limits
        let budget = budget
        let (due, slots) = try await pool.withTransaction { connection in
            let slots = try budget.lease(limits.dependentsPerRound, on: connection)
            guard slots.granted > 0 else { return ([DependentQueries.Open](), slots) }
            let taken = try DependentQueries.takeDue(
                realNow: realNow, nextLookAt: realNow + limits.lookAgainAfter.milliseconds,
                limit: slots.granted, on: connection)
            _ = try connection.pipeline([budget.giveBack(slots, used: taken.count)])
            return (taken, slots)
        }
        var failure: (any Error)?
        for open in due {
            // Each is taken already: one that fails must not cost the others their look.
            do {
                try await budget.take(from: slots)
                try await look(open)
            } catch {
                failure = failure ?? error
            }
        }
        if let failure { throw failure }
        return due.count
    }

    private func look(_ open: DependentQueries.Open) async throws {
        let answer = await store.look(transactionID: open.originalTransactionID)
        let now = clock.nowMilliseconds()
        if case .throttled(let until, _) = answer {
            try await budget.block(until: until)
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
