import Pricing

/// Finds rules that can hardly be meant: thresholds in a currency that the storefront does not have, below the amount of
/// shorter periods, ten times what their neighbours say, or without neighbours to compare them with; rates ten times those in force; other decimals than those in
/// force.
struct RulePlausibility {
    /// The rules as they were stored before the file, at the instant of the import.
    let stored: RulesInForce
    /// All rows that stand once the file is imported, by key and in the order of dates.
    let timelines: [String: [RuleRow]]
    /// Those with the exchange rates that the file brings.
    let rated: RulesInForce
    /// The keys and instants of thresholds that the file brings.
    let brought: Set<String>

    func warnings(of rule: RuleSet.Threshold, line: Int) -> [RuleFault] {
        [currency(rule, line), otherKind(rule, line), estimate(rule, line)].compactMap { $0 }
    }

    /// A rate is against the euro, and none moves tenfold at once: a decimal point slipped, or it stands the wrong way round.
    func warnings(of rate: RuleSet.ExchangeRate, line: Int) -> [RuleFault] {
        if rate.currency == "EUR" {
            guard rate.perEuro != .one else { return [] }
            return [
                RuleFault(
                    line, .implausibleAmount, "1 EUR is 1 EUR, and not \(rate.perEuro.text)",
                    remedy: "remove the row")
            ]
        }
        // Over decades a rate moves tenfold, and an older one may be imported. What the file withdraws counts no more.
        let before = timelines[RuleRow.exchangeRate(rate).key]?
            .last { ($0.validFrom?.milliseconds ?? .min) <= rate.validFrom?.milliseconds ?? .max }
        guard case .exchangeRate(let known)? = before,
            Self.isMoreThanTenfold(rate.perEuro.billionths, known.perEuro.billionths)
                || Self.isMoreThanTenfold(known.perEuro.billionths, rate.perEuro.billionths)
        else { return [] }
        return [
            RuleFault(
                line, .implausibleAmount,
                "1 EUR is \(known.perEuro.text) \(rate.currency) by the rate in force, and not \(rate.perEuro.text)",
                remedy: "correct the rate")
        ]
    }

    func warnings(of rule: RuleSet.CurrencyRule, line: Int) -> [RuleFault] {
        let (code, decimals) = (rule.currency.code, rule.currency.decimals)
        guard let known = stored.currency(code)?.decimals, known != decimals else { return [] }
        return [
            RuleFault(
                line, .implausibleCurrency,
                "\(code) has \(known) decimals in force, and not \(decimals)",
                remedy: "correct the decimals")
        ]
    }

    static func name(_ rule: RuleSet.Threshold, kind: PeriodKind) -> String {
        "\(rule.storefront) \(rule.currency) \(kind.rawValue) \(rule.validFrom?.text ?? "ever")"
    }

    private func currency(_ rule: RuleSet.Threshold, _ line: Int) -> RuleFault? {
        let usual =
            AppStorefronts.currencies(of: rule.storefront)
            ?? Set(
                stored.thresholdRows
                    .filter { $0.storefront == rule.storefront && $0.source == .apple }
                    .map(\.currency))
        guard !usual.isEmpty, !usual.contains(rule.currency) else { return nil }
        return RuleFault(
            line, .implausibleCurrency,
            "\(rule.storefront) has prices in \(usual.sorted().joined(separator: " or ")), not in "
                + rule.currency,
            remedy: "correct the currency or the storefront")
    }

    /// Compares with the other kind of period: in Apple's table the annual amount is ten times the other one.
    private func otherKind(_ rule: RuleSet.Threshold, _ line: Int) -> RuleFault? {
        let kind: PeriodKind = rule.kind == .annual ? .nonannual : .annual
        // Where the file brings both, the fault names the annual one.
        if rule.kind == .nonannual, brought.contains(Self.name(rule, kind: kind)) { return nil }
        guard let other = amount(rule, kind: kind) else { return nil }
        let (annual, nonannual) = rule.kind == .annual ? (rule.amount, other) : (other, rule.amount)
        if annual < nonannual {
            return RuleFault(
                line, .annualBelowNonannual,
                "the annual amount of \(rule.storefront), \(shown(annual, rule)), is below the non-annual one, "
                    + shown(nonannual, rule), remedy: "correct one of the two")
        }
        guard Self.isMoreThanTenfold(annual, nonannual) else { return nil }
        return RuleFault(
            line, .implausibleAmount,
            "the annual amount of \(rule.storefront), \(shown(annual, rule)), is more than ten times the "
                + "non-annual one, \(shown(nonannual, rule))", remedy: "correct one of the two")
    }

    private func estimate(_ rule: RuleSet.Threshold, _ line: Int) -> RuleFault? {
        let estimate =
            stored.estimate(currency: rule.currency, kind: rule.kind)
            ?? rated.estimate(currency: rule.currency, kind: rule.kind)
        guard let estimate else {
            return RuleFault(
                line, .implausibleAmount,
                "\(shown(rule.amount, rule)) cannot be checked: no amount in \(rule.currency) and no "
                    + "exchange rate of it is known",
                remedy: "import exchange rates before it, such as the European Central Bank's "
                    + "eurofxref.csv, or check it yourself")
        }
        guard
            Self.isMoreThanTenfold(rule.amount, estimate.amount)
                || Self.isMoreThanTenfold(estimate.amount, rule.amount)
        else { return nil }
        let side = rule.amount > estimate.amount ? "more than ten times" : "less than a tenth of"
        return RuleFault(
            line, .implausibleAmount,
            "\(shown(rule.amount, rule)) is \(side) what Apple's other amounts suggest, "
                + shown(estimate.amount, rule), remedy: "correct the amount")
    }

    /// The amount of the other kind when the rule begins to hold.
    private func amount(_ rule: RuleSet.Threshold, kind: PeriodKind) -> Int64? {
        var other = rule
        other.kind = kind
        let from = rule.validFrom?.milliseconds ?? .min
        let last = timelines[RuleRow.threshold(other).key]?
            .last { ($0.validFrom?.milliseconds ?? .min) <= from }
        guard case .threshold(let found)? = last else { return nil }
        return found.amount
    }

    private static func isMoreThanTenfold(_ large: Int64, _ small: Int64) -> Bool {
        let (tenfold, overflow) = small.multipliedReportingOverflow(by: 10)
        return !overflow && large > tenfold
    }

    private func shown(_ amount: Int64, _ rule: RuleSet.Threshold) -> String {
        let decimals = stored.currency(rule.currency)?.decimals ?? 2
        return "\(PriceText.decimal(amount, decimals: decimals)) \(rule.currency)"
    }
}
