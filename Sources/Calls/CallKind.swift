package import Facts
package import Pricing
import ServiceKit

/// A kind of call to the App Store that changes something. The engine writes the intent, keeps the lease and the
/// rate, calls, checks, settles and quarantines. The kind says what its calls contain and what their outcome means.
package protocol CallKind: Sendable {
    /// What a claim of this process read, handed to the settlement of the same call.
    associatedtype Claimed: Sendable
    /// What `lock` reads under its locks, and what `fold` and `write` use while calls are settled.
    associatedtype Scene

    var kind: StoreCall.Kind { get }
    /// The permits of the endpoint that it calls.
    var permitSource: CallPermitSource { get }
    /// The permits of the endpoint that its checks call.
    var checkPermitSource: CallPermitSource { get }
    var policy: CallPolicy { get }

    /// What holds its open calls back. `now` is the business clock in UTC milliseconds.
    func gate(now: Int64) -> CallGate

    /// Runs `work`, in which one call waits for its permit and is then sent. The kind first prepares what would delay
    /// the call at its permit's instant, such as an open connection.
    func whileReady<T: Sendable>(
        _ call: StoreCall, _ work: @Sendable () async -> T
    ) async -> T
    /// Sends the call. No byte of it is sent after `leavingBefore`, because another process may have taken the call
    /// over by then.
    func send(
        _ call: StoreCall, _ claimed: Claimed?, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer
    /// Whether an answer with HTTP 200 shows that the App Store did not do what the call asked for.
    func contradicts(_ answer: StoreAnswer, _ call: StoreCall, _ claimed: Claimed?) -> Bool
    /// Asks the App Store what became of the call.
    func check(_ call: StoreCall) async -> StoreAnswer

    /// The subscriptions that its settlement writes. They are locked first.
    func subscriptions(of call: StoreCall) -> [String]
    /// Takes the locks of attempts of one bucket. The second answer holds the ids of the calls that this process
    /// still holds.
    func lock(
        _ attempts: [Attempt<Self>], on connection: isolated DatabaseConnection
    ) throws -> (Scene, Set<String>)
    /// Folds the answers of the attempts whose lease is still held.
    func fold(
        _ attempts: [Attempt<Self>], into scene: inout Scene,
        on connection: isolated DatabaseConnection
    ) throws
    func resolve(_ attempt: Attempt<Self>, in scene: Scene) -> Resolution
    /// Writes the consequences of resolved attempts for the changes or extensions that their calls carry. `scene` is
    /// nil where an answer is quarantined.
    func write(
        _ endings: [ResolvedCall], in scene: Scene?, at now: Instant
    ) throws -> [DatabaseStatement]

    /// What halts a batch or a storefront of it when its calls are refused alike; nil for kinds that can only be halted
    /// as a whole.
    var halts: (any ScopeHalts)? { get }
}

extension CallKind {
    package var halts: (any ScopeHalts)? { nil }

    /// Kinds whose policy checks every answer without a visible effect need no judgement of it.
    package func contradicts(
        _ answer: StoreAnswer, _ call: StoreCall, _ claimed: Claimed?
    ) -> Bool { false }

    package func whileReady<T: Sendable>(
        _ call: StoreCall, _ work: @Sendable () async -> T
    ) async -> T {
        await work()
    }

    package func subscriptions(of call: StoreCall) -> [String] {
        Set(call.parents + [call.subject]).sorted()
    }
}

/// The scopes (batch, storefront) whose calls may be refused alike, and how a scope is halted.
package protocol ScopeHalts: Sendable {
    /// The scopes of each call, by call id. The engine asks for them only after refusals.
    func scopes(of calls: [StoreCall]) async throws -> [String: [CallScope]]
    /// Halts what `scope` names and puts back the rows that ended by the refusals of `streak`. It commits before the
    /// answers are stored, so that the work which those answers put back finds its scope halted.
    func halt(
        _ scope: CallScope, because refusal: StoreRefusal, _ call: StoreCall,
        _ streak: RefusalStreak?
    ) async throws
    /// Notes that a probe of a halted batch was refused, and with what. The batch stays halted.
    func note(
        _ refusal: StoreRefusal, _ call: StoreCall, ofProbe batchID: String
    ) async throws
    /// Ends the halt of a batch, because its probe was answered. It does nothing where a person has paused the batch.
    func recover(_ batchID: String) async throws
    /// Judges the guards that count refusals. The engine calls it right after the refusals of these calls were stored.
    func judgeGuards(of refused: [StoreCall]) async throws
}

/// One attempt of a call and its answer. It is large and handed on often, so it is shared and not copied.
package final class Attempt<Kind: CallKind>: Sendable {
    package let call: StoreCall
    package let answer: StoreAnswer
    /// Statements that were read besides the answer.
    package let newest: [SubscriptionEvent]
    /// What the claim read, where this process made it.
    package let claimed: Kind.Claimed?
    /// Whether we decided not to send it.
    package let wasHeldBack: Bool
    /// Whether it was answered, and the answer shows that the call was not applied.
    package let isContradicted: Bool
    /// The verdict on a refusal, judged together with what other calls got.
    package let verdict: RefusalVerdict?

    package init(
        _ call: StoreCall, _ answer: StoreAnswer, newest: [SubscriptionEvent] = [],
        claimed: Kind.Claimed? = nil, wasHeldBack: Bool = false, isContradicted: Bool = false,
        verdict: RefusalVerdict? = nil
    ) {
        self.call = call
        self.answer = answer
        self.newest = newest
        self.claimed = claimed
        self.wasHeldBack = wasHeldBack
        self.isContradicted = isContradicted
        self.verdict = verdict
    }

    func judged(_ verdict: RefusalVerdict) -> Attempt {
        Attempt(
            call, answer, newest: newest, claimed: claimed, wasHeldBack: wasHeldBack,
            isContradicted: isContradicted, verdict: verdict)
    }

    /// Whether the App Store took the call. Not every answer of HTTP 200 says so.
    var isSuccess: Bool { answer.isAnswered && !isContradicted }

    /// What is judged beside the answers to other calls: a refusal, or an answer that shows no effect.
    var judgedRefusal: StoreRefusal? { isContradicted ? .answeredInVain : answer.refusal }

    /// All statements about the subscriptions whose locks are held. A status also contains the customer's other
    /// subscriptions.
    package func statements(of ids: [String]) -> [SubscriptionEvent] {
        (newest + answer.statements).filter { ids.contains($0.originalTransactionID) }
    }

    /// Whether the App Store has answered, with whatever content.
    var isHeard: Bool {
        switch answer {
        case .answered, .throttled: !wasHeldBack
        // A request that our own check refused was never sent.
        case .refused(let refusal, _): !wasHeldBack && !refusal.isOurs
        case .unknown, .notSent: false
        }
    }

    /// Why a person should know of a call whose outcome nobody knows: it alone gets no answers, or only answers without
    /// effect, its status is refused, or something on the way answered its first attempt.
    var parkedReason: String? {
        if call.step == .send, call.isFirstAttempt, let refusal = answer.refusal,
            refusal.mayBeApplied
        {
            return refusal.codeAndName
        }
        guard verdict == .parked else { return nil }
        if let reason = answer.unknownReason { return "no answer: \(reason)" }
        if isContradicted { return ResolutionTable.noEffect }
        guard call.step == .check, let refusal = answer.refusal else { return nil }
        return "its status is refused: \(refusal.codeAndName)"
    }

    /// Whether its refusal is counted with those of other calls. A refusal by our own check is not, because nothing was
    /// sent. Nor is "done already" after an earlier attempt whose answer was lost, because that attempt may have done
    /// it.
    var tellsOfOthers: Bool {
        guard let refusal = judgedRefusal, !refusal.isOurs else { return false }
        return call.isFirstAttempt || refusal.meaning != .checkStatus
    }

    /// Whether it was refused, or is the check of an attempt that was.
    var mayEndRefused: Bool {
        answer.isRefusal || call.step == .check && call.errorCode != nil
    }

    var label: String {
        guard !wasHeldBack else { return "held_back" }
        switch answer {
        case .answered: return isContradicted ? "no_effect" : "answered"
        case .refused: return "refused"
        case .throttled: return "throttled"
        case .unknown: return "unknown"
        case .notSent: return "not_sent"
        }
    }
}
