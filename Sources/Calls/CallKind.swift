package import Facts
package import Pricing
import ServiceKit

/// A kind of call to the App Store that changes something. The engine writes the intent, keeps the lease and the
/// rate, calls, checks, settles and quarantines. The kind says what its calls contain and what their outcome means.
package protocol CallKind: Sendable {
    /// What a claim of this process read, handed to the settlement of the same call.
    associatedtype Claimed: Sendable
    /// What is known under the locks while calls are settled.
    associatedtype Scene

    var kind: StoreCall.Kind { get }
    /// The permits of the endpoint that it calls.
    var permitSource: CallPermitSource { get }
    /// The permits of the endpoint that its checks call.
    var checkPermitSource: CallPermitSource { get }
    var policy: CallPolicy { get }

    /// What holds its open calls back. `now` is the business clock in UTC milliseconds.
    func gate(now: Int64) -> CallGate

    /// Does the work of one call, which waits for its permit and then leaves, with all that the call needs to leave at the
    /// permit's instant: an open connection, say.
    func whileReady<T: Sendable>(
        _ call: StoreCall, _ work: @Sendable () async -> T
    ) async -> T
    /// Sends the call. No byte of it leaves after `leavingBefore`, because another process may have taken the call
    /// over.
    func send(
        _ call: StoreCall, _ claimed: Claimed?, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer
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
    /// Writes what the ends of attempts mean for what their calls carry. `scene` is nil where an answer is
    /// quarantined.
    func write(
        _ endings: [ResolvedCall], in scene: Scene?, at now: Instant
    ) throws -> [DatabaseStatement]

    /// What halts its calls where they fare alike; nil where nothing less than the kind halts.
    var halts: (any ScopeHalts)? { get }
}

extension CallKind {
    package var halts: (any ScopeHalts)? { nil }

    package func whileReady<T: Sendable>(
        _ call: StoreCall, _ work: @Sendable () async -> T
    ) async -> T {
        await work()
    }

    package func subscriptions(of call: StoreCall) -> [String] {
        Set(call.parents + [call.subject]).sorted()
    }
}

/// Whose calls fare alike, and how these are halted.
package protocol ScopeHalts: Sendable {
    /// The scopes of calls that fare alike, by call id. It is asked only after refusals.
    func scopes(of calls: [StoreCall]) async throws -> [String: [CallScope]]
    /// Halts what `scope` names, and commits before the answers are stored, because what they put back must find it
    /// halted. What ended by the refusals of `streak` is put back.
    func halt(
        _ scope: CallScope, because refusal: StoreRefusal, _ call: StoreCall,
        _ streak: RefusalStreak?
    ) async throws
    /// Notes that a probe of a halted batch was refused, and with what. The batch stays halted.
    func note(
        _ refusal: StoreRefusal, _ call: StoreCall, ofProbe batchID: String
    ) async throws
    /// Lets a halted batch go on, because a probe of it was answered. It does nothing where a person has paused the
    /// batch.
    func recover(_ batchID: String) async throws
    /// Calls were refused, and what came of it is stored: guards that count refusals are judged at once.
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
    /// Whether it did not leave because we decided so.
    package let wasHeldBack: Bool
    /// The verdict on a refusal, made beside what other calls got.
    package let verdict: RefusalVerdict?

    package init(
        _ call: StoreCall, _ answer: StoreAnswer, newest: [SubscriptionEvent] = [],
        claimed: Kind.Claimed? = nil, wasHeldBack: Bool = false, verdict: RefusalVerdict? = nil
    ) {
        self.call = call
        self.answer = answer
        self.newest = newest
        self.claimed = claimed
        self.wasHeldBack = wasHeldBack
        self.verdict = verdict
    }

    func judged(_ verdict: RefusalVerdict) -> Attempt {
        Attempt(
            call, answer, newest: newest, claimed: claimed, wasHeldBack: wasHeldBack,
            verdict: verdict)
    }

    /// All statements about the subscriptions whose locks are held. A status also tells of the customer's other
    /// subscriptions.
    package func statements(of ids: [String]) -> [SubscriptionEvent] {
        (newest + answer.statements).filter { ids.contains($0.originalTransactionID) }
    }

    /// Whether the App Store has answered, with whatever content.
    var isHeard: Bool {
        switch answer {
        case .answered, .throttled: !wasHeldBack
        // A request that our own check refused asks nobody.
        case .refused(let refusal, _): !wasHeldBack && !refusal.isOurs
        case .unknown, .notSent: false
        }
    }

    /// Why a person should know of a call whose outcome nobody knows: it alone gets no answers, or its status is refused.
    var parkedReason: String? {
        guard verdict == .parked else { return nil }
        if let reason = answer.unknownReason { return "no answer: \(reason)" }
        guard call.step == .check, let refusal = answer.refusal else { return nil }
        return "its status is refused: \(refusal.codeAndName)"
    }

    /// Whether its refusal is counted beside those of other calls. Our own check asks nobody. And where the answer to an
    /// earlier attempt was lost, "done already" is what that attempt did.
    var tellsOfOthers: Bool {
        guard let refusal = answer.refusal, !refusal.isOurs else { return false }
        return call.isFirstAttempt || refusal.meaning != .checkStatus
    }

    /// Whether it was refused, or is the check of an attempt that was.
    var mayEndRefused: Bool {
        answer.isRefusal || call.step == .check && call.errorCode != nil
    }

    var label: String {
        guard !wasHeldBack else { return "held_back" }
        switch answer {
        case .answered: return "answered"
        case .refused: return "refused"
        case .throttled: return "throttled"
        case .unknown: return "unknown"
        case .notSent: return "not_sent"
        }
    }
}
