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

/// "What a refusal of Apple means" for every documented code, and for thirty that are not, each answered on a real socket.
@Suite(.database) struct RefusalConformanceTests {
    private typealias Harness = DeliveryHarness

    private static let refusals = RefusalTable.refusals

    @Test func table_hasEveryDocumentedCode() {
        #expect(RefusalTable.documented.count >= 127 + RefusalTable.ofServerAPI.count)
        #expect(RefusalTable.undocumented.allSatisfy { APIErrorCode(rawValue: $0).name == nil })
        let server = Set(APIErrorCode.serverAPINames.keys)
        #expect(server.subtracting(RefusalTable.ofServerAPI) == [4_040_002, 4_040_004, 4_040_006])
        #expect(RefusalTable.final.isSubset(of: RefusalTable.documented))
    }

    @Test func oddRefusalOfEachCode_whileOthersSucceed_endsOrParksItsRowAlone() async throws {
        let server = try CutServer { line in
            let path = line.split(separator: " ").dropFirst().first ?? ""
            let code = path.split(separator: "/").last ?? ""
            let body = #"{"errorCode":\#(code),"errorMessage":"as scripted"}"#
            return .init(
                bytes: Array(
                    """
                    HTTP/1.1 \(code.prefix(3)) No\r\nContent-Type: application/json\r
                    Content-Length: \(body.utf8.count)\r\n\r\n\(body)
                    """.utf8))
        }
        defer { server.stop() }
        let harness = try await Harness.make()
        let client = try HTTPClient(baseURL: "http://127.0.0.1:\(server.port)")
        let store = OddStore(
            odd: LiveStoreCalls(client: try Self.client(client, harness)), others: harness.store)
        // The id of an odd subscription is the code that its calls get.
        let odd = Self.refusals.map(String.init)
        let others = (1...300).map(String.init)
        for id in odd + others { try await harness.subscribe(id) }
        try await harness.submitAndApprove(
            (odd + others).enumerated().map { Harness.row($1, line: $0 + 2) })
        let scheduler = harness.scheduler(calls: store, perSecond: 1000)
        for _ in 0..<6 {
            for _ in 0..<60 where try await scheduler.round() == 0 { break }
            harness.clock.advance(by: .seconds(61))
            harness.realClock.advance(by: .seconds(61))
        }

        let states = try await Self.states(harness)
        #expect(others.allSatisfy { states[$0] == "scheduled" })
        for code in Self.refusals {
            #expect(states[String(code)] == Self.expected(code), "\(code)")
        }
        #expect(try await harness.halted() == 0)
        client.close()
        await harness.close()
    }

    private static func expected(_ code: Int) -> String {
        RefusalTable.final.contains(code) ? "rejected" : "queued \(code)"
    }

    private static func states(_ harness: Harness) async throws -> [String: String] {
        try await harness.service.withConnection { connection in
            let rows = try await connection.query(
                """
                SELECT original_transaction_id AS id,
                    concat_ws(' ', state, split_part(parked_reason, ' ', 1)) AS state
                FROM repricer.price_changes
                """)
            return Dictionary(
                uniqueKeysWithValues: try rows.map { (try $0.text("id"), try $0.text("state")) })
        }
    }

    /// All calls refused alike, of two batches: few rows end, and then all stop.
    @Test(arguments: refusals)
    func sameRefusalOfAll_endsFewRows(code: Int) throws {
        let answer = StoreAnswer(
            CallOutcome<Void>.refused(
                code: APIErrorCode(rawValue: code), message: "",
                StoreReply(HTTPResponse(status: code / 10_000, body: [])))
        ) { StoreWords([]) }
        let refusal = try #require(answer.refusal)
        let recent = RecentAnswers()
        recent.noteLive(batches: 2)
        let verdicts = (0..<60).map { number in
            recent.judge(
                refusal, of: "\(number)", .priceChange,
                [CallScope(batchID: "batch \(number % 2)", storefront: "USA")], realNow: 0)
        }

        #expect(verdicts.count { $0 == .believed } < 50)
        // A price that is missing in a storefront stops that storefront, of each batch that meets it.
        for (number, verdict) in verdicts.enumerated().suffix(40) {
            let place = CallScope(batchID: "batch \(number % 2)", storefront: "USA")
            #expect(
                verdict == .systemic(code == 4_000_134 ? .storefront(place) : .all), "\(number)")
        }
    }

    /// Nothing but refusals, each time another one: they fail alike, too.
    @Test func refusalsOfEveryKind_withoutAnySuccess_areSystemic() throws {
        let recent = RecentAnswers()
        let verdicts = (0..<60).map { number in
            recent.judge(
                StoreRefusal(
                    code: 4_030_000 + number % 7, name: "odd", message: "", meaning: .reject),
                of: "\(number)", .priceChange, [CallScope(batchID: "batch", storefront: "USA")],
                realNow: 0)
        }

        #expect(verdicts.count { $0 == .believed } < 50)
        #expect(verdicts.last == .systemic(.batch(CallScope(batchID: "batch"))))
    }

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
}

/// Calls of subscriptions with long ids go to the wire; all others succeed.
private struct OddStore: StoreCalls {
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

extension DeliveryHarness {
    /// Halts of batches, of storefronts and of the service.
    fileprivate func halted() async throws -> Int {
        try await service.withConnection { connection in
            try await connection.query(
                """
                SELECT (SELECT count(*) FROM repricer.batches
                        WHERE is_paused OR halted_storefronts <> '{}')
                    + (SELECT count(halted_at) FROM repricer.service_controls) AS halts
                """
            ).one().int("halts")
        }
    }
}
