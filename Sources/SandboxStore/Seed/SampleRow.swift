/// One line of the sample batch, with the planner's expected verdict.
struct SampleRow: Hashable, Sendable {
    var transaction: String
    var sku: String
    /// Decimal, in the currency's unit.
    var price: String
    var currency: String
    var storefront: String?
    var dependentSKUs: [String] = []
    var expectedPrice: String?
    /// `YYYY-MM-DD`.
    var effectiveOnOrAfter: String?
    /// The row code that refuses it; nil for a good row.
    var code: String?

    static let header =
        "original_transaction_id,sku,price,currency,storefront,dependent_skus,expected_price,"
        + "effective_on_or_after"

    var csv: String {
        [
            transaction, sku, price, currency, storefront ?? "",
            dependentSKUs.joined(separator: ";"), expectedPrice ?? "", effectiveOnOrAfter ?? "",
        ].joined(separator: ",")
    }

    static func file(_ rows: [SampleRow]) -> String {
        ([header] + rows.map(\.csv)).map { $0 + "\n" }.joined()
    }
}

/// Amounts of the sample: prices that look like prices, and changes that fall on one side of the rule.
struct SamplePrices: Sendable {
    var market: Market
    var period: BillingPeriod

    /// Currency units for 100 US dollars, roughly.
    static let unitsPer100USD: [String: Int64] = [
        "USD": 100, "EUR": 93, "GBP": 80, "JPY": 15_000, "KRW": 135_000, "MXN": 1800, "BRL": 520,
        "AUD": 150, "CAD": 137, "CHF": 90, "SEK": 1050, "HKD": 780, "INR": 8400, "TWD": 3200,
    ]

    private var step: Int64 { Markets.priceStep(of: market.currency) ?? 10 }

    var threshold: Int64 {
        period == .year ? market.thresholds.annual : market.thresholds.nonAnnual
    }

    func base(_ random: inout SeededRandom) -> Int64 {
        let cents =
            switch period {
            case .week: random.pick(2...5) * 100 - 1
            case .month: random.pick(5...15) * 100 - 1
            case .twoMonths: random.pick(10...25) * 100 - 1
            case .threeMonths: random.pick(15...40) * 100 - 1
            case .sixMonths: random.pick(30...70) * 100 - 1
            case .year: random.pick(60...130) * 100 - 1
            }
        let units = SamplePrices.unitsPer100USD[market.currency] ?? 100
        return max(step, rounded(cents * 10 * units / 100))
    }

    /// A rise of more than half and well above the amount, which needs consent by every table.
    func needingConsent(from old: Int64, _ random: inout SeededRandom) -> Int64 {
        let margin: Int64 = market.thresholds.isPublished ? 120 : 250
        let byShare = old * random.pick(60...110) / 100
        let byAmount = threshold * (margin + random.pick(0...60)) / 100
        return rounded(old + max(byShare, byAmount)) + step
    }

    /// A rise of at most half, which is only announced, whatever the amount.
    func announced(from old: Int64, _ random: inout SeededRandom) -> Int64 {
        max(old + step, rounded(old + old * random.pick(8...45) / 100))
    }

    /// A rise of more than half that stays within a published amount; nil where the item is too expensive for one.
    func smallAmount(from old: Int64, _ random: inout SeededRandom) -> Int64? {
        let new = rounded(old + old * random.pick(56...80) / 100)
        let rise = new - old
        guard market.thresholds.isPublished, 2 * rise > old, rise <= threshold else { return nil }
        return new
    }

    func lowered(from old: Int64, _ random: inout SeededRandom) -> Int64 {
        max(step, min(old - step, rounded(old - old * random.pick(10...40) / 100)))
    }

    private func rounded(_ milliunits: Int64) -> Int64 { milliunits / step * step }

    /// `12.99`, or `1500` where the currency has no decimals.
    static func text(_ milliunits: Int64, currency: String) -> String {
        if Markets.priceStep(of: currency) == 1000 { return String(milliunits / 1000) }
        let cents = milliunits / 10 % 100
        return "\(milliunits / 1000).\(cents < 10 ? "0" : "")\(cents)"
    }
}
