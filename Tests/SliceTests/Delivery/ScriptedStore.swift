import AppStore
import Calls
import PriceChanges
import Synchronization

@testable import Pricing

/// An App Store that answers as the test says: the next scripted answer, else "applied".
final class ScriptedStore: StoreCalls {
    enum Reply: Sendable {
        case applied
        /// Applied, and the answer lost.
        case lost
        case unavailable
        /// 503 with `Retry-After`.
        case overloaded(retryAfter: Duration)
        case refused(StoreRefusal.Meaning, code: Int)
        case throttled(until: Instant)
        case notSent
        /// Applied, and something on the way answers with this status in the App Store's place.
        case proxied(Int)
        /// Answered as if applied, and nothing happened.
        case ignored
        /// Applied, and the answer shows the state before.
        case behind
        /// Answered with 200, and the signed answer shows these items.
        case contradicted([StatementItem])
    }

    struct State {
        var replies: [Reply] = []
        var calls: [PriceChangeIntent] = []
        var checks = 0
        var checksThrottledUntil: Instant?
        var checkAnswer: StoreAnswer?
        /// Storefronts without a price: their calls are refused with 4000134.
        var unpriced: Set<String> = []
        /// What calls of these subscriptions get, as long as it stands here.
        var answers: [String: Reply] = [:]
        /// What every other call gets.
        var all: Reply?
        /// The consistency token that every status shows.
        var token: String?
        /// A call with another consistency token is refused as stale.
        var validToken: String?
        /// What a status says of these subscriptions' renewals.
        var renewals: [String: Instant] = [:]
        var applied: [String: PriceChangeIntent] = [:]
        /// The last one of each subscription.
        var latest: [String: PriceChangeIntent] = [:]

        mutating func apply(_ intent: PriceChangeIntent) {
            applied[intent.requestReferenceID] = intent
            latest[intent.transactionID] = intent
        }
    }

    private let state = Mutex(State())
    private let now: @Sendable () -> Instant

    init(_ replies: [Reply] = [], now: @escaping @Sendable () -> Instant) {
        self.now = now
        state.withLock { $0.replies = replies }
    }

    var calls: [PriceChangeIntent] { state.withLock { $0.calls } }
    var checks: Int { state.withLock { $0.checks } }
    /// Intents applied, by request id: each once, however often it was sent.
    var applied: [String: PriceChangeIntent] { state.withLock { $0.applied } }

    /// What was called and never answered takes effect now.
    func applyLate() {
        state.withLock { state in
            for call in state.calls { state.apply(call) }
        }
    }

    /// From now on no look is answered otherwise.
    func throttleChecks(until: Instant?) { state.withLock { $0.checksThrottledUntil = until } }

    /// From now on every look gets this; nil: as scripted.
    func answerChecks(_ answer: StoreAnswer?) { state.withLock { $0.checkAnswer = answer } }

    /// From now on calls of these subscriptions get this answer, and all others `all` (nil: as scripted).
    func setAnswers(_ ids: some Sequence<String>, _ reply: Reply?, all: Reply? = nil) {
        state.withLock { state in
            for id in ids { state.answers[id] = reply }
            state.all = all
        }
    }

    /// From now on every status shows this consistency token.
    func setToken(_ token: String) { state.withLock { $0.token = token } }

    /// From now on a call with another token is refused as stale, and every status shows this one.
    func setValidToken(_ token: String) {
        state.withLock { ($0.validToken, $0.token) = (token, token) }
    }

    /// Calls for these storefronts are refused from now on.
    func setUnpriced(_ storefronts: Set<String>) { state.withLock { $0.unpriced = storefronts } }

    /// From now on answers and statuses tell this renewal of a subscription.
    func setRenewal(_ transactionID: String, at renewal: Instant) {
        state.withLock { $0.renewals[transactionID] = renewal }
    }

