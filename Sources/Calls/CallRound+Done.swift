import AppStore
import Facts
import Pricing
import ServiceKit

/// Calls that were refused because what they ask is done already, once a status has shown whether it is.
extension CallRound {
    /// Where it is done, the refusals were none, and what was halted for them goes on. The refusals after that tell
    /// nothing of others, until one of them is not done: that one counts as the refusal that it was.
    func judgeDone(_ settled: CallSettlement<Kind>.Settled) async throws {
        let (done, notDone) = (settled.done, settled.notDone)
        guard !done.isEmpty || !notDone.isEmpty else { return }
        let scopes = try await patiently(done + notDone) {
            try await self.kind.halts?.scopes(of: done + notDone) ?? [:]
        }
        let (recent, kind) = (engine.recent, kind.kind)
        let (now, realNow) = (engine.now, engine.realClock.nowMilliseconds())
        // What is judged here is known to nobody else, so it waits for whoever holds a row.
        let judged = try await patiently(done + notDone) {
            try await engine.pool.withTransaction { connection in
                let former = try RefusalStreakQueries.lock(kind, on: connection)
                let (judged, streaks) = recent.together(kind, former) { state in
                    var judged: [(call: StoreCall, refusal: StoreRefusal, judged: Judged)] = []
                    if !done.isEmpty {
                        state.noteDone(
                            kind, done.map(\.subject), done.flatMap { scopes[$0.callID] ?? [] })
                    }
                    for call in notDone {
                        // Where they were not taken for done, they were counted as they came.
                        guard state.noteNotDone(kind, call.subject),
                            let refusal = StoreRefusal(doneBy: call)
                        else { continue }
                        let verdict = state.judge(
                            refusal, of: call.subject, kind, scopes[call.callID] ?? [], now: now,
                            realNow: realNow)
                        guard case .systemic(let scope) = verdict else { continue }
                        judged.append(
                            (
                                call, refusal,
                                Judged(verdict: verdict, streak: state.streak(kind, scope))
                            ))
                    }
                    return judged
                }
                try connection.sendLater(
                    RefusalStreakQueries.write(kind, streaks, former: former))
                return judged
            }
        }
        for one in judged {
            try await patiently([one.call]) {
                try await act(on: one.judged, one.refusal, one.call)
            }
        }
        // What has halted just now did so by calls that are not done.
        guard !done.isEmpty, judged.isEmpty else { return }
        try await patiently(done) {
            try await endHalts(of: done.flatMap { scopes[$0.callID] ?? [] })
        }
    }

    /// Ends the halts of these scopes that such refusals have made.
    private func endHalts(of scopes: [CallScope]) async throws {
        let batches = scopes.filter { $0.haltedBy.map(Self.saysDone) ?? false }.compactMap(
            \.batchID)
        for id in Set(batches).sorted() { try await kind.halts?.recover(id) }
        let controls = try await engine.controls()
        let halted = controls.haltedKinds.first { $0.kind == kind.kind.rawValue }
        if let halted, ServiceHalt.code(halted.reason).map(Self.saysDone) ?? false {
            try await engine.halt.recover(kind.kind)
        }
        if kind.kind == .priceChange, controls.isHalted,
            controls.haltedReason.flatMap(ServiceHalt.code).map(Self.saysDone) ?? false
        {
            try await engine.halt.recover()
        }
        // Until they were read, one refusal of any code would halt again what has just ended.
        engine.recent.note(try await engine.controls())
    }

    private static func saysDone(_ code: Int) -> Bool { APIErrorCode(rawValue: code).saysDone }
}

extension StoreRefusal {
    /// The refusal that the stored call keeps.
    fileprivate init?(doneBy call: StoreCall) {
        guard let code = call.errorCode.flatMap(Int.init(exactly:)) else { return nil }
        self.init(
            code: code, name: APIErrorCode(rawValue: code).label,
            message: "refused as done already, and a status shows that it is not",
            meaning: .checkStatus)
    }
}
