/// One row, with the facts by which it is judged.
struct RowCase {
    let row: BatchRow
    /// The item that the row names, where the subscription has it.
    let item: SubscriptionFacts.Item?
    /// The group of its subscription.
    private let group: RowGroup
    private var facts: SubscriptionFacts { group.facts }
    private var context: JudgeContext { group.context }

    init(_ row: BatchRow, of group: RowGroup) {
        self.row = row
        self.group = group
        item = group.facts.items.first { $0.sku == row.sku }
    }

    /// The price of the running period. For an item that only joins at the renewal, it is the price at which it
    /// joins.
    var currentPrice: Int64? { item?.currentPrice ?? renewalPrice }

    /// What the renewal charges for the item. It is nil where Apple has not said it, or says it in another currency,
    /// for example before a move to another storefront, because that amount cannot be compared.
    private var renewalPrice: Int64? {
        guard let renews = group.facts.renewalCurrency, let runs = group.facts.currency,
            renews != runs
        else { return item?.renewalPrice }
        return nil
    }

    /// The direction from the price of the running period; nil where the price would stay.
    var direction: PlanRow.Direction? {
        guard let current = currentPrice, row.newPrice != current else { return nil }
        return row.newPrice > current ? .increase : .decrease
    }

    /// The first fault that applies. Faults that the file shows by itself come before those that the facts show, each
    /// group in the order of `RowCode`.
    func firstFault() -> RowFault? {
        if let fault = faultOfFile() { return fault }
        for check in RowCase.checks {
            if let fault = check(self) { return fault }
        }
        return nil
    }

    /// The fault that the file shows by itself, whatever is known of the subscription.
    func faultOfFile() -> RowFault? { dateInSandbox ?? duplicateRow ?? dependentInFile }

    private static let checks: [@Sendable (RowCase) -> RowFault?] = [
        { $0.currencyMismatch }, { $0.storefrontMismatch }, { $0.unknownItem },
        { $0.noChange }, { $0.drifted }, { $0.conflictOpenChange },
        { $0.dependent }, { $0.notActive }, { $0.autoRenewOff }, { $0.billingRetry },
        { $0.gracePeriod }, { $0.itemInOffer }, { $0.indiaIncrease }, { $0.alreadyCommunicated },
    ]
}

extension String {
    /// Whether it has the very same bytes. `==` ignores how an accent is encoded; PostgreSQL and the App Store do not.
    func isWritten(as other: String) -> Bool { utf8.elementsEqual(other.utf8) }
}

extension SubscriptionFacts.Offer {
    /// Whether the running period or the next one is charged at the offer's price.
    var isInForce: Bool { isRunning || (periodsLeft ?? 0) > 0 }
}

extension SubscriptionFacts {
    /// The SKUs that renew. Where the whole renewal is off Apple lists none, and then all items count, so that a row
    /// gets the real reason.
    package var renewingSKUs: Set<String> {
        let doAllCount = doAllItemsCount
        return Set(items.lazy.filter { doAllCount || $0.renews }.map(\.sku))
    }

    /// Whether `renewingSKUs` has it.
    func isRenewing(_ sku: String) -> Bool {
        items.contains { $0.sku == sku && ($0.renews || doAllItemsCount) }
    }

    private var doAllItemsCount: Bool {
        (status != 1 || autoRenews == false) && !items.contains(where: \.renews)
    }
}

extension RowCase {
    private var dateInSandbox: RowFault? {
        guard group.judge.environment == .sandbox, row.effectiveOnOrAfter != nil else { return nil }
        return .dateInSandbox
    }

    private var currencyMismatch: RowFault? {
        guard let currency = facts.currency, currency != row.currency else { return nil }
        return RowFault(
            .currencyMismatch, "the subscription is charged in \(currency), not \(row.currency)",
            remedy: "give the price in \(currency)")
    }

    private var storefrontMismatch: RowFault? {
        guard let wanted = row.storefront, let storefront = facts.storefront, wanted != storefront
        else { return nil }
        return RowFault(
            .storefrontMismatch,
            "the subscription belongs to storefront \(storefront), not \(wanted)",
            remedy: "correct the storefront, or leave it out")
    }

