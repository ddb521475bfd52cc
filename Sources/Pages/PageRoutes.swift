package import HTTP
package import ServiceKit
import Synchronization

/// Answers the requests of the pages' port: health for everybody, pages and metrics for those with the password.
package struct PageRoutes: Sendable {
    private let site: Site
    private let health: HealthRoutes
    /// The password; nil where none is required, because only this machine can reach the port.
    private let password: SharedSecret?
    private let metrics: Metrics
    private let guesses: Guesses

    /// `guessPause` is the time that one wrong password takes, whoever tries it.
    package init(
        site: Site, health: HealthRoutes, password: SharedSecret?, metrics: Metrics,
        guessPause: Duration = .milliseconds(250)
    ) {
        self.site = site
        self.health = health
        self.password = password
        self.metrics = metrics
        guesses = Guesses(pause: guessPause)
        metrics.declareCounter(
            "repricer_http_requests_total", "Requests answered, by route and status.",
            labels: ["route": ["metrics"], "status": ["200"]])
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
        // Access is checked before the path, so that no spelling of a path bypasses it, and no one without access
        // learns which paths exist.
        if let refusal = await refusal(request) { return ("denied", refusal) }
        if request.path == "/metrics" {
            return ("metrics", await request.only("GET") { self.sayMetrics() })
        }
        let page = site.page(of: request)
        return (page.route, await request.only("GET", page.answer))
    }

    /// Why the request may see nothing; nil where it may.
    private func refusal(_ request: HTTPRequest) async -> HTTPResponse? {
        guard let password else {
            // DNS rebinding: a foreign page may point its own host name at this machine and read these pages through
            // its visitor's browser. Such a request has the foreign name in `Host`. With a password this check is not
            // needed, because the foreign page does not know it.
            return Self.isOfThisMachine(request.headers["Host"]) ? nil : Self.foreignName
        }
        let authorization = request.headers["Authorization"]
        if password.isBasicPassword(in: authorization) || password.isBearer(in: authorization) {
            return nil
        }
        if authorization != nil { await guesses.wait() }
        return Self.askForPassword
    }

    /// Whether the header `Host` names this machine, whatever the port.
    static func isOfThisMachine(_ host: String?) -> Bool {
        guard let host else { return true }
        let name = host.lowercased()
        if name.hasPrefix("[") { return name == "[::1]" || name.hasPrefix("[::1]:") }
        let bare = name.split(separator: ":", omittingEmptySubsequences: false)
        guard let first = bare.first, bare.count <= 2 else { return false }
        let parts = first.split(separator: ".", omittingEmptySubsequences: false)
        let isLoopback =
            parts.count == 4 && first.hasPrefix("127.") && parts.allSatisfy { UInt8($0) != nil }
        return isLoopback || first == "localhost" || first.hasSuffix(".localhost")
    }

    private static var foreignName: HTTPResponse {
        HTTPResponse.text(
            421,
            "these pages have no password and answer to the names of this machine alone: open them as "
                + "http://localhost:PORT/, or set REPRICER_PAGES_TOKEN_FILE\n")
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

/// Answers wrong passwords one after the other, each after a pause, which limits the guesses a second, from however
/// many addresses. Requests with the right password do not wait.
final class Guesses: Sendable {
    private let pause: Duration
    private let next = Mutex(ContinuousClock.now)

    init(pause: Duration) {
        self.pause = pause
    }

    func wait() async {
        let turn = next.withLock { next in
            next = max(next, .now) + pause
            return next
        }
        // A cancelled wait does no harm, because few connections can wait.
        try? await Task.sleep(until: turn)
    }
}
