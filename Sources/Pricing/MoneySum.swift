/// A sum of milliunits of one currency. When it exceeds 64 bits, it shows no number.
package struct MoneySum: Hashable, Sendable {
    /// The limit: far more than any number of rows can sum to, and small enough to be multiplied.
    private static let most = Int128(1) << 110

    private var value: Int128

    private init(clamping value: Int128) {
        self.value = min(max(value, -Self.most), Self.most)
    }

    package init(_ milliunits: Int64) { value = Int128(milliunits) }

    /// Reads a number of any length, as a database writes the sum of many; nil for anything else.
    package init?(_ text: String) {
        guard let value = Int128(text) else { return nil }
        self.init(clamping: value)
    }

    package static let zero = MoneySum(0)

    /// nil where the sum is too large for a number of 64 bits.
    package var milliunits: Int64? { Int64(exactly: value) }

    package var isTooLarge: Bool { milliunits == nil }
    package var isNegative: Bool { value < 0 }

    package static func + (left: MoneySum, right: MoneySum) -> MoneySum {
        MoneySum(clamping: left.value + right.value)
    }

    package static func - (left: MoneySum, right: MoneySum) -> MoneySum {
        MoneySum(clamping: left.value - right.value)
    }

    package static func += (left: inout MoneySum, right: MoneySum) { left = left + right }

    package static func += (left: inout MoneySum, right: Int64) { left = left + MoneySum(right) }

    /// The sum times `factor` over `divisor`, rounded towards zero.
    func times(_ factor: Int64, over divisor: Int64 = 1) -> MoneySum {
        let (whole, rest) = value.quotientAndRemainder(dividingBy: Int128(divisor))
        let (product, overflow) = whole.multipliedReportingOverflow(by: Int128(factor))
        guard !overflow else {
            return MoneySum(clamping: (value < 0) == (factor < 0) ? .max : .min)
        }
        return MoneySum(clamping: product)
            + MoneySum(clamping: rest * Int128(factor) / Int128(divisor))
    }

    /// The sum times `factor` over `divisor`, rounded half away from zero.
    func rounded(times factor: Int64, over divisor: Int64) -> MoneySum {
        let exact = times(factor, over: divisor)
        let rest = (value % Int128(divisor) * Int128(factor)) % Int128(divisor)
        guard rest.magnitude * 2 >= divisor.magnitude else { return exact }
        return exact + MoneySum(clamping: rest.signum())
    }

    /// The nearest multiple of `step`, half away from zero.
    package func rounded(to step: Int64) -> MoneySum {
        rounded(times: 1, over: step).times(step)
    }

    /// Its share of another sum in hundredths of a percent, rounded towards zero; nil where the other sum is 0 or
    /// less, or where this one is more than it or below 0.
    package func basisPoints(of whole: MoneySum) -> Int64? {
        guard whole.value > 0, value >= 0, value <= whole.value else { return nil }
        return Int64(clamping: value * 10_000 / whole.value)
    }
}

extension Period {
    /// A sum of amounts of one period as an amount a month. A year is 12 months or 52 weeks, as in
    /// `report.revenue_impact`. It is rounded half away from zero; nil for a period that cannot be stepped.
    package func perMonth(_ sum: MoneySum) -> MoneySum? {
        switch step {
        case .months(let months): sum.rounded(times: 1, over: Int64(months))
        // 52 weeks are 364 days.
        case .days(let days): sum.rounded(times: 364, over: Int64(days) * 12)
        case nil: nil
        }
    }
}
