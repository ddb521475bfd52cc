import Foundation
package import Ledger
package import Pricing
package import ServiceKit

/// Takes due work, earliest deadline first, and carries it to the App Store: claim, commit, call, settle.
///
/// Several lanes work side by side in one process and any number of processes side by side: a lane claims one
/// bucket at a time under the subscriptions' locks, so no two ever hold the same subscription. The calls of a claim
/// are settled in sets, and the next claim does not wait for them.
package struct Scheduler: Service {
    package let name = "scheduler"
    private let world: World
    private let claimer: Claimer
    private let settlement: Settlement
    private let sharedClock: SharedClock?
    private let dueWork = DueWork()
    private let prices: CallBudget
    private let statuses: CallBudget
    private let claimSize: ClaimSize

    package struct World: Sendable {
        package var pool: LedgerPool
        package var store: any StoreCalls
        package var environment: StoreEnvironment
        /// Decides what is due: the virtual clock in a rehearsal.
        package var clock: any WallClock
        /// Leases and retries; the machine's stands for the database's, which all replicas share.
        package var realClock: any WallClock
        package var log: Log
        package var metrics: Metrics
        package var limits: Limits
        package var wait: CallBudget.Wait

        package init(
            pool: LedgerPool, store: any StoreCalls, environment: StoreEnvironment,
            clock: any WallClock, realClock: any WallClock = SystemClock(), log: Log,
            metrics: Metrics, limits: Limits = Limits(),
            wait: @escaping CallBudget.Wait = CallBudget.sleep
        ) {
            self.pool = pool
            self.store = store
            self.environment = environment
            self.clock = clock
            self.realClock = realClock
            self.log = log
            self.metrics = metrics
            self.limits = limits
            self.wait = wait
        }
    }

    package struct Limits: Sendable {
        /// nil: no limit. Only for measuring what the rest of the road takes.
        package var changePricePerSecond: Int? = 50
        /// Looks at a status; the canceller spends of the same.
        package var statusPerSecond = 50
        /// Claims that are made at a time. More than one is for thousands of calls a second. More than two were no faster on
        /// two cores (`Deploy/bench dispatch`), and slower beside other processes.
        package var lanes = 2
        package var requestsPerClaim = 25
        /// Calls at a time; further claims wait.
        package var callsOutMax = 1000
        /// Calls that are out when the service ends get so long; what is still out then is taken over.
        package var drainFor: Duration = .seconds(7)
        /// Renewed while the calls are out, so that a dead process's work is taken over this soon.
        package var leaseFor: Duration = .seconds(10)
        /// The client gives a call up after so long; the App Store may still be at it.
        package var requestDeadline: Duration = .seconds(30)
        package var idleWait: Duration = .milliseconds(100)
        package var failureWait: Duration = .seconds(1)
        /// From the beginning of its claim, which asks for pauses: a call that got no slot until then is put back, so
        /// that a pause is effective within a second, however slow the claim was.
        package var leavesWithin: Duration = .milliseconds(750)
        /// A look that a refusal asks for: without a slot until then the answer is stored without it.
        package var looksWithin: Duration = .seconds(2)
        /// Answers wait so long for others of their claim, to be stored with them: at 50 calls a second, the last of which
        /// leaves half a second after the claim, for all of it, where the App Store answers within another half.
        package var settleEvery: Duration = .seconds(1)
        /// Of the business clock, over all replicas.
        package var refusedKeyWait: Duration = .seconds(60)
        package var wakesPerRound = 1000
        package var retry = Backoff(first: .milliseconds(500), max: .seconds(60))

        package init() {}
    }

    static let endpoint = "change_price"
    /// So long after its client's deadline a call may still be applied (our choice: Apple is silent).
    fileprivate static let applyTime: Duration = .seconds(60)
    private static let roomWait: Duration = .milliseconds(5)
    /// Without a limit as many claims are made of what one look has found: at a rate of Apple's, too, a look is for all the
    /// slots of half a second.
    private static let claimsPerLook = 8

    package init(_ world: World) {
        var world = world
        sharedClock = world.realClock is SystemClock ? SharedClock() : nil
        if let sharedClock { world.realClock = sharedClock }
        self.world = world
        var random = SystemRandomNumberGenerator()
        claimer = Claimer(
            pool: world.pool, clock: world.clock, realClock: world.realClock,
            environment: world.environment,
            owner: UUIDv7.make(
                nowMilliseconds: world.realClock.nowMilliseconds(), random: &random),
            leaseFor: world.limits.leaseFor, flightTime: world.flightTime)
        settlement = Settlement(pool: world.pool, log: world.log, retry: world.limits.retry)
        prices = CallBudget(
            pool: world.pool, endpoint: Self.endpoint,
            perSecond: world.limits.changePricePerSecond, clock: world.clock, wait: world.wait)
        statuses = CallBudget(
            pool: world.pool, endpoint: Canceller.endpoint,
            perSecond: world.limits.statusPerSecond, clock: world.clock, wait: world.wait)
        claimSize = ClaimSize(
            most: world.limits.requestsPerClaim, aim: world.limits.leavesWithin / 2)
    }

    package func run() async throws {
        let out = CallsOut()
        await withTaskCancellationHandler {
            await withTaskGroup(of: Void.self) { group in
                // Replicas begin at different buckets, and the lanes of one far from each other.
                let first = Int.random(in: 0..<DueOrder.places)
                for lane in 0..<world.limits.lanes {
                    let place = first + lane * DueOrder.places / world.limits.lanes
                    group.addTask(executorPreference: Alarm.shared) { await runLane(place, out) }
                }
            }
        } onCancel: {
            out.stop()
        }
        // The service is cancelled; the calls that are out are not.
        let isSettled = await Task { await out.allSettled(within: world.limits.drainFor) }.value
        guard !isSettled else { return }
        world.log.warning("calls without an answer are left", ["calls": "\(out.count)"])
    }

    private func runLane(_ place: Int, _ out: CallsOut) async {
        while !Task.isCancelled {
            do {
                if let failure = out.takeFailure() { throw failure }
                let quiet = out.quietFor
                if quiet > .zero { try await Alarm.shared.wait(for: quiet) }
                if try await step(place, out, isThorough: false) == 0 {
                    try await Alarm.shared.wait(for: world.limits.idleWait)
                }
            } catch is CancellationError {
                return
            } catch {
                world.log.error(
                    "delivery failed; trying again", ["error": String(describing: error)])
                world.metrics.increment("repricer_delivery_failures_total")
                // A cancelled sleep ends the loop above.
                try? await Alarm.shared.wait(for: world.limits.failureWait)
            }
        }
    }

    /// One round, with its calls settled; returns how much it found to do. Tests drive it by hand.
    package func round(place: Int = 0) async throws -> Int {
        let out = CallsOut()
        let done: Int
        do {
            done = try await step(place, out, isThorough: true)
        } catch {
            _ = await out.allSettled()
            throw error
        }
        _ = await out.allSettled()
        if let failure = out.takeFailure() { throw failure }
        return done
    }

    /// Looks at what there is to do, and starts as much of it as there are slots.
    private func step(_ place: Int, _ out: CallsOut, isThorough: Bool) async throws -> Int {
        guard out.count < world.limits.callsOutMax else {
            try await Alarm.shared.wait(for: Self.roomWait)
            return 1
        }
        let now = world.clock.nowMilliseconds()
        let found = try await world.pool.read { connection in
            if let sharedClock, !sharedClock.isKnown { try sharedClock.follow(connection) }
            return try dueWork.look(
                now: now, realNow: world.realClock.nowMilliseconds(),
                wakes: world.limits.wakesPerRound, isThorough: isThorough, clock: sharedClock,
                on: connection)
        }
        let controls = found.controls
        // Whether the App Store takes calls again one call is to tell: the next waits for its answer.
        guard !controls.isHalted || out.count == 0 else { return 0 }
        var done = 0
        if found.open.looks { done += try await takeOver(looking: true, controls, out) }
        guard !controls.isPaused else { return done }
        if found.open.sends { done += try await takeOver(looking: false, controls, out) }
        guard !found.due.isEmpty else { return done }
        return try await done
            + serve(DueOrder.turns(found.due, now: now, place: place), controls, out)
    }

    /// Reserves slots and claims as many requests, bucket by bucket: a slot that no request has is lost once
    /// another process has reserved beyond it. Calls leave while the next bucket is claimed.
    private func serve(
        _ turns: [DueOrder.Turn], _ controls: ControlQueries.Everything, _ out: CallsOut
    ) async throws -> Int {
        let limits = world.limits
        // No more than can leave before the next lease: each costs a handshake, and a new process is to call soon.
        await world.store.prepare(min(callsMax(controls), prices.slotsAhead))
        let slots = try await prices.lease(slotsMax(controls))
        guard slots.granted > 0 else {
            guard slots.lease.blockedUntil == nil else { return 0 }
            try await prices.pause(after: slots)
            return 1
        }
        var free = slots.granted
        var judged = 0
        let until = ContinuousClock.now + limits.leavesWithin / 2
        for turn in turns where free > 0 && mayClaim(slots, until: until, out) {
            // Asked once more: an answer may have come meanwhile that wants no further calls.
            guard try await hasRoom(out, until: until), mayClaim(slots, until: until, out)
            else { break }
            let started = ContinuousClock.now
            let claim = try await claimer.claim(turn, limit: min(free, claimSize.next))
            claimSize.note(claim.requests.count, took: .now - started)
            judged += claim.judged
            free -= claim.requests.count
            round(
                prices, slots, started: started, isProbe: controls.isHalted, out, claim.calls
            ).launch(claim.requests)
        }
        guard free == 0 else {
            try await giveBack(slots, used: slots.granted - free)
            return judged
        }
        try await prices.pace(after: slots)
        return judged
    }

    private func mayClaim(
        _ slots: CallSlots, until: ContinuousClock.Instant, _ out: CallsOut
    ) -> Bool {
        !slots.isSilenced && out.quietFor == .zero && ContinuousClock.now < until
            && !Task.isCancelled
    }

    /// Without a limit of the rate: waits until further calls may be out; false where that takes too long. With one no
    /// claim waits for calls, since its slots would go by.
    private func hasRoom(_ out: CallsOut, until: ContinuousClock.Instant) async throws -> Bool {
        guard prices.perSecond == nil else { return true }
        while out.count >= world.limits.callsOutMax {
            guard ContinuousClock.now < until else { return false }
            try await Alarm.shared.wait(for: Self.roomWait)
        }
        return true
    }

    /// While the service has halted one call asks whether the App Store takes calls again.
    private func callsMax(_ controls: ControlQueries.Everything) -> Int {
        controls.isHalted ? 1 : world.limits.requestsPerClaim
    }

    private func slotsMax(_ controls: ControlQueries.Everything) -> Int {
        guard prices.perSecond == nil, !controls.isHalted else { return callsMax(controls) }
        return callsMax(controls) * Self.claimsPerLook
    }

    /// `started` before the claim asked for pauses and leased the intents; called once they are committed.
    private func round(
        _ budget: CallBudget, _ slots: CallSlots, started: ContinuousClock.Instant, isProbe: Bool,
        _ out: CallsOut, _ claimed: [String: ClaimedCall] = [:]
    ) -> CallRound {
        let limits = world.limits
        return CallRound(
            world: world, settlement: settlement, budget: budget, statuses: statuses, slots: slots,
            leaveBefore: min(
                started + limits.leavesWithin, started + limits.leaseFor * 3 / 4),
            isProbe: isProbe, out: out, claimed: claimed)
    }

    private func giveBack(_ slots: CallSlots, used: Int) async throws {
        // Without a limit nothing was reserved.
        guard prices.perSecond != nil else { return }
        _ = try await world.pool.read { connection in
            try connection.pipeline([prices.giveBack(slots, used: used)])
        }
    }

    /// Retries and takes over what was left open, by us or by a process that died: as many intents as there are
    /// slots for their next step. A pause holds back what is sent once more; looking goes on.
    private func takeOver(
        looking: Bool, _ controls: ControlQueries.Everything, _ out: CallsOut
    ) async throws -> Int {
        let limits = world.limits
        let wanted = callsMax(controls)
        let owner = claimer.owner
        let budget = looking ? statuses : prices
        let now = world.clock.nowMilliseconds()
        let realNow = world.realClock.nowMilliseconds()
        let started = ContinuousClock.now
        let (held, slots) = try await world.pool.withTransaction { connection in
            let slots = try budget.lease(wanted, on: connection)
            guard slots.granted > 0 else { return ([RequestQueries.Held](), slots) }
            let held = try RequestQueries.takeOver(
                looking: looking, owner: owner,
                leaseUntil: realNow + limits.leaseFor.milliseconds,
                flightTime: claimer.flightTime, now: now, realNow: realNow, limit: slots.granted,
                on: connection)
            try connection.sendLater([budget.giveBack(slots, used: held.count)])
            return (held, slots)
        }
        round(budget, slots, started: started, isProbe: controls.isHalted, out).launch(held)
        return held.count
    }
}

extension Scheduler.World {
    /// In milliseconds of the machine's clock, from the end of its lease: later no call is on its way any more. In a
    /// rehearsal with a fast clock as much shorter, for what comes later still is followed, too.
    package var flightTime: Int64 {
        let applyTime: Duration = environment == .production ? Scheduler.applyTime : .zero
        return clock.realDuration(of: limits.requestDeadline + applyTime).milliseconds
    }
}
