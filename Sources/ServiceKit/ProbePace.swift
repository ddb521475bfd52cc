/// The time between two probes of halted work. It is spread at random: an App Store that fails periodically, such as
/// behind a balancer with one bad machine, would otherwise get each probe in the same state.
package struct ProbePace: Sendable {
    package var every: Duration
    /// The most that is added to a wait.
    package var spread: Duration

    package init(every: Duration = .seconds(60), spread: Duration = .seconds(15)) {
        self.every = every
        self.spread = spread
    }

    /// The time until the next probe.
    package func next() -> Duration {
        every + .milliseconds(Int64.random(in: 0...max(0, spread.milliseconds)))
    }
}
