import Ledger
import Pricing
import ServiceKit

/// Writes how a call ended, fenced by its lease. The table of what each ending means stands here, once.
struct Settlement: Sendable {
    let pool: LedgerPool
    let log: Log
    let retry: Backoff

    /// Why a change waits while the App Store wants no calls.
    static let silenced = "rate_limited"
    /// Looks before a call counts as not applied; the last of them once it can't be on its way any more.
    static let looksMax = 3
    /// `InvalidConsistencyTokenError`: never sent again with the token that was refused.
    static let staleTokenCode = 4_000_082
    /// Attempts with the same id before each further one is preceded by a look.
    static let sendsBeforeLook = 3

    /// Settles one attempt. Returns false when the lease was lost: somebody else settles it. `newest` are
    /// statements read besides the answer.
    func settle(
        _ request: RequestQueries.Held, _ answer: StoreAnswer, newest: [SubscriptionEvent],
        now: Instant, realNow: Int64
    ) async throws -> Bool {
        let attempt = Attempt(request, answer, newest: newest)
        return try await !settle([attempt], now: now, realNow: realNow).isEmpty
    }

    /// Settles attempts of different subscriptions in one transaction, with as many statements as one alone takes.
    /// Returns the ids of those whose lease was still held; somebody else settles the others.
    func settle(_ attempts: [Attempt], now: Instant, realNow: Int64) async throws -> Set<String> {
        try await pool.withTransaction { connection in
            let locked = try lock(attempts, on: connection)
            let ours = locked.ours
            let held = attempts.filter { ours.contains($0.request.requestReferenceID) }
            guard !held.isEmpty else { return ours }
            let folded = try SubscriptionFolder.fold(
                held.flatMap(\.statements), areNew: held.allSatisfy(\.isFirstAnswer),
                // One that can't be read is the fault of those alone whose answer it must take in.
                into: locked.subscriptions.unreadable.isEmpty ? locked.subscriptions.stored : nil,
                changes: locked.changes, holdsCalls: true, on: connection)
            let settled = try settled(among: held.map(\.request), folded, on: connection)
            let halting = held.compactMap { attempt in
                attempt.answer.haltsBatch.map { (attempt.request, Int64($0.code)) }
            }
            let again = try RequestQueries.refusedBefore(
                halting.map(\.0), codes: halting.map(\.1), on: connection)
            var endings = RequestQueries.Endings()
            for attempt in held {
                let outcome = Outcome(
                    attempt.request, attempt.answer,
                    isSettled: settled.contains(attempt.request.requestReferenceID),
                    wasRefusedBefore: again.contains(attempt.request.requestReferenceID))
                endings.append(
                    ending(
                        outcome, attempt.request, attempt.answer.reply, now: now, realNow: realNow))
            }
            try connection.sendLater(endings.statements(at: now.milliseconds))
            // Another call of theirs may have waited for the end of this one.
            let unanswered =
                folded.filter { $0.value.contains(where: \.isUnanswered) }.map(\.key)
                + endings.closed.filter { folded[$0] == nil }
            if !unanswered.isEmpty {
                try connection.sendLater([RequestQueries.reopen(unanswered)])
            }
            return ours
        }
    }

    /// Subscriptions under their locks, and which of the attempts are still ours, by request id.
    private struct Locked {
        var subscriptions: SubscriptionQueries.Readable
        /// Of some of them those that were ever sent.
        var changes: [String: [TrackedChange]]
        var ours: Set<String>
    }

