import Foundation
import Ledger
import Pricing
import ServiceKit

/// The calls of one lane that are out together: each leaves at its slot, and what came back is stored together,
/// in one transaction for many.
struct CallRound: Sendable {
    let world: Scheduler.World
    let settlement: Settlement
    let budget: CallBudget
    /// For a look that a refusal asks for.
    let statuses: CallBudget
    let slots: CallSlots
    /// Later none leaves: a pause may have come, or the lease of the intent may end.
    let leaveBefore: ContinuousClock.Instant
    /// The service has halted: this asks whether the App Store takes calls again.
    let isProbe: Bool
    let out: CallsOut
    /// Requests just claimed, by their ids; what others say is read from what is stored.
    let claimed: [String: ClaimedCall]

    init(
        world: Scheduler.World, settlement: Settlement, budget: CallBudget, statuses: CallBudget,
        slots: CallSlots, leaveBefore: ContinuousClock.Instant, isProbe: Bool, out: CallsOut,
        claimed: [String: ClaimedCall]
    ) {
        self.world = world
        self.settlement = settlement
        self.budget = budget
        self.statuses = statuses
        self.slots = slots
        self.leaveBefore = leaveBefore
        self.isProbe = isProbe
        self.out = out
        self.claimed = claimed
    }

    /// Starts the calls. Every one is settled, whatever becomes of its siblings; then the first failure is told.
    func launch(_ requests: [RequestQueries.Held]) {
        guard !requests.isEmpty else { return }
        out.launch(requests.count) {
            let heart = Task(executorPreference: Alarm.shared) {
                await keepLeases(of: requests)
            }
            defer { heart.cancel() }
            if let failure = await callAll(requests) { throw failure }
        }
    }

    private enum Progress: Sendable {
        case ended(Attempt)
        /// Time to store what has come in, however long the others take.
        case tick
    }

    private func callAll(_ requests: [RequestQueries.Held]) async -> (any Error)? {
        await withTaskGroup(of: Progress.self) { group in
            for request in requests {
                group.addTask { .ended(await attempt(request)) }
            }
            group.addTask { await tick() }
            var out = requests.count
            var ended: [Attempt] = []
            var failure: (any Error)?
            while out > 0, let progress = await group.next() {
                switch progress {
                case .ended(let attempt):
                    ended.append(attempt)
                    out -= 1
                    guard out == 0 || stopsOthers(attempt.answer) else { continue }
                case .tick: group.addTask { await tick() }
                }
                do { try await settle(ended) } catch { failure = failure ?? error }
                ended = []
            }
            group.cancelAll()
            return failure
        }
    }

    /// Told at once: other calls, of other replicas too, are not to leave.
    private func stopsOthers(_ answer: StoreAnswer) -> Bool {
        silence(after: answer) != nil || answer.haltsBatch != nil
    }

    private func tick() async -> Progress {
        // Cancelled once all calls have ended.
        try? await Alarm.shared.wait(for: world.limits.settleEvery)
        return .tick
    }

