import AppStore
import Foundation
import HTTP
import JOSE
import Pricing
import ServiceKit
import TestSupport
import Testing

@Suite struct AppStoreClientTests {
    private func change(_ answer: ScriptedHTTP.Answer) async throws -> CallOutcome<
        SubscriptionEvent
    > {
        try await AppStoreClient.make(ScriptedHTTP(answer))
            .changePrice(transactionID: subscription, request: .example())
    }

    private func answer(_ json: JSON) throws -> ScriptedHTTP.Answer {
        .success(HTTPResponse(status: 200, body: try Fixture.bytes(json)))
    }

    private func refusal(_ status: Int, _ code: Int, _ headers: HTTPHeaders = .init())
        -> ScriptedHTTP.Answer
    {
        let body = Array("{\"errorCode\":\(code),\"errorMessage\":\"Sorry.\"}".utf8)
        return .success(HTTPResponse(status: status, headers: headers, body: body))
    }

    @Test func changePrice_whenSent_isTheDocumentedRequest() async throws {
        let http = ScriptedHTTP(refusal(400, 4_000_101))

        _ = try await AppStoreClient.make(http)
            .changePrice(transactionID: subscription, request: .example())

        let request = try #require(http.sent.first)
        #expect(request.method == "POST")
        #expect(
            request.target == "/advancedCommerce/v1/subscription/changePrice/\(subscription)")
        #expect(request.headers["Content-Type"] == "application/json")
        #expect(request.headers["Authorization"]?.hasPrefix("Bearer ey") == true)
        let expected = """
            {"requestInfo":{"requestReferenceId":"7c80bb86-f892-4b21-a919-1357811d6c4f"},
             "currency":"USD","storefront":"USA",
             "items":[{"SKU":"AD_FREE_1M","price":12990,"dependentSKUs":["ADVANCED_FEATURES_1M"]}]}
            """
        let left = try JSONSerialization.jsonObject(with: Data(request.body)) as? NSDictionary
        let right = try JSONSerialization.jsonObject(with: Data(expected.utf8)) as? NSDictionary
        #expect(left == right)
    }

    @Test func changePrice_whenOptionalsAreSet_sendsThemAndNothingElse() async throws {
        let http = ScriptedHTTP(refusal(400, 4_000_101))
        let reference = "7c80bb86-f892-4b21-a919-1357811d6c4f"
        let call = try PriceChangeCall(
            requestReferenceID: reference, consistencyToken: "1.2/3",
            items: [.init(sku: "A", priceMilliunits: .max)])

        _ = try await AppStoreClient.make(http).changePrice(transactionID: "12", request: call)

        let request = try #require(http.sent.first)
        #expect(request.target.hasSuffix("/changePrice/12"))
        #expect(
            String(decoding: request.body, as: UTF8.self)
                == #"{"items":[{"SKU":"A","price":9223372036854775807}],"#
                + #""requestInfo":{"consistencyToken":"1.2/3","requestReferenceId":"\#(reference)"}}"#
        )
    }

    @Test func changePrice_whenAnswered_isVerifiedAndMapped() async throws {
        let (transaction, renewal) = (
            try Fixture.sign(Fixture.transaction()), try Fixture.sign(Fixture.renewal())
        )

        let outcome = try await change(
            answer(["signedTransactionInfo": transaction, "signedRenewalInfo": renewal]))

        guard case .answered(let value, let reply) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(reply.httpStatus == 200)
        #expect(value.source == .response)
        #expect(value.type == nil)
        #expect(
            try value.key.evidenceID
                == PriceChangeCall.example().requestInfo.requestReferenceId)
        #expect(value.key.signedAt == Instant(milliseconds: signingTime + 1))
        #expect(value.originalTransactionID == subscription)
        #expect(value.renewal?.items?.first?.increaseStatus == "PENDING")
        #expect(value.transaction?.items.count == 2)
    }

    @Test func changePrice_whenAnswerIsUnusable_hasAnUnknownOutcome() async throws {
        let strangers = try Fixture.strangers.get().signer()
        let good = try Fixture.sign(Fixture.renewal())
        let unusable: [JSON] = [
            [:], ["signedRenewalInfo": NSNull()], ["signedRenewalInfo": "garbage"],
            ["signedRenewalInfo": try Fixture.sign(Fixture.renewal(), by: strangers)],
            ["signedRenewalInfo": try Fixture.signer().sign(Array("[]".utf8))],
            ["signedRenewalInfo": try Fixture.sign(Fixture.renewal(["environment": "Production"]))],
            ["signedRenewalInfo": try Fixture.sign(Fixture.renewal(["signedDate": "x"]))],
            [
                "signedRenewalInfo": good,
                "signedTransactionInfo": try Fixture.sign(Fixture.transaction(["bundleId": "x"])),
            ],
            [
                "signedRenewalInfo": good,
                "signedTransactionInfo": try Fixture.sign(
                    Fixture.transaction(["originalTransactionId": "1"])),
            ],
            [
                "signedRenewalInfo": try Fixture.sign(
                    Fixture.renewal(["originalTransactionId": "1"]))
            ],
        ]

        for json in unusable {
            let outcome = try await change(answer(json))
            guard case .unknown(let reason, let reply) = outcome else {
                Issue.record("\(json): \(outcome)")
                continue
            }
            #expect(!reason.isEmpty)
            #expect(reply.httpStatus == 200)
        }
        guard
            case .unknown(_, let reply) = try await change(
                .success(HTTPResponse(status: 200, body: [0, 0xFF])))
        else {
            Issue.record("binary body")
            return
        }
        #expect(reply.body == "\u{FFFD}\u{FFFD}")
    }

    @Test(arguments: [
        (400, 4_000_205, "4000205 PriceChangeCannotBeIssuedWhenAlreadyCommunicatedError"),
        (403, 4_030_010, "4030010 SubscriptionNotEligibleError"), (404, 4_049_999, "4049999"),
        (400, 4_030_010, "400"), (302, 7, "302"),
    ])
    func changePrice_whenRefused_carriesTheCode(status: Int, code: Int, text: String) async throws {
        guard
            case .refused(let found, let message, let reply) = try await change(
                refusal(status, code))
        else {
            Issue.record("not refused")
            return
        }
        #expect(found.description == text)
        #expect(message == "Sorry.")
        #expect(reply.httpStatus == status)
        #expect(reply.body?.contains("errorCode") == true)
    }

    @Test func changePrice_whenNotTheAppStoreAnswers_haltsInsteadOfRejecting() async throws {
        let page = HTTPResponse.html(404, "<html>" + String(repeating: "x", count: 70_000))

        guard case .refused(let code, _, let reply) = try await change(.success(page)) else {
            Issue.record("not refused")
            return
        }

        #expect(code.disposition(onRetry: false) == .haltService)
        #expect(reply.body?.utf8.count == StoreReply.bodyBytesMax)
    }

    @Test(arguments: [(500, 5_000_000), (500, 5_000_001), (503, 0), (408, 0)])
    func changePrice_whenTheServerFails_hasAnUnknownOutcome(status: Int, code: Int) async throws {
        guard case .unknown(_, let reply) = try await change(refusal(status, code)) else {
            Issue.record("not unknown")
            return
        }
        #expect(reply.httpStatus == status)
    }

    /// Who names no usable wait asks for none: it would silence all others for a minute.
    @Test(arguments: [("40", 40), ("-1", nil), ("soon", nil), ("", nil)] as [(String, Int?)])
    func outage_waitsAsAsked_orNotAtAll(value: String, seconds: Int?) async throws {
        let headers = HTTPHeaders([("Retry-After", value)])
        guard case .unknown(_, let reply) = try await change(refusal(503, 5_030_000, headers))
        else {
            Issue.record("a 503 is no outcome")
            return
        }
        #expect(reply.retryAfter == seconds.map { .seconds($0) })
    }

    @Test(
        arguments: [
            ("1767571205000", 5000), ("5", 5000), ("0", 1000), ("1767571205", 5000),
            ("Mon, 05 Jan 2026 00:00:05 GMT", 5000), ("1767571100000", 60_000),
            ("Mon, 05 Foo 2026 00:00:05 GMT", 60_000), ("soon", 60_000), ("", 60_000),
            ("-5", 60_000),
            ("99999999999999999999999", 7_200_000), ("9999999999999", 7_200_000), (nil, 60_000),
        ] as [(String?, Int64)])
    func changePrice_whenThrottled_waitsAsTold(value: String?, wait: Int64) async throws {
        var headers = HTTPHeaders()
        headers["retry-after"] = value

        guard case .throttled(let until, _) = try await change(refusal(429, 4_290_000, headers))
        else {
            Issue.record("not throttled")
            return
        }
        #expect(until.milliseconds - signingTime == wait)
    }

    /// An answer that a cache has kept left when the cache sent it.
    @Test(
        arguments: [
            ([("Date", "Mon, 02 Mar 2026 12:00:00 GMT")], 1_772_452_800_000),
            ([("Date", "Mon, 02 Mar 2026 12:00:00 GMT"), ("Age", "90")], 1_772_452_890_000),
            ([("Date", "Mon, 02 Mar 2026 12:00:00 GMT"), ("Age", "-90")], 1_772_452_800_000),
            ([("Date", "Mon, 02 Mar 2026 12:00:00 GMT"), ("Age", "soon")], 1_772_452_800_000),
            (
                [("Date", "Mon, 02 Mar 2026 12:00:00 GMT"), ("Age", "9223372036854775807")],
                4_928_212_800_000
            ),
            ([("Date", "today")], nil), ([], nil),
        ] as [([(String, String)], Int64?)])
    func answer_saysWhenItLeft(headers: [(String, String)], leftAt: Int64?) async throws {
        guard
            case .refused(_, _, let reply) = try await change(
                refusal(400, 4_000_004, HTTPHeaders(headers)))
        else {
            Issue.record("not refused")
            return
        }

        #expect(reply.leftAt?.milliseconds == leftAt)
    }

    /// What a rehearsal signs is dated by its own clock, and its answers by the machine's.
    @Test func answerOfARehearsal_saysNotWhenItLeft() async throws {
        let clock = VirtualClock(
            start: 1_772_452_800_000, rate: 1000, origin: 0, real: ManualClock(0))
        let http = ScriptedHTTP(
            refusal(400, 4_000_004, .init([("Date", "Mon, 02 Mar 2026 12:00:00 GMT")])))
        let client = try AppStoreClient.make(http, clock: clock)

        guard
            case .refused(_, _, let reply) = await client.changePrice(
                transactionID: subscription, request: try .example())
        else {
            Issue.record("not refused")
            return
        }
        #expect(reply.leftAt == nil)
    }

    @Test func changePrice_whenTheConnectionFails_saysWhetherItMayHaveArrived() async throws {
        let lost = HTTPClientError(.timedOut, "no answer", requestMayHaveArrived: true)
        let unsent = HTTPClientError(.cannotConnect, "refused", requestMayHaveArrived: false)

        #expect(
            try await change(.failure(lost))
                == .unknown(reason: "no answer (timedOut)", StoreReply()))
        #expect(try await change(.failure(unsent)) == .notSent(reason: "refused (cannotConnect)"))
    }

    /// A second call at once would have no permit of the rate: it goes again with its sender's next one.
    @Test func changePrice_whenATokenOfSomeAgeIsRefused_countsAsNotSent() async throws {
        let good = try answer(["signedRenewalInfo": try Fixture.sign(Fixture.renewal())])
        let http = ScriptedHTTP(good, refusal(401, 4_010_000), good)
        let clock = ManualClock(signingTime)
        let client = try AppStoreClient.make(http, clock: clock)
        func call() async throws -> CallOutcome<SubscriptionEvent> {
            try await client.changePrice(transactionID: subscription, request: .example())
        }

        guard case .answered = try await call() else { throw Unexpected() }
        clock.advance(by: .seconds(600))
        guard case .notSent(let reason) = try await call() else { throw Unexpected() }
        guard case .answered = try await call() else { throw Unexpected() }

        #expect(reason.contains("token"))
        #expect(http.sent.count == 3)
        let tokens = http.sent.map { $0.headers["Authorization"] ?? "" }
        #expect(tokens[0] == tokens[1])
        #expect(tokens[1] != tokens[2])
    }

    @Test func changePrice_whenAFreshTokenIsRefused_haltsTheService() async throws {
        let http = ScriptedHTTP(.success(HTTPResponse(status: 401)))

        let bound = ContinuousClock.now + .seconds(9)
        let outcome = try await AppStoreClient.make(http)
            .changePrice(
                transactionID: subscription, request: .example(), leavingBefore: bound)

        guard case .refused(let code, _, _) = outcome else { throw Unexpected() }
        #expect(http.leavingBefore == [bound])
        #expect(code.disposition(onRetry: false) == .haltService)
        #expect(http.sent.count == 1)
    }
}

private struct Unexpected: Error {}
