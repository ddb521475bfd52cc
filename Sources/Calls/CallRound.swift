import Facts
import Pricing
import ServiceKit

/// The calls of one claim. Each is sent at its permit, and one transaction stores many answers.
struct CallRound<Kind: CallKind>: Sendable {
    let engine: CallEngine
    let kind: Kind
    let settlement: CallSettlement<Kind>
    let permitSource: CallPermitSource
    let permits: CallPermits
    /// No call is sent after this instant, because a pause may have come, or the leases may have ended.
    let leaveBefore: ContinuousClock.Instant
    /// Set where this round is a probe, that is, asks whether the App Store accepts calls again.
    let probe: Probe?
    let out: CallsOut
    /// What the claim read about newly claimed calls, by their ids. For all other calls it is in the stored rows.
    let claimed: [String: Kind.Claimed]

    /// Starts the calls. Each is settled, whatever happens to the others. Then the first failure is thrown.
    func launch(_ calls: [StoreCall]) {
        guard !calls.isEmpty else { return }
        out.launch(calls.count) {
            let leaseRenewal = Task(executorPreference: Alarm.shared) {
                await keepLeases(of: calls)
            }
            let silenceWatch = Task(executorPreference: Alarm.shared) {
                await permitSource.watchSilences(while: permits)
            }
            defer {
                leaseRenewal.cancel()
                silenceWatch.cancel()
            }
            if let failure = await callAll(calls) { throw failure }
        }
    }

    private enum Progress: Sendable {
        case ended(Attempt<Kind>)
        /// It is time to store the answers that have arrived, however long the other calls take.
        case tick
    }

    private func callAll(_ calls: [StoreCall]) async -> (any Error)? {
        await withTaskGroup(of: Progress.self) { group in
            for call in calls {
                group.addTask { .ended(await attempt(call)) }
            }
            group.addTask { await tick() }
            var out = calls.count
            var ended: [Attempt<Kind>] = []
            var failure: (any Error)?
            while out > 0, let progress = await group.next() {
                switch progress {
                case .ended(let attempt):
                    ended.append(attempt)
                    out -= 1
                    guard out == 0 || stopsOthers(attempt) else { continue }
                case .tick: group.addTask { await tick() }
                }
                do { try await settle(ended) } catch { failure = failure ?? error }
                ended = []
            }
            group.cancelAll()
            return failure
        }
    }

    /// Whether the answer must be acted on at once, because other calls, also of other replicas, are about to be sent.
    private func stopsOthers(_ attempt: Attempt<Kind>) -> Bool {
        silence(after: attempt.answer, to: attempt.call) != nil || attempt.judgedRefusal != nil
    }

    private func tick() async -> Progress {
        // This wait is cancelled once all calls have ended.
        try? await Alarm.shared.wait(for: engine.limits.settleEvery)
        return .tick
    }

    /// Renews the leases until it is cancelled, so that a slow answer is not taken for a dead process. A renewal that
    /// fails is tried again; when all fail, the lease ends as it should.
    private func keepLeases(of calls: [StoreCall]) async {
        let outage = Outage(log: engine.log, level: .warning, failure: "leases not renewed")
        while !Task.isCancelled {
            do {
                try await Alarm.shared.wait(for: engine.limits.leaseFor / 4)
                let until = engine.realClock.nowMilliseconds() + engine.limits.leaseFor.milliseconds
                try await engine.pool.write(StoreCallQueries.renew(calls, until: until))
                outage.end()
            } catch is CancellationError {
                return
            } catch {
                outage.note(error)
            }
        }
    }

    // MARK: One call

    private func attempt(_ call: StoreCall) async -> Attempt<Kind> {
        await kind.whileReady(call) { await permittedAttempt(call) }
    }

