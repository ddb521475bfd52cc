package import Facts
import Pricing
package import ServiceKit

/// Watches batches in delivery: it releases due waves, halts a batch that breaks a guard rail, and exports what is
/// paused or halted as metrics.
///
/// Every replica does this. Rows of the database ensure that each action happens once.
package struct BatchWatch: Service {
    package let name = "batch watch"
    private let pool: DatabasePool
    private let clock: any WallClock
    private let realClock: any WallClock
    private let sharedClock: SharedClock?
    private let log: Log
    private let metrics: Metrics
    private let limits: Limits
    private let lease: HeldLease
    private let troubles: TroubleWatch
    private let judge: GuardJudge
    private let read: ReadFigures

    package struct Limits: Sendable {
        /// The real time between two rounds.
        package var every: Duration = .milliseconds(500)
        /// The real time between two judgements of guard rails, over all replicas.
        package var guardsEvery: Duration = .seconds(2)
        /// The real time between two counts of a batch that has nothing to hold back.
        package var countsEvery: Duration = .seconds(300)
        /// Judging takes at most one part in this many of the time: a judgement that took a second is followed by a
        /// pause of fifty.
        package var guardsShare = 50
        /// The real time between two searches for troubles that a person should see, in one process.
        package var troublesEvery: Duration = .seconds(60)
        /// How many rows of halted storefronts one transaction parks.
        package var parkedAtOnce = 20_000
        /// The real time between two probes of a halted storefront.
        package var probes = ProbePace()
        /// How many rows of one halt a transaction puts back.
        package var putBackAtOnce = 500
        /// How long rows that were put back wait behind rows that were never called, by the business clock.
        package var putBackWait: Duration = .seconds(120)

        package init() {}
    }

    package init(
        pool: DatabasePool, clock: any WallClock, realClock: any WallClock = SystemClock(),
        log: Log,
        metrics: Metrics, limits: Limits = Limits()
    ) {
        self.pool = pool
        self.clock = clock
        // What all replicas read, as when guards are due again, is dated by the clock that they share.
        sharedClock = realClock is SystemClock ? SharedClock() : nil
        let realClock = sharedClock ?? realClock
        self.realClock = realClock
        self.log = log
        self.metrics = metrics
        self.limits = limits
        lease = HeldLease(name: "guards", pool: pool, realClock: realClock)
        troubles = TroubleWatch(
            pool: pool, log: log, metrics: metrics, every: limits.troublesEvery)
        judge = GuardJudge(
            pool: pool, clock: clock, realClock: realClock, log: log, metrics: metrics)
        read = ReadFigures([.controls], metrics: metrics, realClock: realClock)
        metrics.declareCounter(
            "repricer_batch_watch_failures_total",
            "Rounds over batches (waves, guards, halts) that failed and are tried again.")
        metrics.declareCounter(
            "repricer_waves_released_total", "Waves released by their time.")
        metrics.declareCounter(
            "repricer_batch_halts_total", "Batches paused by the service: by a guard, or a code.",
            labels: ["by": GuardRail.Figure.allCases.map(\.rawValue) + ["code", "storefront_code"]])

        metrics.declareGauge(
            "repricer_everything_paused", "1 while `pause --all` holds.")
        metrics.declareGauge(
            "repricer_service_halted", "1 while calls are refused alike, whatever the subscription."
        )

        metrics.declareGauge(
            "repricer_kinds_halted",
            "Kinds of call (cancellations, extensions) that stand still, since they are refused alike."
        )
        metrics.declareGauge(
            "repricer_kinds_throttled",
            "Kinds of call of which one at a time leaves, since the App Store gives no answers.")
        metrics.declareGauge(
            "repricer_batches_paused", "Approved batches that are paused.")
        metrics.declareGauge(
            "repricer_batches_halted", "Of these, the ones that no person paused.")
        metrics.declareGauge(
            "repricer_storefronts_halted", "Storefronts of approved batches that a code halted.")
    }

    package func run() async throws {
        let metrics = metrics
        await Rounds(
            log: log, failure: "looking after batches failed; trying again",
            failureWait: limits.every,
            count: { metrics.increment("repricer_batch_watch_failures_total") }
        ).run {
            try await round()
            return limits.every
        }
    }

    /// Does one round over all batches. Tests drive it by hand.
    package func round() async throws {
        var failure: (any Error)?
        do {
            if let sharedClock { try await pool.read { try sharedClock.follow($0) } }
            try await act()
        } catch { failure = error }
        // The metrics are exported even where a guard could not be judged.
        try await tell()
        try await troubles.round(
            now: clock.nowMilliseconds(), realNow: realClock.nowMilliseconds())
        read.note(.controls)
        if let failure { throw failure }
    }

    private func act() async throws {
        var failure = FirstFailure()
        let steps = [
            releaseWaves, parkHalted, judgeGuards, probeStorefronts, putBackRefused, endIdleHalts,
        ]
        for step in steps { try await failure.trying(step) }
        try failure.rethrow()
    }

    private func releaseWaves() async throws {
        let now = clock.nowMilliseconds()
        let released = try await pool.withTransaction {
            try ControlQueries.releaseDue(at: now, on: $0)
        }
        for wave in released {
            log.notice(
                "wave released",
                ["batch": wave.batchID, "wave": String(wave.wave), "label": wave.label])
            metrics.increment("repricer_waves_released_total")
        }
    }

    /// Parks rows of halted storefronts. At the head of the queues each claim would have to skip them. A round parks a
    /// limited number, so that guards are judged in between.
    private func parkHalted() async throws {
        let limit = limits.parkedAtOnce
        _ = try await pool.withTransaction { try GuardQueries.parkHalted(limit: limit, on: $0) }
    }

    // MARK: Halts

    private func probeStorefronts() async throws {
        let (now, realNow) = (clock.nowMilliseconds(), realClock.nowMilliseconds())
        let next = realNow + limits.probes.next().milliseconds
        let probes = try await pool.withTransaction {
            try HaltQueries.probeStorefronts(at: now, realNow: realNow, next: next, on: $0)
        }
        for probe in probes {
            log.notice(
                probe.hasRecovered
                    ? "storefront of a batch recovered: its calls are answered again"
                    : "a probe is refused; the halt of the storefront goes on",
                [
                    "batch": probe.batchID, "storefront": probe.storefront,
                    "subscription": probe.subscription, "code": probe.answer ?? "",
                ])
        }
    }

    private func putBackRefused() async throws {
        let (now, realNow) = (clock.nowMilliseconds(), realClock.nowMilliseconds())
        let limit = limits.putBackAtOnce
        let wait = clock.realDuration(of: limits.putBackWait).milliseconds
        let done = try await pool.withTransaction {
            try HaltQueries.putBackRefused(
                at: now, realNow: realNow, limit: limit, wait: wait, on: $0)
        }
        for one in done {
            log.notice(
                "put back: others were refused alike",
                [
                    "kind": one.kind, "batch": one.batchID ?? "every", "code": one.code,
                    "count": "\(one.count)",
                ])
        }
    }

    /// Ends halts for which nothing is left to call. Other halts end with an answered call.
    private func endIdleHalts() async throws {
        let now = clock.nowMilliseconds()
        let ended = try await pool.withTransaction { try HaltQueries.endIdleHalts(at: now, on: $0) }
        for one in ended {
            log.notice(
                "a halt or throttle has ended: nothing is left to call that could ask",
                ["what": one.what, "stood_still_for": one.reason])
        }
    }

    // MARK: Guard rails

    private func judgeGuards() async throws {
        let countedBefore = realClock.nowMilliseconds() - limits.countsEvery.milliseconds
        let guarded = try await pool.read {
            try GuardQueries.guarded(countedBefore: countedBefore, on: $0)
        }
        guard !guarded.isEmpty, try await lease.take(dueAt: realClock.nowMilliseconds()) else {
            return
        }
        let started = ContinuousClock.now
        let (limits, realClock, clock) = (limits, realClock, clock)
        try await lease.whileRenewing(
            log: log,
            nextRunAt: {
                let pause = max(
                    limits.guardsEvery, (ContinuousClock.now - started) * limits.guardsShare)
                return realClock.nowMilliseconds() + pause.milliseconds
            }, now: { clock.nowMilliseconds() }
        ) {
            var failure = FirstFailure()
            for batch in guarded { try await failure.trying { try await judge.judge(batch) } }
            try failure.rethrow()
        }
    }

    private func tell() async throws {
        let (everything, batches) = try await pool.read { connection in
            (
                try ServiceControlQueries.everything(on: connection),
                try ControlQueries.pausedBatches(on: connection)
            )
        }
        metrics.set("repricer_everything_paused", to: everything.isPaused ? 1 : 0)
        metrics.set("repricer_service_halted", to: everything.isHalted ? 1 : 0)
        metrics.set("repricer_kinds_halted", to: Double(everything.haltedKinds.count))
        metrics.set("repricer_kinds_throttled", to: Double(everything.throttledKinds.count))
        metrics.set("repricer_batches_paused", to: Double(batches.paused))
        metrics.set("repricer_batches_halted", to: Double(batches.halted))
        metrics.set("repricer_storefronts_halted", to: Double(batches.storefronts))
    }
}
