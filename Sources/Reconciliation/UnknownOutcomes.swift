import Calls
import Facts
import Pricing
import ServiceKit

/// Resolves calls of unknown outcome by reading the statuses of their subscriptions. It never sends a call again.
struct UnknownOutcomes<Kind: CallKind>: Sendable {
    let engine: CallEngine
    let kind: Kind

    /// As many as one reservation of permits holds, and 25 at most.
    private var perRound: Int { min(25, kind.checkPermitSource.permitsAhead) }

    struct Summary: Hashable, Sendable {
        var checked = 0
        var settled = 0
    }

    /// The subscriptions whose status checks were refused, or could not be sent, since the last answered one. A single
    /// one is an exception.
    private struct Refused {
        static var othersMax: Int { 1 }
        var subjects: Set<String> = []
        var last: ReconcileError?

        var stop: ReconcileError? { subjects.count > Self.othersMax ? last : nil }
    }

    func settleAll(into summary: inout Summary) async throws {
        let realNow = engine.realClock.nowMilliseconds()
        let buckets = try await engine.pool.read {
            try StoreCallQueries.unknownBuckets(kind.kind, realNow: realNow, on: $0)
        }
        var refused = Refused()
        for bucket in buckets {
            var seen: [String] = []
            while true {
                let calls = try await take(bucket, besides: seen)
                guard !calls.isEmpty else { break }
                seen += calls.map(\.callID)
                try await settle(calls, &refused, into: &summary)
            }
        }
    }

    private func take(_ bucket: Int, besides seen: [String]) async throws -> [StoreCall] {
        let (gate, realNow) = (
            kind.gate(now: engine.clock.nowMilliseconds()), engine.realClock.nowMilliseconds()
        )
        return try await engine.pool.withTransaction { connection in
            try StoreCallQueries.takeOverUnknown(
                gate, bucket: bucket, owner: engine.owner, leaseUntil: engine.leaseUntil,
                realNow: realNow, limit: perRound, besides: seen, on: connection)
        }
    }

    private func settle(
        _ calls: [StoreCall], _ refused: inout Refused, into summary: inout Summary
    ) async throws {
        var stop: (any Error)?
        var attempts: [Attempt<Kind>] = []
        await withTaskGroup(of: (Attempt<Kind>, (any Error)?).self) { group in
            for call in calls {
                // Each check has its own permit. A call that was not checked stays leased, and is due again when the
                // lease ends.
                do { try await kind.checkPermitSource.takeOne() } catch {
                    stop = error
                    break
                }
                group.addTask {
                    let answer = await kind.check(call)
                    do {
                        try await kind.checkPermitSource.heed(answer, of: call.subject)
                    } catch {
                        return (Attempt(call, answer), error)
                    }
                    return (Attempt(call, answer), nil)
                }
            }
            for await (attempt, failure) in group {
                attempts.append(attempt)
                stop = stop ?? failure
            }
        }
        // What was read is stored, whatever ends the run.
        for attempt in attempts { try await settle(attempt, &refused, into: &summary) }
        if let stop = stop ?? refused.stop { throw stop }
    }

    private func settle(
        _ attempt: Attempt<Kind>, _ refused: inout Refused, into summary: inout Summary
    ) async throws {
        let (now, realNow) = (engine.now, engine.realClock.nowMilliseconds())
        summary.checked += 1
        do {
            _ = try await engine.settlement(of: kind).settle([attempt], now: now, realNow: realNow)
        } catch  where isDataFault(error) {
            try await engine.settlement(of: kind).quarantine(
                attempt, because: error, now: now, realNow: realNow)
        }
        let isSettled = try await engine.pool.read {
            try StoreCallQueries.isSettled(attempt.call, on: $0)
        }
        if isSettled { summary.settled += 1 }
        switch attempt.answer {
        case .answered: refused = Refused()
        case .refused(let refusal, _) where refusal.meaning == .haltService:
            refused.subjects.insert(attempt.call.subject)
            refused.last = .refused(
                "the statuses of several calls of unknown outcome: \(refusal.codeAndName)")
        case .notSent(let reason):
            refused.subjects.insert(attempt.call.subject)
            refused.last = .storeAway(reason)
        case .refused, .throttled, .unknown: break
        }
    }
}
