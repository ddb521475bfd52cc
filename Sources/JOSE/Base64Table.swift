/// The 12 bits that each pair of characters encodes, or a mark that one of the two is foreign.
///
/// Two loads decode four characters, without a branch.
///
/// Unchecked: the table is written once, never changes and is never freed. It has no reference count that all threads
/// would write.
struct Base64Table: @unchecked Sendable {
    /// The mark of a foreign character, above the twelve bits of a value.
    private static let foreign: UInt16 = 1 << 15

    /// Indexed by the first character plus 256 times the second.
    private let values: UnsafePointer<UInt16>

    init(alphabet: [UInt8]) {
        let values = UnsafeMutablePointer<UInt16>.allocate(capacity: 256 * 256)
        values.initialize(repeating: Self.foreign, count: 256 * 256)
        for (high, first) in alphabet.enumerated() {
            for (low, second) in alphabet.enumerated() {
                values[Int(first) | Int(second) << 8] = UInt16(high << 6 | low)
            }
        }
        self.values = UnsafePointer(values)
    }

    /// Decodes strictly: no padding, no foreign characters, no stray bits; nil otherwise.
    func decode(_ text: UnsafeBufferPointer<UInt8>) -> [UInt8]? {
        let (groups, rest) = text.count.quotientAndRemainder(dividingBy: 4)
        guard rest != 1 else { return nil }
        var isGood = true
        // Two bytes more than the last two groups' six, because eight are written at a time.
        let bytes = [UInt8](unsafeUninitializedCapacity: groups * 3 + 8) { out, count in
            let seen = decode(groups: groups, UnsafeRawBufferPointer(text), into: out)
            count = groups * 3
            guard rest > 0 else {
                isGood = seen & Self.foreign == 0
                return
            }
            let tail = tail(text, from: groups * 4)
            // Left-over bits must be zero, or two texts would mean the same bytes.
            let stray = tail.bits & (rest == 2 ? 0xFFFF : 0xFF)
            isGood = (seen | tail.seen) & Self.foreign == 0 && stray == 0
            for place in 0..<(rest - 1) {
                out[count] = UInt8(truncatingIfNeeded: tail.bits >> UInt32(16 - 8 * place))
                count += 1
            }
        }
        return isGood ? bytes : nil
    }

    /// The last two or three characters as the head of a group of 24 bits.
    private func tail(
        _ text: UnsafeBufferPointer<UInt8>, from start: Int
    ) -> (bits: UInt32, seen: UInt16) {
        // The character of value 0, with which both alphabets begin, stands for the missing ones.
        let zero = UInt8(ascii: "A")
        let third = text.count > start + 2 ? text[start + 2] : zero
        let first = values[Int(text[start]) | Int(text[start + 1]) << 8]
        let second = values[Int(third) | Int(zero) << 8]
        return (UInt32(first) << 12 | UInt32(second), first | second)
    }

    /// `out` has room for three bytes per group and two more; `text` holds four characters per group. Returns the OR of
    /// all values.
    private func decode(
        groups: Int, _ text: UnsafeRawBufferPointer, into out: UnsafeMutableBufferPointer<UInt8>
    ) -> UInt16 {
        guard groups > 0 else { return 0 }
        let raw = UnsafeMutableRawBufferPointer(out)
        var seen: UInt16 = 0
        for pair in 0..<(groups / 2) {
            let word = UInt64(
                littleEndian: text.loadUnaligned(fromByteOffset: pair &* 8, as: UInt64.self))
            let a = values[Int(word & 0xFFFF)]
            let b = values[Int(word >> 16 & 0xFFFF)]
            let c = values[Int(word >> 32 & 0xFFFF)]
            let d = values[Int(word >> 48)]
            seen |= a | b | c | d
            let bits = UInt64(a) << 52 | UInt64(b) << 40 | UInt64(c) << 28 | UInt64(d) << 16
            raw.storeBytes(of: bits.bigEndian, toByteOffset: pair &* 6, as: UInt64.self)
        }
        if groups % 2 == 1 {
            let place = (groups - 1) * 4
            let a = values[Int(text[place]) | Int(text[place + 1]) << 8]
            let b = values[Int(text[place + 2]) | Int(text[place + 3]) << 8]
            seen |= a | b
            let bits = UInt32(a) << 20 | UInt32(b) << 8
            raw.storeBytes(of: bits.bigEndian, toByteOffset: (groups - 1) * 3, as: UInt32.self)
        }
        return seen
    }
}
