package import Ledger
import Pricing
package import ServiceKit

/// Proves that a decliner's dependents are gone. Most are proved by the very notification that showed the
/// decline; for the others it reads the subscription's status, and what stays unproved becomes a discrepancy
/// that reports show. One on another subscription of the customer is cancelled by a call: see `CancelRound`.
package struct Canceller: Service {
    package let name = "canceller"
    private let world: World
    private let statuses: CallBudget
    private let elsewhere: CancelRound
    private let sharedClock: SharedClock?

    package struct World: Sendable {
        package var pool: LedgerPool
        package var store: any StoreCalls
        package var cancels: any CancelCalls
        package var clock: any WallClock
        /// Leases and waits; the machine's stands for the database's, which all replicas share.
        package var realClock: any WallClock
        package var log: Log
        package var metrics: Metrics
        package var limits: Limits
        package var wait: CallBudget.Wait

        package init(
            pool: LedgerPool, store: any StoreCalls, cancels: any CancelCalls,
            clock: any WallClock, realClock: any WallClock = SystemClock(), log: Log,
            metrics: Metrics, limits: Limits = Limits(),
            wait: @escaping CallBudget.Wait = CallBudget.sleep
        ) {
            self.pool = pool
            self.store = store
            self.cancels = cancels
            self.clock = clock
            self.realClock = realClock
            self.log = log
            self.metrics = metrics
            self.limits = limits
            self.wait = wait
        }
    }

    package struct Limits: Sendable {
        package var statusPerSecond = 50
        package var cancelsPerSecond = 5
        package var looksMax = 5
        package var dependentsPerRound = 25
        package var lookAgainAfter: Duration = .seconds(30)
        /// Where a call about the subscription is out, everything is paused, or no slot was free.
        package var notYetWait: Duration = .seconds(2)
        /// Of a call: a dead process's is taken over this soon.
        package var leaseFor: Duration = .seconds(10)
        /// From the beginning of its claim, which asks for pauses: a call that got no slot until then is put back, so
        /// that a pause is effective within a second.
        package var leavesWithin: Duration = .milliseconds(750)
        /// The same of a look, from when it is held: none waits for a pause.
        package var looksWithin: Duration = .seconds(2)
        /// A call that is out when the service ends gets so long; what is still out then is taken over.
        package var drainFor: Duration = .seconds(7)
        /// Of the business clock, over all replicas.
        package var refusedKeyWait: Duration = .seconds(60)
        package var retry = Backoff(first: .milliseconds(500), max: .seconds(60))
        package var idleWait: Duration = .seconds(1)

        package init() {}
    }

    static let endpoint = "status"
    static let cancelEndpoint = "cancel"

    package init(_ world: World) {
        var world = world
        sharedClock = world.realClock is SystemClock ? SharedClock() : nil
        if let sharedClock { world.realClock = sharedClock }
        self.world = world
        statuses = CallBudget(
            pool: world.pool, endpoint: Self.endpoint, perSecond: world.limits.statusPerSecond,
            clock: world.clock, wait: world.wait)
        elsewhere = CancelRound(world, statuses: statuses)
    }

    package func run() async throws {
        let metrics = world.metrics
        await Rounds(
            log: world.log, failure: "cancelling dependents failed; trying again",
            idleWait: world.limits.idleWait,
            count: { metrics.increment("repricer_canceller_failures_total") }
        ).run(drainFor: world.limits.drainFor, round)
    }

    /// Carries open calls on, then looks once at each dependent that is due; returns how many there were.
    package func round() async throws -> Int {
        if let sharedClock {
            try await world.pool.withConnection { connection in
                try await connection.read { try sharedClock.follow($0) }
            }
        }
        let controls = try await world.pool.withConnection { connection in
            try await connection.read { try ControlQueries.everything(on: $0) }
        }
        let key = KeyWatch(halts: Halts(world), isHalted: controls.isHalted)
        let settled = try await elsewhere.settleOpen(isPaused: controls.isPaused, key)
        let realNow = world.realClock.nowMilliseconds()
        let limits = world.limits
        let wanted = key.callsMax(limits.dependentsPerRound)
        let statuses = statuses
        let (due, slots) = try await world.pool.withTransaction { connection in
            let slots = try statuses.lease(wanted, on: connection)
            guard slots.granted > 0 else { return ([DependentQueries.Open](), slots) }
            let taken = try DependentQueries.takeDue(
                realNow: realNow, nextLookAt: realNow + limits.lookAgainAfter.milliseconds,
                limit: slots.granted, on: connection)
            _ = try connection.pipeline([statuses.giveBack(slots, used: taken.count)])
            return (taken, slots)
        }
        var failure: (any Error)?
        // All are placed first: two of one subscription fall together.
        var places: [DependentQueries.Open: String] = [:]
        for open in due where open.isElsewhere {
            do { places[open] = try await elsewhere.place(open) } catch {
                failure = failure ?? error
            }
        }
        for open in due {
            try Task.checkCancellation()
            // Each is taken already: one that fails must not cost the others their look.
            do {
                guard open.isElsewhere else {
                    try await statuses.take(from: slots)
                    try await look(open, key)
                    continue
                }
                guard let target = places[open] else { continue }
                try await statuses.take(from: slots)
                try await elsewhere.cancel(open, on: target, key)
            } catch {
                failure = failure ?? error
            }
        }
        if let failure { throw failure }
        return settled + due.count
    }

    private func look(_ open: DependentQueries.Open, _ key: KeyWatch) async throws {
        let answer = await world.store.look(transactionID: open.originalTransactionID)
        let now = world.clock.nowMilliseconds()
        if let until = elsewhere.silence(after: answer) { try await statuses.block(until: until) }
        try await key.heed(answer)
        var told: [SubscriptionEvent] = []
        var detail: String?
        if case .answered(let events, _) = answer { told = events }
        if let why = answer.whyUnreadable(open.originalTransactionID) {
            if open.looks >= CancelRound.refusedLooksMax { detail = why }
        } else if told.isEmpty {
            // No answer says nothing of the dependent, however often it fails to come.
            return
        } else if open.looks >= world.limits.looksMax {
            detail = "still listed after \(open.looks) looks at its status"
        }
        let (events, last) = (told, detail)
        try await world.pool.withTransaction { connection in
            let id = open.originalTransactionID
            try SubscriptionQueries.lock([id], on: connection)
            try SubscriptionFolder.fold(
                events.filter { $0.originalTransactionID == id }, on: connection)
            guard let last else { return }
            _ = try connection.pipeline([DependentQueries.giveUp(open, detail: last, at: now)])
        }
    }
}
