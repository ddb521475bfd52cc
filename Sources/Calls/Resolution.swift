import AppStore
package import Facts
package import Pricing
package import ServiceKit

/// What one attempt means for its call, and for what that carries.
package enum Resolution: Sendable {
    /// Apple has it.
    case applied(Proof)
    /// Refused for good. `isDoubtful`: an earlier attempt may have been applied, though no check showed it.
    case refused(StoreRefusal, isDoubtful: Bool)
    /// Apple has it not: what the call carries is judged anew, under a new id.
    case released(Release)
    /// Nobody knows yet.
    case open(StoreCall.Step, reason: String, errorCode: Int64?, after: Delay = .retry)

    package struct Proof: Sendable {
        package enum Source: String, Sendable { case answer, notification, status }

        package var evidenceID: String?
        package var detail: String?
        /// Of an extension.
        package var extendedTo: Instant?
        package var source: Source?

        package init(
            evidenceID: String? = nil, detail: String? = nil, extendedTo: Instant? = nil,
            source: Source? = nil
        ) {
            self.evidenceID = evidenceID
            self.detail = detail
            self.extendedTo = extendedTo
            self.source = source
        }
    }

    package struct Release: Sendable {
        package var reason: String
        /// One refused item refuses a whole call: each is tried by itself.
        package var goesAlone = false
        package var after: Delay = .none
        /// Nobody knows whether it was applied; checks showed nothing for as long as it could be on its way.
        package var isDoubtful = false
        package var errorCode: Int64?
        package var staleToken: StaleToken?

        /// It waits by itself, later each time.
        package var isParked: Bool {
            switch after {
            case .parked: true
            case .none, .retry, .unanswered, .probed, .fixed: false
            }
        }

        package enum StaleToken: Sendable {
            /// The status shows another token than the one that was refused.
            case replaced
            /// It shows the same one, or none.
            case same
        }

        package init(
            _ reason: String, goesAlone: Bool = false, after: Delay = .none,
            isDoubtful: Bool = false, errorCode: Int64? = nil
        ) {
            self.reason = reason
            self.goesAlone = goesAlone
            self.after = after
            self.isDoubtful = isDoubtful
            self.errorCode = errorCode
        }
    }

    /// Until the next step; real time.
    package enum Delay: Sendable {
        case none
        /// Growing with the steps tried in vain.
        case retry
        /// Growing with the attempts that got no answer, to a quarter of an hour.
        case unanswered
        /// Parked: growing with how often the work was parked, from minutes to an hour.
        case parked
        /// Refused as a probe: the next ones are to be of other subscriptions.
        case probed
        case fixed(Duration)
    }
}

/// How a kind of call treats answers.
package struct CallPolicy: Sendable {
    /// Waits between steps.
    package var retry: Backoff
    /// A definite refusal of a first attempt is believed only after checks.
    package var checksRefusals = false
    /// An answer whose effect does not show is checked, not sent again.
    package var checksAnswers = false
    /// Checks that a definite answer refuses before a person is asked; nil: they go on.
    package var refusedChecksMax: Int?
    /// After a stale token the newest statements are read with the answer: a judgement needs them.
    package var readsStatusAfterStaleToken = false
    /// A call whose refusal is not believed goes again under its id; else what it carries is judged anew.
    package var keepsRefused = true

    package init(
        retry: Backoff, checksRefusals: Bool = false, checksAnswers: Bool = false,
        refusedChecksMax: Int? = nil, readsStatusAfterStaleToken: Bool = false,
        keepsRefused: Bool = true
    ) {
        self.retry = retry
        self.keepsRefused = keepsRefused
        self.checksRefusals = checksRefusals
        self.checksAnswers = checksAnswers
        self.refusedChecksMax = refusedChecksMax
        self.readsStatusAfterStaleToken = readsStatusAfterStaleToken
    }
}

