package import AppStore
package import Facts
package import Pricing
package import ServiceKit

/// Writes the outcomes of calls, fenced by their leases, in one transaction for all attempts of a round.
package struct CallSettlement<Kind: CallKind>: Sendable {
    let pool: DatabasePool
    let kind: Kind
    let log: Log
    /// The waits of a call that alone gets no answers.
    let unanswered: Backoff
    let packer: PayloadPacker

    package init(
        pool: DatabasePool, kind: Kind, log: Log, unanswered: Backoff, packer: PayloadPacker
    ) {
        self.packer = packer
        self.unanswered = unanswered
        self.pool = pool
        self.kind = kind
        self.log = log
    }

    package struct Settled: Sendable {
        /// The ids of the calls whose lease was still held. Another process settles the others.
        package var ours: Set<String> = []
        /// The calls whose first attempt was refused as "done already", by whether a status has shown that to be true.
        package var done: [StoreCall] = []
        package var notDone: [StoreCall] = []
    }

    /// Settles attempts of one bucket.
    package func settle(
        _ attempts: [Attempt<Kind>], now: Instant, realNow: Int64
    ) async throws -> Settled {
        try await pool.withTransaction { connection in
            var (scene, ours) = try kind.lock(attempts, on: connection)
            let held = attempts.filter { ours.contains($0.call.callID) }
            guard !held.isEmpty else { return Settled(ours: ours) }
            try kind.fold(held, into: &scene, on: connection)
            let resolved = held.map { attempt in
                let resolution = kind.resolve(attempt, in: scene)
                return ResolvedCall(
                    attempt.call, resolution, attempt.answer.reply,
                    nextAt: nextAt(
                        resolution, attempt.call, realNow: realNow,
                        atLeast: attempt.answer.isUnknown ? attempt.answer.reply.retryAfter : nil),
                    parkedReason: attempt.parkedReason,
                    isUncounted: attempt.wasHeldBack || attempt.isNoCheck)
            }
            resolved.forEach(tell)
            try connection.sendLater(
                StoreCallQueries.settle(
                    resolved.map { $0.ending(packedBy: packer) }, at: now.milliseconds))
            try connection.sendLater(kind.write(resolved, in: scene, at: now))
            var settled = Settled(ours: ours)
            for (attempt, resolved) in zip(held, resolved) where attempt.isReadAfterDone {
                switch resolved.resolution {
                case .applied(let proof) where proof.showsEffect: settled.done.append(attempt.call)
                case .refused: settled.notDone.append(attempt.call)
                // A status that was refused or got no answer tells neither.
                case .open(.send, _, _, _) where attempt.answer.isAnswered:
                    settled.notDone.append(attempt.call)
                case .applied, .released, .open: break
                }
            }
            return settled
        }
    }

    /// Quarantines an attempt whose answer cannot be stored. Nobody knows the outcome, and what the call carries says
    /// so. The call is checked; only where nothing ever refused it may it be sent again, under its id.
    package func quarantine(
        _ attempt: Attempt<Kind>, because error: any Error, now: Instant, realNow: Int64
    ) async throws {
        let call = attempt.call
        try await pool.withTransaction { connection in
            let ids = kind.subscriptions(of: call)
            if !ids.isEmpty { try SubscriptionQueries.lockToSettle(ids, on: connection) }
            guard try !connection.ask(StoreCallQueries.holding([call])).isEmpty else { return }
            let resolution = Resolution.open(
                .check, reason: "the answer can't be stored: \(error)", errorCode: call.errorCode)
            let resolved = ResolvedCall(
                call, resolution, StoreReply(httpStatus: attempt.answer.reply.httpStatus),
                nextAt: nextAt(resolution, call, realNow: realNow))
            try connection.sendLater(
                StoreCallQueries.settle(
                    [resolved.ending(packedBy: packer)], at: now.milliseconds))
            try connection.sendLater(kind.write([resolved], in: nil, at: now))
        }
    }

    private func tell(_ resolved: ResolvedCall) {
        let (kind, id) = (resolved.call.kind.rawValue, resolved.call.callID)
        switch resolved.resolution {
        case .refused(let refusal, _):
            log.notice("rejected", ["kind": kind, "call": id, "code": refusal.name])
        case .released(let release) where release.isDoubtful:
            log.notice(
                "abandoned, never seen applied",
                ["kind": kind, "call": id, "reason": release.reason])
        case .applied, .released, .open: break
        }
    }

    /// When the next step is due. Checks come quickly at first, however often the call was sent. So does the call
    /// after a check that the App Store answered, because a deadline may be near.
    private func nextAt(
        _ resolution: Resolution, _ call: StoreCall, realNow: Int64, atLeast: Duration? = nil
    ) -> Int64? {
        let (after, tries): (Resolution.Delay, Int) =
            switch resolution {
            case .applied, .refused: (.none, 0)
            // What it carries counts how often it was parked.
            case .released(let release):
                (release.after, release.isDoubtful ? call.attempts : call.attempts + call.checks)
            case .open(.check, _, _, let after): (after, max(1, call.checks))
            case .open(.send, _, _, let after): (after, call.step == .check ? 1 : call.attempts)
            }
        switch after {
        case .none: return nil
        case .fixed(let duration):
            return realNow + max(duration, atLeast ?? .zero).milliseconds
        case .retry, .staleToken:
            var random = SystemRandomNumberGenerator()
            let delay = max(
                kind.policy.retry.delay(attempt: tries, random: &random), atLeast ?? .zero)
            let next = realNow + delay.milliseconds
            // A check that may be the last one is made as soon as none of the attempts can be on its way any more.
            guard case .open(.check, _, _, _) = resolution,
                call.checks >= ResolutionTable.checksMax - 1,
                let landed = call.inFlightUntil, landed >= realNow
            else { return next }
            return min(next, landed + 1)
        case .unanswered:
            var random = SystemRandomNumberGenerator()
            let delay = unanswered.delay(
                attempt: call.attempts - ResolutionTable.sendsBeforeCheck, random: &random)
            return realNow + max(delay, atLeast ?? .zero).milliseconds
        case .parked, .probed:
            var random = SystemRandomNumberGenerator()
            return realNow
                + ResolutionTable.parkedWait.delay(attempt: tries, random: &random).milliseconds
        }
    }
}

