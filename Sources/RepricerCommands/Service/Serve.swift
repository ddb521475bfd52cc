import Facts
import Glibc
import HTTP
import Notifications
import Postgres
import ServiceKit
import Synchronization

extension Commands {
    private static let only = ValueOption(
        "only", "PART", "run one part of the service; both when left out",
        choices: ["scheduler", "receiver"])
    /// Lanes, projector, canceller, extender, reconciler, webhooks, receiver, and two to spare.
    private static let connections = 16
    /// The open files that are needed: connections of the receiver, the client, the database and the pages, and others.
    private static func filesMin(_ part: String?) -> UInt64 { part == "scheduler" ? 256 : 700 }
    /// A replica whose machine freezes in a transaction loses its locks after this time. It is shorter than a drain, so
    /// that a replica which waits for such a lock can still store its calls before it ends.
    private static let frozenAfter: Duration = .seconds(5)
    /// No other transaction delays a lane for longer; after this time the statement fails and is tried again.
    private static let lockWait: Duration = .seconds(15)

    static let serve = Command(
        "serve", "run the service: take notifications in, deliver changes, follow consent",
        options: [only],
        discussion: """
            Any number may run side by side; they share nothing but the database. The scheduler part folds \
            notifications and reconciles as well (REPRICER_RECONCILE_EVERY, one replica at a time). It waits \
            for a database that is away, and refuses one whose schema it can't use, or of another app or environment. Once a breaking \
            migration is announced it makes no call any more, drains and ends. SIGTERM drains and ends \
            it within ten seconds, a second one at once; before that /readyz says 503 for REPRICER_DRAIN_WAIT. SIGHUP reads the files of the root certificates, of the \
            forwarder's token, of the pages' password, of the webhook's secret and of the V1 secret anew at once; a change of them is noticed by \
            itself. Pages and metrics are on a port of their own (REPRICER_PAGES_LISTEN), behind a password \
            (REPRICER_PAGES_TOKEN_FILE) unless only this machine reaches it. One address gets a quarter of the \
            receiver's connections (REPRICER_ADDRESS_SHARE), a proxy any number (REPRICER_TRUSTED_PROXIES).
            """
    ) { invocation in
        let part = invocation.arguments[only]
        let configuration = try invocation.configuration()
        var needed = Live.common + Live.showing
        if part != "receiver" { needed += Live.scheduling }
        if part != "scheduler" { needed += Live.receiving }
        try configuration.check(needed)
        let (files, filesMin) = (OpenFiles.raiseLimit(), filesMin(part))
        guard files >= filesMin else {
            throw CommandFailure(
                .failed,
                "this process may open \(files) files, and needs \(filesMin); raise the limit (LimitNOFILE=, or ulimit -n)"
            )
        }
        let live = try await Live(invocation, configuration)
        let pool = DatabasePool(
            conninfo: configuration.databaseConninfo, applicationName: "repricer serve",
            size: connections,
            options: .init(lockTimeout: lockWait, idleInTransactionTimeout: frozenAfter),
            watch: live.watch("service"))
        live.describeProcess()
        let gate = SchemaGate(
            pool: pool, configuration: configuration, log: live.log,
            catchUp: part == "receiver" ? nil : try live.catchUp(pool))
        // Checked before anything starts, so that a wrong version does not look like a successful start.
        _ = try await gate.isOpen()
        let months = MonthsAhead(
            pool: pool, clock: live.clock, log: live.log.with(component: "months"))
        var services = try live.trustWatches()
        services.append(GatedService(gate: gate, inner: months))
        if part != "receiver" {
            // All services that call stop together, so that none continues while another drains or the receiver answers
            // its last requests.
            services += try
                (live.delivery(pool) + [live.extender(pool), live.figures(pool)]
                + live.reconciling(pool))
                .map {
                    GatedService(gate: gate, inner: $0, stopsAtOnce: true)
                }
        }
        // Before the port opens, because a supervisor that sees it open may send a signal.
        let signals = invocation.dependencies.terminations()
        // SIGHUP would end the process until the watches run.
        Signals.ignoreHangUps()
        let health = live.health(pool)
        // The pages are first and so stop last: a slow page delays nothing, and the shutdown can be watched.
        let (pagesPool, gaugesPool, countsPool) = (
            live.pagesPool, live.gaugesPool, live.countsPool
        )
        services = try live.pages(pagesPool, health) + services
        services += [
            live.databaseGauges(gaugesPool, calls: part != "receiver"),
            live.countGauges(countsPool, calls: part != "receiver"),
            GatedService(gate: gate, inner: try live.gauges(gaugesPool)),
            ReadinessGauge(health: health, metrics: live.metrics),
        ]
        if part != "scheduler" {
            let (server, watches) = try live.receiver(pool, health)
            let port = try server.bind()
            services += watches
            services.append(server)
            live.log.notice("listening", ["port": String(port)])
        }
        let supervised = Supervised(environment: invocation.dependencies.environment)
        let leaving = Leaving(
            health: health,
            wait: try configuration.required(configuration.drainWait, .drainWait),
            supervised: supervised)
        services.append(
            GatedService(
                gate: gate,
                inner: SchemaWatch(
                    pool: pool, log: live.log, leaving: leaving.beforeMigration)))
        services.append(Drain(health: health))
        if let supervised { services.append(supervised) }
        live.log.notice("serving", ["part": part ?? "all"])
        let signal = try await run(services, live, leaving, until: signals)
        await pagesPool.close()
        await gaugesPool.close()
        await countsPool.close()
        await pool.close()
        live.log.notice("stopped")
        // Ctrl-C at a terminal is an interruption; a supervisor's SIGTERM is a success.
        return signal == SIGINT ? .interrupted : .done
    }

