/// The escapes that follow a backslash.
enum JSONEscape {
    /// The byte that a short escape means; nil where there is no such escape.
    static func byte(after mark: UInt8) -> UInt8? {
        switch mark {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): mark
        case UInt8(ascii: "b"): 0x08
        case UInt8(ascii: "f"): 0x0C
        case UInt8(ascii: "n"): 0x0A
        case UInt8(ascii: "r"): 0x0D
        case UInt8(ascii: "t"): 0x09
        default: nil
        }
    }

    /// The UTF-16 unit of four hexadecimal digits.
    static func unit(_ digits: some Collection<UInt8>) -> UInt32? {
        var unit: UInt32 = 0
        for digit in digits {
            let value: UInt8
            switch digit {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): value = digit - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): value = digit - UInt8(ascii: "a") + 10
            case UInt8(ascii: "A")...UInt8(ascii: "F"): value = digit - UInt8(ascii: "A") + 10
            default: return nil
            }
            unit = unit << 4 | UInt32(value)
        }
        return unit
    }

    /// The text that `content` encodes, which the scanner has checked; nil where it holds a lone surrogate.
    static func unescaped(_ content: ArraySlice<UInt8>) -> String? {
        var text: [UInt8] = []
        text.reserveCapacity(content.count)
        var rest = content
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "\\") else {
                text.append(byte)
                continue
            }
            guard let mark = rest.popFirst() else { return nil }
            if let plain = self.byte(after: mark) {
                text.append(plain)
            } else {
                guard let scalar = scalar(&rest) else { return nil }
                text.append(contentsOf: String(scalar).utf8)
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    private static func scalar(_ rest: inout ArraySlice<UInt8>) -> Unicode.Scalar? {
        guard let high = unit(rest.prefix(4)) else { return nil }
        rest = rest.dropFirst(4)
        // Everything but a surrogate is a scalar already.
        if let scalar = Unicode.Scalar(high) { return scalar }
        guard high < 0xDC00, rest.starts(with: [UInt8(ascii: "\\"), UInt8(ascii: "u")]),
            let low = unit(rest.dropFirst(2).prefix(4)), (0xDC00...0xDFFF).contains(low)
        else { return nil }
        rest = rest.dropFirst(6)
        return Unicode.Scalar(0x10000 + (high - 0xD800) << 10 + (low - 0xDC00))
    }
}
