import Facts
package import HTTP
import JSON
package import ServiceKit
import Synchronization

/// Answers the requests of `HTTPServer`: notifications, health, metrics and the status pages.
///
/// It decides nothing about prices and keeps nothing: what is not in the database when it answers
/// 200 is lost, so it answers 200 only after the commit.
package final class ReceiverRoutes: Sendable {
    private let intake: NotificationIntake
    private let legacy: LegacyIntake?
    private let pages: Pages
    /// That the forwarder of notifications must present; nil: none.
    private let token: SharedSecret?
    private let metrics: Metrics
    /// Notifications that were answered 200.
    private let taken: Counter
    private let log: Log
    private let refusals: RefusalLog
    private let obstacle: @Sendable () async -> String?
    private let isDraining = Atomic(false)

    /// The page for people at a path, by its segments, with the name of its route; nil where there is none.
    package typealias Pages =
        @Sendable (ArraySlice<String>) -> (
            route: String, answer: @Sendable () async -> HTTPResponse
        )?

    /// `obstacle` is the store's own, but in tests: nil when ready, else why not, in words for a
    /// person. Without `legacy` there is no V1 endpoint.
    package init(
        intake: NotificationIntake, legacy: LegacyIntake? = nil,
        pages: @escaping Pages, token: SharedSecret?, metrics: Metrics, log: Log,
        obstacle: @escaping @Sendable () async -> String?
    ) {
        self.intake = intake
        self.legacy = legacy
        self.pages = pages
        self.token = token
        self.metrics = metrics
        taken = metrics.counter(
            "repricer_http_requests_total", labels: ["route": "notifications", "status": "200"])
        self.log = log
        refusals = RefusalLog(log: log)
        self.obstacle = obstacle
        metrics.describe("repricer_http_requests_total", "Requests answered, by route and status.")
    }

    /// From now on notifications are answered 503, so that the sender turns to another replica.
    package func drain() {
        isDraining.store(true, ordering: .releasing)
    }

    /// The handler for `HTTPServer`.
    package func respond(to request: HTTPRequest) async -> HTTPResponse {
        let (route, response) = await answer(request)
        if route == "notifications", response.status == 200 {
            taken.increment()
        } else {
            metrics.increment(
                "repricer_http_requests_total",
                labels: ["route": route, "status": "\(response.status)"])
        }
        return response
    }

    private func answer(_ request: HTTPRequest) async -> (route: String, HTTPResponse) {
        let segments = request.pathSegments
        switch (segments.first, segments.count) {
        case ("notifications", 1):
            return ("notifications", await only("POST", request) { await take(request) })
        case ("notifications", 2) where segments[1] == "v1" && legacy != nil:
            return ("notifications_v1", await only("POST", request) { await takeLegacy(request) })
        case ("healthz", 1):
            return ("healthz", await only("GET", request) { .text(200, "ok\n") })
        case ("readyz", 1):
            return ("readyz", await only("GET", request) { await self.sayReady() })
        case ("metrics", 1):
            return ("metrics", await only("GET", request) { self.sayMetrics() })
        default:
            guard let page = pages(segments[...]) else {
                return ("none", .text(404, "no such page; see GET /\n"))
            }
            return (page.route, await only("GET", request, page.answer))
        }
    }

    private func only(
        _ method: String, _ request: HTTPRequest, _ answer: () async -> HTTPResponse
    ) async -> HTTPResponse {
        // Where GET is answered, HEAD is too; the server leaves the body out.
        let isAllowed = request.method == method || (request.method == "HEAD" && method == "GET")
        if isAllowed { return await answer() }
        var response =
            request.method == "OPTIONS"
            ? HTTPResponse(status: 204)
            : HTTPResponse.text(405, "\(request.path) takes \(method)\n")
        response.headers["Allow"] = method == "GET" ? "GET, HEAD, OPTIONS" : "\(method), OPTIONS"
        return response
    }

    private func take(_ request: HTTPRequest) async -> HTTPResponse {
        if let obstacle = senderObstacle(request) { return obstacle }
        switch Envelope.payload(in: request.body) {
        case .failure(let refusal): return answer(to: intake.count(.refused(refusal)))
        case .success(let payload): return answer(to: await intake.take(payload))
        }
    }

    private func takeLegacy(_ request: HTTPRequest) async -> HTTPResponse {
        if let obstacle = senderObstacle(request) { return obstacle }
        guard let legacy else { return .text(404, "no such page; see GET /\n") }
        return answer(to: await legacy.take(request.body))
    }

    private func senderObstacle(_ request: HTTPRequest) -> HTTPResponse? {
        if let token, !token.isBearer(in: request.headers["Authorization"]) {
            var response = problem(
                401, "bad_token", "the forwarder's bearer token is missing or wrong")
            response.headers["WWW-Authenticate"] = "Bearer"
            return response
        }
        return isDraining.load(ordering: .acquiring) ? comeAgain("draining", "shutting down") : nil
    }

    private func answer(to outcome: IntakeOutcome) -> HTTPResponse {
        switch outcome {
        case .stored(let isNew, let understood):
            return .json(200, "{\"stored\":true,\"new\":\(isNew),\"understood\":\(understood)}\n")
        case .refused(let refusal):
            return refused(refusal)
        case .unavailable(let why):
            log.warning("notification not stored", ["why": why])
            return comeAgain("unavailable", "not stored; send it again")
        }
    }

    private func refused(_ refusal: NotificationRefusal) -> HTTPResponse {
        refusals.note(refusal)
        switch refusal.kind {
        case .malformed: return problem(400, refusal.code, refusal.message)
        case .forbidden: return problem(403, refusal.code, refusal.message)
        }
    }

    private func comeAgain(_ code: String, _ message: String) -> HTTPResponse {
        var response = problem(503, code, message)
        response.headers["Retry-After"] = "5"
        return response
    }

    private func problem(_ status: Int, _ code: String, _ message: String) -> HTTPResponse {
        let text = JSONWriter.object {
            $0.text("error", code)
            $0.text("message", message)
        }
        return .json(status, text + "\n")
    }

    private func sayReady() async -> HTTPResponse {
        if isDraining.load(ordering: .acquiring) { return .text(503, "draining\n") }
        guard let why = await obstacle() else { return .text(200, "ready\n") }
        return .text(503, "\(why)\n")
    }

    private func sayMetrics() -> HTTPResponse {
        HTTPResponse(
            status: 200, contentType: "text/plain; version=0.0.4; charset=utf-8",
            text: metrics.render())
    }
}
