/// The seats that were added to the running period, besides those that its own transaction charged.
///
/// Apple signs a separate transaction for them, with the `additionalTransactionReason` `SEAT_ADDITION`. It pays for the
/// rest of a period, perhaps at a part of the price. So only its number of seats counts; its price, items and dates say
/// nothing about the period. The next renewal sets a new number.
package struct AddedSeats: Hashable, Sendable {
    /// One transaction that added seats.
    package struct Purchase: Hashable, Sendable {
        package var transactionID: String
        package var purchasedAt: Instant
        package var seats: Int
        /// Whether it was refunded in full and the refund was not reversed.
        package var isGivenBack: Bool

        package init(
            transactionID: String, purchasedAt: Instant, seats: Int, isGivenBack: Bool
        ) {
            self.transactionID = transactionID
            self.purchasedAt = purchasedAt
            self.seats = seats
            self.isGivenBack = isGivenBack
        }
    }

    /// The quantity of the period's own transaction; nil where Apple has not said it.
    package var ownQuantity: Int?
    /// Each transaction once, in the order of ids.
    package var purchases: [Purchase]

    package init(ownQuantity: Int?, purchases: [Purchase]) {
        self.ownQuantity = ownQuantity
        self.purchases = purchases
    }

    /// The most seats that the database can hold.
    private static let seatsMax = Int(Int32.max)

    /// All seats of the period. If the period's own transaction is known but states no quantity, it counts as one seat.
    fileprivate func quantity(isPeriodKnown: Bool) -> Int {
        let own = min(ownQuantity ?? (isPeriodKnown ? 1 : 0), Self.seatsMax)
        return purchases.lazy.filter { !$0.isGivenBack }.reduce(own) { sum, purchase in
            sum + min(purchase.seats, Self.seatsMax - sum)
        }
    }

    fileprivate mutating func note(_ transaction: TransactionStatement, isReversed: Bool) {
        guard let id = transaction.transactionID, let purchasedAt = transaction.purchasedAt else {
            return
        }
        let place = purchases.firstIndex { $0.transactionID >= id } ?? purchases.endIndex
        let known = place < purchases.endIndex ? purchases[place] : nil
        let isKnown = known?.transactionID == id
        // A refund stands until Apple says that it was reversed, as in the ledger.
        let wasGivenBack = isKnown && known?.isGivenBack == true
        let purchase = Purchase(
            transactionID: id, purchasedAt: purchasedAt, seats: max(1, transaction.quantity ?? 1),
            isGivenBack: !isReversed && (wasGivenBack || transaction.isGivenBackWhole))
        if isKnown {
            purchases[place] = purchase
        } else {
            purchases.insert(purchase, at: place)
        }
    }
}

extension SubscriptionFacts {
    /// Notes seats that were added. Of where the subscription is they say only what is not known yet.
    mutating func overlay(added transaction: TransactionStatement, isReversed: Bool) {
        storefront = storefront ?? transaction.storefront
        currency = currency ?? transaction.currency
        period = period ?? transaction.period
        productID = productID ?? transaction.productID
        appAccountToken = appAccountToken ?? transaction.appAccountToken
        originalPurchaseAt = originalPurchaseAt ?? transaction.originalPurchaseAt
        expiresAt = expiresAt ?? transaction.expiresAt
        renewalAt = renewalAt ?? transaction.expiresAt
        // A person to whom a seat is assigned has not bought it.
        guard transaction.ownershipType == nil || transaction.ownershipType == "PURCHASED" else {
            return
        }
        var added = addedSeats ?? AddedSeats(ownQuantity: quantity, purchases: [])
        added.note(transaction, isReversed: isReversed)
        take(added)
    }

    /// Takes the quantity of a period's own transaction. Seats that were added before that period are included in it,
    /// or gone.
    mutating func overlay(quantity told: Int?) {
        guard var added = addedSeats else {
            quantity = told ?? quantity
            return
        }
        added.ownQuantity = told ?? added.ownQuantity
        if let purchasedAt { added.purchases.removeAll { $0.purchasedAt < purchasedAt } }
        take(added)
    }

    private mutating func take(_ added: AddedSeats) {
        addedSeats = added.purchases.isEmpty ? nil : added
        quantity =
            added.purchases.isEmpty
            ? added.ownQuantity : added.quantity(isPeriodKnown: purchasedAt != nil)
    }
}

extension TransactionStatement {
    /// Whether it pays for seats that were added to a running period. Only this field shows it, because a modification
    /// is a PURCHASE as well.
    var addsSeats: Bool { details[.additionalTransactionReason] == .text("SEAT_ADDITION") }

    /// Whether its whole charge was refunded, as far as this statement shows.
    fileprivate var isGivenBackWhole: Bool {
        if case .text(let type) = details[.revocationType],
            type == "FAMILY_REVOKE" || type == "ASSIGNMENT_REVOKE"
        {
            return false
        }
        guard !items.isEmpty else { return revokedAt != nil && isWholeRevocation }
        return items.allSatisfy { item in
            guard item.refunds.isEmpty else {
                let price = item.offerPrice ?? item.price ?? 0
                let (charged, isTooMuch) = price.multipliedReportingOverflow(
                    by: Int64(max(1, quantity ?? 1)))
                let given = item.refunds.reduce(Int64(0)) { $0.addingSaturated($1.amount) }
                return !isTooMuch && given >= charged
            }
            if item.revokedAt != nil, details[.revocationType] != .text("REFUND_PRORATED") {
                return true
            }
            return (item.revokedAt ?? revokedAt) != nil && isWholeRevocation
        }
    }

    /// Whether no share below the whole is signed. Shares are in thousandths of a percent, so the whole is 100,000.
    private var isWholeRevocation: Bool {
        guard case .number(let percentage) = details[.revocationPercentage] else { return true }
        return percentage >= 100_000
    }
}
