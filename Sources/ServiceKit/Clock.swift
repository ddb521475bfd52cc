import Glibc

/// The only source of "now": everything that decides takes the instant as a parameter instead.
package protocol WallClock: Sendable {
    /// UTC milliseconds since 1970-01-01.
    func nowMilliseconds() -> Int64
    /// How long to wait in real time until this clock has moved on by `interval`.
    func realDuration(of interval: Duration) -> Duration
}

extension WallClock {
    package func realDuration(of interval: Duration) -> Duration { interval }
}

/// The machine's clock.
package struct SystemClock: WallClock {
    package init() {}

    package func nowMilliseconds() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
    }
}

extension Duration {
    /// Whole milliseconds, rounded towards zero; clamped instead of overflowing.
    package var milliseconds: Int64 {
        let (seconds, attoseconds) = components
        let (whole, overflow) = seconds.multipliedReportingOverflow(by: 1000)
        guard !overflow else { return seconds < 0 ? .min : .max }
        return whole.addingClamped(attoseconds / 1_000_000_000_000_000)
    }

    /// Seconds with their fraction, for metrics and ratios.
    package var seconds: Double {
        Double(components.seconds) + Double(components.attoseconds) / 1e18
    }
}

extension Int64 {
    /// The sum, clamped to the range instead of trapping.
    func addingClamped(_ other: Int64) -> Int64 {
        let (sum, overflow) = addingReportingOverflow(other)
        guard overflow else { return sum }
        return other < 0 ? .min : .max
    }

    /// The nearest whole number within the range; 0 for not-a-number.
    init(clampedRounding value: Double) {
        guard !value.isNaN else {
            self = 0
            return
        }
        self = Int64(exactly: value.rounded()) ?? (value < 0 ? .min : .max)
    }
}
