import Foundation
import HTTP
import Postgres
import ServiceKit
import TestSupport
import Testing

@testable import Reports

/// The port of the pages on a real socket; the database is away where a test names none.
@Suite(.database) struct PageRoutesTests {
    private static let right = basic("ana:s3cret")

    private static func basic(_ pair: String) -> String {
        "Basic \(Data(pair.utf8).base64EncodedString())"
    }

    private typealias Ask =
        @Sendable (_ method: String, _ target: String, _ authorization: String?) async throws
        -> HTTPResponse

    private static func withPages(
        password: String?, metrics: Metrics = Metrics(), conninfo: String = "host=/nowhere",
        _ body: (Ask) async throws -> Void
    ) async throws {
        let pool = PostgresPool(conninfo: conninfo, applicationName: "test", size: 1)
        let routes = PageRoutes(
            pages: StatusPages(
                reports: ReportStore(pool: pool), clock: ManualClock(1), log: .silent),
            health: HealthRoutes { nil },
            password: password.flatMap { SharedSecret(fileContent: $0) }, metrics: metrics)
        let server = try HTTPServer(host: "127.0.0.1", port: 0, log: .silent) {
            await routes.respond(to: $0)
        }
        let client = try HTTPClient(baseURL: "http://127.0.0.1:\(try server.bind())")
        let serving = Task { try await server.run() }
        defer { serving.cancel() }
        try await body { method, target, authorization in
            var headers = HTTPHeaders()
            headers["Authorization"] = authorization
            return try await client.send(
                HTTPRequest(method: method, target: target, headers: headers))
        }
        client.close()
        serving.cancel()
        try await serving.value
        await pool.close()
    }

    @Test(arguments: [
        nil, "", "Basic", "Basic ", "Basic !!!!", "Basic s3cret", "Digest username=\"ana\"",
        "Negotiate YII=", "Bearer", "Bearer wrong", basic(""), basic("ana"), basic("ana:"),
        basic("ana:wrong"), basic("s3cret:"), basic("ana:s3cret") + "!",
        "Digest " + basic("ana:s3cret").dropFirst(6),
        basic("ana:" + String(repeating: "x", count: 9000)),
    ])
    func page_withoutThePassword_is401ByItsFieldWhateverThePath(
        _ authorization: String?
    ) async throws {
        let metrics = Metrics()
        let targets = [
            "/", "//", "/metrics", "//metrics", "/%6detrics", "/batches/x", "/nowhere", "/./",
            "/healthz/", "//healthz", "/%68ealthz", "/healthz/../metrics", "/readyz/metrics",
        ]

        try await Self.withPages(password: "s3cret", metrics: metrics) { ask in
            for target in targets {
                for method in ["GET", "HEAD", "POST", "OPTIONS"] {
                    let answer = try await ask(method, target, authorization)

                    #expect(answer.status == 401, "\(method) \(target)")
                    #expect(
                        answer.headers["WWW-Authenticate"]
                            == #"Basic realm="repricer", charset="UTF-8""#)
                    #expect(answer.headers["Cache-Control"] == "no-store")
                }
            }
        }
        #expect(
            metrics.render().contains(
                "repricer_http_requests_total{route=\"denied\",status=\"401\"} \(4 * targets.count)"
            ))
    }

    @Test func page_underAHugeHeader_is431() async throws {
        try await Self.withPages(password: "s3cret") { ask in
            let answer = try await ask(
                "GET", "/metrics", "Basic " + String(repeating: "A", count: 17_000))

            #expect(answer.status == 431)
        }
    }

    @Test(arguments: [right, basic(":s3cret"), basic("ben:s3cret"), "Bearer s3cret", nil])
    func page_withThePasswordOrWhereNoneIsAskedFor_isAnswered(
        _ authorization: String?
    ) async throws {
        try await Self.withPages(password: authorization == nil ? nil : "s3cret") { ask in
            let metrics = try await ask("GET", "/metrics", authorization)
            #expect(metrics.status == 200)
            #expect(metrics.headers["Content-Type"]?.hasPrefix("text/plain; version=0.0.4") == true)

            // The database is away.
            let status1 = try await ask("GET", "/", authorization).status
            #expect(status1 == 503)
            let status2 = try await ask("GET", "/batches/x", authorization).status
            #expect(status2 == 404)
            let status3 = try await ask("GET", "/batches", authorization).status
            #expect(status3 == 404)
            let status4 = try await ask("GET", "/batches/1/2", authorization).status
            #expect(status4 == 404)
            let status5 = try await ask("GET", "/nowhere", authorization).status
            #expect(status5 == 404)
            let status6 = try await ask("GET", "/%6detrics", authorization).status
            #expect(status6 == 404)
            let status7 = try await ask("POST", "/notifications", authorization).status
            #expect(status7 == 404)
            let posted = try await ask("POST", "/", authorization)
            #expect(posted.status == 405)
            #expect(posted.headers["Allow"] == "GET, HEAD, OPTIONS")
            let status8 = try await ask("DELETE", "/metrics", authorization).status
            #expect(status8 == 405)
            let status9 = try await ask("HEAD", "/metrics", authorization).status
            #expect(status9 == 200)
        }
    }

    @Test func health_isToldWithoutThePassword() async throws {
        try await Self.withPages(password: "s3cret") { ask in
            let status10 = try await ask("GET", "/healthz", nil).status
            #expect(status10 == 200)
            let status11 = try await ask("GET", "/readyz", nil).status
            #expect(status11 == 200)
        }
    }

    @Test func pages_whenABatchExists_showItEscapedAndLinked() async throws {
        let id = "00000000-0000-7000-8000-00000000000a"
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            INSERT INTO repricer.batches (batch_id, name, content_sha256, plan_hash, planned_as_of,
                row_count, submitted_at)
            VALUES ('\(id)', '<b>&"spring"', 'c', 'h', '2026-01-01Z', 1, '2026-01-01Z');
            """)
        await connection.close()

        try await Self.withPages(password: "s3cret", conninfo: TestDatabase.url) { ask in
            let index = try await ask("GET", "/", Self.right)
            let page = try await ask("GET", "/batches/\(id)", Self.right)
            let other = try await ask("GET", "/batches/\(id.dropLast())b", Self.right)
            let odd = try await ask("GET", "/batches/%27%3B", Self.right)

            let text = String(decoding: index.body, as: UTF8.self)
            #expect(index.status == 200)
            #expect(text.contains("&lt;b&gt;&amp;&quot;spring&quot;"))
            #expect(text.contains("href=\"/batches/\(id)\""))
            #expect(!text.contains("<b>"))
            #expect(
                index.headers["Content-Security-Policy"]?.hasPrefix("default-src 'none'") == true)
            #expect(page.status == 200)
            #expect(String(decoding: page.body, as: UTF8.self).contains("rows add up"))
            #expect(other.status == 404)
            #expect(odd.status == 404)
        }
    }
}
