/// The two characters of each 12 bits: two look-ups make four characters of three bytes.
struct Base64Encoder: Sendable {
    private let alphabet: [UInt8]
    private let pairs: [(UInt8, UInt8)]

    init(alphabet: [UInt8]) {
        self.alphabet = alphabet
        pairs = alphabet.flatMap { first in alphabet.map { (first, $0) } }
    }

    func encode(_ bytes: UnsafeBufferPointer<UInt8>, padded: Bool) -> [UInt8] {
        let (groups, rest) = bytes.count.quotientAndRemainder(dividingBy: 3)
        return [UInt8](unsafeUninitializedCapacity: groups * 4 + 4) { out, count in
            pairs.withUnsafeBufferPointer { pairs in
                Self.encode(groups: groups, bytes, pairs, into: out)
            }
            count = groups * 4
            guard rest > 0 else { return }
            let first = UInt32(bytes[groups * 3]) << 16
            let bits = rest == 1 ? first : first | UInt32(bytes[groups * 3 + 1]) << 8
            for place in 0...rest {
                out[count] = alphabet[Int(bits >> UInt32(18 - 6 * place) & 63)]
                count += 1
            }
            while padded, count % 4 != 0 {
                out[count] = UInt8(ascii: "=")
                count += 1
            }
        }
    }

    /// `out` has room for four characters a group, `bytes` holds three a group.
    private static func encode(
        groups: Int, _ bytes: UnsafeBufferPointer<UInt8>,
        _ pairs: UnsafeBufferPointer<(UInt8, UInt8)>,
        into out: UnsafeMutableBufferPointer<UInt8>
    ) {
        var input = 0
        var output = 0
        for _ in 0..<groups {
            let bits =
                Int(bytes[input]) << 16 | Int(bytes[input + 1]) << 8 | Int(bytes[input + 2])
            (out[output], out[output + 1]) = pairs[bits >> 12]
            (out[output + 2], out[output + 3]) = pairs[bits & 0xFFF]
            input += 3
            output += 4
        }
    }
}
