import Calls
import Facts
import Pricing
import ServiceKit

/// Turns approved mass extensions into calls: it writes the intent and commits before the call.
struct MassExtensions: Sendable {
    let engine: CallEngine
    let kind: MassExtensionKind

    /// Starts one call at most, and returns how many were due.
    func round(_ controls: ServiceControlQueries.Everything, _ out: CallsOut) async throws -> Int {
        try Task.checkCancellation()
        let (now, realNow) = (engine.now, engine.realClock.nowMilliseconds())
        let claim = try await engine.pool.withTransaction {
            connection -> (call: StoreCall?, permits: CallPermits, asked: ContinuousClock.Instant)?
            in
            // The instant must be before the query that reads the pauses.
            let asked = ContinuousClock.now
            guard let due = try MassExtensionQueries.takeDue(realNow: realNow, on: connection)
            else { return nil }
            let permits = try kind.permitSource.lease(1, on: connection)
            guard permits.granted > 0 else { return (nil, permits, asked) }
            let call = try Self.call(due.mass, bucket: due.bucket, realNow: realNow)
            _ = try connection.pipeline(
                engine.intents([call], now: now)
                    + [MassExtensionQueries.claim(due.mass.extensionID, now: now.milliseconds)])
            return (call, permits, asked)
        }
        guard let claim else { return 0 }
        guard let call = claim.call else {
            guard claim.permits.lease.blockedUntil == nil else { return 0 }
            try await kind.permitSource.pause(after: claim.permits)
            return 1
        }
        engine.launch(
            [call], of: kind, permits: claim.permits, started: claim.asked,
            probe: Probe(controls, kind.kind), out: out)
        return 1
    }

    private static func call(
        _ mass: ExtensionQueries.Mass, bucket: Int, realNow: Int64
    ) throws -> StoreCall {
        let intent = MassExtensionKind.Intent(
            productID: mass.productID, storefronts: mass.storefronts,
            requestIdentifier: mass.extensionID, days: mass.days, reason: mass.reason,
            isRepeated: mass.isDoubtful)
        return try StoreCall(
            .massExtension, subject: StoreCall.subject(ofProduct: mass.productID), bucket: bucket,
            carries: mass.extensionID, saying: intent, realNow: realNow)
    }
}

extension StoreCall {
    /// A new call of an extension.
    init(
        _ kind: Kind, subject: String, bucket: Int, carries extensionID: String,
        saying intent: some Encodable, realNow: Int64
    ) throws {
        var random = SystemRandomNumberGenerator()
        try self.init(
            kind, subject: subject, callID: UUIDv7.make(nowMilliseconds: realNow, random: &random),
            bucket: bucket, carries: [extensionID], saying: intent)
    }
}
