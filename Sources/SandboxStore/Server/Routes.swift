import Foundation
import HTTP
import JOSE
import ServiceKit

/// The App Store's endpoints and the sandbox's own, from request to response.
struct Routes: Sendable {
    var keeper: StoreKeeper
    var courier: Courier
    var statements: Statements
    var bearer: BearerCheck
    /// `START@RATE@ORIGIN`; nil on a true clock.
    var clockSpecification: String?
    var log: Log

    func handle(_ request: HTTPRequest) async -> HTTPResponse {
        do {
            return try await route(request)
        } catch {
            log.error("request failed", ["target": request.target, "error": "\(error)"])
            return refusal(.internalError)
        }
    }

    private func route(_ request: HTTPRequest) async throws -> HTTPResponse {
        let path = request.pathSegments
        if path.first == "sandbox" { return try await inspect(request, Array(path.dropFirst())) }
        if path.count == 5, Array(path[0..<3]) == ["advancedCommerce", "v1", "subscription"],
            ["changePrice", "cancel"].contains(path[3])
        {
            return try await api(request, method: "POST", path[3], transaction: path[4])
        }
        guard path.first == "inApps", path.count >= 4, path[1] == "v1" else { return notFound }
        if path.count == 5, Array(path[2..<4]) == ["notifications", "test"] {
            return try await api(request, method: "GET", "testStatus", transaction: path[4])
        }
        guard path.count == 4 else { return notFound }
        switch (path[2], path[3]) {
        case ("notifications", "history"): return try await api(request, method: "POST", "history")
        case ("notifications", "test"): return try await api(request, method: "POST", "test")
        case ("subscriptions", let id):
            return try await api(request, method: "GET", "status", transaction: id)
        default: return notFound
        }
    }

    private var notFound: HTTPResponse { .text(404, "no such endpoint\n") }

    /// What all API calls share: method, token, rate, faults.
    private func api(
        _ request: HTTPRequest, method: String, _ endpoint: String, transaction: String = ""
    ) async throws -> HTTPResponse {
        guard request.method == method else { return .text(405, "use \(method)\n") }
        let now = keeper.clock.nowMilliseconds()
        guard isAuthorized(request, now: now) else {
            return try await refuse(.unauthorized, endpoint, transaction, request, nil)
        }
        let (fault, retryAfter) = await keeper.begin(endpoint)
        if let retryAfter { return try await tooMany(retryAfter, endpoint, transaction, request) }
        switch fault?.kind {
        case .dropBefore:
            try await keeper.recordRefusal(
                endpoint, transaction, request.body, nil, fault: fault)
            return await hangUp(fault)
        case .http500:
            return try await refuse(.internalError, endpoint, transaction, request, fault)
        case .http429:
            return try await tooMany(now + 1000, endpoint, transaction, request, fault)
        case .refuse:
            return try await refuse(
                fault?.error ?? .internalError, endpoint, transaction, request, fault)
        case .dropAfter, .late, .garbage, .refuseRepeats, .expireToken, .noToken, .forge, nil: break
        }
        if method == "POST", endpoint != "test", !isJSON(request) {
            return try await refuse(.malformedPayload, endpoint, transaction, request, fault)
        }
        let response = try await answer(endpoint, transaction, request, fault)
        switch fault?.kind {
        case .dropAfter: return await hangUp(fault)
        case .late:
            // A cancelled wait ends early, when the program stops.
            try? await Task.sleep(for: .seconds(fault?.seconds ?? 0))
            return response
        case .garbage: return .text(200, "<html>gateway</html>\u{0}{")
        case .dropBefore, .http500, .http429, .refuseRepeats, .refuse, .expireToken, .noToken,
            .forge,
            nil:
            return response
        }
    }

    private func answer(
        _ endpoint: String, _ transaction: String, _ request: HTTPRequest, _ fault: CallFault?
    ) async throws -> HTTPResponse {
        switch endpoint {
        case "changePrice":
            return try answered(
                await keeper.changePrice(
                    transaction: transaction, body: request.body, fault: fault))
        case "cancel":
            return try answered(
                await keeper.cancel(transaction: transaction, body: request.body, fault: fault))
        case "status":
            return try await status(transaction, request, fault)
        case "history": return try await history(request, fault)
        case "test": return try await test()
        default: return try await testStatus(transaction)
        }
    }

    private func answered(_ outcome: StoreKeeper.Outcome) throws -> HTTPResponse {
        switch outcome {
        case .answer(let answer):
            let parts = try statements.signed(answer)
            let body = [
                "signedRenewalInfo": parts.renewal, "signedTransactionInfo": parts.transaction,
            ]
            return try json(body)
        case .refused(let error, _): return refusal(error)
        }
    }

