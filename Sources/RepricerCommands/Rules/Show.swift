import Batches
import Pricing
import Reports

extension Commands {
    private static let missing = Flag(
        "missing", "show what no row answers, and what to import for it")

    static let rulesShow = Command(
        "rules show",
        "show the consent thresholds, currency decimals and exchange rates in force",
        options: [asOf, missing],
        discussion: """
            Amounts are for one period. `rules import` changes them; what was in force at an earlier instant, as it \
            was known then, is still shown with --as-of. An estimate is the median of Apple's amounts in the currency, \
            or of all of them by the exchange rates; the error says how far one of them lies from it. An increase \
            that is closer to an estimate than its error is not known to need consent.
            """
    ) { invocation in
        let configuration = try invocation.configuration()
        let known = try invocation.known(asOf)
        let now = try await invocation.instant(asOf, configuration)
        let isMissing = invocation.arguments[missing]
        let (rules, latest, storefronts) = try await invocation.withPool(configuration) { pool in
            try await pool.withTransaction { connection in
                (
                    try RuleQueries.load(.at, now, knownAt: known, on: connection),
                    try RuleQueries.latestImport(knownAt: known, on: connection),
                    isMissing ? try StorefrontQueries.open(on: connection) : [:]
                )
            }
        }
        let inForce = rules.inForce(at: now)
        if isMissing {
            let shown = MissingRules(asOf: now, rules: inForce, open: storefronts)
            try invocation.print(json: shown.json, shown.text)
        } else {
            let shown = RulesShown(asOf: now, latest: latest, rules: inForce)
            try invocation.print(json: shown.json, shown.text)
        }
        return .done
    }
}

/// The rows that judge at one instant.
struct RulesShown {
    let asOf: Instant
    let latest: RuleQueries.Import?
    let rules: RulesInForce

    private var alwaysConsent: [Rule] { rules.rows(of: .alwaysConsent).filter(\.isRequired) }

    var text: String {
        let storefronts = alwaysConsent.map(\.storefront).joined(separator: " ")
        let hasRates = !rules.rows(of: .exchangeRate).isEmpty
        var text = wrapped(
            "Consent is needed above 50 % and above the threshold, as of \(asOf.text).")
        text += wrapped(
            "A storefront without a row is judged by the estimate of its currency: the median of Apple's "
                + "amounts, rounded down. Closer to it than its error, or without an estimate, it is not "
                + "known above 50 % whether consent is needed"
                + (hasRates ? "." : "; no exchange rates are loaded."))
        text += wrapped(
            "Storefronts that always need consent: "
                + (storefronts.isEmpty ? "none known" : storefronts))
        if let latest {
            text += wrapped(
                "Version \(latest.revision) of the rules: \(harmless(latest.file)), "
                    + "\(latest.importedAt?.text ?? "since ever"), by \(harmless(latest.importedBy))."
            )
        }
        let tables = [
            rules.rows(of: .alwaysConsent).table(Self.alwaysConsentColumns),
            rules.rows(of: .threshold).table(Self.thresholds, isShownEmpty: true),
            rules.rows(of: .currency).table(Self.currencies, isShownEmpty: true),
            rules.rows(of: .exchangeRate).table(Self.rates),
            rules.estimateRows.table(Self.estimates),
        ]
        return text + tables.filter { !$0.isEmpty }.map { "\n" + $0 }.joined()
    }

    var json: JSONValue {
        [
            "as_of": asOf, "version": latest?.revision, "imported_by": latest?.importedBy,
            "imported_at": latest?.importedAt, "file": latest?.file,
            "thresholds": rules.rows(of: .threshold).json(Self.thresholds),
            "always_consent": alwaysConsent.json(Self.alwaysConsentColumns),
            "not_always_consent": rules.rows(of: .alwaysConsent).filter { !$0.isRequired }
                .json(Self.alwaysConsentColumns),
            "currencies": rules.rows(of: .currency).json(Self.currencies),
            "exchange_rates": rules.rows(of: .exchangeRate).json(Self.rates),
            "estimates": rules.estimateRows.json(Self.estimates),
        ]
    }

    private static let alwaysConsentColumns: [Column<Rule>] =
        [
            .text("STOREFRONT", "storefront") { $0.storefront },
            .shown(.left("ALWAYS ASKS")) { $0.isRequired ? "yes" : "no" },
        ] + origin

    private static let thresholds: [Column<Rule>] =
        [
            .text("STOREFRONT", "storefront") { $0.storefront },
            .text("CURRENCY", "currency") { $0.currency },
            .text("PERIOD", "period_kind") { $0.key.periodKind?.rawValue },
            .shown(.right("THRESHOLD")) { price($0.value, currency: $0.currency) },
            .key("amount_milliunits") { $0.value },
        ] + origin

    private static let currencies: [Column<Rule>] =
        [
            .text("CURRENCY", "currency") { $0.currency },
            .number("DECIMALS", "decimals") { $0.value },
        ] + origin

    private static let rates: [Column<Rule>] =
        [
            .text("CURRENCY", "currency") { $0.currency },
            .shown(.right("PER EURO")) { $0.perEuro.text }, .key("per_euro") { $0.perEuro.text },
        ] + origin

    private static let origin: [Column<Rule>] = [
        .text("SOURCE", "source") { $0.source },
        .text("SINCE", "valid_from", none: "ever") { $0.validFrom?.text },
        .text("RECORDED", "recorded_at", none: "shipped") { $0.recordedAt?.text },
    ]

    private static let estimates: [Column<RulesInForce.Estimate>] = [
        .text("CURRENCY", "currency") { $0.currency },
        .text("PERIOD", "period_kind") { $0.kind.rawValue },
        .shown(.right("ESTIMATED THRESHOLD")) { price($0.amount, currency: $0.currency) },
        .key("amount_milliunits") { $0.amount },
        .shown(.right("MAY BE OFF BY")) { price($0.error, currency: $0.currency) },
        .key("error_milliunits") { $0.error },
        .number("OF APPLE'S AMOUNTS", "rows") { $0.rows },
        .text("IN", "basis") { $0.isConverted ? "all_currencies" : "same_currency" },
        .key("source") { _ in RuleSource.estimated.rawValue },
    ]
}
