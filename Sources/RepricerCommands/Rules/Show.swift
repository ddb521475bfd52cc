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
        let shown = RulesShown(rules, at: now, latest: latest)
        try invocation.print(invocation.isJSON ? shown.json.text + "\n" : shown.text)
        return .done
    }
}

/// The rows that judge at one instant.
struct RulesShown {
    let asOf: Instant
    let latest: RuleQueries.Import?
    let thresholds: [RuleSet.Threshold]
    let alwaysConsent: [RuleSet.AlwaysConsent]
    let currencies: [RuleSet.CurrencyRule]
    let exchangeRates: [RuleSet.ExchangeRate]
    let estimates: [RulesInForce.Estimate]

    init(_ rules: RuleSet, at now: Instant, latest: RuleQueries.Import?) {
        let inForce = rules.inForce(at: now)
        asOf = now
        self.latest = latest
        thresholds = inForce.thresholdRows
        alwaysConsent = inForce.alwaysConsentRows.filter(\.isRequired)
        currencies = inForce.currencyRows
        exchangeRates = inForce.exchangeRateRows
        estimates = inForce.estimateRows
    }

    var text: String {
        let storefronts = alwaysConsent.map(\.storefront).joined(separator: " ")
        let basis =
            exchangeRates.isEmpty
            ? "is judged as needing consent above 50 %: no exchange rates are loaded."
            : "is estimated from the USA's by exchange rates, rounded down; without a rate, above 50 % "
                + "consent is needed."
        var text = "Consent is needed above 50 % and above the threshold, as of \(asOf.text).\n"
        text += "A storefront without a row \(basis)\n"
        text += "Storefronts that always need consent: "
        text += "\(storefronts.isEmpty ? "none known" : storefronts)\n"
        if let latest {
            text += "Version \(latest.revision) of the rules: \(harmless(latest.file)), "
            text +=
                "\(latest.importedAt?.text ?? "since ever"), by \(harmless(latest.importedBy)).\n"
        }
        text += "\n" + amountsTable + "\n" + decimalsTable
        return exchangeRates.isEmpty ? text : text + "\n" + ratesTable + "\n" + estimatesTable
    }

    private var amountsTable: String {
        var table = Table([
            .left("STOREFRONT"), .left("CURRENCY"), .left("PERIOD"), .right("THRESHOLD"),
            .left("SOURCE"), .left("SINCE"),
        ])
        for row in thresholds {
            table.add([
                row.storefront, row.currency, row.kind.rawValue,
                shownPrice(row.amount, currency: row.currency), row.source.rawValue,
                row.validFrom?.text ?? "ever",
            ])
        }
        return table.text
    }

    private var decimalsTable: String {
        var table = Table([
            .left("CURRENCY"), .right("DECIMALS"), .left("SOURCE"), .left("SINCE"),
        ])
        for row in currencies {
            table.add([
                row.currency.code, "\(row.currency.decimals)", row.source.rawValue,
                row.validFrom?.text ?? "ever",
            ])
        }
        return table.text
    }

    private var estimatesTable: String {
        var table = Table([.left("CURRENCY"), .left("PERIOD"), .right("ESTIMATED THRESHOLD")])
        for row in estimates {
            table.add([
                row.currency, row.kind.rawValue, shownPrice(row.amount, currency: row.currency),
            ])
        }
        return table.text
    }

    private var ratesTable: String {
        var table = Table([
            .left("CURRENCY"), .right("PER EURO"), .left("SOURCE"), .left("SINCE"),
        ])
        for row in exchangeRates {
            table.add([
                row.currency, row.perEuro.text, row.source, row.validFrom?.text ?? "ever",
            ])
        }
        return table.text
    }
}

extension RulesShown {
    var json: JSONValue {
        .object([
            "as_of": .string(asOf.text),
            "version": .number(latest.map { Int64($0.revision) }),
            "imported_by": .text(latest?.importedBy),
            "imported_at": .text(latest?.importedAt?.text),
            "file": .text(latest?.file),
            "thresholds": .array(
                thresholds.map { row in
                    .object([
                        "storefront": .string(row.storefront), "currency": .string(row.currency),
                        "period_kind": .string(row.kind.rawValue),
                        "amount_milliunits": .integer(row.amount),
                        "source": .string(row.source.rawValue),
                        "valid_from": .text(row.validFrom?.text),
                    ])
                }),
            "always_consent": .array(
                alwaysConsent.map { row in
                    .object([
                        "storefront": .string(row.storefront),
                        "source": .string(row.source.rawValue),
                        "valid_from": .text(row.validFrom?.text),
                    ])
                }),
            "currencies": .array(
                currencies.map { row in
                    .object([
                        "currency": .string(row.currency.code),
                        "decimals": .integer(Int64(row.currency.decimals)),
                        "source": .string(row.source.rawValue),
                        "valid_from": .text(row.validFrom?.text),
                    ])
                }),
            "exchange_rates": .array(
                exchangeRates.map { row in
                    .object([
                        "currency": .string(row.currency), "per_euro": .string(row.perEuro.text),
                        "source": .string(row.source), "valid_from": .text(row.validFrom?.text),
                    ])
                }),
            "estimates": .array(
                estimates.map { row in
                    .object([
                        "currency": .string(row.currency),
                        "period_kind": .string(row.kind.rawValue),
                        "amount_milliunits": .integer(row.amount),
                        "source": .string(RuleSource.estimated.rawValue),
                    ])
                }),
        ])
    }
}