    /// One statement locks them all, in one order. What their claims read is not read again, where it still stands.
    private func lock(
        _ attempts: [Attempt], on connection: isolated LedgerConnection
    ) throws -> Locked {
        let requests = attempts.map(\.request)
        let ids = requests.map(\.originalTransactionID)
        guard attempts.allSatisfy({ $0.claimed?.subscription != nil && $0.request.isFirstAttempt })
        else {
            let (subscriptions, ours) = try connection.ask(
                SubscriptionQueries.lockingAndLoading(ids), RequestQueries.holding(requests))
            return Locked(subscriptions: subscriptions, changes: [:], ours: ours)
        }
        let (versions, ours) = try connection.ask(
            SubscriptionQueries.lockingVersions(ids), RequestQueries.holding(requests))
        var locked = Locked(subscriptions: ([:], [:]), changes: [:], ours: ours)
        var written: [String] = []
        for attempt in attempts {
            let id = attempt.request.originalTransactionID
            guard let claimed = attempt.claimed?.subscription, claimed.version == versions[id]
            else {
                written.append(id)
                continue
            }
            locked.subscriptions.stored[id] = claimed.stored
            locked.changes[id] = claimed.changes
        }
        guard !written.isEmpty else { return locked }
        let read = try SubscriptionQueries.loadReadable(written, on: connection)
        locked.subscriptions.stored.merge(read.stored) { _, read in read }
        locked.subscriptions.unreadable = read.unreadable
        return locked
    }

    /// Those whose changes a fold has settled, this one or an earlier one; by request id.
    private func settled(
        among requests: [RequestQueries.Held], _ folded: [String: [TrackedChange]],
        on connection: isolated LedgerConnection
    ) throws -> Set<String> {
        var settled: Set<String> = []
        var others: [RequestQueries.Held] = []
        for request in requests {
            guard let changes = folded[request.originalTransactionID] else {
                others.append(request)
                continue
            }
            let isOpen = changes.contains { change in
                change.requestReferenceID == request.requestReferenceID
                    && (change.progress.state == .sending || change.progress.state == .unknown)
            }
            if !isOpen { settled.insert(request.requestReferenceID) }
        }
        guard !others.isEmpty else { return settled }
        return try settled.union(RequestQueries.settled(among: others, on: connection))
    }

    /// Settles an attempt whose answer can't be stored: nobody knows, and the changes say so. It is looked at
    /// again and again, never sent.
    func setAside(
        _ request: RequestQueries.Held, _ answer: StoreAnswer, because error: any Error,
        now: Instant, realNow: Int64
    ) async throws {
        try await pool.withTransaction { connection in
            try SubscriptionQueries.lock([request.originalTransactionID], on: connection)
            guard try !connection.ask(RequestQueries.holding([request])).isEmpty else { return }
            let outcome = Outcome.stillUnknown(
                reason: "the answer can't be stored: \(error)",
                errorCode: request.errorCode.map { Int($0) }, nextStep: "look")
            var endings = RequestQueries.Endings()
            endings.append(
                ending(
                    outcome, request, StoreReply(httpStatus: answer.reply.httpStatus), now: now,
                    realNow: realNow))
            try connection.sendLater(endings.statements(at: now.milliseconds))
        }
    }

    /// What one attempt means for its request and changes.
    private enum Outcome {
        case done
        case rejected(StoreRefusal, isDoubtful: Bool = false)
        case requeued(reason: String, goesAlone: Bool, isDelayed: Bool, errorCode: Int? = nil)
        /// Looked for until it could not be on its way any more, and never seen applied.
        case givenUp(reason: String)
        case stillUnknown(reason: String, errorCode: Int?, nextStep: String)

        /// `wasRefusedBefore`: with the code that halts the batch, before a person resumed it.
        init(
            _ request: RequestQueries.Held, _ answer: StoreAnswer, isSettled: Bool,
            wasRefusedBefore: Bool
        ) {
            if isSettled, !answer.isRefusal {
                // By this answer, or by a notification that overtook it.
                self = .done
                return
            }
            switch answer {
            case .answered: self = Self.notSeen(request)
            case .unknown(let reason, _):
                let sends = request.attempts
                self = .stillUnknown(
                    reason: reason, errorCode: request.errorCode.map { Int($0) },
                    nextStep: request.nextStep == "send" && sends >= Settlement.sendsBeforeLook
                        ? "look" : request.nextStep)
            case .throttled:
                self = Self.unapplied(request, reason: Settlement.silenced, isDelayed: false)
            case .notSent(let reason):
                // A silence puts off by itself, for all.
                self = Self.unapplied(
                    request, reason: reason, isDelayed: reason != Settlement.silenced)
            case .refused(let refusal, _):
                self = Self.refused(request, refusal, wasRefusedBefore: wasRefusedBefore)
            }
        }

