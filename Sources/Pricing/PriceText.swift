/// Prices as people write them, to and from milliunits, without floating point.
package enum PriceText {
    package enum Fault: Error, Hashable {
        /// Not plain digits with at most one decimal point.
        case notANumber
        /// More than `Int64` milliunits hold.
        case tooLarge
        case notPositive
        /// Smaller steps than a thousandth.
        case tooManyDecimals
    }

    /// Milliunits of a decimal price: `12.990` is 12990.
    ///
    /// No sign, exponent, blank or thousands separator.
    package static func milliunits(decimal text: some StringProtocol) throws(Fault) -> Int64 {
        let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard let whole = parts.first, parts.count <= 2 else { throw .notANumber }
        var fraction = parts.count == 2 ? Array(parts[1]) : []
        guard parts.count == 1 || !fraction.isEmpty, fraction.allSatisfy(isDigit) else {
            throw .notANumber
        }
        guard let units = try number(whole) else { throw .tooLarge }
        while fraction.count > 3, fraction.last == UInt8(ascii: "0") { fraction.removeLast() }
        guard fraction.count <= 3 else { throw .tooManyDecimals }
        while fraction.count < 3 { fraction.append(UInt8(ascii: "0")) }
        let thousandths = Int64(decimalNumber(fraction) ?? 0)
        let (scaled, isScaledOver) = units.multipliedReportingOverflow(by: 1000)
        let (sum, isSumOver) = scaled.addingReportingOverflow(thousandths)
        guard !isScaledOver, !isSumOver else { throw .tooLarge }
        guard sum > 0 else { throw .notPositive }
        return sum
    }

    /// Milliunits written as an integer.
    package static func milliunits(integer text: some StringProtocol) throws(Fault) -> Int64 {
        guard let value = try number(Substring(text).utf8) else { throw .tooLarge }
        guard value > 0 else { throw .notPositive }
        return value
    }

    /// `12.99`; with the currency's decimals where the price has no more, else with three.
    package static func decimal(_ milliunits: Int64, decimals: Int = 2) -> String {
        let step = Currency(code: "", decimals: decimals).smallestStep
        let shown = milliunits % step == 0 ? max(0, min(decimals, 3)) : 3
        let magnitude = milliunits.magnitude
        let sign = milliunits < 0 ? "-" : ""
        guard shown > 0 else { return "\(sign)\(magnitude / 1000)" }
        return "\(sign)\(magnitude / 1000).\(padded(Int(magnitude % 1000), 3).prefix(shown))"
    }

    private static func number(_ bytes: some Collection<UInt8>) throws(Fault) -> Int64? {
        guard !bytes.isEmpty, bytes.allSatisfy(isDigit) else { throw .notANumber }
        var value: Int64 = 0
        for byte in bytes {
            let (scaled, isScaledOver) = value.multipliedReportingOverflow(by: 10)
            let (sum, isSumOver) = scaled.addingReportingOverflow(Int64(byte - UInt8(ascii: "0")))
            guard !isScaledOver, !isSumOver else { return nil }
            value = sum
        }
        return value
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
    }
}
