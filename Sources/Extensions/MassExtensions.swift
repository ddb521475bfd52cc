import Calls
import Facts
import Foundation
import Pricing
import ServiceKit

/// Turns approved mass extensions into calls: written down, committed.
struct MassExtensions: Sendable {
    let engine: CallEngine
    let kind: MassExtensionKind

    /// Starts one call at most; returns how many were due.
    func round(_ controls: ServiceControlQueries.Everything, _ out: CallsOut) async throws -> Int {
        try Task.checkCancellation()
        let (now, realNow) = (engine.now, engine.realClock.nowMilliseconds())
        let claim = try await engine.pool.withTransaction {
            connection -> (call: StoreCall?, slots: CallSlots, asked: ContinuousClock.Instant)? in
            // From before the question that asks for pauses.
            let asked = ContinuousClock.now
            guard let due = try MassExtensionQueries.takeDue(realNow: realNow, on: connection)
            else { return nil }
            let slots = try kind.budget.lease(1, on: connection)
            guard slots.granted > 0 else { return (nil, slots, asked) }
            let call = try Self.call(due.mass, bucket: due.bucket, realNow: realNow)
            _ = try connection.pipeline(
                engine.intents([call], now: now)
                    + [MassExtensionQueries.claim(due.mass.extensionID, now: now.milliseconds)])
            return (call, slots, asked)
        }
        guard let claim else { return 0 }
        guard let call = claim.call else {
            guard claim.slots.lease.blockedUntil == nil else { return 0 }
            try await kind.budget.pause(after: claim.slots)
            return 1
        }
        engine.launch(
            [call], of: kind, slots: claim.slots, started: claim.asked,
            isProbe: controls.isHalted, out: out)
        return 1
    }

    private static func call(
        _ mass: ExtensionQueries.Mass, bucket: Int, realNow: Int64
    ) throws -> StoreCall {
        let intent = MassExtensionKind.Intent(
            productID: mass.productID, storefronts: mass.storefronts,
            requestIdentifier: mass.extensionID, days: mass.days, reason: mass.reason)
        var random = SystemRandomNumberGenerator()
        return StoreCall(
            .massExtension, subject: StoreCall.subject(ofProduct: mass.productID),
            callID: UUIDv7.make(nowMilliseconds: realNow, random: &random),
            bucket: bucket, carries: [mass.extensionID],
            intent: String(decoding: try JSONEncoder().encode(intent), as: UTF8.self))
    }
}