    func changePrice(
        _ intent: PriceChangeIntent, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer {
        let reply = state.withLock { state in
            state.calls.append(intent)
            if let answer = state.answers[intent.transactionID] { return answer }
            if state.unpriced.contains(intent.storefront) {
                return Reply.refused(.haltStorefront, code: 4_000_134)
            }
            if let answer = state.all { return answer }
            if let valid = state.validToken, intent.consistencyToken != valid {
                return Reply.refused(.refresh, code: 4_000_082)
            }
            return state.replies.isEmpty ? Reply.applied : state.replies.removeFirst()
        }
        switch reply {
        case .applied:
            state.withLock { $0.apply(intent) }
            return .answered([statement(intent, source: .response)], StoreReply(httpStatus: 200))
        case .lost:
            state.withLock { $0.apply(intent) }
            return .unknown(reason: "timed out", StoreReply())
        case .unavailable: return .unknown(reason: "500", StoreReply(httpStatus: 500))
        case .overloaded(let wait):
            return .unknown(reason: "503", StoreReply(httpStatus: 503, retryAfter: wait))
        case .refused(let meaning, let code):
            return .refused(
                StoreRefusal(code: code, name: Self.name(code), message: "no", meaning: meaning),
                StoreReply(httpStatus: 400))
        case .proxied(let status):
            state.withLock { $0.apply(intent) }
            return .refused(
                StoreRefusal(
                    code: status, name: Self.name(status), message: "", meaning: .haltService),
                StoreReply(httpStatus: status))
        case .throttled(let until): return .throttled(until: until, StoreReply(httpStatus: 429))
        case .notSent: return .notSent(reason: "connection refused")
        case .contradicted(let items):
            var statement = statement(intent, source: .response)
            statement.renewal?.items = items
            return .answered([statement], StoreReply(httpStatus: 200))
        case .behind:
            let before = untouched(intent.transactionID)
            state.withLock { $0.apply(intent) }
            return .answered([before], StoreReply(httpStatus: 200))
        case .ignored:
            guard let before = state.withLock({ $0.latest[intent.transactionID] }) else {
                return .answered([untouched(intent.transactionID)], StoreReply(httpStatus: 200))
            }
            var statement = statement(before, source: .response)
            statement.key = .init(
                signedAt: statement.key.signedAt, evidenceID: intent.requestReferenceID)
            return .answered([statement], StoreReply(httpStatus: 200))
        }
    }

    static func name(_ code: Int) -> String { code < 1000 ? "without_code" : "code_\(code)" }

    func checkStatus(transactionID: String) async -> StoreAnswer {
        let (intent, until, answer) = state.withLock { state in
            state.checks += 1
            return (state.latest[transactionID], state.checksThrottledUntil, state.checkAnswer)
        }
        if let answer { return answer }
        if let until { return .throttled(until: until, StoreReply(httpStatus: 429)) }
        guard let intent else {
            return .answered([untouched(transactionID)], StoreReply(httpStatus: 200))
        }
        return .answered([statement(intent, source: .status)], StoreReply(httpStatus: 200))
    }

    private func statement(
        _ intent: PriceChangeIntent, source: SubscriptionEvent.Source
    ) -> SubscriptionEvent {
        let id = source == .response ? intent.requestReferenceID : "status:\(now().milliseconds)"
        let usual = ["A", "B"]
        let asked = intent.items.map(\.sku)
        return SubscriptionEvent(
            key: .init(signedAt: now(), evidenceID: id), source: source,
            originalTransactionID: intent.transactionID,
            renewal: RenewalStatement(
                autoRenewStatus: 1,
                renewalAt: state.withLock { $0.renewals[intent.transactionID] },
                consistencyToken: "next",
                items: (Set(usual).isSuperset(of: asked) ? usual : asked).map { sku in
                    // The price that is paid: nothing stays scheduled.
                    let changed = intent.items.first { $0.sku == sku && $0.price != 9990 }
                    return StatementItem(
                        sku: sku, price: changed?.price ?? 9990,
                        increaseStatus: changed == nil ? nil : "SCHEDULED",
                        increasePrice: changed?.price)
                }))
    }

    /// The status of a subscription that no call of ours has changed.
    private func untouched(_ transactionID: String) -> SubscriptionEvent {
        SubscriptionEvent(
            key: .init(signedAt: now(), evidenceID: "status:\(now().milliseconds)"),
            source: .status, originalTransactionID: transactionID, status: 1,
            renewal: RenewalStatement(
                autoRenewStatus: 1, renewalAt: state.withLock { $0.renewals[transactionID] },
                consistencyToken: state.withLock { $0.token } ?? "of the status",
                items: ["A", "B"].map { StatementItem(sku: $0, price: 9990) }))
    }
}
