import Ledger
import Pricing
import ServiceKit

/// Writes how a call of Cancel a Subscription ended, fenced by its lease. The table of what each ending means
/// stands here, once:
///
/// | what came | first attempt | later |
/// | --- | --- | --- |
/// | a statement shows the renewal off, or the end | confirmed | confirmed |
/// | an answer, and the renewal is still on | look, then a person | look, then a person |
/// | a look that shows nothing applied | | the same id once more |
/// | not sent, 429, our key refused | put back: judged anew, new id | the same id later |
/// | a request that fails our own checks | a person | look, then a person |
/// | a stale token | put back: judged anew, new id | look, then put back |
/// | another refusal | look, then a person | look, then a person |
/// | looks refused for good, ten times | | a person |
/// | no answer, 5xx | the same id; after three, looks between | likewise |
struct CancelSettlement: Sendable {
    let world: Canceller.World

    func settle(_ request: CancelQueries.Held, _ answer: StoreAnswer) async throws {
        let now = world.clock.nowMilliseconds()
        let realNow = world.realClock.nowMilliseconds()
        let label = try await world.pool.withTransaction { connection -> String in
            try SubscriptionQueries.lock(request.subscriptions, on: connection)
            guard try CancelQueries.isHeld(request, on: connection) else { return "lease_lost" }
            var told: [SubscriptionEvent] = []
            if case .answered(let events, _) = answer {
                told = events.filter { request.subscriptions.contains($0.originalTransactionID) }
            }
            try SubscriptionFolder.fold(told, on: connection)
            let target = try SubscriptionQueries.load(
                [request.originalTransactionID], on: connection)[request.originalTransactionID]
            let proof =
                told.last {
                    $0.originalTransactionID == request.originalTransactionID && $0.showsNoRenewal
                }?.key.evidenceID ?? target?.foldedThrough?.evidenceID
            let fate = fate(
                of: request, answer, target?.facts.whyOver, proof, realNow: realNow)
            var kept = CancelQueries.Answer(
                httpStatus: answer.reply.httpStatus, body: answer.reply.body)
            kept.errorCode = errorCode(of: request, answer, fate)
            kept.message = fate.message
            _ = try connection.pipeline(CancelQueries.end(request, fate, kept, at: now))
            return fate.label
        }
        world.metrics.increment("repricer_cancel_calls_total", labels: ["result": label])
    }

    private func fate(
        of request: CancelQueries.Held, _ answer: StoreAnswer, _ over: String?, _ proof: String?,
        realNow: Int64
    ) -> CancelQueries.Fate {
        // By this answer, or by a notification that overtook it.
        if let over, let proof { return .proved(evidenceID: proof, detail: over) }
        var random = SystemRandomNumberGenerator()
        // Looks come quickly at first, however often the call was sent, or taken over from a dead process, before.
        let delay = world.limits.retry.delay(
            attempt: request.nextStep == "look" ? request.looks : request.attempts, random: &random)
        let later = realNow + delay.milliseconds
        let soon = realNow + world.limits.retry.delay(attempt: 1, random: &random).milliseconds
        func unknown(_ reason: String, _ nextStep: String) -> CancelQueries.Fate {
            .unknown(reason: reason, nextStep: nextStep, nextAttemptAt: later)
        }
        /// Certainly not applied by this attempt; an earlier one of the same intent may have been.
        func unapplied(_ reason: String) -> CancelQueries.Fate {
            request.isFirstAttempt
                ? .requeued(reason: reason, nextLookAt: later) : unknown(reason, request.nextStep)
        }
        switch answer {
        case .answered where request.nextStep == "look": return notSeen(request, later: later)
        case .answered: return unknown("answered, and still set to renew", "look")
        case .throttled: return unapplied("rate_limited")
        case .notSent(let reason): return unapplied(reason)
        case .unknown(let reason, _):
            let hasSentEnough = request.attempts >= Settlement.sendsBeforeLook
            return unknown(
                reason,
                request.nextStep == "send" && hasSentEnough ? "look" : request.nextStep)
        case .refused(let refusal, _):
            if request.nextStep == "look" {
                guard refusal.meaning != .haltService,
                    request.looks >= CancelRound.refusedLooksMax
                else { return unknown("look refused: \(refusal.name)", "look") }
                return .discrepancy(
                    detail:
                        "whether Cancel a Subscription was applied is unknown: its subscription's status "
                        + "is refused with \(refusal.code) \(refusal.name)", isApplied: false)
            }
            if refusal.isOurs, request.isFirstAttempt {
                return .discrepancy(
                    detail: "Cancel a Subscription was \(refusal.message)", isApplied: false)
            }
            switch refusal.meaning {
            case .haltService:
                return request.isFirstAttempt
                    ? unapplied(refusal.name) : unknown(refusal.name, "send")
            case .refresh where request.isFirstAttempt:
                return .requeued(reason: "stale_token", nextLookAt: realNow)
            case .refresh, .reject, .look, .haltBatch, .haltStorefront:
                return .unknown(reason: refusal.name, nextStep: "look", nextAttemptAt: soon)
            }
        }
    }

