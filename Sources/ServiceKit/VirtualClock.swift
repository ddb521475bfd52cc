/// A `--clock` value that cannot be read.
package struct ClockFormatError: Error, Equatable, CustomStringConvertible {
    package let text: String
    package let reason: String

    package var description: String {
        "clock \"\(text)\" cannot be used: \(reason); "
            + "write START@RATE or START@RATE@ORIGIN, as 2026-01-05T00:00:00Z@86400"
    }
}

/// A clock that runs at another rate: virtual = start + rate * (real - origin).
///
/// Two programs with the same three numbers see the same time, so that a rehearsal can share one clock.
package struct VirtualClock: WallClock {
    /// The most virtual seconds for one real second: about a year in three seconds.
    package static let rateMax = 10_000_000.0

    package let start: Int64
    package let rate: Double
    package let origin: Int64
    private let real: any WallClock

    /// Starts at `start` when the real clock shows `origin` (both UTC milliseconds).
    package init(start: Int64, rate: Double, origin: Int64, real: any WallClock = SystemClock()) {
        self.start = start
        self.rate = rate
        self.origin = origin
        self.real = real
    }

    package func nowMilliseconds() -> Int64 {
        let elapsed = Double(real.nowMilliseconds()) - Double(origin)
        return start.addingClamped(Int64(clampedRounding: (elapsed * rate).rounded(.down)))
    }

    package func realDuration(of interval: Duration) -> Duration {
        guard rate > 0 else { return interval }
        // It is bounded to about three centuries, because a larger figure would trap in Duration's arithmetic.
        return .seconds(min(interval.seconds / rate, 1e10))
    }

    /// `START@RATE@ORIGIN`, which another program can parse to share this clock.
    package var specification: String {
        let whole = Int64(exactly: rate).map(String.init) ?? "\(rate)"
        return "\(RFC3339.format(start))@\(whole)@\(origin)"
    }

    /// The parts of a `--clock` value; without an origin the clock starts when it is made.
    package struct Parsed: Equatable, Sendable {
        package let start: Int64
        package let rate: Double
        package let origin: Int64?

        package init(start: Int64, rate: Double, origin: Int64?) {
            self.start = start
            self.rate = rate
            self.origin = origin
        }

        /// The clock that these parts describe; `real` supplies a missing origin.
        package func clock(real: any WallClock = SystemClock()) -> VirtualClock {
            VirtualClock(
                start: start, rate: rate, origin: origin ?? real.nowMilliseconds(), real: real)
        }
    }

    /// Reads `START@RATE` or `START@RATE@ORIGIN`; ORIGIN is real Unix time in milliseconds.
    package static func parse(_ text: String) throws(ClockFormatError) -> Parsed {
        let parts = text.split(separator: "@", omittingEmptySubsequences: false).map(String.init)
        guard let first = parts.first, let second = parts.dropFirst().first, parts.count <= 3 else {
            throw ClockFormatError(text: text, reason: "it has \(parts.count) parts")
        }
        guard let start = RFC3339.parse(first) else {
            throw ClockFormatError(text: text, reason: "START is not an RFC 3339 instant")
        }
        guard let rate = Double(second), rate > 0, rate <= rateMax else {
            throw ClockFormatError(text: text, reason: "RATE must be above 0 and at most 10000000")
        }
        guard let third = parts.dropFirst(2).first else {
            return Parsed(start: start, rate: rate, origin: nil)
        }
        guard let origin = Int64(third) else {
            throw ClockFormatError(text: text, reason: "ORIGIN is not Unix time in milliseconds")
        }
        return Parsed(start: start, rate: rate, origin: origin)
    }
}
