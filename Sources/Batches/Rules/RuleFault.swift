/// What is wrong with one row of a file of rules, and what to do about it.
package struct RuleFault: Error, Hashable, Sendable {
    package enum Code: String, Hashable, Sendable, CaseIterable {
        case malformedRow = "malformed_row"
        case unknownRule = "unknown_rule"
        case unexpectedCell = "unexpected_cell"
        case badStorefront = "bad_storefront"
        case badCurrency = "bad_currency"
        case unknownCurrency = "unknown_currency"
        case badPeriodKind = "bad_period_kind"
        case badAmount = "bad_amount"
        case badRequired = "bad_required"
        case badDecimals = "bad_decimals"
        case badRate = "bad_rate"
        case badDate = "bad_date"
        case badSource = "bad_source"
        case duplicateRow = "duplicate_row"
    }

    package var line: Int
    package var code: Code
    package var message: String
    package var remedy: String

    init(_ line: Int, _ code: Code, _ message: String, remedy: String) {
        self.line = line
        self.code = code
        self.message = message
        self.remedy = remedy
    }

    /// `FILE:LINE: CODE: what is wrong; what to do`.
    package func text(file: String) -> String {
        "\(file):\(line): \(code.rawValue): \(message); \(remedy)"
    }
}