    /// A look that shows it renewing: the same id once more; or, where an attempt was refused or answered, a few
    /// more looks, since a status may lag.
    private func notSeen(_ request: CancelQueries.Held, later: Int64) -> CancelQueries.Fate {
        let isLast = request.looks >= Settlement.looksMax
        if request.isOver {
            return isLast
                ? .requeued(reason: "not asked for any more", nextLookAt: later)
                : .unknown(
                    reason: "not asked for any more, not seen yet", nextStep: "look",
                    nextAttemptAt: later)
        }
        guard let code = request.errorCode else {
            return .unknown(
                reason: "not applied when looked at", nextStep: "send", nextAttemptAt: later)
        }
        guard isLast else {
            return .unknown(
                reason: "\(code), not seen yet", nextStep: "look", nextAttemptAt: later)
        }
        // The call can't succeed as it stands, since the subscription changed: it is judged on what it is now.
        guard code != Int64(Settlement.staleTokenCode) else {
            return .requeued(reason: "stale_token", nextLookAt: later)
        }
        let isApplied = code == Self.answeredCode
        return .discrepancy(
            detail: isApplied
                ? "Cancel a Subscription was answered, and it is still set to renew"
                : "Cancel a Subscription was refused with \(code)", isApplied: isApplied)
    }

    /// Stands in place of an error code for "answered with 200, and not to be seen".
    static let answeredCode: Int64 = 200

    private func errorCode(
        of request: CancelQueries.Held, _ answer: StoreAnswer, _ fate: CancelQueries.Fate
    ) -> Int64? {
        guard case .unknown = fate else {
            if case .refused(let refusal, _) = answer { return Int64(refusal.code) }
            return request.errorCode
        }
        guard request.nextStep == "send" else { return request.errorCode }
        switch answer {
        case .answered: return Self.answeredCode
        case .refused(let refusal, _):
            return refusal.meaning == .haltService ? nil : Int64(refusal.code)
        case .throttled, .unknown, .notSent: return request.errorCode
        }
    }
}

extension SubscriptionEvent {
    fileprivate var showsNoRenewal: Bool {
        renewal?.autoRenewStatus == 0 || status == 2 || status == 5
    }
}

extension CancelQueries.Fate {
    fileprivate var message: String? {
        switch self {
        case .proved: nil
        case .discrepancy(let detail, _): detail
        case .requeued(let reason, _), .unknown(let reason, _, _): reason
        }
    }

    fileprivate var label: String {
        switch self {
        case .proved: "confirmed"
        case .discrepancy: "discrepancy"
        case .requeued: "put_back"
        case .unknown: "unknown"
        }
    }
}
