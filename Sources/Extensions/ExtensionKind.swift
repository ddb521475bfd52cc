import AppStore
import Calls
import Facts
import Pricing

/// Calls of Extend a Subscription Renewal Date. Each extends one subscription, under the identifier of its request.
struct ExtensionKind: CallKind {
    typealias Claimed = Never

    let kind = StoreCall.Kind.renewalExtension
    let calls: any ExtensionCalls
    let store: any StatusCalls
    /// Whether calls go to the Sandbox, where a day of an extension may be short.
    let isOfSandbox: Bool
    let permitSource: CallPermitSource
    let checkPermitSource: CallPermitSource
    let policy: CallPolicy

    /// What a call contains, kept with it, so that a retry sends the very same content.
    struct Intent: Codable {
        var requestIdentifier: String
        var days: Int
        var reason: Int
        /// Whether an earlier call under this identifier may have been applied and so have caused a refusal.
        var isRepeated: Bool
    }

    func gate(now: Int64) -> CallGate {
        ExtensionCallQueries.gate(endpoint: permitSource.endpoint, now: now)
    }

    func send(
        _ call: StoreCall, _ claimed: Never?, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer {
        guard let intent = call.said(Intent.self) else { return .unreadableIntent }
        let request: ExtensionRequest
        do {
            request = try ExtensionRequest(
                ExtensionTerms(days: intent.days, stored: intent.reason),
                requestIdentifier: intent.requestIdentifier)
        } catch {
            return .badTerms("\(error)")
        }
        let outcome = await calls.extend(
            originalTransactionID: call.subject, request, leavingBefore: leavingBefore)
        if case .answered(let answer, let reply) = outcome, !answer.isSuccess {
            return .refused(
                StoreRefusal(
                    code: reply.httpStatus ?? 0, name: "not_extended", message: "",
                    meaning: .reject),
                StoreReply(httpStatus: reply.httpStatus, body: reply.body))
        }
        return StoreAnswer(outcome) { StoreWords(extendedTo: $0.effectiveAt) }
    }

    func check(_ call: StoreCall) async -> StoreAnswer {
        await store.checkStatus(transactionID: call.subject).about(call.subject)
    }

    /// The proof that an extension was applied, by call id.
    typealias Scene = [String: Resolution.Proof]

    func lock(
        _ attempts: [Attempt<Self>], on connection: isolated DatabaseConnection
    ) throws -> (Scene, Set<String>) {
        let calls = attempts.map(\.call)
        try SubscriptionQueries.lockToSettle(calls.map(\.subject).sorted(), on: connection)
        return ([:], try connection.ask(StoreCallQueries.holding(calls)))
    }

    func fold(
        _ attempts: [Attempt<Self>], into scene: inout Scene,
        on connection: isolated DatabaseConnection
    ) throws {
        try SubscriptionFolder.fold(
            attempts.flatMap { $0.statements(of: [$0.call.subject]) }, on: connection)
        for attempt in attempts where attempt.call.step == .send {
            guard case .answered(let words, _) = attempt.answer else { continue }
            scene[attempt.call.callID] = .init(extendedTo: words.extendedTo, source: .answer)
        }
        let checked = attempts.filter { $0.call.step == .check && $0.answer.isAnswered }.map(\.call)
        guard !checked.isEmpty else { return }
        let requests = try ExtensionCallQueries.requests(of: checked, on: connection)
        let stored = try SubscriptionQueries.loadReadable(checked.map(\.subject), on: connection)
            .stored
        for call in checked {
            guard let request = requests[call.callID] else { continue }
            scene[call.callID] = try proof(
                request, stored[call.subject]?.facts, on: connection)
        }
    }

    private func proof(
        _ request: ExtensionCallQueries.Request, _ facts: SubscriptionFacts?,
        on connection: isolated DatabaseConnection
    ) throws -> Resolution.Proof? {
        if let told = try ExtensionCallQueries.toldSince(request, on: connection) {
            return .init(extendedTo: told, source: .notification)
        }
        let masses = try ExtensionCallQueries.massesThatMayHaveMoved(request, on: connection)
        let movedTo = facts?.renewalMoved(
            from: request.renewalBefore, days: request.days, besideMassesOf: masses,
            areDaysShort: isOfSandbox)
        return movedTo.map { .init(extendedTo: $0, source: .status) }
    }

    func resolve(_ attempt: Attempt<Self>, in scene: Scene) -> Resolution {
        if let proof = scene[attempt.call.callID] { return .applied(proof) }
        var policy = policy
        policy.checksRefusals = attempt.call.said(Intent.self)?.isRepeated ?? true
        return ResolutionTable(attempt.call, policy, attempt.verdict).resolve(attempt.answer)
    }

    func write(
        _ endings: [ResolvedCall], in scene: Scene?, at now: Instant
    ) throws -> [DatabaseStatement] {
        endings.map { ending in
            let call = ending.call
            switch ending.resolution {
            case .applied(let proof):
                return ExtensionCallQueries.settle(
                    call,
                    .init(
                        state: .extended, by: proof.source ?? .answer,
                        effectiveAt: proof.extendedTo), at: now.milliseconds)
            case .refused(let refusal, _):
                return ExtensionCallQueries.settle(
                    call,
                    .init(
                        state: .refused, by: refusal.isOurs ? nil : .answer,
                        code: refusal.storedName, detail: refusal.storedMessage),
                    at: now.milliseconds)
            case .released(let release):
                return ExtensionCallQueries.requeue(
                    call, reason: release.reason, isDoubtful: release.isDoubtful,
                    nextAt: ending.nextAt, isParked: release.isParked)
            case .open(_, let reason, _, _):
                return ExtensionCallQueries.leaveUnknown(call, reason: reason)
            }
        }
    }
}

extension StoreAnswer {
    /// The refusal of a request whose terms we cannot send.
    static func badTerms(_ text: String) -> StoreAnswer {
        .refused(
            StoreRefusal(code: 0, name: "bad_terms", message: text, meaning: .reject), StoreReply())
    }

