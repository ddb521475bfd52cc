import AppStore
import Facts
import Pricing
import ServiceKit

/// Judges refusals that say "done already", once a status has shown whether that is true.
extension CallRound {
    /// Where it is true, the refusals no longer count, and the halts that they caused end. Later refusals that say so
    /// are not counted either, until a status shows that one of them is not true. That one counts as a refusal.
    func judgeDone(_ settled: CallSettlement<Kind>.Settled) async throws {
        let (done, notDone) = (settled.done, settled.notDone)
        guard !done.isEmpty || !notDone.isEmpty else { return }
        let scopes = try await patiently(done + notDone) {
            try await self.kind.halts?.scopes(of: done + notDone) ?? [:]
        }
        let (recent, kind) = (engine.recent, kind.kind)
        let (now, realNow) = (engine.now, engine.realClock.nowMilliseconds())
        // No other process knows this outcome and would repeat the work, so it waits for rows that others hold.
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
                        // Where the refusal was not believed, it was counted when it came.
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
        // What was halted just now was halted for calls that are not done, so its halt stays.
        guard !done.isEmpty, judged.isEmpty else { return }
        try await patiently(done) {
            try await endHalts(of: done.flatMap { scopes[$0.callID] ?? [] })
        }
    }

    /// Ends those halts of these scopes that "done already" caused.
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
        // This process must read the controls at once. Else one refusal with any code would renew the halt that has
        // just ended.
        engine.recent.note(try await engine.controls())
    }

    private static func saysDone(_ code: Int) -> Bool { APIErrorCode(rawValue: code).saysDone }
}

extension StoreRefusal {
    /// The refusal that the stored call keeps.
    fileprivate init?(doneBy call: StoreCall) {
        guard let code = call.errorCode.flatMap(Int.init(exactly:)) else { return nil }
        guard call.errorCode != ResolutionTable.answeredCode else {
            self = .answeredInVain
            return
        }
        self.init(
            code: code, name: APIErrorCode(rawValue: code).label,
            message: "refused as done already, and a status shows that it is not",
            meaning: .checkStatus)
    }
}
