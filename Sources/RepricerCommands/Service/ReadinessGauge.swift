import HTTP
import ServiceKit

/// Tells whether this process could do its work, as `/readyz` does, so that an alert hears of a database that answers and
/// takes no writes. A process that is about to end still counts as ready.
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
