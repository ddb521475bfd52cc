/// Why a statement cannot be folded at all. It is quarantined under this text.
package enum StatementFault: Error, Hashable, Sendable, CustomStringConvertible {
    case noMoment(milliseconds: Int64)
    case noSubscription
    case noEvidence

    package var description: String {
        switch self {
        case .noMoment(let milliseconds):
            "signed at \(milliseconds) ms, which is no instant from 1970 to 9999"
        case .noSubscription: "its original transaction id is empty or longer than 64 characters"
        case .noEvidence: "its evidence id is empty or longer than 200 bytes"
        }
    }
}

extension SubscriptionEvent {
    /// The statement without values that are genuine but meaningless, such as a negative price, an instant outside the
    /// calendar, or a text of a hundred kilobytes. One odd value must neither lose the others nor block a subscription
    /// for ever. `ignored` names each removed value, which the evidence still has. It also names the missing price of a
    /// charged item.
    package func storable() throws(StatementFault) -> SubscriptionEvent {
        guard key.signedAt.isOnCalendar else {
            throw .noMoment(milliseconds: key.signedAt.milliseconds)
        }
        guard !originalTransactionID.isEmpty, originalTransactionID.unicodeScalars.count <= 64
        else {
            throw .noSubscription
        }
        guard !key.evidenceID.isEmpty, key.evidenceID.utf8.count <= 200 else { throw .noEvidence }
        var event = self
        var sieve = Sieve()
        sieve.cut(&event.type, "type")
        sieve.cut(&event.subtype, "subtype")
        sieve.check(&event.status, "status")
        if var transaction = event.transaction {
            sieve.pass(&transaction)
            event.transaction = transaction
        }
        if var renewal = event.renewal {
            sieve.pass(&renewal)
            event.renewal = renewal
        }
        if var legacy = event.legacy {
            sieve.check(&legacy.expiresAt, "expires_date")
            sieve.check(&legacy.gracePeriodExpiresAt, "grace_period_expires_date")
            event.legacy = legacy
        }
        if !sieve.ignored.isEmpty {
            event.ignored = Array(
                sieve.ignored.reduce(into: ignored ?? []) { names, name in
                    if !names.contains(name) { names.append(name) }
                }.prefix(Sieve.namesMax))
        }
        return event
    }
}

/// Removes implausible values, and remembers their names.
private struct Sieve {
    var ignored: [String] = []

    private static let textBytesMax = 256
    private static let skuLengthMax = 128
    private static let seatsMax = 1_000_000
    /// Each name once: there are not that many.
    static let namesMax = 64

    mutating func pass(_ transaction: inout TransactionStatement) {
        check(&transaction.transactionID, "transaction.transactionId")
        check(&transaction.productID, "transaction.productId")
        check(&transaction.appAccountToken, "transaction.appAccountToken")
        check(&transaction.ownershipType, "transaction.ownershipType")
        check(&transaction.reason, "transaction.transactionReason")
        check(&transaction.storefront, "transaction.storefront")
        check(&transaction.currency, "transaction.currency")
        check(&transaction.period, "transaction.period")
        check(&transaction.offerDiscountType, "transaction.offerDiscountType")
        check(&transaction.purchasedAt, "transaction.purchaseDate")
        check(&transaction.originalPurchaseAt, "transaction.originalPurchaseDate")
        check(&transaction.expiresAt, "transaction.expiresDate")
        check(&transaction.revokedAt, "transaction.revocationDate")
        check(&transaction.offerType, "transaction.offerType")
        check(&transaction.quantity, "transaction.quantity")
        check(&transaction.appTransactionID, "transaction.appTransactionId")
        check(&transaction.details, "transaction")
        checkPrice(&transaction.price, "transaction.price")
        checkPrice(&transaction.taxExclusivePrice, "transaction.taxExclusivePrice")
        if let bought = transaction.purchasedAt, let expiry = transaction.expiresAt, expiry < bought
        {
            transaction.expiresAt = nil
            ignored.append("transaction.expiresDate")
        }
        var seen: Set<String> = []
        transaction.items.removeAll { isNoItem($0.sku, &seen, "transaction.items") }
        for index in transaction.items.indices {
            pass(&transaction.items[index], of: "transaction.items")
        }
        // Without these, no line of the ledger can be told from another.
        if transaction.items.contains(where: { ($0.offerPrice ?? $0.price) != nil }) {
            if transaction.transactionID == nil { ignored.append("transaction.transactionId") }
            if transaction.purchasedAt == nil { ignored.append("transaction.purchaseDate") }
        }
        // The charge of such an item is in no sum, as that of an item with an implausible price.
        if transaction.transactionID != nil, transaction.purchasedAt != nil,
            transaction.items.contains(where: { ($0.offerPrice ?? $0.price) == nil })
        {
            ignored.append("transaction.items.price")
        }
        // No charge is of more money than a price can be, and no sum of charges may exceed what can be counted.
        let price = transaction.items.compactMap { $0.offerPrice ?? $0.price }.max() ?? 0
        drop(&transaction.quantity, { "transaction.quantity" }) { seats in
            (1...Self.seatsMax).contains(seats)
                && price <= PriceText.milliunitsMax / Int64(max(1, seats))
        }
    }