    private func permittedAttempt(_ call: StoreCall) async -> Attempt<Kind> {
        let claimed = claimed[call.callID]
        do {
            guard try await mayLeave() else {
                let reason = permits.silenced ?? permitSource.silenced
                return Attempt(
                    call, .notSent(reason: reason?.rawValue ?? "held back"), claimed: claimed,
                    wasHeldBack: true)
            }
        } catch {
            // It got no permit, so nothing was sent.
            return Attempt(
                call, .notSent(reason: "no permit: \(error)"), claimed: claimed, wasHeldBack: true)
        }
        let answer = await step(call, claimed)
        if let until = silence(after: answer, to: call) {
            permits.silence(for: .init(answer))
            permitSource.silenceHere(until: until, for: .init(answer))
        }
        let isContradicted =
            call.step == .send && answer.isAnswered && kind.contradicts(answer, call, claimed)
        let attempt = Attempt<Kind>(call, answer, claimed: claimed, isContradicted: isContradicted)
        guard kind.policy.readsStatusAfterStaleToken, call.step == .send,
            let refusal = attempt.judgedRefusal, readsStatus(after: refusal, of: call)
        else { return attempt }
        return Attempt(
            call, answer, newest: await newestStatements(of: call), claimed: claimed,
            isContradicted: isContradicted)
    }

    /// Whether the newest statements are read beside the refusal. After a stale token, the next call needs the token of
    /// the newest renewal info. After "done already", the refusal may not be believed where others got it too, so the
    /// status must show now what is done.
    private func readsStatus(after refusal: StoreRefusal, of call: StoreCall) -> Bool {
        switch refusal.meaning {
        case .refresh: true
        case .checkStatus:
            call.isFirstAttempt && (probe != nil || engine.recent.readsDone(kind.kind))
        case .reject, .suspect, .haltBatch, .haltStorefront, .haltService: false
        }
    }

    /// Waits for a permit; returns false when the call must not be sent any more.
    private func mayLeave() async throws -> Bool {
        try await permitSource.take(from: permits, before: leaveBefore) && !out.isStopping
    }

    private func step(_ call: StoreCall, _ claimed: Kind.Claimed?) async -> StoreAnswer {
        switch call.step {
        case .check: await kind.check(call)
        case .send: await kind.send(call, claimed, leavingBefore: leaveBefore)
        }
    }

    /// Without a status, the call keeps its token, and a later attempt reads the status again.
    func newestStatements(of call: StoreCall) async -> [SubscriptionEvent] {
        await statusNow(of: call)?.statements ?? []
    }

    // MARK: What came back

    private func settle(_ attempts: [Attempt<Kind>]) async throws {
        guard !attempts.isEmpty else { return }
        // Halts come before the answers are stored. So the work that those answers put back finds its batch, or the
        // service, halted.
        let attempts = try await patiently(attempts.map(\.call)) {
            let silences = attempts.compactMap { attempt in
                silence(after: attempt.answer, to: attempt.call)
                    .map { ($0, SilenceReason(attempt.answer)) }
            }
            if let (until, reason) = silences.max(by: { $0.0 < $1.0 }) {
                try await permitSource.block(until: until, for: reason)
            }
            try await throttle(after: attempts)
            try await spaceProbes(after: attempts)
            return try await judged(attempts).map(parkedIfAlone).map(rateLimitedAgain)
        }
        attempts.forEach(tell)
        let settled = try await store(attempts)
        let refused = attempts.filter(\.mayEndRefused).map(\.call)
        if !refused.isEmpty { try await kind.halts?.judgeGuards(of: refused) }
        try await judgeDone(settled)
        guard
            let reason = attempts.filter({ !$0.wasHeldBack }).compactMap(\.answer.notSentReason)
                .first
        else { return }
        engine.outOfReach.note(reason)
        out.keepQuiet(for: engine.limits.failureWait)
        try await tellUnreached(attempts)
    }

    /// Stores, for `status`, that no call can be sent. The next answered call ends that note.
    private func tellUnreached(_ attempts: [Attempt<Kind>]) async throws {
        let sent = attempts.filter { $0.call.step == .send && !$0.wasHeldBack }
        guard let reason = sent.compactMap(\.answer.notSentReason).last,
            !sent.contains(where: \.isHeard),
            engine.recent.noteUnreached(kind.kind, now: engine.now)
        else { return }
        try await engine.halt.noteUnreached(kind.kind, answer: reason)
    }

