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

    init(_ database: SimulationDatabase, _ store: SimulatedStore, _ wire: Wire, _ clock: WorldClock)
        throws
    {
        let pool = database.pool("service", size: 6)
        self.pool = pool
        let log = Log(component: "simulation", level: .error, sink: { _ in })
        let metrics = Metrics()
        let verifier = try JWSVerifier(roots: store.roots)
        let client = AppStoreClient(
            http: wire,
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
        let engine = CallEngine(
            pool: pool, environment: .production, clock: clock, realClock: clock, log: log,
            metrics: metrics, limits: limits)
        let wait: CallPermitSource.Wait = { _ in await Task.yield() }
        scheduler = Scheduler(engine, store: calls, wait: wait)
        canceller = Canceller(engine, store: calls, cancels: calls, wait: wait)
        var extending = Extender.Limits()
        extending.checkEveryMin = .zero
        let slots: CallPermitSource.Wait = { clock.advance(by: $0.milliseconds) }
        extender = Extender(engine, calls: client, store: calls, limits: extending, wait: slots)
        reconciler = Reconciler(
            Reconciler.Dependencies(
                pool: pool, history: client, store: calls, door: Door(intake: intake),
                environment: .production, clock: clock, realClock: clock, log: log,
                metrics: metrics, wait: slots))
        var watching = BatchWatch.Limits()
        watching.troublesEvery = .zero
        watch = BatchWatch(
            pool: pool, clock: clock, realClock: clock, log: log, metrics: metrics, limits: watching
        )
        keeper = FigureKeeper(pool: pool, log: log)
        months = MonthsAhead(pool: pool, clock: clock, log: log)
    }

    /// A part's turn, by its number.
    static let parts = 6
    func turn(of part: Int) async throws {
        switch part {
        case 0: while try await projector.foldOnce() > 0 {}
        case 1: for _ in 0..<Self.roundsMax where try await scheduler.round() == 0 { return }
        case 2: for _ in 0..<Self.roundsMax where try await canceller.round() == 0 { return }
        case 3: for _ in 0..<Self.roundsMax where try await extender.round() == 0 { return }
        case 4: try await watch.round()
        default: while try await keeper.keepOnce() > 0 {}
        }
    }
}

/// The receiver's intake as the reconciler sees it.
private struct Door: NotificationDoor {
    let intake: NotificationIntake

    func take(_ signedPayload: String) async -> DoorAnswer {
        switch await intake.take(signedPayload) {
        case .stored(let isNew, _): .stored(isNew: isNew)
        case .refused(let refusal): .refused(code: refusal.code)
        case .unavailable(let why): .unavailable(why)
        }
    }
}
