import AppStore
import Foundation
import HTTP
import Pricing
import Testing

@Suite struct NotificationHistoryTests {
    private static let now = Instant(milliseconds: signingTime)

    private static func request(
        start: Int64 = signingTime - day, end: Int64 = signingTime,
        in environment: StoreEnvironment = .production
    ) throws(HistoryRequestFault) -> NotificationHistoryRequest {
        try NotificationHistoryRequest(
            startAt: Instant(milliseconds: start), endAt: Instant(milliseconds: end),
            onlyFailures: true, now: now, environment: environment)
    }

    private func page(
        _ text: String, status: Int = 200, token: String? = nil
    ) async throws -> (CallOutcome<NotificationHistoryPage>, HTTPRequest?) {
        let http = ScriptedHTTP(.success(HTTPResponse(status: status, body: Array(text.utf8))))
        let outcome = try await AppStoreClient.make(http)
            .notificationHistory(Self.request(), paginationToken: token)
        return (outcome, http.sent.first)
    }

    @Test func request_whenSent_asksAsApplePrescribes() async throws {
        let (_, sent) = try await page("{\"hasMore\":false}", token: "a/b+c=")

        #expect(sent?.method == "POST")
        #expect(
            sent?.target == "/inApps/v1/notifications/history?paginationToken=a%2Fb%2Bc%3D")
        #expect(
            sent.map { String(decoding: $0.body, as: UTF8.self) }
                == "{\"endDate\":\(signingTime),\"onlyFailures\":true,\"startDate\":\(signingTime - day)}"
        )
    }

    @Test(arguments: [
        (-1, 5, HistoryRequestFault.startIsNoDate),
        (signingTime, signingTime, .startNotBeforeEnd),
        (signingTime - 180 * day - 1, signingTime, .startTooFarBack(days: 180)),
    ])
    func request_thatAppleWouldRefuse_isNotMade(
        _ start: Int64, _ end: Int64, _ fault: HistoryRequestFault
    ) {
        #expect(throws: fault) { try Self.request(start: start, end: end) }
    }

    @Test func request_atTheOldestMillisecond_isMade() throws {
        #expect(try Self.request(start: signingTime - 180 * day).onlyFailures)
        #expect(throws: HistoryRequestFault.startTooFarBack(days: 30)) {
            try Self.request(start: signingTime - 31 * day, in: .sandbox)
        }
    }

    @Test func page_withOddEntries_keepsTheGoodOnes() async throws {
        let (outcome, _) = try await page(
            """
            {"notificationHistory":[{"signedPayload":"a.b.c","sendAttempts":[{"attemptDate":5,
            "sendAttemptResult":"TIMED_OUT"}]},{"signedPayload":7},{},null,"x",{"signedPayload":""}],
            "hasMore":true,"paginationToken":"t"}
            """)

        guard case .answered(let page, _) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(page.entries.map(\.signedPayload) == ["a.b.c"])
        #expect(page.entries.first?.sendAttempts.first?.result == "TIMED_OUT")
        #expect(page.unreadable == 5)
        #expect(page.hasMore && page.paginationToken == "t")
    }

    @Test(arguments: ["", "[]", "<html>", "{\"data\":[]}", "{\"notificationHistory\":7}"])
    func page_ofSomethingElse_isNoAnswer(_ text: String) async throws {
        let (outcome, _) = try await page(text)

        guard case .unknown(let reason, _) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(reason == "the answer is not the documented JSON")
    }

    @Test(arguments: [
        4_000_012, 4_000_013, 4_000_014, 4_000_015, 4_000_016, 4_000_017,
        4_040_001, 4_040_002, 4_040_005, 4_040_010,
    ])
    func refusal_ofADocumentedCode_hasNameAndMeaning(_ number: Int) async throws {
        let (outcome, _) = try await page(
            "{\"errorCode\":\(number),\"errorMessage\":\"no\"}", status: number / 10_000)

        guard case .refused(let code, _, _) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(code.name?.hasSuffix("Error") == true)
        #expect(code.meaning?.isEmpty == false)
    }
}
