/// A table with the two characters of each 12 bits: two look-ups turn three bytes into four characters.
///
/// Unchecked: the table is written once, never changes and is never freed. It has no reference count that all threads
/// would write.
struct Base64Encoder: @unchecked Sendable {
    /// The first character plus 256 times the second.
    private let pairs: UnsafePointer<UInt16>

    /// `alphabet` has 64 characters.
    init(alphabet: [UInt8]) {
        let pairs = UnsafeMutablePointer<UInt16>.allocate(capacity: 64 * 64)
        pairs.initialize(repeating: 0, count: 64 * 64)
        for (high, first) in alphabet.enumerated() {
            for (low, second) in alphabet.enumerated() {
                pairs[high << 6 | low] = UInt16(first) | UInt16(second) << 8
            }
        }
        self.pairs = UnsafePointer(pairs)
    }

    func encode(_ bytes: UnsafeBufferPointer<UInt8>, padded: Bool) -> [UInt8] {
        let (groups, rest) = bytes.count.quotientAndRemainder(dividingBy: 3)
        return [UInt8](unsafeUninitializedCapacity: groups * 4 + 4) { out, count in
            encode(groups: groups, bytes, into: out)
            count = groups * 4
            guard rest > 0 else { return }
            let first = UInt32(bytes[groups * 3]) << 16
            let bits = rest == 1 ? first : first | UInt32(bytes[groups * 3 + 1]) << 8
            for place in 0...rest {
                // A pair's first character, whatever the second.
                let pair = pairs[Int(bits >> UInt32(18 - 6 * place) & 63) << 6]
                out[count] = UInt8(truncatingIfNeeded: pair)
                count += 1
            }
            while padded, count % 4 != 0 {
                out[count] = UInt8(ascii: "=")
                count += 1
            }
        }
    }

    /// `out` has room for four characters per group; `bytes` holds three bytes per group.
    private func encode(
        groups: Int, _ bytes: UnsafeBufferPointer<UInt8>,
        into out: UnsafeMutableBufferPointer<UInt8>
    ) {
        let input = UnsafeRawBufferPointer(bytes)
        let output = UnsafeMutableRawBufferPointer(out)
        var group = 0
        // Encodes two groups of each eight bytes read; the last two of the eight are read again.
        while group + 2 <= groups, group &* 3 &+ 8 <= input.count {
            let word = UInt64(
                bigEndian: input.loadUnaligned(fromByteOffset: group &* 3, as: UInt64.self))
            let a = pairs[Int(word >> 52)]
            let b = pairs[Int(word >> 40 & 0xFFF)]
            let c = pairs[Int(word >> 28 & 0xFFF)]
            let d = pairs[Int(word >> 16 & 0xFFF)]
            let text = UInt64(a) | UInt64(b) << 16 | UInt64(c) << 32 | UInt64(d) << 48
            output.storeBytes(of: text.littleEndian, toByteOffset: group &* 4, as: UInt64.self)
            group &+= 2
        }
        while group < groups {
            let bits =
                Int(bytes[group * 3]) << 16 | Int(bytes[group * 3 + 1]) << 8
                | Int(bytes[group * 3 + 2])
            let text = UInt32(pairs[bits >> 12]) | UInt32(pairs[bits & 0xFFF]) << 16
            output.storeBytes(of: text.littleEndian, toByteOffset: group * 4, as: UInt32.self)
            group += 1
        }
    }
}
