import Calls
import Extensions
import Facts
import HTTP
import Notifications
import Postgres
import ServiceKit
import Synchronization

@testable import AppStore
@testable import Pricing

/// An App Store that answers extensions as the test says: the next scripted answer, else "done".
final class ScriptedExtensions: ExtensionCalls {
    enum Reply: Sendable {
        case done
        /// Taken, and the answer lost.
        case lost
        /// Lost, and never taken.
        case unavailable
        case refused(Int)
        case throttled(until: Instant)
        case notSent
    }

    struct State {
        var replies: [Reply] = []
        var calls: [String] = []
        var identifiers: [String] = []
        /// By request identifier: each once, however often it was sent.
        var taken: [String: Int] = [:]
        var massStatus: MassExtensionStatus?
        var checks = 0
    }

    private let state = Mutex(State())

    init(_ replies: [Reply] = []) {
        state.withLock { $0.replies = replies }
    }

    func with<Result>(_ body: (inout sending State) -> sending Result) -> Result {
        state.withLock { body(&$0) }
    }

    var calls: [String] { state.withLock { $0.calls } }
    var identifiers: [String] { state.withLock { $0.identifiers } }
    var taken: [String: Int] { state.withLock { $0.taken } }
    var checks: Int { state.withLock { $0.checks } }

    private static func reply(_ status: Int) -> StoreReply {
        StoreReply(HTTPResponse(status: status, body: []))
    }

    private func outcome<Value: Sendable>(
        _ line: String, _ identifier: String, _ value: Value
    ) -> CallOutcome<Value> {
        state.withLock { state in
            state.calls.append(line)
            state.identifiers.append(identifier)
            let next = state.replies.isEmpty ? Reply.done : state.replies.removeFirst()
            switch next {
            case .done:
                state.taken[identifier, default: 0] += 1
                return .answered(value, Self.reply(200))
            case .lost:
                state.taken[identifier, default: 0] += 1
                return .unknown(reason: "timed out", StoreReply())
            case .unavailable: return .unknown(reason: "500", Self.reply(500))
            case .refused(let code):
                return .refused(
                    code: APIErrorCode(rawValue: code), message: "no", Self.reply(code / 10_000))
            case .throttled(let until): return .throttled(until: until, Self.reply(429))
            case .notSent: return .notSent(reason: "connection refused")
            }
        }
    }

    func extend(
        originalTransactionID: String, _ request: ExtensionRequest,
        leavingBefore: ContinuousClock.Instant?
    ) async -> CallOutcome<ExtensionAnswer> {
        outcome(
            "\(originalTransactionID) +\(request.extendByDays)", request.requestIdentifier,
            ExtensionAnswer(
                isSuccess: true,
                effectiveAt: ExtensionHarness.renewal.advanced(
                    by: Int64(request.extendByDays) * 86_400_000)))
    }

    func extendAll(
        _ request: MassExtensionRequest, leavingBefore: ContinuousClock.Instant?
    ) async -> CallOutcome<String> {
        let storefronts = request.storefrontCountryCodes?.joined(separator: ",") ?? "all"
        return outcome(
            "\(request.productId) \(storefronts) +\(request.extendByDays)",
            request.requestIdentifier, request.requestIdentifier)
    }

    func extensionStatus(
        productID: String, requestIdentifier: String
    ) async -> CallOutcome<MassExtensionStatus> {
        state.withLock { state in
            state.checks += 1
            guard let status = state.massStatus else {
                return .refused(
                    code: .statusRequestNotFound, message: "no", Self.reply(404))
            }
            return .answered(status, Self.reply(200))
        }
    }
}

/// A delivery harness with extensions, and Apple's words about them.
struct ExtensionHarness {
    static let product = "com.example.base"
    /// The renewal of every subscription of `DeliveryHarness`.
    static let renewal = DeliveryHarness.start.advanced(by: 40 * 86_400_000)

    let delivery: DeliveryHarness
    let calls: ScriptedExtensions

    static func make(_ replies: [ScriptedExtensions.Reply] = []) async throws -> ExtensionHarness {
        ExtensionHarness(
            delivery: try await DeliveryHarness.make(), calls: ScriptedExtensions(replies))
    }

