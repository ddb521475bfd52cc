import AppStore
import Ledger
import Pricing
import ServiceKit

/// Mass extensions: one call, then hours of notifications and looks until the App Store says that it is complete.
struct MassExtensions: Sendable {
    typealias Held = MassExtensionQueries.Held

    let world: Extender.World
    let budget: CallBudget

    init(world: Extender.World) {
        self.world = world
        budget = world.budget("extend_all", perSecond: world.limits.massPerSecond)
    }

    private struct Claim: Sendable {
        var held: Held?
        /// nil: none is due.
        var slots: CallSlots?
        var lease: ExtensionLease
        /// Later the call does not leave: a pause may have come.
        var leaveBefore: ContinuousClock.Instant
    }

    /// One call or look at most; returns how many were due.
    func round(_ key: KeyWatch) async throws -> Int {
        try Task.checkCancellation()
        let claim = try await claim()
        guard let slots = claim.slots else { return 0 }
        guard let held = claim.held else {
            guard slots.granted == 0, slots.lease.blockedUntil == nil else { return 0 }
            try await budget.pause(after: slots)
            return 1
        }
        let lease = claim.lease
        let heart = Task {
            await lease.keep(world) { now, until in
                MassExtensionQueries.renew(
                    held.mass.extensionID, owner: lease.owner, realNow: now, until: until)
            }
        }
        defer { heart.cancel() }
        var mayLeave = false
        do { mayLeave = try await budget.take(from: slots, before: claim.leaveBefore) } catch {
            world.log.warning("no slot", ["error": String(describing: error)])
        }
        // What has not left when the service is to stop is put back; a call that is out is not cancelled with it.
        try await Task { [mayLeave] in
            guard mayLeave else { return try await putBack(held, lease) }
            if held.mass.state == "running" {
                try await look(held, lease, key)
            } else {
                try await call(held, claim, key)
            }
        }.value
        return 1
    }

    /// Claims one if there is a slot for it: nothing was called when it returns.
    private func claim() async throws -> Claim {
        let (budget, limits) = (budget, world.limits)
        let lease = ExtensionLease(world)
        let (now, realNow) = (world.clock.nowMilliseconds(), world.realClock.nowMilliseconds())
        return try await world.pool.withTransaction { connection in
            var claim = Claim(lease: lease, leaveBefore: .now)
            guard try MassExtensionQueries.isDue(realNow: realNow, on: connection) else {
                return claim
            }
            let slots = try budget.lease(1, on: connection)
            claim.slots = slots
            guard slots.granted > 0 else { return claim }
            // From before the question that asks for pauses, too.
            claim.leaveBefore = .now + limits.leavesWithin
            claim.held = try MassExtensionQueries.claim(
                owner: lease.owner, now: now, realNow: realNow,
                leaseUntil: realNow + limits.leaseFor.milliseconds, on: connection)
            if claim.held == nil { _ = try connection.pipeline([budget.giveBack(slots, used: 0)]) }
            return claim
        }
    }

    private func call(_ held: Held, _ claim: Claim, _ key: KeyWatch) async throws {
        let lease = claim.lease
        let request: MassExtensionRequest
        do {
            request = try Self.request(held.mass)
        } catch {
            return try await refuse(held, lease, "bad_terms", "\(error)")
        }
        let outcome = await world.calls.extendAll(
            request, leavingBefore: min(claim.leaveBefore, lease.leavingBefore))
        try await key.heed(outcome)
        switch outcome {
        case .answered: try await run(held, lease)
        case .refused(let code, let message, _): try await refused(held, lease, code, message)
        case .throttled(let until, _):
            try await budget.block(until: until)
            try await putOff(held, lease, "the App Store asked for silence")
        case .unknownOutcome(let reason, _):
            try await putOff(held, lease, mayBeRunning: true, reason)
        case .notSent(let reason):
            world.log.warning("the App Store is out of reach", ["reason": reason])
            try await putOff(held, lease, reason)
        }
    }

    private static func request(
        _ mass: ExtensionQueries.Mass
    ) throws(RequestFault) -> MassExtensionRequest {
        guard let reason = ExtensionTerms.Reason(rawValue: mass.reason) else {
            throw .unknownReason(mass.reason)
        }
        guard let terms = ExtensionTerms(days: mass.days, reason: reason) else {
            throw .daysOutOfRange(mass.days)
        }
        return try MassExtensionRequest(
            terms, productID: mass.productID, storefronts: mass.storefronts,
            requestIdentifier: mass.extensionID)
    }

    private func refused(
        _ held: Held, _ lease: ExtensionLease, _ code: APIErrorCode, _ message: String
    ) async throws {
        switch code.disposition(onRetry: held.mayBeRunning) {
        case .retrySame, .waitUntil: try await putOff(held, lease, code.description)
        case .haltService:
            try await budget.block(until: world.silenceAfterRefusedKey)
            try await putOff(held, lease, code.description)
        case .refresh, .look, .reject, .haltBatch, .haltStorefront:
            guard held.mayBeRunning else {
                return try await refuse(
                    held, lease, code.name ?? code.description, code.meaning ?? message)
            }
            try await settleDoubt(held, lease, code, message)
        }
    }

