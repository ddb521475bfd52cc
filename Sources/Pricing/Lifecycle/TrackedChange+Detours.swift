/// Less common events of a change: new names, postponements, a reversed refund, a declined parent.
extension TrackedChange {
    /// A line of history that changes no state.
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
        takeNewName(reading, &lines)
    }

    /// A change that has ended takes its item's new name, so that reports can explain, or list, what is charged under
    /// it.
    mutating func takeNameAfterEnd(_ reading: Reading) -> [Transition] {
        guard let firstSentAt, reading.at >= firstSentAt else { return [] }
        var lines: [Transition] = []
        switch progress.state {
        case .declined, .cancelled, .lapsed, .invalidated: takeNewName(reading, &lines)
        case .awaitingApproval, .queued, .sending, .unknown, .scheduled, .pendingConsent, .accepted,
            .effective, .rejected, .ineligible, .missed, .aborted:
            break
        }
        return lines
    }

    private mutating func takeNewName(_ reading: Reading, _ lines: inout [Transition]) {
        guard let rename = reading.renames.first(where: { $0.from == sku }) else { return }
        calledSKU = calledSKU ?? sku
        if !formerSKUs.contains(sku) { formerSKUs.append(sku) }
        formerUntil[sku] = nil
        sku = rename.to
        lines.append(note("renamed from \(rename.from) to \(rename.to)", reading))
    }

    /// Notes the first period that was charged under the item's new name. A period that was charged before the rename
    /// keeps the former name in the ledger, although its transaction may show the new one.
    mutating func noteChargeUnderNewName(_ reading: Reading) {
        let open = formerSKUs.filter { $0 != sku && formerUntil[$0] == nil }
        guard !open.isEmpty,
            let transaction = reading.newTransaction, !transaction.addsSeats,
            let began = transaction.purchasedAt, began.isOnCalendar,
            transaction.items.contains(where: { $0.sku == sku }),
            reading.facts.namesWhenCharged(in: transaction).former[sku] == nil
        else { return }
        for name in open { formerUntil[name] = began }
    }

    /// The item as a transaction charges it. After a rename the transaction may still have the old name. In a later
    /// transaction, a former name may be another item's.
    func item(in transaction: TransactionStatement, _ reading: Reading) -> StatementItem? {
        if let item = transaction.items.first(where: { $0.sku == sku }) { return item }
        let today = reading.facts.namesToday(in: transaction)
        return transaction.items.first { today[$0.sku] == sku }
    }

    /// Follows an extension: a change that was due at the renewal, or later, moves with it (an inference, because Apple
    /// does not say). A change that was due at the second renewal is due at the second one afterwards.
    mutating func readExtension(_ reading: Reading, _ lines: inout [Transition]) {
        guard let (old, new) = reading.movedRenewal, !isPlanned(knowing: new, reading) else {
            return
        }
        moveDue(with: old, to: new, reading, &lines)
    }

    /// Follows a statement that is older than our call but was not known to the call's plan. The plan started from a
    /// renewal that the App Store had already moved, or from a period that was over.
    mutating func readUnplanned(_ reading: Reading, _ lines: inout [Transition]) {
        guard let lastSentAt, let calledRenewalAt, let known = reading.before.renewalAt,
            known >= calledRenewalAt
        else { return }
        if let (old, new) = reading.movedRenewal { moveDue(with: old, to: new, reading, &lines) }
        readPeriod(reading, &lines)
        // No statement is about a call before it was made, but one about it may be signed by a clock that is behind
        // ours.
        let earliest = (firstSentAt ?? lastSentAt).advanced(by: -Self.clockMargin)
        for index in lines.indices { lines[index].at = max(lines[index].at, earliest) }
    }

    /// Whether the plan of the last call already starts from this renewal. Clocks may differ, so a renewal that was
    /// signed after the call may have been known when it was made.
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
        if isOlderThanCall(reading), let renewal = sandboxRenewal(ofCallIn: reading) {
            progress.dueAt = renewal
            lines.append(note("renewal_extended", reading))
            return
        }
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

    /// Follows a period that began while the change waits. If a charge first failed and the period began late, renewals
    /// move to other days, and the change is due at the first of them that is not before its own. If the period began
    /// exactly at the renewal at which the change was due, the App Store judged the call too late, and the change is
    /// due at the next renewal. Both are inferences, because Apple does not say.
    mutating func readPeriod(_ reading: Reading, _ lines: inout [Transition]) {
        // A charge in another currency ends the change, and moves nothing.
        guard progress.state.isWithApple, !isInAnotherCurrency(reading), let due = progress.dueAt,
            let began = reading.newTransaction?.purchasedAt
        else { return }
        let sameTurn =
            sandboxRenewal(ofCallIn: reading) ?? reading.sandboxRenewal(inTheTurnOf: due)
        guard let renewal = sameTurn ?? reading.facts.renewal(around: due), renewal != due else {
            return
        }
        let isLate = reading.before.renewalAt.map { began > $0 } ?? false
        guard sameTurn != nil || isLate || (began >= due && isApplied(in: renewalItem(reading)))
        else { return }
        progress.dueAt = renewal
        noteSlip(
            sameTurn == nil ? slip(isLate: isLate, reading) : .other, from: due, to: renewal,
            reading)
        lines.append(note("renewals_moved", reading))
    }

    /// Whether a statement shows the state before our call, or at it: it was signed before the call, or it is the
    /// answer.
    private func isOlderThanCall(_ reading: Reading) -> Bool {
        isAnswer(reading.event) || lastSentAt.map { reading.at < $0 } ?? false
    }

    /// In the Sandbox, the renewal at which our call takes effect, where it was sent after the renewal that was known
    /// until this statement: R1 as of the call, or R0 for a decrease. The plan had to guess which period was running at
    /// the call.
    private func sandboxRenewal(ofCallIn reading: Reading) -> Instant? {
        guard undoes == nil, progress.reason != postponedByOffer, let lastSentAt,
            let renewal = reading.sandboxRenewal(after: lastSentAt),
            let running = reading.facts.sandboxPeriod
        else { return nil }
        let due = isIncrease ? renewal.advanced(by: running) : renewal
        // A period that passed without the change shows that the App Store has postponed it.
        guard reading.facts.purchasedAt.map({ $0 < due }) ?? true else { return nil }
        return due
    }

    /// Why a period began without the change. A period that began late shows that a charge had failed.
    private func slip(isLate: Bool, _ reading: Reading) -> Slip {
        if reading.newTransaction?.reason == "PURCHASE" { return .other }
        return isLate ? .billingFailure : slipOfTheCall
    }

    /// Moves a change that was first seen applied after its renewal, which charged the old price. It is due at the
    /// next renewal.
    mutating func moveToRenewalStillToCome(_ reading: Reading, _ lines: inout [Transition]) {
        guard let due = progress.dueAt, let began = reading.facts.purchasedAt, due <= began,
            isApplied(in: renewalItem(reading)),
            let running = reading.facts.items.first(where: { $0.sku == sku })?.currentPrice,
            running != newPrice, let renewal = reading.facts.renewal(around: due), renewal > began
        else { return }
        progress.dueAt = renewal
        noteSlip(slipOfTheCall, from: due, to: renewal, reading)
        lines.append(note("renewals_moved", reading))
    }

    /// Moves a change whose call this database does not know. Its date is that of an older plan, and the renewals may
    /// have moved between that and the call. It is due at the first renewal that is not before that date; if that is one
    /// renewal too early, because an extension was longer than the period, `readPeriod` finds it out.
    mutating func moveToKnownRenewals(_ reading: Reading, _ lines: inout [Transition]) {
        guard undoes == nil, requestReferenceID == nil, calledRenewalAt == nil,
            renewalItem(reading)?.isInOffer == false,
            let due = progress.dueAt, let renewal = reading.facts.renewal(around: due),
            renewal != due
        else { return }
        progress.dueAt = renewal
        noteSlip(.other, from: due, to: renewal, reading)
        lines.append(note("renewals_moved", reading))
    }

    /// Moves the change to the announced renewal. The App Store tells no customer before the lead time of the renewal
    /// in question. If the lead time of our renewal begins later, the App Store applied the call to an earlier renewal
    /// (an inference). That happens where an extension before the call became known only after it, or where an earlier
    /// call of unknown outcome took effect.
    mutating func moveToAnnouncedRenewal(
        consent: Consent, _ reading: Reading, _ lines: inout [Transition]
    ) {
        let facts = reading.facts
        guard facts.sandboxPeriod == nil, let due = progress.dueAt, let period = facts.comingPeriod,
            let renewals = facts.renewalAt.flatMap({ facts.renewals(from: $0) })
        else { return }
        let lead = max(
            Timeline.lead(consent: consent, period: Period(period)),
            facts.storefront == "KOR" ? OfferConversion.lead : 0)
        // A day is allowed for clocks that differ; renewals are a week apart or more.
        let last = reading.at.advanced(by: lead).advanced(by: Instant.millisecondsPerDay)
        let next = renewals.firstIndex(atOrAfter: last.advanced(by: 1))
        guard due > last, next > 0 else { return }
        let announced = renewals.renewal(next - 1)
        guard announced > reading.at else { return }
        progress.dueAt = announced
        if let planned = callProgress.dueAt, announced <= planned { progress.slip = nil }
        lines.append(note("renewals_moved", reading))
    }

    /// Moves a change of a weekly plan that was dated as if it needed consent, but is only announced: it applies at the
    /// fourth renewal, counted from the first one that is a day or more after the call.
    mutating func moveToFourthRenewal(_ reading: Reading, _ lines: inout [Transition]) {
        let facts = reading.facts
        guard facts.sandboxPeriod == nil, facts.comingPeriod.map(Period.init) == .week,
            let due = progress.dueAt, let lastSentAt,
            let renewals = facts.renewalAt.flatMap({ facts.renewals(from: $0) }),
            let first = (-8...8).first(where: { index in
                renewals.renewal(index).advanced(by: -Instant.millisecondsPerDay) >= lastSentAt
            })
        else { return }
        let fourth = renewals.renewal(first + 3)
        guard fourth > due else { return }
        progress.dueAt = fourth
        noteSlip(.other, from: due, to: fourth, reading)
        lines.append(note("renewals_moved", reading))
    }

    /// Follows an offer that the item got: the increase takes effect after it, and is communicated again.
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

    /// The first renewal after the offer that the next period begins or continues; nil without such an offer.
    private func resumption(after item: StatementItem, _ reading: Reading) -> Instant? {
        guard item.isInOffer, let renewalAt = reading.facts.renewalAt,
            let period = item.offerPeriod ?? reading.facts.comingPeriod,
            let renewals = reading.facts.renewals(from: renewalAt)
        else { return nil }
        let count = min(max(item.offerPeriodCount ?? 1, 1), 100)
        let offers = RenewalCalendar(knownAt: renewalAt, period: Period(period), startedAt: nil)
        guard let endsAt = offers?.renewal(count) else { return renewals.renewal(count) }
        return renewals.renewal(renewals.firstIndex(atOrAfter: endsAt))
    }

    /// Reopens a change that a refund had ended, where the refund is reversed or the subscription continued all the
    /// same. The change returns to its former state.
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

    /// When the first of its calls that may have been applied was sent.
    var firstSentAt: Instant? {
        [doubtfulSince, sentAt].compactMap { $0 }.min()
    }

    /// When the last of its calls that may have been applied was sent.
    var lastSentAt: Instant? { sentAt ?? doubtfulSince }

    /// Whether it was abandoned, or waits to be sent again, although the outcome of one of its calls was never known
    /// (refused on a retry, withdrawn, too late). A statement that shows it applied is better evidence.
    var isCallDoubtful: Bool {
        switch progress.state {
        case .rejected:
            doubtfulSince != nil || progress.reason?.hasSuffix(refusedOnRetry) == true
                || progress.reason == stillScheduled
        case .awaitingApproval, .queued, .ineligible, .missed, .aborted: doubtfulSince != nil
        case .invalidated: isClosed
        case .sending, .unknown, .scheduled, .pendingConsent, .accepted, .effective, .declined,
            .cancelled, .lapsed:
            false
        }
    }

    /// Whether a statement has shown it applied although we had abandoned it after our calls.
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

    /// Whether it was declined by an answer of its own, or by the lack of one.
    var isDeclinedItself: Bool { progress.state == .declined && progress.reason != parentDeclined }

    /// Ends the change without an answer about it, because the App Store cancels the dependents of a declined item. A
    /// decrease cannot be declined, so it counts as cancelled. So does a change that no statement ever showed applied,
    /// because the customer was not asked about it.
    mutating func fallWithParent() {
        progress.state = isIncrease && progress.scheduledAt != nil ? .declined : .cancelled
        progress.reason = parentDeclined
    }
}

