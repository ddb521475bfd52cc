import Batches
package import Calls
package import Facts
package import ServiceKit

/// Halts a batch, or a storefront of it, where its calls are refused alike. The halt is stored before anything else,
/// and logged at error level.
package struct BatchHalts: ScopeHalts {
    let pool: DatabasePool
    let clock: any WallClock
    /// The clock that times probes.
    let realClock: any WallClock
    let log: Log
    let metrics: Metrics
    /// The time between two probes of a halted batch, in real time.
    let probes: ProbePace

    package init(
        pool: DatabasePool, clock: any WallClock, realClock: any WallClock, log: Log,
        metrics: Metrics, probes: ProbePace
    ) {
        self.pool = pool
        self.clock = clock
        self.realClock = realClock
        self.log = log
        self.metrics = metrics
        self.probes = probes
    }

    var clocks: PriceCallQueries.Clocks {
        PriceCallQueries.Clocks(
            now: clock.nowMilliseconds(), realNow: realClock.nowMilliseconds(),
            // The milliseconds of a thousand seconds equal the microseconds of one second.
            realMicrosPerSecond: clock.realDuration(of: .seconds(1000)).milliseconds)
    }

    /// The batches of the changes that calls carry, by call id.
    package func scopes(of calls: [StoreCall]) async throws -> [String: [CallScope]] {
        let (found, secondChances, parked) = try await pool.read {
            let found = try GuardQueries.batches(of: calls, on: $0)
            let batches = Set(found.values.flatMap { $0.map(\.batchID) }).sorted()
            return (
                found, try HaltQueries.secondChances(of: calls, on: $0),
                try HaltQueries.parkedBefore(batches, on: $0)
            )
        }
        var scopes: [String: [CallScope]] = [:]
        for (call, concerned) in found {
            scopes[call] = concerned.map {
                CallScope(
                    batchID: $0.batchID, storefront: $0.storefront, wasParked: $0.wasParked,
                    staleTokens: $0.staleTokens, isHalted: $0.isHalted, haltedBy: $0.haltedBy,
                    isStorefrontHalted: $0.isStorefrontHalted,
                    secondChances: secondChances[call] ?? [], parked: parked[$0.batchID] ?? [:])
            }
        }
        return scopes
    }

    package func halt(
        _ scope: CallScope, because refusal: StoreRefusal, _ call: StoreCall,
        _ streak: RefusalStreak?
    ) async throws {
        guard let batchID = scope.batchID else { return }
        let now = clock.nowMilliseconds()
        let probeAt = realClock.nowMilliseconds() + probes.next().milliseconds
        let reason = "\(refusal.met(by: streak)), the last of them \(call.subject)"
        let isNew = try await pool.withTransaction { connection in
            guard let storefront = scope.storefront else {
                return try GuardQueries.halt(
                    batchID, by: String(refusal.code), reason: reason, details: nil, at: now,
                    probeAt: probeAt, since: streak?.since.milliseconds, on: connection)
            }
            return try GuardQueries.haltStorefront(
                .init(batchID: batchID, storefront: storefront), by: String(refusal.code),
                reason: reason, at: now, probeAt: probeAt, on: connection)
        }
        guard isNew else { return }
        log.error(
            scope.storefront == nil ? "batch halted" : "storefront of a batch halted",
            [
                "batch": batchID, "storefront": scope.storefront ?? "all",
                "code": refusal.codeAndName, "subscription": call.subject, "reason": reason,
                "ends": "with the first probe that is answered, or by `resume` or `abort`",
            ])
        metrics.increment(
            "repricer_batch_halts_total",
            labels: ["by": scope.storefront == nil ? "code" : "storefront_code"])
    }

    /// Judges the guards of the batches whose calls were refused, at once, because their calls continue meanwhile.
    package func judgeGuards(of refused: [StoreCall]) async throws {
        let ids = try await scopes(of: refused).values.flatMap(\.self).compactMap(\.batchID)
        let judge = GuardJudge(
            pool: pool, clock: clock, realClock: realClock, log: log, metrics: metrics)
        for id in Set(ids).sorted() { try await judge.judgeErrors(of: id) }
    }

    /// Notes that a probe was refused, and with what. The batch stays halted.
    package func note(_ refusal: StoreRefusal, _ call: StoreCall, ofProbe batchID: String)
        async throws
    {
        let note = GuardQueries.noteProbeAnswer(
            batchID, "\(refusal.codeAndName) for \(call.subject)")
        try await pool.write(note)
    }

    /// Ends the halt of the batch, because its probe was answered.
    package func recover(_ batchID: String) async throws {
        let now = clock.nowMilliseconds()
        let isNew = try await pool.withTransaction {
            try GuardQueries.recover(batchID, at: now, on: $0)
        }
        if isNew {
            log.notice("batch recovered: its calls are answered again", ["batch": batchID])
        }
    }
}
