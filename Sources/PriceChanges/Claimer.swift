import Batches
import Calls
import Facts
import Pricing
import ServiceKit
import Synchronization

/// Turns due changes into intents. It locks their subscriptions, judges the changes on the newest facts, and writes
/// intent and claim in one transaction. Nothing has been called when it returns.
struct Claimer: Sendable {
    /// How long a claim waits for a change that another session holds.
    private static let lockWait: Duration = .milliseconds(500)

    let engine: CallEngine
    private let rules = RuleCache()

    init(engine: CallEngine) { self.engine = engine }

    /// How long the App Store may take to apply a call, in milliseconds of the business clock. If a call could be
    /// applied after the change's last instant, the change is judged as of that time, because it would take effect a
    /// renewal later than stored. The periods of other environments are too short for this.
    private var callTime: Int64 { engine.environment == .production ? 5_000 : 0 }
    /// How long a subscription whose stored facts cannot be read waits until it is read again, in milliseconds.
    static let unreadableWait: Int64 = 60_000
    /// How long a subscription waits for its status to be read, in milliseconds of real time. The status check ends the
    /// wait earlier.
    static let statusWait: Int64 = 600_000
    /// How long the first call of an unheard subscription waits for its status, in milliseconds of real time. Where a
    /// change must be sent sooner than twice that, it does not wait.
    static let unheardWait: Int64 = 3_600_000

    struct Claim: Sendable {
        var calls: [StoreCall] = []
        /// What was read for the calls, by their ids.
        var claimed: [String: ClaimedCall] = [:]
        /// Changes of these calls that are not as every change is before its first call.
        fileprivate var again: [(id: String, changeID: String)] = []
        /// Subscriptions of these calls that were called before.
        fileprivate var called: [String] = []
        /// Remarks for the history lines of some changes.
        fileprivate var remarks: [(changeID: String, text: String)] = []

        fileprivate mutating func note(
            _ call: StoreCall, _ group: [JudgedChange], of id: String, wasCalled: Bool
        ) -> [OpenChangeQueries.OpenChange] {
            calls.append(call)
            let changes = group.map(\.change)
            remarks += group.compactMap(\.remark)
            again += changes.lazy.filter { !$0.isFresh }.map { (id: id, changeID: $0.changeID) }
            if wasCalled { called.append(id) }
            return changes
        }

        /// How many changes were judged, with any result. 0 means that the bucket had nothing to claim.
        var judged = 0
        /// Whether its batch waits for answers, because as many calls were sent as its guard needs to judge it.
        var waitsForSample = false
    }

    /// The subscriptions of a claim that failed.
    private final class Tried: Sendable {
        private let noted = Mutex<[String]>([])

        var ids: [String] { noted.withLock { $0 } }
        func note(_ ids: [String]) { noted.withLock { $0 = ids } }
    }

    /// Claims at most `limit` calls of one bucket.
    ///
    /// Where the rows of one subscription cannot be stored, smaller claims find out which one it is. Then that
    /// subscription waits, and the others do not.
    func claim(_ turn: DueOrder.Turn, limit: Int) async throws -> Claim {
        let tried = Tried()
        do {
            return try await claim(turn, limit: limit, noting: tried)
        } catch  where isDataFault(error) {
            let ids = tried.ids
            guard let id = ids.first else { throw error }
            guard ids.count == 1 else {
                return try await claim(turn, limit: min(limit, ids.count) / 2)
            }
            engine.log.error(
                "a subscription cannot be claimed; it waits for a minute",
                ["subject": id, "error": "\(error)"])
            let until = engine.realClock.nowMilliseconds() + Self.unreadableWait
            try await engine.pool.withTransaction { connection in
                try connection.sendLater([OpenChangeQueries.deferReading(id, until: until)])
            }
            return Claim(judged: 1)
        }
    }

