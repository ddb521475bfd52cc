package import HTTP
package import ServiceKit

/// Answers the requests of the pages' port: health to everybody, pages and metrics to who knows the password.
package struct PageRoutes: Sendable {
    private let pages: StatusPages
    private let health: HealthRoutes
    /// nil: none is asked for, since only this machine reaches the port.
    private let password: SharedSecret?
    private let metrics: Metrics

    package init(
        pages: StatusPages, health: HealthRoutes, password: SharedSecret?, metrics: Metrics
    ) {
        self.pages = pages
        self.health = health
        self.password = password
        self.metrics = metrics
        metrics.describe("repricer_http_requests_total", "Requests answered, by route and status.")
    }

    /// The handler for `HTTPServer`.
    package func respond(to request: HTTPRequest) async -> HTTPResponse {
        let (route, response) = await answer(request)
        metrics.increment(
            "repricer_http_requests_total",
            labels: ["route": route, "status": "\(response.status)"])
        return response
    }

    private func answer(_ request: HTTPRequest) async -> (route: String, HTTPResponse) {
        if let answer = await health.answer(request) { return answer }
        // Judged before the path, so that no spelling of one finds its way around, and nobody learns which exist.
        guard isAllowed(request) else { return ("denied", Self.askForPassword) }
        if request.path == "/metrics" {
            return ("metrics", await request.only("GET") { self.sayMetrics() })
        }
        guard let page = pages.page(at: request.pathSegments[...]) else {
            return ("none", .text(404, "no such page; see GET /\n"))
        }
        return (page.route, await request.only("GET", page.answer))
    }

    private func isAllowed(_ request: HTTPRequest) -> Bool {
        guard let password else { return true }
        let authorization = request.headers["Authorization"]
        return password.isBasicPassword(in: authorization) || password.isBearer(in: authorization)
    }

    private static var askForPassword: HTTPResponse {
        var response = HTTPResponse.text(
            401, "the password is missing or wrong: any user name, and the password of the pages\n")
        response.headers["WWW-Authenticate"] = #"Basic realm="repricer", charset="UTF-8""#
        response.headers["Cache-Control"] = "no-store"
        return response
    }

    private func sayMetrics() -> HTTPResponse {
        HTTPResponse(
            status: 200, contentType: "text/plain; version=0.0.4; charset=utf-8",
            text: metrics.render())
    }
}
