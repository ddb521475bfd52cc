import Facts
package import HTTP
import JSON
package import ServiceKit

/// Answers the requests of the port that Apple reaches: notifications and health, and nothing else.
///
/// A path must match exactly, so that a proxy's rules and ours mean the same path.
///
/// It decides nothing about prices and keeps nothing in memory. A notification that is not in the database when it
/// answers 200 would be lost, so it answers 200 only after the commit.
package final class ReceiverRoutes: Sendable {
    private let intake: NotificationIntake
    private let legacy: LegacyIntake?
    private let health: HealthRoutes
    /// The secret that the forwarder of notifications must present; nil where there is none.
    private let token: SharedSecret?
    private let metrics: Metrics
    /// How many notifications were answered with 200.
    private let taken: Counter
    private let log: Log
    private let refusals: RefusalLog
    private let notStored: Outage

    /// Makes the routes. Without `legacy` there is no V1 endpoint.
    package init(
        intake: NotificationIntake, legacy: LegacyIntake? = nil,
        health: HealthRoutes, token: SharedSecret?, metrics: Metrics, log: Log
    ) {
        self.intake = intake
        self.legacy = legacy
        self.health = health
        self.token = token
        self.metrics = metrics
        taken = metrics.counter(
            "repricer_http_requests_total", labels: ["route": "notifications", "status": "200"])
        self.log = log
        refusals = RefusalLog(log: log)
        notStored = Outage(
            log: log, level: .warning, failure: "notification not stored",
            recovery: "notifications are stored again")
        metrics.declareCounter(
            "repricer_http_requests_total", "Requests answered, by route and status.",
            labels: [
                "route": ["notifications"], "status": ["200", "400", "401", "403", "405", "503"],
            ])
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
        switch request.path {
        case "/notifications":
            return ("notifications", await request.only("POST") { await take(request) })
        case "/notifications/v1" where legacy != nil:
            return ("notifications_v1", await request.only("POST") { await takeLegacy(request) })
        default:
            return await health.answer(request) ?? ("none", .text(404, "no such path\n"))
        }
    }

    private func take(_ request: HTTPRequest) async -> HTTPResponse {
        if let obstacle = senderObstacle(request) { return obstacle }
        switch Envelope.payload(in: request.body) {
        case .failure(let refusal): return answer(to: intake.count(.refused(refusal)))
        case .success(let payload):
            return answer(
                to: await intake.take(payload) { arrival in
                    log.debug(
                        "notification verified",
                        [
                            "notification": arrival.notificationUUID, "type": arrival.type ?? "",
                            "subject": arrival.originalTransactionID ?? "",
                        ])
                })
        }
    }

    private func takeLegacy(_ request: HTTPRequest) async -> HTTPResponse {
        if let obstacle = senderObstacle(request) { return obstacle }
        guard let legacy else { return .text(404, "no such path\n") }
        return answer(to: await legacy.take(request.body))
    }

    private func senderObstacle(_ request: HTTPRequest) -> HTTPResponse? {
        if let token, !token.isBearer(in: request.headers["Authorization"]) {
            var response = problem(
                401, "bad_token", "the forwarder's bearer token is missing or wrong")
            response.headers["WWW-Authenticate"] = "Bearer"
            return response
        }
        return health.isDraining ? comeAgain("draining", "shutting down") : nil
    }

    private func answer(to outcome: IntakeOutcome) -> HTTPResponse {
        switch outcome {
        case .stored(let isNew, let understood):
            notStored.end()
            return .json(200, "{\"stored\":true,\"new\":\(isNew),\"understood\":\(understood)}\n")
        case .refused(let refusal):
            return refused(refusal)
        case .unavailable(let why), .outdated(let why):
            notStored.note(why)
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
}
