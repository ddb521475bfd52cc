package import ServiceKit

/// When each group of gauges was read. A group that is no longer read keeps its last figures, and only this gauge shows
/// it.
package struct ReadFigures: Sendable {
    /// What is read together, and fails together.
    package enum Group: String, CaseIterable, Sendable {
        /// Queues, open calls and rates, every few seconds.
        case queues
        /// Open changes, which may be millions.
        case changes
        /// What will be late at the allowed rate.
        case deadlines
        /// How much is stored, and which months.
        case storage
        /// How old our knowledge is.
        case ages
        /// What is paused or halted and by whom, and what a person should see of batches in delivery.
        case controls
    }

    private let metrics: Metrics
    private let realClock: any WallClock

    /// Each group starts with the instant of the process start, so that a group that is never read is noticed too.
    package init(_ groups: [Group], metrics: Metrics, realClock: any WallClock) {
        self.metrics = metrics
        self.realClock = realClock
        metrics.declareGauge(
            "repricer_figures_read_timestamp_seconds",
            "When a group of gauges of the database was read, in seconds since 1970; at first the start."
        )
        metrics.declareCounter(
            "repricer_figures_failures_total",
            "Readings of the gauges of the database that failed and are tried again.")
        for group in groups { note(group) }
    }

    package func note(_ group: Group) {
        metrics.set(
            "repricer_figures_read_timestamp_seconds", labels: ["group": group.rawValue],
            to: Double(realClock.nowMilliseconds()) / 1000)
    }
}
