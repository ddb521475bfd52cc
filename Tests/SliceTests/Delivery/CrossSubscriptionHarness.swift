import AppStore
import Calls
import Dependents
import Facts
import Postgres
import PriceChanges
import ServiceKit
import Synchronization

@testable import Pricing

/// An App Store that knows whether each subscription renews, and answers Cancel as the test says.
final class CancellingStore: StoreCalls, CancelCalls {
    enum Reply: Sendable {
        case applied
        /// Applied, and the answer lost.
        case lost
        /// No answer, and nothing applied.
        case unavailable
        /// 503 with `Retry-After`, and nothing applied.
        case overloaded(retryAfter: Duration)
        case refused(StoreRefusal.Meaning, code: Int)
        case throttled(until: Instant)
        case notSent
        /// Answered, but the renewal stays on.
        case hollow
        /// Applied; the caller's process dies before it hears of it.
        case dies
        /// The same, before anything is applied: the intent is written, and nobody called.
        case diesBefore
    }

    struct Died: Error {}

    struct State {
        var replies: [Reply] = []
        var calls: [CancelIntent] = []
        var checks: [String] = []
        var off: Set<String> = []
        var appliedIDs: Set<String> = []
        /// Looks are refused with this code.
        var checkRefusal: Int?
        /// Of this subscription alone, where it is named.
        var refusedID: String?
        var checkAnswer: StoreAnswer?
    }

    /// Item names of each subscription.
    let items: [String: [String]]
    private let now: @Sendable () -> Instant
    private let state: Mutex<State>

    init(
        _ replies: [Reply] = [], items: [String: [String]] = ["1": ["B"], "2": ["FAR"]],
        now: @escaping @Sendable () -> Instant
    ) {
        self.items = items
        self.now = now
        state = Mutex(State(replies: replies))
    }

    var calls: [CancelIntent] { state.withLock { $0.calls } }
    var checks: [String] { state.withLock { $0.checks } }

    /// What was called and never answered takes effect now.
    func applyLate() {
        state.withLock { state in
            for call in state.calls where state.off.insert(call.transactionID).inserted {
                state.appliedIDs.insert(call.requestReferenceID)
            }
        }
    }

    /// The customer turns the renewal on again.
    func turnOn(_ id: String) { state.withLock { _ = $0.off.remove(id) } }

    func setReplies(_ replies: [Reply]) { state.withLock { $0.replies = replies } }

    func refuseChecks(_ code: Int?, of id: String? = nil) {
        state.withLock { ($0.checkRefusal, $0.refusedID) = (code, id) }
    }

    /// From now on every look gets this; nil: as scripted.
    func answerChecks(_ answer: StoreAnswer?) { state.withLock { $0.checkAnswer = answer } }

    /// Calls that turned a renewal off, by request id.
    var applied: Set<String> { state.withLock { $0.appliedIDs } }