    private var unknownItem: RowFault? {
        if let item, !item.sku.isWritten(as: row.sku) {
            return RowFault(
                .unknownItem,
                "\(row.sku) looks like an item of this subscription, but is written with other Unicode characters",
                remedy: "copy the SKU from the App Store's own data")
        }
        guard facts.isRenewing(row.sku) else {
            let others = facts.renewingSKUs.sorted().prefix(10).joined(separator: ", ")
            guard
                !others.isEmpty || facts.autoRenews == false
                    || !facts.items.contains(where: { $0.sku == row.sku })
            else {
                return RowFault(
                    .unknownItem, "Apple has not said whether \(row.sku) renews",
                    remedy: "read the subscription's state with repricer sync")
            }
            return RowFault(
                .unknownItem, "\(row.sku) is not set to renew on this subscription",
                remedy: others.isEmpty ? "remove the row" : "use one of \(others)")
        }
        guard currentPrice != nil else {
            return RowFault(
                .unknownItem, "Apple has not said what \(row.sku) costs",
                remedy: "read the subscription's state with repricer sync")
        }
        return nil
    }

    private var duplicateRow: RowFault? {
        let others = group.otherLines(of: row, max: 10).map(String.init)
        guard !others.isEmpty else { return nil }
        return RowFault(
            .duplicateRow,
            "\(row.sku) of this subscription is also on line \(others.joined(separator: ", "))",
            remedy: "keep one of the rows")
    }

    /// The item's price from the renewal on, as far as Apple has said it.
    private var priceThatRenews: Int64? {
        item?.increase?.price ?? renewalPrice ?? currentPrice
    }

    /// A decrease that is due, by another program or by an open change of ours.
    private var decrease: Int64? {
        guard let item, let running = item.currentPrice, let renewal = renewalPrice,
            renewal < running, item.increase == nil, item.offer == nil
        else { return nil }
        return renewal
    }

    /// A higher price that renews, agreed elsewhere: Apple shows no increase of it.
    private var raise: Int64? {
        guard let item, let running = item.currentPrice, let renewal = renewalPrice,
            renewal > running, item.increase == nil, item.offer == nil
        else { return nil }
        return renewal
    }

    /// Whether the item is in its own offer. Then the row gets only that fault.
    private var isInOffer: Bool { item?.offer?.isInForce == true }

    private var noChange: RowFault? {
        guard !isInOffer, decrease == nil else { return nil }
        let isKept = direction == nil && item?.increase == nil && raise == nil
        guard isKept || row.newPrice == priceThatRenews else { return nil }
        return RowFault(
            .noChange,
            "\(row.sku) \(direction == nil ? "already costs" : "will cost") \(price(row.newPrice))",
            remedy: "remove the row")
    }

    private var drifted: RowFault? {
        guard !isInOffer, let expected = row.expectedPrice, let currentPrice,
            expected != currentPrice
        else { return nil }
        return RowFault(
            .drifted,
            "\(row.sku) costs \(price(currentPrice)), not \(price(expected)) as expected",
            remedy: "check the new price against the current one and correct expected_price")
    }

    private var conflictOpenChange: RowFault? {
        if let open = context.openChanges.first(where: { $0.sku == row.sku && !$0.state.isFinal }) {
            return RowFault(
                .conflictOpenChange,
                "a change of \(row.sku) to \(price(open.newPrice)) is \(open.state.rawValue)",
                remedy: Self.remedy(ofOpen: open.state))
        }
        if let decrease {
            return RowFault(
                .conflictOpenChange,
                "a decrease of \(row.sku) to \(price(decrease)) that was not made here is due at the renewal",
                remedy: "wait until it took effect")
        }
        // A row at today's price would undo the raise, and a price in between would lower the renewal price. Neither is
        // an increase.
        if let raise, direction != .decrease, row.newPrice < raise {
            return RowFault(
                .conflictOpenChange,
                "\(row.sku) will cost \(price(raise)) from the renewal on, by a change that was not made here",
                remedy: "wait until it took effect")
        }
        guard let increase = item?.increase, !increase.isCommunicated else { return nil }
        return RowFault(
            .conflictOpenChange,
            "an increase of \(row.sku) that was not made here is \(increase.status)",
            remedy: "wait until it took effect")
    }