    func extender(
        calls: (any ExtensionCalls)? = nil, statuses: (any StatusCalls)? = nil,
        pool: DatabasePool? = nil, environment: StoreEnvironment = .production,
        wait: CallPermitSource.Wait? = nil, leavesWithin: Duration = .seconds(60),
        drainFor: Duration = .seconds(60),
        perSecond: Double = Extender.Limits().extendPerSecond,
        retry: Backoff = Backoff(first: .seconds(1), max: .seconds(1), jitter: 0),
        metrics: Metrics = Metrics()
    ) -> Extender {
        var engine = CallEngine.Limits()
        // A crowded machine is no reason to put a call back.
        engine.leavesWithin = leavesWithin
        engine.checksWithin = .seconds(60)
        engine.drainFor = drainFor
        engine.failureWait = .zero
        var limits = Extender.Limits()
        limits.retry = retry
        limits.checkEveryMin = .zero
        limits.extendPerSecond = perSecond
        // Permits come with time, and no test waits for it.
        let clock = delivery.clock
        return Extender(
            delivery.engine(engine, pool: pool, environment: environment, metrics: metrics),
            calls: calls ?? self.calls,
            store: statuses ?? delivery.store, limits: limits,
            wait: wait ?? { clock.advance(by: $0) })
    }

    /// Lets calls be checked until none can be on its way any more.
    func passUntilChecked(_ extender: Extender) async throws {
        for _ in 0..<9 {
            pass(.seconds(15))
            try await work(extender)
        }
    }

    /// A subscription of the product, known and paid for.
    func subscribe(_ id: String, change: (inout SubscriptionEvent) -> Void = { _ in }) async throws
    {
        try await delivery.subscribe(id)
        var event = said(id, "OFFER_REDEEMED", at: -500)
        change(&event)
        try await delivery.tell(event)
    }

    /// A statement some milliseconds after the start.
    func said(
        _ id: String, _ type: String, _ subtype: String? = nil, at: Int64,
        renewalAt: Instant = renewal
    ) -> SubscriptionEvent {
        let signedAt = DeliveryHarness.start.advanced(by: at)
        return SubscriptionEvent(
            key: .init(signedAt: signedAt, evidenceID: "\(type)-\(subtype ?? "")-\(id)-\(at)"),
            source: .notification, originalTransactionID: id, type: type, subtype: subtype,
            status: 1,
            transaction: TransactionStatement(
                transactionID: "t-\(id)", productID: Self.product,
                purchasedAt: DeliveryHarness.start.advanced(by: -1000),
                originalPurchaseAt: DeliveryHarness.start.advanced(by: -1000),
                expiresAt: renewalAt, storefront: "USA", currency: "USD", period: "P1M",
                items: ["A", "B"].map { StatementItem(sku: $0, price: 9990) }),
            renewal: RenewalStatement(
                autoRenewStatus: 1, renewalAt: renewalAt, consistencyToken: "told", period: "P1M",
                items: ["A", "B"].map { StatementItem(sku: $0, price: 9990) }))
    }

    func tellExtended(_ id: String, days: Int64, at: Int64) async throws {
        try await tellExtended(id, to: Self.renewal.advanced(by: days * 86_400_000), at: at)
    }

    func tellExtended(_ id: String, to renewalAt: Instant, at: Int64) async throws {
        try await delivery.tell(said(id, "RENEWAL_EXTENDED", at: at, renewalAt: renewalAt))
    }

    func tellFailed(_ id: String, at: Int64) async throws {
        try await delivery.tell(said(id, "RENEWAL_EXTENSION", "FAILURE", at: at))
    }

    static func id(_ number: Int) -> String {
        let text = String(number)
        return "019a0000-0000-7000-8000-" + String(repeating: "0", count: 12 - text.count) + text
    }

    func requestOne(_ id: String, _ number: Int = 1, days: Int = 30) async throws {
        let at = delivery.now.milliseconds
        let terms = try terms(days)
        _ = try await delivery.submitter.withTransaction {
            try ExtensionQueries.request(
                id, extensionID: Self.id(number), terms, note: nil, at: at, on: $0)
        }
    }

    func requestAll(
        _ number: Int = 9, of product: String = product, storefronts: [String]? = nil,
        days: Int = 30,
        isApproved: Bool = true
    ) async throws {
        let at = delivery.now
        let terms = try terms(days)
        let forecast = try await ExtensionForecast.count(
            productID: product, storefronts: storefronts, now: at, pool: delivery.submitter)
        _ = try await delivery.submitter.withTransaction {
            try ExtensionQueries.requestMass(
                Self.id(number), productID: product, storefronts: storefronts, terms,
                note: nil, eligible: forecast.eligible, ineligible: "{}", at: at.milliseconds,
                on: $0)
        }
        guard isApproved else { return }
        _ = try await delivery.approver.withTransaction {
            try ExtensionQueries.approve(Self.id(number), at: at.milliseconds, on: $0)
        }
    }

