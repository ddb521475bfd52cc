/// A rate in billionths, so that no amount of money passes through floating point.
package struct Rate: Hashable, Sendable {
    /// The rate in billionths, greater than 0.
    package let billionths: Int64

    package static let one = Rate(trusted: 1_000_000_000)

    /// nil unless it is positive.
    package init?(billionths: Int64) {
        guard billionths > 0 else { return nil }
        self.billionths = billionths
    }

    private init(trusted billionths: Int64) { self.billionths = billionths }

    package enum Fault: Error, Hashable {
        /// The text is not plain digits with at most one decimal point.
        case notANumber
        case notPositive
        /// It has more than nine decimals, or is too large.
        case outOfRange
    }

    /// Reads `1.0876` or `17654`: digits with at most one decimal point and nine decimals.
    package init(decimal text: some StringProtocol) throws(Fault) {
        let units: Int64
        do throws(PriceText.Fault) {
            units = try PriceText.units(decimal: text, places: 9)
        } catch {
            switch error {
            case .notANumber: throw .notANumber
            case .notPositive: throw .notPositive
            case .tooLarge, .tooManyDecimals: throw .outOfRange
            }
        }
        // This is one less than the largest whole part, so that every fraction still fits.
        guard units < 9_223_372_036_000_000_000 else { throw .outOfRange }
        billionths = units
    }

    /// The shortest text that reads back the same: `1.0876`.
    package var text: String {
        let whole = billionths / 1_000_000_000
        var fraction = padded(Int(billionths % 1_000_000_000), 9)
        while fraction.last == "0" { fraction.removeLast() }
        return fraction.isEmpty ? "\(whole)" : "\(whole).\(fraction)"
    }

    /// The quotient, rounded down; nil where it is no rate any more.
    func divided(by other: Rate) -> Rate? {
        Int64(
            exactly: Int128(billionths) * Int128(Rate.one.billionths) / Int128(other.billionths)
        ).flatMap { Rate(billionths: $0) }
    }
}
