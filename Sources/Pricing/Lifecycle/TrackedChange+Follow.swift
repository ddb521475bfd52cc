extension TrackedChange {
    /// Moves the change as far as one statement carries it; returns a line for each state reached.
    mutating func follow(_ reading: Reading) -> [Transition] {
        guard progress.state.isWithApple || isRejectionDoubtful, isTold(by: reading.event) else {
            return []
        }
        var lines: [Transition] = []
        confirmApplied(reading, &lines)
        readIncrease(reading, &lines)
        readRenewal(reading, &lines)
        readEnd(reading, &lines)
        readReplacement(reading, &lines)
        return lines
    }

    /// A statement older than our call speaks of another change, unless it is the answer to that very call.
    private func isTold(by event: SubscriptionEvent) -> Bool {
        if isAnswer(event) { return true }
        guard let sentAt else { return false }
        return event.key.signedAt >= sentAt
    }

    private func isAnswer(_ event: SubscriptionEvent) -> Bool {
        event.source == .response && event.key.evidenceID == requestReferenceID
    }

    private func renewalItem(_ reading: Reading) -> RenewalStatement.Item? {
        reading.event.renewal?.items?.first { $0.sku == sku }
    }

    /// The transaction of a period that began after our call; an earlier one says nothing about the change.
    private func laterTransaction(_ reading: Reading) -> TransactionStatement? {
        guard let transaction = reading.runningTransaction, let sentAt,
            let purchasedAt = transaction.purchasedAt, purchasedAt > sentAt
        else { return nil }
        return transaction
    }

    private mutating func move(
        to state: ChangeState, reason: String? = nil, _ reading: Reading,
        _ lines: inout [Transition]
    ) {
        progress.state = state
        progress.reason = reason
        progress.since = reading.at
        if state.isFinal { progress.endedAt = reading.at }
        lines.append(reading.transition(self))
    }

    private mutating func confirmApplied(_ reading: Reading, _ lines: inout [Transition]) {
        guard progress.state == .sending || progress.state == .unknown || isRejectionDoubtful
        else { return }
        let item = renewalItem(reading)
        let isApplied =
            isAnswer(reading.event)
            || (isIncrease ? item?.increasePrice == newPrice : item?.price == newPrice)
        guard isApplied else { return }
        progress.scheduledAt = reading.at
        progress.endedAt = nil
        move(to: .scheduled, reading, &lines)
    }

    /// `priceIncreaseInfo` of the item. A state already passed is not entered again.
    private mutating func readIncrease(_ reading: Reading, _ lines: inout [Transition]) {
        guard progress.state.isWithApple, isIncrease, let item = renewalItem(reading),
            item.increasePrice == newPrice
        else { return }
        switch item.increaseStatus {
        case "PENDING":
            progress.consentAskedAt = progress.consentAskedAt ?? reading.at
            guard progress.state == .scheduled else { return }
            move(to: .pendingConsent, reading, &lines)
        case "ACCEPTED":
            guard progress.state == .scheduled || progress.state == .pendingConsent else { return }
            progress.acceptedAt = reading.at
            progress.acceptance = progress.consentAskedAt == nil ? .informed : .consented
            move(to: .accepted, reading, &lines)
        case .some, .none:
            return
        }
    }

    /// A new period: charged at the new price, or without the item.
    private mutating func readRenewal(_ reading: Reading, _ lines: inout [Transition]) {
        guard progress.state.isWithApple, let transaction = laterTransaction(reading),
            !transaction.items.isEmpty
        else { return }
        guard let item = transaction.items.first(where: { $0.sku == sku }) else {
            // Bought within the period, so no renewal left it out: the customer put another in its place.
            if reading.event.type == renewalPreferenceChange || transaction.reason == "PURCHASE" {
                return move(to: .invalidated, reason: itemReplaced, reading, &lines)
            }
            return dropped(reading, &lines)
        }
        guard item.price == newPrice else { return }
        progress.effectiveAt = transaction.purchasedAt
        move(to: .effective, reading, &lines)
    }

    private mutating func dropped(_ reading: Reading, _ lines: inout [Transition]) {
        let reason = "item_missing_at_renewal"
        switch progress.state {
        case .scheduled, .pendingConsent:
            move(to: isIncrease ? .declined : .invalidated, reason: reason, reading, &lines)
        case .accepted:
            move(to: .cancelled, reason: reason, reading, &lines)
        case .awaitingApproval, .queued, .sending, .unknown, .effective, .declined, .cancelled,
            .lapsed,
            .invalidated, .rejected, .ineligible, .missed, .aborted:
            move(to: .invalidated, reason: reason, reading, &lines)
        }
    }

    private mutating func readEnd(_ reading: Reading, _ lines: inout [Transition]) {
        guard progress.state.isWithApple else { return }
        if let end = reading.end {
            move(to: end.finalState(isIncrease: isIncrease), reason: end.reason, reading, &lines)
        } else if reading.runningTransaction?.items.first(where: { $0.sku == sku })?.revokedAt
            != nil
        {
            move(to: .cancelled, reason: "item_refunded", reading, &lines)
        }
    }

    /// The customer replaced the item within the period: the increase is void (interaction matrix of
    /// "Handling subscription price changes").
    private mutating func readReplacement(_ reading: Reading, _ lines: inout [Transition]) {
        guard progress.state.isWithApple, reading.event.type == renewalPreferenceChange,
            let items = reading.event.renewal?.items, !items.isEmpty,
            !items.contains(where: { $0.sku == sku })
        else { return }
        move(to: .invalidated, reason: itemReplaced, reading, &lines)
    }

    /// Refused on a retry, and its first attempt was never seen applied: a statement that shows it applied is
    /// better evidence.
    private var isRejectionDoubtful: Bool {
        progress.state == .rejected && progress.reason?.hasSuffix(refusedOnRetry) == true
    }

    /// Whether the subscriber refused: declined, or left after being asked and before consenting.
    var isRefused: Bool {
        if progress.state == .declined && progress.reason != parentDeclined { return true }
        return progress.state == .cancelled && progress.reason == SubscriptionEnd.voluntary.reason
            && progress.consentAskedAt != nil && progress.acceptance == nil
    }

    /// The item fell because the App Store cancels a decliner's dependents, not by an answer of its own.
    /// A decrease can't be declined, so it counts as cancelled.
    mutating func fallWithParent() {
        progress.state = isIncrease ? .declined : .cancelled
        progress.reason = parentDeclined
    }
}

/// How the reason of a change ends that was refused on a retry and never seen applied.
package let refusedOnRetry = "refused_on_retry"
private let parentDeclined = "parent_declined"
private let itemReplaced = "item_replaced"
private let renewalPreferenceChange = "DID_CHANGE_RENEWAL_PREF"
