import Facts
import Postgres
import Reconciliation
import ServiceKit

/// What every `serve` tells of itself and of the database, whatever part of the service it runs.
extension Live {
    /// Gauges ask short questions; one that takes longer ends, and is asked again later.
    private static let gaugeTimeout: Duration = .seconds(10)

    /// The connection of the gauges: neither calls nor pages wait for them, nor they for those.
    var gaugesPool: DatabasePool {
        DatabasePool(
            conninfo: configuration.databaseConninfo, applicationName: "repricer gauges", size: 1,
            options: .init(statementTimeout: Self.gaugeTimeout, isReadOnly: true),
            waitMax: .seconds(10), watch: watch("gauges"))
    }

    func databaseGauges(_ pool: DatabasePool) -> DatabaseGauges {
        var limits = DatabaseGauges.Limits()
        let rates: [(endpoint: String, rate: Configuration.CallRate?)] = [
            ("change_price", configuration.changePriceRate), ("cancel", configuration.cancelRate),
            ("extend", configuration.extendRate), ("status", configuration.statusRate),
        ]
        for (endpoint, rate) in rates {
            limits.callsPerThousandSeconds[endpoint] = rate?.perThousandSeconds
        }
        return DatabaseGauges(
            pool: pool, clock: clock, realClock: realClock, metrics: metrics,
            log: log.with(component: "gauges"), limits: limits)
    }

    /// What is known from the start on.
    func describeProcess() {
        ProcessFigures.report(to: metrics)
        metrics.declareGauge(
            "repricer_build_info", "1; the labels name the program and the schema that it needs.")
        metrics.set(
            "repricer_build_info",
            labels: [
                "version": Commands.productVersion, "schema": "\(expectedSchemaVersion)",
                "environment": configuration.environment?.rawValue ?? "",
            ], to: 1)
    }
}
