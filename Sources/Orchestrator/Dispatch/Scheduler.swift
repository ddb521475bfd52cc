import Foundation
package import Ledger
package import Pricing
package import ServiceKit

/// Takes due work, earliest deadline first, and carries it to the App Store: claim, commit, call, settle.
///
/// Several lanes work side by side in one process and any number of processes side by side: a lane claims one
/// bucket at a time under the subscriptions' locks, so no two ever hold the same subscription. A lane's calls
/// run together and are settled together; a slow call holds up its lane, never the others.
package struct Scheduler: Service {
    package let name = "scheduler"
    private let world: World
    private let claimer: Claimer
    private let settlement: Settlement
    private let sharedClock: SharedClock?
    private let prices: CallBudget
    private let statuses: CallBudget

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
        package var changePricePerSecond = 50
        /// Looks at a status; the canceller spends of the same.
        package var statusPerSecond = 50
        package var lanes = 4
        package var requestsPerClaim = 25
        /// Renewed while the calls are out, so that a dead process's work is taken over this soon.
        package var leaseFor: Duration = .seconds(10)
        package var idleWait: Duration = .milliseconds(100)
        package var failureWait: Duration = .seconds(1)
        /// From the beginning of its claim, which asks for pauses: a call that got no slot until then is put back, so
        /// that a pause is effective within a second, however slow the claim was.
        package var leavesWithin: Duration = .milliseconds(750)
        /// Answers that wait for others of their lane to be stored with them.
        package var settleEvery: Duration = .milliseconds(100)
        /// Of the business clock, over all replicas.
        package var refusedKeyWait: Duration = .seconds(60)
        package var wakesPerRound = 1000
        package var retry = Backoff(first: .milliseconds(500), max: .seconds(60))

        package init() {}
    }

    static let endpoint = "change_price"

    package init(_ world: World) {
        var world = world
        sharedClock = world.realClock is SystemClock ? SharedClock() : nil
        if let sharedClock { world.realClock = sharedClock }
        self.world = world
        var random = SystemRandomNumberGenerator()
        claimer = Claimer(
            pool: world.pool, environment: world.environment,
            owner: UUIDv7.make(
                nowMilliseconds: world.realClock.nowMilliseconds(), random: &random),
            leaseFor: world.limits.leaseFor)
        settlement = Settlement(pool: world.pool, log: world.log, retry: world.limits.retry)
        prices = CallBudget(
            pool: world.pool, endpoint: Self.endpoint,
            perSecond: world.limits.changePricePerSecond, clock: world.clock, wait: world.wait)
        statuses = CallBudget(
            pool: world.pool, endpoint: Canceller.endpoint,
            perSecond: world.limits.statusPerSecond, clock: world.clock, wait: world.wait)
    }

    package func run() async throws {
        await withTaskGroup(of: Void.self) { group in
            for lane in 0..<world.limits.lanes {
                group.addTask { await runLane(lane) }
            }
        }
    }

    private func runLane(_ lane: Int) async {
        while !Task.isCancelled {
            do {
                if try await round(lane: lane) == 0 {
                    try await Task.sleep(for: world.limits.idleWait)
                }
            } catch is CancellationError {
                return
            } catch {
                world.log.error(
                    "delivery failed; trying again", ["error": String(describing: error)])
                world.metrics.increment("repricer_delivery_failures_total")
                // A cancelled sleep ends the loop above.
                try? await Task.sleep(for: world.limits.failureWait)
            }
        }
    }

    /// One round of one lane; returns how much it found to do. Tests drive it by hand.
    package func round(lane: Int = 0) async throws -> Int {
        let now = world.clock.nowMilliseconds()
        let controls = try await world.pool.withConnection { connection in
            try await connection.read { connection in
                try sharedClock?.follow(connection)
                _ = try DispatchQueries.wake(
                    now: now, limit: world.limits.wakesPerRound, on: connection)
                return try ControlQueries.everything(on: connection)
            }
        }
        let done = try await settleOpen(controls)
        guard !controls.isPaused else { return done }
        let realNow = world.realClock.nowMilliseconds()
        let buckets = try await world.pool.withConnection { connection in
            try await connection.read { try DispatchQueries.dueBuckets(realNow: realNow, on: $0) }
        }
        guard !buckets.isEmpty else { return done }
        // Lanes start at different places of the list, so that they seldom reach for the same bucket.
        let start = lane % buckets.count
        return try await done
            + serve(Array(buckets[start...] + buckets[..<start]), controls)
    }

    /// Reserves slots and claims as many requests, bucket by bucket: a slot that no request has is lost once
    /// another process has reserved beyond it. Calls leave while the next bucket is claimed.
    private func serve(
        _ buckets: [Int], _ controls: ControlQueries.Everything
    ) async throws -> Int {
        let limits = world.limits
        let slots = try await prices.lease(callsMax(controls))
        guard slots.granted > 0 else {
            guard slots.lease.blockedUntil == nil else { return 0 }
            try await prices.pause(after: slots)
            return 1
        }
        return try await withThrowingTaskGroup(of: Void.self) { group in
            var free = slots.granted
            var judged = 0
            let until = ContinuousClock.now + limits.leavesWithin / 2
            for bucket in buckets where free > 0 && ContinuousClock.now < until {
                let started = ContinuousClock.now
                let claim = try await claimer.claim(
                    bucket: bucket, limit: free,
                    now: Instant(milliseconds: world.clock.nowMilliseconds()),
                    realNow: world.realClock.nowMilliseconds())
                judged += claim.judged
                free -= claim.requests.count
                guard !claim.requests.isEmpty else { continue }
                let round = round(
                    prices, slots, started: started, isProbe: controls.isHalted)
                group.addTask { try await round.run(claim.requests) }
            }
            if free > 0 { try await giveBack(slots, used: slots.granted - free) }
            try await group.waitForAll()
            return judged
        }
    }

    /// While the service has halted one call asks whether the App Store takes calls again.
    private func callsMax(_ controls: ControlQueries.Everything) -> Int {
        controls.isHalted ? 1 : world.limits.requestsPerClaim
    }

    /// `started` before the claim asked for pauses and leased the intents; called once they are committed.
    private func round(
        _ budget: CallBudget, _ slots: CallSlots, started: ContinuousClock.Instant, isProbe: Bool
    ) -> CallRound {
        let limits = world.limits
        return CallRound(
            world: world, settlement: settlement, budget: budget, statuses: statuses, slots: slots,
            leaveBefore: min(
                started + limits.leavesWithin, started + limits.leaseFor * 3 / 4),
            isProbe: isProbe)
    }

    private func giveBack(_ slots: CallSlots, used: Int) async throws {
        _ = try await world.pool.withConnection { connection in
            try await connection.pipeline([prices.giveBack(slots, used: used)])
        }
    }

    /// Retries and takes over what was left open: by us, or by a process that died. A pause holds back what is
    /// sent once more; looking goes on.
    private func settleOpen(_ controls: ControlQueries.Everything) async throws -> Int {
        let now = world.clock.nowMilliseconds()
        let realNow = world.realClock.nowMilliseconds()
        let due = try await world.pool.withConnection { connection in
            try await connection.read { try RequestQueries.due(now: now, realNow: realNow, on: $0) }
        }
        var done = 0
        if due.looks { done += try await takeOver(looking: true, controls, realNow: realNow) }
        if due.sends && !controls.isPaused {
            done += try await takeOver(looking: false, controls, realNow: realNow)
        }
        return done
    }

    /// Takes over as many intents as there are slots for their next step, and takes that step.
    private func takeOver(
        looking: Bool, _ controls: ControlQueries.Everything, realNow: Int64
    ) async throws -> Int {
        let limits = world.limits
        let wanted = callsMax(controls)
        let owner = claimer.owner
        let budget = looking ? statuses : prices
        let now = world.clock.nowMilliseconds()
        let started = ContinuousClock.now
        let (held, slots) = try await world.pool.withTransaction { connection in
            let slots = try budget.lease(wanted, on: connection)
            guard slots.granted > 0 else { return ([RequestQueries.Held](), slots) }
            let held = try RequestQueries.takeOver(
                looking: looking, owner: owner,
                leaseUntil: realNow + limits.leaseFor.milliseconds, now: now, realNow: realNow,
                limit: slots.granted, on: connection)
            _ = try connection.pipeline([budget.giveBack(slots, used: held.count)])
            return (held, slots)
        }
        try await round(budget, slots, started: started, isProbe: controls.isHalted).run(held)
        return held.count
    }
}
