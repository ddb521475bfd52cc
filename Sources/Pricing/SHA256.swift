/// An incremental SHA-256 (FIPS 180-4), because a plan's fingerprint must not need a library below this module.
package struct SHA256: Sendable {
    private var state: [UInt32] = [
        0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a,
        0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19,
    ]
    /// The bytes of a block that is not full yet.
    private var rest: [UInt8] = []
    private var byteCount: UInt64 = 0

    package init() {}

    /// It is not generic, because a generic call from another module costs more for each byte than the digest itself.
    package mutating func update(_ bytes: [UInt8]) {
        byteCount &+= UInt64(bytes.count)
        var taken = 0
        if !rest.isEmpty {
            taken = min(64 - rest.count, bytes.count)
            rest += bytes[..<taken]
            guard rest.count == 64 else { return }
            rest.withUnsafeBytes { compress($0) }
            rest = []
        }
        let whole = (bytes.count - taken) & ~63
        bytes.withUnsafeBytes {
            compress(UnsafeRawBufferPointer(rebasing: $0[taken..<(taken + whole)]))
        }
        rest = Array(bytes[(taken + whole)...])
    }

    /// The 32 bytes of the digest. More bytes can be added afterwards.
    package func digest() -> [UInt8] {
        var last = self
        let bitCount = byteCount &* 8
        let padding = (119 - Int(byteCount & 63)) % 64
        let length = (0..<8).reversed().map { UInt8(truncatingIfNeeded: bitCount >> ($0 * 8)) }
        last.update([0x80] + [UInt8](repeating: 0, count: padding) + length)
        return last.state.flatMap { word in
            [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: word >> UInt32($0)) }
        }
    }

    package func hexadecimalDigest() -> String {
        digest().map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    /// Takes whole blocks.
    private mutating func compress(_ blocks: UnsafeRawBufferPointer) {
        withUnsafeTemporaryAllocation(of: UInt32.self, capacity: 64) { words in
            state.withUnsafeMutableBufferPointer { state in
                SHA256.constants.withUnsafeBufferPointer { constants in
                    for start in stride(from: 0, to: blocks.count, by: 64) {
                        for index in 0..<16 {
                            words[index] = UInt32(
                                bigEndian: blocks.loadUnaligned(
                                    fromByteOffset: start + index * 4, as: UInt32.self))
                        }
                        SHA256.compress(words, state, constants)
                    }
                }
            }
        }
    }

    /// One block: its 16 words, then the 48 that follow from them.
    private static func compress(
        _ words: UnsafeMutableBufferPointer<UInt32>,
        _ state: UnsafeMutableBufferPointer<UInt32>, _ constants: UnsafeBufferPointer<UInt32>
    ) {
        for index in 16..<64 {
            let early = words[index - 15]
            let late = words[index - 2]
            let mixedEarly = rotate(early, 7) ^ rotate(early, 18) ^ (early >> 3)
            let mixedLate = rotate(late, 17) ^ rotate(late, 19) ^ (late >> 10)
            words[index] = words[index - 16] &+ mixedEarly &+ words[index - 7] &+ mixedLate
        }
        var (a, b, c, d) = (state[0], state[1], state[2], state[3])
        var (e, f, g, h) = (state[4], state[5], state[6], state[7])
        for index in 0..<64 {
            let high = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)
            let choice = (e & f) ^ (~e & g)
            let first = h &+ high &+ choice &+ constants[index] &+ words[index]
            let low = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)
            let second = low &+ ((a & b) ^ (a & c) ^ (b & c))
            (h, g, f, e, d, c, b, a) = (g, f, e, d &+ first, c, b, a, first &+ second)
        }
        state[0] &+= a
        state[1] &+= b
        state[2] &+= c
        state[3] &+= d
        state[4] &+= e
        state[5] &+= f
        state[6] &+= g
        state[7] &+= h
    }

    private static func rotate(_ word: UInt32, _ count: UInt32) -> UInt32 {
        word &>> count | word &<< (32 &- count)
    }

    private static let constants: [UInt32] = [
        0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4,
        0xab1c_5ed5, 0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe,
        0x9bdc_06a7, 0xc19b_f174, 0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f,
        0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da, 0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7,
        0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967, 0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc,
        0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85, 0xa2bf_e8a1, 0xa81a_664b,
        0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070, 0x19a4_c116,
        0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
        0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7,
        0xc671_78f2,
    ]
}
