import AppStore
import Ledger
import Pricing
import ServiceKit

/// The calls for one subscription each, at their own rate: judged on the newest facts, written down, committed,
/// called, settled under a lease.
struct SingleExtensions: Sendable {
    typealias Due = ExtensionCallQueries.Due
    typealias Ending = ExtensionCallQueries.Ending

    let world: Extender.World
    let budget: CallBudget
    let statuses: CallBudget

    init(world: Extender.World) {
        self.world = world
        budget = world.budget("extend", perSecond: world.limits.extendPerSecond)
        statuses = world.budget("status", perSecond: world.limits.statusPerSecond)
    }

    private struct Claim: Sendable {
        var judged = 0
        var claimed: [Due] = []
        var slots: CallSlots
        var lease: ExtensionLease
        /// Later none of its calls leaves: a pause may have come.
        var leaveBefore: ContinuousClock.Instant
        var key: KeyWatch
    }

    /// Judges and calls what is due; returns how many were judged.
    func round(_ key: KeyWatch) async throws -> Int {
        let realNow = world.realClock.nowMilliseconds()
        let buckets = try await world.pool.withConnection { connection in
            try await connection.read {
                try ExtensionCallQueries.dueBuckets(realNow: realNow, on: $0)
            }
        }
        var judged = 0
        for bucket in buckets {
            try Task.checkCancellation()
            let claim = try await claim(bucket: bucket, key)
            judged += claim.judged
            if claim.slots.granted == 0, claim.slots.lease.blockedUntil != nil { return judged }
            try await callAll(claim)
            // One asks for all; the others wait for what it hears.
            if key.isHalted, !claim.claimed.isEmpty { return judged }
        }
        return judged
    }

    /// What the transaction that locks them decides; nothing was called when it returns.
    private func claim(bucket: Int, _ key: KeyWatch) async throws -> Claim {
        let (budget, limits, lease) = (budget, world.limits, ExtensionLease(world))
        let (now, realNow) = (world.now, world.realClock.nowMilliseconds())
        return try await world.pool.withTransaction { connection in
            let slots = try budget.lease(key.callsMax(limits.callsPerClaim), on: connection)
            // From before the question that asks for pauses, too.
            var claim = Claim(
                slots: slots, lease: lease, leaveBefore: .now + limits.leavesWithin, key: key)
            guard slots.granted > 0 else { return claim }
            let due = try ExtensionCallQueries.lockDue(
                bucket: bucket, limit: slots.granted, realNow: realNow, on: connection)
            let ids = due.map(\.originalTransactionID)
            let (stored, _) = try SubscriptionQueries.loadReadable(ids, on: connection)
            let extendedAt = try ExtensionQueries.extendedAt(
                ids, now: now.milliseconds, on: connection)
            claim.judged = due.count
            var intents: [LedgerStatement] = []
            for var one in due {
                let facts = stored[one.originalTransactionID]?.facts
                if let ending = try Self.ending(
                    one, facts, extendedAt[one.originalTransactionID] ?? [], now: now,
                    on: connection)
                {
                    _ = try ExtensionCallQueries.settle(
                        one, owner: nil, ending, at: now.milliseconds, on: connection)
                    continue
                }
                intents.append(
                    ExtensionCallQueries.claim(
                        one, owner: lease.owner, renewalBefore: facts?.renewalAt,
                        now: now.milliseconds, leaseUntil: realNow + limits.leaseFor.milliseconds))
                one.mayBeApplied = one.mayBeApplied || one.state == .sending
                one.attempts += 1
                one.calledAt = one.calledAt ?? now.milliseconds
                one.renewalBefore = one.renewalBefore ?? facts?.renewalAt
                claim.claimed.append(one)
            }
            intents.append(budget.giveBack(slots, used: claim.claimed.count))
            _ = try connection.pipeline(intents)
            return claim
        }
    }