    /// Returns the signal that ended the services.
    private static func run(
        _ services: [any Service], _ live: Live, _ leaving: Leaving,
        until signals: AsyncStream<Int32>
    ) async throws -> Int32? {
        let (stop, continuation) = AsyncStream.makeStream(of: Void.self)
        let first = Mutex<Int32?>(nil)
        // This task is never cancelled, because a signal while the process ends would otherwise kill it by the default
        // action.
        Task {
            for await signal in signals {
                let isFirst = first.withLock { first in
                    defer { first = first ?? signal }
                    return first == nil
                }
                guard isFirst else {
                    // Another replica, or the next start, settles the calls in flight.
                    live.log.warning("ending at once", ["signal": "\(signal)"])
                    _exit(ExitCode.interrupted.rawValue)
                }
                live.log.notice("stopping on a signal", ["signal": "\(signal)"])
                // It runs in its own task, because this loop must receive a second signal meanwhile.
                Task {
                    await leaving.letProxiesTurnAway()
                    continuation.yield()
                }
            }
        }
        try await ServiceGroup(services, log: live.log).run(until: stop)
        return first.withLock { $0 }
    }
}

/// The wait before a stop, in which proxies switch to another replica: this process reports that it is not ready, but
/// still serves.
struct Leaving: Sendable {
    /// A breaking migration waits a minute for older programs. Within that time they must have let proxies switch and
    /// have drained, so the wait is limited even if a longer one is configured.
    static let waitMaxBeforeMigration: Duration = .seconds(30)

    /// How long the shutdown takes after the wait, with a margin.
    private static let endsWithin: Duration = .seconds(20)

    let health: HealthRoutes
    let wait: Duration
    let supervised: Supervised?

    /// The same for a stop because of an announced breaking migration.
    var beforeMigration: Leaving {
        Leaving(
            health: health, wait: min(wait, Self.waitMaxBeforeMigration), supervised: supervised)
    }

    func letProxiesTurnAway() async {
        health.leave()
        supervised?.extend(by: wait + Self.endsWithin)
        // It is never cancelled, because a second signal ends the process.
        try? await Task.sleep(for: wait)
    }
}

/// The last service to start, and so the first to stop. From then on senders are told to try another replica.
private struct Drain: Service {
    let name = "drain"
    let health: HealthRoutes

    func run() async throws {
        defer { health.drain() }
        while !Task.isCancelled { try await Task.sleep(for: .seconds(3600)) }
    }
}
