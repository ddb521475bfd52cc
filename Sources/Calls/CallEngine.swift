import AppStore
package import Facts
package import Pricing
package import ServiceKit

/// Carries calls to the App Store: intent, lease, call, check, settlement. Calls of every kind go through it.
package struct CallEngine: Sendable {
    package struct Limits: Sendable {
        /// How long a lease lasts. It is renewed while the calls are in flight, so that the work of a dead process is
        /// taken over this soon.
        package var leaseFor: Duration = .seconds(10)
        /// After this time the client stops waiting for an answer. The App Store may still apply the call.
        package var requestDeadline: Duration = .seconds(30)
        /// How long after the start of its claim a call may still be sent. Only the claim reads the pauses, and a call
        /// that gets no permit in this time is put back. So a pause takes effect within a second, however slow the
        /// claim was.
        package var leavesWithin: Duration = .milliseconds(750)
        /// The same limit for a status check. No pause holds a check back.
        package var checksWithin: Duration = .seconds(2)
        /// How long an answer waits for the other answers of its claim, so that one transaction stores them together.
        /// At 50 calls a second the last call of a claim is sent half a second after the claim. So where the App Store
        /// answers within another half second, one transaction stores all of them.
        package var settleEvery: Duration = .seconds(1)
        /// How long the engine starts no new claim after a call that could not be sent.
        package var failureWait: Duration = .seconds(1)
        /// The time between two probes of a halt, by the business clock and counted over all replicas.
        package var probes = ProbePace()
        /// The growing time between two probes of an App Store that gives no answers, by the business clock.
        package var unanswered = Backoff(first: .seconds(1), max: .seconds(60))
        /// How many open calls of one bucket are taken over together.
        package var callsPerClaim = 25
        /// How long calls in flight may take when the service ends. A call that is still out then is taken over.
        package var drainFor: Duration = .seconds(7)

        package init() {}
    }

    /// How long after the client's deadline the App Store may still apply a call. Apple states no limit, so this value
    /// is our choice.
    private static let applyTime: Duration = .seconds(60)

    package let pool: DatabasePool
    package let environment: StoreEnvironment
    /// The business clock, which decides what is due. It is virtual in a rehearsal.
    package let clock: any WallClock
    /// The clock of leases and retries. It is the database's, which all replicas share; a test may give another.
    package let realClock: any WallClock
    package let log: Log
    package let metrics: Metrics
    package let limits: Limits
    package let owner: String
    let halt: ServiceHalt
    let outOfReach: Outage
    let recent = RecentAnswers()
    let packer = PayloadPacker()
    /// The results of recent status reads outside a round. They say nothing about calls.
    private let recentStatuses = RecentAnswers()
    package let refusedStatuses = RefusedStatuses()
    /// The database's clock; nil where a test moves the clock by hand.
    package let sharedClock: SharedClock?

    package init(
        pool: DatabasePool, environment: StoreEnvironment, clock: any WallClock,
        realClock: any WallClock, log: Log, metrics: Metrics, limits: Limits
    ) {
        self.pool = pool
        self.environment = environment
        self.clock = clock
        sharedClock = realClock is SystemClock ? SharedClock() : nil
        self.realClock = sharedClock ?? realClock
        self.log = log
        self.metrics = metrics
        self.limits = limits
        outOfReach = Outage(
            log: log, level: .warning, failure: "calls to the App Store do not leave; they wait",
            recovery: "calls to the App Store leave again")
        Self.declare(metrics)
        halt = ServiceHalt(pool: pool, clock: clock, log: log, metrics: metrics)
        var random = SystemRandomNumberGenerator()
        owner = UUIDv7.make(nowMilliseconds: realClock.nowMilliseconds(), random: &random)
    }

    package var now: Instant { Instant(milliseconds: clock.nowMilliseconds()) }

    /// The end of a lease that is taken now, in UTC milliseconds of real time.
    package var leaseUntil: Int64 { realClock.nowMilliseconds() + limits.leaseFor.milliseconds }

    /// How long after the end of its lease a call may still be on its way, in milliseconds of the machine's clock. A
    /// rehearsal with a fast clock divides it by the rate of that clock. That is safe, because a statement that arrives
    /// later is still followed.
    package var flightTime: Int64 {
        let applyTime: Duration = environment == .production ? Self.applyTime : .zero
        return clock.realDuration(of: limits.requestDeadline + applyTime).milliseconds
    }

    /// The waits between attempts of a call that alone gets no answers, in real time. A rehearsal with a fast clock
    /// shortens them by as much.
    var unansweredWait: Backoff {
        var wait = ResolutionTable.unansweredWait
        wait.max = max(wait.first, min(wait.max, clock.realDuration(of: wait.max)))
        return wait
    }

    /// Reads the database's clock, once a round, to tell real time by it.
    package func followClock() async throws {
        guard let sharedClock else { return }
        try await pool.read { try sharedClock.follow($0) }
    }

    package func controls() async throws -> ServiceControlQueries.Everything {
        try await pool.read { try ServiceControlQueries.everything(on: $0) }
    }

    /// Whether one call probes for all: the service is halted, or the App Store gives no answers.
    package func isProbing(
        _ kind: StoreCall.Kind, _ controls: ServiceControlQueries.Everything
    ) -> Bool {
        recent.note(controls)
        return controls.isHalted(kind) || recent.isThrottled(kind)
    }

    /// Tells how many batches have work that is due.
    package func noteLive(batches: Int) { recent.noteLive(batches: batches) }

    // MARK: New calls

    /// Writes the intents of a claim, inside its transaction.
    package func intents(_ calls: [StoreCall], now: Instant) -> [DatabaseStatement] {
        guard !calls.isEmpty else { return [] }
        return [
            StoreCallQueries.insert(
                calls, owner: owner, leaseUntil: leaseUntil, flightTime: flightTime,
                now: now.milliseconds)
        ]
    }

    /// What stores the outcomes of calls of a kind.
    package func settlement<Kind: CallKind>(of kind: Kind) -> CallSettlement<Kind> {
        CallSettlement(
            pool: pool, kind: kind, log: log, unanswered: unansweredWait, packer: packer)
    }

    /// Starts the calls of a claim that is committed. They leave at the instants of `permits`; `out` tells when they
    /// are settled.
    ///
    /// - Parameter started: An instant before the claim asked for pauses and leased the calls.
    package func launch<Kind: CallKind>(
        _ calls: [StoreCall], of kind: Kind, claimed: [String: Kind.Claimed] = [:],
        permits: CallPermits, started: ContinuousClock.Instant, probe: Probe?, out: CallsOut
    ) {
        guard let first = calls.first else { return }
        let within = first.step == .send ? limits.leavesWithin : limits.checksWithin
        CallRound(
            engine: self, kind: kind,
            settlement: settlement(of: kind),
            permitSource: first.step == .send ? kind.permitSource : kind.checkPermitSource,
            permits: permits,
            leaveBefore: started + min(within, limits.leaseFor * 3 / 4), probe: probe, out: out,
            claimed: claimed
        ).launch(calls)
    }

    // MARK: Open calls

    /// What open calls of the kind wait for. `floor` and `layout` are those of `StoreCallQueries.waiting`.
    package func waiting(
        _ kind: some CallKind, from floor: Int64? = nil, layout: DatabaseLayout = .whole
    ) -> Question<StoreCallQueries.Waiting> {
        StoreCallQueries.waiting(
            kind.gate(now: clock.nowMilliseconds()), from: floor,
            realNow: realClock.nowMilliseconds(), layout: layout)
    }

    /// Takes over calls that this process, or one that died, left open, and continues them. A pause holds back calls
    /// that are to be sent again, but not checks. Returns how many calls it took over.
    ///
    /// While a probe is due, one call is taken over, and all others wait for its answer. Checks ask another endpoint, so
    /// they wait only where the App Store gives no answers or refuses our key.
    package func resume<Kind: CallKind>(
        _ kind: Kind, _ waiting: StoreCallQueries.Waiting,
        _ controls: ServiceControlQueries.Everything,
        _ out: CallsOut
    ) async throws -> Resumed {
        var resumed = Resumed()
        let isOne = isProbing(kind.kind, controls)
        let isOneCheck =
            recent.isThrottled(kind.kind)
            || isOne && (controls.haltedReason.map(ServiceHalt.isAboutKey) ?? false)
        for bucket in waiting.checks where !Task.isCancelled && !resumed.isProbe {
            let taken = try await takeOver(
                kind, .check, bucket: bucket, isOne: isOneCheck, controls, out)
            resumed.calls += taken
            resumed.isProbe = isOneCheck && taken > 0
        }
        guard !controls.isHeld else { return resumed }
        for bucket in waiting.sends where !Task.isCancelled && !resumed.isProbe {
            let taken = try await takeOver(kind, .send, bucket: bucket, isOne: isOne, controls, out)
            resumed.calls += taken
            resumed.isProbe = isOne && taken > 0
        }
        return resumed
    }

    /// The open calls that a round took over.
    package struct Resumed: Sendable {
        package var calls = 0
        /// Whether the call that it took over is the one for whose answer all others wait.
        package var isProbe = false
    }

    /// Takes over as many calls of one bucket as there are permits for their next step.
    private func takeOver<Kind: CallKind>(
        _ kind: Kind, _ step: StoreCall.Step, bucket: Int, isOne: Bool,
        _ controls: ServiceControlQueries.Everything,
        _ out: CallsOut
    ) async throws -> Int {
        let permitSource = step == .check ? kind.checkPermitSource : kind.permitSource
        let wanted = isOne ? 1 : limits.callsPerClaim
        let started = ContinuousClock.now
        let (now, realNow) = (clock.nowMilliseconds(), realClock.nowMilliseconds())
        let (until, flightTime, owner) = (leaseUntil, flightTime, owner)
        let (calls, permits) = try await pool.withTransaction { connection in
            let permits = try permitSource.lease(wanted, on: connection)
            guard permits.granted > 0 else { return ([StoreCall](), permits) }
            let calls = try StoreCallQueries.takeOver(
                kind.gate(now: now), step, bucket: bucket, owner: owner, leaseUntil: until,
                flightTime: flightTime, realNow: realNow, limit: permits.granted, on: connection)
            try connection.sendLater([permitSource.returnUnused(permits, used: calls.count)])
            return (calls, permits)
        }
        launch(
            calls, of: kind, permits: permits, started: started,
            probe: Probe(controls, kind.kind), out: out)
        return calls.count
    }

    // MARK: Silences

    /// The instant until which Apple asks every replica for silence, by a 429 or by `Retry-After` of another error.
    /// Such an error may be about one subscription. So where only one subscription met it, everybody waits for
    /// `limits.unanswered.max` at most, and then the next call asks again.
    func silence(
        after answer: StoreAnswer, to subject: String, _ kind: StoreCall.Kind,
        beside recent: RecentAnswers
    ) -> Instant? {
        switch answer {
        case .throttled(let until, _): return until
        case .unknown(_, let reply):
            guard let wait = reply.retryAfter, wait > .zero else { return nil }
            let isAlone = recent.isAskedAlone(kind, subject)
            return now.advanced(
                by: (isAlone ? min(wait, limits.unanswered.max) : wait).milliseconds)
        case .answered, .refused, .notSent: return nil
        }
    }

    /// Acts on the answer to a status read outside a round: keeps the silence that the answer asks for, and judges a
    /// refusal together with those of other subscriptions.
    package func heed(
        _ answer: StoreAnswer, of subject: String, for kind: StoreCall.Kind,
        _ permitSource: CallPermitSource, _ controls: ServiceControlQueries.Everything
    ) async throws {
        if let until = silence(after: answer, to: subject, kind, beside: recentStatuses) {
            try await permitSource.block(until: until, for: .init(answer))
        }
        refusedStatuses.note(answer, of: subject)
        switch answer {
        case .answered:
            recentStatuses.noteSuccess(kind, [])
            if recent.doubtsKey(kind) { try await noteGoodKey(kind) }
            // An answered status proves that our key is good, and nothing about other calls.
            if let reason = controls.haltedReason, ServiceHalt.isAboutKey(reason) {
                try await halt.recover()
            }
        // A status that is refused because of its subscription halts nobody else.
        case .refused(let refusal, _) where refusal.meaning == .haltService:
            let verdict = recentStatuses.judge(
                refusal, of: subject, kind, [], realNow: realClock.nowMilliseconds())
            guard case .systemic = verdict else { return }
            if refusal.isAboutKey {
                return try await haltAll(because: refusal, subject, kind, nil, permitSource)
            }
            log.warning(
                "statuses are refused alike; one a minute asks",
                ["code": refusal.codeAndName, "subscription": subject])
            refusedStatuses.askOne(from: now.advanced(by: limits.probes.next().milliseconds))
        case .refused, .throttled, .unknown, .notSent: break
        }
    }

    /// Notes that a status was answered, so our key is not why calls were refused.
    func noteGoodKey(_ kind: StoreCall.Kind) async throws {
        try await pool.withTransaction { [recent] connection in
            let former = try RefusalStreakQueries.lock(kind, on: connection)
            let (_, streaks) = recent.together(kind, former) { $0.noteGoodKey(kind) }
            try connection.sendLater(RefusalStreakQueries.write(kind, streaks, former: former))
        }
    }

    /// Halts the service, because calls of all batches are refused alike. Then all replicas together send one probe a
    /// minute.
    func haltAll(
        because refusal: StoreRefusal, _ subject: String, _ kind: StoreCall.Kind,
        _ streak: RefusalStreak?, _ permitSource: CallPermitSource
    ) async throws {
        try await halt.haltAll(because: refusal, subject, by: kind, streak)
        try await permitSource.block(
            until: now.advanced(by: limits.probes.next().milliseconds), for: .halted)
    }

    /// Halts one kind of call, because all its calls are refused alike. Other kinds continue.
    func haltKind(
        _ kind: StoreCall.Kind, because refusal: StoreRefusal, _ subject: String,
        _ streak: RefusalStreak?, _ permitSource: CallPermitSource
    ) async throws {
        try await halt.halt(kind, because: refusal, subject, streak)
        try await permitSource.block(
            until: now.advanced(by: limits.probes.next().milliseconds), for: .halted)
    }

    /// The values of `result` in `repricer_calls_total`.
    private static let results = [
        "answered", "refused", "throttled", "unknown", "not_sent", "held_back", "lease_lost",
        "quarantined", "parked",
    ]

    private static func declare(_ metrics: Metrics) {
        let kinds = StoreCall.Kind.allCases.map(\.rawValue)
        metrics.declareCounter(
            "repricer_calls_total", "Steps of calls that were settled, by kind and result.",
            labels: ["kind": kinds, "result": results])
        metrics.declareCounter(
            "repricer_breaker_opened_total",
            "Times that calls were throttled, since the App Store gave no answers.",
            labels: ["kind": kinds])
        metrics.declareCounter(
            "repricer_service_halts_total",
            "Times that calls were refused alike, whatever the subscription.")
        metrics.declareCounter(
            "repricer_kind_halts_total",
            "Times that calls of a kind were refused alike, whatever the subscription.",
            labels: ["kind": kinds])
    }

    func count(_ kind: StoreCall.Kind, _ result: String, by calls: Int) {
        metrics.increment(
            "repricer_calls_total", labels: ["kind": kind.rawValue, "result": result], by: calls)
    }
}
