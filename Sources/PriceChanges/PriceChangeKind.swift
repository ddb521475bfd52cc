package import Calls
package import Facts
package import Pricing
import ServiceKit

/// Calls of Change Subscription Price. Each carries one or more changes of one subscription.
package struct PriceChangeKind: CallKind {
    package typealias Claimed = ClaimedCall

    package let kind = StoreCall.Kind.priceChange
    let store: any StoreCalls
    package let permitSource: CallPermitSource
    package let checkPermitSource: CallPermitSource
    package let policy: CallPolicy
    private let batchHalts: BatchHalts

    package init(
        store: any StoreCalls, permitSource: CallPermitSource, checkPermitSource: CallPermitSource,
        policy: CallPolicy,
        halts: BatchHalts
    ) {
        self.store = store
        self.permitSource = permitSource
        self.checkPermitSource = checkPermitSource
        self.policy = policy
        batchHalts = halts
    }

    package var halts: (any ScopeHalts)? { batchHalts }

    package func gate(now: Int64) -> CallGate {
        PriceCallQueries.gate(endpoint: permitSource.endpoint, now: now)
    }

    package func whileReady<T: Sendable>(
        _ call: StoreCall, _ work: @Sendable () async -> T
    ) async -> T {
        call.step == .send ? await store.whileReady(work) : await work()
    }

    package func send(
        _ call: StoreCall, _ claimed: ClaimedCall?, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer {
        guard let intent = claimed?.intent ?? PriceChangeIntent(of: call) else {
            return .unreadableIntent
        }
        return await store.changePrice(intent, leavingBefore: leavingBefore)
    }

    /// Every item must be in the answer, as Apple's renewal info lists what will renew.
    package func contradicts(
        _ answer: StoreAnswer, _ call: StoreCall, _ claimed: ClaimedCall?
    ) -> Bool {
        guard let intent = claimed?.intent ?? PriceChangeIntent(of: call) else { return false }
        let shown = answer.statements.last { $0.originalTransactionID == call.subject }
        return intent.items.contains { item in
            shown?.renewal?.items?.first { $0.sku == item.sku }?
                .contradicts(
                    newPrice: item.price, isDueLater: shown?.isTooLateForItsRenewal ?? false)
                ?? true
        }
    }

    package func check(_ call: StoreCall) async -> StoreAnswer {
        await store.checkStatus(transactionID: call.subject).about(call.subject)
    }

    /// The locked subscriptions, and what a fold made of their changes.
    package struct Scene {
        var subscriptions: SubscriptionQueries.Readable
        /// The changes that were ever sent, of some of the subscriptions.
        var changes: [String: [TrackedChange]] = [:]
        var folded: [String: [TrackedChange]] = [:]
        /// The calls whose changes a fold has settled, by this call or by an earlier one.
        var settled: Set<String> = []
    }

    /// Locks all subscriptions with one statement, in one order. It does not read again what their claims read, where
    /// that is still valid.
    package func lock(
        _ attempts: [Attempt<Self>], on connection: isolated DatabaseConnection
    ) throws -> (Scene, Set<String>) {
        let calls = attempts.map(\.call)
        let ids = calls.map(\.subject)
        guard attempts.allSatisfy({ $0.claimed?.subscription != nil && $0.call.isFirstAttempt })
        else {
            let (subscriptions, ours) = try connection.ask(
                SubscriptionQueries.lockingAndLoading(ids), StoreCallQueries.holding(calls))
            return (Scene(subscriptions: subscriptions), ours)
        }
        let (versions, ours) = try connection.ask(
            SubscriptionQueries.lockingVersions(ids), StoreCallQueries.holding(calls))
        var scene = Scene(subscriptions: ([:], [:]))
        var written: [String] = []
        for attempt in attempts {
            let id = attempt.call.subject
            guard let claimed = attempt.claimed?.subscription, claimed.version == versions[id]
            else {
                written.append(id)
                continue
            }
            scene.subscriptions.stored[id] = claimed.stored
            scene.changes[id] = claimed.changes
        }
        guard !written.isEmpty else { return (scene, ours) }
        let read = try SubscriptionQueries.loadReadable(written, on: connection)
        scene.subscriptions.stored.merge(read.stored) { _, read in read }
        scene.subscriptions.unreadable = read.unreadable
        return (scene, ours)
    }

    package func fold(
        _ attempts: [Attempt<Self>], into scene: inout Scene,
        on connection: isolated DatabaseConnection
    ) throws {
        scene.folded = try SubscriptionFolder.fold(
            attempts.flatMap { $0.statements(of: [$0.call.subject]) },
            areNew: attempts.allSatisfy(\.isFirstAnswer),
            // A subscription that cannot be read matters only to attempts whose answer is folded into it.
            into: scene.subscriptions.unreadable.isEmpty ? scene.subscriptions.stored : nil,
            changes: scene.changes, holdsCalls: true, on: connection)
        scene.settled = try settled(among: attempts.map(\.call), scene.folded, on: connection)
    }

    private func settled(
        among calls: [StoreCall], _ folded: [String: [TrackedChange]],
        on connection: isolated DatabaseConnection
    ) throws -> Set<String> {
        var settled: Set<String> = []
        var others: [StoreCall] = []
        for call in calls {
            guard let changes = folded[call.subject] else {
                others.append(call)
                continue
            }
            let isOpen = changes.contains { change in
                change.requestReferenceID == call.callID
                    && (change.progress.state == .sending || change.progress.state == .unknown)
            }
            if !isOpen { settled.insert(call.callID) }
        }
        guard !others.isEmpty else { return settled }
        return try settled.union(PriceCallQueries.settled(among: others, on: connection))
    }

    package func resolve(_ attempt: Attempt<Self>, in scene: Scene) -> Resolution {
        let id = attempt.call.callID
        // The proof is this answer, a notification that arrived before it, or the status that was read after "done
        // already".
        let refusal = attempt.answer.refusal
        if scene.settled.contains(id),
            refusal == nil || refusal?.meaning == .checkStatus || refusal?.mayBeApplied == true
        {
            var proof = Resolution.Proof()
            proof.showsEffect =
                scene.folded[attempt.call.subject]?.contains {
                    $0.requestReferenceID == id
                        && ($0.progress.state.isWithApple || $0.progress.state == .effective)
                } ?? false
            return .applied(proof)
        }
        let resolution = ResolutionTable(attempt.call, policy, attempt.verdict)
            .resolve(attempt.answer)
        guard case .released(var release) = resolution,
            refusal?.meaning == .refresh
        else { return resolution }
        release.staleToken = attempt.staleToken
        // The change is sent with its token again. A call without one would change what nobody has seen.
        if case (.unread, .retry) = (attempt.staleToken, release.after) { release.after = .parked }
        return .released(release)
    }

    package func write(
        _ endings: [ResolvedCall], in scene: Scene?, at now: Instant
    ) throws -> [DatabaseStatement] {
        var clocks = batchHalts.clocks
        clocks.now = now.milliseconds
        var statements = PriceCallQueries.settle(endings, by: clocks)
        let waiting = endings.filter(\.waitsLong).map(\.call)
        if !waiting.isEmpty {
            statements.append(PriceCallQueries.endWaits(waiting, before: clocks))
        }
        guard let scene else { return statements }
        // Another call of these subscriptions may have waited for the end of this one.
        let closed = endings.filter { !$0.isOpen }.map(\.call.subject)
        let unanswered =
            scene.folded.filter { $0.value.contains(where: \.isUnanswered) }.map(\.key)
            + closed.filter { scene.folded[$0] == nil }
        if !unanswered.isEmpty { statements.append(StoreCallQueries.reopen(unanswered)) }
        return statements
    }
}

extension Attempt<PriceChangeKind> {
    /// Whether this is the answer to the only attempt with its id. Its statements are then new, because their evidence
    /// has that id.
    fileprivate var isFirstAnswer: Bool {
        guard call.isFirstAttempt, newest.isEmpty, case .answered(let words, _) = answer else {
            return false
        }
        return words.statements.count == 1
            && words.statements.allSatisfy { $0.key.evidenceID == call.callID }
    }
}

extension Attempt<PriceChangeKind> {
    /// Which token the status shows that was read after a stale token.
    fileprivate var staleToken: Resolution.Release.StaleToken {
        // Where the intent cannot be read, nothing was sent.
        let sent = (claimed?.intent ?? PriceChangeIntent(of: call))?.consistencyToken
        guard
            let status = newest.filter({ $0.originalTransactionID == call.subject })
                .max(by: { $0.key < $1.key })
        else { return .unread }
        let shown = status.renewal?.consistencyToken
        return shown != nil && shown != sent ? .replaced : .same
    }
}

extension ResolvedCall {
    fileprivate var waitsLong: Bool {
        switch resolution {
        case .open(_, _, _, .unanswered): true
        case .open, .applied, .refused, .released: false
        }
    }
}
