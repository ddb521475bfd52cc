import Ledger
import ServiceKit

/// What stops a batch, or the service, for an answer: written down before anything else, told at error level.
struct Halts: Sendable {
    let world: Scheduler.World

    /// Halts the batches of calls that were wrong in themselves, and the service where our key was refused.
    func note(_ attempts: [Attempt]) async throws {
        for attempt in attempts {
            guard case .refused(let refusal, _) = attempt.answer else { continue }
            let text = "\(refusal.code) \(refusal.name)"
            switch refusal.meaning {
            case .reject, .refresh, .look: continue
            case .haltBatch: try await halt(attempt.request, because: refusal, text)
            case .haltService: try await haltService(text)
            }
        }
    }

    private func halt(
        _ request: RequestQueries.Held, because refusal: StoreRefusal, _ text: String
    ) async throws {
        let now = world.clock.nowMilliseconds()
        let halted = try await world.pool.withTransaction { connection in
            try GuardQueries.batches(of: request, on: connection).filter { batch in
                try GuardQueries.halt(
                    batch, by: String(refusal.code),
                    reason:
                        "the App Store refused a call with \(text); \(request.originalTransactionID)",
                    details: nil, at: now, on: connection)
            }
        }
        for batch in halted {
            world.log.error(
                "batch halted",
                ["batch": batch, "code": text, "subscription": request.originalTransactionID])
            world.metrics.increment("repricer_batch_halts_total", labels: ["by": "code"])
        }
    }

    private func haltService(_ text: String) async throws {
        let now = world.clock.nowMilliseconds()
        let isNew = try await world.pool.withTransaction {
            try ControlQueries.haltService(reason: text, at: now, on: $0)
        }
        guard isNew else { return }
        world.log.error("service halted: no call can succeed until somebody acts", ["code": text])
        world.metrics.increment("repricer_service_halts_total")
    }

    /// The App Store takes calls again.
    func recover() async throws {
        let now = world.clock.nowMilliseconds()
        let isNew = try await world.pool.withTransaction {
            try ControlQueries.recoverService(at: now, on: $0)
        }
        if isNew { world.log.notice("service recovered: calls are answered again") }
    }
}
