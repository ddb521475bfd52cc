import Facts
import Pricing

/// Tells a key that is refused everywhere from a key that one endpoint refuses.
extension CallRound {
    /// The verdict on refusals for our key, once a status has been read. Where the status is answered, the key is good,
    /// so the refusals concern this kind of call alone. A batch has its own halts, and a halted service has its probes.
    func narrowed(
        _ judged: Judged, _ refusal: StoreRefusal, _ call: StoreCall
    ) async throws -> Judged {
        guard case .systemic(.all) = judged.verdict, kind.halts == nil, refusal.isAboutKey,
            probe == nil, !engine.recent.isServiceHalted(kind.kind),
            let status = await statusNow(of: call), status.isAnswered
        else { return judged }
        try await engine.noteGoodKey(kind.kind)
        return Judged(verdict: .systemic(.kind), streak: judged.streak)
    }

    /// Reads the status of the call's subscription; returns nil where none could be asked for soon. An answer waits to be
    /// stored, so this does not wait out a long silence.
    func statusNow(of call: StoreCall) async -> StoreAnswer? {
        let checks = kind.checkPermitSource
        do {
            guard try await checks.takeOne(within: engine.limits.checksWithin) else { return nil }
        } catch {
            return nil
        }
        let answer = await kind.check(call)
        do { try await checks.heed(answer, of: call.subject) } catch {
            engine.log.warning("a silence is not shared", ["error": String(describing: error)])
        }
        return answer
    }
}

extension RecentAnswers {
    /// Whether the halt of the service concerned the kind when the controls were last read.
    func isServiceHalted(_ kind: StoreCall.Kind) -> Bool {
        state.withLock { $0.serviceHalted.contains(kind) }
    }
}
