/// How long to wait before trying again. The wait grows, is capped, and is spread so that callers do not all come at
/// once.
package struct Backoff: Sendable, Equatable {
    package var first: Duration
    package var max: Duration
    package var factor: Double
    package var jitter: Double

    /// `jitter` is the share by which a delay may be shorter or longer: 0.2 means ±20 %.
    package init(first: Duration, max: Duration, factor: Double = 2, jitter: Double = 0.2) {
        self.first = first
        self.max = max
        self.factor = factor
        self.jitter = jitter
    }

    /// The delay after the failed `attempt` (1 is the first). It is never above `max`, and never negative.
    package func delay(attempt: Int, random: inout some RandomNumberGenerator) -> Duration {
        // 64 doublings exceed any duration in use; the bound keeps the power finite.
        var growth = 1.0
        for _ in 1..<Swift.max(1, Swift.min(attempt, 64)) { growth *= factor }
        let spread = 1 + jitter * Double.random(in: -1...1, using: &random)
        let seconds = Swift.min(first.seconds * growth, max.seconds) * spread
        return .seconds(Swift.max(0, Swift.min(seconds, max.seconds)))
    }
}
