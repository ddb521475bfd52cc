import AppStore
import Calls
import HTTP
import JOSE
import Pricing
import SandboxStore
import ServiceKit
import Synchronization
import TestSupport
import Testing

/// Answers whose connection closes in the middle, over real sockets: whether the call was applied is unknown, and a check
/// settles it. It is never taken for a refusal, nor for the end of an answer.
@Suite(.database) struct BrokenAnswerTests {
    private typealias Harness = DeliveryHarness
    private static let bundle = "com.example.app"

    @Test(arguments: [
        "HTTP/1.1 200 OK\r\nContent-Le",
        "HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{\"signedRenewalInfo\":\"ey",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20\r\n{\"signedRenewalInfo\":\"ey",
        // A whole refusal that promises one byte more is none.
        "HTTP/1.1 400 Bad Request\r\nContent-Length: 58\r\n\r\n"
            + #"{"errorCode":4000001,"errorMessage":"Invalid request."}"#,
    ])
    func changePrice_whoseAnswerIsCut_isUnknownAndSettledByACheck(_ cut: String) async throws {
        let authority = try Self.authority()
        let status = try Self.status(authority)
        // The first check's answer is cut as well.
        let checks = Mutex(0)
        let server = try CutServer { line in
            guard line.hasPrefix("GET") else { return .cut(cut) }
            let number = checks.withLock { checks in
                checks += 1
                return checks
            }
            return number == 1 ? .cut(cut) : .whole(status)
        }
        defer { server.stop() }
        let harness = try await Harness.make()
        let client = try HTTPClient(baseURL: "http://127.0.0.1:\(server.port)")
        let store = LiveStoreCalls(client: try Self.client(client, authority, harness))
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])

        _ = try await harness.scheduler(calls: store).round()
        let sent = try await harness.changes()
        let first = try await Self.reconcile(harness, store)
        let between = try await harness.changes()
        let second = try await Self.reconcile(harness, store)

        #expect(sent.count == 1 && sent[0].hasPrefix("A unknown "), "\(sent)")
        #expect(first == [1, 0])
        #expect(between.count == 1 && between[0].hasPrefix("A unknown"), "\(between)")
        #expect(second == [1, 1])
        #expect(try await harness.changes() == ["A scheduled"])
        #expect(try await harness.requestStates() == ["answered"])
        #expect(server.requests.map { $0.prefix(4) } == ["POST", "GET ", "GET "])
        client.close()
        await harness.close()
    }

    /// Looked at and settled.
    private static func reconcile(
        _ harness: Harness, _ store: LiveStoreCalls
    ) async throws -> [Int] {
        harness.realClock.advance(by: .seconds(15))
        let result = try await harness.reconciler(
            ScriptedHistory(), ScriptedIntake(), store: store
        ).runOnce()
        let (summary, failure) = try #require(result)
        #expect(failure == nil)
        return [summary.unknownChecked, summary.unknownSettled]
    }

    private static func client(
        _ http: HTTPClient, _ authority: CertificateAuthority, _ harness: Harness
    ) throws -> AppStoreClient {
        AppStoreClient(
            http: http,
            token: BearerToken(
                key: try .generate(), keyID: "KEY", issuerID: "ISSUER", bundleID: bundle,
                clock: harness.clock),
            clock: harness.clock,
            verifier: try JWSVerifier(roots: authority.trustedRoots()),
            bundleID: bundle, environment: .production)
    }

    private static func authority() throws -> CertificateAuthority {
        try CertificateAuthority(validFrom: 1_577_836_800_000, validUntil: 2_208_988_800_000)
    }

    /// The status of a subscription whose item A has the increase of `Harness.row`.
    private static func status(_ authority: CertificateAuthority) throws -> String {
        let at = Harness.start.milliseconds + 1000
        let signer = try authority.signer()
        let transaction = """
            {"originalTransactionId":"1","transactionId":"t-1","bundleId":"\(bundle)",
            "environment":"Production","signedDate":\(at),"type":"Auto-Renewable Subscription"}
            """
        let renewal = """
            {"originalTransactionId":"1","environment":"Production","autoRenewStatus":1,
            "signedDate":\(at),"advancedCommerceInfo":{"consistencyToken":"c","period":"P1M",
            "items":[{"SKU":"A","price":9990,"priceIncreaseInfo":{"status":"SCHEDULED",
            "price":10990}},{"SKU":"B","price":9990}]}}
            """
        return """
            {"environment":"Production","bundleId":"\(bundle)","data":[
            {"subscriptionGroupIdentifier":"1","lastTransactions":[
            {"originalTransactionId":"1","status":1,
            "signedTransactionInfo":"\(try signer.sign(Array(transaction.utf8)))",
            "signedRenewalInfo":"\(try signer.sign(Array(renewal.utf8)))"}]}]}
            """
    }
}