    /// Throttles calls where the App Store gives no answers, whatever the subscription, until it answers.
    private func throttle(after attempts: [Attempt<Kind>]) async throws {
        // A check calls another endpoint, so its answer says nothing about calls.
        let sent = attempts.filter { $0.call.step == .send }
        let silent = sent.filter(\.answer.isUnknown)
        if sent.contains(where: \.isHeard) {
            engine.outOfReach.end()
            if engine.recent.noteReached(kind.kind) {
                try await engine.halt.endUnreached(kind.kind)
            }
        }
        if sent.contains(where: \.isHeard), engine.recent.noteAnswered(kind.kind) {
            try await engine.halt.endThrottle(kind.kind)
            engine.log.notice("the App Store answers again", ["kind": kind.kind.rawValue])
        }
        guard !silent.isEmpty else { return }
        let asked =
            silent.compactMap { silence(after: $0.answer, to: $0.call) }.max()
            .map { Duration.milliseconds($0.milliseconds - engine.now.milliseconds) } ?? .zero
        var opening = 1
        let until = engine.recent.noteUnanswered(
            silent.map(\.call.subject), kind.kind, isAsked: asked > .zero, now: engine.now
        ) { openings in
            opening = openings
            var random = SystemRandomNumberGenerator()
            return max(asked, engine.limits.unanswered.delay(attempt: openings, random: &random))
        }
        guard let until else { return }
        permits.silence(for: .unanswered)
        try await permitSource.block(until: until, for: .unanswered)
        let answer = silent.compactMap(\.answer.unknownReason).last ?? "none"
        try await engine.halt.throttle(kind.kind, until: until, answer: answer)
        let fields: Log.Fields = [
            "kind": kind.kind.rawValue, "until": until.text, "answer": answer,
        ]
        if opening > 1 {
            // The first one was logged, and the end of the throttle will be.
            engine.log.debug("the App Store still gives no answers", fields)
        } else {
            engine.log.error(
                asked > .zero
                    ? "the App Store asks to wait; calls are throttled until it answers"
                    : "the App Store gives no answers; calls are throttled until it answers", fields
            )
        }
        engine.metrics.increment(
            "repricer_breaker_opened_total", labels: ["kind": kind.kind.rawValue])
    }

    /// After a probe without an answer, waits a minute as after a refused probe, so that few calls become unknown.
    private func spaceProbes(after attempts: [Attempt<Kind>]) async throws {
        guard let probe, probe.batchID == nil,
            attempts.contains(where: { $0.call.step == .send && $0.answer.isUnknown })
        else { return }
        try await permitSource.block(
            until: engine.now.advanced(by: engine.limits.probes.next().milliseconds), for: .halted)
    }

    // MARK: Refusals beside what others got

    private func judged(_ attempts: [Attempt<Kind>]) async throws -> [Attempt<Kind>] {
        let sent = attempts.filter { !$0.wasHeldBack && $0.call.step == .send }
        guard sent.contains(where: { $0.judgedRefusal != nil }) || engine.recent.isAlert(kind.kind)
        else {
            if sent.contains(where: \.isSuccess) { engine.recent.noteSuccess(kind.kind, []) }
            try await recover(after: sent)
            return attempts
        }
        let scopes = try await kind.halts?.scopes(of: sent.map(\.call)) ?? [:]
        let verdicts = try await judge(sent, scopes)
        var judged: [Attempt<Kind>] = []
        for attempt in attempts {
            guard let refusal = attempt.judgedRefusal, var verdict = verdicts[attempt.call.callID]
            else {
                judged.append(attempt)
                continue
            }
            verdict = try await narrowed(verdict, refusal, attempt.call)
            try await act(on: verdict, refusal, attempt.call)
            if let probe { try await note(refusal, attempt.call, of: probe) }
            judged.append(attempt.judged(probe == nil ? verdict.verdict : .probed))
        }
        try await recover(after: sent)
        return judged
    }

    struct Judged: Sendable {
        var verdict: RefusalVerdict
        /// The refusals that led to the halt.
        var streak: RefusalStreak?
    }

