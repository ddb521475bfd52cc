import Calls
import Facts
import Pricing
import ServiceKit

/// Turns due requests into calls: it judges on the newest facts, writes the intent and commits before the call.
struct SingleExtensions: Sendable {
    private typealias Request = ExtensionCallQueries.Request

    let engine: CallEngine
    let kind: ExtensionKind

    private struct Claim: Sendable {
        var judged = 0
        var calls: [StoreCall] = []
        var permits: CallPermits
        /// An instant before the query that reads the pauses.
        var asked: ContinuousClock.Instant
    }

    /// Judges what is due and starts its calls. Returns how many requests were judged.
    func round(_ controls: ServiceControlQueries.Everything, _ out: CallsOut) async throws -> Int {
        let realNow = engine.realClock.nowMilliseconds()
        let buckets = try await engine.pool.read {
            try ExtensionCallQueries.dueBuckets(realNow: realNow, on: $0)
        }
        var judged = 0
        for bucket in buckets {
            try Task.checkCancellation()
            let claim = try await claim(bucket: bucket, controls)
            judged += claim.judged
            if claim.permits.granted == 0 {
                // The other buckets would get no permit now either.
                if claim.permits.lease.blockedUntil == nil {
                    try await kind.permitSource.pause(after: claim.permits)
                }
                return judged
            }
            engine.launch(
                claim.calls, of: kind, permits: claim.permits, started: claim.asked,
                probe: Probe(controls, kind.kind), out: out)
            // This call is the probe, and the others wait for its answer.
            if engine.isProbing(kind.kind, controls), !claim.calls.isEmpty { return judged }
        }
        return judged
    }

    /// What the transaction that locks the subscriptions decides. Nothing is called before it returns.
    private func claim(
        bucket: Int, _ controls: ServiceControlQueries.Everything
    ) async throws -> Claim {
        let (now, realNow) = (engine.now, engine.realClock.nowMilliseconds())
        let wanted = engine.isProbing(kind.kind, controls) ? 1 : engine.limits.callsPerClaim
        return try await engine.pool.withTransaction { connection in
            let permits = try kind.permitSource.lease(wanted, on: connection)
            var claim = Claim(permits: permits, asked: .now)
            guard permits.granted > 0 else { return claim }
            let due = try ExtensionCallQueries.lockDue(
                bucket: bucket, limit: permits.granted, realNow: realNow, on: connection)
            let ids = due.map(\.originalTransactionID)
            let (stored, _) = try SubscriptionQueries.loadReadable(ids, on: connection)
            let extendedAt = try ExtensionQueries.extendedAt(
                ids, now: now.milliseconds, on: connection)
            claim.judged = due.count
            var statements: [DatabaseStatement] = []
            for request in due {
                let id = request.originalTransactionID
                let facts = stored[id]?.facts
                if let ending = Self.ending(request, facts, extendedAt[id] ?? [], now: now) {
                    statements.append(
                        ExtensionCallQueries.settle(request, ending, at: now.milliseconds))
                    engine.metrics.increment(
                        "repricer_extensions_judged_total",
                        labels: ["result": ending.state.rawValue])
                    continue
                }
                let call = try Self.call(request, bucket: bucket, realNow: realNow)
                statements.append(
                    ExtensionCallQueries.claim(
                        request, callID: call.callID, isOfSandbox: kind.isOfSandbox,
                        renewalBefore: facts?.renewalAt, now: now.milliseconds))
                claim.calls.append(call)
            }
            statements += engine.intents(claim.calls, now: now)
            statements.append(kind.permitSource.returnUnused(permits, used: claim.calls.count))
            _ = try connection.pipeline(statements)
            return claim
        }
    }

    private static func call(
        _ request: Request, bucket: Int, realNow: Int64
    ) throws -> StoreCall {
        let intent = ExtensionKind.Intent(
            requestIdentifier: request.extensionID, days: request.days, reason: request.reason,
            isRepeated: request.isDoubtful)
        return try StoreCall(
            .renewalExtension, subject: request.originalTransactionID, bucket: bucket,
            carries: request.extensionID, saying: intent, realNow: realNow)
    }

    /// How a request ends without a call: the subscription is not eligible. A request that may have been applied is not
    /// judged again, because its own extension could be what makes the subscription ineligible. The App Store answers a
    /// repeated identifier as it did the first time.
    private static func ending(
        _ request: Request, _ facts: SubscriptionFacts?, _ extendedAt: [Instant], now: Instant
    ) -> ExtensionCallQueries.Ending? {
        guard !request.isDoubtful else { return nil }
        let obstacle = ExtensionEligibility.obstacle(
            facts, extendedAt: extendedAt, hasOpen: false, now: now)
        return obstacle.map {
            .init(state: .ineligible, by: nil, code: $0.rawValue, detail: $0.meaning)
        }
    }
}
