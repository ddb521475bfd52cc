/// What one item was charged for in the running period.
package struct ItemCharge: Hashable, Sendable {
    package var originalTransactionID: String
    package var sku: String
    package var currency: String
    package var storefront: String
    /// The period as Apple wrote it.
    package var period: String
    /// Milliunits a period, of all its seats, at the price of a running offer.
    package var amount: Int64
}

extension SubscriptionFacts {
    /// How many seats the running period was charged for. A price is for one seat (an inference for items).
    package var seats: Int64 { Int64(max(1, quantity ?? 1)) }

    /// What the running period was charged for an item; nil where Apple has not said, or where the item only joins at
    /// the renewal.
    package func charge(of sku: String) -> ItemCharge? {
        charge(of: sku, at: items.first { $0.sku == sku }?.chargedPrice)
    }

    /// What a period loses with an item: what it is charged now, or what it will be where it only joins at the renewal.
    package func chargeAtRisk(of sku: String) -> ItemCharge? {
        charge(of: sku) ?? comingCharge(of: sku)
    }

    /// What the renewal will charge for an item that only joins there.
    private func comingCharge(of sku: String) -> ItemCharge? {
        let item = items.first { $0.sku == sku && $0.currentPrice == nil }
        return renewalCurrency == nil || renewalCurrency == currency
            ? charge(of: sku, at: item?.renewalPrice) : nil
    }

    private func charge(of sku: String, at price: Int64?) -> ItemCharge? {
        guard let price, let currency, let storefront, let period else { return nil }
        // An absurd product counts as one seat, because no sum could hold it.
        let (all, isTooMuch) = price.multipliedReportingOverflow(by: seats)
        return ItemCharge(
            originalTransactionID: originalTransactionID, sku: sku, currency: currency,
            storefront: storefront, period: period, amount: isTooMuch ? price : all)
    }
}

extension SubscriptionFacts.Item {
    fileprivate var chargedPrice: Int64? {
        offer?.chargedPrice ?? currentPrice
    }
}

extension RowGroup {
    /// Notes what a period loses when the customer does not consent: the item, and the dependents that are cancelled
    /// with it. An item that only joins at the renewal counts with its price there. Charges in another currency or
    /// period are noted apart, as is one that is too large for the sum. An item that the row names in several ways
    /// counts once.
    func noteAtRisk(_ plan: inout PlanRow, _ row: BatchRow) {
        guard let own = facts.chargeAtRisk(of: row.sku) else { return }
        var sum = own.amount
        var seen: Set<String> = []
        for place in row.dependentSKUs.flatMap(places) where seen.insert(place.text).inserted {
            let isHere = place.originalTransactionID == facts.originalTransactionID
            guard
                let charge = isHere
                    ? facts.chargeAtRisk(of: place.sku) : context.charges[place.text]
            else { continue }
            if !isHere { plan.atRiskOnOthers.append(charge) }
            let (total, overflow) = sum.addingReportingOverflow(charge.amount)
            guard charge.currency == own.currency, charge.period == own.period, !overflow else {
                plan.atRiskElsewhere.append(charge)
                continue
            }
            sum = total
        }
        plan.atRisk = sum
    }

    /// Where a dependent lives. An item that leaves here is no dependent where a SKU alone leads to another subscription
    /// that renews it.
    private func places(_ name: String) -> [DependentReference] {
        context.places[name]
            ?? [DependentReference(name).placed(on: facts.originalTransactionID)]
    }

    /// The items of this subscription that are cancelled with a row's item.
    private func dependentsHere(_ skus: [String]) -> Set<String> {
        let id = facts.originalTransactionID
        return Set(skus.flatMap(places).filter { $0.originalTransactionID == id }.map(\.sku))
    }

    /// Whether a row names another row's item as a dependent.
    var hasDependentsAsRows: Bool {
        guard dependencies != nil else { return false }
        let items = Set(rows.map(\.sku))
        return rows.contains { !dependentsHere($0.dependentSKUs).isDisjoint(with: items) }
    }

    /// Notes amounts that two rows put at risk: an item with a row of its own that is also a dependent of another row.
    /// A sum counts it once, with the row whose loss is more certain; if both are equal, with its own row.
    func noteSharedRisk(_ plans: inout [PlanRow]) {
        guard hasDependentsAsRows else { return }
        let lost = plans.indices.filter { plans[$0].mayBeLost && plans[$0].atRisk != nil }
        let rowOf = Dictionary(lost.map { (plans[$0].sku, $0) }) { first, _ in first }
        for index in lost {
            for sku in dependentsHere(plans[index].dependentSKUs) {
                if let own = rowOf[sku], own != index, let charge = facts.chargeAtRisk(of: sku) {
                    let isSurer =
                        plans[index].consent == .required && plans[own].consent == .notKnown
                    let counted = isSurer ? own : index
                    plans[counted].sharedAtRisk = plans[counted].sharedAtRisk.addingSaturated(
                        charge.amount)
                }
            }
        }
    }
}

extension PlanRow {
    /// Whether the row can be sent, and its customer must consent, or may have to.
    var mayBeLost: Bool { fault == nil && (consent == .required || consent == .notKnown) }

    /// The amount that a sum of amounts at risk counts for this row, in milliunits a period.
    package func countedAtRisk(_ current: Int64) -> MoneySum {
        (atRisk.map { MoneySum($0) } ?? MoneySum(current).times(seats)) - MoneySum(sharedAtRisk)
    }
}
