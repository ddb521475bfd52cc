package typealias RuleFault = FileFault<RuleFaultCode>

/// What can be wrong with one row of a file of rules.
package enum RuleFaultCode: String, Hashable, Sendable, CaseIterable {
    case malformedRow = "malformed_row"
    case unknownRule = "unknown_rule"
    case unexpectedCell = "unexpected_cell"
    case badStorefront = "bad_storefront"
    /// The code is well formed, but no storefront of the App Store has it.
    case unknownStorefront = "unknown_storefront"
    case badCurrency = "bad_currency"
    case unknownCurrency = "unknown_currency"
    case badPeriodKind = "bad_period_kind"
    case badAmount = "bad_amount"
    case amountDecimals = "amount_decimals"
    case badRequired = "bad_required"
    case badDecimals = "bad_decimals"
    case badRate = "bad_rate"
    case badDate = "bad_date"
    case badSource = "bad_source"
    case badWithdrawn = "bad_withdrawn"
    case nothingToWithdraw = "nothing_to_withdraw"
    case duplicateRow = "duplicate_row"
    // These are warnings: a person may accept the row all the same.
    case implausibleCurrency = "implausible_currency"
    case implausibleAmount = "implausible_amount"
    case annualBelowNonannual = "annual_below_nonannual"
}
