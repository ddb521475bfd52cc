import ServiceKit
import Synchronization

/// A stream of numbers of one decision: the same words give the same ones, in whatever order decisions are asked for.
struct Dice: RandomNumberGenerator, Sendable {
    private var state: UInt64

    init(_ seed: UInt64, _ words: String...) {
        state = seed &* 0x9e37_79b9_7f4a_7c15 ^ 0x5851_f42d_4c95_7f2d
        for byte in words.joined(separator: "\u{1f}").utf8 {
            state = (state ^ UInt64(byte)) &* 0x100_0000_01b3
        }
        _ = next()
    }

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }

    mutating func pick(_ range: ClosedRange<Int64>) -> Int64 {
        Int64.random(in: range, using: &self)
    }

    /// True in so many of a thousand cases.
    mutating func chance(_ perMille: Int64) -> Bool { pick(0...999) < perMille }
}

/// Stands still until the world moves it.
final class WorldClock: WallClock {
    private let milliseconds: Mutex<Int64>

    init(_ milliseconds: Int64) { self.milliseconds = Mutex(milliseconds) }

    func nowMilliseconds() -> Int64 { milliseconds.withLock { $0 } }

    func advance(by interval: Int64) { milliseconds.withLock { $0 += interval } }
}

let day: Int64 = 86_400_000
