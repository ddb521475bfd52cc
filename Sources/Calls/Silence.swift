import Pricing
import Synchronization

/// Why no call of an endpoint is sent for a while. Waiting work stores the raw value as its reason.
package enum SilenceReason: String, Sendable, CaseIterable {
    /// The App Store answered 429.
    case rateLimited = "rate_limited"
    /// Another error of the App Store named the instant.
    case askedToWait = "asked_to_wait"
    /// Calls get no answers, so one call at a time is sent as a probe.
    case unanswered = "no_answers"
    /// Calls are refused alike, so one call at a time is sent as a probe.
    case halted
    /// Another process noted one of these reasons.
    case silenced

    package init(_ answer: StoreAnswer) {
        switch answer {
        case .throttled: self = .rateLimited
        case .unknown: self = .askedToWait
        case .answered, .refused, .notSent: self = .halted
        }
    }
}

/// The silence of one endpoint as this process knows it. It applies at once, also to permits that were leased before.
/// Other processes learn of it from the database.
final class Silence: Sendable {
    private let state = Mutex<(until: Instant, reason: SilenceReason)?>(nil)

    /// Notes a silence; the later instant stands.
    func note(until: Instant, for reason: SilenceReason) {
        state.withLock { state in
            if let known = state, known.until >= until { return }
            state = (until, reason)
        }
    }

    /// How much longer the silence lasts, in milliseconds; nil where there is none.
    func left(at now: Instant) -> Int64? {
        state.withLock { state in
            state.flatMap { now < $0.until ? $0.until.milliseconds &- now.milliseconds : nil }
        }
    }

    /// Why no call leaves now; nil where one may.
    func reason(at now: Instant) -> SilenceReason? {
        state.withLock { state in state.flatMap { now < $0.until ? $0.reason : nil } }
    }
}

/// The subscriptions whose errors asked to wait since the endpoint last gave an answer, two at most.
final class AskedToWait: Sendable {
    private let subjects = Mutex<Set<String>>([])

    /// Notes one more. Returns true while no other was asked to wait.
    func isAlone(_ subject: String) -> Bool {
        subjects.withLock { subjects in
            if subjects.count < 2 { subjects.insert(subject) }
            return subjects == [subject]
        }
    }

    func forget() { subjects.withLock { $0 = [] } }
}
