/// Finds the renewal at which one change takes effect, whenever its call is sent.
///
/// Each renewal is judged for itself, as of the instant of the call. The call reaches the first renewal for which it
/// is in time.
struct RenewalSearch {
    let renewals: Renewals
    /// nil for a decrease, which needs no notice.
    let increase: IncreaseCase?
    /// The instant of the plan.
    let now: Instant
    /// R0, as an index of `renewals`.
    private let first: Int
    /// The instants at which time alone changes the answers of the rules, in order.
    private let turns: [Instant]

    /// A renewal that a call reaches, and its verdict.
    struct Reached: Hashable {
        var index: Int
        var consent: Consent
        /// The end of another item's offer at this renewal, in South Korea.
        var conversion: OfferConversion?
    }

    init(_ renewals: Renewals, increase: IncreaseCase?, now: Instant) {
        self.renewals = renewals
        self.increase = increase
        self.now = now
        first = renewals.firstIndex(atOrAfter: now)
        turns = increase?.turns(after: now) ?? []
    }

    /// The dates of a call that is held back for a day or, without one, of a call made now. Nil where no renewal can
    /// be reached, which no calendar gives.
    func timeline(onOrAfter: CivilDate?) -> Timeline? {
        guard !renewals.isSandbox else { return sandboxTimeline }
        let target = onOrAfter.map { renewals.firstIndex(atOrAfter: $0.startAt) } ?? first
        guard let (call, reached) = firstCall(reaching: max(first, target)) else { return nil }
        let effectiveAt = renewals.renewal(reached.index)
        let sendBy = lastCall(reaching: reached, from: call)
        return Timeline(
            renewalAt: renewals.renewal(first), judgedAt: call,
            noticeAt: lead(of: reached).map { max(now, effectiveAt.advanced(by: -$0)) },
            sendAfter: call > now ? call : nil, sendBy: sendBy, effectiveAt: effectiveAt,
            turn: turn(for: effectiveAt, from: call, to: sendBy),
            soonerFrom: turns.first { turn in
                guard call < turn, let then = self.reached(by: turn) else { return false }
                return then.index < reached.index && then.index >= target
            })
    }

    /// Where the verdict first turns for calls up to the last one.
    private func turn(for renewal: Instant, from call: Instant, to last: Instant) -> ConsentTurn? {
        let inTime = turns.filter { call < $0 && $0 <= last }
        guard let increase, !inTime.isEmpty else { return nil }
        let answers = increase.answers(at: call, for: renewal)
        for at in inTime {
            let then = increase.answers(at: at, for: renewal)
            guard then.consent != answers.consent else { continue }
            let turned = ConsentReason.allCases.filter { then[$0] != answers[$0] }
            return ConsentTurn(
                at: at, consent: then.consent,
                answers: Dictionary(turned.map { ($0, then[$0]) }) { first, _ in first })
        }
        return nil
    }

    /// The dates in the Sandbox, which has no lead times, and where an increase skips one renewal.
    private var sandboxTimeline: Timeline {
        let next = renewals.renewal(first)
        guard increase != nil else {
            return Timeline(
                renewalAt: next, judgedAt: now, sendBy: next, effectiveAt: next)
        }
        let effectiveAt = renewals.renewal(first + 1)
        return Timeline(
            renewalAt: next, judgedAt: now, noticeAt: next, sendBy: next, effectiveAt: effectiveAt,
            turn: turn(for: effectiveAt, from: now, to: next))
    }

    /// The renewal that a call sent at an instant reaches.
    func reached(by call: Instant) -> Reached? {
        let start = max(first, renewals.firstIndex(atOrAfter: call))
        // The longest lead is 60 days, and the shortest period one.
        for index in start...(start + 100) {
            let candidate = judged(index, at: call)
            if let last = lastCall(for: candidate), call <= last { return candidate }
        }
        return nil
    }

    private func judged(_ index: Int, at call: Instant) -> Reached {
        guard let increase else { return Reached(index: index, consent: .none) }
        let renewal = renewals.renewal(index)
        return Reached(
            index: index, consent: increase.answers(at: call, for: renewal).consent,
            conversion: increase.conversion(at: renewal))
    }

    /// The first call from now on that reaches this renewal or a later one.
    private func firstCall(reaching target: Int) -> (Instant, Reached)? {
        var call = now
        if target > first {
            // An earlier call cannot reach beyond the renewal before the target.
            let lead = Timeline.longestLeadDays * Instant.millisecondsPerDay
            call = max(now, renewals.renewal(target - 1).advanced(by: -lead))
        }
        // Each step passes one renewal or one turn, and the longest lead of 60 days limits the renewals.
        for _ in 0...(200 + turns.count) {
            guard let reached = reached(by: call) else { return nil }
            if reached.index >= target { return (call, reached) }
            guard let last = lastCall(for: reached) else { return nil }
            let turn = turns.first { $0 > call }
            call = min(last.advanced(by: 1), turn ?? last.advanced(by: 1))
        }
        return nil
    }

    /// The last call that reaches the same renewal, judged at its own instant.
    private func lastCall(reaching reached: Reached, from call: Instant) -> Instant {
        let end = renewals.renewal(reached.index)
        var until = end
        for turn in turns.reversed() where turn > call && turn < end {
            if let last = lastCall(reaching: reached.index, from: turn, to: until) { return last }
            until = turn.advanced(by: -1)
        }
        return lastCall(reaching: reached.index, from: call, to: until) ?? call
    }

    /// The last call that reaches a renewal, among the calls that get the same verdict as the first one at `start`.
    private func lastCall(reaching index: Int, from start: Instant, to until: Instant) -> Instant? {
        guard let last = lastCall(for: judged(index, at: start)).map({ min($0, until) }),
            last >= start, reached(by: last)?.index == index
        else { return nil }
        return last
    }

    /// The last instant of a call that is in time for this renewal; nil where none is.
    private func lastCall(for candidate: Reached) -> Instant? {
        if isFourthOfAWeek(candidate) {
            // The first of the four is a renewal that lies at least a day after the call.
            guard candidate.index - 3 >= first else { return nil }
            return renewals.renewal(candidate.index - 3).advanced(
                by: -Instant.millisecondsPerDay)
        }
        let lead = max(lead(of: candidate) ?? 0, Instant.millisecondsPerDay)
        return renewals.renewal(candidate.index).advanced(by: -lead)
    }

    /// Whether this is the fourth renewal of a weekly plan. 27 days span four weekly renewals, and the App Store
    /// applies an announced price at the fourth.
    private func isFourthOfAWeek(_ candidate: Reached) -> Bool {
        candidate.consent == .notRequired && renewals.period == .week
    }

    /// How long before the renewal the subscriber is told; nil for a decrease.
    private func lead(of candidate: Reached) -> Int64? {
        guard increase != nil else { return nil }
        guard candidate.conversion == nil else { return OfferConversion.lead }
        return Timeline.lead(consent: candidate.consent, period: renewals.period)
    }
}
