extension TrackedChange {
    /// Applies one statement to the change. Returns a history line for each state that it reached, and for each fact
    /// that changes no state.
    mutating func follow(_ reading: Reading) -> [Transition] {
        guard isFollowed else { return takeNameAfterEnd(reading) }
        var lines: [Transition] = []
        guard isTold(by: reading) else {
            if isClosed { return takeNameAfterEnd(reading) }
            readUnplanned(reading, &lines)
            return lines
        }
        takeNewNames(reading, &lines)
        reopenAfterRefund(reading, &lines)
        readFormerEnd(reading, &lines)
        readReturn(reading, &lines)
        readEarlierCharge(reading)
        confirmApplied(reading, &lines)
        readIncreaseTakenBack(reading, &lines)
        readExtension(reading, &lines)
        readPostponement(reading, &lines)
        readIncrease(reading, &lines)
        noteBareRequest(reading, &lines)
        readRenewal(reading, &lines)
        readPeriod(reading, &lines)
        readEnd(reading, &lines)
        readReplacement(reading, &lines)
        readReset(reading, &lines)
        readAnotherPrice(reading, &lines)
        return lines
    }

    private var isFollowed: Bool {
        progress.state.isWithApple || isCallDoubtful || isEndedByRefund
            || progress.state == .effective || mayReturn
    }

    /// How far our clock may be ahead of Apple's, in milliseconds, while statements about a call still count as later
    /// than the call.
    package static let clockMargin: Int64 = 5 * 60 * 1000

    /// Whether the statement is about this change. A statement older than our call is about another change, unless it
    /// is the answer to that very call.
    ///
    /// Our clock dates the call, and Apple's clock the statement. Once a statement has shown the change applied, only
    /// Apple's clock decides, because all statements that are folded later are signed later. Before that, a statement
    /// signed within the margin counts only if it has the exact price and an earlier statement had another price: the
    /// first statement about an item does not show whether it changed anything.
    private func isTold(by reading: Reading) -> Bool {
        // Its price had been shown and had gone before it was closed, so only later statements count.
        if isClosed { return doubtfulSince.map { reading.at >= $0 } ?? false }
        if isAnswer(reading.event) || progress.scheduledAt != nil { return true }
        guard let firstSentAt else { return false }
        if let sentAt, reading.at >= sentAt { return true }
        if reading.at >= firstSentAt {
            // A price that was there before, another program has set.
            guard !reading.before.bears(newPrice, for: sku) else { return false }
            // Before the current call, or without any call, only a statement that shows the effect of an earlier call
            // is about it.
            return isCallDoubtful || isApplied(in: renewalItem(reading))
        }
        guard let known = reading.before.items.first(where: { $0.sku == sku }) else { return false }
        return reading.at >= firstSentAt.advanced(by: -Self.clockMargin)
            && isApplied(in: renewalItem(reading)) && !isApplied(in: known)
    }

    func isAnswer(_ event: SubscriptionEvent) -> Bool {
        event.source == .response && event.key.evidenceID == requestReferenceID
    }

    func renewalItem(_ reading: Reading) -> StatementItem? {
        reading.event.renewal?.items?.first { $0.sku == sku }
    }

    func isApplied(in item: StatementItem?) -> Bool {
        guard let item else { return false }
        guard !isIncrease else { return item.increasePrice == newPrice }
        // Nothing is undone as long as the increase is still announced for the renewal.
        return item.price == newPrice && (undoes == nil || item.increasePrice == nil)
    }

    private func isApplied(in item: SubscriptionFacts.Item) -> Bool {
        guard !isIncrease else { return item.increase?.price == newPrice }
        return item.renewalPrice == newPrice && (undoes == nil || item.increase == nil)
    }

    /// The transaction of a period that began after our call. An earlier one says nothing about the change.
    func laterTransaction(_ reading: Reading) -> TransactionStatement? {
        guard let transaction = reading.runningTransaction, let firstSentAt,
            let purchasedAt = transaction.purchasedAt,
            purchasedAt > min(firstSentAt, progress.scheduledAt ?? firstSentAt)
        else { return nil }
        return transaction
    }

    mutating func move(
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
        let isDoubtful = isCallDoubtful
        guard progress.state == .sending || progress.state == .unknown || isDoubtful
        else { return }
        guard isApplied(in: renewalItem(reading)) || isConfirmed(byAnswer: reading) else { return }
        if undoes != nil, let item = renewalItem(reading), !isApplied(in: item) {
            // Apple does not say that a second call replaces the first, and here it did not. A later statement may show
            // that it did, where this one was behind.
            guard progress.state != .rejected else { return }
            return move(to: .rejected, reason: stillScheduled, reading, &lines)
        }
        progress.scheduledAt = reading.at
        progress.endedAt = nil
        move(to: .scheduled, reason: isDoubtful ? lateReason : nil, reading, &lines)
        moveToRenewalStillToCome(reading, &lines)
        moveToKnownRenewals(reading, &lines)
    }

