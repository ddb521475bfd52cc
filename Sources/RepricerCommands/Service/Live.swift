import AppStore
import Batches
import Calls
import Dependents
import Extensions
import Facts
import Glibc
import HTTP
import JOSE
import Notifications
import Outbox
import Postgres
import PriceChanges
import Reconciliation
import Reports
import ServiceKit
import Synchronization

/// The live parts of the service, built from the configuration: one place that knows how they fit.
struct Live: Sendable {
    /// What every part needs, whatever it does.
    static let common: [Variable] = [
        .databaseURL, .bundleID, .environment, .rootCertificates, .drainWait,
    ]
    static let scheduling: [Variable] = [
        .issuerID, .keyID, .keyFile, .apiBaseURL, .apiCAFile, .changePriceRate, .cancelRate,
        .extendRate, .statusRate, .webhookURL, .webhookSecretFile, .webhookCAFile,
        .reconcileEvery, .silentAfter,
    ]
    static let receiving: [Variable] = [
        .listen, .trustedProxies, .addressShare, .forwarderTokenFile, .v1SharedSecretFile,
        .silentAfter,
    ]

    let configuration: Configuration
    /// Virtual in a rehearsal.
    let clock: any WallClock
    let realClock: any WallClock
    let metrics = Metrics()
    private let trust = SharedVerifier()
    let log: Log
    /// All pools ask the same database.
    let databaseOutage: Outage

    init(_ invocation: Invocation, _ configuration: Configuration) async throws {
        self.configuration = configuration
        clock = try await configuration.makeClock(dependencies: invocation.dependencies)
        realClock = invocation.dependencies.realClock
        log = invocation.log(level: invocation.isQuiet ? .warning : .info)
        databaseOutage = PoolWatch.outage(log.with(component: "database"))
    }

    /// One verifier for all parts, so that each chain is verified once and a change of roots applies everywhere.
    private func verifier() throws -> JWSVerifier {
        let path = try configuration.required(configuration.rootCertificates, .rootCertificates)
        return try trust.verifier { try JWSVerifier(roots: TrustedRoots(certificatesIn: path)) }
    }

    /// The services that keep trust up to date: the watches of the roots' files and of revocation.
    func trustWatches() throws -> [any Service] {
        let verifier = try verifier()
        let log = log.with(component: "trust")
        return [
            RootsWatch(
                path: try configuration.required(configuration.rootCertificates, .rootCertificates),
                verifier: verifier, reloads: { Signals.stream(of: [SIGHUP]) }, log: log,
                metrics: metrics),
            // Certificates and responders use real time, in a rehearsal too.
            RevocationWatch(
                verifier: verifier, call: ResponderClient.call, clock: realClock, log: log,
                metrics: metrics),
        ]
    }

    /// The service that keeps the figures of reports up to date.
    func figures(_ pool: DatabasePool) -> FigureKeeper {
        FigureKeeper(pool: pool, log: log.with(component: "figures"))
    }

