import Calls
import Facts
import Foundation
import Pricing
import ServiceKit

/// Prepares the cancellation of subscriptions that carry dependents of a parent on another subscription.
///
/// First the dependent is placed: the subscription that carries it is found. Then the status of that subscription is
/// read. Where everything that renews there must be cancelled, the intent with its `requestReferenceId` is committed
/// before the call. From then on it is an ordinary call, of `CancelKind`.
struct CancelRound: Sendable {
    let engine: CallEngine
    let kind: CancelKind
    /// The shortest wait before a dependent that may not be cancelled now is checked again.
    let putOffFor: Duration

    // MARK: Which subscription

    /// Finds the subscription that carries the dependent, and stores it. Returns nil where there is none; the
    /// dependent then goes to a person.
    func place(_ open: DependentQueries.Open) async throws -> String? {
        let now = engine.clock.nowMilliseconds()
        let reason = try await engine.pool.withTransaction {
            connection -> Result<String, CrossSubscriptionDependent.NoPlace> in
            try SubscriptionQueries.lock([open.originalTransactionID], on: connection)
            let parent = try SubscriptionQueries.load([open.originalTransactionID], on: connection)[
                open.originalTransactionID]
            let sku = DependentReference(open.dependentSKU).sku
            let dependent = CrossSubscriptionDependent(
                sku: sku, customer: parent?.facts.appAccountToken)
            let ids = try DependentQueries.places(
                of: open, customer: parent?.facts.appAccountToken, on: connection)
            let stored = try SubscriptionQueries.load(ids, on: connection)
            var candidates: [CrossSubscriptionDependent.Candidate] = []
            for one in ids.compactMap({ stored[$0] }) {
                candidates.append(
                    CrossSubscriptionDependent.Candidate(
                        facts: one.facts, seenSKUs: one.seenSKUs,
                        nameToday: try Self.nameToday(of: sku, in: one.facts, on: connection)))
            }
            switch dependent.place(among: candidates) {
            case .failure(let none):
                _ = try connection.pipeline([
                    DependentQueries.abandon(open, detail: none.reason.text, at: now)
                ])
                return .failure(none)
            case .success(let facts):
                let id = facts.originalTransactionID
                let name = candidates.first { $0.facts.originalTransactionID == id }?.nameToday
                let item = facts.items.first { $0.sku == name ?? sku }
                _ = try connection.pipeline([
                    DependentQueries.place(
                        open, on: id,
                        // An item that only joins at the renewal has the coming price and period.
                        period: item?.currentPrice == nil ? facts.comingPeriod : facts.period,
                        price: item?.currentPrice ?? item?.renewalPrice, currency: facts.currency)
                ])
                return .success(id)
            }
        }
        switch reason {
        case .success(let target): return target
        case .failure(let none):
            refuse(open, none.reason)
            return nil
        }
    }

    /// The current name of an item that no longer renews under its old one. After the first renewal under the new name
    /// the facts no longer hold the rename, so this folds the subscription's statements again.
    private static func nameToday(
        of sku: String, in facts: SubscriptionFacts, on connection: isolated DatabaseConnection
    ) throws -> String? {
        guard facts.whyOver == nil, !facts.renewingSKUs.contains(sku) else { return nil }
        let id = facts.originalTransactionID
        let told = try EventQueries.all([id], on: connection)[id] ?? []
        return Lifecycle.nameToday(of: sku, after: told, known: facts.renames)
    }

    private func refuse(
        _ open: DependentQueries.Open, _ reason: CrossSubscriptionDependent.Discrepancy
    ) {
        engine.metrics.increment(
            "repricer_dependents_refused_total", labels: ["reason": reason.label])
        engine.log.warning(
            "a dependent is not cancelled",
            [
                "subscription": open.originalTransactionID, "dependent": open.dependentSKU,
                "reason": reason.text,
            ])
    }

    // MARK: The first attempt

    /// Whether the cancellation may be sent now. If not, it is postponed before its status is read, because others need
    /// the permits for statuses.
    func mayLeave(_ open: DependentQueries.Open, on target: String) async throws -> Bool {
        let ids = [open.originalTransactionID, target]
        let (isHeld, mustWait) = try await engine.pool.read {
            (
                // One call cancels all of them.
                try DependentQueries.areHeld(
                    DependentQueries.falling(on: target, on: $0) + [open], on: $0),
                try DependentQueries.hasCallInFlight(target, on: $0)
                    || DependentQueries.areUnread(ids, on: $0)
            )
        }
        let silence = try await kind.permitSource.silenceLeft()
        guard isHeld || mustWait || silence != nil else { return true }
        try await putOff(
            open,
            for: isHeld || silence != nil
                ? max(putOffFor, silence ?? .zero) : kind.notYetWait)
        return false
    }

    /// Postpones the check of the dependent. A check that was not made does not count.
    func putOff(_ open: DependentQueries.Open, for wait: Duration) async throws {
        let later = DependentQueries.checkAgain(
            open, at: engine.realClock.nowMilliseconds() + wait.milliseconds)
        try await engine.pool.write(later)
    }

