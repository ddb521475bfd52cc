import Pricing
import Synchronization

/// Why no call of an endpoint leaves for a while, as the work that waits says it.
package enum SilenceReason: String, Sendable, CaseIterable {
    /// A 429.
    case rateLimited = "rate_limited"
    /// An error of the App Store's own named the instant.
    case askedToWait = "asked_to_wait"
    /// Calls get no answers; one at a time asks.
    case unanswered = "no_answers"
    /// Calls are refused alike; one at a time asks.
    case halted

    package init(_ answer: StoreAnswer) {
        switch answer {
        case .throttled: self = .rateLimited
        case .unknown: self = .askedToWait
        case .answered, .refused, .notSent: self = .halted
        }
    }
}

/// The silence of one endpoint as this process knows it, at once and for all its lanes: slots that were leased before are
/// not used either. The database tells the other processes.
final class Silence: Sendable {
    private let state = Mutex<(until: Instant, reason: SilenceReason)?>(nil)

    /// The later instant stands.
    func note(until: Instant, for reason: SilenceReason) {
        state.withLock { state in
            if let known = state, known.until >= until { return }
            state = (until, reason)
        }
    }

    /// Why no call leaves now; nil: one may.
    func reason(at now: Instant) -> SilenceReason? {
        state.withLock { state in state.flatMap { now < $0.until ? $0.reason : nil } }
    }
}
