package import Calls
import Facts
import PriceChanges
import Pricing
package import ServiceKit

/// Extends renewal dates, of one subscription or of all subscribers of a product, and redates changes whose renewal
/// moved. Every request is a row that was committed before its call. After a lost answer the call is repeated with the
/// same identifier.
package struct Extender: Service {
    package let name = "extender"
    private let engine: CallEngine
    private let limits: Limits
    private let singles: SingleExtensions
    private let masses: MassExtensions
    private let summaries: SummaryFolder
    private let redater: Redater

    package struct Limits: Sendable {
        package var extendPerSecond = 20.0
        /// The rate of mass extensions and of their status checks. It is Apple's limit.
        package var massPerSecond = 1.0
        package var statusPerSecond = 50.0
        package var retry = Backoff(first: .seconds(2), max: .seconds(300))
        /// The time between two checks of a mass extension that is running, by the business clock.
        package var checkEvery: Duration = .seconds(900)
        /// The least time between two such checks in real time, however fast the clock runs.
        package var checkEveryMin: Duration = .seconds(2)
        package var idleWait: Duration = .seconds(1)

        package init() {}
    }

    package init(
        _ engine: CallEngine, calls: any ExtensionCalls, store: any StatusCalls,
        limits: Limits = Limits(), wait: @escaping CallPermitSource.Wait = CallPermitSource.sleep
    ) {
        self.engine = engine
        self.limits = limits
        func permitSource(_ endpoint: String, _ perSecond: Double) -> CallPermitSource {
            CallPermitSource(
                pool: engine.pool, endpoint: endpoint, perSecond: perSecond, clock: engine.clock,
                wait: wait)
        }
        singles = SingleExtensions(
            engine: engine,
            kind: ExtensionKind(
                calls: calls, store: store, isOfSandbox: engine.environment == .sandbox,
                permitSource: permitSource("extend", limits.extendPerSecond),
                checkPermitSource: .statuses(engine, perSecond: limits.statusPerSecond, wait: wait),
                policy: CallPolicy(retry: limits.retry, keepsRefused: false)))
        masses = MassExtensions(
            engine: engine,
            kind: MassExtensionKind(
                calls: calls, permitSource: permitSource("extend_all", limits.massPerSecond),
                policy: CallPolicy(retry: limits.retry),
                checkEvery: max(
                    engine.clock.realDuration(of: limits.checkEvery), limits.checkEveryMin)))
        engine.metrics.declareCounter(
            "repricer_extender_failures_total",
            "Rounds of extensions that failed and are tried again.")
        engine.metrics.declareCounter(
            "repricer_extensions_judged_total",
            "Requested extensions that ended without a call, by their end.",
            labels: ["result": ["extended", "ineligible"]])
        engine.metrics.declareCounter(
            "repricer_foreign_summaries_total",
            "Summaries of extensions that were never requested here.")
        summaries = SummaryFolder(engine: engine)
        redater = Redater(engine: engine)
    }

    package func run() async throws {
        let metrics = engine.metrics
        await engine.run(
            failure: "extending failed; trying again", idleWait: limits.idleWait,
            count: { metrics.increment("repricer_extender_failures_total") }, step)
    }

    /// Does one round and waits until its calls are settled. Returns how much it found to do. Tests drive it by hand.
    package func round() async throws -> Int { try await engine.settled(step) }

    /// Does what is due now, and returns how much that was.
    private func step(_ out: CallsOut) async throws -> Int {
        try await engine.followClock()
        let controls = try await engine.controls()
        var done = try await summaries.round()
        done += try await redater.round()
        // While one call probes whether the App Store accepts calls again, the others wait for its answer.
        let (isMassProbing, isProbing) = (
            engine.isProbing(.massExtension, controls),
            engine.isProbing(.renewalExtension, controls)
        )
        guard !isMassProbing && !isProbing || out.count == 0 else { return done }
        let (ofMasses, ofSingles) = try await engine.pool.read { connection in
            let layout = try DatabaseLayout.read(on: connection)
            return try connection.ask(
                engine.waiting(masses.kind), engine.waiting(singles.kind, layout: layout))
        }
        let isHalted = controls.isServiceHalted(.renewalExtension)
        let resumedMasses = try await engine.resume(masses.kind, ofMasses, controls, out)
        var resumed = resumedMasses
        if !isHalted || !resumedMasses.isProbe {
            resumed = try await engine.resume(singles.kind, ofSingles, controls, out)
            resumed.calls += resumedMasses.calls
        }
        // Each claim reads the pauses again, because a round may take long.
        guard !controls.isHeld, !isHalted || !resumed.isProbe else { return done + resumed.calls }
        let calls = try await masses.round(controls, out)
        guard !isHalted && !isProbing || calls == 0 && !resumed.isProbe else {
            return done + resumed.calls + calls
        }
        return try await done + resumed.calls + calls + singles.round(controls, out)
    }
}