    /// Reads the status of the subscription that carries the dependent, and of the subscriptions of all parents that it
    /// depends on. Then it cancels the subscription where that is allowed. The caller has taken the permit for the
    /// first status.
    func cancel(
        _ open: DependentQueries.Open, on target: String,
        _ controls: ServiceControlQueries.Everything,
        _ out: CallsOut
    ) async throws {
        guard var told = try await status(of: target, for: open, on: target, controls) else {
            return
        }
        let falling = try await engine.pool.read {
            try DependentQueries.falling(on: target, on: $0)
        }
        let parents = Set(falling.map(\.originalTransactionID)).union([open.originalTransactionID])
        for parent in parents.sorted() {
            guard try await kind.mayAsk() else {
                return try await putOff(open, for: kind.notYetWait)
            }
            guard let more = try await status(of: parent, for: open, on: target, controls) else {
                return
            }
            told += more
        }
        guard let claim = try await claim(open, on: target, among: parents, told: told) else {
            return
        }
        engine.launch(
            [claim.call], of: kind, permits: claim.permits, started: claim.asked,
            probe: Probe(controls, kind.kind), out: out)
    }

    /// The status of a subscription; nil where there is no answer. Nothing is cancelled without the newest statuses, so
    /// the dependent is then checked again later. Where the status of another parent stays refused, that parent's own
    /// dependent ends first.
    private func status(
        of id: String, for open: DependentQueries.Open, on target: String,
        _ controls: ServiceControlQueries.Everything
    ) async throws -> [SubscriptionEvent]? {
        let answer = await kind.store.checkStatus(transactionID: id)
        try await engine.heed(answer, of: id, for: .cancel, kind.checkPermitSource, controls)
        if let why = answer.whyUnreadable(id) {
            let isTarget = id == target
            guard isBelieved(open, of: id), isTarget || id == open.originalTransactionID else {
                noteNoAnswer(open, why)
                return nil
            }
            try await abandon(open, .unreadable(isTarget ? why : "of the parent, \(why)"))
            return nil
        }
        guard case .answered(let words, _) = answer else {
            noteNoAnswer(open)
            return nil
        }
        try Task.checkCancellation()
        return words.statements
    }

    /// After this many checks the dependent goes to a person where its status is refused, because a status that was
    /// refused for minutes will be refused again.
    static let refusedChecksMax = 10
    /// So many of them, the last ones, must have been refused, and not left without an answer.
    static let refusedInARow = 3

    /// Whether a refused status ends the work on a dependent: it was refused often enough, while the statuses of others
    /// were not.
    func isBelieved(_ open: DependentQueries.Open, of target: String) -> Bool {
        open.checks >= Self.refusedChecksMax
            && engine.refusedStatuses.streak(of: target) >= Self.refusedInARow
            && !engine.refusedStatuses.areAlike(besides: target)
    }

    /// Logs once that a dependent waits, because its status could not be read in many checks. A missing answer, or a
    /// refusal that others get too, says nothing about it, so checks continue.
    func noteNoAnswer(_ open: DependentQueries.Open, _ why: String? = nil) {
        guard open.checks == Self.refusedChecksMax else { return }
        engine.log.warning(
            "the status of a dependent is not read; its cancellation waits",
            [
                "subscription": open.originalTransactionID, "dependent": open.dependentSKU,
                "why": why ?? "no answer",
            ])
    }

    private func abandon(
        _ open: DependentQueries.Open, _ reason: CrossSubscriptionDependent.Discrepancy
    ) async throws {
        let now = engine.clock.nowMilliseconds()
        try await engine.pool.withTransaction { connection in
            try SubscriptionQueries.lock([open.originalTransactionID], on: connection)
            _ = try connection.pipeline([
                DependentQueries.abandon(open, detail: reason.text, at: now)
            ])
        }
        refuse(open, reason)
    }

    private struct Claim: Sendable {
        var call: StoreCall
        var permits: CallPermits
        /// An instant before the claim read the pauses.
        var asked: ContinuousClock.Instant
    }

