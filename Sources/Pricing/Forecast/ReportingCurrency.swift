/// Converts amounts of many currencies into one, by the exchange rates in force.
package struct ReportingCurrency: Sendable {
    package let code: String
    private let rules: RulesInForce
    private let perEuro: Rate

    /// nil where the currency has no rate.
    package init?(_ code: String, rules: RulesInForce) {
        guard let rate = rules.exchangeRate(code) else { return nil }
        self.code = code
        self.rules = rules
        perEuro = rate.perEuro
    }

    /// The converted amount, rounded towards zero; nil where the other currency has no rate.
    package func converted(_ sum: MoneySum, from other: String) -> MoneySum? {
        guard other != code else { return sum }
        return rules.exchangeRate(other).map {
            sum.times(perEuro.billionths, over: $0.perEuro.billionths)
        }
    }

    /// The day of the oldest rate that the conversion from these currencies rests on; nil where none is dated.
    package func ratesFrom(_ currencies: some Sequence<String>) -> CivilDate? {
        let used = currencies.filter { $0 != code }.compactMap { rules.exchangeRate($0)?.validFrom }
        let own = used.isEmpty ? nil : rules.exchangeRate(code)?.validFrom
        return (used + [own].compactMap { $0 }).min()?.day
    }
}
