/// Amounts that rows of several subscriptions put at risk: an item that a row names as a dependent on another
/// subscription, and that has a row of its own there, or is named by another row too. A sum counts it once, with the
/// row whose loss is more certain; if all are equal, with its own row. `RowGroup.noteSharedRisk` does the same within
/// one subscription.
struct SharedRisk: Sendable {
    /// A row that counts the item among its dependents.
    private struct Claim {
        /// The sum in which it counts.
        var key: BatchFigures.MoneyKey
        var consent: Consent?
        var amount: Int64
    }

    private struct Item {
        /// The sum in which its own row counts.
        var key: BatchFigures.MoneyKey
        var claims: [Claim] = []
    }

    private var items: [CallList.Place: Item] = [:]

    var isEmpty: Bool { items.isEmpty }

    /// Notes the dependents of a row on other subscriptions. `calls` keeps the places.
    mutating func note(_ row: PlanRow, _ calls: inout CallList) {
        guard row.mayBeLost, !row.atRiskOnOthers.isEmpty, let currency = row.currency,
            let storefront = row.storefront, let period = row.period
        else { return }
        let key = BatchFigures.MoneyKey(
            currency: currency, storefront: storefront, period: period)
        for charge in row.atRiskOnOthers {
            let own = BatchFigures.MoneyKey(charge)
            let place = calls.place(charge.originalTransactionID, charge.sku)
            items[place, default: Item(key: own)].claims.append(
                Claim(
                    key: row.atRiskElsewhere.contains(charge) ? own : key, consent: row.consent,
                    amount: charge.amount))
        }
    }

    /// Subtracts from the sums what they count more than once.
    func settle(_ money: inout [BatchFigures.MoneyKey: BatchFigures.Money], _ calls: CallList) {
        guard !isEmpty else { return }
        let rows = calls.atRisk(among: items)
        for (place, item) in items {
            var claims = item.claims
            if let consent = rows[place], let amount = claims.first?.amount {
                claims.insert(Claim(key: item.key, consent: consent, amount: amount), at: 0)
            }
            let kept = claims.firstIndex { $0.consent == .required } ?? claims.startIndex
            for index in claims.indices where index != kept {
                money[claims[index].key]?.addAtRisk(
                    .zero - MoneySum(claims[index].amount), claims[index].consent)
            }
        }
    }
}

extension BatchFigures.MoneyKey {
    /// The sum in which a charge counts.
    init(_ charge: ItemCharge) {
        self.init(
            currency: charge.currency, storefront: charge.storefront, period: charge.period)
    }
}