    private func claim(
        _ turn: DueOrder.Turn, limit: Int, noting tried: Tried
    ) async throws -> Claim {
        try await engine.pool.withTransaction { connection in
            let probing = turn.probe?.batchID
            guard try lockProbe(of: probing, on: connection) else { return Claim() }
            let limit = try min(limit, sampleRoom(turn, on: connection))
            guard limit > 0 else { return Claim(waitsForSample: true) }
            let (locked, revision) = try connection.ask(
                DueQueries.locking(
                    turn.due, until: turn.until, limit: probing == nil ? limit : 1,
                    realNow: engine.realClock.nowMilliseconds(), probing: probing),
                RuleQueries.revision)
            guard !locked.ids.isEmpty else { return Claim() }
            tried.note(locked.ids)
            // The clock is read under the locks, so that the ids of a claim that waited for them are later.
            let (now, realNow) = (engine.now, engine.realClock.nowMilliseconds())
            let stored = locked.stored
            let tokens = Set(stored.values.compactMap(\.facts.appAccountToken)).sorted()
            let (open, siblings, imported) = try connection.ask(
                OpenChangeQueries.claimable(
                    locked.ids, bucket: turn.bucket, realNow: realNow, probing: probing,
                    isRestored: locked.isRestored),
                SubscriptionQueries.renewingSKUs(ofCustomers: tokens),
                ImportedIncreaseQueries.increases(of: locked.ids))
            let carriers = try open.values.carriers(on: connection)
            let (judge, late) = try judges(now, revision, on: connection)
            let (postponed, waits) = postponed(locked, open, now, realNow: realNow, turn.bucket)
            var (claim, statements) = (Claim(judged: postponed.count), waits)
            for id in locked.ids {
                guard let found = open[id], let subscription = stored[id],
                    !postponed.contains(id)
                else { continue }
                let context = found.context(of: subscription, imported[id], siblings, carriers)
                let judged = judged(found, subscription, context, by: judge, late)
                claim.judged += judged.count
                // A change that the App Store already has is followed by folding, not judged.
                guard try !adopt(judged, subscription.facts, on: connection) else { continue }
                let moves = judged.flatMap { $0.statements(now: now) }
                statements += moves
                guard
                    let (call, intent, group) = call(
                        of: judged, probing, subscription.facts, turn.bucket, realNow: realNow)
                else { continue }
                let changes = claim.note(call, group, of: id, wasCalled: found.wasCalled)
                follow(call, changes)
                claim.claimed[call.callID] = ClaimedCall(
                    intent,
                    found.wasCalled || !moves.isEmpty
                        ? nil
                        : ClaimedSubscription(
                            subscription, locked.versions[id], calling: changes,
                            by: call.callID, at: now))
            }
            // A claim without a call leaves the probe to the next queue.
            if let probing, !claim.calls.isEmpty {
                statements.append(
                    GuardQueries.moveProbe(
                        probing, next: realNow + engine.limits.probes.next().milliseconds))
            }
            statements += engine.intents(claim.calls, now: now)
            statements += PriceCallQueries.claim(
                claim.calls, planned: stored.compactMapValues(\.facts.renewalAt),
                again: claim.again, called: claim.called, remarks: claim.remarks,
                now: now.milliseconds)
            try write(statements, on: connection)
            return claim
        }
    }

    /// Writes with a lock timeout, because another session may hold a change, and the other buckets must not wait for
    /// it.
    private func write(
        _ statements: [DatabaseStatement], on connection: isolated DatabaseConnection
    ) throws {
        try connection.sendLater(
            [LockWaitQueries.limit(milliseconds: Self.lockWait.milliseconds)] + statements)
    }

    /// Two judges: one judges as of now, the other as of the latest instant at which a call sent now may be applied.
    private func judges(
        _ now: Instant, _ revision: Int, on connection: isolated DatabaseConnection
    ) throws -> (Judge, late: Judge) {
        let course = try rules.course(from: now, revision: revision, on: connection)
        return (
            Judge(rules: course, environment: engine.environment, now: now),
            Judge(rules: course, environment: engine.environment, now: now.advanced(by: callTime))
        )
    }