extension Reading {
    /// In the Sandbox, the first renewal at or after a call that was sent after the last known renewal. The renewals
    /// between become known only now, and are as far apart as the running period is long. nil where the call was sent
    /// earlier, and where a failed charge made a period begin out of step.
    fileprivate func sandboxRenewal(after call: Instant) -> Instant? {
        guard let running = facts.sandboxPeriod, let renewalAt = facts.renewalAt,
            let known = before.renewalAt, known < call, known.isOnCalendar,
            renewalAt.isOnCalendar, call.isOnCalendar,
            movedRenewal != nil && newTransaction == nil
                || (renewalAt.milliseconds - known.milliseconds) % running == 0
        else { return nil }
        let (steps, rest) = (call.milliseconds - renewalAt.milliseconds)
            .quotientAndRemainder(dividingBy: running)
        let (span, isTooFar) = (steps + (rest > 0 ? 1 : 0)).multipliedReportingOverflow(by: running)
        return isTooFar ? nil : renewalAt.advanced(by: span)
    }

    /// In the Sandbox, the renewal for a change after an extension made a period longer: renewals were computed with
    /// that length, and the new period is shorter. The change keeps its turn: if it was due at the second renewal, it
    /// stays due at the second one.
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
    /// The length of the running period in the Sandbox, in milliseconds; nil where it is one of Production's.
    var sandboxPeriod: Int64? {
        guard let renewalAt, let purchasedAt, renewalAt > purchasedAt else { return nil }
        let running = renewalAt.milliseconds - purchasedAt.milliseconds
        return running < Self.calendarPeriodMin ? running : nil
    }

