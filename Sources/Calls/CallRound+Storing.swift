import Facts
import Pricing
import ServiceKit

/// Stores what came back. Where something cannot be stored, the other answers are.
extension CallRound {
    /// Stores all attempts in one transaction. Where one cannot be stored, each gets its own transaction, so that the
    /// others are stored.
    func store(
        _ attempts: [Attempt<Kind>]
    ) async throws -> CallSettlement<Kind>.Settled {
        do {
            return try await storeTogether(attempts)
        } catch  where isDataFault(error) && attempts.count > 1 {
            engine.log.notice("settling one by one", ["error": String(describing: error)])
        } catch  where isDataFault(error) {
            try await quarantine(attempts, because: error)
            return .init()
        } catch  where isHeldByOthers(error) {
            tellHeld(attempts.map(\.call), by: error)
        }
        return try await storeOneByOne(attempts)
    }

    /// Stores attempts one by one. The answer is in hand and its lease is kept, so an attempt whose rows another
    /// session holds waits until they are free.
    private func storeOneByOne(
        _ attempts: [Attempt<Kind>]
    ) async throws -> CallSettlement<Kind>.Settled {
        var settled = CallSettlement<Kind>.Settled()
        var failure: (any Error)?
        var waiting = attempts
        while !waiting.isEmpty {
            var held: [Attempt<Kind>] = []
            for attempt in waiting {
                do {
                    let one = try await storeTogether([attempt])
                    settled.ours.formUnion(one.ours)
                    settled.done += one.done
                    settled.notDone += one.notDone
                } catch  where isHeldByOthers(error) {
                    held.append(attempt)
                    tellHeld([attempt.call], by: error)
                } catch  where isDataFault(error) {
                    do { try await quarantine([attempt], because: error) } catch {
                        failure = failure ?? error
                    }
                } catch {
                    failure = failure ?? error
                }
            }
            waiting = held
            if !held.isEmpty { try await Alarm.shared.wait(for: engine.limits.settleEvery) }
        }
        if let failure { throw failure }
        return settled
    }

    /// Repeats the work where another session holds what it changes.
    func patiently<Result: Sendable>(
        _ calls: [StoreCall], _ work: () async throws -> Result
    ) async throws -> Result {
        while true {
            do { return try await work() } catch  where isHeldByOthers(error) {
                tellHeld(calls, by: error)
                try await Alarm.shared.wait(for: engine.limits.settleEvery)
            }
        }
    }

    private func tellHeld(_ calls: [StoreCall], by error: any Error) {
        engine.log.warning(
            "another session holds what an answer changes; it is stored once that lets go",
            [
                "kind": kind.kind.rawValue, "subject": calls.first?.subject ?? "",
                "answers": "\(calls.count)", "error": String(describing: error),
            ])
    }

    private func storeTogether(
        _ attempts: [Attempt<Kind>]
    ) async throws -> CallSettlement<Kind>.Settled {
        let settled = try await settlement.settle(
            attempts, now: engine.now, realNow: engine.realClock.nowMilliseconds())
        let results = attempts.map { attempt in
            settled.ours.contains(attempt.call.callID) ? attempt.label : "lease_lost"
        }
        for (attempt, result) in zip(attempts, results) { follow(attempt, result) }
        for (result, calls) in Dictionary(results.map { ($0, 1) }, uniquingKeysWith: +) {
            engine.count(kind.kind, result, by: calls)
        }
        return settled
    }

    /// Logs a line with the ids of the subscription, the change and the call, so that a person can follow one change.
    private func follow(_ attempt: Attempt<Kind>, _ result: String) {
        let call = attempt.call
        engine.log.debug(
            "call settled",
            [
                "kind": kind.kind.rawValue, "subject": call.subject, "call": call.callID,
                "changes": call.carries.joined(separator: ","), "step": call.step.rawValue,
                "attempt": "\(call.attempts)", "result": result,
                "status": attempt.answer.reply.httpStatus.map(String.init) ?? "",
                "code": attempt.answer.refusal?.codeAndName ?? "",
            ])
    }

    private func quarantine(
        _ attempts: [Attempt<Kind>], because error: any Error
    ) async throws {
        for attempt in attempts {
            engine.log.error(
                "an answer can't be stored; its call is quarantined",
                [
                    "kind": kind.kind.rawValue, "call": attempt.call.callID,
                    "subject": attempt.call.subject, "error": String(describing: error),
                ])
            engine.count(kind.kind, "quarantined", by: 1)
            try await settlement.quarantine(
                attempt, because: error, now: engine.now,
                realNow: engine.realClock.nowMilliseconds())
        }
    }
}
