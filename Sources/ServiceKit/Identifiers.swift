/// Time-ordered identifiers (RFC 9562, version 7), so that new rows sit together in an index.
package struct UUIDv7 {
    /// A lower-case UUID that starts with the instant; the rest is random.
    package static func make(
        nowMilliseconds: Int64, random: inout some RandomNumberGenerator
    ) -> String {
        let time = UInt64(bitPattern: max(0, nowMilliseconds)) & 0xFFFF_FFFF_FFFF
        let high = time << 16 | 0x7000 | random.next() & 0x0FFF
        let low = 0x8000_0000_0000_0000 | random.next() & 0x3FFF_FFFF_FFFF_FFFF
        var text: [UInt8] = []
        text.reserveCapacity(36)
        append(high, to: &text, hyphensAfter: [8, 13])
        text.append(UInt8(ascii: "-"))
        append(low, to: &text, hyphensAfter: [23])
        return String(decoding: text, as: UTF8.self)
    }

    /// Appends 16 digits, with a hyphen wherever the text has reached one of `lengths`.
    private static func append(
        _ value: UInt64, to text: inout [UInt8], hyphensAfter lengths: [Int]
    ) {
        for shift in stride(from: UInt64(60), through: 0, by: -4) {
            let digit = UInt8(truncatingIfNeeded: value >> shift & 15)
            text.append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10)
            if lengths.contains(text.count) { text.append(UInt8(ascii: "-")) }
        }
    }
}

extension String {
    /// Whether it is a UUID as RFC 9562 writes it, in either case: 36 characters, four hyphens, no braces.
    package var isUUID: Bool {
        let bytes = utf8
        return bytes.count == 36
            && zip(bytes, 0...).allSatisfy { byte, place in
                switch place {
                case 8, 13, 18, 23: byte == UInt8(ascii: "-")
                default: Hex.value(of: byte) != nil
                }
            }
    }
}

/// A small generator with a seed (SplitMix64): the same seed gives the same run, so no secrets.
package struct SeededRandom: RandomNumberGenerator, Sendable {
    private var state: UInt64

    package init(seed: UInt64) {
        state = seed
    }

    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
