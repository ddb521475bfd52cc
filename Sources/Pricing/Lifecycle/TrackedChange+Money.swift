/// A change follows the money: what the App Store charges or announces decides, whatever end was assumed before.
extension TrackedChange {
    /// Whether it ended by what a customer can take back, or by what was assumed of the customer: a downgrade,
    /// leaving, a refund, an undo. A declined change stays declined, and `report.charge_exception` names a charge of it.
    var mayReturn: Bool {
        guard undoes == nil, progress.scheduledAt != nil, !isReplacedLater, !isClosed else {
            return false
        }
        switch progress.state {
        case .cancelled, .lapsed, .invalidated: return true
        case .awaitingApproval, .queued, .sending, .unknown, .scheduled, .pendingConsent, .accepted,
            .effective, .declined, .rejected, .ineligible, .missed, .aborted:
            return false
        }
    }

    /// Reopens it, because it was charged at its price after all, or announced again.
    mutating func readReturn(_ reading: Reading, _ lines: inout [Transition]) {
        guard mayReturn, let endedAt = progress.endedAt, reading.at > endedAt else { return }
        // A charge elsewhere may have come in between: its own currency is what counts.
        if let charged = newCharge(reading), charged.item.price == newPrice,
            !isInAnotherCurrency(reading)
        {
            progress.effectiveAt = charged.at
            if let transaction = laterTransaction(reading) { noteLateCharge(transaction, reading) }
            return move(to: .effective, reason: chargedAfterAll, reading, &lines)
        }
        guard isIncrease, reading.end == nil, isApplied(in: renewalItem(reading)) else { return }
        // Apple does not say that an undo ends an increase. A status may lag behind the undo, but no customer is told
        // of an increase that was undone.
        guard !isUndone || isCommunicated(in: renewalItem(reading)) else { return }
        progress.endedAt = nil
        move(to: stateWithApple, reason: announcedAgain, reading, &lines)
    }

    private func isCommunicated(in item: StatementItem?) -> Bool {
        item?.increaseStatus == "PENDING" || item?.increaseStatus == "ACCEPTED"
    }

    /// Ends an undo after which the App Store tells the customer of the increase all the same.
    mutating func readIncreaseTakenBack(_ reading: Reading, _ lines: inout [Transition]) {
        guard undoes != nil, progress.state == .scheduled, let scheduledAt = progress.scheduledAt,
            reading.at > scheduledAt, let item = renewalItem(reading),
            item.increasePrice == oldPrice, isCommunicated(in: item)
        else { return }
        move(to: .rejected, reason: stillScheduled, reading, &lines)
    }

    /// Reads a late statement of an earlier charge at its price: the change has been in effect since that charge.
    mutating func readEarlierCharge(_ reading: Reading) {
        // For an undo, an earlier charge at the former price proves nothing.
        guard undoes == nil, progress.state == .effective, let effectiveAt = progress.effectiveAt,
            let transaction = reading.event.transaction, !transaction.addsSeats,
            let at = transaction.purchasedAt, at < effectiveAt,
            let firstSentAt, at > min(firstSentAt, progress.scheduledAt ?? firstSentAt),
            let item = item(in: transaction, reading),
            item.price == newPrice, !item.isInOffer, !isInAnotherCurrency(reading)
        else { return }
        progress.effectiveAt = at
    }

    /// Its state with the App Store, by the statements so far.
    var stateWithApple: ChangeState {
        progress.acceptedAt != nil
            ? .accepted : progress.consentAskedAt != nil ? .pendingConsent : .scheduled
    }

    /// Ends it, because another program's price replaced ours: the item is set to renew at that price, or a renewal
    /// charged it instead of ours, and ours is no longer announced. The item is then free for other changes.
    mutating func readAnotherPrice(_ reading: Reading, _ lines: inout [Transition]) {
        guard progress.state.isWithApple, let scheduledAt = progress.scheduledAt,
            reading.at > scheduledAt
        else { return }
        if newCharge(reading) != nil, isInAnotherCurrency(reading) {
            return move(to: .invalidated, reason: anotherPrice, reading, &lines)
        }
        let item = renewalItem(reading)
        if isIncrease, item?.increaseStatus != nil, let announced = item?.increasePrice {
            if announced != newPrice {
                move(to: .invalidated, reason: anotherPrice, reading, &lines)
            }
            return
        }
        guard !isApplied(in: item), item?.isInOffer != true else { return }
        if let renewing = item?.price, renewing != newPrice, renewing != oldPrice, !reading.isMove {
            return move(to: .invalidated, reason: anotherPrice, reading, &lines)
        }
        // The former price is charged until the renewal that the undone change was due at.
        guard let charged = newCharge(reading), undoes == nil || charged.item.price != newPrice
        else { return }
        let isOld = charged.item.price == oldPrice && !reading.isMove
        // The old price counts as another one where the renewal has come and ours is not announced for the next.
        if isOld {
            guard item != nil, let due = progress.dueAt,
                !reading.facts.isLater(due, than: charged.at)
            else { return }
        }
        move(to: .invalidated, reason: anotherPrice, reading, &lines)
    }

    /// Whether a statement's transaction was charged in another currency than the change is in. The same number is
    /// another price then, in the period of the move and in each that follows it.
    func isInAnotherCurrency(_ reading: Reading) -> Bool {
        guard let currency, let charged = reading.event.transaction?.currency else {
            return reading.isInAnotherCurrency
        }
        return charged != currency
    }

    /// What a period that began after our call charged for the item, unless it was an offer's price.
    private func newCharge(_ reading: Reading) -> (item: StatementItem, at: Instant)? {
        guard reading.newTransaction != nil, let transaction = laterTransaction(reading),
            let at = transaction.purchasedAt,
            let item = item(in: transaction, reading), item.price != nil,
            !item.isInOffer
        else { return nil }
        return (item, at)
    }
}

/// Why an ended change took effect: a period that began later was charged at its price.
package let chargedAfterAll = "charged_after_all"
/// Why an ended change continues: the App Store announces it again.
let announcedAgain = "announced_again"
/// Why a change ended: the App Store charges or announces another price.
package let anotherPrice = "another_price"