    /// Judges refusals by the App Store beside what all replicas have met. Returns the verdicts by call id.
    private func judge(
        _ sent: [Attempt<Kind>], _ scopes: [String: [CallScope]]
    ) async throws -> [String: Judged] {
        let (recent, kind) = (engine.recent, kind.kind)
        let (now, realNow) = (engine.now, engine.realClock.nowMilliseconds())
        let answered = sent.filter(\.isSuccess)
            .flatMap { scopes[$0.call.callID] ?? [] }
        let refused = sent.filter(\.tellsOfOthers)
        let hasSuccess = sent.contains(where: \.isSuccess)
        if refused.isEmpty {
            let known = try await engine.pool.read { try RefusalStreakQueries.read(kind, on: $0) }
            guard hasSuccess, RecentAnswers.isEnded(known, byAny: answered, of: kind) else {
                if hasSuccess { recent.noteSuccess(kind, answered) }
                return [:]
            }
        }
        return try await engine.pool.withTransaction { connection in
            let former = try RefusalStreakQueries.lock(kind, on: connection)
            let (verdicts, streaks) = recent.together(kind, former) { state in
                state.forgetEnded(kind, scopes.values.flatMap(\.self), realNow: realNow)
                if hasSuccess { state.noteSuccess(kind, answered) }
                var verdicts: [String: Judged] = [:]
                for attempt in refused {
                    guard let refusal = attempt.judgedRefusal else { continue }
                    let verdict = state.judge(
                        refusal, of: attempt.call.subject, kind, scopes[attempt.call.callID] ?? [],
                        now: now, realNow: realNow)
                    verdicts[attempt.call.callID] = Judged(verdict: verdict)
                    guard case .systemic(let scope) = verdict else { continue }
                    verdicts[attempt.call.callID]?.streak = state.streak(kind, scope)
                }
                return verdicts
            }
            try connection.sendLater(
                RefusalStreakQueries.write(kind, streaks, former: former))
            return verdicts
        }
    }

    /// Notes the refusal of a probe. Another probe follows whatever the refusal was, and the halt shows it.
    private func note(_ refusal: StoreRefusal, _ call: StoreCall, of probe: Probe) async throws {
        engine.log.notice(
            "a probe is refused; the halt goes on",
            [
                "kind": kind.kind.rawValue, "subject": call.subject,
                "code": refusal.codeAndName,
            ])
        switch probe {
        case .batch(let id):
            try await kind.halts?.note(refusal, call, ofProbe: id)
            return
        case .service: try await engine.halt.note(refusal, of: call.subject, nil)
        case .kind: try await engine.halt.note(refusal, of: call.subject, kind.kind)
        }
        try await permitSource.block(
            until: engine.now.advanced(by: engine.limits.probes.next().milliseconds), for: .halted)
    }

    func act(
        on judged: Judged, _ refusal: StoreRefusal, _ call: StoreCall
    ) async throws {
        guard case .systemic(let scope) = judged.verdict else { return }
        permits.silence(for: .halted)
        let streak = judged.streak
        switch scope {
        case .all:
            try await engine.haltAll(
                because: refusal, call.subject, kind.kind, streak, permitSource)
        case .kind:
            try await engine.haltKind(
                kind.kind, because: refusal, call.subject, streak, permitSource)
        case .batch(let scope), .storefront(let scope):
            try await kind.halts?.halt(scope, because: refusal, call, streak)
        }
    }

    /// Ends the halt after an answered probe. Where the key was refused, any answer shows that it is good, also one without
    /// effect. Where price changes were refused for their content, only a price change that takes effect shows that they no
    /// longer are, or a status that the refused ones are done (`judgeDone`).
    private func recover(after sent: [Attempt<Kind>]) async throws {
        let isAnswered = sent.contains(where: \.answer.isAnswered)
        let hasEffect = sent.contains(where: \.isSuccess)
        switch probe {
        case .service(let reason) where isAnswered && ServiceHalt.isAboutKey(reason):
            try await engine.halt.recover()
        case .service where hasEffect && kind.kind == .priceChange: try await engine.halt.recover()
        case .kind where hasEffect: try await engine.halt.recover(kind.kind)
        case .batch(let id) where hasEffect: try await kind.halts?.recover(id)
        case nil, .service, .kind, .batch: return
        }
    }