/// The table of what each answer means, for every kind of call. It stands here, once:
///
/// | what came | first attempt | later |
/// | --- | --- | --- |
/// | the effect shows | applied | applied |
/// | an answer, and no effect shows | the same id once more (or a check) | the same |
/// | a check that shows nothing | | the same id once more; after a refusal a few more checks, then the refusal counts |
/// | not sent, 429 | released: judged anew, new id | the same id later |
/// | a stale token | released | checks, then released |
/// | "already communicated", "repeated id" | checks, then refused | the same |
/// | a refusal that several others met alike | released: goes on with the others (or the same id later) | checks |
/// | a refusal of which nobody knows what it is about | parked: tried again later and later | checks (our key: the same id later) |
/// | a probe that is refused, whatever with | waits ten minutes, so that others ask | checks |
/// | a documented refusal of this customer or item | refused (or checks) | checks, then refused |
/// | no answer, 5xx | the same id; after three, a check between, later and later, and parked; quickly while others get none either | the same |
/// | never to be sent again | | checks, then released |
///
/// A check that shows nothing is the last only once the call can't be on its way any more.
package struct ResolutionTable: Sendable {
    /// Checks before a call counts as not applied; the last of them once it can't be on its way any more.
    package static let checksMax = 3
    /// `InvalidConsistencyTokenError`: never sent again with the token that was refused.
    package static let staleTokenCode: Int64 = 4_000_082
    /// Attempts with the same id before each further one is preceded by a check.
    package static let sendsBeforeCheck = 3
    /// Real time until parked work is tried again.
    package static let parkedWait = Backoff(first: .seconds(120), max: .seconds(3600))
    /// The same of a call that got no answer, from the fourth attempt on.
    package static let unansweredWait = Backoff(first: .seconds(4), max: .seconds(900))
    /// Checks since the last attempt that got no answer either.
    private static let vainChecks = 6

    /// Whether the call has been tried for long enough to wait longer, and to be named.
    static func isVain(_ call: StoreCall) -> Bool {
        call.attempts > sendsBeforeCheck || call.checks >= vainChecks
    }

    /// Real time until a call is tried again that others were refused like. Its batch, or the service, has halted.
    package static let systemicWait: Duration = .seconds(2)
    /// Stands in place of an error code for "answered with 200, and no effect shows".
    package static let answeredCode: Int64 = 200

    package let call: StoreCall
    package let policy: CallPolicy
    package let verdict: RefusalVerdict?
    /// Why one that is never to be sent again is released.
    package var overReason = "not_sent_in_time"
    /// Several pieces of work share the call.
    package var isShared: Bool { call.carries.count > 1 }

    package init(
        _ call: StoreCall, _ policy: CallPolicy, _ verdict: RefusalVerdict?,
        overReason: String = "not_sent_in_time"
    ) {
        self.call = call
        self.policy = policy
        self.verdict = verdict
        self.overReason = overReason
    }

    /// For an attempt whose effect does not show.
    package func resolve(_ answer: StoreAnswer) -> Resolution {
        switch answer {
        case .answered where call.step == .send && policy.checksAnswers:
            return .open(
                .check, reason: "answered, and no effect shows", errorCode: Self.answeredCode)
        case .answered: return notSeen()
        case .unknown(let reason, _):
            let next: StoreCall.Step =
                call.step == .send && call.attempts >= Self.sendsBeforeCheck ? .check : call.step
            return .open(next, reason: reason, errorCode: call.errorCode)
        // A silence puts off by itself, for all.
        case .throttled: return unapplied(SilenceReason.rateLimited.rawValue, after: .none)
        case .notSent(let reason):
            return unapplied(reason, after: SilenceReason(rawValue: reason) == nil ? .retry : .none)
        case .refused(let refusal, _):
            return call.step == .check ? checkRefused(refusal) : refused(refusal)
        }
    }

    /// The only attempt was refused for good, so that nothing is on its way.
    private var wasRefusedAtOnce: Bool {
        call.attempts == 1 && call.errorCode != nil && call.errorCode != Self.answeredCode
    }

    /// Whether a check that shows nothing is the last.
    private var isCheckedEnough: Bool {
        call.checks >= Self.checksMax && (!call.isInFlight || wasRefusedAtOnce)
    }

    /// The same id once more; or, where an attempt was refused or answered, a few more checks, since a status may lag.
    private func notSeen() -> Resolution {
        guard let code = call.errorCode else {
            guard call.isOver else {
                return .open(
                    .send, reason: "not applied when checked", errorCode: nil,
                    after: verdict == .parked ? .unanswered : .retry)
            }
            return isCheckedEnough
                ? .released(.init(overReason, isDoubtful: true))
                : .open(.check, reason: "never sent again, and not seen yet", errorCode: nil)
        }
        guard isCheckedEnough else {
            return .open(
                .check,
                reason: code == Self.answeredCode
                    ? "answered, and no effect shows" : "refused with \(code), not seen yet",
                errorCode: code)
        }
        // The call can't succeed as it stands, since the subscription changed: it is judged on what it is now.
        guard code != Self.staleTokenCode else {
            return .released(.init("stale_token", isDoubtful: true))
        }
        return .refused(
            wasRefusedAtOnce ? .confirmed(Int(code)) : .onRetry(Int(code)),
            // What says that the price is there already may mean ours, by a call that this database has forgotten.
            isDoubtful: !wasRefusedAtOnce || Self.saysDone(code))
    }

    private static func saysDone(_ code: Int64) -> Bool {
        let code = APIErrorCode(rawValue: Int(code))
        return code == .alreadyCommunicated || code.disposition(onRetry: false) == .checkStatus
    }

    /// Not applied by this attempt. An earlier one of the same call may have been, so only the first may give the id up.
    private func unapplied(_ reason: String, after: Resolution.Delay) -> Resolution {
        call.isFirstAttempt
            ? .released(.init(reason, after: after))
            : .open(call.step, reason: reason, errorCode: call.errorCode)
    }

    private func checkRefused(_ refusal: StoreRefusal) -> Resolution {
        if let most = policy.refusedChecksMax, refusal.meaning != .haltService,
            call.checks >= most, !call.isInFlight
        {
            return .refused(refusal, isDoubtful: true)
        }
        return .open(
            .check, reason: "check refused with \(refusal.code) \(refusal.name)",
            errorCode: call.errorCode)
    }

    private func isBelieved(_ refusal: StoreRefusal) -> Bool {
        // The same call, with the same token, can't succeed.
        guard refusal.meaning != .refresh else { return true }
        return switch verdict {
        case .believed: true
        case .parked, .probed, .systemic: false
        case nil: refusal.meaning != .haltService
        }
    }

    private func refused(_ refusal: StoreRefusal) -> Resolution {
        guard call.isFirstAttempt else {
            // The first attempt may have been applied, and this refusal its consequence: check first.
            // A refusal that says nothing of the customer tells nothing of the first attempt either.
            guard isBelieved(refusal) else {
                return .open(
                    .send, reason: refusal.codeAndName, errorCode: nil,
                    after: verdict == .probed ? .probed : .parked)
            }
            return .open(.check, reason: refusal.name, errorCode: Int64(refusal.code))
        }
        // Nobody was asked.
        if refusal.isOurs {
            return isShared
                ? .released(.init(refusal.name, goesAlone: true))
                : .refused(refusal, isDoubtful: false)
        }
        switch refusal.meaning {
        case .refresh:
            return .released(.init(refusal.codeAndName, after: staleTokenWait))
        case .checkStatus where isBelieved(refusal):
            return .open(.check, reason: refusal.codeAndName, errorCode: Int64(refusal.code))
        case .reject, .checkStatus, .suspect, .haltBatch, .haltStorefront, .haltService: break
        }
        switch verdict {
        case .systemic: return putOff(refusal, after: .fixed(Self.systemicWait))
        // One bad item refuses a whole call: its siblings are tried by themselves.
        case .parked where isShared, .probed where isShared,
            .believed where isShared && !policy.checksRefusals,
            nil where isShared && !policy.checksRefusals:
            return .released(.init(refusal.name, goesAlone: true))
        case .parked: return putOff(refusal, after: .parked)
        case .probed: return putOff(refusal, after: .probed)
        case .believed, nil:
            return policy.checksRefusals
                ? .open(.check, reason: refusal.name, errorCode: Int64(refusal.code))
                : .refused(refusal, isDoubtful: false)
        }
    }

    private var staleTokenWait: Resolution.Delay {
        switch verdict {
        case .systemic: .fixed(Self.systemicWait)
        case .probed: .probed
        case .believed, .parked, nil: .retry
        }
    }

    /// Not believed: what the call carries is tried again later. A refusal of a first attempt has applied nothing.
    private func putOff(_ refusal: StoreRefusal, after: Resolution.Delay) -> Resolution {
        policy.keepsRefused
            ? .open(.send, reason: refusal.codeAndName, errorCode: nil, after: after)
            : .released(
                .init(refusal.codeAndName, after: after, errorCode: Int64(refusal.code)))
    }
}

