import Synchronization

/// `/healthz` and `/readyz`, which each port of a process answers alike, and to everybody.
package final class HealthRoutes: Sendable {
    private let obstacle: @Sendable () async -> String?
    private let draining = Atomic(false)

    /// `obstacle` is nil when the process is ready, else why not, in words for a person.
    package init(obstacle: @escaping @Sendable () async -> String?) {
        self.obstacle = obstacle
    }

    /// From now on the process is not ready, so that senders turn to another replica.
    package func drain() {
        draining.store(true, ordering: .releasing)
    }

    package var isDraining: Bool { draining.load(ordering: .acquiring) }

    /// The answer with the name of its route; nil for another path, and for another spelling of these.
    package func answer(
        _ request: HTTPRequest
    ) async -> (route: String, HTTPResponse)? {
        switch request.path {
        case "/healthz": ("healthz", await request.only("GET") { .text(200, "ok\n") })
        case "/readyz": ("readyz", await request.only("GET") { await self.sayReady() })
        default: nil
        }
    }

    private func sayReady() async -> HTTPResponse {
        if isDraining { return .text(503, "draining\n") }
        guard let why = await obstacle() else { return .text(200, "ready\n") }
        return .text(503, "\(why)\n")
    }
}

extension HTTPRequest {
    /// The answer of a path that takes one method: 405 for any other, and what it takes for OPTIONS.
    package func only(
        _ method: String, _ answer: () async -> HTTPResponse
    ) async -> HTTPResponse {
        // Where GET is answered, HEAD is too; the server leaves the body out.
        let isAllowed = self.method == method || (self.method == "HEAD" && method == "GET")
        if isAllowed { return await answer() }
        var response =
            self.method == "OPTIONS"
            ? HTTPResponse(status: 204) : HTTPResponse.text(405, "\(path) takes \(method)\n")
        response.headers["Allow"] = method == "GET" ? "GET, HEAD, OPTIONS" : "\(method), OPTIONS"
        return response
    }
}
