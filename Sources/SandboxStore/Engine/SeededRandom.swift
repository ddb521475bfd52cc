/// SplitMix64: the same seed gives the same subscribers and the same behaviour on every machine.
struct SeededRandom: RandomNumberGenerator, Sendable {
    private var state: UInt64

    /// A separate stream for one decision, so that decisions do not depend on each other's order.
    init(seed: UInt64, _ words: String...) {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325 ^ seed
        for word in words {
            for byte in word.utf8 {
                hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3
            }
            hash = (hash ^ 0xff) &* 0x100_0000_01b3
        }
        state = hash
    }

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }

    /// A number in `range`, which must not be empty.
    mutating func pick(_ range: ClosedRange<Int64>) -> Int64 {
        Int64.random(in: range, using: &self)
    }

    /// True in `percent` of 100 cases.
    mutating func chance(_ percent: Int64) -> Bool {
        pick(0...99) < percent
    }

    /// A lower-case UUID (version 4 shape) drawn from this stream.
    mutating func uuid() -> String {
        let high = (next() & 0xffff_ffff_ffff_0fff) | 0x4000
        let low = (next() & 0x3fff_ffff_ffff_ffff) | 0x8000_0000_0000_0000
        let digits = Array(hex(high) + hex(low))
        let parts = [0..<8, 8..<12, 12..<16, 16..<20, 20..<32].map { String(digits[$0]) }
        return parts.joined(separator: "-")
    }

    private func hex(_ value: UInt64) -> String {
        let text = String(value, radix: 16)
        return String(repeating: "0", count: 16 - text.count) + text
    }
}
