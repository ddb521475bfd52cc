package import Calls
import Facts
import Pricing
package import ServiceKit

/// Proves that a decliner's dependents are gone. Most are proved by the very notification that showed the
/// decline; for the others it reads the subscription's status, and what stays unproved becomes a discrepancy
/// that reports show. One on another subscription of the customer is cancelled by a call: see `CancelRound`.
package struct Canceller: Service {
    package let name = "canceller"
    private let engine: CallEngine
    private let store: any StatusCalls
    private let limits: Limits
    private let elsewhere: CancelRound

    package struct Limits: Sendable {
        package var statusPerSecond = 50
        package var cancelsPerSecond = 5
        package var looksMax = 5
        package var dependentsPerRound = 25
        package var lookAgainAfter: Duration = .seconds(30)
        /// Where a call about the subscription is out, everything is paused, or no slot was free.
        package var notYetWait: Duration = .seconds(2)
        package var retry = Backoff(first: .milliseconds(500), max: .seconds(60))
        package var idleWait: Duration = .seconds(1)

        package init() {}
    }

    package init(
        _ engine: CallEngine, store: any StatusCalls, cancels: any CancelCalls,
        limits: Limits = Limits(), wait: @escaping CallBudget.Wait = CallBudget.sleep
    ) {
        self.engine = engine
        self.store = store
        self.limits = limits
        elsewhere = CancelRound(
            engine: engine,
            kind: CancelKind(
                store: store, cancels: cancels,
                budget: CallBudget(
                    pool: engine.pool, endpoint: "cancel", perSecond: limits.cancelsPerSecond,
                    clock: engine.clock, wait: wait),
                checkBudget: .statuses(engine, perSecond: limits.statusPerSecond, wait: wait),
                policy: CallPolicy(
                    retry: limits.retry, checksRefusals: true, checksAnswers: true,
                    refusedChecksMax: CancelRound.refusedLooksMax),
                notYetWait: limits.notYetWait, realClock: engine.realClock))
    }

    package func run() async throws {
        let metrics = engine.metrics
        await engine.run(
            failure: "cancelling dependents failed; trying again", idleWait: limits.idleWait,
            count: { metrics.increment("repricer_canceller_failures_total") }, step)
    }

    /// One round, with its calls settled; returns how much it found to do. Tests drive it by hand.
    package func round() async throws -> Int { try await engine.settled(step) }

    /// Goes on with open calls, then looks once at each dependent that is due; returns how many there were.
    private func step(_ out: CallsOut) async throws -> Int {
        try await engine.followClock()
        let controls = try await engine.controls()
        // Whether the App Store takes calls again one call is to tell: the next waits for its answer.
        guard !controls.isHalted || out.count == 0 else { return 0 }
        let kind = elsewhere.kind
        let waiting = try await engine.pool.read { try $0.ask(engine.waiting(kind)) }
        let resumed = try await engine.resume(kind, waiting, controls, out)
        guard !controls.isHalted || resumed == 0 else { return resumed }
        return try await resumed + look(controls, out)
    }

    private func look(_ controls: ServiceControlQueries.Everything, _ out: CallsOut) async throws
        -> Int
    {
        let realNow = engine.realClock.nowMilliseconds()
        let limits = limits
        let wanted = controls.isHalted ? 1 : limits.dependentsPerRound
        let statuses = elsewhere.kind.checkBudget
        let (due, slots) = try await engine.pool.withTransaction { connection in
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
                    try await look(open, controls)
                    continue
                }
                guard let target = places[open] else { continue }
                try await statuses.take(from: slots)
                try await elsewhere.cancel(open, on: target, controls, out)
            } catch {
                failure = failure ?? error
            }
        }
        if let failure { throw failure }
        return due.count
    }

    private func look(
        _ open: DependentQueries.Open, _ controls: ServiceControlQueries.Everything
    ) async throws {
        let answer = await store.look(transactionID: open.originalTransactionID)
        let now = engine.clock.nowMilliseconds()
        try await engine.heed(answer, elsewhere.kind.checkBudget, controls)
        let told = answer.statements
        var detail: String?
        if let why = answer.whyUnreadable(open.originalTransactionID) {
            if open.looks >= CancelRound.refusedLooksMax { detail = why }
        } else if told.isEmpty {
            // No answer says nothing of the dependent, however often it fails to come.
            return
        } else if open.looks >= limits.looksMax {
            detail = "still listed after \(open.looks) looks at its status"
        }
        let (events, last) = (told, detail)
        try await engine.pool.withTransaction { connection in
            let id = open.originalTransactionID
            try SubscriptionQueries.lock([id], on: connection)
            try SubscriptionFolder.fold(
                events.filter { $0.originalTransactionID == id }, on: connection)
            guard let last else { return }
            _ = try connection.pipeline([DependentQueries.giveUp(open, detail: last, at: now)])
        }
    }
}
