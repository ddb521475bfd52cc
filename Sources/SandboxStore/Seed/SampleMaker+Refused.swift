/// Subscribers whose rows a planner must refuse, one row code each.
enum Refusal: String, CaseIterable, Sendable {
    case indiaIncrease = "india_increase"
    case dependentChained = "dependent_chained"
    case dependentShared = "dependent_shared"
    case itemInOffer = "item_in_offer"
    case billingRetry = "billing_retry"
    case autoRenewOff = "auto_renew_off"
    case priceDecimals = "price_decimals"
    case unknownItem = "unknown_item"
    case duplicateRow = "duplicate_row"
    case noChange = "no_change"

    /// Two where each subscription brings two rows.
    var subscriptionCount: Int {
        switch self {
        case .dependentChained, .dependentShared, .duplicateRow: 2
        case .indiaIncrease, .itemInOffer, .billingRetry, .autoRenewOff, .priceDecimals,
            .unknownItem, .noChange:
            4
        }
    }

    var storefronts: [String] {
        switch self {
        case .indiaIncrease: ["IND"]
        case .priceDecimals: ["USA", "JPN", "KOR", "GBR"]
        case .dependentChained, .dependentShared, .itemInOffer, .billingRetry, .autoRenewOff,
            .unknownItem, .duplicateRow, .noChange:
            ["USA", "FRA", "MEX", "AUS"]
        }
    }
}

extension SampleMaker {
    func addRefused(_ kind: Refusal, turn: Int, index: Int, to sample: inout Sample) {
        var random = SeededRandom(seed: options.seed, "refused", String(index))
        let storefront = kind.storefronts[turn % kind.storefronts.count]
        var made = subscription(
            Blank(
                storefront: storefront, period: .month, itemCount: 3,
                renewalAt: start + days(22 + Int64(turn)) + days(1) / 3),
            index: index, random: &random)
        let rows = refusedRows(kind, &made, &random)
        sample.subscriptions.append(made)
        sample.rows += rows.map { row in
            var row = row
            row.code = kind.rawValue
            return row
        }
    }

    private func refusedRows(
        _ kind: Refusal, _ made: inout StoreSubscription, _ random: inout SeededRandom
    ) -> [SampleRow] {
        let market = SampleCatalogue.market(made.storefront)
        let prices = SamplePrices(market: market, period: made.period)
        let rises = made.items.map { prices.needingConsent(from: $0.price, &random) }
        var rows = zip(made.items, rises).map { row(made, $0, price: $1) }
        let third = made.items[2].sku
        switch kind {
        case .indiaIncrease: return [rows[0]]
        case .dependentChained:
            rows[0].dependentSKUs = [rows[1].sku]
            rows[1].dependentSKUs = [third]
            return Array(rows.prefix(2))
        case .dependentShared:
            rows[0].dependentSKUs = [third]
            rows[1].dependentSKUs = [third]
            return Array(rows.prefix(2))
        case .itemInOffer:
            made.items[0].offer = StoreOffer(
                price: prices.lowered(from: made.items[0].price, &random), periodsLeft: 3,
                periodCount: 6, reason: "ACQUISITION")
            return [rows[0]]
        case .billingRetry:
            enterRetry(&made)
            return [rows[0]]
        case .autoRenewOff:
            made.autoRenews = false
            return [rows[0]]
        case .priceDecimals:
            rows[0].price += Markets.priceStep(of: made.currency) == 1000 ? ".95" : "5"
            return [rows[0]]
        case .unknownItem:
            rows[0].sku = "CHANNEL_OPERA_1M"
            return [rows[0]]
        case .duplicateRow: return [rows[0], rows[0]]
        case .noChange: return [row(made, made.items[0], price: made.items[0].price)]
        }
    }

    /// The last charge failed two days before the start; no retry succeeds.
    private func enterRetry(_ made: inout StoreSubscription) {
        let failedAt = start - days(2)
        let shift = made.expiresAt - failedAt
        made.expiresAt = failedAt
        made.purchasedAt -= shift
        made.startedAt -= shift
        made.anchorDay = Milliseconds.date(of: made.startedAt).day
        made.lastSignedAt = failedAt
        made.status = .billingRetry
        made.expirationIntent = 2
        made.retryEndsAt = start + days(45)
    }
}
