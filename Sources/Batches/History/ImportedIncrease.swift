package import Pricing

/// A past increase that no notification told of, as a person states it.
package struct ImportedIncrease: Hashable, Sendable {
    package var originalTransactionID: String
    package var sku: String
    package var increasedOn: CivilDate
    /// The old price in milliunits, above 0 and below the new price.
    package var oldPrice: Int64
    /// The new price in milliunits.
    package var newPrice: Int64
    /// The currency in ISO 4217, upper case.
    package var currency: String

    package init(
        originalTransactionID: String, sku: String, increasedOn: CivilDate, oldPrice: Int64,
        newPrice: Int64, currency: String
    ) {
        self.originalTransactionID = originalTransactionID
        self.sku = sku
        self.increasedOn = increasedOn
        self.oldPrice = oldPrice
        self.newPrice = newPrice
        self.currency = currency
    }

    /// What the increase is about. There is one for each item and day.
    package struct Key: Hashable, Sendable {
        package var originalTransactionID: String
        package var sku: String
        package var increasedOn: CivilDate
    }

    package var key: Key {
        Key(originalTransactionID: originalTransactionID, sku: sku, increasedOn: increasedOn)
    }

    var prices: String {
        "\(PriceText.decimal(oldPrice)) -> \(PriceText.decimal(newPrice)) \(currency)"
    }
}

package typealias IncreaseFault = FileFault<IncreaseFaultCode>

/// What can be wrong with one row of a file of past increases.
package enum IncreaseFaultCode: String, Hashable, Sendable, CaseIterable {
    case malformedRow = "malformed_row"
    case badTransactionID = "bad_transaction_id"
    case badSKU = "bad_sku"
    case badDate = "bad_date"
    case futureDate = "future_date"
    case badPrice = "bad_price"
    case priceDecimals = "price_decimals"
    case unknownCurrency = "unknown_currency"
    case noIncrease = "no_increase"
    case duplicateRow = "duplicate_row"
    case conflictingRow = "conflicting_row"
}
