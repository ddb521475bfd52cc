import Facts
import Pricing

/// Calls that somebody else answered in the App Store's place.
extension CallRound {
    /// Reads the status after an answer without a code that one subscription alone got: the App Store may have applied the
    /// call, and its change must not be sent again under another id. Where the status cannot be read either, the change is
    /// parked as after every refusal with an unknown cause.
    func withStatuses(_ attempts: [Attempt<Kind>]) async -> [Attempt<Kind>] {
        guard kind.policy.readsStatusAfterStaleToken else { return attempts }
        var read: [Attempt<Kind>] = []
        for attempt in attempts {
            guard attempt.verdict == .parked, attempt.call.isFirstAttempt, attempt.newest.isEmpty,
                attempt.answer.refusal?.mayBeApplied == true
            else {
                read.append(attempt)
                continue
            }
            read.append(attempt.knowing(await newestStatements(of: attempt.call)))
        }
        return read
    }
}