    /// Judges under the locks of all subscriptions concerned, and writes the intent. Returns nil where no call may be
    /// made. The call cancels only dependents of these `parents`, whose statuses were read.
    private func claim(
        _ open: DependentQueries.Open, on target: String, among parents: Set<String>,
        told events: [SubscriptionEvent]
    ) async throws -> Claim? {
        let now = engine.clock.nowMilliseconds()
        let realNow = engine.realClock.nowMilliseconds()
        let (claim, refusal) = try await engine.pool.withTransaction {
            connection -> (Claim?, CrossSubscriptionDependent.Discrepancy?) in
            let ids = parents.union([target]).sorted()
            try SubscriptionQueries.lock(ids, on: connection)
            // A statement names one bucket.
            let told = events.filter { ids.contains($0.originalTransactionID) }
            for events in Bucket.groups(told, of: \.originalTransactionID) {
                try SubscriptionFolder.fold(events, on: connection)
            }
            guard try DependentQueries.isStillRequested(open, on: connection) else {
                return (nil, nil)
            }
            let stored = try SubscriptionQueries.load(ids, on: connection)
            func hasParentBack(_ one: DependentQueries.Open) -> Bool {
                stored[one.originalTransactionID]?.facts.isSetToRenew(one.parentSKU) ?? false
            }
            let falling = try DependentQueries.falling(on: target, on: connection)
                .filter { parents.contains($0.originalTransactionID) && !hasParentBack($0) }
            guard let facts = stored[target]?.facts else { return (nil, nil) }
            let sku = DependentReference(open.dependentSKU).sku
            let verdict = CrossSubscriptionDependent(
                sku: sku, customer: stored[open.originalTransactionID]?.facts.appAccountToken
            ).verdict(
                on: facts, falling: Set(falling.map { DependentReference($0.dependentSKU).sku }),
                ownDependents: try DependentQueries.ownDependents(of: sku, target, on: connection),
                nameToday: try Self.nameToday(of: sku, in: facts, on: connection),
                parentBack: hasParentBack(open) ? open.parentSKU : nil)
            switch verdict {
            case .gone(let detail):
                let evidence = stored[target]?.foldedThrough?.evidenceID ?? "none"
                _ = try connection.pipeline([
                    DependentQueries.confirm(open, detail: detail, evidenceID: evidence, at: now)
                ])
                return (nil, nil)
            case .discrepancy(.otherItems(let others))
            where try DependentQueries.mayFall(
                on: target, customer: facts.appAccountToken, on: connection
            ).isSuperset(of: others):
                // These dependents must be cancelled with it, so it waits until they are placed.
                let later = realNow + kind.notYetWait.milliseconds
                _ = try connection.pipeline([DependentQueries.checkAgain(open, at: later)])
                return (nil, nil)
            case .discrepancy(let reason):
                _ = try connection.pipeline([
                    DependentQueries.abandon(open, detail: reason.text, at: now)
                ])
                return (nil, reason)
            case .cancel:
                let claim = try write(
                    open, facts, falling, parents: parents, now: now, realNow: realNow,
                    on: connection)
                return (claim, nil)
            }
        }
        if let refusal { refuse(open, refusal) }
        return claim
    }

    /// The token of the status that was just read. If the App Store has refused the token that its status still shows,
    /// the next call goes without one. If that is refused too, the call goes with the token again, with growing waits.
    private static func token(
        for facts: SubscriptionFacts, on connection: isolated DatabaseConnection
    ) throws -> String? {
        guard
            let stored = try CancelQueries.staleIntent(
                of: facts.originalTransactionID, on: connection),
            // One that can't be read says nothing.
            let refused = try? JSONDecoder().decode(CancelIntent.self, from: Data(stored.utf8))
        else { return facts.consistencyToken }
        return refused.consistencyToken == facts.consistencyToken ? nil : facts.consistencyToken
    }

    private func write(
        _ open: DependentQueries.Open, _ facts: SubscriptionFacts,
        _ falling: [DependentQueries.Open], parents: Set<String>, now: Int64, realNow: Int64,
        on connection: isolated DatabaseConnection
    ) throws -> Claim? {
        let target = facts.originalTransactionID
        if let evidence = try CancelQueries.turnedOff(for: open, on: target, on: connection) {
            let detail = CancelKind.onAgain
            _ = try connection.pipeline([
                DependentQueries.confirm(open, detail: detail, evidenceID: evidence, at: now)
            ])
            return nil
        }
        let served = falling.contains(open) ? falling : falling + [open]
        let ids = Set(served.map(\.originalTransactionID)).union([target]).sorted()
        let later = realNow + kind.notYetWait.milliseconds
        let asked = ContinuousClock.now
        guard try !DependentQueries.areHeld(served, on: connection),
            try !DependentQueries.areUnread(ids, on: connection),
            try !DependentQueries.hasCallInFlight(target, on: connection)
        else {
            _ = try connection.pipeline([DependentQueries.checkAgain(open, at: later)])
            return nil
        }
        let permits = try kind.permitSource.lease(1, on: connection)
        guard permits.granted > 0 else {
            _ = try connection.pipeline([DependentQueries.checkAgain(open, at: later)])
            return nil
        }
        var random = SystemRandomNumberGenerator()
        let intent = CancelIntent(
            transactionID: target,
            requestReferenceID: UUIDv7.make(nowMilliseconds: realNow, random: &random),
            consistencyToken: try Self.token(for: facts, on: connection),
            storefront: facts.storefront)
        let call = try StoreCall(
            .cancel, subject: target, callID: intent.requestReferenceID, bucket: Bucket.of(target),
            parents: Set(served.map(\.originalTransactionID)).sorted(),
            saying: intent)
        _ = try connection.pipeline(
            engine.intents([call], now: Instant(milliseconds: now))
                + CancelQueries.claim(call, for: served))
        return Claim(call: call, permits: permits, asked: asked)
    }
}