/// How an attempt was resolved.
package struct ResolvedCall: Sendable {
    package let call: StoreCall
    package let resolution: Resolution
    package let reply: StoreReply
    /// When its next step, or the next attempt of what it carries, is due: real time, UTC milliseconds; nil: at once.
    package let nextAt: Int64?
    /// Others are answered, and this one is not, again and again: with what; nil otherwise.
    package let parkedReason: String?
    let isUncounted: Bool

    package init(
        _ call: StoreCall, _ resolution: Resolution, _ reply: StoreReply = StoreReply(),
        nextAt: Int64? = nil, parkedReason: String? = nil, isUncounted: Bool = false
    ) {
        self.call = call
        self.resolution = resolution
        self.reply = reply
        self.nextAt = nextAt
        self.parkedReason = parkedReason
        self.isUncounted = isUncounted
    }
}

extension ResolvedCall {
    package var isOpen: Bool {
        switch resolution {
        case .open: true
        case .applied, .refused, .released: false
        }
    }
}

extension StoreRefusal {
    /// The only attempt was refused, and checks show nothing.
    fileprivate static func confirmed(_ code: Int) -> StoreRefusal {
        var refusal = StoreRefusal(
            code: code, name: APIErrorCode(rawValue: code).name ?? "code_\(code)",
            message: "refused, and not seen applied when checked", meaning: .reject)
        refusal.isAfterChecks = true
        return refusal
    }

    /// A later attempt was, and checks show nothing of an earlier one.
    fileprivate static func onRetry(_ code: Int) -> StoreRefusal {
        var refusal = StoreRefusal(
            code: code, name: refusedOnRetry,
            message: "refused on a retry and never seen applied", meaning: .reject)
        refusal.isAfterChecks = true
        return refusal
    }
}
