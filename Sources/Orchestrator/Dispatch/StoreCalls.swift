import Foundation
import JSON
import Ledger
package import Pricing

/// What a request says, kept with the intent: a retry sends the very same words.
package struct PriceChangeIntent: Hashable, Sendable {
    package var originalTransactionID: String
    /// The subscription's original transaction id, which Apple accepts as well as any later one.
    package var transactionID: String
    package var requestReferenceID: String
    package var consistencyToken: String?
    package var currency: String
    package var storefront: String
    package var items: [Item]

    package struct Item: Hashable, Sendable, Codable {
        package var sku: String
        /// Milliunits.
        package var price: Int64
        package var dependentSKUs: [String]
    }
}

extension PriceChangeIntent {
    /// What is kept as JSON. The ids stand in the row, too; one of before 0041 repeats them here.
    private struct Words: Decodable {
        var consistencyToken: String?
        var currency: String
        var storefront: String
        var items: [Item]
    }

    /// Throws where the stored words can't be read.
    init(of request: RequestQueries.Held) throws {
        let words = try JSONDecoder().decode(Words.self, from: Data(request.call.utf8))
        self.init(
            originalTransactionID: request.originalTransactionID,
            transactionID: request.transactionID,
            requestReferenceID: request.requestReferenceID,
            consistencyToken: words.consistencyToken, currency: words.currency,
            storefront: words.storefront, items: words.items)
    }

    /// As it is kept with the intent.
    var text: String {
        var json = JSONWriter()
        json.object { json in
            json.text("consistencyToken", consistencyToken)
            json.text("currency", currency)
            json.text("storefront", storefront)
            json.list("items", items) { item, json in
                json.object {
                    $0.text("sku", item.sku)
                    $0.number("price", item.price)
                    $0.texts("dependentSKUs", item.dependentSKUs)
                }
            }
        }
        return json.text
    }
}

/// How a call to the App Store ended, as far as the road of a change cares.
package enum StoreAnswer: Sendable {
    /// Applied; what Apple signed in return.
    case answered([SubscriptionEvent], StoreReply)
    /// A definite no, with what its code asks us to do.
    case refused(StoreRefusal, StoreReply)
    /// Not applied: silence until the instant.
    case throttled(until: Instant, StoreReply)
    /// Perhaps applied: no answer, a 5xx, or one that can't be read.
    case unknown(reason: String, StoreReply)
    /// Certainly not applied: the request never left.
    case notSent(reason: String)
}

package struct StoreReply: Hashable, Sendable {
    package var httpStatus: Int?
    package var body: String?

    package init(httpStatus: Int? = nil, body: String? = nil) {
        self.httpStatus = httpStatus
        self.body = body
    }
}

package struct StoreRefusal: Hashable, Sendable {
    package enum Meaning: Hashable, Sendable {
        /// Final for this change.
        case reject
        /// The token is stale: read the status, judge again, new id.
        case refresh
        /// On a retry: perhaps the first attempt was applied, so look.
        case look
        /// The call is wrong, whatever the change: the next ones of its batch would fare no better.
        case haltBatch
        /// The product is not set up for the storefront: the others of the batch may go.
        case haltStorefront
        /// Our key or token is wrong: no call can succeed until somebody acts.
        case haltService
    }

    /// 0: our own check, before anything was sent.
    package var code: Int
    package var name: String
    package var message: String
    package var meaning: Meaning

    package init(code: Int, name: String, message: String, meaning: Meaning) {
        self.code = code
        self.name = name
        self.message = message
        self.meaning = meaning
    }

    /// Whether nobody was asked: the request itself is wrong.
    package var isOurs: Bool { code == 0 }

    /// What a rejected change carries: code and name; of a request that was never sent, what is wrong with it.
    var reason: String {
        isOurs && name != refusedOnRetry ? "\(name): \(message)" : "\(code) \(name)"
    }
}

/// The two calls that delivery needs. The live one is the App Store client; tests script their own.
package protocol StoreCalls: Sendable {
    /// Nothing of it leaves once `leavingBefore` has passed: somebody else may have taken the intent over.
    func changePrice(
        _ intent: PriceChangeIntent, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer
    /// Get All Subscription Statuses: the statements on this subscription.
    func look(transactionID: String) async -> StoreAnswer
    /// So many calls are about to leave, each at an instant that it must keep.
    func prepare(_ calls: Int) async
}

extension StoreCalls {
    package func prepare(_ calls: Int) async {}
}
