/// Why a row of a batch cannot be sent.
///
/// The names and their order are a contract: a row carries the first that applies.
package enum RowCode: String, Hashable, Sendable, CaseIterable {
    case malformedRow = "malformed_row"
    case badTransactionID = "bad_transaction_id"
    case badSKU = "bad_sku"
    case badPrice = "bad_price"
    case priceDecimals = "price_decimals"
    case unknownCurrency = "unknown_currency"
    case currencyMismatch = "currency_mismatch"
    case storefrontMismatch = "storefront_mismatch"
    case unknownSubscription = "unknown_subscription"
    case unknownItem = "unknown_item"
    case duplicateRow = "duplicate_row"
    case noChange = "no_change"
    case drifted
    case conflictOpenChange = "conflict_open_change"
    case dependentSelf = "dependent_self"
    case dependentUnknown = "dependent_unknown"
    case dependentShared = "dependent_shared"
    case dependentChained = "dependent_chained"
    case notActive = "not_active"
    case autoRenewOff = "auto_renew_off"
    case billingRetry = "billing_retry"
    case gracePeriod = "grace_period"
    case itemInOffer = "item_in_offer"
    case indiaIncrease = "india_increase"
    case alreadyCommunicated = "already_communicated"
}

/// A row code with its reason and remedy in words.
package struct RowFault: Error, Hashable, Sendable {
    package var code: RowCode
    /// What is wrong.
    package var message: String
    /// What to do about it.
    package var remedy: String

    package init(_ code: RowCode, _ message: String, remedy: String) {
        self.code = code
        self.message = message
        self.remedy = remedy
    }

    /// Apple's Sandbox shortens the periods, so no date can be met there.
    package static let dateInSandbox = RowFault(
        .malformedRow, "effective_on_or_after has no meaning in the Sandbox",
        remedy: "leave it out; an increase takes effect at the renewal after the next one")

    /// The row names its own item among its dependents.
    package static func dependentSelf(_ sku: String) -> RowFault {
        RowFault(
            .dependentSelf, "\(sku) names itself as its dependent",
            remedy: "remove it from dependent_skus")
    }

    /// The text `FILE:LINE: CODE: what is wrong; what to do`.
    package func text(file: String, line: Int) -> String {
        "\(file):\(line): \(code.rawValue): \(message); \(remedy)"
    }
}
