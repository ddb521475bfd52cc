/// What befalls a change besides its road: new names, postponements, a refund taken back, a parent that fell.
extension TrackedChange {
    /// A line of history that moves no state.
    func note(_ reason: String, _ reading: Reading) -> Transition {
        var line = reading.transition(self)
        line.reason = reason
        return line
    }

    mutating func takeNewNames(_ reading: Reading, _ lines: inout [Transition]) {
        for rename in reading.renames {
            if let place = dependentSKUs.firstIndex(of: rename.from) {
                calledDependentSKUs = calledDependentSKUs ?? dependentSKUs
                dependentSKUs[place] = rename.to
            }
        }
        guard let rename = reading.renames.first(where: { $0.from == sku }) else { return }
        calledSKU = calledSKU ?? sku
        if !formerSKUs.contains(sku) { formerSKUs.append(sku) }
        sku = rename.to
        lines.append(note("renamed from \(rename.from) to \(rename.to)", reading))
    }

    /// The renewal moved, and what was due at it or later moves along (an inference: Apple is silent): a change
    /// due at the second renewal from then is due at the second one after.
    mutating func readExtension(_ reading: Reading, _ lines: inout [Transition]) {
        guard let (old, new) = reading.movedRenewal, !isPlanned(knowing: new, reading) else {
            return
        }
        moveDue(with: old, to: new, reading, &lines)
    }

    /// A statement older than our call, of which the call's plan did not know: it counted from a renewal that the App
    /// Store had moved already, or from a period that was over.
    mutating func readUnplanned(_ reading: Reading, _ lines: inout [Transition]) {
        guard let lastSentAt, let calledRenewalAt, let known = reading.before.renewalAt,
            known >= calledRenewalAt
        else { return }
        if let (old, new) = reading.movedRenewal { moveDue(with: old, to: new, reading, &lines) }
        readPeriod(reading, &lines)
        // Nothing is told of a call before it was made, and what is told of it may be signed by a clock that is behind.
        let earliest = (firstSentAt ?? lastSentAt).advanced(by: -Self.clockMargin)
        for index in lines.indices { lines[index].at = max(lines[index].at, earliest) }
    }

    /// Whether the plan of the last call counts from this renewal already. What is signed later than a call, by clocks that
    /// may differ, may still have been known at it.
    private func isPlanned(knowing renewal: Instant, _ reading: Reading) -> Bool {
        guard let calledRenewalAt, let lastSentAt else { return false }
        return renewal <= calledRenewalAt
            && reading.at <= lastSentAt.advanced(by: Self.clockMargin)
    }

    private mutating func moveDue(
        with old: Instant, to new: Instant, _ reading: Reading, _ lines: inout [Transition]
    ) {
        guard progress.state.isWithApple, let due = progress.dueAt, due >= old else { return }
        defer { noteSlip(.extension, from: due, to: progress.dueAt ?? due, reading) }
        let former = reading.before.renewals(from: old)
        let turn = former?.firstIndex(atOrAfter: due)
        if let former, let turn, former.renewal(turn) == due,
            let moved = reading.facts.renewals(from: new)
        {
            progress.dueAt = moved.renewal(turn)
        } else {
            progress.dueAt = due.advanced(by: new.milliseconds - old.milliseconds)
        }
        lines.append(note("renewal_extended", reading))
    }

    /// A period began, and the change waits on. Where it began later than its renewal was due, by a charge that
    /// failed at first, the renewals fall on other days from then on, and what waits is due at the first of them
    /// that is not before its own. Where it was the very renewal that the change was due at, the App Store took the
    /// call for too late, and the next one is meant (both are inferences: Apple is silent).
    mutating func readPeriod(_ reading: Reading, _ lines: inout [Transition]) {
        guard progress.state.isWithApple, let due = progress.dueAt,
            let began = reading.newTransaction?.purchasedAt
        else { return }
        let sameTurn = reading.sandboxRenewal(inTheTurnOf: due)
        guard let renewal = sameTurn ?? reading.facts.renewal(around: due), renewal != due else {
            return
        }
        let isLate = reading.before.renewalAt.map { began > $0 } ?? false
        guard sameTurn != nil || isLate || (began >= due && isApplied(in: renewalItem(reading)))
        else { return }
        progress.dueAt = renewal
        if sameTurn == nil {
            noteSlip(slip(isLate: isLate, reading), from: due, to: renewal, reading)
        }
        lines.append(note("renewals_moved", reading))
    }

    /// Why a period began without the change: where the period began late, a charge had failed.
    private func slip(isLate: Bool, _ reading: Reading) -> Slip {
        if reading.newTransaction?.reason == "PURCHASE" { return .other }
        return isLate ? .billingFailure : .lateCall
    }