    /// Whether the answer to its call confirms it although it does not show its price, because nothing in the answer could
    /// show it: the announcement has no price, an offer's price stands in its place, or a decrease is due after the renewal
    /// whose price the answer shows. An answer that shows the former state otherwise, another price or no such item confirms
    /// nothing, whatever its HTTP status: a status decides.
    private func isConfirmed(byAnswer reading: Reading) -> Bool {
        guard isAnswer(reading.event), let item = renewalItem(reading) else { return false }
        // A further undo ends by an answer that still shows the increase.
        guard undoes == nil else { return true }
        guard isIncrease else {
            return item.price == nil || item.isInOffer
                || item.price == oldPrice && isDueAfterRenewal(shownBy: reading)
        }
        return item.increaseStatus != nil && item.increasePrice == nil
            && (item.price.map { $0 == oldPrice || $0 == newPrice } ?? true)
    }

    /// Whether the next renewal still has the old price, because the call came less than 24 hours before it. Renewal info
    /// tells the price of the next renewal (`renewalPrice`), so what comes after it shows only once it has passed.
    private func isDueAfterRenewal(shownBy reading: Reading) -> Bool {
        guard let due = progress.dueAt, let next = reading.event.renewal?.renewalAt else {
            return false
        }
        return next < due
    }

    /// The reason of a change that continues although no call of ours is open for it.
    private var lateReason: String { requestReferenceID == nil ? adopted : appliedAfterAll }

    /// Reads the item's `priceIncreaseInfo`. A state that was already left is not entered again.
    private mutating func readIncrease(_ reading: Reading, _ lines: inout [Transition]) {
        guard progress.state.isWithApple, isIncrease, let item = renewalItem(reading),
            isAboutThisIncrease(item)
        else { return }
        switch item.increaseStatus {
        case "PENDING":
            let isFirst = progress.consentAskedAt == nil
            progress.consentAskedAt = progress.consentAskedAt ?? reading.at
            if isFirst { moveToAnnouncedRenewal(consent: .required, reading, &lines) }
            if progress.state == .scheduled {
                move(to: .pendingConsent, reading, &lines)
            } else if progress.state == .accepted, isFirst {
                // Statements of the same instant have no order, and no customer is asked for consent that they have
                // given.
                if progress.acceptedAt == reading.at { progress.acceptance = .consented }
                lines.append(note("asked_after_acceptance", reading))
            }
        case "ACCEPTED":
            guard progress.state == .scheduled || progress.state == .pendingConsent else { return }
            progress.acceptedAt = reading.at
            progress.acceptance = progress.consentAskedAt == nil ? .informed : .consented
            if progress.acceptance == .informed {
                moveToAnnouncedRenewal(consent: .notRequired, reading, &lines)
                moveToFourthRenewal(reading, &lines)
            }
            move(to: .accepted, reading, &lines)
        case .some, .none:
            return
        }
    }

    /// Whether the item's increase is this one: it has its price. Where it has none, as all fields are optional, it is the
    /// increase that a statement has shown scheduled, unless the item is set to renew at another price (an inference).
    private func isAboutThisIncrease(_ item: StatementItem) -> Bool {
        if let announced = item.increasePrice { return announced == newPrice }
        guard item.increaseStatus != nil, progress.scheduledAt != nil else { return false }
        return item.price.map { $0 == oldPrice || $0 == newPrice } ?? true
    }