    /// How many threads can compute at a time.
    var cores: Int { max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))) }

    /// Decides whether a notification is the App Store's and about our app.
    func notificationVerifier() throws -> NotificationVerifier {
        let environment = try configuration.required(configuration.environment, .environment)
        if environment == .production { try configuration.check(.appAppleID) }
        return NotificationVerifier(
            verifier: try verifier(),
            bundleID: try configuration.required(configuration.bundleID, .bundleID),
            appAppleID: configuration.appAppleID, environment: environment)
    }

    /// The intake of notifications, over HTTP and from files.
    func intake(_ store: NotificationStore) throws -> NotificationIntake {
        NotificationIntake(
            check: appStoreCheck(try notificationVerifier()), clock: clock, metrics: metrics,
            store: store)
    }

    /// The receiver, and the watches of its secret files.
    func receiver(
        _ pool: DatabasePool, _ health: HealthRoutes
    ) throws -> (server: HTTPServer, watches: [any Service]) {
        let token = try secret(.forwarderTokenFile, configuration.forwarderTokenFile, "receiver")
        let v1Secret = try secret(
            .v1SharedSecretFile, configuration.v1SharedSecretFile, "receiver")
        let intake = try intake(NotificationStore(pool: pool))
        let routes = ReceiverRoutes(
            intake: intake, legacy: try legacy(intake, v1Secret?.secret, pool), health: health,
            token: token?.secret, metrics: metrics, log: log.with(component: "receiver"))
        let listen = try configuration.required(configuration.listen, .listen)
        var limits = HTTPServerLimits()
        limits.proxies = try configuration.required(configuration.trustedProxies, .trustedProxies)
        limits.addressSharePercent = try configuration.required(
            configuration.addressShare, .addressShare)
        let server = try HTTPServer(
            host: listen.host, port: listen.port, limits: limits,
            log: self.log.with(component: "http"),
            refused: HTTPServer.refusals(of: "notifications", in: metrics)
        ) { await routes.respond(to: $0) }
        return (server, [token?.watch, v1Secret?.watch].compactMap { $0 })
    }

    /// The secret in a file, and the watch of the file; nil where none is set.
    func secret(
        _ variable: Variable, _ path: String?, _ component: String
    ) throws -> (secret: SharedSecret, watch: SecretWatch)? {
        guard let path else { return nil }
        let read: @Sendable () throws -> String = {
            try SecretFile.readToken(path, of: variable)
        }
        guard let secret = SharedSecret(fileContent: try read()) else { return nil }
        let watch = SecretWatch(
            label: variable.rawValue, secret: secret,
            reloads: { Signals.stream(of: [SIGHUP]) }, log: log.with(component: component),
            metrics: metrics, read: read)
        return (secret, watch)
    }

    /// The intake of V1 notifications; nil unless it is switched on.
    private func legacy(
        _ intake: NotificationIntake, _ secret: SharedSecret?, _ pool: DatabasePool
    ) throws -> LegacyIntake? {
        guard let secret else { return nil }
        return LegacyIntake(
            intake: intake, secret: secret,
            bundleID: try configuration.required(configuration.bundleID, .bundleID),
            environment: try configuration.required(configuration.environment, .environment),
            clock: clock
        ) { subscription, at in
            try await pool.withTransaction { connection in
                try StatusCheckQueries.wantAgain(
                    subscription, in: StatusCheckQueries.List(.legacy), at: at, on: connection)
            }
        }
    }

    func store(callsMax: Int = HTTPClientLimits().connectionsMax) throws -> LiveStoreCalls {
        var wide = HTTPClientLimits()
        wide.connectionsMax = callsMax
        return LiveStoreCalls(client: try client(wide))
    }

    func client(_ limits: HTTPClientLimits) throws -> AppStoreClient {
        let keyPath = try configuration.required(configuration.keyFile, .keyFile)
        let bundleID = try configuration.required(configuration.bundleID, .bundleID)
        // The App Store judges tokens by real time, in a rehearsal too: at a day a second, a token of virtual
        // time would be stale before it arrives.
        let token = BearerToken(
            key: try SecretFile.readKey(keyPath),
            keyID: try configuration.required(configuration.keyID, .keyID),
            issuerID: try configuration.required(configuration.issuerID, .issuerID),
            bundleID: bundleID, clock: realClock)
        let http = try HTTPClient(
            baseURL: try configuration.required(configuration.apiBaseURL, .apiBaseURL),
            extraCAFile: configuration.apiCAFile, limits: limits)
        return AppStoreClient(
            http: http, token: token, clock: clock, verifier: try verifier(), bundleID: bundleID,
            environment: try configuration.required(configuration.environment, .environment),
            watch: StoreRequestWatch(metrics: metrics))
    }

    /// How long an idle part waits before it polls the database again: half a second, or half an hour of a rehearsal's
    /// fast clock if that is shorter.
    var idleWait: Duration {
        min(.milliseconds(500), max(.milliseconds(20), clock.realDuration(of: .seconds(1800))))
    }

    /// The call engine of a component.
    func engine(
        _ pool: DatabasePool, _ component: String, callsPerClaim: Int? = nil
    ) throws -> CallEngine {
        var limits = CallEngine.Limits()
        limits.callsPerClaim = callsPerClaim ?? limits.callsPerClaim
        return CallEngine(
            pool: pool,
            environment: try configuration.required(configuration.environment, .environment),
            clock: clock, realClock: realClock, log: log.with(component: component),
            metrics: metrics, limits: limits)
    }

    /// Renewal-date extensions.
    func extender(_ pool: DatabasePool) throws -> Extender {
        let client = try client(HTTPClientLimits())
        var limits = Extender.Limits()
        limits.extendPerSecond =
            try configuration.required(configuration.extendRate, .extendRate).perSecond
        limits.statusPerSecond =
            try configuration.required(configuration.statusRate, .statusRate).perSecond
        limits.idleWait = idleWait
        return Extender(
            try engine(pool, "extender"), calls: client, store: LiveStoreCalls(client: client),
            limits: limits)
    }

    /// Calls at a time: five seconds of the rate, for an App Store that has become slow.
    private static let callsMax = 300

    /// The services that deliver and fold: scheduler, projector, canceller.
    func delivery(_ pool: DatabasePool) throws -> [any Service] {
        let store = try store(callsMax: Self.callsMax)
        var cancelling = Canceller.Limits()
        var limits = Scheduler.Limits()
        let rate = try configuration.required(configuration.changePriceRate, .changePriceRate)
            .perSecond
        limits.changePricePerSecond = rate
        limits.statusPerSecond =
            try configuration.required(configuration.statusRate, .statusRate).perSecond
        // A call that waits for a connection would miss its instant and be sent beside another call. The canceller uses
        // connections of the same client, so they are subtracted.
        limits.callsOutMax = Self.callsMax - 2 * cancelling.dependentsPerRound
        if clock is SystemClock {
            limits.lanes = min(limits.lanes, max(1, Int(rate / 500)))
            limits.requestsPerClaim = min(500, max(25, Int(rate / 2)))
        }
        limits.idleWait = idleWait
        var folding = Projector.Limits()
        folding.idleWait = idleWait
        cancelling.statusPerSecond = limits.statusPerSecond
        cancelling.cancelsPerSecond =
            try configuration.required(configuration.cancelRate, .cancelRate).perSecond
        var watching = BatchWatch.Limits()
        watching.every = idleWait
        // A rehearsal is over before five minutes.
        if !(clock is SystemClock) { watching.troublesEvery = .seconds(5) }
        let webhook = try webhook()
        return [
            BatchWatch(
                pool: pool, clock: clock, log: log.with(component: "batches"), metrics: metrics,
                limits: watching),
            Projector(
                pool: pool, log: log.with(component: "projector"), metrics: metrics, limits: folding
            ),
            Scheduler(
                try engine(pool, "scheduler", callsPerClaim: limits.requestsPerClaim), store: store,
                limits: limits),
            Canceller(
                try engine(pool, "canceller"), store: store, cancels: store, limits: cancelling),
            WebhookSender(
                pool: pool, target: webhook?.target, log: log.with(component: "webhooks"),
                metrics: metrics),
        ] + [webhook?.watch].compactMap { $0 }
    }

    /// The webhook target, and the watch of its secret file; nil unless a webhook is configured.
    private func webhook() throws -> (target: WebhookSender.Target, watch: SecretWatch)? {
        guard let url = configuration.webhookURL.flatMap(WebhookURL.init) else { return nil }
        let path = try configuration.required(
            configuration.webhookSecretFile, .webhookSecretFile)
        guard let secret = try secret(.webhookSecretFile, path, "webhooks") else { return nil }
        let posting: LiveWebhook
        do throws(HTTPClientError) {
            posting = try LiveWebhook(url: url, caFile: configuration.webhookCAFile)
        } catch {
            throw ConfigurationFault(problems: [
                ConfigurationProblem(
                    Variable.webhookCAFile.rawValue, error.reason,
                    remedy: "name a PEM file of CA certificates")
            ])
        }
        return (.init(posting: posting, secret: { secret.secret.current }), secret.watch)
    }
}

/// Makes the verifier when the first part needs it.
private final class SharedVerifier: Sendable {
    private let made = Mutex<JWSVerifier?>(nil)

    func verifier(_ make: () throws -> JWSVerifier) throws -> JWSVerifier {
        try made.withLock { made in
            let verifier = try made ?? make()
            made = verifier
            return verifier
        }
    }
}