    /// Seen applied only after the renewal that it was due at, which charged the old price: it is due at the next one.
    mutating func moveToRenewalStillToCome(_ reading: Reading, _ lines: inout [Transition]) {
        guard let due = progress.dueAt, let began = reading.facts.purchasedAt, due <= began,
            isApplied(in: renewalItem(reading)),
            let running = reading.facts.items.first(where: { $0.sku == sku })?.currentPrice,
            running != newPrice, let renewal = reading.facts.renewal(around: due), renewal > began
        else { return }
        progress.dueAt = renewal
        noteSlip(.lateCall, from: due, to: renewal, reading)
        lines.append(note("renewals_moved", reading))
    }

    /// The subscriber is told now, and the App Store tells nobody before the lead of the renewal that it means: where that
    /// of ours is further away, it took the call for an earlier one (an inference). So it is where an extension came before
    /// the call and was told after it, or where an earlier call of unknown outcome was the one that took effect.
    mutating func moveToAnnouncedRenewal(
        consent: Consent, _ reading: Reading, _ lines: inout [Transition]
    ) {
        let facts = reading.facts
        guard facts.sandboxPeriod == nil, let due = progress.dueAt, let period = facts.period,
            let renewals = facts.renewalAt.flatMap({ facts.renewals(from: $0) })
        else { return }
        let lead = max(
            Timeline.lead(consent: consent, period: Period(period)),
            facts.storefront == "KOR" ? OfferConversion.lead : 0)
        // A day for clocks that differ; renewals are a week apart or more.
        let last = reading.at.advanced(by: lead).advanced(by: Instant.millisecondsPerDay)
        let next = renewals.firstIndex(atOrAfter: last.advanced(by: 1))
        guard due > last, next > 0 else { return }
        let announced = renewals.renewal(next - 1)
        guard announced > reading.at else { return }
        progress.dueAt = announced
        if let planned = callProgress.dueAt, announced <= planned { progress.slip = nil }
        lines.append(note("renewals_moved", reading))
    }

    /// An offer was put on the item: the increase takes effect after it, and is communicated anew.
    mutating func readPostponement(_ reading: Reading, _ lines: inout [Transition]) {
        guard progress.state.isWithApple, progress.scheduledAt != nil,
            let item = renewalItem(reading), isApplied(in: item) || item.price == newPrice,
            let resumption = resumption(after: item, reading)
        else { return }
        let isMoved = progress.dueAt.map { $0 < resumption } ?? true
        if isMoved {
            noteSlip(.other, from: progress.dueAt, to: resumption, reading)
            progress.dueAt = resumption
        }
        let isToldAnew =
            item.increaseStatus == "SCHEDULED"
            && (progress.state == .pendingConsent || progress.state == .accepted)
        if isToldAnew {
            progress.acceptedAt = nil
            progress.acceptance = nil
            move(to: .scheduled, reason: postponedByOffer, reading, &lines)
        } else if isMoved {
            progress.reason = postponedByOffer
            lines.append(reading.transition(self))
        }
    }

    /// The first renewal after the offer that the next one begins or goes on with; nil without such an offer.
    private func resumption(after item: StatementItem, _ reading: Reading) -> Instant? {
        guard item.isInOffer, let renewalAt = reading.facts.renewalAt,
            let period = item.offerPeriod ?? reading.facts.period,
            let renewals = reading.facts.renewals(from: renewalAt)
        else { return nil }
        let count = min(max(item.offerPeriodCount ?? 1, 1), 100)
        let offers = RenewalCalendar(knownAt: renewalAt, period: Period(period), startedAt: nil)
        guard let endsAt = offers?.renewal(count) else { return renewals.renewal(count) }
        return renewals.renewal(renewals.firstIndex(atOrAfter: endsAt))
    }

    /// Ended by a refund that is taken back, or that the subscription outlived: goes on where it was.
    mutating func reopenAfterRefund(_ reading: Reading, _ lines: inout [Transition]) {
        guard isEndedByRefund, reading.end == nil, isApplied(in: renewalItem(reading)) else {
            return
        }
        let isTakenBack = reading.event.type == refundReversed
        let isOutlived = reading.newTransaction.map { $0.revokedAt == nil } ?? false
        guard isTakenBack || isOutlived else { return }
        progress.endedAt = nil
        move(
            to: stateWithApple, reason: isTakenBack ? "refund_reversed" : "renewed_after_refund",
            reading,
            &lines)
    }

    var isEndedByRefund: Bool {
        progress.state == .cancelled
            && (progress.reason == SubscriptionEnd.revoked.reason
                || progress.reason == itemRefunded)
    }

