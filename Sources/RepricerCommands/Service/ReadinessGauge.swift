import HTTP
import ServiceKit

/// A gauge of whether this process can do its work, as in `/readyz`, so that an alert fires when the database answers
/// but accepts no writes. A process that is about to end still counts as ready.
struct ReadinessGauge: Service {
    let name = "readiness"
    /// Real time.
    private static let every: Duration = .seconds(5)

    private let health: HealthRoutes
    private let metrics: Metrics

    init(health: HealthRoutes, metrics: Metrics) {
        self.health = health
        self.metrics = metrics
        metrics.declareGauge(
            "repricer_ready",
            "1 while the database answers in time, takes writes, and has a schema that this program can use."
        )
    }

    func run() async throws {
        while !Task.isCancelled {
            await refresh()
            try await Task.sleep(for: Self.every)
        }
    }

    func refresh() async {
        metrics.set("repricer_ready", to: await health.obstacleInTime() == nil ? 1 : 0)
    }
}
