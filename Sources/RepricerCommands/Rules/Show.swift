import Pricing

extension Commands {
    static let rulesShow = Command(
        "rules show", "show the consent thresholds and currency decimals in force",
        options: [asOf],
        discussion:
            "Reads no database: these rules come with the program. Amounts are for one period."
    ) { invocation in
        var instant = try invocation.arguments.instant(asOf)
        if instant == nil {
            instant = try await invocation.now(invocation.configuration()).milliseconds
        }
        let now = Instant(milliseconds: instant ?? 0)
        let rules = RulesShown(RuleSet.shipped, at: now)
        try invocation.print(invocation.isJSON ? rules.json.text + "\n" : rules.text)
        return .done
    }
}

/// The rows of a rule set that judge at one instant.
private struct RulesShown {
    let asOf: Instant
    let thresholds: [RuleSet.Threshold]
    let alwaysConsent: [RuleSet.AlwaysConsent]
    let currencies: [RuleSet.CurrencyRule]

    init(_ rules: RuleSet, at now: Instant) {
        let inForce = rules.inForce(at: now)
        asOf = now
        thresholds = rules.thresholds.filter {
            inForce.threshold(storefront: $0.storefront, currency: $0.currency, kind: $0.kind) == $0
        }.sorted {
            ($0.storefront, $0.currency, $0.kind.rawValue)
                < ($1.storefront, $1.currency, $1.kind.rawValue)
        }
        alwaysConsent = rules.alwaysConsent.filter {
            inForce.alwaysConsent(storefront: $0.storefront) == $0 && $0.isRequired
        }.sorted { $0.storefront < $1.storefront }
        currencies = rules.currencies.filter { inForce.currency($0.currency.code) == $0.currency }
            .sorted { $0.currency.code < $1.currency.code }
    }

    var text: String {
        var amounts = Table([
            .left("STOREFRONT"), .left("CURRENCY"), .left("PERIOD"), .right("THRESHOLD"),
            .left("SOURCE"), .left("SINCE"),
        ])
        for row in thresholds {
            amounts.add([
                row.storefront, row.currency, row.kind.rawValue,
                shownPrice(row.amount, currency: row.currency), row.source.rawValue,
                row.validFrom?.text ?? "ever",
            ])
        }
        var decimals = Table([.left("CURRENCY"), .right("DECIMALS"), .left("SOURCE")])
        for row in currencies {
            decimals.add([row.currency.code, "\(row.currency.decimals)", row.source.rawValue])
        }
        let storefronts = alwaysConsent.map(\.storefront).joined(separator: " ")
        return "Consent is needed above 50 % and above the threshold, as of \(asOf.text).\n"
            + "A storefront without a row is judged as needing consent above 50 %.\n"
            + "Storefronts that always need consent: \(storefronts.isEmpty ? "none known" : storefronts)\n\n"
            + amounts.text + "\n" + decimals.text
    }

    var json: JSONValue {
        .object([
            "as_of": .string(asOf.text),
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
            "always_consent": .array(alwaysConsent.map { .string($0.storefront) }),
            "currencies": .array(
                currencies.map { row in
                    .object([
                        "currency": .string(row.currency.code),
                        "decimals": .integer(Int64(row.currency.decimals)),
                        "source": .string(row.source.rawValue),
                    ])
                }),
        ])
    }
}