        /// A look that shows nothing applied: the same id once more; or, where a retry was refused, a few more
        /// looks, since a status may lag, and then the refusal counts.
        private static func notSeen(_ request: RequestQueries.Held) -> Outcome {
            guard let code = request.errorCode.map({ Int($0) }) else {
                if request.isOver { return givenUp(request) }
                return .stillUnknown(
                    reason: "not applied when looked at", errorCode: nil, nextStep: "send")
            }
            guard request.isLookedFor else {
                return .stillUnknown(
                    reason: "refused with \(code), not seen yet", errorCode: code, nextStep: "look")
            }
            if code == Settlement.staleTokenCode {
                return .givenUp(reason: "stale_token")
            }
            return .rejected(
                StoreRefusal(
                    code: code, name: refusedOnRetry,
                    message: "refused on a retry and never seen applied", meaning: .reject),
                isDoubtful: true)
        }

        /// Never to be sent again, since its batch was withdrawn or its last instant has passed: given up once a
        /// few looks have shown nothing. What is not withdrawn is then judged anew, for a later renewal.
        private static func givenUp(_ request: RequestQueries.Held) -> Outcome {
            request.isLookedFor
                ? .givenUp(reason: "not_sent_in_time")
                : .stillUnknown(
                    reason: "withdrawn or too late, not seen yet", errorCode: nil, nextStep: "look")
        }

        /// Not applied by this attempt. An earlier one of the same intent may have been, so only the first may
        /// give the intent up; later ones keep the id.
        private static func unapplied(
            _ request: RequestQueries.Held, reason: String, isDelayed: Bool
        ) -> Outcome {
            guard request.isFirstAttempt else {
                return .stillUnknown(
                    reason: reason, errorCode: request.errorCode.map { Int($0) },
                    nextStep: request.nextStep)
            }
            return .requeued(reason: reason, goesAlone: false, isDelayed: isDelayed)
        }

        private static func refused(
            _ request: RequestQueries.Held, _ refusal: StoreRefusal, wasRefusedBefore: Bool
        ) -> Outcome {
            if request.nextStep == "look" {
                return .stillUnknown(
                    reason: "look refused with \(refusal.code)",
                    errorCode: request.errorCode.map { Int($0) }, nextStep: "look")
            }
            guard request.isFirstAttempt else {
                // The first attempt may have been applied, and this refusal its consequence: look first.
                let isOurFault = refusal.meaning == .haltService
                return .stillUnknown(
                    reason: refusal.name, errorCode: isOurFault ? nil : refusal.code,
                    nextStep: isOurFault ? "send" : "look")
            }
            switch refusal.meaning {
            case .refresh, .haltService:
                return .requeued(reason: refusal.name, goesAlone: false, isDelayed: true)
            case .haltBatch where !wasRefusedBefore, .haltStorefront where !wasRefusedBefore:
                // It waits with its batch: once a person has mended the cause it goes with the others.
                return .requeued(
                    reason: refusal.name, goesAlone: false, isDelayed: false,
                    errorCode: refusal.code)
            case .reject, .look, .haltBatch, .haltStorefront:
                // One bad item refuses a whole request: its siblings are tried by themselves.
                return request.changeIDs.count > 1
                    ? .requeued(reason: refusal.name, goesAlone: true, isDelayed: false)
                    : .rejected(refusal)
            }
        }
    }

    /// How often the next step was tried in vain. Looks come quickly at first, however often the call was sent, and
    /// so does the call after a look that the App Store answered: a deadline may be near.
    private func tries(of request: RequestQueries.Held, _ nextStep: String) -> Int {
        guard nextStep == "send" else { return max(1, request.looks) }
        return request.nextStep == "look" ? 1 : request.attempts
    }