    /// Subscriptions that cannot be judged now: their facts cannot be read, or their status must be read first, because a
    /// lost database may have called them or a renewal has passed unheard. They are made to wait, by the statements, so
    /// that a bucket full of them does not starve the others.
    private func postponed(
        _ locked: DueQueries.Locked, _ open: [String: OpenChangeQueries.Claimable],
        _ now: Instant, realNow: Int64, _ bucket: Int
    ) -> (ids: Set<String>, waits: [DatabaseStatement]) {
        var postponed = Dictionary(
            uniqueKeysWithValues: locked.unreadable.keys.map {
                ($0, OpenChangeQueries.deferReading($0, until: realNow + Self.unreadableWait))
            })
        for (id, found) in open where found.awaitsStatus {
            postponed[id] = OpenChangeQueries.awaitStatus(id, until: realNow + Self.statusWait)
        }
        let unheard = unheard(locked, open, at: now).filter { postponed[$0] == nil }
        for id in unheard {
            postponed[id] = OpenChangeQueries.awaitStatus(id, until: realNow + Self.unheardWait)
        }
        let wants =
            unheard.isEmpty
            ? [] : [UnheardSubscription.want(unheard, bucket: bucket, at: now.milliseconds)]
        return (
            Set(postponed.keys), postponed.sorted { $0.key < $1.key }.map(\.value) + wants
        )
    }

    /// The subscriptions with a call to make whose last known renewal has passed unheard, and for whose status no change
    /// has waited yet.
    private func unheard(
        _ locked: DueQueries.Locked, _ open: [String: OpenChangeQueries.Claimable], at now: Instant
    ) -> [String] {
        locked.ids.filter { id in
            guard let found = open[id], locked.stored[id]?.facts.isUnheard(at: now) == true else {
                return false
            }
            let due = found.due
            return !due.isEmpty
                && due.allSatisfy { change in
                    // In a rehearsal, where days pass within seconds, no call waits so long.
                    let left = change.sendBy.milliseconds - now.milliseconds
                    return !change.hasAwaitedStatus
                        && engine.clock.realDuration(of: .milliseconds(left)).milliseconds
                            > 2 * Self.unheardWait
                }
        }
    }

    /// Logs lines with all ids of a change, so that a person can follow it by any of them. If the claim is not
    /// committed, no line of a settlement follows.
    private func follow(_ call: StoreCall, _ changes: [OpenChangeQueries.OpenChange]) {
        guard engine.log.writes(.debug) else { return }
        for change in changes {
            engine.log.debug(
                "change claimed",
                [
                    "batch": change.batchID, "change": change.changeID, "call": call.callID,
                    "subject": call.subject,
                ])
        }
    }

    /// Handles changes that cannot be sent because the item has the new price already: a call that this database does
    /// not know of may have set it. It folds the statements since the approval for them. It returns true where these
    /// show that a change was applied; another claim then judges the subscription.
    private func adopt(
        _ judged: [JudgedChange], _ facts: SubscriptionFacts,
        on connection: isolated DatabaseConnection
    ) throws -> Bool {
        let shown = judged.filter { $0.isShown(by: facts) }.map(\.change)
        guard let id = shown.first?.originalTransactionID else { return false }
        try OpenChangeQueries.follow(id, shown.map(\.changeID), on: connection)
        let folded = try SubscriptionFolder.foldAnew([id], on: connection)
        let adopted = folded[id, default: []].filter { change in
            change.progress.state.isWithApple || change.progress.state == .effective
        }
        return shown.contains { change in adopted.contains { $0.changeID == change.changeID } }
    }

    /// How many calls of the turn the guard of its batch still allows.
    private func sampleRoom(
        _ turn: DueOrder.Turn, on connection: isolated DatabaseConnection
    ) throws -> Int {
        try turn.sampling.flatMap { try GuardSampleQueries.room(of: $0, on: connection) } ?? .max
    }

    /// Whether a claim may be made. For a halted batch all replicas together may make one a minute.
    private func lockProbe(
        of batchID: String?, on connection: isolated DatabaseConnection
    ) throws -> Bool {
        guard let batchID else { return true }
        return try GuardQueries.lockProbe(
            batchID, realNow: engine.realClock.nowMilliseconds(), on: connection)
    }

