import Foundation
import JOSE
import Postgres
import ServiceKit
import TestSupport
import Testing

@testable import HTTP
@testable import RepricerCommands

/// What monitoring sees of a real `repricer serve`, from its first scrape on.
@Suite(.database) struct MetricsPortTests {
    private static func settings(_ scratch: ScratchFolder) throws -> [String: String] {
        try scratch.serveSettings().merging(["REPRICER_RECONCILE_EVERY": "1h"]) { $1 }
    }

    private static func serve(
        _ settings: [String: String], _ more: String...
    ) async throws -> (program: Program, pages: HTTPClient, receiver: HTTPClient?) {
        let program = try Program(
            Program.built("repricer"), ["serve"] + more, environment: settings)
        let said = try await program.said(
            until: more.contains("json") ? #""message":"serving""# : "message=serving")
        let pages = try #require(
            said.firstMatch(of: /pages listening".*?port"?[=:]"?([0-9]+)/))
        let receiver = said.firstMatch(of: /message"?[=:]"?listening"?[ ,]"?port"?[=:]"?([0-9]+)/)
        return (
            program, try HTTPClient(baseURL: "http://127.0.0.1:\(pages.1)"),
            try receiver.map { try HTTPClient(baseURL: "http://127.0.0.1:\($0.1)") }
        )
    }

    private static func scrape(_ client: HTTPClient) async throws -> String {
        let answer = try await client.send(HTTPRequest(method: "GET", target: "/metrics"))
        #expect(answer.status == 200)
        return String(decoding: answer.body, as: UTF8.self)
    }

    /// The first scrape with the gauges of the database.
    private static func scrapeAll(_ client: HTTPClient, calls: Bool = true) async throws -> String {
        let last =
            ["repricer_inbox_oldest_age_seconds", "repricer_database_size_bytes"]
            + ["repricer_inbox_waiting", "repricer_ready"]
            + (calls ? ["repricer_changes_late_at_rate"] : [])
        var text = ""
        try await eventually("a scrape with counts") {
            text = try await scrape(client)
            return last.allSatisfy { text.contains("\n\($0) ") }
        }
        return text
    }

    private static func names(_ text: String, _ mark: String) -> Set<String> {
        Set(
            text.split(separator: "\n").filter { $0.hasPrefix("# \(mark) ") }
                .compactMap { $0.split(separator: " ").dropFirst(2).first.map(String.init) })
    }

    /// The first cells of the table of metrics.
    private static func documented() throws -> Set<String> {
        let page = try String(
            contentsOfFile: RepositoryFiles.path("Deploy/docs/OPERATIONS.md"), encoding: .utf8)
        let table = try #require(page.components(separatedBy: "### Metrics").last)
        return Set(
            table.split(separator: "\n").filter { $0.hasPrefix("| `") }.flatMap { row in
                row.dropFirst().prefix { $0 != "|" }.matches(of: /`([a-z_]+)`/).map { String($0.1) }
            })
    }

    @Test func metrics_ofTheFirstScrape_areThoseOfTheTable() async throws {
        let scratch = try ScratchFolder()
        var settings = try Self.settings(scratch)
        settings["REPRICER_FORWARDER_TOKEN_FILE"] = try scratch.secret("token", "t\n")
        let (program, pages, _) = try await Self.serve(settings)
        defer { program.kill() }

        let first = try await Self.scrape(pages)
        let text = try await Self.scrapeAll(pages)

        let (types, helps) = (Self.names(text, "TYPE"), Self.names(text, "HELP"))
        #expect(types.subtracting(helps) == [])
        #expect(helps.symmetricDifference(try Self.documented()) == [])
        // Nothing has happened yet, and yet each that may is there.
        #expect(Self.names(first, "HELP") == helps)
        for sample in [
            #"repricer_calls_total{kind="cancel",result="unknown"} 0"#,
            #"repricer_store_errors_total{code="4000205"} 0"#,
            #"repricer_store_requests_total{endpoint="change_price",result="throttled"} 0"#,
            #"repricer_store_request_seconds_count{endpoint="status"} 0"#,
            #"repricer_notifications_total{outcome="jws_chain"} 0"#,
            #"repricer_notifications_total{outcome="wrong_shared_secret"} 0"#,
            #"repricer_notifications_total{outcome="two_passwords"} 0"#,
            #"repricer_drift_total{field="items.current_price"} 0"#,
            #"repricer_webhooks_total{result="given_up"} 0"#, "repricer_delivery_failures_total 0",
            #"repricer_http_requests_total{route="notifications",status="503"} 0"#,
        ] {
            #expect(first.contains("\n\(sample)\n"), "\(sample)")
        }
        for sample in [
            "repricer_database_up 1", #"repricer_changes{state="unknown"} 0"#,
            #"repricer_calls_open{kind="price_change",state="unknown"} 0"#,
            #"repricer_rate_limit_calls_per_second{endpoint="change_price"} 5"#,
            "repricer_changes_late_at_rate 0", "repricer_webhooks_pending 0", "repricer_ready 1",
            #"repricer_rate_used_calls_per_second{endpoint="cancel"} 0"#,
            #"repricer_rate_silence_seconds{endpoint="change_price"} 0"#,
            #"repricer_pool_connections_max{pool="service"} 16"#,
        ] {
            #expect(text.contains("\n\(sample)\n"), "\(sample)")
        }
        #expect(text.contains(/repricer_build_info{commit="[0-9a-f]*",environment="/))
        for group in ["queues", "changes", "deadlines", "storage", "ages", "controls"] {
            #expect(first.contains(#"repricer_figures_read_timestamp_seconds{group="\#(group)"} "#))
        }
        #expect(
            text.contains("repricer_certificate_expiry_timestamp_seconds{certificate=\"root\"} "))
        try Self.checkByPromtool(text, scratch)
    }

    /// By Prometheus' own judge, where it is installed; it finds a metric without help.
    private static func checkByPromtool(_ text: String, _ scratch: ScratchFolder) throws {
        guard FileManager.default.isExecutableFile(atPath: "/usr/bin/promtool") else {
            let isInCI = !ProcessInfo.processInfo.environment["CI", default: ""].isEmpty
            #expect(!isInCI, "there is no promtool: run Deploy/install operations")
            return
        }
        func problems(_ text: String) throws -> String {
            let path = try scratch.file("scrape", text)
            let found = try Program.command(
                ["sh", "-c", "promtool check metrics <\(path) 2>&1 || true"])
            return String(decoding: found, as: UTF8.self)
        }
        let lines = text.split(separator: "\n").filter {
            !$0.hasPrefix("# HELP repricer_calls_total")
        }

        #expect(try problems(text) == "")
        #expect(try problems(lines.joined(separator: "\n") + "\n").contains("no help text"))
    }

    @Test(arguments: ["scheduler", "receiver"])
    func metrics_ofEachPart_tellOfTheDatabase(_ part: String) async throws {
        let scratch = try ScratchFolder()
        let (program, pages, _) = try await Self.serve(
            try Self.settings(scratch), "--only", part)
        defer { withExtendedLifetime(scratch) { program.kill() } }

        let calls = part == "scheduler"
        let text = try await Self.scrapeAll(pages, calls: calls)

        #expect(text.contains("\nrepricer_database_up 1\n"))
        #expect(text.contains("\nrepricer_ready 1\n"))
        // A receiver makes no calls, so its settings of rates are not those that count.
        #expect(text.contains("\nrepricer_changes_late_at_rate ") == calls)
        #expect(text.contains("\nrepricer_rate_limit_calls_per_second{") == calls)
        #expect(text.contains("repricer_delivery_failures_total") == (part == "scheduler"))
        // What a scheduler reads of Apple's history it verifies, too.
        #expect(text.contains("repricer_notification_verify_seconds"))
    }

    @Test func metrics_whenTheDatabaseGoesAndComes_areAnswered_andTheLogSaysItOnce() async throws {
        let other = try await PostgresConnection.connect(
            try await TestDatabase.makeEmptyDatabase(), applicationName: "test")
        let name = try await TestDatabase.connect().query("SELECT current_database() AS n").one()
            .text("n")
        let scratch = try ScratchFolder()
        let (program, pages, receiver) = try await Self.serve(try Self.settings(scratch))
        defer { withExtendedLifetime(scratch) { program.kill() } }
        _ = try await Self.scrapeAll(pages)

        try await other.script("ALTER DATABASE \(name) ALLOW_CONNECTIONS false")
        try await other.script(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '\(name)'")
        try await eventually("a scrape without a database") {
            try await Self.scrape(pages).contains("\nrepricer_database_up 0\n")
        }
        for _ in 0..<20 {
            let answer = try await #require(receiver).send(
                HTTPRequest(method: "GET", target: "/readyz"))
            #expect(answer.status == 503)
        }
        try await other.script("ALTER DATABASE \(name) ALLOW_CONNECTIONS true")
        try await eventually("a scrape with the database") {
            try await Self.scrape(pages).contains("\nrepricer_database_up 1\n")
        }
        try await program.said(until: "message=\"the database is back\"")

        let lines = program.saidSoFar.split(separator: "\n")
        let complaints = lines.filter { $0.contains("level=error") || $0.contains("level=warning") }
        let away = complaints.filter { $0.contains("the database is away; what needs it") }
        #expect(away.count == 1, "\(away)")
        #expect(complaints.count <= 4, "\(complaints.joined(separator: "\n"))")
    }

    /// Who fails says why, and never with which password.
    @Test(arguments: ["text", "json"])
    func log_ofEveryErrorPath_holdsNoSecretAndNoPayload(_ format: String) async throws {
        let scratch = try ScratchFolder()
        var settings = try Self.settings(scratch)
        let planted = (1...7).map { "planted\($0)" + String(repeating: "x", count: 24) }
        let pem = try ES256PrivateKey.newPEM()
        settings["REPRICER_KEY_FILE"] = try scratch.secret("own.p8", pem)
        settings["REPRICER_FORWARDER_TOKEN_FILE"] = try scratch.secret("f", planted[0])
        settings["REPRICER_PAGES_TOKEN_FILE"] = try scratch.secret("p", planted[1])
        settings["REPRICER_WEBHOOK_URL"] = "http://127.0.0.1:9/hooks/\(planted[2])"
        settings["REPRICER_WEBHOOK_SECRET_FILE"] = try scratch.secret("w", planted[3])
        // The first host refuses, and its error quotes what libpq was given.
        settings["REPRICER_DATABASE_URL"] =
            "postgresql://nobody:\(planted[4])@127.0.0.1:9/x?connect_timeout=2"
        let (program, pages, receiver) = try await Self.serve(
            settings, "--log-format", format, "--log-level", "debug")
        defer { program.kill() }
        let inbox = try #require(receiver)

        for (token, body) in [
            (planted[0], #"{"signedPayload":"\#(planted[5])"}"#), (planted[6], "{}"),
            (planted[0], planted[5]), (planted[0], #"{"signedPayload":"a.\#(planted[5]).c"}"#),
        ] {
            let headers = HTTPHeaders([
                ("Authorization", "Bearer \(token)"), ("X-Request-Id", "r-1"),
            ])
            let answer = try await inbox.send(
                HTTPRequest(
                    method: "POST", target: "/notifications", headers: headers,
                    body: Array(body.utf8)))
            #expect((400...403).contains(answer.status))
            #expect(answer.headers["X-Request-Id"] == "r-1")
        }
        let made = try await inbox.send(HTTPRequest(method: "GET", target: "/healthz"))
        #expect(RequestID.isUsable(made.headers["X-Request-Id"] ?? ""))
        for secret in [planted[1], planted[6]] {
            let headers = HTTPHeaders([("Authorization", "Bearer \(secret)")])
            _ = try await pages.send(
                HTTPRequest(method: "GET", target: "/metrics?\(planted[5])", headers: headers))
        }
        try await eventually("the outage in the log") {
            program.saidSoFar.contains("the database is away; what needs it is tried again")
        }
        program.send(signal: SIGTERM)
        _ = try await program.end()

        let log = program.saidSoFar
        let key = pem.split(separator: "\n").filter { !$0.hasPrefix("-") }.map(String.init)
        #expect(log.split(separator: "\n").count > 10)
        #expect((planted + key).filter { log.contains($0) } == [])
        #expect(log.contains(format == "json" ? #""request":"r-1""# : "request=r-1"))
        guard format == "json" else { return }
        for line in log.split(separator: "\n") {
            let object = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
            #expect(object?["message"] is String && object?["level"] is String, "\(line)")
        }
    }
}