    private func status(
        _ transaction: String, _ request: HTTPRequest, _ fault: CallFault?
    ) async throws -> HTTPResponse {
        let wanted = request.query["status"] ?? []
        guard wanted.allSatisfy({ ["1", "2", "3", "4", "5"].contains($0) }) else {
            return refusal(.invalidStatus)
        }
        switch try await keeper.status(transaction: transaction, fault: fault) {
        case .refused(let error, _): return refusal(error)
        case .answer(let answer):
            let parts = try statements.signed(answer)
            let status = answer.subscription.status.rawValue
            let item = StatusPayload.Item(
                originalTransactionId: answer.subscription.id, status: status,
                signedTransactionInfo: parts.transaction, signedRenewalInfo: parts.renewal)
            let identity = statements.identity
            let isListed = wanted.isEmpty || wanted.contains(String(status))
            let groups = isListed ? [StatusPayload.Group(lastTransactions: [item])] : []
            let isProduction = identity.environment == "Production"
            return try json(
                StatusPayload(
                    environment: identity.environment, bundleId: identity.bundleID,
                    appAppleId: isProduction ? identity.appAppleID : nil, data: groups))
        }
    }

    private func history(
        _ request: HTTPRequest, _ fault: CallFault?
    ) async throws -> HTTPResponse {
        let realNow = SystemClock().nowMilliseconds()
        let token = request.query["paginationToken"]?.first
        let query: HistoryQuery
        do throws(StoreError) {
            query = try HistoryQuery(
                request.body, token: token, now: keeper.clock.nowMilliseconds(), realNow: realNow,
                isProduction: statements.identity.environment == "Production",
                isTokenExpired: fault?.kind == .expireToken)
        } catch {
            return refusal(error)
        }
        let page = await keeper.history(query, body: request.body, realNow: realNow)
        var items = try page.entries.map { entry in
            HistoryPayload.Item(
                signedPayload: try statements.signed(entry.event),
                sendAttempts: entry.attempts.map {
                    .init(attemptDate: $0.at, sendAttemptResult: $0.result.rawValue)
                })
        }
        if fault?.kind == .forge, let first = items.indices.first {
            // One changed character of the signature: what any forger achieves without Apple's key.
            let payload = items[first].signedPayload
            items[first].signedPayload =
                payload.dropLast(8) + (payload.hasSuffix("AAAAAAAA") ? "BBBBBBBB" : "AAAAAAAA")
        }
        let hasNoToken = fault?.kind == .noToken
        return try json(
            HistoryPayload(
                notificationHistory: items, hasMore: page.hasMore || hasNoToken,
                paginationToken: hasNoToken ? nil : page.token))
    }

    private func test() async throws -> HTTPResponse {
        let now = keeper.clock.nowMilliseconds()
        var random = SystemRandomNumberGenerator()
        let uuid = UUIDv7.make(nowMilliseconds: now, random: &random)
        let token = "\(uuid)_\(now)"
        let payload = try statements.signedTest(uuid: uuid, signedAt: now)
        let result = await courier.post(payload, uuid: uuid) ?? .noResponse
        await keeper.addTest(token, payload: payload, result: result)
        return try json(["testNotificationToken": token])
    }

    private func testStatus(_ token: String) async throws -> HTTPResponse {
        guard let (payload, attempt) = await keeper.test(token) else {
            return refusal(.testNotificationNotFound)
        }
        return try json(
            HistoryPayload.Item(
                signedPayload: payload,
                sendAttempts: [
                    .init(attemptDate: attempt.at, sendAttemptResult: attempt.result.rawValue)
                ]))
    }

    private func isJSON(_ request: HTTPRequest) -> Bool {
        let type = request.headers["Content-Type"] ?? ""
        let media = type.prefix { $0 != ";" }.trimmingCharacters(in: .whitespaces)
        return media.lowercased() == "application/json"
    }

    private func refuse(
        _ error: StoreError, _ endpoint: String, _ transaction: String, _ request: HTTPRequest,
        _ fault: CallFault?
    ) async throws -> HTTPResponse {
        try await keeper.recordRefusal(endpoint, transaction, request.body, error, fault: fault)
        return refusal(error)
    }

    private func tooMany(
        _ retryAfter: Int64, _ endpoint: String, _ transaction: String, _ request: HTTPRequest,
        _ fault: CallFault? = nil
    ) async throws -> HTTPResponse {
        var response = try await refuse(
            .rateLimitExceeded, endpoint, transaction, request, fault)
        // Apple's header is an instant in milliseconds, not the seconds of RFC 9110.
        response.headers["Retry-After"] = String(retryAfter)
        return response
    }

    func refusal(_ error: StoreError) -> HTTPResponse { .json(error.httpStatus, error.body) }

    func json(_ value: some Encodable) throws -> HTTPResponse {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return .json(200, String(decoding: try encoder.encode(value), as: UTF8.self))
    }

    /// On a fast clock a token may live by the store's time or by real time: a real second is a day.
    private func isAuthorized(_ request: HTTPRequest, now: Int64) -> Bool {
        let header = request.headers["Authorization"]
        if bearer.isAuthorized(header, now: now) { return true }
        guard clockSpecification != nil else { return false }
        return bearer.isAuthorized(header, now: SystemClock().nowMilliseconds())
    }

    /// A lost answer: silence until the client's deadline has passed, then a gateway's apology.
    private func hangUp(_ fault: CallFault?) async -> HTTPResponse {
        // A cancelled wait ends early, when the program stops.
        try? await Task.sleep(for: .seconds(fault?.seconds ?? 0))
        return .text(504, "the answer was lost\n")
    }
}
