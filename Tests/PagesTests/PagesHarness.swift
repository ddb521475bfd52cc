import Foundation
import HTTP
import Postgres
import ServiceKit
import TestSupport

@testable import Pages

/// Pages on a real socket, over a database of the test.
enum PagesHarness {
    typealias Ask =
        @Sendable (_ method: String, _ target: String, _ headers: [String: String]) async throws
        -> HTTPResponse

    @discardableResult
    static func withPages<T: Sendable>(
        password: String? = nil, metrics: Metrics = Metrics(),
        conninfo: String = "host=/nowhere", now: Int64 = PagesFixture.now,
        guessPause: Duration = .zero,
        changing: @escaping @Sendable (String, HTTPResponse) -> HTTPResponse = { $1 },
        _ body: (Ask, _ base: String) async throws -> T
    ) async throws -> T {
        let pool = PostgresPool(conninfo: conninfo, applicationName: "test", size: 4)
        let about = Site.About(
            version: "1.2.3", bundleID: "com.example.app", environment: "Production",
            callsPerThousandSeconds: 50_000)
        let routes = PageRoutes(
            site: Site(pool: pool, clock: ManualClock(now), about: about, log: .silent),
            health: HealthRoutes { nil },
            password: password.flatMap { SharedSecret(fileContent: $0) }, metrics: metrics,
            guessPause: guessPause)
        let server = try HTTPServer(host: "127.0.0.1", port: 0, log: .silent) {
            changing($0.target, await routes.respond(to: $0))
        }
        let base = "http://127.0.0.1:\(try server.bind())"
        let client = try HTTPClient(baseURL: base)
        let serving = Task { try await server.run() }
        defer { serving.cancel() }
        let value = try await body(
            { method, target, fields in
                var headers = HTTPHeaders()
                for (name, value) in fields { headers[name] = value }
                return try await client.send(
                    HTTPRequest(method: method, target: target, headers: headers))
            }, base)
        client.close()
        serving.cancel()
        try await serving.value
        await pool.close()
        return value
    }
}

extension PagesHarness {
    /// The page, once its first counts are there: a slow machine shows it without them at first.
    static func whole(_ target: String, _ ask: Ask) async throws -> String {
        var text = ""
        try await eventually("the counts of \(target)") {
            text = try await ask("GET", target, [:]).text
            return !text.contains("are being counted") && !text.contains("Still counted:")
        }
        return text
    }
}

extension HTTPResponse {
    var text: String { String(decoding: body, as: UTF8.self) }
}
