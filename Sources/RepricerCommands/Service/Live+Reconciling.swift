import AppStore
import Calls
import Facts
import HTTP
import Notifications
import Pricing
import Reconciliation
import ServiceKit

/// The parts that close gaps: reconciler, status reader, gauges.
extension Live {
    /// What `reconcile` and `sync` need.
    static let reconciling: [Variable] =
        common + [.issuerID, .keyID, .keyFile, .apiBaseURL, .apiCAFile, .statusRate, .silentAfter]

    /// A page of the history holds twenty notifications, and one may be a megabyte.
    private static let pageBytesMax = 24 << 20

    func reconciler(_ pool: DatabasePool, log: Log) throws -> Reconciler {
        var wide = HTTPClientLimits()
        wide.responseBytesMax = Self.pageBytesMax
        wide.connectionsMax = 4
        var limits = Reconciler.Limits()
        limits.statusPerSecond = try statusPerSecond()
        limits.silentAfter = try configuration.required(configuration.silentAfter, .silentAfter)
        return Reconciler(
            Reconciler.Dependencies(
                pool: pool, history: try client(wide), store: try store(),
                intake: try intake(NotificationStore(pool: pool)),
                environment: try configuration.required(configuration.environment, .environment),
                clock: clock, realClock: realClock, log: log, metrics: metrics, limits: limits))
    }

    /// The reconciler on its schedule, where it is not switched off, what calls wait for, and what follows hints.
    func reconciling(_ pool: DatabasePool) throws -> [any Service] {
        let always: [any Service] = [
            try catchUp(pool),
            StatusCheckService(
                try reconciler(pool, log: log.with(component: "hinted-checks")), .hinted,
                every: idleWait),
            StatusCheckService(
                try reconciler(pool, log: log.with(component: "restored-checks")), .restored,
                every: idleWait),
            StatusCheckService(
                try reconciler(pool, log: log.with(component: "unheard-checks")), .unheard,
                every: idleWait),
        ]
        guard let every = configuration.reconcileEvery else { return always }
        let log = log.with(component: "reconciler")
        return always + [ReconcileService(try reconciler(pool, log: log), every: every)]
    }

    func catchUp(_ pool: DatabasePool) throws -> CatchUp {
        CatchUp(
            try reconciler(pool, log: log.with(component: "catch-up")),
            lagMax: configuration.reconcileEvery, flightTime: try flightTime(pool))
    }

    func recovery(_ pool: DatabasePool, since: Instant, log: Log) throws -> Recovery {
        Recovery(
            pool: pool, reconciler: try reconciler(pool, log: log),
            runner: try checks(pool, log: log),
            lostSince: since, flightTime: try flightTime(pool))
    }

    private func flightTime(_ pool: DatabasePool) throws -> Duration {
        let engine = try engine(pool, "catch-up")
        return engine.limits.leaseFor + .milliseconds(engine.flightTime)
    }

    func gauges(_ pool: DatabasePool) throws -> StalenessGauges {
        StalenessGauges(
            pool: pool, clock: clock, realClock: realClock,
            log: log.with(component: "staleness"), metrics: metrics,
            silentAfter: try configuration.required(configuration.silentAfter, .silentAfter))
    }

    /// Reads statuses however long it takes: it waits out a silence of an hour that Apple asks for.
    func checks(_ pool: DatabasePool, log: Log) throws -> StatusCheckRunner {
        StatusCheckRunner(
            pool: pool, store: try store(),
            permitSource: CallPermitSource(
                pool: pool, endpoint: "status", perSecond: try statusPerSecond(), clock: clock,
                silenceMax: .seconds(3 * 3600)),
            clock: clock, realClock: realClock, log: log)
    }

    private func statusPerSecond() throws -> Double {
        try configuration.required(configuration.statusRate, .statusRate).perSecond
    }
}
