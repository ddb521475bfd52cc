import Batches
import Calls
package import Facts
package import ServiceKit

/// What stops a batch, or a storefront of one, for an answer: written down before anything else, told at error level.
package struct BatchHalts: Sendable {
    let pool: LedgerPool
    let clock: any WallClock
    let log: Log
    let metrics: Metrics

    package init(pool: LedgerPool, clock: any WallClock, log: Log, metrics: Metrics) {
        self.pool = pool
        self.clock = clock
        self.log = log
        self.metrics = metrics
    }

    /// Halts the batches of calls that were wrong in themselves.
    func note(_ attempts: [Attempt<PriceChangeKind>]) async throws {
        for attempt in attempts {
            guard case .refused(let refusal, _) = attempt.answer else { continue }
            switch refusal.meaning {
            case .reject, .refresh, .look, .haltService: continue
            case .haltBatch: try await halt(attempt.call, because: refusal)
            case .haltStorefront: try await haltStorefront(attempt.call, because: refusal)
            }
        }
    }

    private func halt(
        _ call: StoreCall, because refusal: StoreRefusal
    ) async throws {
        let now = clock.nowMilliseconds()
        let halted = try await pool.withTransaction { connection in
            try GuardQueries.batches(of: call, on: connection).filter { batch in
                try GuardQueries.halt(
                    batch.batchID, by: String(refusal.code),
                    reason: refusal.reason(call), details: nil, at: now, on: connection)
            }
        }
        for batch in halted { tell(batch, nil, call, refusal) }
    }

    private func haltStorefront(
        _ call: StoreCall, because refusal: StoreRefusal
    ) async throws {
        let now = clock.nowMilliseconds()
        let halted = try await pool.withTransaction { connection in
            try GuardQueries.batches(of: call, on: connection).filter { batch in
                try GuardQueries.haltStorefront(
                    batch, by: String(refusal.code), reason: refusal.reason(call), at: now,
                    on: connection)
            }
        }
        for batch in halted { tell(batch, batch.storefront, call, refusal) }
    }

    private func tell(
        _ batch: GuardQueries.Concerned, _ storefront: String?, _ call: StoreCall,
        _ refusal: StoreRefusal
    ) {
        log.error(
            storefront == nil ? "batch halted" : "storefront of a batch halted",
            [
                "batch": batch.batchID, "storefront": storefront ?? "all",
                "code": refusal.codeAndName,
                "subscription": call.subject,
            ])
        metrics.increment(
            "repricer_batch_halts_total",
            labels: ["by": storefront == nil ? "code" : "storefront_code"])
    }
}

extension StoreRefusal {
    fileprivate func reason(_ call: StoreCall) -> String {
        "the App Store refused a call with \(codeAndName); \(call.subject)"
    }
}
