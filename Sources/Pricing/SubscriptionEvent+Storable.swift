/// Why a statement can't be folded at all; it is set aside under this text.
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
    /// The statement without the values that mean nothing: genuine, yet a negative price, an instant outside the
    /// calendar, a text of a hundred kilobytes. One odd value must not lose what the others tell, nor stop a
    /// subscription for ever; `ignored` names each that was left out, and the evidence keeps it.
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
            event.ignored = Array(((ignored ?? []) + sieve.ignored).prefix(20))
        }
        return event
    }
}

/// Takes values out that can't be meant, and remembers their names.
private struct Sieve {
    var ignored: [String] = []

    /// A thousand billion of any currency: sums of many stay within 64 bits.
    private static let pricesMax: Int64 = 1_000_000_000_000_000
    private static let textBytesMax = 256
    private static let skuLengthMax = 128

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
        checkPrice(&transaction.price, "transaction.price")
        if let bought = transaction.purchasedAt, let expiry = transaction.expiresAt, expiry < bought
        {
            transaction.expiresAt = nil
            ignored.append("transaction.expiresDate")
        }
        var seen: Set<String> = []
        transaction.items.removeAll { isNoItem($0.sku, &seen, "transaction.items") }
        for index in transaction.items.indices {
            checkPrice(&transaction.items[index].price, "transaction.items.price")
            checkPrice(&transaction.items[index].offerPrice, "transaction.items.offer.price")
            check(&transaction.items[index].offerPeriod, "transaction.items.offer.period")
            check(&transaction.items[index].offerReason, "transaction.items.offer.reason")
            checkCount(
                &transaction.items[index].offerPeriodCount, "transaction.items.offer.periodCount")
            check(&transaction.items[index].revokedAt, "transaction.items.revocationDate")
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
        guard var items = renewal.items else { return }
        var seen: Set<String> = []
        items.removeAll { isNoItem($0.sku, &seen, "renewal.items") }
        for index in items.indices {
            checkPrice(&items[index].price, "renewal.items.price")
            checkPrice(&items[index].offerPrice, "renewal.items.offer.price")
            check(&items[index].offerPeriod, "renewal.items.offer.period")
            check(&items[index].offerReason, "renewal.items.offer.reason")
            checkCount(&items[index].offerPeriodCount, "renewal.items.offer.periodCount")
            checkPrice(&items[index].increasePrice, "renewal.items.priceIncreaseInfo.price")
            check(&items[index].increaseStatus, "renewal.items.priceIncreaseInfo.status")
            items[index].dependentSKUs?.removeAll { $0.isEmpty || $0.unicodeScalars.count > 128 }
        }
        renewal.items = items
    }

    /// No SKU of ours is empty or longer than 128 characters; of one told twice the first counts.
    private mutating func isNoItem(
        _ sku: String, _ seen: inout Set<String>, _ name: String
    ) -> Bool {
        let isItem =
            !sku.isEmpty && sku.utf8.count <= Self.skuLengthMax * 4
            && sku.unicodeScalars.count <= Self.skuLengthMax && seen.insert(sku).inserted
        if !isItem { ignored.append(name) }
        return !isItem
    }

    mutating func check(
        _ text: inout String?, _ name: String, bytesMax: Int = Sieve.textBytesMax
    ) {
        guard let value = text, value.utf8.count > bytesMax else { return }
        text = nil
        ignored.append(name)
    }

    /// A type is kept by its beginning: it is looked for in reports.
    mutating func cut(_ text: inout String?, _ name: String) {
        guard let value = text, value.utf8.count > Self.textBytesMax else { return }
        text = String(value.unicodeScalars.prefix(60).map(Character.init))
        ignored.append(name)
    }

    mutating func check(_ number: inout Int?, _ name: String) {
        guard let value = number, Int32(exactly: value) == nil else { return }
        number = nil
        ignored.append(name)
    }

    private mutating func checkCount(_ number: inout Int?, _ name: String) {
        guard let value = number, !(0...1000).contains(value) else { return }
        number = nil
        ignored.append(name)
    }

    mutating func check(_ instant: inout Instant?, _ name: String) {
        guard let value = instant, !value.isOnCalendar else { return }
        instant = nil
        ignored.append(name)
    }

    private mutating func checkPrice(_ price: inout Int64?, _ name: String) {
        guard let value = price, !(0...Self.pricesMax).contains(value) else { return }
        price = nil
        ignored.append(name)
    }
}
