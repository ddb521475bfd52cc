import Synchronization

/// `/healthz` and `/readyz`, which each port of a process answers alike, without authentication.
package final class HealthRoutes: Sendable {
    /// The time within which a probe is answered. Otherwise it would hang with a hanging database.
    package static let answersWithin: Duration = .seconds(2)
    /// The most unanswered checks, so that probes of a hanging database do not pile up.
    private static let askedMax = 8

    private let obstacle: @Sendable () async -> String?
    private let limit: Duration
    private let asked = Atomic(0)
    private let leaving = Atomic(false)
    private let draining = Atomic(false)

    /// `obstacle` is nil when the process is ready, and otherwise says why not, in words for a person. Where it takes
    /// longer than the limit, the process is not ready.
    package init(
        within limit: Duration = answersWithin, obstacle: @escaping @Sendable () async -> String?
    ) {
        self.limit = limit
        self.obstacle = obstacle
    }

    /// From now on `/readyz` says that the process is about to end, so that a proxy turns to another replica. Requests
    /// that still arrive are served.
    package func leave() {
        leaving.store(true, ordering: .releasing)
    }

    /// From now on nothing more is taken in.
    package func drain() {
        leave()
        draining.store(true, ordering: .releasing)
    }

    package var isDraining: Bool { draining.load(ordering: .acquiring) }

    /// The answer and the name of its route; nil for another path, and for another spelling of these paths.
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
        if leaving.load(ordering: .acquiring) { return .text(503, "draining\n") }
        guard let why = await obstacleInTime() else { return .text(200, "ready\n") }
        return .text(503, "\(why)\n")
    }

    /// Why the process is not ready; nil where it is, though it may be about to end.
    package func obstacleInTime() async -> String? {
        let (answers, answer) = AsyncStream.makeStream(of: String?.self)
        let late = "the database has not answered within \(limit)"
        guard asked.load(ordering: .relaxed) < Self.askedMax else { return late }
        asked.add(1, ordering: .relaxed)
        Task {
            let why = await obstacle()
            asked.subtract(1, ordering: .relaxed)
            answer.yield(why)
        }
        let timer = Task {
            // The sleep is cancelled once there is an answer.
            try? await Task.sleep(for: limit)
            answer.yield(late)
        }
        defer { timer.cancel() }
        for await why in answers { return why }
        return late
    }
}

extension HTTPRequest {
    /// The answer of a path that allows one method: 405 for any other method, and the list of allowed ones for OPTIONS.
    package func only(
        _ method: String, _ answer: () async -> HTTPResponse
    ) async -> HTTPResponse {
        // Where GET is answered, HEAD is too. The server leaves the body out.
        let isAllowed = self.method == method || (self.method == "HEAD" && method == "GET")
        if isAllowed { return await answer() }
        var response =
            self.method == "OPTIONS"
            ? HTTPResponse(status: 204) : HTTPResponse.text(405, "\(path) takes \(method)\n")
        response.headers["Allow"] = method == "GET" ? "GET, HEAD, OPTIONS" : "\(method), OPTIONS"
        return response
    }
}
