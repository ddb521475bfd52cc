/// A rate in billionths, so that no amount of money passes through floating point.
package struct Rate: Hashable, Sendable {
    /// Greater than 0.
    package let billionths: Int64

    package static let one = Rate(trusted: 1_000_000_000)

    /// Nil unless positive.
    package init?(billionths: Int64) {
        guard billionths > 0 else { return nil }
        self.billionths = billionths
    }

    private init(trusted billionths: Int64) { self.billionths = billionths }

    package enum Fault: Error, Hashable {
        /// Not plain digits with at most one decimal point.
        case notANumber
        case notPositive
        /// More than nine decimals, or too large to hold.
        case outOfRange
    }

    /// Reads `1.0876` or `17654`: digits with at most one decimal point and nine decimals.
    package init(decimal text: some StringProtocol) throws(Fault) {
        let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        let isDigits = parts.allSatisfy { part in
            !part.isEmpty
                && part.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        }
        guard let whole = parts.first, parts.count <= 2, isDigits else { throw .notANumber }
        var fraction = parts.count == 2 ? Array(parts[1]) : []
        while fraction.count > 9, fraction.last == UInt8(ascii: "0") { fraction.removeLast() }
        guard fraction.count <= 9 else { throw .outOfRange }
        fraction += Array(repeating: UInt8(ascii: "0"), count: 9 - fraction.count)
        // 9,223,372,036 is the largest whole part that still holds nine decimals.
        let significant = whole.drop { $0 == UInt8(ascii: "0") }
        let units = significant.isEmpty ? 0 : decimalNumber(significant)
        guard let units, units < 9_223_372_036, let parts = decimalNumber(fraction) else {
            throw .outOfRange
        }
        let sum = Int64(units) * 1_000_000_000 + Int64(parts)
        guard sum > 0 else { throw .notPositive }
        billionths = sum
    }

    /// As short as it can be read back: `1.0876`.
    package var text: String {
        let whole = billionths / 1_000_000_000
        var fraction = padded(Int(billionths % 1_000_000_000), 9)
        while fraction.last == "0" { fraction.removeLast() }
        return fraction.isEmpty ? "\(whole)" : "\(whole).\(fraction)"
    }

    /// `amount` × self ÷ `divisor`, rounded down; nil when it does not fit.
    func converted(_ amount: Int64, per divisor: Rate) -> Int64? {
        guard amount >= 0 else { return nil }
        let product = amount.magnitude.multipliedFullWidth(by: billionths.magnitude)
        guard product.high < divisor.billionths.magnitude else { return nil }
        return Int64(exactly: divisor.billionths.magnitude.dividingFullWidth(product).quotient)
    }
}
