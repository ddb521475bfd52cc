import Foundation
import Ledger
import Pricing
import ServiceKit

/// Cancels the subscriptions of dependents that live on another one than their parent.
///
/// A dependent is placed (which subscription carries it), that subscription's status is read, and where all that
/// renews there is to fall, the intent is committed with its `requestReferenceId` before the call. What comes back
/// is settled as a price change's is: `CancelSettlement`.
struct CancelRound: Sendable {
    let world: Canceller.World
    let statuses: CallBudget
    private let cancels: CallBudget
    private let settlement: CancelSettlement
    private let owner: String

    init(_ world: Canceller.World, statuses: CallBudget) {
        self.world = world
        self.statuses = statuses
        cancels = CallBudget(
            pool: world.pool, endpoint: Canceller.cancelEndpoint,
            perSecond: world.limits.cancelsPerSecond, clock: world.clock, wait: world.wait)
        settlement = CancelSettlement(world: world)
        var random = SystemRandomNumberGenerator()
        owner = UUIDv7.make(nowMilliseconds: world.realClock.nowMilliseconds(), random: &random)
    }

    // MARK: Which subscription

    /// Finds the subscription that carries it, and keeps it. One that has none goes to a person: nil.
    func place(_ open: DependentQueries.Open) async throws -> String? {
        let now = world.clock.nowMilliseconds()
        let reason = try await world.pool.withTransaction {
            connection -> Result<String, DependentElsewhere.NoPlace> in
            try SubscriptionQueries.lock([open.originalTransactionID], on: connection)
            let parent = try SubscriptionQueries.load([open.originalTransactionID], on: connection)[
                open.originalTransactionID]
            let sku = DependentReference(open.dependentSKU).sku
            let dependent = DependentElsewhere(sku: sku, customer: parent?.facts.appAccountToken)
            let ids = try DependentQueries.places(
                of: open, customer: parent?.facts.appAccountToken, on: connection)
            let stored = try SubscriptionQueries.load(ids, on: connection)
            var candidates: [DependentElsewhere.Candidate] = []
            for one in ids.compactMap({ stored[$0] }) {
                candidates.append(
                    DependentElsewhere.Candidate(
                        facts: one.facts, seenSKUs: one.seenSKUs,
                        nameToday: try Self.nameToday(of: sku, in: one.facts, on: connection)))
            }
            switch dependent.place(among: candidates) {
            case .failure(let none):
                _ = try connection.pipeline([
                    DependentQueries.giveUp(open, detail: none.reason.text, at: now)
                ])
                return .failure(none)
            case .success(let facts):
                let id = facts.originalTransactionID
                let name = candidates.first { $0.facts.originalTransactionID == id }?.nameToday
                let item = facts.items.first { $0.sku == name ?? sku }
                _ = try connection.pipeline([
                    DependentQueries.place(
                        open, on: id,
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

    /// What an item that does not renew under its name is called by now. A rename that a renewal followed is in no fact
    /// any more, so its subscription's statements are folded again.
    private static func nameToday(
        of sku: String, in facts: SubscriptionFacts, on connection: isolated LedgerConnection
    ) throws -> String? {
        guard facts.whyOver == nil, !facts.renewingSKUs.contains(sku) else { return nil }
        let id = facts.originalTransactionID
        let told = try EventQueries.all([id], on: connection)[id] ?? []
        return Lifecycle.nameToday(of: sku, after: told)
    }

    private func refuse(_ open: DependentQueries.Open, _ reason: DependentElsewhere.Discrepancy) {
        world.metrics.increment(
            "repricer_dependents_refused_total", labels: ["reason": reason.label])
        world.log.warning(
            "a dependent is not cancelled",
            [
                "subscription": open.originalTransactionID, "dependent": open.dependentSKU,
                "reason": reason.text,
            ])
    }

    // MARK: The first attempt

    /// Reads the status of the subscription that carries it and cancels that one, where it may.
    func cancel(
        _ open: DependentQueries.Open, on target: String, _ key: KeyWatch
    ) async throws {
        let answer = await world.store.look(transactionID: target)
        if let until = silence(after: answer) { try await statuses.block(until: until) }
        try await key.heed(answer)
        // Without the newest status nothing is cancelled; it is looked for again.
        if let why = answer.whyUnreadable(target) {
            guard open.looks >= Self.refusedLooksMax else { return }
            return try await giveUp(open, .unreadable(why))
        }
        guard case .answered(let events, _) = answer else { return }
        try Task.checkCancellation()
        let started = ContinuousClock.now
        guard let claim = try await claim(open, on: target, told: events) else { return }
        try await carryOut(
            claim.request, slots: claim.slots, started: started, asked: claim.asked, key)
    }

    /// Looks that a definite answer refuses, before a person is asked: what was refused for minutes will be.
    static let refusedLooksMax = 10

    private func giveUp(
        _ open: DependentQueries.Open, _ reason: DependentElsewhere.Discrepancy
    ) async throws {
        let now = world.clock.nowMilliseconds()
        try await world.pool.withTransaction { connection in
            try SubscriptionQueries.lock([open.originalTransactionID], on: connection)
            _ = try connection.pipeline([
                DependentQueries.giveUp(open, detail: reason.text, at: now)
            ])
        }
        refuse(open, reason)
    }

    private struct Claim: Sendable {
        var request: CancelQueries.Held
        var slots: CallSlots
        /// Before it asked for pauses.
        var asked: ContinuousClock.Instant
    }

    /// Judges under the locks of all subscriptions concerned, and writes the intent. nil: no call is to be made.
    private func claim(
        _ open: DependentQueries.Open, on target: String, told events: [SubscriptionEvent]
    ) async throws -> Claim? {
        let now = world.clock.nowMilliseconds()
        let realNow = world.realClock.nowMilliseconds()
        // Dependents of other parents that fall with the same subscription: their locks are needed too.
        let company = try await world.pool.withConnection { connection in
            try await connection.read { try DependentQueries.falling(on: target, on: $0) }
        }
        let parents = Set(company.map(\.originalTransactionID)).union([open.originalTransactionID])
        let (claim, refusal) = try await world.pool.withTransaction {
            connection -> (Claim?, DependentElsewhere.Discrepancy?) in
            let ids = parents.union([target]).sorted()
            try SubscriptionQueries.lock(ids, on: connection)
            try SubscriptionFolder.fold(
                events.filter { ids.contains($0.originalTransactionID) }, on: connection)
            guard try DependentQueries.isStillRequested(open, on: connection) else {
                return (nil, nil)
            }
            let falling = try DependentQueries.falling(on: target, on: connection)
                .filter { parents.contains($0.originalTransactionID) }
            let stored = try SubscriptionQueries.load(ids, on: connection)
            guard let facts = stored[target]?.facts else { return (nil, nil) }
            let sku = DependentReference(open.dependentSKU).sku
            let verdict = DependentElsewhere(
                sku: sku, customer: stored[open.originalTransactionID]?.facts.appAccountToken
            ).verdict(
                on: facts, falling: Set(falling.map { DependentReference($0.dependentSKU).sku }),
                ownDependents: try DependentQueries.ownDependents(of: sku, target, on: connection),
                nameToday: try Self.nameToday(of: sku, in: facts, on: connection))
            switch verdict {
            case .gone(let detail):
                let evidence = stored[target]?.foldedThrough?.evidenceID ?? "none"
                _ = try connection.pipeline([
                    DependentQueries.confirm(open, detail: detail, evidenceID: evidence, at: now)
                ])
                return (nil, nil)
            case .discrepancy(.company(let others))
            where try DependentQueries.mayFall(
                on: target, customer: facts.appAccountToken, on: connection
            ).isSuperset(of: others):
                // They are to fall as well, and wait for their turn to be placed.
                let later = realNow + world.limits.notYetWait.milliseconds
                _ = try connection.pipeline([DependentQueries.lookAgain(open, at: later)])
                return (nil, nil)
            case .discrepancy(let reason):
                _ = try connection.pipeline([
                    DependentQueries.giveUp(open, detail: reason.text, at: now)
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

    private func write(
        _ open: DependentQueries.Open, _ facts: SubscriptionFacts,
        _ falling: [DependentQueries.Open], parents: Set<String>, now: Int64, realNow: Int64,
        on connection: isolated LedgerConnection
    ) throws -> Claim? {
        let target = facts.originalTransactionID
        let later = realNow + world.limits.notYetWait.milliseconds
        let asked = ContinuousClock.now
        guard try !DependentQueries.isPaused(open, on: connection),
            try !DependentQueries.hasCallInFlight(target, realNow: realNow, on: connection)
        else {
            _ = try connection.pipeline([DependentQueries.lookAgain(open, at: later)])
            return nil
        }
        let slots = try cancels.lease(1, on: connection)
        guard slots.granted > 0 else {
            _ = try connection.pipeline([DependentQueries.lookAgain(open, at: later)])
            return nil
        }
        var random = SystemRandomNumberGenerator()
        let intent = CancelIntent(
            transactionID: target,
            requestReferenceID: UUIDv7.make(nowMilliseconds: realNow, random: &random),
            consistencyToken: facts.consistencyToken, storefront: facts.storefront)
        let served = falling.contains(open) ? falling : falling + [open]
        let request = CancelQueries.Held(
            originalTransactionID: target, requestReferenceID: intent.requestReferenceID,
            parents: Set(served.map(\.originalTransactionID)).sorted(), transactionID: target,
            call: String(decoding: try JSONEncoder().encode(intent), as: UTF8.self))
        _ = try connection.pipeline(
            CancelQueries.insert(
                request, for: served, owner: owner,
                leaseUntil: realNow + world.limits.leaseFor.milliseconds, now: now))
        return Claim(request: request, slots: slots, asked: asked)
    }

    // MARK: Calls that are open

    /// Carries on what another process left, and what waits for its next step; returns how many there were.
    func settleOpen(isPaused: Bool, _ key: KeyWatch) async throws -> Int {
        var done = try await settleOpen(looking: true, key)
        if !isPaused { done += try await settleOpen(looking: false, key) }
        return done
    }

    private func settleOpen(looking: Bool, _ key: KeyWatch) async throws -> Int {
        try Task.checkCancellation()
        let realNow = world.realClock.nowMilliseconds()
        let limits = world.limits
        let owner = owner
        let budget = looking ? statuses : cancels
        let started = ContinuousClock.now
        let (held, slots) = try await world.pool.withTransaction { connection in
            let slots = try budget.lease(
                key.callsMax(limits.dependentsPerRound), on: connection)
            guard slots.granted > 0 else { return ([CancelQueries.Held](), slots) }
            let held = try CancelQueries.takeOver(
                looking: looking, owner: owner,
                leaseUntil: realNow + limits.leaseFor.milliseconds, realNow: realNow,
                limit: slots.granted, on: connection)
            _ = try connection.pipeline([budget.giveBack(slots, used: held.count)])
            return (held, slots)
        }
        guard !held.isEmpty else { return 0 }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for request in held {
                group.addTask {
                    try await carryOut(
                        request, slots: slots, started: started, asked: started, key)
                }
            }
            // Each is settled, whatever becomes of its siblings; then the first failure is told.
            var failure: (any Error)?
            while let result = await group.nextResult() {
                if case .failure(let error) = result { failure = failure ?? error }
            }
            if let failure { throw failure }
        }
        return held.count
    }

    // MARK: One step

    /// Calls or looks, at its slot, and settles. The claim began at `started`, and asked for pauses at `asked` or later.
    /// What has not left when the service is to stop is put back; a call that is out is not cancelled with it.
    private func carryOut(
        _ request: CancelQueries.Held, slots: CallSlots, started: ContinuousClock.Instant,
        asked: ContinuousClock.Instant, _ key: KeyWatch
    ) async throws {
        let limits = world.limits
        let leaveBefore = min(
            request.isLook ? .now + limits.looksWithin : asked + limits.leavesWithin,
            started + limits.leaseFor * 3 / 4)
        let heart = Task { await keepLease(of: request) }
        defer { heart.cancel() }
        let budget = request.isLook ? statuses : cancels
        var mayLeave = false
        do { mayLeave = try await budget.take(from: slots, before: leaveBefore) } catch {
            world.log.warning("no slot", ["error": String(describing: error)])
        }
        try await Task { [mayLeave] in
            guard mayLeave else { return try await putBack(request) }
            let answer = await step(request, leaveBefore: leaveBefore)
            if let until = silence(after: answer) { try await budget.block(until: until) }
            try await key.heed(answer)
            try await settlement.settle(request, answer)
        }.value
    }

    /// Nothing of this attempt has left. The first one's dependents are judged anew; a later one counts as not made.
    private func putBack(_ request: CancelQueries.Held) async throws {
        guard !request.isFirstAttempt else {
            return try await settlement.settle(request, .notSent(reason: "held back"))
        }
        let later = world.realClock.nowMilliseconds() + world.limits.notYetWait.milliseconds
        _ = try await world.pool.withConnection { connection in
            try await connection.pipeline([CancelQueries.putBack(request, nextAttemptAt: later)])
        }
        world.metrics.increment("repricer_cancel_calls_total", labels: ["result": "held_back"])
    }

    private func step(
        _ request: CancelQueries.Held, leaveBefore: ContinuousClock.Instant
    ) async -> StoreAnswer {
        if request.isLook { return await world.store.look(transactionID: request.transactionID) }
        guard
            let intent = try? JSONDecoder().decode(  // Unreadable: said in the answer.
                CancelIntent.self, from: Data(request.call.utf8))
        else { return .unknown(reason: "the stored call can't be read", StoreReply()) }
        return await world.cancels.cancel(intent, leavingBefore: leaveBefore)
    }

    /// Renews the lease until cancelled, so that a slow answer is not taken for a dead process. A renewal that
    /// fails is tried again; when all fail, the lease ends as it should.
    private func keepLease(of request: CancelQueries.Held) async {
        while !Task.isCancelled {
            do {
                try await Task.sleep(for: world.limits.leaseFor / 4)
                let until = world.realClock.nowMilliseconds() + world.limits.leaseFor.milliseconds
                _ = try await world.pool.withConnection { connection in
                    try await connection.pipeline([CancelQueries.renew(request, until: until)])
                }
            } catch is CancellationError {
                return
            } catch {
                world.log.warning("lease not renewed", ["error": String(describing: error)])
            }
        }
    }

    /// How long every replica keeps quiet: as Apple asked, or a while when it refuses our key.
    func silence(after answer: StoreAnswer) -> Instant? {
        switch answer {
        case .throttled(let until, _): until
        case .refused(let refusal, _) where refusal.meaning == .haltService:
            Instant(
                milliseconds: world.clock.nowMilliseconds()
                    + world.limits.refusedKeyWait.milliseconds)
        case .answered, .refused, .unknown, .notSent: nil
        }
    }
}

extension StoreAnswer {
    /// Why a look tells nothing of a subscription although the App Store answered for good; nil where it tells, or where
    /// another look may.
    func whyUnreadable(_ id: String) -> String? {
        switch self {
        case .answered(let events, _):
            events.contains { $0.originalTransactionID == id }
                ? nil : "the App Store's status does not show its subscription"
        case .refused(let refusal, _) where refusal.meaning != .haltService:
            "its subscription's status is refused with \(refusal.code) \(refusal.name)"
        case .refused, .throttled, .unknown, .notSent: nil
        }
    }
}