    func changePrice(
        _ intent: PriceChangeIntent, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer {
        .notSent(reason: "the canceller changes no price")
    }

    func checkStatus(transactionID: String) async -> StoreAnswer {
        let (isOff, refusal, refused, answer) = state.withLock { state in
            state.checks.append(transactionID)
            return (
                state.off.contains(transactionID), state.checkRefusal, state.refusedID,
                state.checkAnswer
            )
        }
        if let answer { return answer }
        if let refusal {
            guard refused == nil || refused == transactionID else {
                return shown(transactionID, isOff)
            }
            return .refused(
                StoreRefusal(
                    code: refusal, name: "TransactionIdNotFoundError", message: "no",
                    meaning: .reject), StoreReply(httpStatus: 404))
        }
        return shown(transactionID, isOff)
    }

    private func shown(_ transactionID: String, _ isOff: Bool) -> StoreAnswer {
        let id = "status:\(transactionID):\(now().milliseconds):\(isOff)"
        return .answered(
            [statement(transactionID, id, isOff, .status)], StoreReply(httpStatus: 200))
    }

    func cancel(
        _ intent: CancelIntent, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer {
        let reply = state.withLock { state in
            state.calls.append(intent)
            let reply = state.replies.isEmpty ? Reply.applied : state.replies.removeFirst()
            switch reply {
            case .applied, .lost, .dies:
                if state.off.insert(intent.transactionID).inserted {
                    state.appliedIDs.insert(intent.requestReferenceID)
                }
            case .unavailable, .overloaded, .refused, .throttled, .notSent, .hollow, .diesBefore:
                break
            }
            return reply
        }
        let id = intent.requestReferenceID
        let ok = StoreReply(httpStatus: 200, body: "{}")
        switch reply {
        case .applied:
            return .answered([statement(intent.transactionID, id, true, .response)], ok)
        case .hollow:
            return .answered([statement(intent.transactionID, id, false, .response)], ok)
        case .lost: return .unknown(reason: "timed out", StoreReply())
        case .dies, .diesBefore:
            // As near to kill -9 as a test comes: nothing after this runs.
            await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
            return .notSent(reason: "never")
        case .unavailable: return .unknown(reason: "500", StoreReply(httpStatus: 500))
        case .overloaded(let wait):
            return .unknown(reason: "503", StoreReply(httpStatus: 503, retryAfter: wait))
        case .refused(let meaning, let code):
            return .refused(
                StoreRefusal(code: code, name: "code_\(code)", message: "no", meaning: meaning),
                StoreReply(httpStatus: code / 10_000))
        case .throttled(let until): return .throttled(until: until, StoreReply(httpStatus: 429))
        case .notSent: return .notSent(reason: "connection refused")
        }
    }

    private func statement(
        _ subscription: String, _ id: String, _ isOff: Bool, _ source: SubscriptionEvent.Source
    ) -> SubscriptionEvent {
        SubscriptionEvent(
            // Apple signs no two at one instant: the answer comes after the check.
            key: .init(
                signedAt: source == .response ? now().advanced(by: 1) : now(), evidenceID: id),
            source: source, originalTransactionID: subscription,
            status: source == .status ? 1 : nil,
            renewal: RenewalStatement(
                autoRenewStatus: isOff ? 0 : 1, consistencyToken: "token-\(isOff)",
                items: (items[subscription] ?? []).map {
                    StatementItem(sku: $0, price: 4990)
                }))
    }
}

extension DeliveryHarness {
    /// Subscription 1 with A and B, subscription 2 with FAR, of one customer; A's increase was declined on day 40.
    static func declined(
        dependents: [String] = ["2/FAR"], far: [String] = ["FAR"],
        customer: String? = DeliveryHarness.customer
    ) async throws -> DeliveryHarness {
        let harness = try await make()
        try await harness.subscribe("1", items: ["A", "B"])
        try await harness.subscribe("2", items: far, customer: customer)
        try await harness.raise(dependents: dependents)
        harness.run(to: 13)
        try await harness.tellIncrease("PENDING", on: 13)
        harness.run(to: 40)
        try await harness.tellRenewal(items: ["B"])
        harness.run(to: 41)
        return harness
    }

    /// The same with a dependent `FAR…` on each of the subscriptions 2 … `last`.
    static func declined(through last: Int) async throws -> (DeliveryHarness, CancellingStore) {
        let harness = try await make()
        let targets = (2...last).map(String.init)
        try await harness.subscribe("1", items: ["A", "B"])
        for id in targets { try await harness.subscribe(id, items: ["FAR\(id)"]) }
        try await harness.raise(dependents: targets.map { "\($0)/FAR\($0)" })
        harness.run(to: 13)
        try await harness.tellIncrease("PENDING", on: 13)
        harness.run(to: 40)
        try await harness.tellRenewal(items: ["B"])
        harness.run(to: 41)
        let items = [("1", ["B"])] + targets.map { ($0, ["FAR\($0)"]) }
        return (
            harness,
            harness.cancellingStore(items: Dictionary(uniqueKeysWithValues: items))
        )
    }

    static let day: Int64 = 86_400_000
    static let customer = "0b8c1a50-0000-4000-8000-000000000001"

    func run(to day: Int64) { clock.set(Self.start.milliseconds + day * Self.day) }

    func at(_ day: Int64) -> Instant { Self.start.advanced(by: day * Self.day) }

    /// A monthly subscription with these items at 4.99, renewing in 40 days.
    func subscribe(
        _ id: String, items: [String], customer: String? = DeliveryHarness.customer
    ) async throws {
        try await tell(
            SubscriptionEvent(
                key: .init(signedAt: Self.start.advanced(by: -1000), evidenceID: "bought-\(id)"),
                source: .notification, originalTransactionID: id, type: "SUBSCRIBED", status: 1,
                transaction: TransactionStatement(
                    transactionID: "t-\(id)", appAccountToken: customer,
                    purchasedAt: Self.start.advanced(by: -1000),
                    originalPurchaseAt: Self.start.advanced(by: -1000), expiresAt: at(40),
                    storefront: "USA", currency: "USD", period: "P1M",
                    items: items.map { StatementItem(sku: $0, price: 4990) }),
                renewal: RenewalStatement(
                    autoRenewStatus: 1, renewalAt: at(40), consistencyToken: "first",
                    period: "P1M",
                    items: items.map { StatementItem(sku: $0, price: 4990) })))
    }

    /// The increase of an item as Apple tells it on a day.
    func tellIncrease(
        _ status: String, on day: Int64, of sku: String = "A", id: String = "1",
        items: [String] = ["A", "B"], type: String = "PRICE_INCREASE"
    ) async throws {
        try await tell(
            SubscriptionEvent(
                key: .init(signedAt: at(day), evidenceID: "\(id)-\(status)-\(day)"),
                source: .notification, originalTransactionID: id, type: type, subtype: status,
                status: 1,
                renewal: RenewalStatement(
                    autoRenewStatus: 1, consistencyToken: "told",
                    items: items.map {
                        StatementItem(
                            sku: $0, price: 4990, increaseStatus: $0 == sku ? status : nil,
                            increasePrice: $0 == sku ? 10990 : nil)
                    })))
    }

    /// The renewal of day 40, charging these items.
    func tellRenewal(_ id: String = "1", items: [String], on day: Int64 = 40) async throws {
        try await tell(
            SubscriptionEvent(
                key: .init(signedAt: at(day), evidenceID: "renewed-\(id)-\(day)"),
                source: .notification, originalTransactionID: id, type: "DID_RENEW", status: 1,
                transaction: TransactionStatement(
                    transactionID: "t2-\(id)", purchasedAt: at(day), expiresAt: at(day + 30),
                    reason: "RENEWAL", storefront: "USA", currency: "USD", period: "P1M",
                    items: items.map { StatementItem(sku: $0, price: 4990) }),
                renewal: RenewalStatement(
                    autoRenewStatus: 1, renewalAt: at(day + 30), consistencyToken: "renewed",
                    period: "P1M",
                    items: items.map { StatementItem(sku: $0, price: 4990) })))
    }

    /// The customer buys A of subscription 1 again, beside B.
    func tellBoughtBack(on day: Int64, price: Int64 = 4990) async throws {
        let items = [StatementItem(sku: "A", price: price), StatementItem(sku: "B", price: 4990)]
        try await tell(
            SubscriptionEvent(
                key: .init(signedAt: at(day), evidenceID: "back"), source: .notification,
                originalTransactionID: "1", type: "SUBSCRIBED", subtype: "RESUBSCRIBE", status: 1,
                transaction: TransactionStatement(
                    transactionID: "t3-1", purchasedAt: at(day), expiresAt: at(day + 30),
                    reason: "PURCHASE", storefront: "USA", currency: "USD", period: "P1M",
                    items: items),
                renewal: RenewalStatement(
                    autoRenewStatus: 1, renewalAt: at(day + 30), consistencyToken: "back",
                    period: "P1M", items: items)))
    }

    /// Change Subscription Metadata within the first period: the item goes by another name from the next renewal on.
    func rename(
        _ id: String, _ sku: String, to name: String, besides: [String] = [], on day: Int64
    ) async throws {
        try await tell(
            SubscriptionEvent(
                key: .init(signedAt: at(day), evidenceID: "renamed-\(id)-\(day)"),
                source: .notification, originalTransactionID: id, type: "METADATA_UPDATE",
                status: 1,
                transaction: TransactionStatement(
                    transactionID: "t-\(id)", purchasedAt: Self.start.advanced(by: -1000),
                    items: ([sku] + besides).map { StatementItem(sku: $0, price: 4990) }
                ),
                renewal: RenewalStatement(
                    autoRenewStatus: 1,
                    items: ([name] + besides).map { StatementItem(sku: $0, price: 4990) })))
    }

    /// Item A of subscription 1 is to cost more, and these fall with it; Apple has it.
    func raise(dependents: [String]) async throws {
        try await submitAndApprove([Self.row("1", dependents: dependents)])
        try await deliver(scheduler())
    }

    func canceller(
        _ store: CancellingStore, checks: (any StatusCalls)? = nil,
        cancels: (any CancelCalls)? = nil, perRound: Int = 25,
        pool: DatabasePool? = nil, leavesWithin: Duration = .seconds(60),
        drainFor: Duration = .seconds(60)
    ) -> Canceller {
        var limits = Canceller.Limits()
        limits.dependentsPerRound = perRound
        limits.retry = Backoff(first: .seconds(1), max: .seconds(1), jitter: 0)
        var engine = CallEngine.Limits()
        // A crowded machine is no reason to put a call back.
        engine.leavesWithin = leavesWithin
        engine.checksWithin = .seconds(60)
        engine.drainFor = drainFor
        engine.failureWait = .zero
        return Canceller(
            self.engine(engine, pool: pool), store: checks ?? store, cancels: cancels ?? store,
            limits: limits,
            wait: { _ in })
    }

    func cancellingStore(
        _ replies: [CancellingStore.Reply] = [],
        items: [String: [String]] = ["1": ["B"], "2": ["FAR"]]
    ) -> CancellingStore {
        let clock = clock
        return CancellingStore(replies, items: items) {
            Instant(milliseconds: clock.nowMilliseconds())
        }
    }

    /// Rounds, and a second of both clocks between them.
    func run(_ canceller: Canceller, rounds: Int = 1) async throws {
        for _ in 0..<rounds {
            _ = try await canceller.round()
            realClock.advance(by: .seconds(31))
            clock.advance(by: .seconds(1))
        }
    }

    /// `SKU state` of every dependent.
    func dependents() async throws -> [String] {
        try await service.withConnection { connection in
            try await connection.query(
                """
                SELECT dependent_sku, state FROM repricer.dependent_cancellations
                ORDER BY dependent_sku
                """
            ).map { "\(try $0.text("dependent_sku")) \(try $0.text("state"))" }
        }
    }

    func dependentDetail() async throws -> String? {
        try await service.withConnection { connection in
            try await connection.query(
                "SELECT detail FROM repricer.dependent_cancellations"
            ).one().textOrNil("detail")
        }
    }

    /// The events that other programs were offered, in order.
    func told() async throws -> [String] {
        try await service.withConnection { connection in
            try await connection.query(
                "SELECT type FROM repricer.outbox ORDER BY aggregateid, position"
            ).map { try $0.text("type").replacing("dependent_cancellation.", with: "") }
        }
    }
}
