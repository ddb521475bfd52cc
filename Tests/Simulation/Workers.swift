import AppStore
import Batches
import Calls
import Dependents
import Extensions
import Facts
import JOSE
import Notifications
import Postgres
import PriceChanges
import Pricing
import Reconciliation
import Reports
import SandboxStore
import ServiceKit

/// The product's own parts, wired as `serve` does, on the clock of the world. A process that dies loses its pool, so that
/// nothing of it is ever written again.
struct Workers: Sendable {
    let process: SimulatedProcess
    let pool: DatabasePool
    let intake: NotificationIntake
    let projector: Projector
    let scheduler: Scheduler
    let canceller: Canceller
    let extender: Extender
    let reconciler: Reconciler
    let watch: BatchWatch
    let keeper: FigureKeeper
    let months: MonthsAhead

    /// Rounds of one part in one turn: what is due comes to rest before, and what waits for time waits.
    private static let roundsMax = 20
    private static let rate = 1000.0

    init(
        _ database: SimulationDatabase, _ store: SimulatedStore, _ wire: Wire, _ clock: WorldClock,
        log lines: LogWatch
    ) throws {
        let pool = database.pool("service", size: 4)
        self.pool = pool
        let process = SimulatedProcess(wire)
        self.process = process
        let log = Log(component: "simulation", level: .debug, clock: clock) { lines.read($0) }
        let metrics = Metrics()
        let verifier = try JWSVerifier(roots: store.roots)
        let client = AppStoreClient(
            http: process,
            token: BearerToken(
                key: store.apiKey, keyID: SimulatedStore.keyID, issuerID: SimulatedStore.issuerID,
                bundleID: SimulatedStore.bundleID, clock: clock),
            clock: clock, verifier: verifier, bundleID: SimulatedStore.bundleID,
            environment: .production)
        let calls = LiveStoreCalls(client: client)
        let intake = NotificationIntake(
            check: appStoreCheck(
                NotificationVerifier(
                    verifier: verifier, bundleID: SimulatedStore.bundleID,
                    appAppleID: SimulatedStore.appAppleID, environment: .production)),
            clock: clock, metrics: metrics, store: NotificationStore(pool: pool))
        self.intake = intake
        projector = Projector(pool: pool, log: log, metrics: metrics)
        var limits = CallEngine.Limits()
        // A crowded machine is no reason to hold a call back: the world's clock stands still meanwhile.
        (limits.leavesWithin, limits.checksWithin) = (.seconds(60), .seconds(60))
        limits.failureWait = .zero
        // The same seed makes the same world.
        limits.probes.spread = .zero
        let engine = CallEngine(
            pool: pool, environment: .production, clock: clock, realClock: clock, log: log,
            metrics: metrics, limits: limits)
        // Whoever waits moves the clock, so nobody waits in real time. A thousand calls a second: at Apple's rate the slots of
        // one claim would reach beyond its lease, which is renewed in real time.
        let wait: CallPermitSource.Wait = { time in
            guard !process.isDead else { throw CancellationError() }
            clock.advance(by: time.milliseconds)
        }
        var (sending, cancelling) = (Scheduler.Limits(), Canceller.Limits())
        (sending.changePricePerSecond, sending.statusPerSecond) = (Self.rate, Self.rate)
        (cancelling.cancelsPerSecond, cancelling.statusPerSecond) = (Self.rate, Self.rate)
        var (extending, reconciling) = (Extender.Limits(), Reconciler.Limits())
        (extending.extendPerSecond, extending.statusPerSecond) = (Self.rate, Self.rate)
        extending.checkEveryMin = .zero
        reconciling.statusPerSecond = Self.rate
        scheduler = Scheduler(engine, store: calls, limits: sending, wait: wait)
        canceller = Canceller(
            engine, store: calls, cancels: calls, limits: cancelling, wait: wait)
        extender = Extender(engine, calls: client, store: calls, limits: extending, wait: wait)
        reconciler = Reconciler(
            Reconciler.Dependencies(
                pool: pool, history: client, store: calls, intake: intake,
                environment: .production, clock: clock, realClock: clock, log: log,
                metrics: metrics, limits: reconciling, wait: wait))
        var watching = BatchWatch.Limits()
        watching.troublesEvery = .zero
        watching.probes.spread = .zero
        watch = BatchWatch(
            pool: pool, clock: clock, realClock: clock, log: log, metrics: metrics, limits: watching
        )
        keeper = FigureKeeper(pool: pool, log: log)
        months = MonthsAhead(pool: pool, clock: clock, log: log)
    }

    enum Part: String, CaseIterable, Sendable {
        case projector, scheduler, canceller, extender, watch, keeper

        /// Whether what others do gives it work at once. The rest looks at what there is, now and then.
        var isDriven: Bool {
            switch self {
            case .projector, .scheduler, .canceller, .extender: true
            case .watch, .keeper: false
            }
        }

        /// In how many of a thousand steps it has its turn. The keeper's costs as much as those of all others.
        var turnsPerMille: Int64 {
            switch self {
            case .projector, .scheduler, .canceller, .extender: 1000
            case .watch: 500
            case .keeper: 100
            }
        }
    }

    /// A part's turn; returns whether it found something to do.
    func turn(of part: Part) async throws -> Bool {
        switch part {
        case .projector: try await Self.rounds(.max, projector.foldOnce)
        case .scheduler: try await Self.rounds(Self.roundsMax) { try await scheduler.round() }
        case .canceller: try await Self.rounds(Self.roundsMax, canceller.round)
        case .extender: try await Self.rounds(Self.roundsMax, extender.round)
        case .watch: try await watched()
        case .keeper: try await Self.rounds(.max) { try await keeper.keepOnce() }
        }
    }

    private func watched() async throws -> Bool {
        try await watch.round()
        return false
    }

    private static func rounds(
        _ most: Int, _ round: () async throws -> Int
    ) async throws -> Bool {
        for number in 0..<most where try await round() == 0 { return number > 0 }
        return true
    }
}
