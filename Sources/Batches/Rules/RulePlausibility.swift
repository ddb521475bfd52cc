import Pricing

/// Finds implausible rules. These are thresholds in a currency that the storefront does not have, below the amount of
/// shorter periods, ten times their neighbours, or without neighbours to compare; rates ten times those in force; and
/// other decimals than those in force.
struct RulePlausibility {
    /// The rules as they were stored before the file, at the instant of the import.
    let stored: RulesInForce
    /// All rows that will be stored once the file is imported, by key and in the order of dates.
    let timelines: [Rule.Key: [Rule]]
    /// The stored rules, with the exchange rates of the file.
    let rated: RulesInForce
    /// The start instants of the thresholds in the file, by key.
    let brought: [Rule.Key: Set<Instant?>]

    func warnings(of rule: Rule, line: Int) -> [RuleFault] {
        let warnings =
            switch rule.kind {
            case .threshold: [currency(rule, line), otherKind(rule, line), estimate(rule, line)]
            case .alwaysConsent: [RuleFault?]()
            case .currency: [decimals(rule, line)]
            case .exchangeRate: [perEuro(rule, line)]
            }
        return warnings.compactMap { $0 }
    }

    /// A rate is units of the currency for one euro, and no rate moves tenfold at once. If it seems to, a decimal point
    /// slipped, or the rate is inverted.
    private func perEuro(_ rate: Rule, _ line: Int) -> RuleFault? {
        if rate.currency == "EUR" {
            guard rate.perEuro != .one else { return nil }
            return RuleFault(
                line, .implausibleAmount, "1 EUR is 1 EUR, and not \(rate.perEuro.text)",
                remedy: "remove the row")
        }
        // A rate may move tenfold over decades, and an older one may be imported, so this compares with the rate in
        // force then. Rows that the file withdraws do not count.
        guard let known = timelines[rate.key]?.last(where: { $0.startsAt <= rate.startsAt }),
            Self.isMoreThanTenfold(rate.value, known.value)
                || Self.isMoreThanTenfold(known.value, rate.value)
        else { return nil }
        return RuleFault(
            line, .implausibleAmount,
            "1 EUR is \(known.perEuro.text) \(rate.currency) by the rate in force, and not \(rate.perEuro.text)",
            remedy: "correct the rate")
    }

    private func decimals(_ rule: Rule, _ line: Int) -> RuleFault? {
        guard let known = stored.currency(rule.currency)?.decimals, known != rule.value else {
            return nil
        }
        return RuleFault(
            line, .implausibleCurrency,
            "\(rule.currency) has \(known) decimals in force, and not \(rule.value)",
            remedy: "correct the decimals")
    }

    private func currency(_ rule: Rule, _ line: Int) -> RuleFault? {
        let usual =
            AppStorefronts.currencies(of: rule.storefront)
            ?? Set(
                stored.rows(of: .threshold)
                    .filter { $0.storefront == rule.storefront && $0.isApples }
                    .map(\.currency))
        guard !usual.isEmpty, !usual.contains(rule.currency) else { return nil }
        return RuleFault(
            line, .implausibleCurrency,
            "\(rule.storefront) has prices in \(usual.sorted().joined(separator: " or ")), not in "
                + rule.currency,
            remedy: "correct the currency or the storefront")
    }

    /// Compares with the other kind of period: in Apple's table the annual amount is ten times the other one.
    private func otherKind(_ rule: Rule, _ line: Int) -> RuleFault? {
        let isAnnual = rule.key.periodKind == .annual
        let key = Rule.Key(
            .threshold, storefront: rule.storefront, currency: rule.currency,
            periodKind: isAnnual ? .nonannual : .annual)
        // Where the file brings both, the fault names the annual one.
        if !isAnnual, brought[key]?.contains(rule.validFrom) == true { return nil }
        guard let other = timelines[key]?.last(where: { $0.startsAt <= rule.startsAt }) else {
            return nil
        }
        let (annual, nonannual) =
            isAnnual ? (rule.value, other.value) : (other.value, rule.value)
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

    private func estimate(_ rule: Rule, _ line: Int) -> RuleFault? {
        guard let kind = rule.key.periodKind else { return nil }
        let estimate =
            stored.estimate(currency: rule.currency, kind: kind)
            ?? rated.estimate(currency: rule.currency, kind: kind)
        guard let estimate else {
            return RuleFault(
                line, .implausibleAmount,
                "\(shown(rule.value, rule)) cannot be checked: no amount in \(rule.currency) and no "
                    + "exchange rate of it is known",
                remedy: "import exchange rates before it, such as the European Central Bank's "
                    + "eurofxref.csv, or check it yourself")
        }
        guard
            Self.isMoreThanTenfold(rule.value, estimate.amount)
                || Self.isMoreThanTenfold(estimate.amount, rule.value)
        else { return nil }
        let side = rule.value > estimate.amount ? "more than ten times" : "less than a tenth of"
        return RuleFault(
            line, .implausibleAmount,
            "\(shown(rule.value, rule)) is \(side) what Apple's other amounts suggest, "
                + shown(estimate.amount, rule), remedy: "correct the amount")
    }

    private static func isMoreThanTenfold(_ large: Int64, _ small: Int64) -> Bool {
        let (tenfold, overflow) = small.multipliedReportingOverflow(by: 10)
        return !overflow && large > tenfold
    }

    private func shown(_ amount: Int64, _ rule: Rule) -> String {
        let decimals = stored.currency(rule.currency)?.decimals ?? 2
        return "\(PriceText.decimal(amount, decimals: decimals)) \(rule.currency)"
    }
}