    /// Reads a new period: it is charged at the new price, or it lacks the item.
    private mutating func readRenewal(_ reading: Reading, _ lines: inout [Transition]) {
        let isDoubtful = isCallDoubtful
        guard progress.state.isWithApple || isDoubtful,
            let transaction = laterTransaction(reading), !transaction.items.isEmpty
        else { return }
        // A period that was known before the undo was called has the old price whatever happens to the undo, because
        // the App Store may date a period ahead (an inference).
        if undoes != nil, reading.newTransaction == nil { return }
        if let item = item(in: transaction, reading) {
            // During an offer the item already has the new price but is charged another one.
            guard item.price == newPrice, !item.isInOffer, !isResetUntold(reading),
                !isInAnotherCurrency(reading), isTakenBack(by: transaction, reading)
            else { return }
            progress.effectiveAt = transaction.purchasedAt
            noteLateCharge(transaction, reading)
            // The App Store charges no customer a price without the consent that it asked for (an inference). So the
            // statement of the consent was lost, and its time is not known.
            if progress.state == .pendingConsent { progress.acceptance = .consented }
            move(
                to: .effective, reason: isDoubtful ? lateReason : nil, reading, &lines)
        } else if isDoubtful {
            // It was never seen applied, so a missing item does not end it.
            return
        } else if reading.newTransaction != nil, !transaction.isIncomplete,
            !isUnderFormerName(reading), !isBesideAnAddedItem(reading)
        {
            if isReplaced(reading) || isReplacedSoFar {
                move(to: .invalidated, reason: itemReplaced, reading, &lines)
            } else {
                dropped(reading, &lines)
            }
        }
    }

    /// Whether a charge at the former price shows that the undone increase is gone. Before the renewal at which the
    /// increase was due, every charge has the former price, so the coming renewal must have it too. And while the
    /// increase is still announced, it may only take effect later.
    private func isTakenBack(by charge: TransactionStatement, _ reading: Reading) -> Bool {
        guard undoes != nil else { return true }
        let item = renewalItem(reading)
        if isApplied(in: item) { return true }
        guard let due = progress.dueAt, let at = charge.purchasedAt else { return false }
        let isAnnounced = item.map { $0.increasePrice == oldPrice || $0.price == oldPrice } ?? false
        return !isAnnounced && !reading.facts.isLater(due, than: at)
    }

    /// Whether the customer only added another item in this transaction, and this item still renews at our price.
    private func isBesideAnAddedItem(_ reading: Reading) -> Bool {
        reading.newTransaction?.reason == "PURCHASE" && isApplied(in: renewalItem(reading))
    }

    /// Whether the transaction still has the item's old name, because the rename takes effect at the next renewal.
    private func isUnderFormerName(_ reading: Reading) -> Bool {
        reading.facts.items.contains { $0.sku == sku && $0.chargedAs != nil }
    }

    /// Ends a change whose item is missing in a new period. The App Store drops an item for lack of consent only after
    /// asking. So if no statement shows that the customer was asked, the subscriber removed the item. If that statement
    /// only arrives late, the subscription is folded again and the verdict corrected.
    private mutating func dropped(_ reading: Reading, _ lines: inout [Transition]) {
        let reason = "item_missing_at_renewal"
        switch progress.state {
        case .pendingConsent:
            move(to: .declined, reason: reason, reading, &lines)
        case .scheduled where isIncrease && reading.event.renewal?.expirationIntent == 3:
            move(to: .declined, reason: reason, reading, &lines)
        case .scheduled, .accepted:
            move(to: .cancelled, reason: reason, reading, &lines)
        case .awaitingApproval, .queued, .sending, .unknown, .effective, .declined, .cancelled,
            .lapsed, .invalidated, .rejected, .ineligible, .missed, .aborted:
            move(to: .invalidated, reason: reason, reading, &lines)
        }
    }

    private mutating func readEnd(_ reading: Reading, _ lines: inout [Transition]) {
        guard progress.state.isWithApple else { return }
        if let end = reading.end {
            let ending = ending(by: end, reading)
            move(to: ending.state, reason: ending.reason, reading, &lines)
        } else if reading.event.type != refundReversed,
            reading.runningTransaction.flatMap({ item(in: $0, reading) })?.revokedAt != nil
        {
            move(to: .cancelled, reason: itemRefunded, reading, &lines)
        }
    }

    func ending(
        by end: SubscriptionEnd, _ reading: Reading
    ) -> (state: ChangeState, reason: String) {
        switch end {
        case .voluntary where reading.isCancelledByUs:
            // The customer did not leave: we cancelled it with a parent on another subscription, as the App Store would
            // have done on the same one.
            let wasShown = isIncrease && progress.scheduledAt != nil
            return (wasShown ? .declined : .cancelled, parentDeclined)
        case .voluntary, .revoked: return (.cancelled, end.reason)
        case .billing, .product, .other: return (.lapsed, end.reason)
        case .priceIncrease:
            // A decrease cannot be declined: its subscription ended because of another item's increase. An increase
            // was not declined either where the subscriber had accepted it, or was not asked about it yet, while
            // another one waited.
            guard isIncrease else { return (.cancelled, end.reason) }
            if isReplacedSoFar { return (.invalidated, itemReplaced) }
            if progress.state != .pendingConsent, reading.wasAnotherAsked(than: sku) {
                return (.cancelled, "expired_for_another_increase")
            }
            return (.declined, end.reason)
        }
    }

