/// One line of the money ledger: a charge, a refund or a reversed refund of one item of a signed transaction.
///
/// Only what Apple signs moves money: `advancedCommerceInfo.items[].price`, `refunds[]`, `revocationDate` and
/// `revocationPercentage` of "JWSTransactionDecodedPayload" and "advancedCommerceTransactionItem".
package struct MoneyEntry: Hashable, Sendable {
    package enum Kind: String, Hashable, Sendable, CaseIterable {
        case charge, refund, reversal
    }

    /// The identity of a line, whichever statements contain it and however often.
    package struct Key: Hashable, Sendable {
        package var transactionID: String
        package var sku: String
        package var kind: Kind
        /// The instant of the purchase for a charge, Apple's date for a refund, and the date of the statement for a
        /// reversal.
        package var occurredAt: Instant
        /// Distinguishes refunds of the same instant, from 0 on.
        package var number: Int

        /// The item that was charged or refunded.
        var item: MoneyLedger.Item { .init(transactionID: transactionID, sku: sku) }
    }

    /// Further signed fields of a charge, which show how it came about.
    package struct Terms: Hashable, Sendable {
        /// The price of one seat, in milliunits.
        package var price: Int64
        package var quantity: Int64
        /// Whether it was charged at the price of an offer.
        package var isOffer: Bool
        /// Whether the customer bought it (`transactionReason` `PURCHASE`), an added seat included. Otherwise it is a
        /// renewal.
        package var isPurchase: Bool
        /// Whether it charges seats that were added to the running period, in addition to the period's charge. Any
        /// other purchase within a period replaces that charge, because the transaction of a modification has all items
        /// (an inference).
        package var isAddedSeat: Bool
        /// The end of the period that it pays for.
        package var expiresAt: Instant?
        /// When the item was revoked before that end, whatever part of the money was refunded; nil where it was not
        /// revoked, or the revocation was reversed.
        package var revokedAt: Instant?
        /// Whether a statement of its transaction lists another item in place of this one, at another price. It counts
        /// as one charge, as the newest statement says, and a person should check it.
        package var isRelisted = false
        /// The length of the plan's period that it pays, as Apple signs it; nil where no statement says it.
        package var period: String?
    }

    package var key: Key
    /// The terms of a charge; nil for any other line.
    package var terms: Terms?
    /// Milliunits of the currency: zero or negative for a refund, zero or positive otherwise.
    package var amount: Int64
    /// The amount without tax; nil where Apple did not sign it.
    package var taxExclusive: Int64?
    package var currency: String
    package var storefront: String?
    /// The statement that told it.
    package var evidenceID: String
}

// For stored lines. The fold sets these values itself.
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
        _ price: Int64, times quantity: Int64, isOffer: Bool, isPurchase: Bool, isAddedSeat: Bool,
        until expiresAt: Instant?, revokedAt: Instant?
    ) {
        self.init(
            price: price, quantity: quantity, isOffer: isOffer, isPurchase: isPurchase,
            isAddedSeat: isAddedSeat,
            expiresAt: expiresAt, revokedAt: revokedAt)
    }
}

