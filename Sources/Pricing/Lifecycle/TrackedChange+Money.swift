/// A change follows the money: what the App Store charges or announces decides, whatever end was believed before.
extension TrackedChange {
    /// It ended by what a customer can take back, or what was believed of them: a downgrade, leaving, a refund. One that was
    /// declined stays so; a charge of it is named by `report.charge_exception`.
    var mayReturn: Bool {
        guard undoes == nil, progress.scheduledAt != nil, !isSuperseded, !isClosed else {
            return false
        }
        switch progress.state {
        case .cancelled, .lapsed, .invalidated: return true
        case .awaitingApproval, .queued, .sending, .unknown, .scheduled, .pendingConsent, .accepted,
            .effective, .declined, .rejected, .ineligible, .missed, .aborted:
            return false
        }
    }

    /// Charged at its price after all, or announced again: it goes on.
    mutating func readReturn(_ reading: Reading, _ lines: inout [Transition]) {
        guard mayReturn, let endedAt = progress.endedAt, reading.at > endedAt else { return }
        if let charged = newCharge(reading), charged.item.price == newPrice, !reading.isMove {
            progress.effectiveAt = charged.at
            return move(to: .effective, reason: chargedAfterAll, reading, &lines)
        }
        guard isIncrease, reading.end == nil, isApplied(in: renewalItem(reading)) else { return }
        progress.endedAt = nil
        move(to: stateWithApple, reason: announcedAgain, reading, &lines)
    }

    /// Where it stands with the App Store by what it has been told so far.
    var stateWithApple: ChangeState {
        progress.acceptedAt != nil
            ? .accepted : progress.consentAskedAt != nil ? .pendingConsent : .scheduled
    }

    /// Another price took its place, by the doing of another: the item is set to renew at it, or a renewal that was to
    /// charge ours charged it, and ours is announced no more. The item is free then.
    mutating func readAnotherPrice(_ reading: Reading, _ lines: inout [Transition]) {
        guard progress.state.isWithApple, undoes == nil,
            let scheduledAt = progress.scheduledAt, reading.at > scheduledAt
        else { return }
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
        guard let charged = newCharge(reading) else { return }
        let isOld = charged.item.price == oldPrice && !reading.isMove
        // The old price is another one where its renewal has come, and what renews is told without ours.
        if isOld {
            guard item != nil, let due = progress.dueAt,
                !reading.facts.isLater(due, than: charged.at)
            else { return }
        }
        move(to: .invalidated, reason: anotherPrice, reading, &lines)
    }

    /// What a period that began after our call charged for the item, unless an offer did.
    private func newCharge(_ reading: Reading) -> (item: StatementItem, at: Instant)? {
        guard reading.newTransaction != nil, let transaction = laterTransaction(reading),
            let at = transaction.purchasedAt,
            let item = transaction.items.first(where: { $0.sku == sku }), item.price != nil,
            !item.isInOffer
        else { return nil }
        return (item, at)
    }
}

/// Why a change that had ended took effect: a period that began later was charged at its price.
package let chargedAfterAll = "charged_after_all"
/// Why a change that had ended goes on: the App Store announces it again.
let announcedAgain = "announced_again"
/// Why a change ended: the App Store charges or announces another price.
package let anotherPrice = "another_price"
