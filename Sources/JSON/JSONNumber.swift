/// A number as it is written, checked by the scanner. It is exact, because nothing passes through floating point.
struct JSONNumber {
    private let isNegative: Bool
    /// The digits without the point and without zeros at either end; empty for zero.
    private let digits: ArraySlice<UInt8>
    /// The power of ten of the last digit.
    private let exponent: Int

    /// The largest exponent kept. A larger one gives the same results, and up to this bound the sums cannot overflow.
    private static let exponentMax = 1 << 40

    init(_ text: ArraySlice<UInt8>) {
        var rest = text
        isNegative = rest.first == UInt8(ascii: "-")
        if isNegative { rest = rest.dropFirst() }
        let mark = rest.firstIndex { $0 | 0x20 == UInt8(ascii: "e") } ?? rest.endIndex
        let mantissa = rest[..<mark]
        var exponent = Self.exponent(rest[mark...].dropFirst())
        var digits = mantissa
        if let point = mantissa.firstIndex(of: UInt8(ascii: ".")) {
            let fraction = mantissa[(point + 1)...]
            exponent -= fraction.count
            digits = (Array(mantissa[..<point]) + fraction)[...]
        }
        while digits.last == UInt8(ascii: "0") {
            digits = digits.dropLast()
            exponent += 1
        }
        self.digits = digits.drop { $0 == UInt8(ascii: "0") }
        self.exponent = exponent
    }

    private static func exponent(_ text: ArraySlice<UInt8>) -> Int {
        let isNegative = text.first == UInt8(ascii: "-")
        var value = 0
        for byte in text where byte &- 0x30 < 10 {
            value = min(value * 10 + Int(byte - 0x30), exponentMax)
        }
        return isNegative ? -value : value
    }

    /// The number; nil where there is a fraction, or where it is out of range.
    var exactly: Int64? {
        if digits.isEmpty { return 0 }
        return exponent < 0 ? nil : Self.whole(digits, zeros: exponent, isNegative: isNegative)
    }

    /// The greatest whole number that is not greater; nil where it is out of range.
    var roundedDown: Int64? {
        if exponent >= 0 { return exactly }
        guard
            let cut = Self.whole(
                digits.dropLast(-exponent), zeros: 0, isNegative: isNegative)
        else { return nil }
        // The part that was cut off is not zero, because the last digit is not.
        guard isNegative, !digits.isEmpty else { return cut }
        let (below, isOut) = cut.subtractingReportingOverflow(1)
        return isOut ? nil : below
    }

    /// A number of the plain form `-?[0-9]+`, read without a search for a point or an exponent; nil otherwise.
    static func plain(_ text: ArraySlice<UInt8>) -> Int64? {
        guard text.first == UInt8(ascii: "-") else {
            return whole(text, zeros: 0, isNegative: false)
        }
        return whole(text.dropFirst(), zeros: 0, isNegative: true)
    }

    private static func whole(
        _ digits: ArraySlice<UInt8>, zeros: Int, isNegative: Bool
    ) -> Int64? {
        guard zeros < 19 else { return nil }
        var value: Int64 = 0
        for byte in digits {
            guard byte &- 0x30 < 10,
                let next = appended(value, Int64(byte &- 0x30), isNegative: isNegative)
            else { return nil }
            value = next
        }
        for _ in 0..<zeros {
            guard let next = appended(value, 0, isNegative: isNegative) else { return nil }
            value = next
        }
        return value
    }

    private static func appended(_ value: Int64, _ digit: Int64, isNegative: Bool) -> Int64? {
        let (tenfold, isOut) = value.multipliedReportingOverflow(by: 10)
        let (sum, isOutToo) =
            isNegative
            ? tenfold.subtractingReportingOverflow(digit)
            : tenfold.addingReportingOverflow(digit)
        return isOut || isOutToo ? nil : sum
    }
}
