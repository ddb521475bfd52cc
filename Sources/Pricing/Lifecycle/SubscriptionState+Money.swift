extension SubscriptionState {
    /// Notes what a transaction charged, and what was given back of it. A repetition is the same money.
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
        let shares = transaction.taxExclusiveShares(of: charges.map(\.terms.amount))
        for (index, charge) in charges.enumerated() {
            let sku = charge.item.sku
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
            let amount = charge.terms.amount
            let whole = shares?[index]
            var charged = entry(.charge, at: purchasedAt, amount, whole)
            charged.terms = charge.terms
            money.note(charged)
            if event.type == refundReversed {
                let back = money.givenBack(line)
                if back.amount < 0 {
                    money.note(
                        entry(
                            .reversal, at: event.key.signedAt, -back.amount,
                            back.taxExclusive.map { -$0 }))
                }
                continue
            }
            func refund(at: Instant, number: Int, _ back: Int64) -> MoneyEntry {
                entry(
                    .refund, at: at, number: number, -back,
                    whole.flatMap { (-$0).share(back, of: amount) })
            }
            for listed in charge.item.listedRefunds {
                money.note(refund(at: listed.at, number: listed.number, listed.amount))
            }
            guard let revoked = transaction.revocation(of: charge.item, charged: amount) else {
                continue
            }
            let key = refund(at: revoked.at, number: 0, 0).key
            if charge.item.refunds.isEmpty {
                // No more than is left of it can be given back.
                let left = amount.addingSaturated(money.givenBack(line, but: key).amount)
                money.note(refund(at: revoked.at, number: 0, min(revoked.amount, max(0, left))))
            } else if !charge.item.refunds.contains(where: { $0.at == revoked.at }), money.has(key)
            {
                // An earlier statement told the revocation alone, and this one says what was given back by it.
                money.note(refund(at: revoked.at, number: 0, 0))
            }
        }
    }
}

extension SubscriptionEvent {
    /// Whether the money it tells depends on the lines that earlier statements told: it takes back a refund, gives
    /// back what is left of a charge, or charges without a currency.
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
}

extension StatementItem {
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
    /// How an item is charged. Of several seats the price is their average (an inference for items). Nil where it has
    /// no price.
    fileprivate func terms(of item: StatementItem) -> MoneyEntry.Terms? {
        guard let price = item.offerPrice ?? item.price else { return nil }
        let seats = Int64(max(1, quantity ?? 1))
        // No sum can hold more money than there is.
        let isTooMuch = price.multipliedReportingOverflow(by: seats).overflow
        return MoneyEntry.Terms(
            price: price, quantity: isTooMuch ? 1 : seats, isOffer: item.isInOffer,
            isPurchase: reason == "PURCHASE"
                || details[.additionalTransactionReason] == .text("SEAT_ADDITION"),
            expiresAt: expiresAt)
    }

    /// What a revocation of an item gives back: its percentage, or all where none is signed. Where `refunds[]` gives
    /// amounts, these count in its place.
    fileprivate func revocation(
        of item: StatementItem, charged: Int64
    ) -> (at: Instant, amount: Int64)? {
        guard let at = item.revokedAt ?? revokedAt, isPaidBack else { return nil }
        var amount = charged
        if item.revokedAt == nil, case .number(let share) = details[.revocationPercentage] {
            amount = charged.share(share, of: Self.wholePercentage) ?? charged
        }
        return (at, amount)
    }

    /// The whole in thousandths of a percent, which is how `revocationPercentage` counts.
    private static let wholePercentage: Int64 = 100_000

    /// Whether money is paid back. A family that stops sharing, or a seat that is taken away, gives none back.
    private var isPaidBack: Bool {
        guard case .text(let type) = details[.revocationType] else { return true }
        return type != "FAMILY_REVOKE" && type != "ASSIGNMENT_REVOKE"
    }

    /// The share of each item: `taxExclusivePrice` is that of the whole transaction. The shares follow the prices and
    /// add up to it.
    fileprivate func taxExclusiveShares(of prices: [Int64]) -> [Int64]? {
        var total: Int64 = 0
        for price in prices {
            let (sum, isTooMuch) = total.addingReportingOverflow(price)
            if isTooMuch { return nil }
            total = sum
        }
        guard let taxExclusive = taxExclusivePrice, taxExclusive >= 0, total > 0 else { return nil }
        var shares: [Int64] = []
        var charged: Int64 = 0
        var given: Int64 = 0
        for price in prices {
            charged += price
            guard price >= 0, let until = taxExclusive.share(charged, of: total) else { return nil }
            shares.append(until - given)
            given = until
        }
        return shares
    }
}
