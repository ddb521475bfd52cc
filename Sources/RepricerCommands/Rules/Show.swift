import Batches
import Pricing

extension Commands {
    static let rulesShow = Command(
        "rules show",
        "show the consent thresholds, currency decimals and exchange rates in force",
        options: [asOf],
        discussion: """
            Amounts are for one period. `rules import` changes them; what was in force at an earlier instant is \
            still shown with --as-of.
            """
    ) { invocation in
        let configuration = try invocation.configuration()
        let now = try await invocation.instant(asOf, configuration)
        let (rules, latest) = try await invocation.withPool(configuration) { pool in
            try await pool.withTransaction { connection in
                (
                    try RuleQueries.load(.at, now, on: connection),
                    try RuleQueries.latestImport(on: connection)
                )
            }
        }
        let shown = RulesShown(asOf: now, latest: latest, rules: rules.inForce(at: now))
        try invocation.print(json: shown.json, shown.text)
        return .done
    }
}

/// The rows that judge at one instant.
struct RulesShown {
    let asOf: Instant
    let latest: RuleQueries.Import?
    let rules: RulesInForce

    private var alwaysConsent: [RuleSet.AlwaysConsent] {
        rules.alwaysConsentRows.filter(\.isRequired)
    }

    var text: String {
        let storefronts = alwaysConsent.map(\.storefront).joined(separator: " ")
        let hasRates = !rules.exchangeRateRows.isEmpty
        let basis =
            hasRates
            ? "is estimated from the USA's by exchange rates, rounded down; without a rate, above 50 % "
                + "it is not known whether consent is needed."
            : "is not known to need consent above 50 %, or not to: no exchange rates are loaded."
        var text = "Consent is needed above 50 % and above the threshold, as of \(asOf.text).\n"
        text += "A storefront without a row \(basis)\n"
        text += "Storefronts that always need consent: "
        text += "\(storefronts.isEmpty ? "none known" : storefronts)\n"
        if let latest {
            text += "Version \(latest.revision) of the rules: \(harmless(latest.file)), "
            text +=
                "\(latest.importedAt?.text ?? "since ever"), by \(harmless(latest.importedBy)).\n"
        }
        let tables = [
            rules.thresholdRows.table(Self.thresholds, isShownEmpty: true),
            rules.currencyRows.table(Self.currencies, isShownEmpty: true),
            rules.exchangeRateRows.table(Self.rates),
            hasRates ? rules.estimateRows.table(Self.estimates, isShownEmpty: true) : "",
        ]
        return text + tables.filter { !$0.isEmpty }.map { "\n" + $0 }.joined()
    }

    var json: JSONValue {
        [
            "as_of": asOf, "version": latest?.revision, "imported_by": latest?.importedBy,
            "imported_at": latest?.importedAt, "file": latest?.file,
            "thresholds": rules.thresholdRows.json(Self.thresholds),
            "always_consent": alwaysConsent.json([
                .key("storefront") { $0.storefront }, .key("source") { $0.source.rawValue },
                .key("valid_from") { $0.validFrom },
            ]), "currencies": rules.currencyRows.json(Self.currencies),
            "exchange_rates": rules.exchangeRateRows.json(Self.rates),
            "estimates": rules.estimateRows.json(Self.estimates),
        ]
    }

    private static let thresholds: [Column<RuleSet.Threshold>] = [
        .text("STOREFRONT", "storefront") { $0.storefront },
        .text("CURRENCY", "currency") { $0.currency },
        .text("PERIOD", "period_kind") { $0.kind.rawValue },
        .shown(.right("THRESHOLD")) { shownPrice($0.amount, currency: $0.currency) },
        .key("amount_milliunits") { $0.amount }, .text("SOURCE", "source") { $0.source.rawValue },
        .text("SINCE", "valid_from", none: "ever") { $0.validFrom?.text },
    ]

    private static let currencies: [Column<RuleSet.CurrencyRule>] = [
        .text("CURRENCY", "currency") { $0.currency.code },
        .number("DECIMALS", "decimals") { $0.currency.decimals },
        .text("SOURCE", "source") { $0.source.rawValue },
        .text("SINCE", "valid_from", none: "ever") { $0.validFrom?.text },
    ]

    private static let rates: [Column<RuleSet.ExchangeRate>] = [
        .text("CURRENCY", "currency") { $0.currency },
        .shown(.right("PER EURO")) { $0.perEuro.text }, .key("per_euro") { $0.perEuro.text },
        .text("SOURCE", "source") { $0.source },
        .text("SINCE", "valid_from", none: "ever") { $0.validFrom?.text },
    ]

    private static let estimates: [Column<RulesInForce.Estimate>] = [
        .text("CURRENCY", "currency") { $0.currency },
        .text("PERIOD", "period_kind") { $0.kind.rawValue },
        .shown(.right("ESTIMATED THRESHOLD")) { shownPrice($0.amount, currency: $0.currency) },
        .key("amount_milliunits") { $0.amount },
        .key("source") { _ in RuleSource.estimated.rawValue },
    ]
}
