internal import HTTP
package import JOSE
internal import JSON
package import Pricing
package import ServiceKit

/// Calls the Advanced Commerce API and the App Store Server API.
///
/// It keeps no state but the token. The scheduler decides whether and when a call is repeated.
package struct AppStoreClient: Sendable {
    private let http: any HTTPSending
    private let token: BearerToken
    private let clock: any WallClock
    private let watch: StoreRequestWatch?
    let reader: AnswerReader

    /// - Parameters:
    ///   - http: A client of the App Store's host.
    ///   - token: Makes tokens for our key and bundle id.
    ///   - clock: Gives the time for answers without a date, and for the start of silences.
    ///   - verifier: Proves the signed parts of answers.
    ///   - bundleID: Our bundle id.
    ///   - environment: The environment that this instance serves.
    ///   - watch: Counts the requests.
    package init(
        http: any HTTPSending, token: BearerToken, clock: any WallClock, verifier: JWSVerifier,
        bundleID: String, environment: StoreEnvironment, watch: StoreRequestWatch? = nil
    ) {
        self.http = http
        self.token = token
        self.clock = clock
        self.watch = watch
        reader = AnswerReader(verifier: verifier, bundleID: bundleID, environment: environment)
    }

    /// Calls Change Subscription Price.
    ///
    /// - Parameters:
    ///   - transactionID: The subscription's original transaction id, or its latest one.
    ///   - request: What to change.
    ///   - leavingBefore: No byte is sent after this instant; the outcome is then `notSent`.
    package func changePrice(
        transactionID: String, request: PriceChangeCall,
        leavingBefore: ContinuousClock.Instant? = nil
    ) async -> CallOutcome<SubscriptionEvent> {
        await change(
            "changePrice", transactionID, request.body, request.requestInfo,
            leavingBefore: leavingBefore)
    }

    /// Makes one call of the Advanced Commerce API that changes a subscription. Its answer is evidence under the id
    /// of the call.
    func change(
        _ verb: String, _ transactionID: String, _ body: String, _ info: CommerceRequestInfo,
        leavingBefore: ContinuousClock.Instant?
    ) async -> CallOutcome<SubscriptionEvent> {
        if let fault = FieldCheck.fault(ofTransaction: transactionID) { return .faulty(fault) }
        let target = "/advancedCommerce/v1/subscription/\(verb)/"
        return await call(
            .json(target + PercentCoding.encode(transactionID), body),
            leavingBefore: leavingBefore
        ) { body, now throws(AnswerReader.Failure) in
            try reader.signedAnswer(
                body, evidenceID: info.requestReferenceId, transactionID: transactionID, now: now)
        }
    }

    /// Opens connections for this many calls that must be sent at exact instants.
    package func prepare(_ calls: Int) async {
        await http.prepare(calls)
    }

    /// Runs `work` while an open connection is held for the first call that it makes.
    package func whileReady<T: Sendable>(_ work: @Sendable () async -> T) async -> T {
        await http.whileReady(work)
    }

    /// Calls Get All Subscription Statuses: one statement for each subscription of the customer.
    ///
    /// - Parameter transactionID: Any transaction id of the customer.
    package func subscriptionStatuses(
        transactionID: String
    ) async -> CallOutcome<[SubscriptionEvent]> {
        let path = "/inApps/v1/subscriptions"
        return await call(
            HTTPRequest(
                method: "GET", target: "\(path)/\(PercentCoding.encode(transactionID))")
        ) { body, now throws(AnswerReader.Failure) in
            try reader.statuses(body, now: now)
        }
    }

    /// Calls Get Notification History: at most 20 notifications of a span of time, as they were signed.
    ///
    /// - Parameters:
    ///   - request: The question, the same for all its pages.
    ///   - paginationToken: The token from the page before; nil for the first page.
    package func notificationHistory(
        _ request: NotificationHistoryRequest, paginationToken: String?
    ) async -> CallOutcome<NotificationHistoryPage> {
        let page = paginationToken.map { "?paginationToken=\(PercentCoding.encode($0))" } ?? ""
        return await call(.json("/inApps/v1/notifications/history\(page)", request.body)) {
            body, _ throws(AnswerReader.Failure) in
            guard let page = JSONDocument.read(body).flatMap(NotificationHistoryPage.init)
            else { throw AnswerReader.Failure.undocumented }
            return page
        }
    }

    func call<Value: Sendable>(
        _ request: HTTPRequest, leavingBefore: ContinuousClock.Instant? = nil,
        read: (_ body: [UInt8], _ now: Int64) throws(AnswerReader.Failure) -> Value
    ) async -> CallOutcome<Value> {
        let began = ContinuousClock.now
        var code: APIErrorCode?
        let outcome = await send(
            request, leavingBefore: leavingBefore, code: &code, read: read)
        watch?.note(request.target, outcome, code: code, took: .now - began)
        return outcome
    }

    /// `code` has a value where the App Store answered with an error.
    private func send<Value: Sendable>(
        _ request: HTTPRequest, leavingBefore: ContinuousClock.Instant?, code: inout APIErrorCode?,
        read: (_ body: [UInt8], _ now: Int64) throws(AnswerReader.Failure) -> Value
    ) async -> CallOutcome<Value> {
        let bearer: String
        do {
            bearer = try token.current()
        } catch {
            return .notSent(reason: "no token: \(error)")
        }
        var request = request
        request.headers["Authorization"] = "Bearer \(bearer)"
        request.headers["Accept"] = "application/json"
        request.headers["User-Agent"] = "repricer"
        // A cached answer may be older than our latest call.
        request.headers["Cache-Control"] = "no-cache"
        let response: HTTPResponse
        do {
            response = try await http.send(request, leavingBefore: leavingBefore)
        } catch {
            return error.requestMayHaveArrived
                ? .unknown(reason: "\(error)", StoreReply()) : .notSent(reason: "\(error)")
        }
        // A 401 is a definite refusal, so nothing was done. Where the token may be the cause, the call counts as not
        // sent, and is sent again with a fresh token when its turn comes. A second call here would have no permit.
        if !(200...299).contains(response.status) {
            let told = JSONDocument.read(response.body)?["errorCode"]?.int
            code = APIErrorCode(status: response.status, code: told)
        }
        if response.status == 401, token.invalidate(bearer) {
            return .notSent(
                reason: "the App Store takes our token no longer; the next call brings a new one")
        }
        return outcome(response, read: read)
    }

    private func outcome<Value: Sendable>(
        _ response: HTTPResponse,
        read: (_ body: [UInt8], _ now: Int64) throws(AnswerReader.Failure) -> Value
    ) -> CallOutcome<Value> {
        var reply = StoreReply(response)
        if !(clock is VirtualClock) { reply.leftAt = response.leftAt }
        let now = clock.nowMilliseconds()
        if (200...299).contains(response.status) {
            do {
                let value = try read(response.body, now)
                reply.isVerified = true
                return .answered(value, reply)
            } catch {
                return .unknown(reason: error.reason, reply)
            }
        }
        let error = JSONDocument.read(response.body)
        let code = APIErrorCode(status: response.status, code: error?["errorCode"]?.int)
        let message = error?["errorMessage"]?.storableText ?? ""
        switch response.status {
        case 429:
            return .throttled(
                until: RetryAfter.instant(
                    response.headers["Retry-After"], now: now, date: response.headers["Date"]),
                reply)
        case 408, 500...599:
            // One subscription that is answered so must not silence the others for a minute that nobody asked for.
            let until = RetryAfter.usable(
                response.headers["Retry-After"], now: now, date: response.headers["Date"])
            reply.retryAfter = until.map { until in
                clock.realDuration(of: .milliseconds(until.milliseconds - now))
            }
            return .unknown(reason: "the App Store answered \(code)", reply)
        default:
            return .refused(code: code, message: message, reply)
        }
    }
}

extension HTTPRequest {
    static func json(_ target: String, method: String = "POST", _ body: String) -> HTTPRequest {
        HTTPRequest(
            method: method, target: target,
            headers: HTTPHeaders([("Content-Type", "application/json")]),
            body: Array(body.utf8))
    }
}

extension HTTPResponse {
    /// `Date` is when the answer was made, and `Age` is how many seconds a cache has kept it since.
    fileprivate var leftAt: Instant? {
        guard let date = headers["Date"].flatMap(HTTPDate.parse) else { return nil }
        // No honest cache keeps an answer for a hundred years.
        let age = headers["Age"].flatMap(Int64.init).map { min(max(0, $0), 3_155_760_000) } ?? 0
        return Instant(milliseconds: date).advanced(by: age * 1000)
    }
}

extension APIErrorCode {
    /// Believes the body's code only where it agrees with the status line.
    init(status: Int, code: Int?) {
        let bare = APIErrorCode(rawValue: status)
        let named = code.map(APIErrorCode.init(rawValue:)) ?? bare
        self = named.httpStatus == status ? named : bare
    }
}
