import AppStore
import Foundation
import HTTP
import Pricing
import Testing

/// What the App Store would refuse is refused here, and nothing of it leaves.
@Suite struct RequestCheckTests {
    private typealias Item = PriceChangeCall.Item
    private static let reference = "7c80bb86-f892-4b21-a919-1357811d6c4f"

    private func fault(_ make: () throws -> some Any) -> RequestFault? {
        do {
            _ = try make()
            return nil
        } catch {
            return error as? RequestFault
        }
    }

    private func fault(
        of items: [Item], reference: String = reference, currency: String? = "USD",
        storefront: String? = "USA"
    ) -> RequestFault? {
        fault {
            try PriceChangeCall(
                requestReferenceID: reference, currency: currency, storefront: storefront,
                items: items)
        }
    }

    @Test func priceChange_thatTheAppStoreWouldRefuse_isNotMade() {
        let long = String(repeating: "x", count: 129)
        let item = Item(sku: "A", priceMilliunits: 12_990)
        let parent = Item(sku: "A", priceMilliunits: 12_990, dependentSKUs: ["B"])

        #expect(fault(of: [item, Item(sku: "B", priceMilliunits: 0)]) == nil)
        #expect(fault(of: [parent, Item(sku: "B", priceMilliunits: 10)]) == nil)
        #expect(fault(of: []) == .noItems)
        #expect(
            fault(of: [item], reference: "r") == .notUUID(field: "requestReferenceId"))
        #expect(fault(of: [item], currency: "usd") == .badCurrency("usd"))
        #expect(fault(of: [item], storefront: "US") == .badStorefront("US"))
        #expect(fault(of: [Item(sku: "", priceMilliunits: 1)]) == .badSKU(""))
        #expect(fault(of: [Item(sku: long, priceMilliunits: 1)]) == .badSKU(long))
        #expect(
            fault(of: [Item(sku: "A", priceMilliunits: -1)]) == .priceNegative(sku: "A"))
        #expect(fault(of: [item, item]) == .skuRepeated("A"))
        #expect(
            fault(of: [Item(sku: "A", priceMilliunits: 1, dependentSKUs: [long])])
                == .badSKU(long))
        #expect(
            fault(of: [Item(sku: "A", priceMilliunits: 1, dependentSKUs: ["A"])])
                == .dependsOnItself(sku: "A"))
        #expect(
            fault(of: [parent, Item(sku: "C", priceMilliunits: 1, dependentSKUs: ["B"])])
                == .dependentShared(sku: "B"))
        #expect(
            fault(of: [parent, Item(sku: "B", priceMilliunits: 1, dependentSKUs: ["C"])])
                == .dependentChained(sku: "B"))
    }

    @Test func cancel_thatTheAppStoreWouldRefuse_isNotMade() {
        #expect(fault { try CancelCall(requestReferenceID: Self.reference) } == nil)
        #expect(
            fault { try CancelCall(requestReferenceID: "by-hand") }
                == .notUUID(field: "requestReferenceId"))
        #expect(
            fault { try CancelCall(requestReferenceID: Self.reference, storefront: "usa") }
                == .badStorefront("usa"))
    }

    @Test(arguments: ["", "a/b?", "12 ", "../extend/mass", String(repeating: "1", count: 65)])
    func call_ofAnIDThatIsNoNumber_isRefusedAndNotSent(_ id: String) async throws {
        let http = ScriptedHTTP(.success(HTTPResponse(status: 200)))
        let client = try AppStoreClient.make(http)
        let terms = try #require(ExtensionTerms(days: 1, reason: .other))

        let codes: [APIErrorCode?] = [
            await client.changePrice(transactionID: id, request: try .example()).refusedWith,
            await client.cancel(
                transactionID: id, request: try CancelCall(requestReferenceID: Self.reference)
            ).refusedWith,
            await client.extend(
                originalTransactionID: id,
                try ExtensionRequest(terms, requestIdentifier: Self.reference)
            ).refusedWith,
        ]

        #expect(codes == Array(repeating: .invalidRequest, count: 3))
        #expect(http.sent.isEmpty)
    }

    @Test func extensionStatus_ofNoIdentifier_isRefusedAndNotSent() async throws {
        let http = ScriptedHTTP(.success(HTTPResponse(status: 200)))
        let client = try AppStoreClient.make(http)

        for (product, request) in [("p", "a b"), ("p", ""), ("", Self.reference)] {
            let outcome = await client.extensionStatus(
                productID: product, requestIdentifier: request)
            #expect(outcome.refusedWith == .invalidRequest)
        }

        #expect(http.sent.isEmpty)
    }

    @Test func invalidRequest_isFinalOnAFirstTryAndLookedAtOnARetry() {
        #expect(APIErrorCode.invalidRequest.disposition(onRetry: false) == .reject)
        #expect(APIErrorCode.invalidRequest.disposition(onRetry: true) == .checkStatus)
        #expect(APIErrorCode.invalidRequest.description == "invalid_request")
    }
}

extension CallOutcome {
    fileprivate var refusedWith: APIErrorCode? {
        guard case .refused(let code, let message, let reply) = self, reply.httpStatus == nil,
            message.hasPrefix("not sent: ")
        else { return nil }
        return code
    }
}
