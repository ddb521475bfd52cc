import AppStore
import Foundation
import HTTP
import Pricing
import Testing

@Suite struct StatusTests {
    private func statuses(_ last: [JSON]) async throws -> (
        CallOutcome<[SubscriptionEvent]>, HTTPRequest?
    ) {
        let group: JSON = ["subscriptionGroupIdentifier": "1", "lastTransactions": last]
        let body = try Fixture.bytes(["environment": "Sandbox", "data": [group]] as JSON)
        let http = ScriptedHTTP(.success(HTTPResponse(status: 200, body: body)))
        let outcome = try await AppStoreClient.make(http)
            .subscriptionStatuses(transactionID: subscription)
        return (outcome, http.sent.first)
    }

    private func last(_ status: Int, _ id: String) throws -> JSON {
        let change: JSON = ["originalTransactionId": id]
        return [
            "originalTransactionId": id, "status": status,
            "signedTransactionInfo": try Fixture.sign(Fixture.transaction(change)),
            "signedRenewalInfo": try Fixture.sign(Fixture.renewal(change)),
        ]
    }

    @Test func statuses_whenAnswered_readsEachSubscription() async throws {
        let (outcome, request) = try await statuses([last(1, subscription), last(4, "77")])

        guard case .answered(let readings, _) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(request?.method == "GET")
        #expect(request?.target == "/inApps/v1/subscriptions/\(subscription)")
        #expect(readings.map(\.originalTransactionID) == [subscription, "77"])
        #expect(readings.map(\.status) == [1, 4])
        #expect(readings.allSatisfy { $0.source == .status })
        #expect(readings.allSatisfy { $0.key.evidenceID.hasPrefix("status:") })
        #expect(Set(readings.map(\.key.evidenceID)).count == 2)
    }

    @Test func statuses_whenReadTwice_haveTheSameEvidence() async throws {
        let entry = try last(1, subscription)

        let (first, _) = try await statuses([entry])
        let (second, _) = try await statuses([entry])

        guard case .answered(let left, _) = first, case .answered(let right, _) = second else {
            Issue.record("\(first) \(second)")
            return
        }
        #expect(left == right)
        #expect(left.count == 1)
    }

    @Test func statuses_whenOneIsForged_believesNone() async throws {
        let strangers = try Fixture.strangers.get().signer()
        var forged = try last(1, "77")
        forged["signedRenewalInfo"] = try Fixture.sign(Fixture.renewal(), by: strangers)

        let (outcome, _) = try await statuses([last(1, subscription), forged])

        guard case .unknown(let reason, _) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(reason.contains("jws_chain"))
    }

    @Test func statuses_whenAccountIsUnknown_isRefused() async throws {
        let body = Array(#"{"errorCode":4040001,"errorMessage":"Account not found."}"#.utf8)
        let http = ScriptedHTTP(.success(HTTPResponse(status: 404, body: body)))

        let outcome = try await AppStoreClient.make(http).subscriptionStatuses(transactionID: "1")

        guard case .refused(let code, let message, _) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(code.name == "AccountNotFoundError")
        #expect(message == "Account not found.")
    }
}
