import Ledger
import Pricing
import ServiceKit

/// Settles calls of unknown outcome by reading their subscriptions' statuses; never sends one again.
struct UnknownOutcomes: Sendable {
    static let perRound = 25
    static let max = 100_000

    let pool: LedgerPool
    let store: any StoreCalls
    let budget: CallBudget
    let settlement: Settlement
    let clock: any WallClock
    let realClock: any WallClock
    let leaseFor: Duration

    struct Summary: Hashable, Sendable {
        var looked = 0
        var settled = 0
    }

    func settleAll(owner: String, into summary: inout Summary) async throws {
        let realNow = realClock.nowMilliseconds()
        let ids = try await pool.withConnection { connection in
            try await connection.read {
                try RequestQueries.unknownOutcomes(realNow: realNow, limit: Self.max, on: $0)
            }
        }
        for start in stride(from: 0, to: ids.count, by: Self.perRound) {
            let some = Array(ids[start..<min(start + Self.perRound, ids.count)])
            try await settle(some, owner: owner, into: &summary)
        }
    }

    private func settle(
        _ ids: [String], owner: String, into summary: inout Summary
    ) async throws {
        let realNow = realClock.nowMilliseconds()
        let now = clock.nowMilliseconds()
        let until = realNow + leaseFor.milliseconds
        let held = try await pool.withTransaction { connection in
            try RequestQueries.takeOverUnknown(
                ids, owner: owner, leaseUntil: until, now: now, realNow: realNow, on: connection)
        }
        let answers = try await withThrowingTaskGroup(
            of: (RequestQueries.Held, StoreAnswer).self
        ) { group in
            for request in held {
                // Each at its own instant; one not looked at stays leased, and is due again when that ends.
                try await budget.takeOne()
                group.addTask { (request, await store.look(transactionID: request.transactionID)) }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        var stop: ReconcileError?
        for (request, answer) in answers {
            stop = try await settle(request, answer, into: &summary) ?? stop
        }
        if let stop { throw stop }
    }

    private func settle(
        _ request: RequestQueries.Held, _ answer: StoreAnswer, into summary: inout Summary
    ) async throws -> ReconcileError? {
        let now = Instant(milliseconds: clock.nowMilliseconds())
        let realNow = realClock.nowMilliseconds()
        summary.looked += 1
        do {
            _ = try await settlement.settle(request, answer, newest: [], now: now, realNow: realNow)
        } catch  where isDataFault(error) {
            try await settlement.setAside(
                request, answer, because: error, now: now, realNow: realNow)
        }
        let isSettled = try await pool.withConnection { connection in
            try await connection.read { try RequestQueries.isSettled(request, on: $0) }
        }
        if isSettled { summary.settled += 1 }
        switch answer {
        case .throttled(let until, _):
            try await budget.block(until: until)
            return nil
        case .refused(let refusal, _) where refusal.meaning == .haltService:
            return .refused("\(refusal.code) \(refusal.name)")
        case .notSent(let reason): return .storeAway(reason)
        case .answered, .refused, .unknown: return nil
        }
    }
}