    /// How a person can end an open change early. Once a customer was asked, or while a call may be on its way, nothing
    /// does.
    private static func remedy(ofOpen state: ChangeState) -> String {
        switch state {
        case .awaitingApproval, .queued: "wait until it ends, or abort its batch"
        case .scheduled: "wait until it ends, or take it back with repricer undo"
        case .sending, .unknown, .pendingConsent, .accepted, .effective, .declined, .cancelled,
            .lapsed,
            .invalidated, .rejected, .ineligible, .missed, .aborted:
            "wait until it ends; repricer timeline tells how it stands"
        }
    }

    private var dependentInFile: RowFault? {
        guard !row.dependentSKUs.isEmpty else { return nil }
        return group.dependenciesInFile?.faultOfFile(row, context)
    }

    private var dependent: RowFault? {
        guard !row.dependentSKUs.isEmpty else { return nil }
        return group.dependencies?.fault(
            of: row, known: facts.renewingSKUs.union(context.siblingSKUs), context: context)
    }

    private var notActive: RowFault? {
        if let holder = facts.holder {
            return RowFault(
                .notActive, "the subscription is \(holder.words)",
                remedy: "remove the row; the one who pays has a subscription of their own")
        }
        switch facts.status {
        case 1, 3, 4: return nil
        case nil:
            return RowFault(
                .notActive, "no statement tells whether the subscription is active",
                remedy: "read the subscription's state with repricer sync")
        case let status?:
            return RowFault(
                .notActive, "the subscription is not active (status \(status))",
                remedy: "remove the row")
        }
    }

    private var autoRenewOff: RowFault? {
        guard facts.autoRenews == false else { return nil }
        return RowFault(
            .autoRenewOff, "the subscriber has turned renewal off", remedy: "remove the row")
    }

    private var billingRetry: RowFault? {
        // Apple sets the flag in a grace period too, which has its own code.
        guard facts.status == 3 || (facts.isInBillingRetry && facts.status != 4) else { return nil }
        return RowFault(
            .billingRetry, "the App Store is retrying to charge the subscriber",
            remedy: "try again when the subscription has recovered")
    }

    private var gracePeriod: RowFault? {
        guard facts.status == 4 else { return nil }
        return RowFault(
            .gracePeriod, "the subscription is in its grace period",
            remedy: "try again when the subscription has recovered")
    }

    private var itemInOffer: RowFault? {
        guard isInOffer, let offer = item?.offer else { return nil }
        return RowFault(
            .itemInOffer, "\(row.sku) is in an offer\(offer.reason.map { " (\($0))" } ?? "")",
            remedy: "try again when the offer has ended")
    }

    private var indiaIncrease: RowFault? {
        guard direction == .increase, (facts.storefront ?? row.storefront) == "IND" else {
            return nil
        }
        return RowFault(
            .indiaIncrease, "Apple does not support price increases in India",
            remedy: "remove the row")
    }

    private var alreadyCommunicated: RowFault? {
        guard let increase = item?.increase, increase.isCommunicated else { return nil }
        return RowFault(
            .alreadyCommunicated,
            "the subscriber was already told of an increase of \(row.sku)"
                + (increase.price.map { " to \(price($0))" } ?? ""),
            remedy: "wait until it took effect")
    }

    private func price(_ milliunits: Int64) -> String {
        PriceText.amount(milliunits, facts.currency ?? row.currency)
    }
}

extension SubscriptionFacts.Increase {
    /// Whether the subscriber was told. An unknown status does not prove that.
    var isCommunicated: Bool { status == "PENDING" || status == "ACCEPTED" }
}
