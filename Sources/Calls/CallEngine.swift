import AppStore
package import Facts
package import Pricing
package import ServiceKit

/// Carries calls to the App Store: intent, lease, call, check, settlement. Every kind of call goes this one road.
package struct CallEngine: Sendable {
    package struct Limits: Sendable {
        /// Renewed while the calls are out, so that a dead process's work is taken over this soon.
        package var leaseFor: Duration = .seconds(10)
        /// The client gives a call up after so long; the App Store may still be at it.
        package var requestDeadline: Duration = .seconds(30)
        /// From the beginning of its claim, which asks for pauses: a call that got no permit until then is put back, so
        /// that a pause is effective within a second, however slow the claim was.
        package var leavesWithin: Duration = .milliseconds(750)
        /// The same of a check: none waits for a pause.
        package var checksWithin: Duration = .seconds(2)
        /// Answers wait so long for others of their claim, to be stored with them: at 50 calls a second, the last of which
        /// leaves half a second after the claim, for all of it, where the App Store answers within another half.
        package var settleEvery: Duration = .seconds(1)
        /// No claim begins for so long after a call that did not leave.
        package var failureWait: Duration = .seconds(1)
        /// Between two probes of the service while it has halted: of the business clock, over all replicas.
        package var probeEvery: Duration = .seconds(60)
        /// Between two probes of an App Store that gives no answers, growing: of the business clock.
        package var unanswered = Backoff(first: .seconds(1), max: .seconds(60))
        /// Open calls of one bucket that are taken over together.
        package var callsPerClaim = 25
        /// Calls that are out when the service ends get so long; what is still out then is taken over.
        package var drainFor: Duration = .seconds(7)

        package init() {}
    }

    /// So long after its client's deadline a call may still be applied (our choice: Apple is silent).
    private static let applyTime: Duration = .seconds(60)

    package let pool: DatabasePool
    package let environment: StoreEnvironment
    /// Decides what is due: the virtual clock in a rehearsal.
    package let clock: any WallClock
    /// Leases and retries; the machine's stands for the database's, which all replicas share.
    package let realClock: any WallClock
    package let log: Log
    package let metrics: Metrics
    package let limits: Limits
    package let owner: String
    let halt: ServiceHalt
    let outOfReach: Outage
    let recent = RecentAnswers()
    let packer = PayloadPacker()
    /// Of statuses that are read outside a round: what they get says nothing of calls.
    private let recentStatuses = RecentAnswers()
    /// nil where a test moves the clock by hand.
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
            log: log, level: .warning, failure: "the App Store is out of reach; calls wait",
            recovery: "the App Store is in reach again")
        Self.declare(metrics)
        halt = ServiceHalt(pool: pool, clock: clock, log: log, metrics: metrics)
        var random = SystemRandomNumberGenerator()
        owner = UUIDv7.make(nowMilliseconds: realClock.nowMilliseconds(), random: &random)
    }

    package var now: Instant { Instant(milliseconds: clock.nowMilliseconds()) }

    /// Of a lease that is taken now, UTC milliseconds of real time.
    package var leaseUntil: Int64 { realClock.nowMilliseconds() + limits.leaseFor.milliseconds }

    /// In milliseconds of the machine's clock, from the end of its lease: later no call is on its way any more. In a
    /// rehearsal with a fast clock as much shorter, for what comes later still is followed, too.
    package var flightTime: Int64 {
        let applyTime: Duration = environment == .production ? Self.applyTime : .zero
        return clock.realDuration(of: limits.requestDeadline + applyTime).milliseconds
    }

    /// Between attempts of a call that alone gets no answers: real time, in a rehearsal with a fast clock as much shorter.
    var unansweredWait: Backoff {
        var wait = ResolutionTable.unansweredWait
        wait.max = max(wait.first, min(wait.max, clock.realDuration(of: wait.max)))
        return wait
    }

    /// Takes the database's clock for the real one, once a round.
    package func followClock() async throws {
        guard let sharedClock else { return }
        try await pool.withConnection { connection in
            try await connection.read { try sharedClock.follow($0) }
        }
    }

    package func controls() async throws -> ServiceControlQueries.Everything {
        try await pool.withConnection { connection in
            try await connection.read { try ServiceControlQueries.everything(on: $0) }
        }
    }

    /// Whether one call asks for all: while the service has halted, or the App Store gives no answers.
    package func isProbing(
        _ kind: StoreCall.Kind, _ controls: ServiceControlQueries.Everything
    ) -> Bool {
        recent.note(controls)
        return controls.isHalted(kind) || recent.isFew(kind)
    }

    /// How many batches have work that is due.
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

    /// Starts the calls of a claim that is committed. They leave at the permits of `permits`; `out` tells when they are
    /// settled.
    ///
    /// - Parameter started: Before the claim asked for pauses and leased the calls.
    package func launch<Kind: CallKind>(
        _ calls: [StoreCall], of kind: Kind, claimed: [String: Kind.Claimed] = [:],
        permits: CallPermits, started: ContinuousClock.Instant, probe: Probe?, out: CallsOut
    ) {
        guard let first = calls.first else { return }
        let within = first.step == .send ? limits.leavesWithin : limits.checksWithin
        CallRound(
            engine: self, kind: kind,
            settlement: CallSettlement(
                pool: pool, kind: kind, log: log, unanswered: unansweredWait, packer: packer),
            permitSource: first.step == .send ? kind.permitSource : kind.checkPermitSource,
            permits: permits,
            leaveBefore: started + min(within, limits.leaseFor * 3 / 4), probe: probe, out: out,
            claimed: claimed
        ).launch(calls)
    }

    // MARK: Open calls

    /// What open calls of the kind wait for. `floor` as in `StoreCallQueries.waiting`.
    package func waiting(
        _ kind: some CallKind, from floor: Int64? = nil
    ) -> Question<StoreCallQueries.Waiting> {
        StoreCallQueries.waiting(
            kind.gate(now: clock.nowMilliseconds()), from: floor,
            realNow: realClock.nowMilliseconds())
    }

    /// Goes on with what was left open, by us or by a process that died. A pause holds back what is sent once more;
    /// checks go on. Returns how many calls it took over.
    package func resume<Kind: CallKind>(
        _ kind: Kind, _ waiting: StoreCallQueries.Waiting,
        _ controls: ServiceControlQueries.Everything,
        _ out: CallsOut
    ) async throws -> Int {
        var taken = 0
        for bucket in waiting.checks where mayGoOn(kind, taken, controls) {
            taken += try await takeOver(kind, .check, bucket: bucket, controls, out)
        }
        guard !controls.isHeld else { return taken }
        for bucket in waiting.sends where mayGoOn(kind, taken, controls) {
            taken += try await takeOver(kind, .send, bucket: bucket, controls, out)
        }
        return taken
    }

    /// Whether the App Store takes calls again one call is to tell: the others wait for its answer.
    private func mayGoOn(
        _ kind: some CallKind, _ taken: Int, _ controls: ServiceControlQueries.Everything
    ) -> Bool {
        !Task.isCancelled && (!isProbing(kind.kind, controls) || taken == 0)
    }

    /// As many calls of one bucket as there are permits for their next step.
    private func takeOver<Kind: CallKind>(
        _ kind: Kind, _ step: StoreCall.Step, bucket: Int,
        _ controls: ServiceControlQueries.Everything,
        _ out: CallsOut
    ) async throws -> Int {
        let permitSource = step == .check ? kind.checkPermitSource : kind.permitSource
        let wanted = isProbing(kind.kind, controls) ? 1 : limits.callsPerClaim
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

    /// The instant until which Apple asks every replica for silence: by a 429, or by `Retry-After` of an error of its own.
    /// An error may be one subscription's: what it alone asks for holds for the others until the next one is to ask.
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

    /// Acts on the answer to a status that was read outside a round: its silence, and what it says beside others.
    package func heed(
        _ answer: StoreAnswer, of subject: String, for kind: StoreCall.Kind,
        _ permitSource: CallPermitSource, _ controls: ServiceControlQueries.Everything
    ) async throws {
        if let until = silence(after: answer, to: subject, kind, beside: recentStatuses) {
            try await permitSource.block(until: until, for: .init(answer))
        }
        switch answer {
        case .answered:
            recentStatuses.noteSuccess(kind, [])
            if recent.doubtsKey(kind) { try await noteGoodKey(kind) }
            // A status says that our key is good, and nothing of other calls.
            if let reason = controls.haltedReason, ServiceHalt.isAboutKey(reason) {
                try await halt.recover()
            }
        // A status that is refused for what it says of the subscription concerns nobody else.
        case .refused(let refusal, _) where refusal.meaning == .haltService:
            let verdict = recentStatuses.judge(
                refusal, of: subject, kind, [], realNow: realClock.nowMilliseconds())
            guard case .systemic = verdict else { return }
            try await haltAll(because: refusal, subject, kind, nil, permitSource)
        case .refused, .throttled, .unknown, .notSent: break
        }
    }

    /// What calls were refused with was not our key.
    private func noteGoodKey(_ kind: StoreCall.Kind) async throws {
        try await pool.withTransaction { [recent] connection in
            let former = try RefusalStreakQueries.lock(kind, on: connection)
            let (_, streaks) = recent.together(kind, former) { $0.noteGoodKey(kind) }
            try connection.sendLater(RefusalStreakQueries.write(kind, streaks, former: former))
        }
    }

    /// No call of any batch fares better: one probe a minute is let out over all replicas.
    func haltAll(
        because refusal: StoreRefusal, _ subject: String, _ kind: StoreCall.Kind,
        _ streak: RefusalStreak?, _ permitSource: CallPermitSource
    ) async throws {
        try await halt.haltAll(because: refusal, subject, by: kind, streak)
        try await permitSource.block(
            until: now.advanced(by: limits.probeEvery.milliseconds), for: .halted)
    }

    /// No call of the kind fares better; other kinds go on.
    func haltKind(
        _ kind: StoreCall.Kind, because refusal: StoreRefusal, _ subject: String,
        _ streak: RefusalStreak?, _ permitSource: CallPermitSource
    ) async throws {
        try await halt.halt(kind, because: refusal, subject, streak)
        try await permitSource.block(
            until: now.advanced(by: limits.probeEvery.milliseconds), for: .halted)
    }

    /// What became of a call, in `repricer_calls_total`.
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
            "Times that calls became few, since the App Store gave no answers.",
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