    /// Renews the leases until cancelled, so that a slow answer is not taken for a dead process. A renewal
    /// that fails is tried again; when all fail, the lease ends as it should.
    private func keepLeases(of requests: [RequestQueries.Held]) async {
        while !Task.isCancelled {
            do {
                try await Alarm.shared.wait(for: world.limits.leaseFor / 4)
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

    // MARK: One call

    private func attempt(_ request: RequestQueries.Held) async -> Attempt {
        let claimed = claimed[request.requestReferenceID]
        do {
            guard try await mayLeave() else {
                let reason = slots.isSilenced ? Settlement.silenced : "held back"
                return Attempt(
                    request, .notSent(reason: reason), claimed: claimed, wasHeldBack: true)
            }
        } catch {
            // The slot could not be had; nothing has left.
            return Attempt(
                request, .notSent(reason: "no slot: \(error)"), claimed: claimed, wasHeldBack: true)
        }
        let answer = await call(request, claimed)
        if silence(after: answer) != nil { slots.silence() }
        guard case .refused(let refusal, _) = answer, refusal.meaning == .refresh,
            request.nextStep == "send"
        else { return Attempt(request, answer, claimed: claimed) }
        // The token was stale: the next call needs the one of the newest renewal info.
        return Attempt(
            request, answer, newest: await newestStatements(of: request), claimed: claimed)
    }

    /// Waits for a slot; false when the call must not leave any more.
    private func mayLeave() async throws -> Bool {
        try await budget.take(from: slots, before: leaveBefore) && !out.isStopping
    }

    private func newestStatements(of request: RequestQueries.Held) async -> [SubscriptionEvent] {
        do {
            // A long silence is not waited out beside the answer that is to be stored. Without a look the next
            // judgement meets the old token once more, and asks again.
            guard try await statuses.takeOne(within: world.limits.looksWithin) else { return [] }
        } catch {
            return []
        }
        switch await world.store.look(transactionID: request.transactionID) {
        case .answered(let events, _): return events
        case .throttled(let until, _):
            do { try await statuses.block(until: until) } catch {
                world.log.warning("a silence is not shared", ["error": String(describing: error)])
            }
            return []
        case .refused, .unknown, .notSent: return []
        }
    }

    private func call(
        _ request: RequestQueries.Held, _ claimed: ClaimedCall?
    ) async -> StoreAnswer {
        guard
            let intent = claimed?.intent
                ?? (try? PriceChangeIntent(of: request))  // Unreadable: said in the answer.
        else { return .unknown(reason: "the stored call can't be read", StoreReply()) }
        switch request.nextStep {
        case "look": return await world.store.look(transactionID: request.transactionID)
        default: return await world.store.changePrice(intent, leavingBefore: leaveBefore)
        }
    }

    // MARK: What came back

    private func settle(_ attempts: [Attempt]) async throws {
        guard !attempts.isEmpty else { return }
        if let until = attempts.compactMap({ silence(after: $0.answer) }).max() {
            try await budget.block(until: until)
        }
        var calls: [StoreAnswer] = []
        for attempt in attempts where !attempt.wasHeldBack { calls.append(attempt.answer) }
        // Before the answers are stored: what they put back must find its batch halted.
        let halts = Halts(world)
        try await halts.note(attempts)
        try await store(attempts)
        if isProbe, calls.contains(where: \.isHeard) { try await halts.recover() }
        if let name = calls.compactMap(\.refusedKey).first {
            world.log.error("the App Store refuses our key; calls wait", ["code": name])
        } else if let reason = calls.compactMap(\.notSentReason).first {
            world.log.warning("the App Store is out of reach; calls wait", ["reason": reason])
        } else {
            return
        }
        out.keepQuiet(for: world.limits.failureWait)
    }

    /// All in one transaction. Where one can't be stored they go one by one, so that it costs the others nothing.
    private func store(_ attempts: [Attempt]) async throws {
        do {
            return try await storeTogether(attempts)
        } catch  where isDataFault(error) && attempts.count > 1 {
            world.log.notice("settling one by one", ["error": String(describing: error)])
        } catch  where isDataFault(error) {
            return try await setAside(attempts, because: error)
        }
        var failure: (any Error)?
        for attempt in attempts {
            do { try await store([attempt]) } catch { failure = failure ?? error }
        }
        if let failure { throw failure }
    }

    private func storeTogether(_ attempts: [Attempt]) async throws {
        let now = Instant(milliseconds: world.clock.nowMilliseconds())
        let ours = try await settlement.settle(
            attempts, now: now, realNow: world.realClock.nowMilliseconds())
        let results = attempts.map { attempt in
            ours.contains(attempt.request.requestReferenceID) ? attempt.label : "lease_lost"
        }
        for (result, calls) in Dictionary(results.map { ($0, 1) }, uniquingKeysWith: +) {
            world.metrics.increment("repricer_calls_total", labels: ["result": result], by: calls)
        }
    }

    private func setAside(_ attempts: [Attempt], because error: any Error) async throws {
        for attempt in attempts {
            world.log.error(
                "an answer can't be stored",
                [
                    "request": attempt.request.requestReferenceID,
                    "error": String(describing: error),
                ])
            world.metrics.increment("repricer_calls_total", labels: ["result": "set_aside"])
            try await settlement.setAside(
                attempt.request, attempt.answer, because: error,
                now: Instant(milliseconds: world.clock.nowMilliseconds()),
                realNow: world.realClock.nowMilliseconds())
        }
    }

    /// How long every replica keeps quiet: as Apple asked, or a while when it refuses our key, since no other
    /// call could fare better.
    private func silence(after answer: StoreAnswer) -> Instant? {
        switch answer {
        case .throttled(let until, _): until
        case .refused(let refusal, _) where refusal.meaning == .haltService:
            Instant(milliseconds: world.clock.nowMilliseconds())
                .advanced(by: world.limits.refusedKeyWait.milliseconds)
        case .answered, .refused, .unknown, .notSent: nil
        }
    }
}

/// One call as it ended. Large, and handed on often: shared, not copied.
final class Attempt: Sendable {
    let request: RequestQueries.Held
    let answer: StoreAnswer
    /// Statements read besides the answer.
    let newest: [SubscriptionEvent]
    /// Its claim, where that is of this process.
    let claimed: ClaimedCall?
    /// It did not leave, by our own decision.
    let wasHeldBack: Bool

    init(
        _ request: RequestQueries.Held, _ answer: StoreAnswer, newest: [SubscriptionEvent] = [],
        claimed: ClaimedCall? = nil, wasHeldBack: Bool = false
    ) {
        self.request = request
        self.answer = answer
        self.newest = newest
        self.claimed = claimed
        self.wasHeldBack = wasHeldBack
    }

    var label: String {
        guard !wasHeldBack else { return "held_back" }
        switch answer {
        case .answered: return "answered"
        case .refused: return "refused"
        case .throttled: return "throttled"
        case .unknown: return "unknown"
        case .notSent: return "not_sent"
        }
    }
}

extension StoreAnswer {
    /// The App Store has taken the call and decided on it.
    var isHeard: Bool {
        switch self {
        case .answered: true
        case .refused(let refusal, _): refusal.meaning != .haltService
        case .throttled, .unknown, .notSent: false
        }
    }

    fileprivate var refusedKey: String? {
        switch self {
        case .refused(let refusal, _) where refusal.meaning == .haltService: refusal.name
        case .answered, .refused, .throttled, .unknown, .notSent: nil
        }
    }

    fileprivate var notSentReason: String? {
        switch self {
        case .notSent(let reason): reason
        case .answered, .refused, .throttled, .unknown: nil
        }
    }
}
