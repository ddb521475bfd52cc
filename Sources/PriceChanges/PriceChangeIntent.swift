import Calls
import Facts
import JSON
import Pricing

/// What a request contains, kept with the intent, so that a retry sends the very same content.
package struct PriceChangeIntent: Hashable, Sendable {
    /// The original transaction id of the subscription, which Apple accepts as well as any later one.
    package var transactionID: String
    package var requestReferenceID: String
    package var consistencyToken: String?
    package var currency: String
    package var storefront: String
    package var items: [Item]

    package struct Item: Hashable, Sendable, Codable {
        package var sku: String
        /// The new price in milliunits.
        package var price: Int64
        package var dependentSKUs: [String]
    }
}

extension PriceChangeIntent {
    /// The part that is stored as JSON. The ids have columns of their own.
    private struct Words: Decodable {
        var consistencyToken: String?
        var currency: String
        var storefront: String
        var items: [Item]
    }

    /// Nil where the stored intent cannot be read.
    init?(of call: StoreCall) {
        guard let words = call.said(Words.self) else { return nil }
        self.init(
            transactionID: call.subject, requestReferenceID: call.callID,
            consistencyToken: words.consistencyToken, currency: words.currency,
            storefront: words.storefront, items: words.items)
    }

    /// The intent as it is stored.
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