    /// Whether the customer replaced it with another item. An item that had already left the renewal, declined or
    /// removed, cannot be replaced: the payment sheet no longer shows it, so a new item is simply an addition.
    private func isReplaced(_ reading: Reading) -> Bool {
        guard reading.isCustomersDoing, reading.hasNewcomer else { return false }
        // Where the renewal was off as a whole, the items that come back are chosen anew.
        if reading.before.autoRenews == false { return true }
        return reading.before.items.first { $0.sku == sku }?.renews ?? true
    }

    /// Reads a replacement: the customer replaced the item, and the increase is void (interaction matrix of "Handling
    /// subscription price changes"). It is void at once where the running period no longer has the item. An item that
    /// is replaced from the renewal on may come back before that, as a removed item may. So the renewal decides, and
    /// until then only the reason mentions it.
    private mutating func readReplacement(_ reading: Reading, _ lines: inout [Transition]) {
        guard progress.state.isWithApple, let items = reading.event.renewal?.items, !items.isEmpty
        else { return }
        if items.contains(where: { $0.sku == sku }) {
            guard isReplacedSoFar else { return }
            progress.reason = isApplied(in: renewalItem(reading)) ? announcedAgain : nil
            return lines.append(reading.transition(self))
        }
        guard isReplaced(reading) else { return }
        let isGone =
            reading.runningTransaction.map {
                !$0.items.isEmpty && !$0.isIncomplete && item(in: $0, reading) == nil
            } ?? false
        // An upgrade takes effect at once, and cannot be taken back.
        if isGone || reading.event.subtype == "UPGRADE" {
            move(to: .invalidated, reason: itemReplaced, reading, &lines)
        } else if !isReplacedSoFar {
            progress.reason = itemReplaced
            lines.append(reading.transition(self))
        }
    }

    /// Whether another item is set to renew in its place, and the renewal has not come.
    private var isReplacedSoFar: Bool {
        progress.state.isWithApple && progress.reason == itemReplaced
    }

    /// Notes that the customer was asked, but the App Store does not say about which item. It may not be this one, so
    /// the state stays, and only the history mentions it.
    private func noteBareRequest(_ reading: Reading, _ lines: inout [Transition]) {
        guard progress.state == .scheduled, isIncrease, reading.event.type == "PRICE_INCREASE",
            reading.event.subtype == "PENDING",
            reading.event.renewal?.items?.contains(where: { $0.increaseStatus != nil }) != true
        else { return }
        lines.append(note("asked_without_item", reading))
    }

    /// Reads a new billing cycle that the customer began. It makes the increase void (same matrix) where the increase
    /// was not communicated, whatever the item's price, or where neither the charge of the cycle nor the renewal has
    /// the new price.
    private mutating func readReset(_ reading: Reading, _ lines: inout [Transition]) {
        guard progress.state.isWithApple, progress.scheduledAt != nil,
            reading.newTransaction != nil, reading.isCustomersDoing,
            laterTransaction(reading).flatMap({ item(in: $0, reading) }) != nil,
            let item = renewalItem(reading), !isApplied(in: item),
            item.price != newPrice || isResetUntold(reading)
        else { return }
        move(to: .invalidated, reason: cycleReset, reading, &lines)
    }

    /// Whether a purchase by the customer began a period before the increase was communicated, and the renewal no
    /// longer has it. If a late statement shows the communication, the subscription is folded again and the verdict
    /// corrected.
    private func isResetUntold(_ reading: Reading) -> Bool {
        guard isIncrease, progress.state == .scheduled,
            reading.newTransaction?.reason == "PURCHASE", let item = renewalItem(reading)
        else { return false }
        return !isApplied(in: item)
    }
}

/// The end of the reason of a change that was refused on a retry and never seen applied.
package let refusedOnRetry = "refused_on_retry"
/// The reason of an abandoned change that continues: the App Store applied a call of unknown outcome.
package let appliedAfterAll = "applied_after_all"
/// The reason of a change that continues although no call of it is known: the App Store has its exact price, and a
/// restored database has lost the call.
package let adopted = "adopted"
/// Why a change ended: the App Store showed its item at another price, and a person closed it.
package let closedByPerson = "closed"
/// Why an undo was rejected: the App Store still applies the increase.
let stillScheduled = "still_scheduled"
private let itemReplaced = "item_replaced"
/// Why a change ended: the customer began a new billing cycle without it.
let cycleReset = "cycle_reset"
let itemRefunded = "item_refunded"
let refundReversed = "REFUND_REVERSED"
