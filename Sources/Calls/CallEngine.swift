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
        /// No claim begins for so long after a call that did not leave, or whose key was refused.
        package var failureWait: Duration = .seconds(1)
        /// Of the business clock, over all replicas.
        package var refusedKeyWait: Duration = .seconds(60)
        /// Open calls of one bucket that are taken over together.
        package var callsPerClaim = 25
        /// Calls that are out when the service ends get so long; what is still out then is taken over.
        package var drainFor: Duration = .seconds(7)

        package init() {}
    }

    /// So long after its client's deadline a call may still be applied (our choice: Apple is silent).
    private static let applyTime: Duration = .seconds(60)

    package let pool: LedgerPool
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
    /// nil where a test moves the clock by hand.
    package let sharedClock: SharedClock?

    package init(
        pool: LedgerPool, environment: StoreEnvironment, clock: any WallClock,
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

    /// How many calls may go out together. While the service has halted one asks for all.
    package func callsMax(_ controls: ServiceControlQueries.Everything) -> Int {
        controls.isHalted ? 1 : limits.callsPerClaim
    }

    // MARK: New calls

    /// Writes the intents of a claim, inside its transaction.
    package func intents(_ calls: [StoreCall], now: Instant) -> [LedgerStatement] {
        guard !calls.isEmpty else { return [] }
        return [
            StoreCallQueries.insert(
                calls, owner: owner, leaseUntil: leaseUntil, flightTime: flightTime,
                now: now.milliseconds)
        ]
    }

    /// Starts the calls of a claim that is committed. They leave at the permits of `slots`; `out` tells when they are
    /// settled.
    ///
    /// - Parameter started: Before the claim asked for pauses and leased the calls.
    package func launch<Kind: CallKind>(
        _ calls: [StoreCall], of kind: Kind, claimed: [String: Kind.Claimed] = [:],
        slots: CallSlots, started: ContinuousClock.Instant, isProbe: Bool, out: CallsOut
    ) {
        guard let first = calls.first else { return }
        let within = first.step == .send ? limits.leavesWithin : limits.checksWithin
        CallRound(
            engine: self, kind: kind,
            settlement: CallSettlement(pool: pool, kind: kind, log: log),
            budget: first.step == .send ? kind.budget : kind.checkBudget, slots: slots,
            leaveBefore: started + min(within, limits.leaseFor * 3 / 4), isProbe: isProbe, out: out,
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
        for bucket in waiting.checks where mayGoOn(taken, controls) {
            taken += try await takeOver(kind, .check, bucket: bucket, controls, out)
        }
        guard !controls.isPaused else { return taken }
        for bucket in waiting.sends where mayGoOn(taken, controls) {
            taken += try await takeOver(kind, .send, bucket: bucket, controls, out)
        }
        return taken
    }

    /// Whether the App Store takes calls again one call is to tell: the others wait for its answer.
    private func mayGoOn(_ taken: Int, _ controls: ServiceControlQueries.Everything) -> Bool {
        !Task.isCancelled && (!controls.isHalted || taken == 0)
    }

    /// As many calls of one bucket as there are permits for their next step.
    private func takeOver<Kind: CallKind>(
        _ kind: Kind, _ step: StoreCall.Step, bucket: Int,
        _ controls: ServiceControlQueries.Everything,
        _ out: CallsOut
    ) async throws -> Int {
        let budget = step == .check ? kind.checkBudget : kind.budget
        let wanted = callsMax(controls)
        let started = ContinuousClock.now
        let (now, realNow) = (clock.nowMilliseconds(), realClock.nowMilliseconds())
        let (until, flightTime, owner) = (leaseUntil, flightTime, owner)
        let (calls, slots) = try await pool.withTransaction { connection in
            let slots = try budget.lease(wanted, on: connection)
            guard slots.granted > 0 else { return ([StoreCall](), slots) }
            let calls = try StoreCallQueries.takeOver(
                kind.gate(now: now), step, bucket: bucket, owner: owner, leaseUntil: until,
                flightTime: flightTime, realNow: realNow, limit: slots.granted, on: connection)
            try connection.sendLater([budget.giveBack(slots, used: calls.count)])
            return (calls, slots)
        }
        launch(
            calls, of: kind, slots: slots, started: started, isProbe: controls.isHalted, out: out)
        return calls.count
    }

    // MARK: Silences

    /// How long every replica keeps quiet after an answer: as Apple asked, or a while when it refuses our key.
    package func silence(after answer: StoreAnswer) -> Instant? {
        switch answer {
        case .throttled(let until, _): until
        case .refused(let refusal, _) where refusal.meaning == .haltService:
            now.advanced(by: limits.refusedKeyWait.milliseconds)
        case .answered, .refused, .unknown, .notSent: nil
        }
    }

    /// Acts on the answer to a status that was read outside a round: its silence, and what it says of our key.
    package func heed(
        _ answer: StoreAnswer, _ budget: CallBudget, _ controls: ServiceControlQueries.Everything
    ) async throws {
        if let until = silence(after: answer) { try await budget.block(until: until) }
        if let refusal = answer.refusedKey { try await halt.halt(because: refusal) }
        if controls.isHalted, answer.isHeard { try await halt.recover() }
    }

    func count(_ kind: StoreCall.Kind, _ result: String, by calls: Int) {
        metrics.increment(
            "repricer_calls_total", labels: ["kind": kind.rawValue, "result": result], by: calls)
    }
}
