import HTTP
import JOSE
import Postgres
import PriceChanges
import ServiceKit
import TestSupport
import Testing

@testable import AppStore
@testable import Calls
@testable import SandboxStore

/// Answers that no App Store should give, on a real socket: of one subscription they stop nobody, of all they end nothing.
@Suite(.database) struct OddAnswerTests {
    private typealias Harness = DeliveryHarness

    struct Form: Sendable, CustomTestStringConvertible {
        var name: String
        var status: String
        var headers = "Content-Type: application/json\r\n"
        var body: [UInt8] = []
        /// The answer itself, where it has no end: what comes first, and what follows for ever.
        var endless: (start: String, rest: String)?

        var testDescription: String { name }

        init(_ name: String, _ status: String, headers: String? = nil, _ body: String = "") {
            self.name = name
            self.status = status
            self.headers = headers ?? self.headers
            self.body = Array(body.utf8)
        }

        init(_ name: String, endless start: String, _ rest: String) {
            self.name = name
            status = ""
            endless = (start, rest)
        }

        var reply: CutServer.Reply {
            if let endless {
                return .init(bytes: Array(endless.start.utf8), endless: Array(endless.rest.utf8))
            }
            let head = "HTTP/1.1 \(status)\r\n\(headers)Content-Length: \(body.count)\r\n\r\n"
            return .init(bytes: Array(head.utf8) + body)
        }
    }

    private static let error = #"{"errorCode":4030010,"errorMessage":"x"}"#

    private static let gzipped: Form = {
        var form = Form(
            "gzip", "403 No",
            headers: "Content-Type: application/json\r\nContent-Encoding: gzip\r\n")
        form.body = [
            0x1F, 0x8B, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0xAB, 0x56, 0x4A, 0x2D,
            0x2A,
        ]
        return form
    }()

