extension SubscriptionState {
    /// Notes the charges and refunds of a transaction. A repeated statement is the same money.
    ///
    /// A family member, or somebody to whom a seat is assigned, pays nothing (an inference). A charge whose currency
    /// nobody tells is noted under ISO 4217's code for none: its number must neither be lost nor count as ours.
    mutating func noteMoney(of event: SubscriptionEvent) {
        guard let transaction = event.transaction, let transactionID = transaction.transactionID,
            let purchasedAt = transaction.purchasedAt,
            transaction.ownershipType == nil || transaction.ownershipType == "PURCHASED"
        else { return }
        let charges = transaction.items.compactMap { item in
            transaction.terms(of: item).map { (item: item, terms: $0) }
        }
        let shares = transaction.taxExclusiveShares(of: charges)
        let prorated = transaction.proratedShare(of: charges)
        let names = chargedNames(charges, in: transaction, transactionID)
        let kept = keptRefunds(
            event, transaction, charges.map(\.item), names.former, transactionID)
        for (index, charge) in charges.enumerated() {
            let sku = names.former[charge.item.sku] ?? charge.item.sku
            let line = MoneyLedger.Item(transactionID: transactionID, sku: sku)
            let currency = transaction.currency ?? money.currency(of: line) ?? unknownCurrency
            func entry(
                _ kind: MoneyEntry.Kind, at: Instant, number: Int = 0, _ amount: Int64,
                _ taxExclusive: Int64?
            ) -> MoneyEntry {
                MoneyEntry(
                    key: .init(
                        transactionID: transactionID, sku: sku, kind: kind, occurredAt: at,
                        number: number), amount: amount, taxExclusive: taxExclusive,
                    currency: currency, storefront: transaction.storefront,
                    evidenceID: event.key.evidenceID)
            }
            let (amount, whole) = (charge.terms.amount, shares?[index])
            var charged = entry(.charge, at: purchasedAt, amount, whole)
            charged.terms = charge.terms.relisted(names.doubtful.contains(sku))
            if event.type != refundReversed {
                charged.terms?.revokedAt = transaction.revocation(of: charge.item)
            } else if !kept.isEmpty {
                // The statement reverses the refund of another item.
                charged.terms?.revokedAt = transaction.ownRevocation(of: charge.item)
            }
            money.note(charged)
            if event.type == refundReversed {
                noteReversal(of: line, keeping: kept[sku] ?? 0) {
                    entry(.reversal, at: event.key.signedAt, $0, $1)
                }
                continue
            }
            func refund(at: Instant, number: Int, _ back: Int64) -> MoneyEntry {
                entry(
                    .refund, at: at, number: number, back.negatedSaturated,
                    whole.flatMap { (-$0).part(back, of: amount) })
            }
            for listed in charge.item.listedRefunds {
                money.note(refund(at: listed.at, number: listed.number, listed.amount))
            }
            guard let revokedAt = transaction.revocation(of: charge.item) else { continue }
            // An item with a revocation of its own is refunded in full, unless the revocation is prorated.
            let share = prorated ?? (charge.item.revokedAt == nil ? transaction.signedShare : nil)
            let revoked = (at: revokedAt, amount: share?.of(amount) ?? amount)
            let key = refund(at: revoked.at, number: 0, 0).key
            if charge.item.refunds.isEmpty {
                // The refund cannot exceed what is left of the charge.
                let left = amount.addingSaturated(money.givenBack(line, but: key).amount)
                money.note(refund(at: revoked.at, number: 0, min(revoked.amount, max(0, left))))
            } else if !charge.item.refunds.contains(where: { $0.at == revoked.at }), money.has(key)
            {
                // An earlier statement had only the revocation, and this one gives the refunded amounts.
                money.note(refund(at: revoked.at, number: 0, 0))
            }
        }
    }
}

extension SubscriptionState {
    /// Reverses the refunds of an item, except for a part that stands.
    private mutating func noteReversal(
        of line: MoneyLedger.Item, keeping kept: Int64,
        _ entry: (_ amount: Int64, _ taxExclusive: Int64?) -> MoneyEntry
    ) {
        let back = money.givenBack(line)
        let given = back.amount.negatedSaturated
        let reversed = given.addingSaturated(kept.negatedSaturated)
        guard reversed > 0 else { return }
        money.note(
            entry(reversed, back.taxExclusive?.negatedSaturated.part(reversed, of: given)))
    }

