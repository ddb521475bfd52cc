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

    package struct World: Sendable {
        package var pool: LedgerPool
        package var store: any StoreCalls
        package var environment: StoreEnvironment
        /// Decides what is due: the virtual clock in a rehearsal.
        package var clock: any WallClock
        /// Leases and retries.
        package var realClock: any WallClock
        package var log: Log
        package var metrics: Metrics
        package var limits: Limits

        package init(
            pool: LedgerPool, store: any StoreCalls, environment: StoreEnvironment,
            clock: any WallClock, realClock: any WallClock = SystemClock(), log: Log,
            metrics: Metrics, limits: Limits = Limits()
        ) {
            self.pool = pool
            self.store = store
            self.environment = environment
            self.clock = clock
            self.realClock = realClock
            self.log = log
            self.metrics = metrics
            self.limits = limits
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
        /// Of the business clock, over all replicas.
        package var refusedKeyWait: Duration = .seconds(60)
        package var wakesPerRound = 1000
        package var retry = Backoff(first: .milliseconds(500), max: .seconds(60))

        package init() {}
    }

    static let endpoint = "change_price"

    package init(_ world: World) {
        self.world = world
        var random = SystemRandomNumberGenerator()
        claimer = Claimer(
            pool: world.pool, environment: world.environment,
            owner: UUIDv7.make(
                nowMilliseconds: world.realClock.nowMilliseconds(), random: &random),
            leaseFor: world.limits.leaseFor)
        settlement = Settlement(pool: world.pool, log: world.log, retry: world.limits.retry)
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
        let isPaused = try await world.pool.withConnection { connection in
            try await Self.prepare(connection, world.limits, now: now)
        }
        var done = try await settleOpen(isPaused: isPaused)
        guard !isPaused else { return done }
        let realNow = world.realClock.nowMilliseconds()
        let buckets = try await world.pool.withConnection { connection in
            try await connection.read { try DispatchQueries.dueBuckets(realNow: realNow, on: $0) }
        }
        guard !buckets.isEmpty else { return done }
        // Lanes start at different places of the list, so that they seldom reach for the same bucket.
        for offset in buckets.indices {
            let bucket = buckets[(offset + lane) % buckets.count]
            let judged = try await serve(bucket: bucket)
            done += judged
            if judged > 0 { return done }
        }
        return done
    }

    private static func prepare(
        _ connection: LedgerConnection, _ limits: Limits, now: Int64
    ) async throws -> Bool {
        try await connection.read { connection in
            for (endpoint, rate) in [
                (Self.endpoint, limits.changePricePerSecond),
                (Canceller.endpoint, limits.statusPerSecond),
            ] {
                try RateQueries.create(
                    endpoint: endpoint, perSecond: rate, now: now, on: connection)
            }
            _ = try DispatchQueries.wake(now: now, limit: limits.wakesPerRound, on: connection)
            return try BatchQueries.isEverythingPaused(on: connection)
        }
    }

    /// Leases tokens, claims as many requests, calls, settles.
    private func serve(bucket: Int) async throws -> Int {
        let limits = world.limits
        let now = Instant(milliseconds: world.clock.nowMilliseconds())
        let lease = try await leaseTokens(limits.requestsPerClaim, now: now)
        guard lease.granted > 0 else { return 0 }
        let realNow = world.realClock.nowMilliseconds()
        let claim = try await claimer.claim(
            bucket: bucket, limit: lease.granted, now: now, realNow: realNow)
        if claim.requests.count < lease.granted {
            try await giveBack(lease.granted - claim.requests.count)
        }
        try await callAndSettle(claim.requests)
        return claim.judged
    }

    private func leaseTokens(_ wanted: Int, now: Instant) async throws -> RateQueries.Lease {
        let rate = world.limits.changePricePerSecond
        return try await world.pool.withTransaction { connection in
            try RateQueries.lease(
                endpoint: Self.endpoint, wanted: wanted, perSecond: rate, now: now.milliseconds,
                on: connection)
        }
    }

    private func giveBack(_ tokens: Int) async throws {
        _ = try await world.pool.withConnection { connection in
            try await connection.pipeline([
                RateQueries.giveBack(endpoint: Self.endpoint, tokens: tokens)
            ])
        }
    }

    /// Retries and takes over what was left open: by us, or by a process that died. A pause holds back what is
    /// sent once more; looking goes on.
    private func settleOpen(isPaused: Bool) async throws -> Int {
        let realNow = world.realClock.nowMilliseconds()
        let due = try await world.pool.withConnection { connection in
            try await connection.read { try RequestQueries.due(realNow: realNow, on: $0) }
        }
        var held: [RequestQueries.Held] = []
        if due.looks { held += try await takeOver(looking: true, realNow: realNow) }
        if due.sends && !isPaused { held += try await takeOver(looking: false, realNow: realNow) }
        try await callAndSettle(held)
        return held.count
    }

    /// Takes over as many intents as there are tokens for their next step.
    private func takeOver(looking: Bool, realNow: Int64) async throws -> [RequestQueries.Held] {
        let limits = world.limits
        let now = world.clock.nowMilliseconds()
        let owner = claimer.owner
        let endpoint = looking ? Canceller.endpoint : Self.endpoint
        return try await world.pool.withTransaction { connection in
            let lease = try RateQueries.lease(
                endpoint: endpoint, wanted: limits.requestsPerClaim,
                perSecond: looking ? limits.statusPerSecond : limits.changePricePerSecond,
                now: now, on: connection)
            guard lease.granted > 0 else { return [] }
            let held = try RequestQueries.takeOver(
                looking: looking, owner: owner,
                leaseUntil: realNow + limits.leaseFor.milliseconds, realNow: realNow,
                limit: lease.granted, on: connection)
            _ = try connection.pipeline([
                RateQueries.giveBack(endpoint: endpoint, tokens: lease.granted - held.count)
            ])
            return held
        }
    }

    /// Every call is settled, whatever becomes of its siblings; then the first failure is told. Not cancelled
    /// with the service: a call that is out is settled before the process ends.
    private func callAndSettle(_ requests: [RequestQueries.Held]) async throws {
        guard !requests.isEmpty else { return }
        let failure = await Task {
            let heart = Task { await keepLeases(of: requests) }
            defer { heart.cancel() }
            return await withTaskGroup(of: (any Error)?.self) { group in
                for request in requests {
                    group.addTask {
                        do {
                            try await callAndSettle(request)
                            return nil
                        } catch {
                            return error
                        }
                    }
                }
                return await group.reduce(nil) { $0 ?? $1 }
            }
        }.value
        if let failure { throw failure }
    }

    /// Renews the leases until cancelled, so that a slow answer is not taken for a dead process. A renewal
    /// that fails is tried again; when all fail, the lease ends as it should.
    private func keepLeases(of requests: [RequestQueries.Held]) async {
        while !Task.isCancelled {
            do {
                try await Task.sleep(for: world.limits.leaseFor / 4)
                let until = world.realClock.nowMilliseconds() + world.limits.leaseFor.milliseconds
                _ = try await world.pool.withConnection { connection in
                    try await connection.pipeline([RequestQueries.renew(requests, until: until)])
                }
            } catch is CancellationError {
                return
            } catch {
                world.log.warning("leases not renewed", ["error": String(describing: error)])
            }
        }
    }

    private func callAndSettle(_ request: RequestQueries.Held) async throws {
        let answer = await call(request)
        var newest: [SubscriptionEvent] = []
        if case .refused(let refusal, _) = answer, refusal.meaning == .refresh,
            request.nextStep == "send",
            case .answered(let events, _) = await world.store.look(
                transactionID: request.transactionID)
        {
            // The token was stale: the next call needs the one of the newest renewal info.
            newest = events
        }
        try await settle(request, answer, newest: newest)
    }

    private func call(_ request: RequestQueries.Held) async -> StoreAnswer {
        guard
            let intent = try? JSONDecoder().decode(  // Unreadable: said in the answer.
                PriceChangeIntent.self, from: Data(request.call.utf8))
        else { return .unknown(reason: "the stored call can't be read", StoreReply()) }
        switch request.nextStep {
        case "look": return await world.store.look(transactionID: request.transactionID)
        default: return await world.store.changePrice(intent)
        }
    }

    private func settle(
        _ request: RequestQueries.Held, _ answer: StoreAnswer, newest: [SubscriptionEvent]
    ) async throws {
        let now = Instant(milliseconds: world.clock.nowMilliseconds())
        let realNow = world.realClock.nowMilliseconds()
        if let until = silence(after: answer, now: now) {
            let endpoint = request.nextStep == "look" ? Canceller.endpoint : Self.endpoint
            _ = try await world.pool.withConnection { connection in
                try await connection.pipeline([
                    RateQueries.block(endpoint: endpoint, until: until.milliseconds)
                ])
            }
        }
        do {
            let isOurs = try await settlement.settle(
                request, answer, newest: newest, now: now, realNow: realNow)
            world.metrics.increment(
                "repricer_calls_total", labels: ["result": isOurs ? answer.label : "lease_lost"])
        } catch  where isDataFault(error) {
            world.log.error(
                "an answer can't be stored",
                ["request": request.requestReferenceID, "error": String(describing: error)])
            world.metrics.increment("repricer_calls_total", labels: ["result": "set_aside"])
            try await settlement.setAside(
                request, answer, because: error, now: now, realNow: realNow)
        }
        if case .refused(let refusal, _) = answer, refusal.meaning == .haltService {
            world.log.error("the App Store refuses our key; calls wait", ["code": refusal.name])
            try await Task.sleep(for: world.limits.failureWait)
        }
        if case .notSent(let reason) = answer {
            world.log.warning("the App Store is out of reach; calls wait", ["reason": reason])
            try await Task.sleep(for: world.limits.failureWait)
        }
    }

    /// How long every replica keeps quiet: as Apple asked, or a while when it refuses our key, since no other
    /// call could fare better.
    private func silence(after answer: StoreAnswer, now: Instant) -> Instant? {
        switch answer {
        case .throttled(let until, _): until
        case .refused(let refusal, _) where refusal.meaning == .haltService:
            now.advanced(by: world.limits.refusedKeyWait.milliseconds)
        case .answered, .refused, .unknown, .notSent: nil
        }
    }
}

extension StoreAnswer {
    fileprivate var label: String {
        switch self {
        case .answered: "answered"
        case .refused: "refused"
        case .throttled: "throttled"
        case .unknown: "unknown"
        case .notSent: "not_sent"
        }
    }
}