    /// Parks a call that was tried in vain for long: it gets no answers, or none with an effect, or its check shows nothing
    /// or is refused.
    /// While calls are throttled it parks none, since that says nothing about the subscription.
    private func parkedIfAlone(_ attempt: Attempt<Kind>) -> Attempt<Kind> {
        let isRefused = kind.policy.parksRefusedChecks && attempt.answer.refusal != nil
        let isLast = attempt.call.step == .check && (attempt.answer.isAnswered || isRefused)
        guard attempt.answer.isUnknown || attempt.isContradicted || isLast,
            ResolutionTable.isVain(attempt.call),
            !engine.recent.isThrottled(kind.kind)
        else { return attempt }
        return attempt.judged(.parked)
    }

    /// Parks a subscription that also got the previous 429. Otherwise it would be the first to be called after each
    /// silence, and nobody would learn whether others are answered.
    private func rateLimitedAgain(_ attempt: Attempt<Kind>) -> Attempt<Kind> {
        guard attempt.call.step == .send else { return attempt }
        guard case .throttled = attempt.answer else {
            if attempt.isHeard { engine.recent.forgetRateLimit(kind.kind, attempt.call.subject) }
            return attempt
        }
        let isAgain = engine.recent.isRateLimitedAgain(kind.kind, attempt.call.subject)
        return isAgain ? attempt.judged(.parked) : attempt
    }

    /// Logs the outcome of one subscription's call where a person may have to act.
    private func tell(_ attempt: Attempt<Kind>) {
        tellRefusedCheck(attempt)
        if let reason = attempt.answer.unknownReason, attempt.verdict == .parked {
            engine.log.warning(
                "a call gets no answer while others do; it is parked",
                [
                    "kind": kind.kind.rawValue, "subject": attempt.call.subject,
                    "attempts": "\(attempt.call.attempts)", "answer": reason,
                ])
            engine.count(kind.kind, "parked", by: 1)
        }
        if attempt.isContradicted, attempt.verdict == .parked {
            engine.log.warning(
                "a call is answered again and again, and no effect shows; it is parked",
                [
                    "kind": kind.kind.rawValue, "subject": attempt.call.subject,
                    "attempts": "\(attempt.call.attempts)",
                ])
            engine.count(kind.kind, "parked", by: 1)
        }
        if case .throttled = attempt.answer, attempt.verdict == .parked {
            engine.log.warning(
                "a call meets 429 again before any other does; it is parked",
                ["kind": kind.kind.rawValue, "subject": attempt.call.subject])
            engine.count(kind.kind, "parked", by: 1)
        }
        guard attempt.call.step == .send, let refusal = attempt.answer.refusal,
            attempt.verdict == .parked, attempt.call.carries.count <= 1
        else { return }
        engine.log.warning(
            refusal.mayBeApplied && !kind.policy.keepsRefused
                ? "an answer is not the App Store's; the outcome of its call is unknown"
                : "a call is refused, and nothing ends by it; it is parked",
            [
                "kind": kind.kind.rawValue, "subject": attempt.call.subject,
                "code": refusal.codeAndName, "means": refusal.inWords,
            ])
        engine.count(kind.kind, "parked", by: 1)
    }

    private func tellRefusedCheck(_ attempt: Attempt<Kind>) {
        guard attempt.call.step == .check, case .refused(let refusal, _) = attempt.answer else {
            return
        }
        engine.log.warning(
            "the status check of a call is refused",
            [
                "kind": kind.kind.rawValue, "subject": attempt.call.subject,
                "code": refusal.codeAndName,
            ])
        if attempt.verdict == .parked { engine.count(kind.kind, "parked", by: 1) }
    }

    /// The instant until which Apple asks every replica for silence. A call that is told so again while others are
    /// answered waits by itself.
    private func silence(after answer: StoreAnswer, to call: StoreCall) -> Instant? {
        // A check comes after sends, and asks another endpoint.
        let isOdd =
            switch call.step {
            case .check: answer.isUnknown && call.checks > 1
            case .send:
                answer.isUnknown && call.attempts > 1 && !engine.recent.isThrottled(kind.kind)
            }
        return isOdd
            ? nil
            : engine.silence(after: answer, to: call.subject, kind.kind, beside: engine.recent)
    }
}
