package import AppStore
package import Facts
package import Pricing
package import ServiceKit

/// What one attempt means for its call, and for what the call carries.
package enum Resolution: Sendable {
    /// Apple has applied it.
    case applied(Proof)
    /// It was refused for good. `isDoubtful`: an earlier attempt may have been applied, though no check showed it.
    case refused(StoreRefusal, isDoubtful: Bool)
    /// Apple has not applied it. What the call carries is judged anew, under a new id.
    case released(Release)
    /// Nobody knows yet.
    case open(StoreCall.Step, reason: String, errorCode: Int64?, after: Delay = .retry)

    package struct Proof: Sendable {
        /// Its raw values are stored with the extension of one subscription.
        package enum Source: String, Sendable { case answer, notification, status }

        package var evidenceID: String?
        package var detail: String?
        /// The new renewal date of an extension.
        package var extendedTo: Instant?
        package var source: Source?
        /// Whether a statement shows the effect of the call. Otherwise it shows only that nothing is left to do.
        package var showsEffect = false

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
        /// Whether each change must be tried alone, because one refused item refuses a whole call.
        package var goesAlone = false
        package var after: Delay = .none
        /// Whether it may have been applied, though checks showed nothing for as long as it could be on its way.
        package var isDoubtful = false
        package var errorCode: Int64?
        package var staleToken: StaleToken?

        /// Whether it waits alone, longer each time.
        package var isParked: Bool {
            switch after {
            case .parked, .staleToken: true
            case .none, .retry, .unanswered, .probed, .fixed: false
            }
        }

        package enum StaleToken: Sendable {
            /// The status shows another token than the one that was refused.
            case replaced
            /// The status shows the refused token, or none.
            case same
            /// The status was not read, so nobody knows what changed.
            case unread
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

    /// The wait until the next step, in real time.
    package enum Delay: Sendable {
        case none
        /// The wait grows with the number of failed steps.
        case retry
        /// The wait grows with the attempts that got no answer, up to a quarter of an hour.
        case unanswered
        /// The work is parked: the wait grows with how often it was parked, from minutes to an hour.
        case parked
        /// Its token was stale. The first retry comes soon; after further stale tokens it waits as long as parked work.
        case staleToken
        /// It was refused as a probe, and the next probes should be of other subscriptions.
        case probed
        case fixed(Duration)
    }
}

/// How a kind of call treats answers.
package struct CallPolicy: Sendable {
    /// The waits between steps.
    package var retry: Backoff
    /// Whether checks must confirm a definite refusal of a first attempt.
    package var checksRefusals = false
    /// Whether a call that was answered without a visible effect is checked instead of being sent again.
    package var checksAnswers = false
    /// From this many checks on, a refused check ends the call as refused and doubtful, for a person to decide; nil for
    /// no limit.
    package var refusedChecksMax: Int?
    /// Whether a call whose checks are refused again and again is parked, and sent again where its answers were lost.
    package var parksRefusedChecks = false
    /// Whether the newest statements are read after a stale token, because a judgement needs them.
    package var readsStatusAfterStaleToken = false
    /// Whether a call whose refusal is not believed goes again under its id. Otherwise what it carries is judged
    /// anew.
    package var keepsRefused = true

    package init(
        retry: Backoff, checksRefusals: Bool = false, checksAnswers: Bool = false,
        refusedChecksMax: Int? = nil, readsStatusAfterStaleToken: Bool = false,
        keepsRefused: Bool = true, parksRefusedChecks: Bool = false
    ) {
        self.retry = retry
        self.parksRefusedChecks = parksRefusedChecks
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
/// | an answer, and no effect shows | a check, then the same id once more (or the answer counts as a refusal does) | the same |
/// | a check that is refused, again and again | | checks, later and later, and parked; after lost answers the same id too |
/// | a check that shows nothing | | the same id once more; after a refusal a few more checks, then the refusal counts |
/// | not sent, 429 | released: judged anew, new id; parked after a second 429 in a row | the same id later |
/// | a stale token | released | checks, then released |
/// | "already communicated", "repeated id" | checks, then refused; shared or a probe's: applied if shown, else released | the same |
/// | a refusal that several others got alike | released: tried again with the others (or the same id later) | checks |
/// | an answer without a code of Apple's | checks, then released and parked (or the same id later) | the same id later |
/// | a refusal with an unknown cause | parked: tried again with growing waits | checks (our key: the same id later) |
/// | a probe that is refused, with whatever code | waits like parked work, a price change ten minutes, so that others probe | checks |
/// | a documented refusal of this customer or item | refused (or checks) | checks, then refused |
/// | no answer, 5xx | the same id; after three, a check between, with growing waits, and parked; quickly while others get none | the same |
/// | never to be sent again | | checks, then released |
///
/// A check that shows nothing is the last only once the call can't be on its way any more.
package struct ResolutionTable: Sendable {
    /// How many checks come before a call counts as not applied. The last one comes once the call cannot be on its
    /// way any more.
    package static let checksMax = 3
    /// `InvalidConsistencyTokenError`: the call is never sent again with the token that was refused.
    package static let staleTokenCode: Int64 = 4_000_082
    /// How many attempts are made with the same id before a check precedes each further one.
    package static let sendsBeforeCheck = 3
    /// The waits of parked work, in real time.
    package static let parkedWait = Backoff(first: .seconds(120), max: .seconds(3600))
    /// The waits of a call that got no answer, from the fourth attempt on.
    package static let unansweredWait = Backoff(first: .seconds(4), max: .seconds(900))
    /// How many checks since the last attempt may get no answer either.
    private static let vainChecks = 6

    /// Whether the call was tried in vain so often that it waits longer, and people are told of it.
    static func isVain(_ call: StoreCall) -> Bool {
        call.attempts > sendsBeforeCheck || call.checks >= vainChecks
    }

    /// The wait, in real time, after a systemic refusal. Its batch, its kind or the service is halted by then.
    package static let systemicWait: Duration = .seconds(2)
    /// Used in place of an error code for "answered with 200, and no effect shows".
    package static let answeredCode: Int64 = 200
    static let noEffect = "answered, and no effect shows"

    package let call: StoreCall
    package let policy: CallPolicy
    package let verdict: RefusalVerdict?
    /// Why a call that is never to be sent again is released.
    package var overReason = "not_sent_in_time"
    /// Whether several changes share the call.
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

    /// Resolves an attempt whose effect does not show.
    package func resolve(_ answer: StoreAnswer) -> Resolution {
        switch answer {
        case .answered where call.step == .send && policy.checksAnswers:
            return .open(.check, reason: Self.noEffect, errorCode: Self.answeredCode)
        // The same id goes again only after a status has not shown the effect either.
        case .answered where call.step == .send && refusedCode == nil && !call.isOver:
            return .open(.check, reason: Self.noEffect, errorCode: Self.answeredCode)
        case .answered: return notSeen()
        case .unknown(let reason, _):
            let next: StoreCall.Step =
                call.step == .send && call.attempts >= Self.sendsBeforeCheck ? .check : call.step
            return .open(next, reason: reason, errorCode: call.errorCode)
        // No wait is needed here, because the silence delays all calls.
        case .throttled:
            return unapplied(
                SilenceReason.rateLimited.rawValue, after: verdict == .parked ? .parked : .none)
        case .notSent(let reason):
            return unapplied(reason, after: SilenceReason(rawValue: reason) == nil ? .retry : .none)
        case .refused(let refusal, _):
            return call.step == .check ? checkRefused(refusal) : refused(refusal)
        }
    }

    /// Whether the App Store refused the only attempt for good, so that nothing is on its way.
    private var wasRefusedAtOnce: Bool {
        guard call.attempts == 1, let code = call.errorCode else { return false }
        return code != Self.answeredCode && !StoreRefusal.mayBeApplied(Int(code))
    }

    /// The code with which an attempt was refused, or after which checks alone decide; nil where the same id may go again.
    private var refusedCode: Int64? {
        call.errorCode == Self.answeredCode && !policy.checksAnswers ? nil : call.errorCode
    }

    /// Whether a check that shows nothing is the last.
    package var isCheckedEnough: Bool {
        call.checks >= Self.checksMax && (!call.isInFlight || wasRefusedAtOnce)
    }

    /// The call goes again with the same id. Where an attempt was refused or answered, a few more checks come first,
    /// since a status may lag.
    private func notSeen() -> Resolution {
        guard let code = refusedCode else {
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
                    ? Self.noEffect : "refused with \(code), not seen yet",
                errorCode: code)
        }
        // The call cannot succeed as it stands, since the subscription changed. What it carries is judged on the
        // newest facts.
        guard code != Self.staleTokenCode else {
            return .released(
                .init(
                    "stale_token", after: countsStaleTokens ? .none : .staleToken,
                    isDoubtful: true, errorCode: countsStaleTokens ? nil : code))
        }
        guard !StoreRefusal.mayBeApplied(Int(code)), !isAboutCallAlone(Int(code)) else {
            return .released(
                .init(
                    "\(code) \(APIErrorCode(rawValue: Int(code)).label)", goesAlone: isShared,
                    after: .parked,
                    isDoubtful: true, errorCode: code))
        }
        // Where the code says that the price is set already, a call of ours that this database has lost may have set it.
        let isDoubtful = !wasRefusedAtOnce || APIErrorCode(rawValue: Int(code)).saysDone
        // One bad item refuses a whole call, so its siblings are tried by themselves.
        guard !isShared else {
            return .released(
                .init(
                    APIErrorCode(rawValue: Int(code)).label, goesAlone: true,
                    isDoubtful: isDoubtful))
        }
        return .refused(
            wasRefusedAtOnce ? .confirmed(Int(code)) : .onRetry(Int(code)), isDoubtful: isDoubtful)
    }

    /// Whether a code of Apple's speaks of the call's form or of our key, and so says nothing of the customer: it ends no row.
    private func isAboutCallAlone(_ code: Int) -> Bool {
        let code = APIErrorCode(rawValue: code)
        guard !code.isBareStatus else { return false }
        return switch code.disposition(onRetry: true) {
        case .haltBatch, .haltStorefront, .haltService: true
        case .retrySame, .refresh, .checkStatus, .reject, .waitUntil: false
        }
    }

    /// This attempt was not applied. An earlier attempt of the same call may have been, so only the first attempt may
    /// release the id.
    private func unapplied(_ reason: String, after: Resolution.Delay) -> Resolution {
        call.isFirstAttempt
            ? .released(.init(reason, after: after))
            : .open(
                call.step, reason: reason, errorCode: call.errorCode,
                after: verdict == .parked ? .parked : .retry)
    }

    private func checkRefused(_ refusal: StoreRefusal) -> Resolution {
        if let most = policy.refusedChecksMax, refusal.meaning != .haltService,
            call.checks >= most, !call.isInFlight
        {
            return .refused(refusal, isDoubtful: true)
        }
        let reason = "check refused with \(refusal.codeAndName)"
        guard verdict == .parked else {
            return .open(.check, reason: reason, errorCode: call.errorCode)
        }
        // Checks will not help and no person is asked, so a call with a lost answer is sent again with the same id.
        return refusedCode == nil && !call.isOver
            ? .open(.send, reason: reason, errorCode: nil, after: .unanswered)
            : .open(.check, reason: reason, errorCode: call.errorCode, after: .parked)
    }

    private func isBelieved(_ refusal: StoreRefusal) -> Bool {
        // The same call with the same token cannot succeed.
        guard refusal.meaning != .refresh else { return true }
        return switch verdict {
        case .believed: true
        case .parked, .probed, .systemic: false
        case nil: refusal.meaning != .haltService
        }
    }

    private func refused(_ refusal: StoreRefusal) -> Resolution {
        guard call.isFirstAttempt else {
            // The first attempt may have been applied, and this refusal be its consequence, so the status is checked
            // first. A refusal that says nothing of the customer says nothing of the first attempt either.
            guard isBelieved(refusal) else {
                // Nobody else meets it, so it may last. Checks tell whether an earlier attempt was applied, until none can
                // be on its way any more.
                if verdict == .parked, !policy.keepsRefused {
                    return .open(
                        .check, reason: refusal.codeAndName, errorCode: Int64(refusal.code))
                }
                return .open(
                    .send, reason: refusal.codeAndName, errorCode: nil,
                    after: verdict == .probed ? .probed : .parked)
            }
            return .open(.check, reason: refusal.name, errorCode: Int64(refusal.code))
        }
        // Our own check refused it, so nothing was sent.
        if refusal.isOurs {
            return isShared
                ? .released(.init(refusal.name, goesAlone: true))
                : .refused(refusal, isDoubtful: false)
        }
        // Something on the way answered, so nobody knows whether the App Store got the call. Another id would apply it twice.
        if refusal.mayBeApplied, !policy.keepsRefused {
            return .open(.check, reason: refusal.codeAndName, errorCode: Int64(refusal.code))
        }
        switch refusal.meaning {
        case .refresh:
            return .released(
                .init(
                    refusal.codeAndName, after: staleTokenWait,
                    errorCode: countsStaleTokens ? nil : Int64(refusal.code)))
        case .checkStatus where isBelieved(refusal):
            return .open(.check, reason: refusal.codeAndName, errorCode: Int64(refusal.code))
        case .reject, .checkStatus, .suspect, .haltBatch, .haltStorefront, .haltService: break
        }
        switch verdict {
        case .systemic: return tryLater(refusal, after: .fixed(Self.systemicWait))
        // One bad item refuses a whole call, so its siblings are tried by themselves.
        case .parked where isShared, .probed where isShared,
            .believed where isShared && !policy.checksRefusals,
            nil where isShared && !policy.checksRefusals:
            return .released(.init(refusal.name, goesAlone: true))
        case .parked: return tryLater(refusal, after: .parked)
        case .probed: return tryLater(refusal, after: .probed)
        case .believed, nil:
            return policy.checksRefusals
                ? .open(.check, reason: refusal.name, errorCode: Int64(refusal.code))
                : .refused(refusal, isDoubtful: false)
        }
    }

    /// Whether the changes that the call carries count their stale tokens themselves. For other kinds the stored calls
    /// are counted.
    private var countsStaleTokens: Bool { policy.readsStatusAfterStaleToken }

    private var staleTokenWait: Resolution.Delay {
        switch verdict {
        case .systemic: .fixed(Self.systemicWait)
        case .probed: .probed
        case .believed, .parked, nil: countsStaleTokens ? .retry : .staleToken
        }
    }

    /// Tries what the call carries again later, because the refusal is not believed. A refusal of a first attempt has
    /// applied nothing.
    private func tryLater(_ refusal: StoreRefusal, after: Resolution.Delay) -> Resolution {
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
    /// When its next step, or the next attempt of what it carries, is due, in UTC milliseconds of real time; nil for
    /// at once.
    package let nextAt: Int64?
    /// The failure that this call alone keeps getting while others are answered; nil otherwise.
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

    /// How the changes that it carries are judged again; nil where they are not.
    package var release: Resolution.Release? {
        switch resolution {
        case .released(let release): release
        case .applied, .refused, .open: nil
        }
    }

    /// Whether the call is closed although an attempt may have been applied. It is false for an open call, whose
    /// outcome may still be found.
    package var isDoubtful: Bool {
        switch resolution {
        case .refused(_, let isDoubtful): isDoubtful
        case .released(let release): release.isDoubtful
        case .applied, .open: false
        }
    }

    /// Whether the App Store refused this attempt with a 4xx other than 429.
    package var wasRefused: Bool {
        reply.httpStatus.map { (400...499).contains($0) && $0 != 429 } ?? false
    }

    /// Why it was not applied, or why that is unknown; nil where it was applied.
    package var reason: String? {
        switch resolution {
        case .refused(let refusal, _): refusal.reason
        case .released(let release): release.reason
        case .open(_, let reason, _, _): reason
        case .applied: nil
        }
    }
}

extension StoreRefusal {
    /// The refusal of the only attempt, after checks that show nothing.
    fileprivate static func confirmed(_ code: Int) -> StoreRefusal {
        var refusal = StoreRefusal(
            code: code, name: APIErrorCode(rawValue: code).label,
            message: "refused, and not seen applied when checked", meaning: .reject)
        refusal.isAfterChecks = true
        return refusal
    }

    /// The refusal of a later attempt, after checks that show nothing of an earlier one.
    fileprivate static func onRetry(_ code: Int) -> StoreRefusal {
        var refusal = StoreRefusal(
            code: code, name: refusedOnRetry,
            message: "refused on a retry and never seen applied", meaning: .reject)
        refusal.isAfterChecks = true
        return refusal
    }
}

extension APIErrorCode {
    /// Whether it says that what was asked is done, or done already, so that a status is read before it is believed.
    var saysDone: Bool {
        rawValue == Int(ResolutionTable.answeredCode) || self == .alreadyCommunicated
            || disposition(onRetry: false) == .checkStatus
    }
}
