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
        if path.count >= 5, path[2] == "subscriptions", path[3] == "extend" {
            return try await extensionRoute(request, Array(path.dropFirst(4)))
        }
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

    var notFound: HTTPResponse { .text(404, "no such endpoint\n") }

    /// The common part of all API calls: method, token, rate limit, faults. It journals the beginning and the end of
    /// each call.
    func api(
        _ request: HTTPRequest, method: String, _ endpoint: String, transaction: String = ""
    ) async throws -> HTTPResponse {
        let number = try keeper.wire.begin(
            endpoint, transaction, reference: StoreKeeper.reference(in: request.body),
            keyID: BearerCheck.keyID(in: request.headers["Authorization"]))
        let call = Call(
            request: request, endpoint: endpoint, transaction: transaction, number: number)
        let response = try await judged(call, method: method)
        try keeper.wire.end(
            number, status: response.isReset ? nil : response.status,
            retryAfter: response.headers["Retry-After"].flatMap { Int64($0) })
        return response
    }

    /// One API call on its way through the store.
    struct Call {
        var request: HTTPRequest
        var endpoint: String
        var transaction: String
        var number: Int64
        var fault: CallFault?
    }

    private func judged(_ arrived: Call, method: String) async throws -> HTTPResponse {
        var call = arrived
        guard call.request.method == method else { return .text(405, "use \(method)\n") }
        let now = keeper.clock.nowMilliseconds()
        guard isAuthorized(call.request, now: now) else {
            return try await refuse(.unauthorized, call)
        }
        let (fault, retryAfter) = await keeper.begin(call.endpoint)
        if let retryAfter { return try await tooMany(retryAfter, call) }
        call.fault = fault
        switch fault?.kind {
        case .dropBefore, .resetBefore:
            try await keeper.recordRefusal(
                call.endpoint, call.transaction, call.request.body, nil, fault: fault,
                number: call.number)
            return await hangUp(fault)
        case .http500: return try await refuse(.internalError, call)
        case .http429:
            // The fault's seconds are real ones, however fast the store's clock runs.
            let silence = Int64((fault?.seconds ?? 1) * Double(keeper.realSecond))
            return try await tooMany(now + silence, call)
        case .refuse: return try await refuse(fault?.error ?? .internalError, call)
        case .slow: await pass(fault)
        case .dropAfter, .resetAfter, .late, .garbage, .hollow, .refuseRepeats, .expireToken,
            .noToken, .forge, nil:
            break
        }
        if method != "GET", call.endpoint != "test", !isJSON(call.request) {
            return try await refuse(.malformedPayload, call)
        }
        let response = try await answer(call)
        switch fault?.kind {
        case .dropAfter, .resetAfter: return await hangUp(fault)
        case .late:
            await pass(fault)
            return response
        case .garbage: return .text(200, "<html>gateway</html>\u{0}{")
        case .hollow: return .json(200, "{\"signedRenewalInfo\":null,\"data\":{}}")
        case .dropBefore, .resetBefore, .slow, .http500, .http429, .refuseRepeats, .refuse,
            .expireToken, .noToken, .forge, nil:
            return response
        }
    }

    private func answer(_ call: Call) async throws -> HTTPResponse {
        switch call.endpoint {
        case "changePrice":
            return try answered(
                await keeper.changePrice(
                    transaction: call.transaction, body: call.request.body, fault: call.fault,
                    number: call.number))
        case "cancel":
            return try answered(
                await keeper.cancel(
                    transaction: call.transaction, body: call.request.body, fault: call.fault,
                    number: call.number))
        case "status": return try await status(call)
        case "history": return try await history(call.request, call.fault)
        case "test": return try await test()
        case "extend", "extendAll", "extendStatus": return try await extensionAnswer(call)
        default: return try await testStatus(call.transaction)
        }
    }

    func answered(_ outcome: StoreKeeper.Outcome) throws -> HTTPResponse {
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

    private func status(_ call: Call) async throws -> HTTPResponse {
        let wanted = call.request.query["status"] ?? []
        guard wanted.allSatisfy({ ["1", "2", "3", "4", "5"].contains($0) }) else {
            return refusal(.invalidStatus)
        }
        let outcome = try await keeper.statuses(
            transaction: call.transaction, fault: call.fault, number: call.number)
        switch outcome {
        case .refused(let error, _): return refusal(error)
        case .answer(let answers):
            let listed = answers.filter {
                wanted.isEmpty || wanted.contains(String($0.subscription.status.rawValue))
            }
            let items = try listed.map { answer in
                let parts = try statements.signed(answer)
                return StatusPayload.Item(
                    originalTransactionId: answer.subscription.id,
                    status: answer.subscription.status.rawValue,
                    signedTransactionInfo: parts.transaction, signedRenewalInfo: parts.renewal)
            }
            let identity = statements.identity
            let groups = items.isEmpty ? [] : [StatusPayload.Group(lastTransactions: items)]
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
            // It changes one character of the signature, because a forger without Apple's key can do no better.
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
        // A lost test notification is one whose delivery never began.
        let result =
            await keeper.isNextNotificationLost()
            ? nil : await courier.post(payload, uuid: uuid) ?? .noResponse
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
                sendAttempts: attempt.map {
                    [.init(attemptDate: $0.at, sendAttemptResult: $0.result.rawValue)]
                } ?? []))
    }

    private func isJSON(_ request: HTTPRequest) -> Bool {
        let type = request.headers["Content-Type"] ?? ""
        let media = type.prefix { $0 != ";" }.trimmingCharacters(in: .whitespaces)
        return media.lowercased() == "application/json"
    }

    func refuse(_ error: StoreError, _ call: Call) async throws -> HTTPResponse {
        try await keeper.recordRefusal(
            call.endpoint, call.transaction, call.request.body, error, fault: call.fault,
            number: call.number)
        return refusal(error)
    }

    private func tooMany(_ retryAfter: Int64, _ call: Call) async throws -> HTTPResponse {
        var response = try await refuse(.rateLimitExceeded, call)
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

    /// On a fast clock a token may be valid by the store's time or by real time, because a real second may be a day.
    private func isAuthorized(_ request: HTTPRequest, now: Int64) -> Bool {
        let header = request.headers["Authorization"]
        if bearer.isAuthorized(header, now: now) { return true }
        guard clockSpecification != nil else { return false }
        return bearer.isAuthorized(header, now: SystemClock().nowMilliseconds())
    }

    /// A lost answer: a wait, then a gateway's error or a broken connection.
    private func hangUp(_ fault: CallFault?) async -> HTTPResponse {
        await pass(fault)
        var response = HTTPResponse.text(504, "the answer was lost\n")
        response.isReset = fault?.kind == .resetBefore || fault?.kind == .resetAfter
        return response
    }

    private func pass(_ fault: CallFault?) async {
        // A cancelled wait ends early, when the program stops.
        try? await Task.sleep(for: .seconds(fault?.seconds ?? 0))
    }
}