    private func judged(
        _ found: OpenChangeQueries.Claimable, _ stored: SubscriptionQueries.Stored,
        _ context: JudgeContext, by judge: Judge, _ late: Judge
    ) -> [JudgedChange] {
        found.due.map { change in
            let verdict = verdict(on: change, stored.facts, context, by: judge)
            let slip: Slip =
                change.sendBy < late.now
                ? .lateCall : stored.facts.slip(from: change.dueEffectiveAt)
            guard case .send(let plan) = verdict, let sendBy = plan.sendBy, sendBy < late.now
            else { return JudgedChange(change: change, verdict: verdict, slip: slip) }
            return JudgedChange(
                change: change, verdict: self.verdict(on: change, stored.facts, context, by: late),
                slip: slip)
        }
    }

    private func verdict(
        on change: OpenChangeQueries.OpenChange, _ facts: SubscriptionFacts,
        _ context: JudgeContext,
        by judge: Judge
    ) -> SendingVerdict {
        guard change.undoes != nil else {
            return judge.judgeForSending(StoredChange(change), facts: facts, context: context)
        }
        return judge.judgeUndo(
            StoredChange(change), sendBy: change.sendBy, effectiveAt: change.dueEffectiveAt,
            facts: facts)
    }

    /// The one call of a subscription in this claim. It carries the group of the most urgent change. A probe is a call of
    /// its batch: an answer to a change of another one says nothing of what halted it.
    private func call(
        of judged: [JudgedChange], _ probing: String?, _ facts: SubscriptionFacts, _ bucket: Int,
        realNow: Int64
    ) -> (StoreCall, PriceChangeIntent, [JudgedChange])? {
        let sendable = judged.filter { change in
            change.isSendable && probing.map { $0 == change.change.batchID } ?? true
        }
        guard let first = sendable.first else { return nil }
        let key = sendable.count > 1 ? first.groupKey : nil
        let group = key.map { key in sendable.filter { $0.groupKey == key } } ?? [first]
        var random = SystemRandomNumberGenerator()
        // Most changes have no dependents, so what renews is not needed.
        let renewing = group.allSatisfy(\.change.dependentSKUs.isEmpty) ? [] : facts.renewingSKUs
        let intent = PriceChangeIntent(
            transactionID: facts.originalTransactionID,
            requestReferenceID: UUIDv7.make(nowMilliseconds: realNow, random: &random),
            // The token was refused, and the status shows the same token, so the call goes without one.
            consistencyToken: group.contains { $0.change.staleTokens >= 2 }
                ? nil : facts.consistencyToken, currency: first.change.currency,
            storefront: first.change.storefront,
            // The App Store knows only the dependents that renew on the same subscription. A dependent that is left out
            // here is on another one.
            items: group.map {
                PriceChangeIntent.Item(
                    sku: $0.change.sku, price: $0.change.newPrice,
                    dependentSKUs: $0.change.dependentSKUs.filter(renewing.contains))
            })
        let call = StoreCall(
            .priceChange, subject: intent.transactionID, callID: intent.requestReferenceID,
            bucket: bucket, carries: group.map(\.change.changeID), intent: intent.text)
        return (call, intent, group)
    }
}

/// A due change and its verdict on the newest facts. It is large and passed on often, so it is a class.
private final class JudgedChange {
    let change: OpenChangeQueries.OpenChange
    let verdict: SendingVerdict
    /// Why it is due at a later renewal than before, where its date moves.
    let slip: Slip

    init(change: OpenChangeQueries.OpenChange, verdict: SendingVerdict, slip: Slip) {
        self.change = change
        self.verdict = verdict
        self.slip = slip
    }

    var isSendable: Bool {
        switch verdict {
        case .send: true
        case .wait, .ineligible: false
        }
    }

    /// Whether it cannot be sent because the item has the new price already.
    func isShown(by facts: SubscriptionFacts) -> Bool {
        switch verdict {
        case .ineligible: change.undoes == nil && facts.bears(change.newPrice, for: change.sku)
        case .send, .wait: false
        }
    }

