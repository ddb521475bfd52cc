import Calls
import Facts
import Pricing
import ServiceKit

/// Calls of Cancel a Subscription. Each ends a whole subscription, for dependents of parents on other subscriptions.
///
/// Its answers are believed less than those of a price change, because a cancelled subscriber cannot be asked back. A
/// refusal, and an answer without an effect, are checked. What stays unproved goes to a person as a discrepancy.
struct CancelKind: CallKind {
    typealias Claimed = Never

    let kind = StoreCall.Kind.cancel
    let store: any StatusCalls
    let cancels: any CancelCalls
    let permitSource: CallPermitSource
    let checkPermitSource: CallPermitSource
    let policy: CallPolicy
    /// How long it waits where the App Store is silent, or where the call was held back.
    let notYetWait: Duration
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

    func check(_ call: StoreCall) async -> StoreAnswer {
        let answer = await store.checkStatus(transactionID: call.subject)
        refusedStatuses.note(answer, of: call.subject)
        return answer
    }

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
        try SubscriptionFolder.fold(told, on: connection)
        let targets = attempts.map(\.call.subject).sorted()
        for (id, stored) in try SubscriptionQueries.load(targets, on: connection) {
            guard let over = stored.facts.whyOver else { continue }
            let shown = told.last { $0.originalTransactionID == id && $0.showsNoRenewal }
            guard let evidence = shown?.key.evidenceID ?? stored.foldedThrough?.evidenceID
            else { continue }
            scene[id] = Resolution.Proof(evidenceID: evidence, detail: over)
        }
    }

    func resolve(_ attempt: Attempt<Self>, in scene: Scene) -> Resolution {
        // The proof is this answer, or a notification that overtook it.
        if let proof = scene[attempt.call.subject] { return .applied(proof) }
        var policy = policy
        // Nothing is known of any of them then.
        if refusedStatuses.areAlike(besides: attempt.call.subject) { policy.refusedChecksMax = nil }
        return ResolutionTable(
            attempt.call, policy, attempt.verdict, overReason: "not asked for any more"
        ).resolve(attempt.answer)
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
        return "whether Cancel a Subscription was applied is unknown: its subscription's status "
            + "is refused with \(refusal.codeAndName)"
    }
}

extension SubscriptionEvent {
    fileprivate var showsNoRenewal: Bool {
        renewal?.autoRenewStatus == 0 || status == 2 || status == 5
    }
}