    /// The refunds of a transaction's items that stand, by the names in the ledger, where other refunds are reversed.
    private func keptRefunds(
        _ event: SubscriptionEvent, _ transaction: TransactionStatement, _ items: [StatementItem],
        _ names: [String: String], _ transactionID: String
    ) -> [String: Int64] {
        guard event.type == refundReversed else { return [:] }
        let listed = items.map { item in
            var refunds = item.listedRefunds.map {
                (at: $0.at, number: $0.number, Int64?($0.amount))
            }
            if let revokedAt = transaction.ownRevocation(of: item),
                !refunds.contains(where: { $0.at == revokedAt })
            {
                refunds.append((revokedAt, 0, nil))
            }
            return (names[item.sku] ?? item.sku, refunds)
        }
        return money.keptRefunds(
            of: transactionID,
            listed: Dictionary(listed, uniquingKeysWith: { first, _ in first }))
    }

    /// The names of a transaction's charges in the ledger.
    ///
    /// The facts know the charges of the running period, and the ledger those of an earlier one. Every fold with a
    /// statement about an earlier period has all lines.
    private mutating func chargedNames(
        _ charges: [(item: StatementItem, terms: MoneyEntry.Terms)],
        in transaction: TransactionStatement, _ transactionID: String
    ) -> SubscriptionFacts.ChargedNames {
        var names = facts.namesWhenCharged(in: transaction)
        guard facts.isOlder(transaction), !transaction.addsSeats else { return names }
        let listed = charges.map {
            (sku: names.former[$0.item.sku] ?? $0.item.sku, amount: $0.terms.amount)
        }
        let told = money.names(listed, of: transactionID)
        guard !told.former.isEmpty else { return names }
        for (charge, item) in zip(charges, listed) {
            if let former = told.former[item.sku] { names.former[charge.item.sku] = former }
        }
        names.doubtful.formUnion(told.doubtful)
        return names
    }
}

extension SubscriptionEvent {
    /// Whether its money depends on the lines of earlier statements: it reverses a refund, refunds what is left of a
    /// charge, or charges without a currency.
    var asksForEarlierMoney: Bool {
        guard let transaction else { return false }
        return type == refundReversed || transaction.revokedAt != nil
            || transaction.items.contains { item in
                item.revokedAt != nil || !item.refunds.isEmpty
                    || transaction.currency == nil && (item.offerPrice ?? item.price) != nil
            }
    }
}

extension MoneyEntry.Terms {
    fileprivate var amount: Int64 { price * quantity }

    fileprivate func relisted(_ isRelisted: Bool) -> Self {
        var terms = self
        terms.isRelisted = isRelisted
        return terms
    }
}

extension StatementItem {
    /// Whether it was revoked, or partly refunded, within a minute of an instant.
    fileprivate func tells(of revocation: Instant) -> Bool {
        let minute: Int64 = 60_000
        let around = revocation.advanced(by: -minute)...revocation.advanced(by: minute)
        return (refunds.map(\.at) + [revokedAt].compactMap { $0 }).contains(where: around.contains)
    }

    /// `refunds[]`, those of one instant counted from 0 on.
    fileprivate var listedRefunds: [(at: Instant, number: Int, amount: Int64)] {
        var counts: [Instant: Int] = [:]
        return refunds.map { refund in
            defer { counts[refund.at, default: 0] += 1 }
            return (refund.at, counts[refund.at, default: 0], refund.amount)
        }
    }
}

extension TransactionStatement {
    /// How an item is charged. For several seats the price is their average (an inference for items). Nil where it has
    /// no price.
    fileprivate func terms(of item: StatementItem) -> MoneyEntry.Terms? {
        guard let price = item.offerPrice ?? item.price else { return nil }
        let seats = Int64(max(1, quantity ?? 1))
        // No sum can hold more money than there is.
        let isTooMuch = price.multipliedReportingOverflow(by: seats).overflow
        // Only this field shows that seats were added to those of the period, because a modification is a PURCHASE as
        // well.
        let isAddedSeat = details[.additionalTransactionReason] == .text("SEAT_ADDITION")
        var terms = MoneyEntry.Terms(
            price: price, quantity: isTooMuch ? 1 : seats, isOffer: item.isInOffer,
            isPurchase: reason == "PURCHASE" || isAddedSeat, isAddedSeat: isAddedSeat,
            expiresAt: expiresAt)
        terms.period = period
        return terms
    }