    var plan: PlanRow? {
        switch verdict {
        case .send(let plan): plan
        case .wait, .ineligible: nil
        }
    }

    /// What the history says beside its call: the customer will be asked, and nobody was told so.
    var remark: (changeID: String, text: String)? {
        guard change.undoes == nil, let plan, plan.consent == .required,
            let text = StoredChange(change).unforeseenConsent(in: plan)
        else { return nil }
        return (change.changeID, text)
    }

    /// The key of the call: changes with the same key share one. It is nil for a change that goes alone.
    var groupKey: String? {
        guard !change.goesAlone, let plan, let consent = plan.consent,
            let effectiveAt = plan.effectiveAt,
            let key = RequestGroup.key(
                change.grouping, consent: consent, effectiveAt: effectiveAt, sku: change.sku)
        else { return nil }
        // An undo shares no call with changes that are no undo.
        guard change.undoes == nil else { return "undo/\(change.batchID)/\(effectiveAt.text)" }
        switch change.grouping {
        case .announced, .item: return key
        // Another batch's rows are not this batch's to change.
        case .subscription: return "\(change.batchID)/\(key)"
        }
    }

    /// The end state of a change that can no longer be sent. A change whose renewal has passed moves to the next
    /// renewal. If there is none, because the subscription ended or does not renew, the change was missed after its
    /// deadline and is ineligible before it.
    private func endState(because fault: RowFault, now: Instant) -> ChangeState {
        let hasNoNextRenewal = fault.code == .notActive || fault.code == .autoRenewOff
        return hasNoNextRenewal && now > change.sendBy ? .missed : .ineligible
    }

    func statements(now: Instant) -> [DatabaseStatement] {
        let id = change.originalTransactionID
        switch verdict {
        case .ineligible(let fault):
            let end = endState(because: fault, now: now)
            return [
                OpenChangeQueries.end(
                    id, change.changeID, end, reason: fault.code.rawValue, at: now.milliseconds),
                OpenChangeQueries.history(
                    id, [change.changeID], end, at: now.milliseconds, kind: "judgement",
                    evidenceID: "at \(now.text)",
                    reason: "\(fault.code.rawValue): \(fault.message)"),
                // A change that ended frees its SKUs for other batches.
                FoldWrites.releaseRoles([id]),
            ]
        case .wait(let until):
            return [
                OpenChangeQueries.replan(
                    id, change.changeID, sendAfter: until, sendBy: change.sendBy,
                    effectiveAt: change.dueEffectiveAt, isReady: false)
            ]
        case .send(let plan):
            guard let effectiveAt = plan.effectiveAt, let sendBy = plan.sendBy,
                effectiveAt != change.dueEffectiveAt || sendBy != change.sendBy
            else { return [] }
            let move = OpenChangeQueries.replan(
                id, change.changeID, sendAfter: nil, sendBy: sendBy, effectiveAt: effectiveAt,
                isReady: true, slip: slip)
            // Another verdict may keep the renewal and move only the last instant.
            guard effectiveAt != change.dueEffectiveAt else { return [move] }
            return [
                move,
                OpenChangeQueries.history(
                    id, [change.changeID], .queued, at: now.milliseconds, kind: "judgement",
                    evidenceID: "at \(now.text)",
                    reason:
                        "moved from the renewal of \(change.dueEffectiveAt.text) to \(effectiveAt.text)"
                ),
            ]
        }
    }
}

extension StoredChange {
    init(_ change: OpenChangeQueries.OpenChange) {
        self.init(
            changeID: change.changeID, originalTransactionID: change.originalTransactionID,
            sku: change.sku, newPrice: change.newPrice, currentPrice: change.currentPrice,
            currency: change.currency, storefront: change.storefront, period: change.period,
            consent: change.forecastConsent, dependentSKUs: change.dependentSKUs,
            effectiveOnOrAfter: change.effectiveOnOrAfter.flatMap { CivilDate($0) },
            foreseen: change.foreseen, dueAt: change.dueEffectiveAt, sendBy: change.sendBy)
    }
}
