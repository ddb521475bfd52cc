package import Calls
import Facts
import Pricing
package import ServiceKit

/// Takes due work, earliest deadline first, and carries it to the App Store: claim, commit, call, settle.
///
/// Several lanes run in parallel in one process, and any number of processes run in parallel. A lane claims from one
/// bucket at a time under the locks of its subscriptions, so no two ever hold the same subscription. The calls of a
/// claim are settled in sets, and the next claim does not wait for them.
package struct Scheduler: Service {
    package let name = "scheduler"
    private let engine: CallEngine
    private let store: any StoreCalls
    private let limits: Limits
    private let kind: PriceChangeKind
    private let claimer: Claimer
    private let dueWork: DueWork
    private let claimSize: ClaimSize
    private let unclaimed: UnclaimedWatch
    private let busy = BusyBuckets()
    private let outage: Outage

    package struct Limits: Sendable {
        /// Calls a second; nil for no limit, which only benchmarks of the other steps use.
        package var changePricePerSecond: Double? = 50
        /// Status checks a second. The canceller uses the same permits.
        package var statusPerSecond = 50.0
        /// How many claims run in parallel. More than one is needed for thousands of calls a second. More than two were
        /// no faster on two cores (`Deploy/bench dispatch`), and slower beside other processes.
        package var lanes = 2
        package var requestsPerClaim = 25
        /// How many calls may be unsettled at a time. Further claims wait.
        package var callsOutMax = 1000
        package var idleWait: Duration = .milliseconds(100)
        package var wakesPerRound = 1000
        package var retry = Backoff(first: .milliseconds(500), max: .seconds(60))

        package init() {}
    }

    private static let roomWait: Duration = .milliseconds(5)
    /// How many claims use the result of one search where there is no rate limit. At Apple's rate one search serves all
    /// permits of half a second.
    private static let claimsPerTurn = 8

    package init(
        _ engine: CallEngine, store: any StoreCalls, limits: Limits = Limits(),
        wait: @escaping CallPermitSource.Wait = CallPermitSource.sleep
    ) {
        self.engine = engine
        self.store = store
        self.limits = limits
        kind = PriceChangeKind(
            store: store,
            permitSource: CallPermitSource(
                pool: engine.pool, endpoint: "change_price", perSecond: limits.changePricePerSecond,
                clock: engine.clock, wait: wait),
            checkPermitSource: .statuses(engine, perSecond: limits.statusPerSecond, wait: wait),
            policy: CallPolicy(
                retry: limits.retry, readsStatusAfterStaleToken: true, keepsRefused: false,
                parksRefusedChecks: true),
            halts: BatchHalts(
                pool: engine.pool, clock: engine.clock, realClock: engine.realClock,
                log: engine.log, metrics: engine.metrics, probes: engine.limits.probes))
        claimer = Claimer(engine: engine)
        engine.metrics.declareCounter(
            "repricer_delivery_failures_total",
            "Rounds of the scheduler that failed and are tried again.")
        outage = Outage(log: engine.log, failure: "delivery failed; trying again")
        unclaimed = UnclaimedWatch(
            busy: busy, pool: engine.pool, realClock: engine.realClock, log: engine.log,
            metrics: engine.metrics)
        dueWork = DueWork(engine: engine, kind: kind)
        claimSize = ClaimSize(
            most: limits.requestsPerClaim, aim: engine.limits.leavesWithin / 2)
    }

    package func run() async throws {
        let out = CallsOut()
        await withTaskCancellationHandler {
            await withTaskGroup(of: Void.self) { group in
                group.addTask(executorPreference: Alarm.shared) { await unclaimed.run() }
                // Replicas begin at different buckets, and the lanes of a replica far from one another.
                let first = Int.random(in: 0..<DueOrder.places)
                for lane in 0..<limits.lanes {
                    let place = first + lane * DueOrder.places / limits.lanes
                    group.addTask(executorPreference: Alarm.shared) { await runLane(place, out) }
                }
            }
        } onCancel: {
            out.stop()
        }
        await engine.drain(out)
    }

    private func runLane(_ place: Int, _ out: CallsOut) async {
        while !Task.isCancelled {
            do {
                if let failure = out.takeFailure() { throw failure }
                let quiet = out.quietFor
                if quiet > .zero { try await Alarm.shared.wait(for: quiet) }
                let done = try await step(place, out, isThorough: false)
                outage.end()
                if done == 0 {
                    try await Alarm.shared.wait(for: limits.idleWait)
                }
            } catch is CancellationError {
                return
            } catch {
                outage.note(error)
                engine.metrics.increment("repricer_delivery_failures_total")
                // A cancelled sleep ends the loop above.
                try? await Alarm.shared.wait(for: engine.limits.failureWait)
            }
        }
    }

    /// Does one round and waits until its calls are settled. Returns how much it found to do. Tests drive it by hand.
    package func round(place: Int = 0) async throws -> Int {
        try await engine.settled { try await step(place, $0, isThorough: true) }
    }

    /// Searches what there is to do, and starts as much of it as there are permits.
    private func step(_ place: Int, _ out: CallsOut, isThorough: Bool) async throws -> Int {
        guard out.count < limits.callsOutMax else {
            try await Alarm.shared.wait(for: Self.roomWait)
            return 1
        }
        let found = try await dueWork.search(
            wakes: limits.wakesPerRound, isThorough: isThorough)
        let controls = found.controls
        // While one call probes whether the App Store accepts calls again, the others wait for its answer.
        engine.noteLive(batches: Set(found.due.map(\.queue.batchID)).count)
        let isProbing = engine.isProbing(kind.kind, controls)
        guard !isProbing || out.count == 0 else { return 0 }
        let turns =
            controls.isHeld
            ? []
            : DueOrder.turns(
                found.due, now: engine.clock.nowMilliseconds(), place: place)
        // A subscription that has not probed yet comes before those with open calls.
        let isFresh = isProbing && found.due.contains { $0.probe?.didNotAsk ?? false }
        if isFresh {
            let served = try await serve(turns, controls, out)
            guard served == 0 else { return served }
        }
        let resumed = try await engine.resume(kind, found.open, controls, out)
        guard !turns.isEmpty else {
            unclaimed.noteNothingDue()
            return resumed.calls
        }
        // A probe is already in flight, or there was no permit for it.
        if isProbing && (resumed.isProbe || isFresh) { return resumed.calls }
        return try await resumed.calls + serve(turns, controls, out)
    }

    /// Returns nil where another session holds a change that the claim needs. `UnclaimedWatch` names the session.
    private func claim(_ turn: DueOrder.Turn, limit: Int) async throws -> Claimer.Claim? {
        do {
            return try await claimer.claim(turn, limit: limit)
        } catch  where isHeldByOthers(error) {
            busy.note(turn.bucket)
            return nil
        }
    }

    /// Reserves permits and claims as many requests, bucket by bucket. A permit without a request is lost once another
    /// process has reserved beyond it. Calls are sent while the next bucket is claimed.
    private func serve(
        _ turns: [DueOrder.Turn], _ controls: ServiceControlQueries.Everything, _ out: CallsOut
    ) async throws -> Int {
        // Each connection costs a handshake, and a new process should call soon. So it prepares no more than can be
        // used before the next lease.
        await store.prepare(min(callsMax(controls), kind.permitSource.permitsAhead))
        let permits = try await kind.permitSource.lease(permitsMax(controls))
        guard permits.granted > 0 else {
            unclaimed.note(isStuck: false)
            guard permits.lease.blockedUntil == nil else { return 0 }
            try await kind.permitSource.pause(after: permits)
            return 1
        }
        var free = permits.granted
        var progress = RoundProgress(leavesWithin: engine.limits.leavesWithin)
        // Batches whose guard waits for answers. Nothing can be claimed from their other buckets either.
        var sampling: Set<String> = []
        let until = ContinuousClock.now + engine.limits.leavesWithin / 2
        for turn in turns
        where free > 0 && mayClaim(permits, until: until, out) && !busy.contains(turn.bucket) {
            if let batchID = turn.sampling, sampling.contains(batchID) { continue }
            // It is checked again, because an answer that came meanwhile may forbid further calls.
            guard try await hasRoom(out, until: until), mayClaim(permits, until: until, out)
            else { break }
            let started = ContinuousClock.now
            guard let claim = try await claim(turn, limit: min(free, claimSize.next)) else {
                continue
            }
            let took = ContinuousClock.now - started
            claimSize.note(claim.calls.count, took: took)
            progress.note(judged: claim.judged, calls: claim.calls.count, took: took)
            free -= claim.calls.count
            if claim.waitsForSample, let batchID = turn.sampling { sampling.insert(batchID) }
            engine.launch(
                claim.calls, of: kind, claimed: claim.claimed, permits: permits, started: started,
                probe: Probe(controls, kind.kind) ?? turn.probe, out: out)
        }
        // Permits passed unused, or a lane of this process was faster and has claimed.
        unclaimed.note(
            isStuck: progress.useful == 0 && sampling.isEmpty && !permits.isSilenced,
            claimsTook: progress.slowest)
        guard free == 0 else {
            try await returnUnused(permits, used: permits.granted - free)
            return progress.judged
        }
        try await kind.permitSource.pace(after: permits)
        return progress.judged
    }

    private func mayClaim(
        _ permits: CallPermits, until: ContinuousClock.Instant, _ out: CallsOut
    ) -> Bool {
        !permits.isSilenced && out.quietFor == .zero && ContinuousClock.now < until
            && !Task.isCancelled
    }

    /// Without a rate limit, waits until fewer calls are unsettled; returns false where that takes too long. With a
    /// rate limit it does not wait, because permits would pass meanwhile.
    private func hasRoom(_ out: CallsOut, until: ContinuousClock.Instant) async throws -> Bool {
        guard kind.permitSource.perSecond == nil else { return true }
        while out.count >= limits.callsOutMax {
            guard ContinuousClock.now < until else { return false }
            try await Alarm.shared.wait(for: Self.roomWait)
        }
        return true
    }

    /// How many calls may be claimed. While the service is halted, one call probes whether the App Store takes calls
    /// again.
    private func callsMax(_ controls: ServiceControlQueries.Everything) -> Int {
        engine.isProbing(kind.kind, controls) ? 1 : limits.requestsPerClaim
    }

    private func permitsMax(_ controls: ServiceControlQueries.Everything) -> Int {
        guard kind.permitSource.perSecond == nil, !engine.isProbing(kind.kind, controls) else {
            return callsMax(controls)
        }
        return callsMax(controls) * Self.claimsPerTurn
    }

    private func returnUnused(_ permits: CallPermits, used: Int) async throws {
        // Without a limit nothing was reserved.
        guard kind.permitSource.perSecond != nil else { return }
        _ = try await engine.pool.read { connection in
            try connection.pipeline([kind.permitSource.returnUnused(permits, used: used)])
        }
    }
}