    /// Refused on a retry: whether the first attempt was taken is what its status says.
    private func settleDoubt(
        _ held: Held, _ lease: ExtensionLease, _ code: APIErrorCode, _ message: String
    ) async throws {
        // A long silence is not waited out with its lease.
        guard try await budget.takeOne(within: world.limits.looksWithin) else {
            return try await putOff(held, lease, mayBeRunning: true, "refused, and not looked at")
        }
        switch await status(held) {
        case .answered: try await run(held, lease)
        case .refused(.statusRequestNotFound, _, _):
            try await refuse(held, lease, code.name ?? code.description, code.meaning ?? message)
        case .refused(let other, _, _):
            try await putOff(held, lease, mayBeRunning: true, other.description)
        case .throttled(let until, _):
            try await budget.block(until: until)
            try await putOff(held, lease, mayBeRunning: true, "the App Store asked for silence")
        case .unknownOutcome(let reason, _), .notSent(let reason):
            try await putOff(held, lease, mayBeRunning: true, reason)
        }
    }

    private func status(_ held: Held) async -> CallOutcome<MassExtensionStatus> {
        await world.calls.extensionStatus(
            productID: held.mass.productID, requestIdentifier: held.mass.extensionID)
    }

    /// A look without an answer waits as long as this attempt of a call would: looks are not counted.
    private static let unansweredLook = 4

    private func look(
        _ held: Held, _ lease: ExtensionLease, _ key: KeyWatch
    ) async throws {
        let outcome = await status(held)
        try await key.heed(outcome)
        switch outcome {
        case .answered(let status, _):
            guard status.isComplete else { return try await run(held, lease) }
            let at = status.completedAt?.milliseconds ?? world.clock.nowMilliseconds()
            try await write(
                MassExtensionQueries.complete(
                    held.mass.extensionID, at: at, succeeded: status.succeeded,
                    failed: status.failed))
            count("complete")
        case .throttled(let until, _):
            try await budget.block(until: until)
            try await putOff(held, lease, "the App Store asked for silence")
        case .refused(let code, _, _):
            world.log.warning(
                "the status of a mass extension is refused",
                ["extension": held.mass.extensionID, "code": code.description])
            // One that it does not know may be given up by a person; until then it may still learn of it.
            try await putOff(
                held, lease, until: nextLook,
                code: code == .statusRequestNotFound ? code.name : nil,
                code.meaning ?? code.description)
        case .unknownOutcome(let reason, _), .notSent(let reason):
            let soon = world.nextAttempt(after: max(held.attempts, Self.unansweredLook))
            try await putOff(held, lease, until: soon, reason)
        }
    }

    private func run(_ held: Held, _ lease: ExtensionLease) async throws {
        try await write(
            MassExtensionQueries.run(held.mass.extensionID, owner: lease.owner, lookAt: nextLook))
        count("running")
    }

    /// Real time. One that runs for hours is asked about at this pace, however the App Store answers.
    private var nextLook: Int64 {
        let every = max(
            world.clock.realDuration(of: world.limits.lookEvery), world.limits.lookEveryMin)
        return world.realClock.nowMilliseconds() + every.milliseconds
    }

    private func refuse(_ held: Held, _ lease: ExtensionLease, _ code: String, _ detail: String)
        async throws
    {
        try await write(
            MassExtensionQueries.refuse(
                held.mass.extensionID, owner: lease.owner, code: code, detail: detail))
        count("refused")
    }

    /// Nothing of this attempt has left: it counts as not made.
    private func putBack(_ held: Held, _ lease: ExtensionLease) async throws {
        try await write(
            MassExtensionQueries.putBack(
                held.mass.extensionID, owner: lease.owner, nextAt: world.nextAttempt(after: 1)))
        count("held_back")
    }

    private func putOff(
        _ held: Held, _ lease: ExtensionLease, mayBeRunning: Bool = false, until: Int64? = nil,
        code: String? = nil, _ detail: String
    ) async throws {
        try await write(
            MassExtensionQueries.putOff(
                held.mass.extensionID, owner: lease.owner, mayBeRunning: mayBeRunning,
                nextAt: until ?? world.nextAttempt(after: held.attempts), code: code,
                detail: detail))
        count("put_off")
    }

    private func write(_ statement: LedgerStatement) async throws {
        _ = try await world.pool.withConnection { connection in
            try await connection.pipeline([statement])
        }
    }

    private func count(_ result: String) {
        world.metrics.increment("repricer_mass_extensions_total", labels: ["result": result])
    }
}
