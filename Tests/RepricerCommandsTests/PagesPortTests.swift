import Foundation
import JOSE
import TestSupport
import Testing

@testable import HTTP
@testable import RepricerCommands

/// A real `repricer serve` with its two ports: one faces Apple, the other people.
@Suite(.database) struct PagesPortTests {
    private static let basic = "Basic \(Data("ana:one".utf8).base64EncodedString())"
    /// Each is a page or the metrics, as spelt by somebody who wants past a proxy's rule.
    private static let oddTargets = [
        "/", "//", "/./", "/metrics", "//metrics", "/metrics/", "/%6detrics", "/./metrics",
        "/notifications/../metrics", "/batches/x", "//batches/x", "http://127.0.0.1/metrics",
        "http://127.0.0.1//metrics", "HTTP://127.0.0.1/%6detrics", "http://127.0.0.1",
        "http://127.0.0.1?/notifications",
    ]

    /// The status of one request, whose target no client of ours would send.
    private static func status(
        _ target: String, _ authorization: String?, _ port: Int
    ) async throws -> Int {
        let field = authorization.map { "Authorization: \($0)\r\n" } ?? ""
        let deadline = Deadline.now + .seconds(60)
        let address = try #require(
            AddressList(host: "127.0.0.1", port: port, isPassive: false).entries.first)
        let stream = SocketStream(descriptor: address.openSocket())
        #expect(stream.connect(to: address, until: deadline) == 0)
        let request =
            "GET \(target) HTTP/1.1\r\nHost: 127.0.0.1\r\n\(field)Connection: close\r\n\r\n"
        try stream.write(Array(request.utf8), until: deadline)
        let answer = String(decoding: try stream.read(until: deadline), as: UTF8.self)
        return try #require(Int(answer.dropFirst("HTTP/1.1 ".count).prefix(3)), "\(answer)")
    }

    /// What `config check` says of them, with single blanks.
    private static func pagesLine(_ outcome: Outcome) -> String? {
        outcome.output.split(separator: "\n").first { $0.hasPrefix("pages") }?
            .split(separator: " ").joined(separator: " ")
    }

    @Test func serve_withAPassword_showsPagesToWhoKnowsItAndNothingToApplesPort() async throws {
        let scratch = try ScratchFolder()
        var settings = try scratch.serveSettings()
        settings["REPRICER_PAGES_TOKEN_FILE"] = try scratch.secret("pages.token", "one\n")
        let program = try Program(
            Program.built("repricer"), ["serve"], environment: settings)
        defer { program.kill() }
        let said = try await program.said(until: "message=serving")
        let receiver = try #require(said.firstMatch(of: /message=listening port=([0-9]+)/))
        let pages = try #require(
            said.firstMatch(of: /message="pages listening".* port=([0-9]+)/))
        #expect(said.contains(#"password="asked for""#))
        let apples = try #require(Int(receiver.1))
        let peoples = try #require(Int(pages.1))

        for target in Self.oddTargets {
            #expect(try await Self.status(target, nil, apples) == 404, "\(target)")
            #expect(try await Self.status(target, Self.basic, apples) == 404, "\(target)")
            #expect(try await Self.status(target, nil, peoples) == 401, "\(target)")
        }
        // Its field `Host` says another.
        for port in [apples, peoples] {
            let status = try await Self.status("http://elsewhere.example/metrics", nil, port)
            #expect(status == 400)
        }
        for path in ["/healthz", "/readyz"] {
            #expect(try await Self.status(path, nil, apples) == 200)
            #expect(try await Self.status(path, nil, peoples) == 200)
        }
        #expect(try await Self.status("/", Self.basic, peoples) == 200)
        #expect(try await Self.status("/metrics", Self.basic, peoples) == 200)
        #expect(try await Self.status("/metrics", "Bearer one", peoples) == 200)
        #expect(try await Self.status("/metrics", "Bearer two", peoples) == 401)

        try scratch.secret("pages.token", "two\n")
        program.send(signal: SIGHUP)
        try await program.said(until: "secret replaced")
        #expect(try await Self.status("/metrics", "Bearer two", peoples) == 200)
        #expect(try await Self.status("/metrics", Self.basic, peoples) == 401)
    }

    @Test func serve_ofTheSchedulerAlone_opensThePagesPortOnly() async throws {
        let scratch = try ScratchFolder()
        let program = try Program(
            Program.built("repricer"), ["serve", "--only", "scheduler"],
            environment: try scratch.serveSettings())
        defer { program.kill() }
        let said = try await program.said(until: "message=serving")
        #expect(!said.contains("message=listening port="))
        #expect(said.contains(#"password="none, for this machine only""#))
        let pages = try #require(
            said.firstMatch(of: /message="pages listening".* port=([0-9]+)/))
        let port = try #require(Int(pages.1))

        for path in ["/", "/metrics", "/healthz", "/readyz"] {
            #expect(try await Self.status(path, nil, port) == 200, "\(path)")
        }
        #expect(try await Self.status("/notifications", nil, port) == 404)

        program.send(signal: SIGTERM)
        #expect(try await program.end().code == 0)
    }

    /// A proxy turns to another replica while this one still answers.
    @Test func serve_toldToEnd_saysSoBeforeItStops_andEndsAtOnceWhenToldAgain() async throws {
        let scratch = try ScratchFolder()
        var settings = try scratch.serveSettings()
        settings["REPRICER_DRAIN_WAIT"] = "10m"
        let program = try Program(
            Program.built("repricer"), ["serve", "--only", "scheduler"], environment: settings)
        defer { program.kill() }
        let said = try await program.said(until: "message=serving")
        let line = try #require(said.firstMatch(of: /message="pages listening".* port=([0-9]+)/))
        let port = try #require(Int(line.1))
        let before = try await Self.status("/readyz", nil, port)

        program.send(signal: SIGTERM)
        try await program.said(until: "stopping on a signal")
        try await eventually { try await Self.status("/readyz", nil, port) == 503 }
        let alive = try await Self.status("/healthz", nil, port)
        program.send(signal: SIGTERM)

        #expect(before == 200)
        #expect(alive == 200)
        #expect(try await program.end().code == 130)
    }

    @Test func serve_whereOthersReachPagesWithoutAPassword_isRefusedWithTheRemedy() async throws {
        let scratch = try ScratchFolder()
        var settings = try scratch.serveSettings()
        settings["REPRICER_PAGES_LISTEN"] = "0.0.0.0:0"
        let fault = "REPRICER_PAGES_TOKEN_FILE: is not set; other machines reach"

        for command in [
            ["serve"], ["serve", "--only", "scheduler"], ["serve", "--only", "receiver"],
        ] {
            let outcome = await run(command, environment: settings)
            #expect(outcome.code == .failed)
            #expect(outcome.messages.contains(fault))
        }
        let check = await run("config", "check", environment: settings)
        #expect(check.messages.contains(fault))
        #expect(Self.pagesLine(check) == "pages not tried")

        let token = try scratch.secret("pages.token", "one\n")
        settings["REPRICER_PAGES_TOKEN_FILE"] = token
        chmod(token, 0o644)
        for command in [["serve"], ["config", "check"]] {
            let outcome = await run(command, environment: settings)
            #expect(outcome.messages.contains("\(token) can be read by others (mode 644)"))
            #expect(outcome.messages.contains("chmod 600 \(token)"))
        }
    }

    @Test func configCheck_saysWhereThePagesAreAndWhetherTheyAskForAPassword() async throws {
        let scratch = try ScratchFolder()
        var settings = try scratch.serveSettings()
        settings["REPRICER_PAGES_LISTEN"] = "127.0.0.1:8081"
        let open = await run("config", "check", environment: settings)
        settings["REPRICER_PAGES_LISTEN"] = "off"
        let off = await run("config", "check", environment: settings)
        let token = try scratch.secret("pages.token", "one\n")
        settings["REPRICER_PAGES_LISTEN"] = "[::]:8081"
        settings["REPRICER_PAGES_TOKEN_FILE"] = token
        let closed = await run("config", "check", environment: settings)

        #expect(
            Self.pagesLine(open) == "pages ok 127.0.0.1:8081, no password, for this machine only")
        #expect(Self.pagesLine(off) == "pages ok off")
        #expect(Self.pagesLine(closed) == "pages ok [::]:8081, the password is in \(token)")
    }
}