    private func terms(_ days: Int) throws -> ExtensionTerms {
        guard let terms = ExtensionTerms(days: days, reason: .outage) else {
            throw RequestFault.daysOutOfRange(days)
        }
        return terms
    }

    func retryFailed(_ number: Int = 9, firstID: Int = 100) async throws -> Int64 {
        let at = delivery.now.milliseconds
        return try await delivery.submitter.withTransaction { connection in
            let failed = try ExtensionQueries.failed(Self.id(number), on: connection)
            return try ExtensionQueries.retry(
                Self.id(number), failed, requestIDs: failed.indices.map { Self.id(firstID + $0) },
                at: at, on: connection)
        }
    }

    /// Rounds until nothing is left to do now.
    func work(_ extender: Extender) async throws {
        for _ in 0..<20 where try await extender.round() == 0 { return }
    }

    func pass(_ duration: Duration) {
        delivery.clock.advance(by: duration)
        delivery.realClock.advance(by: duration)
    }

    /// `KIND STATE extended/failed apple CHECK code` of every line of the report.
    func report() async throws -> [String] {
        try await delivery.service.withTransaction { connection in
            try ExtensionQueries.lines(of: nil, on: connection).map { line in
                let told = "\(line.extended ?? 0)/\(line.failed ?? 0)"
                let apple = line.appleExtended.map { "\($0)/\(line.appleFailed ?? 0)" } ?? "-"
                return [line.kind, line.state, told, apple, line.check, line.code ?? ""]
                    .filter { !$0.isEmpty }.joined(separator: " ")
            }
        }
    }

    /// Of each mass extension, in the order of their ids.
    func massStates() async throws -> [String] {
        try await delivery.service.withConnection { connection in
            try await connection.query(
                "SELECT state FROM repricer.mass_extensions ORDER BY extension_id"
            ).map { try $0.text("state") }
        }
    }

    /// `STATE by SOURCE` of each call for one subscription.
    func callStates() async throws -> [String] {
        try await delivery.service.withConnection { connection in
            try await connection.query(
                """
                SELECT concat_ws(' ', state, 'by ' || settled_by, code) AS said
                FROM repricer.extension_requests ORDER BY extension_id
                """
            ).map { try $0.text("said") }
        }
    }

    /// When the only call for one subscription began; UTC milliseconds.
    func calledAt() async throws -> Int64 {
        try await delivery.service.withConnection { connection in
            try await connection.query("SELECT called_at FROM repricer.extension_requests")
                .one().milliseconds("called_at")
        }
    }

    /// A SUMMARY as the intake keeps it.
    func receiveSummary(
        _ number: Int, succeeded: Int64, failed: Int64, uuid: String = "summary-1",
        signedAt: Instant? = nil, isDamaged: Bool = false
    ) async throws {
        let at = (signedAt ?? delivery.now).milliseconds
        let json =
            "{\"notificationType\":\"RENEWAL_EXTENSION\",\"subtype\":\"SUMMARY\","
            + "\"notificationUUID\":\"\(uuid)\",\"version\":\"2.0\",\"signedDate\":\(at),"
            + "\"\(isDamaged ? "s" : "summary")\":{\"requestIdentifier\":\"\(Self.id(number))\",\"productId\":"
            + "\"\(Self.product)\",\"succeededCount\":\(succeeded),\"failedCount\":\(failed)}}"
        let parts = ["{}", json, "s"].map { Base64URLText.encode($0) }
        _ = try await NotificationStore(pool: delivery.service).storeArrivals(
            [
                Arrival(
                    notificationUUID: uuid, signedAtMilliseconds: at, type: "RENEWAL_EXTENSION",
                    subtype: "SUMMARY", understood: true, isWork: false,
                    evidence: .whole(parts.joined(separator: ".")))
            ], receivedAt: delivery.now.milliseconds)
    }
}

private enum Base64URLText {
    static func encode(_ text: String) -> String {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
        var out = ""
        var bits = 0
        var value = 0
        for byte in text.utf8 {
            value = value << 8 | Int(byte)
            bits += 8
            while bits >= 6 {
                bits -= 6
                out.append(alphabet[value >> bits & 63])
            }
        }
        if bits > 0 { out.append(alphabet[value << (6 - bits) & 63]) }
        return out
    }
}