    /// When an item was revoked and refunded, alone or with the whole transaction. Where `refunds[]` has amounts, those
    /// count instead.
    ///
    /// Where some items have the transaction's revocation themselves, it is about those items only (an inference).
    fileprivate func revocation(of item: StatementItem) -> Instant? {
        guard isPaidBack else { return nil }
        if let own = item.revokedAt { return own }
        guard let revokedAt else { return nil }
        return item.tells(of: revokedAt) || !items.contains { $0.tells(of: revokedAt) }
            ? revokedAt : nil
    }

    /// The same, but only for a revocation of the item itself, not of the whole transaction.
    fileprivate func ownRevocation(of item: StatementItem) -> Instant? {
        isPaidBack ? item.revokedAt : nil
    }

    /// The share of each affected item that a prorated revocation refunds; nil where the revocation is not prorated.
    ///
    /// `revocationPercentage` is the share of the whole transaction. Where only some items are revoked, the refund is
    /// all for them (an inference).
    fileprivate func proratedShare(
        of charges: [(item: StatementItem, terms: MoneyEntry.Terms)]
    ) -> MoneyShare? {
        guard details[.revocationType] == .text("REFUND_PRORATED"), let signedShare else {
            return nil
        }
        let revoked = charges.filter { revocation(of: $0.item) != nil }
        let whole = revoked.reduce(Int64(0)) { $0.addingSaturated($1.terms.amount) }
        let total = charges.reduce(Int64(0)) { $0.addingSaturated($1.terms.amount) }
        return signedShare.of(total).map { MoneyShare(min($0, whole), of: whole) }
    }

    /// The signed share of the whole transaction.
    fileprivate var signedShare: MoneyShare? {
        guard case .number(let percentage) = details[.revocationPercentage] else { return nil }
        return MoneyShare(percentage, of: Self.wholePercentage)
    }

    /// The whole in thousandths of a percent, the unit of `revocationPercentage`.
    private static let wholePercentage: Int64 = 100_000

    /// Whether money is refunded. When a family stops sharing, or a seat is taken away, nothing is.
    private var isPaidBack: Bool {
        guard case .text(let type) = details[.revocationType] else { return true }
        return type != "FAMILY_REVOKE" && type != "ASSIGNMENT_REVOKE"
    }

    /// The share of each item: `taxExclusivePrice` is that of the whole transaction. The shares follow the prices and
    /// add up to it.
    ///
    /// For several seats `price` is the average. A `taxExclusivePrice` that is not more than the prices of one seat is
    /// taken for an average too (an inference). Otherwise half of the charge of two seats, or more, would be tax.
    fileprivate func taxExclusiveShares(
        of charges: [(item: StatementItem, terms: MoneyEntry.Terms)]
    ) -> [Int64]? {
        // If an item cannot be read, or has no price, the shares of the others are not known either.
        guard !isIncomplete, charges.count == items.count,
            Set(charges.map(\.item.sku)).count == charges.count
        else { return nil }
        let prices = charges.map(\.terms.amount)
        var total: Int64 = 0
        for price in prices {
            let (sum, isTooMuch) = total.addingReportingOverflow(price)
            if isTooMuch { return nil }
            total = sum
        }
        guard var taxExclusive = taxExclusivePrice, taxExclusive >= 0, total > 0 else { return nil }
        let seats = charges.map(\.terms.quantity).max() ?? 1
        let ofOneSeat = charges.reduce(Int64(0)) { $0.addingSaturated($1.terms.price) }
        if seats > 1, taxExclusive <= ofOneSeat {
            let (whole, isTooMuch) = taxExclusive.multipliedReportingOverflow(by: seats)
            if isTooMuch { return nil }
            taxExclusive = whole
        }
        var shares: [Int64] = []
        var charged: Int64 = 0
        var given: Int64 = 0
        for price in prices {
            charged += price
            guard price >= 0, let until = taxExclusive.part(charged, of: total) else { return nil }
            shares.append(until - given)
            given = until
        }
        return shares
    }
}