    fileprivate var isAnswered: Bool {
        if case .answered = self { true } else { false }
    }
}

extension ExtensionTerms {
    /// The terms as an intent keeps them.
    init(days: Int, stored reason: Int) throws(RequestFault) {
        guard let reason = Reason(rawValue: reason) else { throw .unknownReason(reason) }
        guard let terms = ExtensionTerms(days: days, reason: reason) else {
            throw .daysOutOfRange(days)
        }
        self = terms
    }
}

extension StoreRefusal {
    /// The name that a refused extension shows. A refusal after checks gets the name of its stored code.
    var storedName: String {
        name == refusedOnRetry ? APIErrorCode(rawValue: code).name ?? "\(code)" : name
    }

    var storedMessage: String { APIErrorCode(rawValue: code).meaning ?? message }
}

extension SubscriptionFacts {
    /// The new renewal date, if it is later in the same period and only our extension by `days` explains the
    /// difference: another program's extension, or mass extensions of these days, do not explain it alone. Where days
    /// may be short, days are not counted: the move is ours unless a mass extension may have caused it.
    fileprivate func renewalMoved(
        from before: Instant?, days: Int, besideMassesOf masses: [Int], areDaysShort: Bool
    ) -> Instant? {
        guard let renewalAt, let before, renewalAt > before, let purchasedAt, purchasedAt < before
        else { return nil }
        if areDaysShort { return masses.isEmpty ? renewalAt : nil }
        let day = Instant.millisecondsPerDay
        // It rounds to the nearest day, because a change of the clocks in between is not a day.
        let moved = Int((renewalAt.milliseconds - before.milliseconds + day / 2) / day)
        var byMasses: Set = [0]
        for mass in masses { byMasses.formUnion(byMasses.map { $0 + mass }) }
        return !byMasses.contains(moved) && byMasses.contains(moved - days) ? renewalAt : nil
    }
}