    mutating func pass(_ renewal: inout RenewalStatement) {
        check(&renewal.productID, "renewal.productId")
        check(&renewal.currency, "renewal.currency")
        check(&renewal.appAccountToken, "renewal.appAccountToken")
        check(&renewal.consistencyToken, "renewal.consistencyToken", bytesMax: 4096)
        check(&renewal.period, "renewal.period")
        check(&renewal.expirationIntent, "renewal.expirationIntent")
        check(&renewal.gracePeriodExpiresAt, "renewal.gracePeriodExpiresDate")
        check(&renewal.renewalAt, "renewal.renewalDate")
        check(&renewal.recentSubscriptionStartAt, "renewal.recentSubscriptionStartDate")
        check(&renewal.autoRenewProductID, "renewal.autoRenewProductId")
        checkPrice(&renewal.price, "renewal.renewalPrice")
        check(&renewal.offerType, "renewal.offerType")
        check(&renewal.appTransactionID, "renewal.appTransactionId")
        check(&renewal.details, "renewal")
        guard var items = renewal.items else { return }
        var seen: Set<String> = []
        items.removeAll { isNoItem($0.sku, &seen, "renewal.items") }
        for index in items.indices { pass(&items[index], of: "renewal.items") }
        renewal.items = items
    }

    private mutating func pass(_ item: inout StatementItem, of list: StaticString) {
        checkPrice(&item.price, "\(list).price")
        checkPrice(&item.offerPrice, "\(list).offer.price")
        check(&item.offerPeriod, "\(list).offer.period")
        check(&item.offerReason, "\(list).offer.reason")
        checkCount(&item.offerPeriodCount, "\(list).offer.periodCount")
        check(&item.revokedAt, "\(list).revocationDate")
        let odd = item.refunds.filter { !isMeant($0) }
        if !odd.isEmpty {
            item.refunds.removeAll { odd.contains($0) }
            ignored.append("\(list).refunds")
        }
        checkPrice(&item.increasePrice, "\(list).priceIncreaseInfo.price")
        check(&item.increaseStatus, "\(list).priceIncreaseInfo.status")
        item.dependentSKUs?.removeAll { $0.isEmpty || $0.unicodeScalars.count > 128 }
    }

    /// Whether it must be ignored: no SKU of ours is empty or longer than 128 characters, and of a repeated SKU only
    /// the first entry counts.
    private mutating func isNoItem(
        _ sku: String, _ seen: inout Set<String>, _ name: String
    ) -> Bool {
        let isItem =
            !sku.isEmpty && sku.utf8.count <= Self.skuLengthMax * 4
            && sku.unicodeScalars.count <= Self.skuLengthMax && seen.insert(sku).inserted
        if !isItem { ignored.append(name) }
        return !isItem
    }

    private mutating func drop<Value>(
        _ value: inout Value?, _ name: () -> String, unless isMeant: (Value) -> Bool
    ) {
        guard let known = value, !isMeant(known) else { return }
        value = nil
        ignored.append(name())
    }

    mutating func check(
        _ text: inout String?, _ name: @autoclosure () -> String, bytesMax: Int = Sieve.textBytesMax
    ) {
        drop(&text, name) { $0.utf8.count <= bytesMax }
    }

    private mutating func check(_ details: inout SignedDetails, _ part: StaticString) {
        ignored += details.removeUnstorable().map { "\(part).\($0.rawValue)" }
    }

    /// Keeps the beginning of a long type, because reports select by it.
    mutating func cut(_ text: inout String?, _ name: String) {
        guard let value = text, value.utf8.count > Self.textBytesMax else { return }
        text = String(value.unicodeScalars.prefix(60).map(Character.init))
        ignored.append(name)
    }

    mutating func check(_ number: inout Int?, _ name: @autoclosure () -> String) {
        drop(&number, name) { Int32(exactly: $0) != nil }
    }

    private mutating func checkCount(_ number: inout Int?, _ name: @autoclosure () -> String) {
        drop(&number, name) { (0...1000).contains($0) }
    }

    mutating func check(_ instant: inout Instant?, _ name: @autoclosure () -> String) {
        drop(&instant, name, unless: \.isOnCalendar)
    }

    /// Whether the amount can be summed and the instant can be stored.
    private func isMeant(_ refund: StatementRefund) -> Bool {
        (0...PriceText.milliunitsMax).contains(refund.amount) && refund.at.isOnCalendar
    }

    private mutating func checkPrice(_ price: inout Int64?, _ name: @autoclosure () -> String) {
        drop(&price, name) { (0...PriceText.milliunitsMax).contains($0) }
    }
}
