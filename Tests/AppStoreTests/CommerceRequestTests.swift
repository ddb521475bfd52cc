import AppStore
import Foundation
import HTTP
import Pricing
import Testing

private let reference = "7c80bb86-f892-4b21-a919-1357811d6c4f"

@Suite struct CommerceRequestTests {
    private func info() throws -> CommerceRequestInfo {
        try CommerceRequestInfo(requestReferenceID: reference, consistencyToken: "token")
    }

    private func signedPair() throws -> [UInt8] {
        try Fixture.bytes(
            [
                "signedTransactionInfo": try Fixture.sign(Fixture.transaction()),
                "signedRenewalInfo": try Fixture.sign(Fixture.renewal()),
            ] as JSON)
    }

    private func text(_ request: HTTPRequest?) -> String {
        String(decoding: request?.body ?? [], as: UTF8.self)
    }

    @Test func revoke_whenSent_carriesWhatApplePrescribes() async throws {
        let http = ScriptedHTTP(.success(HTTPResponse(status: 200, body: try signedPair())))
        let request = try RevokeRequest(
            info(), reason: .legal, type: .prorated, weighsRisk: false, storefront: "USA",
            environment: .production)

        let outcome = try await AppStoreClient.make(http)
            .revoke(transactionID: subscription, request)

        guard case .answered(let answer, _) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(answer.event.key.evidenceID == reference)
        #expect(answer.event.source == .response)
        #expect(http.sent.first?.method == "POST")
        #expect(
            http.sent.first?.target == "/advancedCommerce/v1/subscription/revoke/\(subscription)")
        #expect(
            text(http.sent.first)
                == "{\"refundReason\":\"LEGAL\",\"refundRiskingPreference\":false,"
                + "\"refundType\":\"PRORATED\",\"requestInfo\":{\"consistencyToken\":\"token\","
                + "\"requestReferenceId\":\"\(reference)\"},\"storefront\":\"USA\"}")
    }

    @Test func metadata_whenSent_namesOnlyWhatChanges() async throws {
        let http = ScriptedHTTP(.success(HTTPResponse(status: 200, body: try signedPair())))
        let request = try MetadataRequest(
            info(),
            items: [.init(currentSKU: "A", effective: .nextBillCycle, newSKU: "B")])

        let outcome = try await AppStoreClient.make(http)
            .changeMetadata(transactionID: subscription, request)

        guard case .answered = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(
            text(http.sent.first)
                == "{\"items\":[{\"SKU\":\"B\",\"currentSKU\":\"A\","
                + "\"effective\":\"NEXT_BILL_CYCLE\"}],\"requestInfo\":"
                + "{\"consistencyToken\":\"token\",\"requestReferenceId\":\"\(reference)\"}}")
    }

    @Test func migrate_whenIncreaseWasCommunicated_isRefusedByItsCode() async throws {
        let body = Array("{\"errorCode\":4030027,\"errorMessage\":\"no\"}".utf8)
        let http = ScriptedHTTP(.success(HTTPResponse(status: 403, body: body)))
        let request = try MigrateRequest(
            info(), targetProductID: "generic",
            descriptors: .init(displayName: "n", description: "d"),
            items: [.init(sku: "A", displayName: "n", description: "d")], taxCode: "C003-00-1")

        let outcome = try await AppStoreClient.make(http)
            .migrate(transactionID: subscription, request)

        guard case .refused(let code, _, _) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(code.name == "MigrationNotAllowedWhenPriceIncreaseCommunicatedError")
        #expect(code.disposition(onRetry: false) == .reject)
        #expect(
            http.sent.first?.target == "/advancedCommerce/v1/subscription/migrate/\(subscription)")
    }

    @Test func refund_whenAnswered_readsTheTransactionAlone() async throws {
        let body = try Fixture.bytes(
            ["signedTransactionInfo": try Fixture.sign(Fixture.transaction())] as JSON)
        let http = ScriptedHTTP(.success(HTTPResponse(status: 200, body: body)))
        let request = try RefundRequest(
            info(),
            items: [
                .init(sku: "A", reason: .other, type: .custom, revokes: true, amountMilliunits: 990)
            ], weighsRisk: true, ownedSKUs: ["A", "B"], environment: .production)

        let outcome = try await AppStoreClient.make(http)
            .requestRefund(transactionID: subscription, request)

        guard case .answered(let reading, _) = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(reading.originalTransactionID == subscription)
        #expect(
            http.sent.first?.target
                == "/advancedCommerce/v1/transaction/requestRefund/\(subscription)")
        #expect(text(http.sent.first).contains("\"refundAmount\":990"))
    }

    @Test func request_thatAppleWouldRefuse_isNotMade() throws {
        let info = try info()
        #expect(throws: RequestFault.notUUID(field: "requestReferenceId")) {
            try CommerceRequestInfo(requestReferenceID: "1")
        }
        #expect(throws: RequestFault.declineOnlyInSandbox) {
            try RevokeRequest(
                info, reason: .simulateDecline, type: .full, weighsRisk: true,
                environment: .production)
        }
        #expect(throws: RequestFault.nothingToChange) { try MetadataRequest(info) }
        #expect(throws: RequestFault.tooLong(field: "displayName", charactersMax: 30)) {
            try CommerceDescriptors(
                displayName: String(repeating: "n", count: 31), description: "d")
        }
        #expect(throws: RequestFault.tooLong(field: "description", charactersMax: 45)) {
            try MigrateRequest.Item(
                sku: "A", displayName: "n", description: String(repeating: "d", count: 46))
        }
        #expect(throws: RequestFault.badSKU("")) {
            try MetadataRequest.Item(currentSKU: "", effective: .immediately, newSKU: "B")
        }
        let revoked = try RefundRequest.Item(
            sku: "A", reason: .other, type: .full, revokes: true)
        #expect(throws: RequestFault.allItemsRevoked) {
            try RefundRequest(
                info, items: [revoked], weighsRisk: true, ownedSKUs: ["A"],
                environment: .production)
        }
        #expect(throws: RequestFault.skuRepeated("A")) {
            try RefundRequest(
                info, items: [revoked, revoked], weighsRisk: true, environment: .production)
        }
        #expect(throws: RequestFault.refundAmountMissing(sku: "A")) {
            try RefundRequest.Item(sku: "A", reason: .other, type: .custom, revokes: false)
        }
        #expect(throws: RequestFault.refundAmountWithoutCustom(sku: "A")) {
            try RefundRequest.Item(
                sku: "A", reason: .other, type: .full, revokes: false, amountMilliunits: 1)
        }
        let declined = try RefundRequest.Item(
            sku: "B", reason: .simulateDecline, type: .full, revokes: false)
        #expect(throws: RequestFault.declineMustBeOfAll) {
            try RefundRequest(
                info, items: [revoked, declined], weighsRisk: true, environment: .sandbox)
        }
    }
}