    /// The first known or later renewal that is not before the instant. A renewal that is earlier only by moments
    /// counts as the instant's own.
    func renewal(around instant: Instant) -> Instant? {
        guard let renewalAt, let purchasedAt, renewalAt > purchasedAt, period != nil else {
            return nil
        }
        let running = renewalAt.milliseconds - purchasedAt.milliseconds
        let from = instant.advanced(by: -momentsMax)
        guard running >= Self.calendarPeriodMin else {
            // In the Sandbox renewals are as far apart as the running period is long.
            let distance = max(0, from.milliseconds - renewalAt.milliseconds)
            return renewalAt.advanced(by: (distance + running - 1) / running * running)
        }
        return renewals(from: renewalAt).map { $0.renewal($0.firstIndex(atOrAfter: from)) }
    }

    /// The largest difference, in milliseconds, that counts as the same time: an hour, or in the Sandbox a tenth of the
    /// running period.
    var momentsMax: Int64 {
        guard let renewalAt, let purchasedAt, renewalAt > purchasedAt else { return Self.hour }
        return min((renewalAt.milliseconds - purchasedAt.milliseconds) / 10, Self.hour)
    }

    private static let hour = Instant.millisecondsPerDay / 24
    /// The shortest period of Production is a week. The longest of the Sandbox is an hour, and of TestFlight a day.
    private static let calendarPeriodMin = 6 * Instant.millisecondsPerDay
}

let parentDeclined = "parent_declined"
private let postponedByOffer = "postponed_by_offer"
