/// Converts prices as people write them to and from milliunits, without floating point.
package enum PriceText {
    package enum Fault: Error, Hashable {
        /// The text is not plain digits with at most one decimal point.
        case notANumber
        /// It is more than `Int64` milliunits can hold.
        case tooLarge
        case notPositive
        /// It has more than three decimals, or more than the given number of decimals.
        case tooManyDecimals
    }

    /// The largest price: a thousand billion of any currency, so that sums of many stay within 64 bits.
    package static let milliunitsMax: Int64 = 1_000_000_000_000_000

    /// The milliunits of a decimal price: `12.990` is 12990.
    ///
    /// It takes no sign, exponent, blank or thousands separator.
    package static func milliunits(decimal text: String) throws(Fault) -> Int64 {
        try units(decimal: text, places: 3)
    }

    /// An amount as people write it, with the decimals of its currency: `9.99 EUR`.
    static func amount(_ milliunits: Int64, _ currency: String) -> String {
        let decimals = Currency.apple.first { $0.code == currency }?.decimals ?? 2
        return "\(decimal(milliunits, decimals: decimals)) \(currency)"
    }

    /// A decimal number above 0, in units of the last of its `places` decimals.
    static func units(decimal text: some StringProtocol, places limit: Int) throws(Fault) -> Int64 {
        var digits: Int64 = 0
        var wholeCount = 0
        var isTooLarge = false
        /// The number of digits after the point; nil before the point.
        var places: Int?
        /// The place of the last digit after the point that is more than 0.
        var significant = 0
        for byte in text.utf8 {
            if byte == UInt8(ascii: "."), places == nil {
                places = 0
                continue
            }
            guard isDigit(byte) else { throw .notANumber }
            if let place = places {
                places = place + 1
                if byte != UInt8(ascii: "0") { significant = place + 1 }
                // A digit beyond the last place is not added: it is zero, or refused below.
                if place >= limit { continue }
            } else {
                wholeCount += 1
            }
            isTooLarge = !append(byte, to: &digits) || isTooLarge
        }
        guard wholeCount > 0, places != 0 else { throw .notANumber }
        if isTooLarge, significant <= limit { throw .tooLarge }
        guard significant <= limit else { throw isTooLarge ? .tooLarge : .tooManyDecimals }
        for _ in min(places ?? 0, limit)..<limit where !append(UInt8(ascii: "0"), to: &digits) {
            throw .tooLarge
        }
        guard digits > 0 else { throw .notPositive }
        return digits
    }

    /// Reads milliunits that are written as an integer.
    package static func milliunits(integer text: String) throws(Fault) -> Int64 {
        guard !text.utf8.isEmpty, text.utf8.allSatisfy(isDigit) else { throw .notANumber }
        guard let value = Int64(text) else { throw .tooLarge }
        guard value > 0 else { throw .notPositive }
        return value
    }

    /// Appends the digit, and returns whether it still fits.
    private static func append(_ digit: UInt8, to value: inout Int64) -> Bool {
        let (scaled, isScaledOver) = value.multipliedReportingOverflow(by: 10)
        let (sum, isSumOver) = scaled.addingReportingOverflow(Int64(digit &- UInt8(ascii: "0")))
        guard !isScaledOver, !isSumOver else { return false }
        value = sum
        return true
    }

    /// The price in text, such as `12.99`: with the currency's decimals where these suffice, and otherwise with
    /// three.
    package static func decimal(_ milliunits: Int64, decimals: Int = 2) -> String {
        let step = Currency(code: "", decimals: decimals).smallestStep
        let shown = milliunits % step == 0 ? max(0, min(decimals, 3)) : 3
        let magnitude = milliunits.magnitude
        let sign = milliunits < 0 ? "-" : ""
        guard shown > 0 else { return "\(sign)\(magnitude / 1000)" }
        return "\(sign)\(magnitude / 1000).\(padded(Int(magnitude % 1000), 3).prefix(shown))"
    }
}