    private static let forms: [Form] = [
        Form("empty 400", "400 No"), Form("empty 401", "401 No"), Form("empty 403", "403 No"),
        Form("empty 413", "413 No"), Form("empty 429 like", "451 No"),
        Form("html 404", "404 No", headers: "Content-Type: text/html\r\n", "<h1>404</h1>"),
        Form("moved", "301 Moved", headers: "Location: http://127.0.0.1:9/else\r\n"),
        Form("found", "302 Found", headers: "Location: /else\r\n", error),
        Form("code as text", "403 No", #"{"errorCode":"4030010","errorMessage":"x"}"#),
        Form("code with a fraction", "403 No", #"{"errorCode":4030010.5}"#),
        Form("code below zero", "400 No", #"{"errorCode":-1}"#),
        Form("code of none", "400 No", #"{"errorCode":null}"#), Form("list", "400 No", "[]"),
        Form("cut JSON", "403 No", #"{"errorCode":4030010,"errorMess"#), gzipped,
        Form("200 garbage", "200 OK", "garbage"), Form("200 nothing", "200 OK"),
        Form("200 object", "200 OK", "{}"), Form("204", "204 No Content"),
        Form("200 html", "200 OK", headers: "Content-Type: text/html\r\n", "<p>ok</p>"),
        Form("500 html", "500 No", headers: "Content-Type: text/html\r\n", "<p>no</p>"),
        Form("502 empty", "502 No"),
    ]

    /// Answers without an end.
    private static let endless: [Form] = [
        Form("head a byte at a time", endless: "HTTP/1.1 200 OK\r\nA: ", "a"),
        Form(
            "body a byte at a time",
            endless: "HTTP/1.1 400 No\r\nContent-Length: 9000\r\n\r\n" + error, " "),
        Form("refusal whose end does not come", endless: "HTTP/1.1 403 No\r\n\r\n" + error, ""),
        Form(
            "body that does not end", endless: "HTTP/1.1 200 OK\r\n\r\n",
            String(repeating: "a", count: 100_000)),
        Form("interim answers", endless: "", "HTTP/1.1 100 Continue\r\n\r\n"),
        Form(
            "a longer body than anybody has",
            endless: "HTTP/1.1 403 No\r\nContent-Length: 9000000000000\r\n\r\n", " "),
        Form("nothing", endless: "", ""),
    ]

    private static func client(_ http: HTTPClient, _ harness: Harness) throws -> AppStoreClient {
        let authority = try CertificateAuthority(
            validFrom: 1_577_836_800_000, validUntil: 2_208_988_800_000)
        return AppStoreClient(
            http: http,
            token: BearerToken(
                key: try .generate(), keyID: "KEY", issuerID: "ISSUER", bundleID: "com.example",
                clock: harness.clock), clock: harness.clock,
            verifier: try JWSVerifier(roots: authority.trustedRoots()), bundleID: "com.example",
            environment: .production)
    }

    private static func states(_ harness: Harness, of ids: String) async throws -> [String] {
        try await harness.service.withConnection { connection in
            try await connection.query(
                SQL(
                    unsafe:
                        "SELECT DISTINCT state FROM repricer.price_changes WHERE original_transaction_id \(ids) ORDER BY 1"
                )
            ).map { try $0.text("state") }
        }
    }

    /// Short, where an answer without an end is to be given up.
    private static func http(_ server: CutServer, _ forms: [Form]) throws -> HTTPClient {
        var limits = HTTPClientLimits()
        if forms.contains(where: { $0.endless != nil }) {
            limits.requestDeadline = .milliseconds(300)
        }
        return try HTTPClient(baseURL: "http://127.0.0.1:\(server.port)", limits: limits)
    }

    @Test(arguments: [forms, endless])
    func oddAnswersOfSingleSubscriptions_stopNobodyAndEndNothing(forms: [Form]) async throws {
        let server = try CutServer { line in
            let path = line.split(separator: " ").dropFirst().first ?? ""
            let number = (path.split(separator: "/").last.flatMap { Int($0) } ?? 0) - 10_000
            guard forms.indices.contains(number) else { return .cut("") }
            return forms[number].reply
        }
        defer { server.stop() }
        let harness = try await Harness.make()
        let http = try Self.http(server, forms)
        let store = WireFor(
            odd: LiveStoreCalls(client: try Self.client(http, harness)), others: harness.store)
        let odd = forms.indices.map { "\(10_000 + $0)" }
        let others = (1...60).map(String.init)
        // Between two odd ones others succeed.
        var ids: [String] = []
        for index in others.indices {
            ids.append(others[index])
            if index % 2 == 0, odd.indices.contains(index / 2) { ids.append(odd[index / 2]) }
        }
        for id in ids { try await harness.subscribe(id) }
        try await harness.submitAndApprove(
            ids.enumerated().map { Harness.row($1, line: $0 + 2) })
        let scheduler = harness.scheduler(calls: store, perSecond: 1000)
        for _ in 0..<30 {
            try await harness.deliver(scheduler)
            harness.clock.advance(by: .seconds(20))
            harness.realClock.advance(by: .seconds(20))
        }

        #expect(
            try await Self.states(harness, of: "< '10000' OR length(original_transaction_id) < 5")
                == ["scheduled"])
        let left = try await Self.states(harness, of: "IN ('\(odd.joined(separator: "','"))')")
        #expect(Set(left).isSubset(of: ["queued", "unknown"]), "\(left)")
        // Nobody knows what an answer without an end would have said.
        #expect(forms.contains { $0.endless == nil } || left == ["unknown"], "\(left)")
        http.close()
        await harness.close()
    }

    @Test(arguments: forms + endless)
    func oddAnswerOfAll_endsNothing_andStopsBeforeFifty(form: Form) async throws {
        let server = try CutServer { _ in form.reply }
        defer { server.stop() }
        let harness = try await Harness.make()
        let http = try Self.http(server, [form])
        let store = WireFor(
            odd: LiveStoreCalls(client: try Self.client(http, harness)), others: harness.store)
        let ids = (10_001...10_060).map(String.init)
        for id in ids { try await harness.subscribe(id) }
        try await harness.submitAndApprove(
            ids.enumerated().map { Harness.row($1, line: $0 + 2) })
        let scheduler = harness.scheduler(calls: store)

        try await harness.deliver(scheduler)
        let asked = Set(server.requests.filter { $0.hasPrefix("POST") })
        for _ in 0..<3 {
            harness.clock.advance(by: .seconds(61))
            harness.realClock.advance(by: .seconds(61))
            try await harness.deliver(scheduler)
        }

        #expect(asked.count < 50)
        let left = try await Self.states(harness, of: "<> ''")
        #expect(Set(left).isSubset(of: ["queued", "unknown"]), "\(left)")
        http.close()
        await harness.close()
    }
}

/// Calls of subscriptions with long ids go to the wire; all others succeed.
private struct WireFor: StoreCalls {
    let odd: LiveStoreCalls
    let others: ScriptedStore

    func changePrice(
        _ intent: PriceChangeIntent, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer {
        intent.transactionID.utf8.count > 4
            ? await odd.changePrice(intent, leavingBefore: leavingBefore)
            : await others.changePrice(intent, leavingBefore: leavingBefore)
    }

    func checkStatus(transactionID: String) async -> StoreAnswer {
        await others.checkStatus(transactionID: transactionID)
    }
}
