import Batches
import Pricing

/// What the rules in force leave open: currencies without any amount, storefronts without Apple's own word.
struct MissingRules {
    struct MissingCurrency {
        let code: String
        /// The kinds of period without a row and without an estimate.
        let kinds: [PeriodKind]
        let imports: [String]
    }

    struct MissingStorefront {
        let code: String
        /// Subscriptions that have not ended.
        let subscriptions: Int64
        /// The kinds of period without a row of Apple's.
        let kinds: [PeriodKind]
        let always: AlwaysWord
        let imports: [String]
    }

    /// What the list of storefronts that always ask for consent says about a storefront.
    enum AlwaysWord: String {
        case listed
        /// It is not in the list, but Apple gives an amount for it, so it does not always ask for consent.
        case inferred
        case missing
    }

    let asOf: Instant
    let currencies: [MissingCurrency]
    let storefronts: [MissingStorefront]

    init(asOf: Instant, rules: RulesInForce, open: [String: Int64]) {
        self.asOf = asOf
        currencies = rules.rows(of: .currency).map(\.currency).compactMap { code in
            let kinds = PeriodKind.allCases.filter {
                rules.estimate(currency: code, kind: $0) == nil
            }
            guard !kinds.isEmpty else { return nil }
            let rates = [code, "USD"].filter { rules.exchangeRate($0) == nil }
            return MissingCurrency(
                code: code, kinds: kinds,
                imports: rates.map { "exchange_rate \($0)" })
        }
        let listed = Set(rules.rows(of: .alwaysConsent).map(\.storefront))
        var known: [String: Set<PeriodKind>] = [:]
        for row in rules.rows(of: .threshold) where row.isApples {
            if let kind = row.key.periodKind { known[row.storefront, default: []].insert(kind) }
        }
        storefronts = AppStorefronts.all.union(open.keys).sorted().compactMap { code in
            let kinds = PeriodKind.allCases.filter { known[code]?.contains($0) != true }
            let always: AlwaysWord =
                listed.contains(code) ? .listed : known[code] == nil ? .missing : .inferred
            guard !kinds.isEmpty || always != .listed else { return nil }
            return MissingStorefront(
                code: code, subscriptions: open[code] ?? 0, kinds: kinds, always: always,
                imports: kinds.map { "threshold \(code) \($0.rawValue)" }
                    + (always == .missing ? ["always_consent \(code)"] : []))
        }
    }

    var text: String {
        var text = "What no row in force answers, as of \(asOf.text).\n"
        text += currencies.isEmpty ? "Each currency has a row or an estimate.\n" : currencyText
        let open = storefronts.filter { $0.subscriptions > 0 && !$0.imports.isEmpty }
        text += "\n"
        text +=
            open.isEmpty
            ? "Each storefront with open subscriptions has Apple's amounts.\n"
            : open.table(Self.storefrontColumns)
        let others = storefronts.filter { $0.subscriptions == 0 }
        let withoutAmount = others.filter { !$0.kinds.isEmpty }.map(\.code)
        let unlisted = others.filter { $0.always == .missing }.map(\.code)
        text += Self.list(
            "Without an amount of Apple's, and without open subscriptions:", withoutAmount)
        let question =
            "Not in the list of storefronts that always ask, and without open subscriptions:"
        text +=
            unlisted == withoutAmount && !unlisted.isEmpty
            ? "\n" + wrapped("\(question) the same.") : Self.list(question, unlisted)
        text += Self.list(
            "Not in that list, but Apple gives an amount, so that they do not always ask:",
            storefronts.filter { $0.always == .inferred }.map(\.code))
        guard !currencies.isEmpty || storefronts.contains(where: { !$0.imports.isEmpty }) else {
            return text
        }
        return text + "\n"
            + wrapped(
                "Import what Apple says with repricer rules import: rows of threshold and always_consent "
                    + "a storefront; a currency needs its exchange_rate (or the European Central Bank's "
                    + "file), or one threshold in it.")
    }

    /// The currencies grouped by what they lack, and what an estimate for them needs.
    private var currencyText: String {
        let alike = Dictionary(grouping: currencies) { Self.shown($0.kinds) }
        let lists = alike.sorted { $0.key < $1.key }.map { kinds, currencies in
            Self.list("Without a row or an estimate (\(kinds)):", currencies.map(\.code))
        }
        let rates = currencies.filter { $0.imports.contains("exchange_rate \($0.code)") }
        let hasDollar = !currencies.contains { $0.imports.contains("exchange_rate USD") }
        return lists.joined()
            + (rates.isEmpty
                ? "" : Self.list("Of these without an exchange rate:", rates.map(\.code)))
            + (hasDollar
                ? "" : wrapped("No exchange rate of USD is loaded: every estimate needs it."))
    }

    private static func list(_ heading: String, _ codes: [String]) -> String {
        guard !codes.isEmpty else { return "" }
        return "\n" + wrapped("\(heading) \(codes.joined(separator: " "))")
    }

    var json: JSONValue {
        [
            "as_of": asOf, "currencies": currencies.json(Self.currencyColumns),
            "storefronts": storefronts.json(Self.storefrontColumns),
        ]
    }

    private static let currencyColumns: [Column<MissingCurrency>] = [
        .key("currency") { $0.code }, .key("missing_kinds") { $0.kinds.map(\.rawValue) },
        .key("import") { $0.imports },
    ]

    private static let storefrontColumns: [Column<MissingStorefront>] = [
        .text("STOREFRONT", "storefront") { $0.code },
        .count("SUBSCRIPTIONS", "subscriptions") { $0.subscriptions },
        .shown(.left("WITHOUT APPLE'S AMOUNT")) { shown($0.kinds) },
        .key("missing_kinds") { $0.kinds.map(\.rawValue) },
        .text("ALWAYS ASKS", "always_consent") { $0.always.rawValue },
        .key("import") { $0.imports },
    ]

    private static func shown(_ kinds: [PeriodKind]) -> String {
        kinds.isEmpty ? "-" : kinds.map(\.rawValue).joined(separator: ", ")
    }
}
