/// Sums that saturate at the largest and the smallest amount, and shares of amounts without an overflow in between.
extension Int64 {
    var negatedSaturated: Int64 { self == .min ? .max : -self }

    func addingSaturated(_ other: Int64) -> Int64 {
        let (sum, overflow) = addingReportingOverflow(other)
        return overflow ? (other < 0 ? .min : .max) : sum
    }

    /// This share of it, rounded half away from zero. `part` and `whole` are not negative. Nil where no share can be
    /// told.
    func part(_ part: Int64, of whole: Int64) -> Int64? {
        guard whole > 0, part >= 0, part <= whole else { return nil }
        let product = magnitude.multipliedFullWidth(by: part.magnitude)
        let (quotient, rest) = whole.magnitude.dividingFullWidth(product)
        let isUp = rest >= whole.magnitude - rest
        guard let size = Int64(exactly: quotient + (isUp ? 1 : 0)) else { return nil }
        return self < 0 ? -size : size
    }
}