    /// When its first call left that may have been applied.
    var firstSentAt: Instant? {
        [doubtfulSince, sentAt].compactMap { $0 }.min()
    }

    /// When its last call left that may have been applied.
    var lastSentAt: Instant? { sentAt ?? doubtfulSince }

    /// Given up, or waiting to be sent anew, while what became of a call of it was never learned (refused on a retry,
    /// withdrawn, too late): a statement that shows it applied is better evidence.
    var isCallDoubtful: Bool {
        switch progress.state {
        case .rejected:
            doubtfulSince != nil || progress.reason?.hasSuffix(refusedOnRetry) == true
        case .awaitingApproval, .queued, .ineligible, .missed, .aborted: doubtfulSince != nil
        case .invalidated: isClosed
        case .sending, .unknown, .scheduled, .pendingConsent, .accepted, .effective, .declined,
            .cancelled, .lapsed:
            false
        }
    }

    /// A statement has shown it applied, though our calls left it given up.
    var isAppliedAfterAll: Bool {
        !callProgress.state.isWithApple
            && (progress.scheduledAt != nil || progress.effectiveAt != nil)
    }

    /// Whether the subscriber refused: declined, or left after being asked and before consenting.
    var isRefused: Bool {
        if isDeclinedItself { return true }
        return progress.state == .cancelled && progress.reason == SubscriptionEnd.voluntary.reason
            && progress.consentAskedAt != nil && progress.acceptance == nil
    }

    /// Declined by an answer, or the want of one, of its own.
    var isDeclinedItself: Bool { progress.state == .declined && progress.reason != parentDeclined }

    /// The item fell because the App Store cancels a decliner's dependents, not by an answer of its own.
    /// A decrease can't be declined, so it counts as cancelled, as does a change that no statement ever showed
    /// applied: nobody was asked about that one.
    mutating func fallWithParent() {
        progress.state = isIncrease && progress.scheduledAt != nil ? .declined : .cancelled
        progress.reason = parentDeclined
    }
}

extension Reading {
    /// In the Sandbox periods were reckoned as long as one that an extension had made longer, and the one that began
    /// is shorter. What waits keeps its turn: due at the second renewal, it is due at the second one still.
    fileprivate func sandboxRenewal(inTheTurnOf due: Instant) -> Instant? {
        guard let former = before.sandboxPeriod, let running = facts.sandboxPeriod,
            former != running, let from = before.renewalAt?.milliseconds,
            let began = facts.purchasedAt?.milliseconds, began >= from,
            (began - from) % running == 0, due.milliseconds > from,
            (due.milliseconds - from) % former == 0
        else { return nil }
        let turn = (due.milliseconds - from) / former
        let (distance, isTooFar) = turn.multipliedReportingOverflow(by: running)
        let renewal = Instant(milliseconds: from).advanced(by: isTooFar ? .max : distance)
        return renewal.milliseconds > began ? renewal : nil
    }
}

extension SubscriptionFacts {
    /// How long the running period is, in milliseconds; nil where it is Production's.
    fileprivate var sandboxPeriod: Int64? {
        guard let renewalAt, let purchasedAt, renewalAt > purchasedAt else { return nil }
        let running = renewalAt.milliseconds - purchasedAt.milliseconds
        return running < Self.calendarPeriodMin ? running : nil
    }

    /// The first renewal from the known one on that is not before the instant. One that is so by moments only is
    /// that instant's own.
    func renewal(around instant: Instant) -> Instant? {
        guard let renewalAt, let purchasedAt, renewalAt > purchasedAt, period != nil else {
            return nil
        }
        let running = renewalAt.milliseconds - purchasedAt.milliseconds
        let from = instant.advanced(by: -momentsMax)
        guard running >= Self.calendarPeriodMin else {
            // Sandbox: renewals as far apart as the running period is long.
            let distance = max(0, from.milliseconds - renewalAt.milliseconds)
            return renewalAt.advanced(by: (distance + running - 1) / running * running)
        }
        return renewals(from: renewalAt).map { $0.renewal($0.firstIndex(atOrAfter: from)) }
    }

    /// What counts as moments, in milliseconds: an hour, and in the Sandbox a tenth of the running period.
    var momentsMax: Int64 {
        guard let renewalAt, let purchasedAt, renewalAt > purchasedAt else { return Self.hour }
        return min((renewalAt.milliseconds - purchasedAt.milliseconds) / 10, Self.hour)
    }

    private static let hour = Instant.millisecondsPerDay / 24
    /// The shortest period of Production is a week, the longest of the Sandbox an hour and of TestFlight a day.
    private static let calendarPeriodMin = 6 * Instant.millisecondsPerDay
}

let parentDeclined = "parent_declined"
private let postponedByOffer = "postponed_by_offer"
