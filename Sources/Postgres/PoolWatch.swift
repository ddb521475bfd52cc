package import ServiceKit

/// Reports a pool's figures: how long its users wait, how many connections it has, and outages of the database. It logs
/// an outage once, however many users fail.
package struct PoolWatch: Sendable {
    let waitTime: Timing
    package let outage: Outage
    private let metrics: Metrics
    private let name: String

    /// One database's outage log, to be shared by all its pools.
    package static func outage(_ log: Log) -> Outage {
        Outage(
            log: log, failure: "the database is away; what needs it is tried again",
            recovery: "the database is back", quietFor: .seconds(1))
    }

    /// - Parameters:
    ///   - name: The pool's name, for the label of its figures.
    ///   - outage: The pools of one database share one, so that an outage is logged once.
    package init(name: String, metrics: Metrics, outage: Outage) {
        self.name = name
        self.metrics = metrics
        metrics.declareTiming(
            "repricer_pool_wait_seconds", "Time until a connection to the database was free.")
        metrics.declareGauge(
            "repricer_pool_connections", "Connections to the database: at work, and idle.")
        metrics.declareGauge(
            "repricer_pool_connections_max", "Connections that the pool opens at most.")
        metrics.declareGauge(
            "repricer_pool_waiting", "Who waits for a connection to the database.")
        waitTime = metrics.timing("repricer_pool_wait_seconds", labels: ["pool": name])
        self.outage = outage
    }

    func told(_ error: PostgresError) -> PostgresError {
        outage.note(error.description)
        var told = error
        told.isTold = true
        return told
    }

    func follow(_ pool: ResourcePool<PostgresConnection>, size: Int) {
        let name = name
        metrics.set(
            "repricer_pool_connections_max", labels: ["pool": name], to: Double(size))
        metrics.onRender { [weak pool] metrics in
            guard let counts = pool?.counts else { return }
            metrics.set(
                "repricer_pool_connections", labels: ["pool": name, "state": "idle"],
                to: Double(counts.idle))
            metrics.set(
                "repricer_pool_connections", labels: ["pool": name, "state": "at_work"],
                to: Double(counts.open - counts.idle))
            metrics.set(
                "repricer_pool_waiting", labels: ["pool": name], to: Double(counts.waiting))
        }
    }
}
