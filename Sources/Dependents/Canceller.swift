package import Calls
import Facts
import Pricing
package import ServiceKit

/// Proves that the dependents of a subscriber who declined are gone. The notification that shows the decline proves
/// most of them. For the others the canceller reads the subscription's status, and what stays unproved becomes a
/// discrepancy that reports show. A dependent on another subscription of the customer is cancelled by a call
/// (`CancelRound`).
package struct Canceller: Service {
    package let name = "canceller"
    private let engine: CallEngine
    private let store: any StatusCalls
    private let limits: Limits
    private let rounds: CancelRound

    package struct Limits: Sendable {
        package var statusPerSecond = 50.0
        package var cancelsPerSecond = 5.0
        package var checksMax = 5
        package var dependentsPerRound = 25
        package var checkAgainAfter: Duration = .seconds(30)
        /// How long a dependent waits while a call of the subscription is in flight, everything is paused, or no permit
        /// is free.
        package var notYetWait: Duration = .seconds(2)
        package var retry = Backoff(first: .milliseconds(500), max: .seconds(60))
        package var idleWait: Duration = .seconds(1)

        package init() {}
    }

    package init(
        _ engine: CallEngine, store: any StatusCalls, cancels: any CancelCalls,
        limits: Limits = Limits(), wait: @escaping CallPermitSource.Wait = CallPermitSource.sleep
    ) {
        self.engine = engine
        self.store = store
        self.limits = limits
        rounds = CancelRound(
            engine: engine,
            kind: CancelKind(
                store: store, cancels: cancels,
                permitSource: CallPermitSource(
                    pool: engine.pool, endpoint: "cancel", perSecond: limits.cancelsPerSecond,
                    clock: engine.clock, wait: wait),
                checkPermitSource: .statuses(engine, perSecond: limits.statusPerSecond, wait: wait),
                policy: CallPolicy(
                    retry: limits.retry, checksRefusals: true, checksAnswers: true,
                    refusedChecksMax: CancelRound.refusedChecksMax, keepsRefused: false),
                notYetWait: limits.notYetWait, checksWithin: engine.limits.checksWithin,
                realClock: engine.realClock,
                refusedStatuses: engine.refusedStatuses), putOffFor: limits.checkAgainAfter)
        Self.declare(engine.metrics)
    }

    private static func declare(_ metrics: Metrics) {
        metrics.declareCounter(
            "repricer_canceller_failures_total",
            "Rounds of the canceller that failed and are tried again.")
        metrics.declareCounter(
            "repricer_dependents_refused_total", "Dependents left to a person, by reason.",
            labels: ["reason": CrossSubscriptionDependent.Discrepancy.labels])
    }

    package func run() async throws {
        let metrics = engine.metrics
        await engine.run(
            failure: "cancelling dependents failed; trying again", idleWait: limits.idleWait,
            count: { metrics.increment("repricer_canceller_failures_total") }, step)
    }

    /// Does one round and waits until its calls are settled. Returns how much it found to do. Tests drive it by hand.
    package func round() async throws -> Int { try await engine.settled(step) }

    /// Continues open calls, then checks each due dependent once. Returns how many there were.
    private func step(_ out: CallsOut) async throws -> Int {
        try await engine.followClock()
        let controls = try await engine.controls()
        // While one call probes whether the App Store accepts calls again, the others wait for its answer.
        let isProbing = engine.isProbing(.cancel, controls)
        guard !isProbing || out.count == 0 else { return 0 }
        let kind = rounds.kind
        let waiting = try await engine.pool.read { try $0.ask(engine.waiting(kind)) }
        let resumed = try await engine.resume(kind, waiting, controls, out)
        guard !resumed.isProbe else { return resumed.calls }
        return try await resumed.calls + checkDue(controls, out)
    }

    private func checkDue(_ controls: ServiceControlQueries.Everything, _ out: CallsOut)
        async throws
        -> Int
    {
        let realNow = engine.realClock.nowMilliseconds()
        let limits = limits
        let isProbing = engine.isProbing(.cancel, controls)
        let wanted = engine.refusedStatuses.allowed(
            isProbing ? 1 : limits.dependentsPerRound, at: engine.now)
        guard wanted > 0 else { return 0 }
        let statuses = rounds.kind.checkPermitSource
        let (due, permits) = try await engine.pool.withTransaction { connection in
            let permits = try statuses.lease(wanted, on: connection)
            guard permits.granted > 0 else { return ([DependentQueries.Open](), permits) }
            let held = try DependentQueries.held(on: connection)
            var taken: [DependentQueries.Open] = []
            for bucket in try DependentQueries.dueBuckets(
                realNow: realNow, isProbing: isProbing, held: held, on: connection)
            where taken.count < permits.granted {
                taken += try DependentQueries.takeDue(
                    bucket: bucket, realNow: realNow,
                    nextCheckAt: realNow + limits.checkAgainAfter.milliseconds,
                    limit: permits.granted - taken.count, isProbing: isProbing, held: held,
                    on: connection)
            }
            _ = try connection.pipeline([statuses.returnUnused(permits, used: taken.count)])
            return (taken, permits)
        }
        var failure: (any Error)?
        // All dependents are placed first, because one call cancels all dependents on a subscription.
        var places: [DependentQueries.Open: String] = [:]
        for open in due where open.isCrossSubscription {
            do { places[open] = try await rounds.place(open) } catch {
                failure = failure ?? error
            }
        }
        let silenceWatch = Task(executorPreference: Alarm.shared) {
            await statuses.watchSilences(while: permits)
        }
        defer { silenceWatch.cancel() }
        for open in due {
            try Task.checkCancellation()
            // All these dependents are already taken, so the failure of one must not skip the check of the others.
            do { try await check(open, on: places[open], permits, controls, out) } catch {
                failure = failure ?? error
            }
        }
        if let failure { throw failure }
        return due.count
    }

    /// Checks one dependent, and cancels the subscription on which it is placed where that is allowed.
    private func check(
        _ open: DependentQueries.Open, on target: String?, _ permits: CallPermits,
        _ controls: ServiceControlQueries.Everything, _ out: CallsOut
    ) async throws {
        if open.isCrossSubscription {
            guard let target, try await rounds.mayLeave(open, on: target) else { return }
        }
        // It does not wait out a silence, because open calls wait for the end of this round.
        let statuses = rounds.kind.checkPermitSource
        guard
            try await statuses.take(
                from: permits, before: .now + engine.limits.checksWithin)
        else {
            let left = try await statuses.silenceLeft() ?? .zero
            return try await rounds.putOff(open, for: max(limits.checkAgainAfter, left))
        }
        if let target, open.isCrossSubscription {
            try await rounds.cancel(open, on: target, controls, out)
        } else {
            try await checkStatus(open, controls)
        }
    }

    private func checkStatus(
        _ open: DependentQueries.Open, _ controls: ServiceControlQueries.Everything
    ) async throws {
        let answer = await store.checkStatus(transactionID: open.originalTransactionID)
        let now = engine.clock.nowMilliseconds()
        try await engine.heed(
            answer, of: open.originalTransactionID, for: .cancel, rounds.kind.checkPermitSource,
            controls)
        let told = answer.statements
        var detail: String?
        if let why = answer.whyUnreadable(open.originalTransactionID) {
            guard rounds.isBelieved(open, of: open.originalTransactionID) else {
                return rounds.noteNoAnswer(open, why)
            }
            detail = why
        } else if told.isEmpty {
            return rounds.noteNoAnswer(open)
        } else if open.checks >= limits.checksMax {
            detail = "still listed after \(open.checks) checks at its status"
        }
        let (events, last) = (told, detail)
        try await engine.pool.withTransaction { connection in
            let id = open.originalTransactionID
            try SubscriptionQueries.lock([id], on: connection)
            try SubscriptionFolder.fold(
                events.filter { $0.originalTransactionID == id }, on: connection)
            guard let last else { return }
            _ = try connection.pipeline([DependentQueries.abandon(open, detail: last, at: now)])
        }
    }
}
