import Facts
import Postgres
import Reconciliation
import ServiceKit

/// The metrics that every `serve` exports, whatever part of the service it runs.
extension Live {
    /// The statement timeout of gauges. Their queries are short; one that takes longer is cancelled and tried again
    /// later.
    private static let gaugeTimeout: Duration = .seconds(10)
    /// The statement timeout of counts, which may read tens of millions of open changes.
    private static let countTimeout: Duration = .seconds(60)

    /// The connections of the gauges, so that calls and pages do not wait for gauges, nor gauges for them. One reads
    /// queues, the other reads ages.
    var gaugesPool: DatabasePool { quietPool("gauges", size: 2, Self.gaugeTimeout) }

    /// The connection of counts, so that no other gauge waits for a count.
    var countsPool: DatabasePool { quietPool("counts", size: 1, Self.countTimeout) }

    private func quietPool(_ name: String, size: Int, _ timeout: Duration) -> DatabasePool {
        DatabasePool(
            conninfo: configuration.databaseConninfo, applicationName: "repricer \(name)",
            size: size, options: .init(statementTimeout: timeout, isReadOnly: true),
            waitMax: .seconds(10), watch: watch(name))
    }

    /// - Parameter calls: Whether this process calls the App Store, so that its settings of rates hold.
    func databaseGauges(_ pool: DatabasePool, calls: Bool) -> DatabaseGauges {
        var limits = DatabaseGauges.Limits()
        limits.hasWebhook = configuration.webhookURL != nil
        let rates: [(endpoint: String, rate: Configuration.CallRate?)] = [
            ("change_price", configuration.changePriceRate), ("cancel", configuration.cancelRate),
            ("extend", configuration.extendRate), ("status", configuration.statusRate),
        ]
        for (endpoint, rate) in rates where calls {
            limits.callsPerThousandSeconds[endpoint] = rate?.perThousandSeconds
        }
        return DatabaseGauges(
            pool: pool, clock: clock, realClock: realClock, metrics: metrics,
            log: log.with(component: "gauges"), limits: limits)
    }

    func countGauges(_ pool: DatabasePool, calls: Bool) -> CountGauges {
        var limits = CountGauges.Limits()
        limits.changesPerThousandSeconds =
            calls ? configuration.changePriceRate?.perThousandSeconds : nil
        return CountGauges(
            pool: pool, clock: clock, realClock: realClock, metrics: metrics,
            log: log.with(component: "counts"), limits: limits)
    }

    /// The figures that are known at the start.
    func describeProcess() {
        ProcessFigures.report(to: metrics)
        metrics.declareGauge(
            "repricer_build_info", "1; the labels name the program and the schema that it needs.")
        metrics.set(
            "repricer_build_info",
            labels: [
                "version": Commands.productVersion, "commit": Commands.productCommit ?? "",
                "schema": "\(expectedSchemaVersion)",
                "environment": configuration.environment?.rawValue ?? "",
            ], to: 1)
    }
}