    /// How it ends without a call: told of meanwhile, or not eligible. One that may have been applied is not judged
    /// any more: its own extension could be in the way.
    private static func ending(
        _ due: Due, _ facts: SubscriptionFacts?, _ extendedAt: [Instant], now: Instant,
        on connection: isolated LedgerConnection
    ) throws -> Ending? {
        if due.calledAt != nil,
            let told = try ExtensionCallQueries.toldSince(due, on: connection)
        {
            return Ending(.extended, by: .notification, effectiveAt: told)
        }
        guard !due.mayBeApplied, due.state != .sending else { return nil }
        let obstacle = ExtensionEligibility.obstacle(
            facts, extendedAt: extendedAt, hasOpen: false, now: now)
        return obstacle.map {
            Ending(.ineligible, by: .judgement, code: $0.rawValue, detail: $0.meaning)
        }
    }

    /// Every call is settled, whatever becomes of its siblings; then the first failure is told.
    private func callAll(_ claim: Claim) async throws {
        guard !claim.claimed.isEmpty else { return }
        let heart = Task {
            await claim.lease.keep(world) { now, until in
                ExtensionCallQueries.renew(
                    claim.claimed, owner: claim.lease.owner, realNow: now, until: until)
            }
        }
        defer { heart.cancel() }
        let failure = await withTaskGroup(of: (any Error)?.self) { group in
            for due in claim.claimed {
                group.addTask {
                    do {
                        try await callAtItsSlot(due, claim)
                        return nil
                    } catch {
                        return error
                    }
                }
            }
            var first: (any Error)?
            for await failure in group { first = first ?? failure }
            return first
        }
        if let failure { throw failure }
    }

    /// What has not left when the service is to stop is put back; a call that is out is not cancelled with it.
    private func callAtItsSlot(_ due: Due, _ claim: Claim) async throws {
        var mayLeave = false
        do { mayLeave = try await budget.take(from: claim.slots, before: claim.leaveBefore) } catch
        {
            world.log.warning("no slot", ["error": String(describing: error)])
        }
        try await Task { [mayLeave] in
            guard mayLeave else { return try await putBack(due, claim.lease) }
            try await call(due, claim)
        }.value
    }

    private func call(_ due: Due, _ claim: Claim) async throws {
        let lease = claim.lease
        guard let reason = ExtensionTerms.Reason(rawValue: due.reason),
            let terms = ExtensionTerms(days: due.days, reason: reason)
        else {
            return try await settle(due, lease, Ending(.refused, by: .judgement, code: "bad_terms"))
        }
        let request: ExtensionRequest
        do {
            request = try ExtensionRequest(terms, requestIdentifier: due.extensionID)
        } catch {
            return try await settle(
                due, lease, Ending(.refused, by: .judgement, code: "bad_terms", detail: "\(error)"))
        }
        let outcome = await world.calls.extend(
            originalTransactionID: due.originalTransactionID, request,
            leavingBefore: min(claim.leaveBefore, lease.leavingBefore))
        try await claim.key.heed(outcome)
        switch outcome {
        case .answered(let answer, _):
            guard answer.isSuccess else { return try await doubt(due, claim, "not_extended", "") }
            try await settle(
                due, lease, Ending(.extended, by: .answer, effectiveAt: answer.effectiveAt))
        case .refused(let code, let message, _): try await refused(due, claim, code, message)
        case .throttled(let until, _):
            claim.slots.silence()
            try await budget.block(until: until)
            try await putOff(due, lease, mayBeApplied: false, "the App Store asked for silence")
        case .unknownOutcome(let reason, _):
            try await putOff(due, lease, mayBeApplied: true, reason)
        case .notSent(let reason):
            world.log.warning("the App Store is out of reach", ["reason": reason])
            try await putOff(due, lease, mayBeApplied: false, reason)
        }
    }

    private func refused(
        _ due: Due, _ claim: Claim, _ code: APIErrorCode, _ message: String
    ) async throws {
        let lease = claim.lease
        switch code.disposition(onRetry: due.mayBeApplied) {
        case .retrySame, .waitUntil:
            try await putOff(due, lease, mayBeApplied: false, code.description)
        case .haltService:
            claim.slots.silence()
            try await budget.block(until: world.silenceAfterRefusedKey)
            try await putOff(due, lease, mayBeApplied: false, code.description)
        case .refresh, .look, .reject, .haltBatch, .haltStorefront:
            try await doubt(due, claim, code.name ?? code.description, code.meaning ?? message)
        }
    }

