package import Pricing

/// One rule of any kind: what `rules import` compares, shows and stores.
package enum RuleRow: Hashable, Sendable {
    case threshold(RuleSet.Threshold)
    case alwaysConsent(RuleSet.AlwaysConsent)
    case currency(RuleSet.CurrencyRule)
    case exchangeRate(RuleSet.ExchangeRate)

    /// What the rule is about. Of two rules with the same key the later one holds.
    package var key: String {
        switch self {
        case .threshold(let row):
            "threshold \(row.storefront) \(row.currency) \(row.kind.rawValue)"
        case .alwaysConsent(let row): "always_consent \(row.storefront)"
        case .currency(let row): "currency \(row.currency.code)"
        case .exchangeRate(let row): "exchange_rate \(row.currency)"
        }
    }

    /// What the rule says, and its source.
    package var value: String {
        switch self {
        case .threshold(let row):
            "\(PriceText.decimal(row.amount)) \(row.currency) (\(row.source.rawValue))"
        case .alwaysConsent(let row):
            "\(row.isRequired ? "required" : "not required") (\(row.source.rawValue))"
        case .currency(let row): "\(row.currency.decimals) decimals (\(row.source.rawValue))"
        case .exchangeRate(let row): "\(row.perEuro.text) per EUR (\(row.source))"
        }
    }

    /// From when it holds; nil where it has always held.
    package var validFrom: Instant? {
        get {
            switch self {
            case .threshold(let row): row.validFrom
            case .alwaysConsent(let row): row.validFrom
            case .currency(let row): row.validFrom
            case .exchangeRate(let row): row.validFrom
            }
        }
        set {
            switch self {
            case .threshold(var row):
                row.validFrom = newValue
                self = .threshold(row)
            case .alwaysConsent(var row):
                row.validFrom = newValue
                self = .alwaysConsent(row)
            case .currency(var row):
                row.validFrom = newValue
                self = .currency(row)
            case .exchangeRate(var row):
                row.validFrom = newValue
                self = .exchangeRate(row)
            }
        }
    }
}

extension RuleSet {
    /// Every row, in the order in which rows of the same date follow each other.
    var rows: [RuleRow] {
        thresholds.map(RuleRow.threshold) + alwaysConsent.map(RuleRow.alwaysConsent)
            + currencies.map(RuleRow.currency) + exchangeRates.map(RuleRow.exchangeRate)
    }

    init(_ rows: some Sequence<RuleRow>) {
        self.init(thresholds: [], alwaysConsent: [], currencies: [])
        for row in rows {
            switch row {
            case .threshold(let row): thresholds.append(row)
            case .alwaysConsent(let row): alwaysConsent.append(row)
            case .currency(let row): currencies.append(row)
            case .exchangeRate(let row): exchangeRates.append(row)
            }
        }
    }
}
