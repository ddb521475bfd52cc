import Ledger
import ServiceKit

/// What stops a batch, a storefront of one, or the service, for an answer: written down before anything else, told at
/// error level.
struct Halts: Sendable {
    let pool: LedgerPool
    let clock: any WallClock
    let log: Log
    let metrics: Metrics

    /// Halts the batches of calls that were wrong in themselves, and the service where our key was refused.
    func note(_ attempts: [Attempt]) async throws {
        for attempt in attempts {
            guard case .refused(let refusal, _) = attempt.answer else { continue }
            switch refusal.meaning {
            case .reject, .refresh, .look: continue
            case .haltBatch: try await halt(attempt.request, because: refusal)
            case .haltStorefront: try await haltStorefront(attempt.request, because: refusal)
            case .haltService: try await haltService(refusal.text)
            }
        }
    }

    /// As `note`, of a call that carries no price change: only our key can stop anything.
    func note(_ answer: StoreAnswer) async throws {
        guard case .refused(let refusal, _) = answer, refusal.meaning == .haltService else {
            return
        }
        try await haltService(refusal.text)
    }

    private func halt(
        _ request: RequestQueries.Held, because refusal: StoreRefusal
    ) async throws {
        let now = clock.nowMilliseconds()
        let halted = try await pool.withTransaction { connection in
            try GuardQueries.batches(of: request, on: connection).filter { batch in
                try GuardQueries.halt(
                    batch.batchID, by: String(refusal.code),
                    reason: refusal.reason(request), details: nil, at: now, on: connection)
            }
        }
        for batch in halted { tell(batch, nil, request, refusal) }
    }

    private func haltStorefront(
        _ request: RequestQueries.Held, because refusal: StoreRefusal
    ) async throws {
        let now = clock.nowMilliseconds()
        let halted = try await pool.withTransaction { connection in
            try GuardQueries.batches(of: request, on: connection).filter { batch in
                try GuardQueries.haltStorefront(
                    batch, by: String(refusal.code), reason: refusal.reason(request), at: now,
                    on: connection)
            }
        }
        for batch in halted { tell(batch, batch.storefront, request, refusal) }
    }

    private func tell(
        _ batch: GuardQueries.Concerned, _ storefront: String?, _ request: RequestQueries.Held,
        _ refusal: StoreRefusal
    ) {
        log.error(
            storefront == nil ? "batch halted" : "storefront of a batch halted",
            [
                "batch": batch.batchID, "storefront": storefront ?? "all", "code": refusal.text,
                "subscription": request.originalTransactionID,
            ])
        metrics.increment(
            "repricer_batch_halts_total",
            labels: ["by": storefront == nil ? "code" : "storefront_code"])
    }

    /// `text`: the code and its name.
    func haltService(_ text: String) async throws {
        let now = clock.nowMilliseconds()
        let isNew = try await pool.withTransaction {
            try ControlQueries.haltService(reason: text, at: now, on: $0)
        }
        guard isNew else { return }
        log.error("service halted: no call can succeed until somebody acts", ["code": text])
        metrics.increment("repricer_service_halts_total")
    }

    /// The App Store takes calls again.
    func recover() async throws {
        let now = clock.nowMilliseconds()
        let isNew = try await pool.withTransaction {
            try ControlQueries.recoverService(at: now, on: $0)
        }
        if isNew { log.notice("service recovered: calls are answered again") }
    }
}

extension Halts {
    init(_ world: Scheduler.World) {
        self.init(
            pool: world.pool, clock: world.clock, log: world.log, metrics: world.metrics)
    }

    init(_ world: Canceller.World) {
        self.init(
            pool: world.pool, clock: world.clock, log: world.log, metrics: world.metrics)
    }

    init(_ world: Extender.World) {
        self.init(
            pool: world.pool, clock: world.clock, log: world.log, metrics: world.metrics)
    }
}

extension StoreRefusal {
    fileprivate var text: String { "\(code) \(name)" }

    fileprivate func reason(_ request: RequestQueries.Held) -> String {
        "the App Store refused a call with \(text); \(request.originalTransactionID)"
    }
}
