package import Facts
package import Pricing
import ServiceKit

/// A kind of call to the App Store that changes something. The engine writes the intent, keeps the lease and the rate,
/// calls, checks, settles and quarantines; a kind says what its calls are and what their outcome means.
package protocol CallKind: Sendable {
    /// What a claim of this process read, handed to the settlement of the same call.
    associatedtype Claimed: Sendable
    /// What is known under the locks while calls are settled.
    associatedtype Scene

    var kind: StoreCall.Kind { get }
    /// The calls of its endpoint.
    var permitSource: CallPermitSource { get }
    /// The calls of the endpoint that its checks ask.
    var checkPermitSource: CallPermitSource { get }
    var policy: CallPolicy { get }

    /// What holds its open calls back. `now`: the business clock, UTC milliseconds.
    func gate(now: Int64) -> CallGate

    /// Nothing of it leaves once `leavingBefore` has passed: somebody else may have taken the call over.
    func send(
        _ call: StoreCall, _ claimed: Claimed?, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer
    /// Asks what has become of it.
    func check(_ call: StoreCall) async -> StoreAnswer

    /// The subscriptions that its settlement writes, whose locks come first.
    func subscriptions(of call: StoreCall) -> [String]
    /// Takes the locks of attempts of one bucket; the second answer holds the ids of the calls that are still ours.
    func lock(
        _ attempts: [Attempt<Self>], on connection: isolated DatabaseConnection
    ) throws -> (Scene, Set<String>)
    /// Folds what the answers of the attempts that are still ours say.
    func fold(
        _ attempts: [Attempt<Self>], into scene: inout Scene,
        on connection: isolated DatabaseConnection
    ) throws
    func resolve(_ attempt: Attempt<Self>, in scene: Scene) -> Resolution
    /// What the ends of attempts do to what their calls carry. `scene` is nil where an answer is quarantined.
    func write(
        _ endings: [ResolvedCall], in scene: Scene?, at now: Instant
    ) throws -> [DatabaseStatement]

    /// Whose calls fare alike, by call id. Asked only after refusals.
    func scopes(of calls: [StoreCall]) async throws -> [String: [CallScope]]
    /// Halts what `scope` names, durably, before the answers are stored: what they put back must find it halted.
    /// What ended by the refusals of `streak` is put back.
    func halt(
        _ scope: CallScope, because refusal: StoreRefusal, _ call: StoreCall,
        _ streak: RefusalStreak?
    ) async throws
    /// A probe of a halted batch was refused: it stays halted, and says what with.
    func note(
        _ refusal: StoreRefusal, _ call: StoreCall, ofProbe batchID: String
    ) async throws
    /// Lets a halted batch go on: a probe of it was answered. Does nothing where a person has paused it.
    func recover(_ batchID: String) async throws
    /// Calls were refused, and what came of it is stored: guards that count refusals are judged at once.
    func judgeGuards(of refused: [StoreCall]) async throws
}

extension CallKind {
    package func scopes(of calls: [StoreCall]) async throws -> [String: [CallScope]] { [:] }

    package func halt(
        _ scope: CallScope, because refusal: StoreRefusal, _ call: StoreCall,
        _ streak: RefusalStreak?
    ) async throws {}

    package func note(
        _ refusal: StoreRefusal, _ call: StoreCall, ofProbe batchID: String
    ) async throws {}

    package func recover(_ batchID: String) async throws {}

    package func judgeGuards(of refused: [StoreCall]) async throws {}

    package func subscriptions(of call: StoreCall) -> [String] {
        Set(call.parents + [call.subject]).sorted()
    }
}

/// One call as it ended. Large, and handed on often: shared, not copied.
package final class Attempt<Kind: CallKind>: Sendable {
    package let call: StoreCall
    package let answer: StoreAnswer
    /// Statements read besides the answer.
    package let newest: [SubscriptionEvent]
    /// Its claim, where that is of this process.
    package let claimed: Kind.Claimed?
    /// It did not leave, by our own decision.
    package let wasHeldBack: Bool
    /// Of a refusal, beside what others got.
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

    /// All that the App Store signed about the subscriptions whose locks are held. A status answers for the customer's
    /// other subscriptions too.
    package func statements(of ids: [String]) -> [SubscriptionEvent] {
        (newest + answer.statements).filter { ids.contains($0.originalTransactionID) }
    }

    /// The App Store has answered, whatever it said.
    var isHeard: Bool {
        switch answer {
        case .answered, .throttled: !wasHeldBack
        // Our own check asks nobody.
        case .refused(let refusal, _): !wasHeldBack && !refusal.isOurs
        case .unknown, .notSent: false
        }
    }

    /// Refused, now or by the attempt that it was a check of.
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