    /// A refusal of a retry is not believed until the subscription's status was read: the first attempt may have
    /// been applied, and is in the way of the second. Where the status proves nothing the refusal stands: Apple answers
    /// a repeated identifier as it answered the first.
    private func doubt(
        _ due: Due, _ claim: Claim, _ code: String, _ detail: String
    ) async throws {
        let lease = claim.lease
        let refusal = Ending(.refused, by: .answer, code: code, detail: detail)
        guard due.mayBeApplied else { return try await settle(due, lease, refusal) }
        // A long silence is not waited out with its lease.
        guard try await statuses.takeOne(within: world.limits.looksWithin) else {
            return try await putOff(due, lease, mayBeApplied: true, "refused, and not looked at")
        }
        let id = due.originalTransactionID
        let answer = await world.store.look(transactionID: id)
        try await claim.key.heed(answer)
        guard case .answered(let events, _) = answer else {
            return try await putOff(
                due, lease, mayBeApplied: true, "refused, and its status is unknown")
        }
        let movedTo = try await world.pool.withTransaction { connection in
            try SubscriptionQueries.lock([id], on: connection)
            try SubscriptionFolder.fold(
                events.filter { $0.originalTransactionID == id }, on: connection)
            let facts = try SubscriptionQueries.load([id], on: connection)[id]?.facts
            let masses = try ExtensionCallQueries.massesThatMayHaveMoved(due, on: connection)
            return facts?.renewalMoved(
                from: due.renewalBefore, days: due.days, besideMassesOf: masses)
        }
        let ending = movedTo.map { Ending(.extended, by: .status, effectiveAt: $0) }
        try await settle(due, lease, ending ?? refusal)
    }

    private func settle(_ due: Due, _ lease: ExtensionLease, _ ending: Ending) async throws {
        let now = world.clock.nowMilliseconds()
        let isOurs = try await world.pool.withTransaction { connection in
            try ExtensionCallQueries.settle(
                due, owner: lease.owner, ending, at: now, on: connection)
        }
        count(isOurs ? ending.state.rawValue : "lease_lost")
    }

    /// Nothing of this attempt has left: it counts as not made.
    private func putBack(_ due: Due, _ lease: ExtensionLease) async throws {
        let nextAt = world.nextAttempt(after: 1)
        _ = try await world.pool.withConnection { connection in
            try await connection.pipeline([
                ExtensionCallQueries.putBack(due, owner: lease.owner, nextAt: nextAt)
            ])
        }
        count("held_back")
    }

    private func putOff(
        _ due: Due, _ lease: ExtensionLease, mayBeApplied: Bool, _ detail: String
    ) async throws {
        let nextAt = world.nextAttempt(after: due.attempts)
        _ = try await world.pool.withConnection { connection in
            try await connection.pipeline([
                ExtensionCallQueries.putOff(
                    due, owner: lease.owner, mayBeApplied: mayBeApplied, nextAt: nextAt,
                    detail: detail)
            ])
        }
        count("put_off")
    }

    private func count(_ result: String) {
        world.metrics.increment("repricer_extensions_total", labels: ["result": result])
    }
}

extension SubscriptionFacts {
    /// The renewal, where it lies later than it did, in the same period, and only an extension by so many days
    /// explains by how much: neither another program's nor mass extensions, of any of these days, explain it alone.
    fileprivate func renewalMoved(
        from before: Instant?, days: Int, besideMassesOf masses: [Int]
    ) -> Instant? {
        guard let renewalAt, let before, renewalAt > before, let purchasedAt, purchasedAt < before
        else { return nil }
        let day = Instant.millisecondsPerDay
        // To the nearest day: a change of the clocks in between is not a day.
        let moved = Int((renewalAt.milliseconds - before.milliseconds + day / 2) / day)
        var byMasses: Set = [0]
        for mass in masses { byMasses.formUnion(byMasses.map { $0 + mass }) }
        return !byMasses.contains(moved) && byMasses.contains(moved - days) ? renewalAt : nil
    }
}
