import Foundation
import HTTP
import Postgres
import ServiceKit
import TestSupport
import Testing

@testable import Pages

/// Who may see the pages: on a real socket; the database is away.
@Suite struct PageRoutesTests {
    private static let right = basic("ana:s3cret")

    private static func basic(_ pair: String) -> String {
        "Basic \(Data(pair.utf8).base64EncodedString())"
    }

    private static func fields(_ authorization: String?) -> [String: String] {
        authorization.map { ["Authorization": $0] } ?? [:]
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
            "/health", "/reports/money?format=csv", "/search?q=1",
        ]

        try await PagesHarness.withPages(password: "s3cret", metrics: metrics) { ask, _ in
            for target in targets {
                for method in ["GET", "HEAD", "POST", "OPTIONS"] {
                    let answer = try await ask(method, target, Self.fields(authorization))

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
        try await PagesHarness.withPages(password: "s3cret") { ask, _ in
            let long = "Basic " + String(repeating: "A", count: 17_000)
            let answer = try await ask("GET", "/metrics", ["Authorization": long])

            #expect(answer.status == 431)
        }
    }

    @Test(arguments: [right, basic(":s3cret"), basic("ben:s3cret"), "Bearer s3cret", nil])
    func page_withThePasswordOrWhereNoneIsAskedFor_isAnswered(
        _ authorization: String?
    ) async throws {
        let password = authorization == nil ? nil : "s3cret"
        try await PagesHarness.withPages(password: password) { ask, _ in
            let fields = Self.fields(authorization)
            let metrics = try await ask("GET", "/metrics", fields)
            #expect(metrics.status == 200)
            #expect(metrics.headers["Content-Type"]?.hasPrefix("text/plain; version=0.0.4") == true)

            // The database is away.
            let away = ["/", "/health", "/reports", "/reports/money", "/subscriptions/1"]
            for target in away {
                let answer = try await ask("GET", target, fields)
                #expect(answer.status == 503, "\(target)")
                #expect(answer.text.contains("The database cannot be read"))
                // A screen on a wall shows it again by itself.
                #expect(answer.text.contains("http-equiv=\"refresh\" content=\"10\""), "\(target)")
            }
            let missing = [
                "/batches/x", "/batches", "/batches/1/2", "/nowhere", "/%6detrics",
                "/reports/nothing", "/subscriptions", "/batches/1/approval/2",
            ]
            for target in missing {
                let answer = try await ask("GET", target, fields)
                #expect(answer.status == 404, "\(target)")
                #expect(answer.text.contains("<h1>"), "\(target)")
            }
            let notification = try await ask("POST", "/notifications", fields)
            #expect(notification.status == 405)
            let posted = try await ask("POST", "/", fields)
            #expect(posted.status == 405)
            #expect(posted.headers["Allow"] == "GET, HEAD, OPTIONS")
            let deleted = try await ask("DELETE", "/metrics", fields)
            #expect(deleted.status == 405)
            let head = try await ask("HEAD", "/metrics", fields)
            #expect(head.status == 200)
        }
    }

    @Test func health_isToldWithoutThePassword() async throws {
        try await PagesHarness.withPages(password: "s3cret") { ask, _ in
            for target in ["/healthz", "/readyz"] {
                let answer = try await ask("GET", target, [:])
                #expect(answer.status == 200)
            }
        }
    }

    // A page of somebody else may have its own name lead to this machine.
    @Test(arguments: [
        ("127.0.0.1:8081", true), ("127.1.2.3", true), ("localhost:8081", true),
        ("LOCALHOST", true),
        ("app.localhost:1", true), ("[::1]:8081", true), ("[::1]", true),
        ("evil.example", false), ("evil.example:8081", false), ("127.0.0.1.evil.example", false),
        ("127.evil.0.1", false), ("localhost.evil.example", false), ("[::2]:8081", false),
        ("", false),
        ("127.0.0.1:80:81", false), ("10.0.0.1:8081", false),
    ])
    func page_withoutAPassword_answersToTheNamesOfThisMachineAlone(
        _ host: String, _ isAnswered: Bool
    ) async {
        var headers = HTTPHeaders()
        headers["Host"] = host
        let open = Self.routes(password: nil)
        let closed = Self.routes(password: "s3cret")

        for target in ["/metrics", "/search"] {
            let request = HTTPRequest(method: "GET", target: target, headers: headers)
            let answer = await open.respond(to: request)
            #expect(answer.status == (isAnswered ? 200 : 421), "\(host) \(target)")
        }
        // Where a password is asked for, its name may be any.
        headers["Authorization"] = Self.right
        let asked = await closed.respond(
            to: HTTPRequest(method: "GET", target: "/metrics", headers: headers))
        #expect(asked.status == 200)
    }

    private static func routes(
        password: String?, guessPause: Duration = .zero
    ) -> PageRoutes {
        let pool = PostgresPool(conninfo: "host=/nowhere", applicationName: "test", size: 1)
        let about = Site.About(version: "1", bundleID: "b", environment: "Sandbox")
        return PageRoutes(
            site: Site(pool: pool, clock: ManualClock(1), about: about, log: .silent),
            health: HealthRoutes { nil },
            password: password.flatMap { SharedSecret(fileContent: $0) }, metrics: Metrics(),
            guessPause: guessPause)
    }

    @Test func wrongPasswords_sideBySide_areAnsweredOneAfterTheOther() async {
        let pause = Duration.milliseconds(40)
        let routes = Self.routes(password: "s3cret", guessPause: pause)
        var wrong = HTTPHeaders()
        wrong["Authorization"] = Self.basic("ana:wrong")
        var right = HTTPHeaders()
        right["Authorization"] = Self.right
        let (guess, known) = (wrong, right)

        let start = ContinuousClock.now
        await withTaskGroup(of: Int.self) { group in
            for _ in 0..<10 {
                group.addTask {
                    await routes.respond(
                        to: HTTPRequest(method: "GET", target: "/", headers: guess)
                    ).status
                }
            }
            for await status in group { #expect(status == 401) }
        }
        #expect(.now - start >= pause * 10)

        // They stand in the way of nobody who knows it, nor of the browser that asks what to ask for.
        let before = Self.routes(password: "s3cret", guessPause: .seconds(3600))
        let waiting = Task {
            await before.respond(to: HTTPRequest(method: "GET", target: "/", headers: guess))
        }
        let answer = await before.respond(
            to: HTTPRequest(method: "GET", target: "/metrics", headers: known))
        #expect(answer.status == 200)
        let asked = await before.respond(to: HTTPRequest(method: "GET", target: "/"))
        #expect(asked.status == 401)
        waiting.cancel()
        _ = await waiting.value
    }
}
