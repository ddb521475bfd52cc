import Foundation
import HTTP
import Pricing
import Testing

@testable import AppStore

/// Extensions and test notifications, of the App Store Server API.
@Suite struct ServerCallTests {
    private let id = "019a0000-0000-7000-8000-000000000001"

    private func answer(_ text: String, status: Int = 200) -> ScriptedHTTP {
        ScriptedHTTP(.success(HTTPResponse(status: status, body: Array(text.utf8))))
    }

    private func terms(_ days: Int = 30) throws -> ExtensionTerms {
        try #require(ExtensionTerms(days: days, reason: .outage))
    }

    @Test func extend_whenAnswered_readsTheNewDate() async throws {
        let http = answer(
            "{\"originalTransactionId\":\"12\",\"success\":true,\"effectiveDate\":1780000000000}")

        let outcome = try await AppStoreClient.make(http).extend(
            originalTransactionID: "12", ExtensionRequest(terms(), requestIdentifier: id))

        guard case .answered(let answer, _) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(answer.isSuccess)
        #expect(answer.effectiveAt == Instant(milliseconds: 1_780_000_000_000))
        #expect(http.sent.first?.method == "PUT")
        #expect(http.sent.first?.target == "/inApps/v1/subscriptions/extend/12")
        #expect(
            String(decoding: http.sent.first?.body ?? [], as: UTF8.self)
                == "{\"extendByDays\":30,\"extendReasonCode\":3,\"requestIdentifier\":\"\(id)\"}")
    }

    @Test(arguments: [
        "{}", "nonsense", "{\"success\":1}",
        "{\"success\":true,\"originalTransactionId\":\"13\"}",
    ])
    func extend_whenAnswerSaysNothing_isUnknown(_ text: String) async throws {
        let outcome = try await AppStoreClient.make(answer(text)).extend(
            originalTransactionID: "12", ExtensionRequest(terms(), requestIdentifier: id))

        guard case .unknown = outcome else {
            Issue.record("\(outcome)")
            return
        }
    }

    @Test(arguments: [
        (4_030_004, 403, "SubscriptionExtensionIneligibleError"),
        (4_030_005, 403, "SubscriptionMaxExtensionError"),
        (4_030_007, 403, "FamilySharedSubscriptionExtensionIneligibleError"),
        (4_030_028, 403, "AssignedSubscriptionExtensionIneligibleError"),
        (4_040_005, 404, "OriginalTransactionIdNotFoundError"),
        (4_000_009, 400, "InvalidExtendByDaysError"),
        (4_000_011, 400, "InvalidRequestIdentifierError"),
    ])
    func extend_whenRefused_namesTheCode(_ code: Int, _ status: Int, _ name: String) async throws {
        let http = answer("{\"errorCode\":\(code),\"errorMessage\":\"no\"}", status: status)

        let outcome = try await AppStoreClient.make(http).extend(
            originalTransactionID: "12", ExtensionRequest(terms(), requestIdentifier: id))

        guard case .refused(let refused, _, _) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(refused.name == name)
        #expect(refused.meaning != nil)
        // The form of the call is wrong for everybody.
        let isOfTheCall = [4_000_009, 4_000_011].contains(code)
        #expect(refused.disposition(onRetry: false) == (isOfTheCall ? .haltBatch : .reject))
    }

    @Test func extendAll_whenAnswered_mustNameOurRequest() async throws {
        let request = try MassExtensionRequest(
            terms(), productID: "com.example.p", storefronts: ["USA", "CAN"], requestIdentifier: id)
        let mine = answer("{\"requestIdentifier\":\"\(id)\"}")

        let ours = try await AppStoreClient.make(mine).extendAll(request)
        let others = try await AppStoreClient.make(answer("{\"requestIdentifier\":\"x\"}"))
            .extendAll(request)

        guard case .answered(id, _) = ours, case .unknown = others else {
            Issue.record("\(ours) \(others)")
            return
        }
        #expect(mine.sent.first?.target == "/inApps/v1/subscriptions/extend/mass")
        #expect(
            String(decoding: mine.sent.first?.body ?? [], as: UTF8.self)
                == "{\"extendByDays\":30,\"extendReasonCode\":3,\"productId\":\"com.example.p\","
                + "\"requestIdentifier\":\"\(id)\",\"storefrontCountryCodes\":[\"USA\",\"CAN\"]}")
    }

    @Test func extensionStatus_whenComplete_hasItsCounts() async throws {
        let http = answer(
            "{\"requestIdentifier\":\"\(id)\",\"complete\":true,\"completeDate\":5,"
                + "\"succeededCount\":7,\"failedCount\":2}")

        let outcome = try await AppStoreClient.make(http)
            .extensionStatus(productID: "a/b", requestIdentifier: id)

        guard case .answered(let status, _) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(
            status
                == MassExtensionStatus(
                    isComplete: true, completedAt: Instant(milliseconds: 5), succeeded: 7, failed: 2
                ))
        #expect(
            http.sent.first?.target == "/inApps/v1/subscriptions/extend/mass/a%2Fb/\(id)")
    }

    @Test func extension_thatAppleWouldRefuse_isNotMade() throws {
        #expect(ExtensionTerms(days: 0, reason: .other) == nil)
        #expect(ExtensionTerms(days: 91, reason: .other) == nil)
        #expect(ExtensionTerms.Reason(argument: "4") == nil)
        #expect(ExtensionTerms.Reason(argument: "outage") == ExtensionTerms.Reason(argument: "3"))
        let terms = try terms(90)
        #expect(throws: RequestFault.badRequestIdentifier) {
            try ExtensionRequest(terms, requestIdentifier: String(repeating: "x", count: 129))
        }
        #expect(throws: RequestFault.empty(field: "storefrontCountryCodes")) {
            try MassExtensionRequest(
                terms, productID: "p", storefronts: [], requestIdentifier: id)
        }
        #expect(throws: RequestFault.badStorefront("us")) {
            try MassExtensionRequest(
                terms, productID: "p", storefronts: ["us"], requestIdentifier: id)
        }
    }

    @Test func testNotification_whenRequested_isFollowedByItsToken() async throws {
        let asked = try await AppStoreClient.make(answer("{\"testNotificationToken\":\"t_1\"}"))
            .requestTestNotification()
        let http = answer(
            "{\"signedPayload\":\"a.b.c\",\"sendAttempts\":"
                + "[{\"attemptDate\":1,\"sendAttemptResult\":\"TIMED_OUT\"}]}")

        let status = try await AppStoreClient.make(http).testNotificationStatus(token: "t_1")

        guard case .answered("t_1", _) = asked, case .answered(let entry, _) = status else {
            Issue.record("\(asked) \(status)")
            return
        }
        #expect(entry.signedPayload == "a.b.c")
        #expect(entry.sendAttempts.map(\.result) == ["TIMED_OUT"])
        #expect(http.sent.first?.target == "/inApps/v1/notifications/test/t_1")
    }
}
