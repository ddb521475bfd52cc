package import Ledger
package import Pricing
package import ServiceKit

/// Extends renewal dates: one subscription at a time, all of a product at once, and what follows from it. Every
/// request is a row that was committed before its call; a lost answer is settled by the same identifier again.
package struct Extender: Service {
    package let name = "extender"
    let world: World
    let singles: SingleExtensions
    let masses: MassExtensions
    let summaries: SummaryFolder
    let redater: Redater

    package struct World: Sendable {
        package var pool: LedgerPool
        package var calls: any ExtensionCalls
        /// For the status that a doubtful refusal asks for.
        package var store: any StoreCalls
        package var environment: StoreEnvironment
        package var clock: any WallClock
        package var realClock: any WallClock = SystemClock()
        package var log: Log
        package var metrics: Metrics
        package var limits = Limits()
        package var wait: CallBudget.Wait = CallBudget.sleep

        package init(
            pool: LedgerPool, calls: any ExtensionCalls, store: any StoreCalls,
            environment: StoreEnvironment, clock: any WallClock, log: Log, metrics: Metrics
        ) {
            self.pool = pool
            self.calls = calls
            self.store = store
            self.environment = environment
            self.clock = clock
            self.log = log
            self.metrics = metrics
        }
    }

    package struct Limits: Sendable {
        package var extendPerSecond = 20
        /// Mass extensions, and looks at their status: Apple's limit.
        package var massPerSecond = 1
        package var statusPerSecond = 50
        package var callsPerClaim = 20
        /// Of a claim's calls, renewed while they are out: a dead process's are taken over this soon.
        package var leaseFor: Duration = .seconds(10)
        /// From the beginning of its claim, which asks for pauses: a call that got no slot until then is put back, so
        /// that a pause is effective within a second.
        package var leavesWithin: Duration = .milliseconds(750)
        /// The same of a look: none waits for a pause.
        package var looksWithin: Duration = .seconds(2)
        /// A call that is out when the service ends gets so long; what is still out then is taken over.
        package var drainFor: Duration = .seconds(7)
        package var retry = Backoff(first: .seconds(2), max: .seconds(300))
        /// Of the business clock, over all replicas.
        package var refusedKeyWait: Duration = .seconds(60)
        /// Between two looks at a mass extension that is at work, by the business clock.
        package var lookEvery: Duration = .seconds(900)
        /// The same in real time at least, however fast the clock runs.
        package var lookEveryMin: Duration = .seconds(2)
        package var summariesPerRound = 100
        package var redatingsPerRound = 200
        package var idleWait: Duration = .seconds(1)

        package init() {}
    }

    package init(_ world: World) {
        self.world = world
        singles = SingleExtensions(world: world)
        masses = MassExtensions(world: world)
        summaries = SummaryFolder(world: world)
        redater = Redater(world: world)
    }

    package func run() async throws {
        await Rounds(
            log: world.log, failure: "extending failed; trying again",
            idleWait: world.limits.idleWait
        ).run(drainFor: world.limits.drainFor, round)
    }

    /// Does what is due now; returns how much that was.
    package func round() async throws -> Int {
        let controls = try await world.pool.withConnection { connection in
            try await connection.read { try ControlQueries.everything(on: $0) }
        }
        let key = KeyWatch(halts: Halts(world), isHalted: controls.isHalted)
        var done = try await summaries.round()
        done += try await redater.round()
        done += try await masses.round(key)
        // Each claim asks once more: a round may take long.
        if !controls.isPaused { done += try await singles.round(key) }
        return done
    }
}

extension Extender.World {
    func budget(_ endpoint: String, perSecond: Int) -> CallBudget {
        CallBudget(
            pool: pool, endpoint: endpoint, perSecond: perSecond, clock: clock, wait: wait)
    }

    /// Real time, after so many attempts.
    func nextAttempt(after attempts: Int) -> Int64 {
        var random = SystemRandomNumberGenerator()
        let delay = limits.retry.delay(attempt: max(1, attempts), random: &random)
        return realClock.nowMilliseconds() + delay.milliseconds
    }

    /// How long every replica keeps quiet after our key was refused.
    var silenceAfterRefusedKey: Instant {
        now.advanced(by: limits.refusedKeyWait.milliseconds)
    }

    var now: Instant { Instant(milliseconds: clock.nowMilliseconds()) }
}