    private func ending(
        _ outcome: Outcome, _ request: RequestQueries.Held, _ reply: StoreReply, now: Instant,
        realNow: Int64
    ) -> RequestQueries.Ending {
        var answer = RequestQueries.Answer(httpStatus: reply.httpStatus, body: reply.body)
        switch outcome {
        case .done: return RequestQueries.Ending(request, .answered, answer)
        case .rejected(let refusal, let isDoubtful):
            answer.errorCode = Int64(refusal.code)
            answer.message = refusal.message
            log.notice("rejected", ["request": request.requestReferenceID, "code": refusal.name])
            return RequestQueries.Ending(
                request, .rejected(reason: refusal.reason, isDoubtful: isDoubtful), answer)
        case .requeued(let reason, let goesAlone, let isDelayed, let errorCode):
            answer.errorCode = errorCode.map { Int64($0) }
            answer.message = reason
            return RequestQueries.Ending(
                request,
                .requeued(
                    reason: reason, goesAlone: goesAlone,
                    nextAttemptAt: isDelayed
                        ? realNow + wait(after: request.attempts + request.looks) : nil),
                answer)
        case .givenUp(let reason):
            answer.message = reason
            log.notice(
                "given up, never seen applied",
                ["request": request.requestReferenceID, "reason": reason])
            return RequestQueries.Ending(
                request,
                .requeued(reason: reason, goesAlone: false, nextAttemptAt: nil, isDoubtful: true),
                answer)
        case .stillUnknown(let reason, let errorCode, let nextStep):
            answer.errorCode = errorCode.map { Int64($0) }
            answer.message = reason
            let nextAttemptAt = realNow + wait(after: tries(of: request, nextStep))
            return RequestQueries.Ending(
                request, .unknown(nextStep: nextStep, nextAttemptAt: nextAttemptAt), answer)
        }
    }

    /// In milliseconds.
    private func wait(after attempts: Int) -> Int64 {
        var random = SystemRandomNumberGenerator()
        return retry.delay(attempt: attempts, random: &random).milliseconds
    }
}

extension Attempt {
    /// An answer to the only call with its id: nobody else was told it, and evidence bears that id.
    fileprivate var isFirstAnswer: Bool {
        guard request.isFirstAttempt, newest.isEmpty, case .answered(let told, _) = answer else {
            return false
        }
        return told.count == 1
            && told.allSatisfy { $0.key.evidenceID == request.requestReferenceID }
    }

    /// A status answers for the customer's other subscriptions too, whose locks we don't hold.
    fileprivate var statements: [SubscriptionEvent] {
        var events = newest
        if case .answered(let told, _) = answer { events += told }
        return events.filter { $0.originalTransactionID == request.originalTransactionID }
    }
}

extension RequestQueries.Held {
    /// Whether no earlier attempt with this id can have been applied.
    var isFirstAttempt: Bool { attempts == 1 && looks == 0 }

    /// Whether a look that shows nothing is the last.
    fileprivate var isLookedFor: Bool { looks >= Settlement.looksMax && !isInFlight }
}

extension StoreAnswer {
    /// The refusal, where it means that the batch must stop, or a storefront of it.
    var haltsBatch: StoreRefusal? {
        switch self {
        case .refused(let refusal, _)
        where refusal.meaning == .haltBatch || refusal.meaning == .haltStorefront:
            refusal
        case .answered, .refused, .throttled, .unknown, .notSent: nil
        }
    }

    fileprivate var isRefusal: Bool {
        switch self {
        case .refused: true
        case .answered, .throttled, .unknown, .notSent: false
        }
    }

    var reply: StoreReply {
        switch self {
        case .answered(_, let reply), .refused(_, let reply), .throttled(_, let reply),
            .unknown(_, let reply):
            reply
        case .notSent: StoreReply()
        }
    }
}