extension Attempt {
    /// Whether it was to read a status, and the App Store asked to come back later, or was not reached. Such a check says
    /// nothing, and does not count among those that show nothing.
    fileprivate var isNoCheck: Bool {
        guard call.step == .check else { return false }
        return switch answer {
        case .throttled, .notSent: true
        case .answered, .refused, .unknown: false
        }
    }

    /// Whether its call was refused as "done already" at the first attempt, and this attempt read a status.
    fileprivate var isReadAfterDone: Bool {
        switch call.step {
        case .send: judgedRefusal?.meaning == .checkStatus && !newest.isEmpty
        case .check:
            call.attempts == 1
                && (call.errorCode.map { APIErrorCode(rawValue: Int($0)).saysDone } ?? false)
        }
    }
}

extension ResolvedCall {
    /// How the attempt ended, as it is stored with the call.
    fileprivate func ending(packedBy packer: PayloadPacker) -> CallEnding {
        var ending: CallEnding
        switch resolution {
        case .applied(let proof):
            ending = CallEnding(call, .answered)
            ending.message = proof.detail
        case .refused(let refusal, _):
            ending = CallEnding(call, .refused)
            ending.errorCode = Int64(refusal.code)
            ending.message = refusal.message
        case .released(let release):
            ending = CallEnding(call, .refused)
            ending.errorCode = release.errorCode
            ending.message = release.reason
        case .open(let step, let reason, let errorCode, _):
            ending = CallEnding(call, .unknown)
            ending.nextStep = step
            ending.nextAttemptAt = nextAt ?? 0
            ending.isUncounted = isUncounted
            ending.errorCode = errorCode
            ending.message = reason
        }
        ending.isDoubtful = isDoubtful
        ending.httpStatus = reply.httpStatus
        ending.answer = reply.body.map { body in
            // Only verified answers are packed: packing stores their signing headers, which are kept for ever.
            guard reply.isVerified, let packed = packer.pack(answer: body) else {
                return .whole(body)
            }
            return .packed(
                packed.bytes,
                headers: packed.headers.map { SigningHeader(digest: $0.digest, text: $0.text) })
        }
        return ending
    }
}
