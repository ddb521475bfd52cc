/// One line of the money ledger: what a signed transaction charged for one item, gave back, or took back again.
///
/// Money moves by what Apple signs alone: `advancedCommerceInfo.items[].price`, `refunds[]`, `revocationDate` and
/// `revocationPercentage` of "JWSTransactionDecodedPayload" and "advancedCommerceTransactionItem".
package struct MoneyEntry: Hashable, Sendable {
    package enum Kind: String, Hashable, Sendable, CaseIterable {
        case charge, refund, reversal
    }

    /// What makes it one line, however often and by whichever statement it is told.
    package struct Key: Hashable, Sendable {
        package var transactionID: String
        package var sku: String
        package var kind: Kind
        /// Of a charge the purchase, of a refund Apple's date of it, of a reversal the statement's.
        package var occurredAt: Instant
        /// Tells refunds of the same instant apart, from 0 on.
        package var number: Int

        /// Whose charge it is, or was given back.
        var item: MoneyLedger.Item { .init(transactionID: transactionID, sku: sku) }
    }

    /// What else is signed of a charge: it tells how the charge came about.
    package struct Terms: Hashable, Sendable {
        /// Of one seat, in milliunits.
        package var price: Int64
        package var quantity: Int64
        /// Charged at an offer's price.
        package var isOffer: Bool
        /// The customer's own doing (`transactionReason` `PURCHASE`), a seat that is added too; no renewal.
        package var isPurchase: Bool
        /// When the period ends that is paid with it.
        package var expiresAt: Instant?
    }

    package var key: Key
    /// Of a charge only.
    package var terms: Terms?
    /// Milliunits of the currency: of a refund negative or zero, else positive or zero.
    package var amount: Int64
    /// Without tax, likewise; nil: Apple did not sign it.
    package var taxExclusive: Int64?
    package var currency: String
    package var storefront: String?
    /// The statement that told it.
    package var evidenceID: String
}

// As they were stored; the fold sets them itself.
extension MoneyEntry {
    package init(
        _ key: Key, terms: Terms?, amount: Int64, taxExclusive: Int64?, currency: String,
        storefront: String?, evidenceID: String
    ) {
        self.init(
            key: key, terms: terms, amount: amount, taxExclusive: taxExclusive,
            currency: currency, storefront: storefront, evidenceID: evidenceID)
    }
}

extension MoneyEntry.Key {
    package init(
        of transactionID: String, _ sku: String, _ kind: MoneyEntry.Kind, at occurredAt: Instant,
        number: Int
    ) {
        self.init(
            transactionID: transactionID, sku: sku, kind: kind, occurredAt: occurredAt,
            number: number)
    }
}

extension MoneyEntry.Terms {
    package init(
        _ price: Int64, times quantity: Int64, isOffer: Bool, isPurchase: Bool,
        until expiresAt: Instant?
    ) {
        self.init(
            price: price, quantity: quantity, isOffer: isOffer, isPurchase: isPurchase,
            expiresAt: expiresAt)
    }
}

/// The lines that the statements of one fold tell, each once, in the order in which they were first told.
package struct MoneyLedger: Hashable, Sendable, RandomAccessCollection {
    package struct Item: Hashable, Sendable {
        package var transactionID: String
        package var sku: String
    }

    private var list: [MoneyEntry] = []
    private var places: [MoneyEntry.Key: Int] = [:]
    private var charged: [Item: MoneyEntry.Key] = [:]

    package init() {}

    package var startIndex: Int { list.startIndex }
    package var endIndex: Int { list.endIndex }
    package subscript(position: Int) -> MoneyEntry { list[position] }

    /// The newest statement on a line knows best.
    mutating func note(_ entry: MoneyEntry) {
        if entry.key.kind == .charge {
            // A transaction charges an item once, whatever day a later statement gives it.
            if let former = charged.updateValue(entry.key, forKey: entry.key.item),
                former != entry.key, let place = places.removeValue(forKey: former)
            {
                places[entry.key] = place
            }
        }
        if let place = places[entry.key] {
            list[place] = entry
        } else {
            places[entry.key] = list.count
            list.append(entry)
        }
    }

    /// What was given back for an item and not taken back again: negative or zero.
    func givenBack(_ item: Item) -> (amount: Int64, taxExclusive: Int64?) {
        var amount: Int64 = 0
        var taxExclusive: Int64? = 0
        for entry in list where entry.key.kind != .charge && entry.key.item == item {
            amount = amount.addingSaturated(entry.amount)
            taxExclusive = taxExclusive.flatMap { sum in
                entry.taxExclusive.map { sum.addingSaturated($0) }
            }
        }
        return (amount, taxExclusive)
    }
}

extension Int64 {
    fileprivate func addingSaturated(_ other: Int64) -> Int64 {
        let (sum, overflow) = addingReportingOverflow(other)
        return overflow ? (other < 0 ? .min : .max) : sum
    }

    /// This share of it, rounded half away from zero; `part` and `whole` not negative. Nil where no share can be told.
    func share(_ part: Int64, of whole: Int64) -> Int64? {
        guard whole > 0, part >= 0, part <= whole else { return nil }
        let product = magnitude.multipliedFullWidth(by: part.magnitude)
        let (quotient, rest) = whole.magnitude.dividingFullWidth(product)
        let isUp = rest >= whole.magnitude - rest
        guard let size = Int64(exactly: quotient + (isUp ? 1 : 0)) else { return nil }
        return self < 0 ? -size : size
    }
}
