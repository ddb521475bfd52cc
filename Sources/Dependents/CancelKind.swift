import Calls
import Facts
import Pricing
import ServiceKit

/// Calls of Cancel a Subscription. Each ends a whole subscription, for dependents of parents on other subscriptions.
///
/// A cancelled subscriber cannot be asked back, so its answers need more proof than those of a price change. A refusal,
/// and an answer without a visible effect, are checked. What stays unproved goes to a person as a discrepancy.
struct CancelKind: CallKind {
    typealias Claimed = Never

    let kind = StoreCall.Kind.cancel
    let store: any StatusCalls
    let cancels: any CancelCalls
    let permitSource: CallPermitSource
    let checkPermitSource: CallPermitSource
    let policy: CallPolicy
    /// How long it waits where the endpoint is silent, or where the call was held back.
    let notYetWait: Duration
    /// How long a further status waits for its permit at most.
    let checksWithin: Duration
    let realClock: any WallClock
    let refusedStatuses: RefusedStatuses

    func gate(now: Int64) -> CallGate {
        CancelQueries.gate(endpoint: permitSource.endpoint, now: now)
    }

    func send(
        _ call: StoreCall, _ claimed: Never?, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer {
        guard let intent = call.said(CancelIntent.self) else { return .unreadableIntent }
        return await cancels.cancel(intent, leavingBefore: leavingBefore)
    }

    /// Reads the status of what the call ends. Where that still renews and the call may be sent once more, it reads those of
    /// the parents too, because the customer may have taken one again; without an answer about each the call does not go.
    /// The permit for the first status is taken.
    func check(_ call: StoreCall) async -> StoreAnswer {
        let answer = await status(of: call.subject)
        guard call.errorCode == nil, !call.isOver, case .answered(var words, let reply) = answer,
            !words.statements.contains(where: {
                $0.originalTransactionID == call.subject && $0.showsNoRenewal
            })
        else { return answer }
        for parent in call.parents where parent != call.subject {
            // A database that is away fails again where the answer is stored.
            guard (try? await mayAsk()) == true else {
                return .unknown(reason: "no permit to read a parent's status", reply)
            }
            let more = await status(of: parent)
            guard case .answered(let told, _) = more else { return more }
            words.statements += told.statements
        }
        return .answered(words, reply)
    }

    private func status(of id: String) async -> StoreAnswer {
        let answer = await store.checkStatus(transactionID: id)
        refusedStatuses.note(answer, of: id)
        return answer.about(id)
    }

    /// Takes a permit for one more status. It does not wait out a silence, because open calls wait for the end of this
    /// round.
    func mayAsk() async throws -> Bool {
        let source = checkPermitSource
        for _ in 0..<Self.leasesMax {
            guard try await source.silenceLeft() == nil else { return false }
            let permits = try await source.lease(1)
            if permits.granted > 0 {
                return try await source.take(
                    from: permits, before: .now + checksWithin)
            }
            // At a low rate the next permit lies beyond what may be reserved.
            try await source.pause(after: permits)
        }
        return false
    }

    private static let leasesMax = 5
    /// The proof that a subscription will not renew, by its id.
    typealias Scene = [String: Resolution.Proof]

    func lock(
        _ attempts: [Attempt<Self>], on connection: isolated DatabaseConnection
    ) throws -> (Scene, Set<String>) {
        let calls = attempts.map(\.call)
        try SubscriptionQueries.lockToSettle(
            Set(calls.flatMap { subscriptions(of: $0) }).sorted(), on: connection)
        return ([:], try connection.ask(StoreCallQueries.holding(calls)))
    }

    func fold(
        _ attempts: [Attempt<Self>], into scene: inout Scene,
        on connection: isolated DatabaseConnection
    ) throws {
        let told = attempts.flatMap { $0.statements(of: subscriptions(of: $0.call)) }
        // A statement is about one bucket.
        for events in Bucket.groups(told, of: \.originalTransactionID) {
            try SubscriptionFolder.fold(events, on: connection)
        }
        let targets = attempts.map(\.call.subject).sorted()
        for (id, stored) in try SubscriptionQueries.load(targets, on: connection) {
            guard let over = stored.facts.whyOver else { continue }
            let shown = told.last { $0.originalTransactionID == id && $0.showsNoRenewal }
            guard let evidence = shown?.key.evidenceID ?? stored.foldedThrough?.evidenceID
            else { continue }
            scene[id] = Resolution.Proof(evidenceID: evidence, detail: over)
        }
        // Whoever has turned the renewal on again since must not lose it to a repetition.
        let open = attempts.map(\.call).filter { scene[$0.subject] == nil }
        for (id, evidence) in try CancelQueries.turnedOff(by: open, on: connection) {
            scene[id] = Resolution.Proof(evidenceID: evidence, detail: Self.onAgain)
        }
    }

    static let onAgain = "the renewal was turned off, and is on again"

    func resolve(_ attempt: Attempt<Self>, in scene: Scene) -> Resolution {
        // The proof is this answer, or a notification that arrived before it.
        if let proof = scene[attempt.call.subject] { return .applied(proof) }
        var policy = policy
        // Then the refusals say nothing about this subscription, so checks go on without limit.
        if refusedStatuses.areAlike(besides: attempt.call.subject) { policy.refusedChecksMax = nil }
        return checkedBefore(
            attempt,
            ResolutionTable(
                attempt.call, policy, attempt.verdict, overReason: "not asked for any more"
            ).resolve(attempt.answer))
    }

    /// Each repetition follows at once on statuses that were just read. The wait before it comes before the check.
    private func checkedBefore(_ attempt: Attempt<Self>, _ resolution: Resolution) -> Resolution {
        guard case .open(.send, let reason, let code, var after) = resolution else {
            return resolution
        }
        if attempt.call.step == .check, case .answered = attempt.answer {
            return .open(.send, reason: reason, errorCode: code, after: .none)
        }
        if attempt.call.step == .send, case .retry = after {
            var random = SystemRandomNumberGenerator()
            after =
                attempt.verdict == .parked
                ? .unanswered
                : .fixed(policy.retry.delay(attempt: attempt.call.attempts, random: &random))
        }
        return .open(.check, reason: reason, errorCode: code, after: after)
    }

    func write(
        _ endings: [ResolvedCall], in scene: Scene?, at now: Instant
    ) throws -> [DatabaseStatement] {
        endings.flatMap { ending -> [DatabaseStatement] in
            let call = ending.call
            switch ending.resolution {
            case .applied(let proof):
                return CancelQueries.confirm(
                    call, detail: proof.detail, evidenceID: proof.evidenceID,
                    at: now.milliseconds)
            case .refused(let refusal, _):
                return CancelQueries.abandon(
                    call, detail: Self.detail(refusal, call), at: now.milliseconds)
            case .released(let release):
                let soon = realClock.nowMilliseconds() + notYetWait.milliseconds
                return CancelQueries.requeue(
                    call, reason: release.reason, nextCheckAt: ending.nextAt ?? soon,
                    isParked: release.isParked)
            case .open: return []
            }
        }
    }

    private static func detail(_ refusal: StoreRefusal, _ call: StoreCall) -> String {
        if refusal.isOurs { return "Cancel a Subscription was \(refusal.message)" }
        if call.step == .send || refusal.isAfterChecks {
            return Int64(refusal.code) == ResolutionTable.answeredCode
                ? "Cancel a Subscription was answered, and it is still set to renew"
                : "Cancel a Subscription was refused with \(refusal.code)"
        }
        return "whether Cancel a Subscription was applied is unknown: the status of its "
            + "subscription, or of a parent, is refused with \(refusal.codeAndName)"
    }
}

extension SubscriptionEvent {
    fileprivate var showsNoRenewal: Bool {
        renewal?.autoRenewStatus == 0 || status == 2 || status == 5
    }
}
