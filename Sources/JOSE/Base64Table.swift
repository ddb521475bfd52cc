/// What each character means at each of the four places of a group, already shifted.
///
/// Four look-ups and three ORs make three bytes; one bit above them says that a character is foreign.
struct Base64Table: Sendable {
    private static let foreign: UInt32 = 1 << 24
    private let values: [UInt32]

    init(alphabet: [UInt8]) {
        var values = [UInt32](repeating: Self.foreign, count: 4 * 256)
        for (value, character) in alphabet.enumerated() {
            for place in 0..<4 {
                values[place * 256 + Int(character)] = UInt32(value) << UInt32(18 - 6 * place)
            }
        }
        self.values = values
    }

    /// Decodes strictly: no padding, no foreign characters, no stray bits; nil otherwise.
    func decode(_ text: UnsafeBufferPointer<UInt8>) -> [UInt8]? {
        let (groups, rest) = text.count.quotientAndRemainder(dividingBy: 4)
        guard rest != 1 else { return nil }
        var isGood = true
        let bytes = [UInt8](
            unsafeUninitializedCapacity: groups * 3 + 2
        ) { out, count in
            let seen = values.withUnsafeBufferPointer { table in
                Self.decode(groups: groups, text, table, into: out)
            }
            count = groups * 3
            var last = Self.foreign
            if rest > 0 {
                last = tail(text, from: groups * 4)
                // Left-over bits must be zero, or two texts would mean the same bytes.
                if last & (rest == 2 ? 0xFFFF : 0xFF) != 0 { last = Self.foreign }
                for place in 0..<(rest - 1) {
                    out[count] = UInt8(truncatingIfNeeded: last >> UInt32(16 - 8 * place))
                    count += 1
                }
            } else {
                last = 0
            }
            isGood = (seen | last) & Self.foreign == 0
        }
        return isGood ? bytes : nil
    }

    /// The last two or three characters as the head of a group.
    private func tail(_ text: UnsafeBufferPointer<UInt8>, from start: Int) -> UInt32 {
        var bits: UInt32 = 0
        for index in start..<text.count {
            bits |= values[(index - start) * 256 + Int(text[index])]
        }
        return bits
    }

    /// `out` has room for three bytes a group, `text` holds four characters a group. Returns the OR of all
    /// groups.
    private static func decode(
        groups: Int, _ text: UnsafeBufferPointer<UInt8>, _ table: UnsafeBufferPointer<UInt32>,
        into out: UnsafeMutableBufferPointer<UInt8>
    ) -> UInt32 {
        var seen: UInt32 = 0
        var input = 0
        var output = 0
        for _ in 0..<groups {
            let bits =
                table[Int(text[input])] | table[256 + Int(text[input + 1])]
                | table[512 + Int(text[input + 2])] | table[768 + Int(text[input + 3])]
            seen |= bits
            out[output] = UInt8(truncatingIfNeeded: bits >> 16)
            out[output + 1] = UInt8(truncatingIfNeeded: bits >> 8)
            out[output + 2] = UInt8(truncatingIfNeeded: bits)
            input += 4
            output += 3
        }
        return seen
    }
}