/// The lines of the statements of one fold, each once, in the order of their first statement.
package struct MoneyLedger: Hashable, Sendable, RandomAccessCollection {
    package struct Item: Hashable, Sendable {
        package var transactionID: String
        package var sku: String
    }

    private var list: [MoneyEntry] = []
    private var places: [MoneyEntry.Key: Int] = [:]
    private var charged: [Item: MoneyEntry.Key] = [:]
    /// Whether a line has a name that only an earlier statement of its transaction shows.
    private(set) var isRelisted = false

    package init() {}

    package var startIndex: Int { list.startIndex }
    package var endIndex: Int { list.endIndex }
    package subscript(position: Int) -> MoneyEntry { list[position] }

    /// Notes a line. The newest statement about a line wins; where it says nothing of the tax of the same amount, what was
    /// signed of that before still holds.
    mutating func note(_ entry: MoneyEntry) {
        var entry = entry
        if entry.key.kind == .charge {
            // A transaction charges an item once, even where a later statement gives another day.
            if let former = charged.updateValue(entry.key, forKey: entry.key.item),
                former != entry.key, let place = places.removeValue(forKey: former)
            {
                places[entry.key] = place
            }
        }
        if let place = places[entry.key] {
            let former = list[place]
            if former.amount == entry.amount, former.currency == entry.currency {
                entry.taxExclusive = entry.taxExclusive ?? former.taxExclusive
            }
            list[place] = entry
        } else {
            places[entry.key] = list.count
            list.append(entry)
        }
    }

    /// The currency of an item's charge, if a statement has stated it.
    func currency(of item: Item) -> String? {
        guard let key = charged[item], let place = places[key] else { return nil }
        return list[place].currency
    }

    func has(_ key: MoneyEntry.Key) -> Bool { places[key] != nil }

    /// Pairs the items that a transaction lists now with those that it charged, where it lists other items in place of
    /// some. Items with the same price are paired first, the others in the order of names.
    ///
    /// Returns the former names by the names that the transaction lists now, and the names whose price differs.
    mutating func names(
        _ listed: [(sku: String, amount: Int64)], of transactionID: String
    ) -> SubscriptionFacts.ChargedNames {
        var charged = SubscriptionFacts.ChargedNames()
        let known = list.filter { $0.key.kind == .charge && $0.key.transactionID == transactionID }
        let names = Set(listed.lazy.map(\.sku))
        let skus = Set(known.lazy.map(\.key.sku))
        var gone = known.filter { !names.contains($0.key.sku) }.sorted { $0.key.sku < $1.key.sku }
        guard !gone.isEmpty else { return charged }
        for isAlike in [true, false] {
            for item in listed.sorted(by: { $0.sku < $1.sku })
            where !skus.contains(item.sku) && charged.former[item.sku] == nil {
                guard let place = gone.firstIndex(where: { !isAlike || $0.amount == item.amount })
                else { continue }
                let former = gone.remove(at: place).key.sku
                charged.former[item.sku] = former
                if !isAlike { charged.doubtful.insert(former) }
                isRelisted = true
            }
        }
        return charged
    }

    /// The refunds of an item without the line `one`, less their reversals: zero or negative.
    func givenBack(
        _ item: Item, but one: MoneyEntry.Key? = nil
    ) -> (amount: Int64, taxExclusive: Int64?) {
        var amount: Int64 = 0
        var taxExclusive: Int64? = 0
        for entry in list
        where entry.key.kind != .charge && entry.key.item == item && entry.key != one {
            amount = amount.addingSaturated(entry.amount)
            taxExclusive = taxExclusive.flatMap { sum in
                entry.taxExclusive.map { sum.addingSaturated($0) }
            }
        }
        return (amount, taxExclusive)
    }
}

extension MoneyLedger {
    /// The part of each item's refunds that stands, by its SKU, after a statement that reverses refunds of a
    /// transaction. If the statement still lists some refunds, of any item, and not the others, the listed ones stand.
    /// If it lists all or none, all are reversed, because Apple does not say whether it still lists reversed ones.
    ///
    /// Where an amount is not listed, the ledger's is used, because a revocation does not say how much it refunded.
    func keptRefunds(
        of transactionID: String, listed: [String: [(at: Instant, number: Int, amount: Int64?)]]
    ) -> [String: Int64] {
        let refunds = list.filter {
            $0.key.kind == .refund && $0.key.transactionID == transactionID
        }
        var kept: [String: Int64] = [:]
        var count = 0
        for (sku, listed) in listed {
            for refund in listed {
                let known = refunds.first {
                    $0.key.sku == sku && $0.key.occurredAt == refund.at
                        && $0.key.number == refund.number
                }
                guard let known else { continue }
                count += 1
                kept[sku] = (kept[sku] ?? 0)
                    .addingSaturated(refund.amount ?? known.amount.negatedSaturated)
            }
        }
        return count < refunds.count ? kept : [:]
    }
}

/// A fraction by which a sum is divided.
struct MoneyShare {
    var part: Int64
    var whole: Int64

    init(_ part: Int64, of whole: Int64) {
        self.part = part
        self.whole = whole
    }

    /// nil where no share can be told.
    func of(_ amount: Int64) -> Int64? { amount.part(part, of: whole) }
}

/// The currency of a charge for which no statement gives one: the ISO 4217 code for no currency.
let unknownCurrency = "XXX"
