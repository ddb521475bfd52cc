import Pricing

/// Apple's own table of thresholds, copied from its help: a storefront, its currency and both amounts in a row.
enum AppleThresholdTable {
    enum Column: Hashable {
        case storefront, currency, nonannual, annual, validFrom
        /// The name of the country, which is not read.
        case ignored

        /// The column by its normalised name, as Apple and those who copy the table write it; nil for any other name.
        init?(_ name: String) {
            switch name {
            case "country_code", "region_code", "country_or_region_code", "territory",
                "territory_code":
                self = .storefront
            case _ where name.hasPrefix("storefront") || name == "iso" || name.hasPrefix("iso_"):
                self = .storefront
            case "currency", "currency_code", "cur": self = .currency
            case "valid_from": self = .validFrom
            case "country", "region", "country_or_region": self = .ignored
            case _ where name.hasPrefix("non_annual") || name.hasPrefix("nonannual"):
                self = .nonannual
            case _ where name.hasPrefix("annual"): self = .annual
            case _: return nil
            }
        }

        var isAmount: Bool { self == .nonannual || self == .annual }

        var name: String {
            switch self {
            case .storefront: "storefront"
            case .currency: "currency"
            case .nonannual: "non-annual"
            case .annual: "annual"
            case .validFrom: "valid_from"
            case .ignored: "country"
            }
        }
    }

    /// Makes one row for each amount, with Apple as its source.
    static func read(_ line: Int, _ texts: [String], _ columns: [Column]) -> RuleFile.ReadLine {
        guard texts.count == columns.count else {
            return RuleFile.ReadLine(
                faults: [RuleRowBuilder.miscounted(line, texts.count, columns.count)])
        }
        var found: [Column: String] = [:]
        for (column, text) in zip(columns, texts) where !text.isEmpty { found[column] = text }
        let amounts: [(PeriodKind, String)] = [
            (.nonannual, found[.nonannual]), (.annual, found[.annual]),
        ].compactMap { kind, text in text.map { (kind, $0) } }
        guard !amounts.isEmpty else {
            return RuleFile.ReadLine(faults: [
                RuleFault(
                    line, .badAmount, "the row has no amount",
                    remedy: "write the non-annual or the annual one")
            ])
        }
        var read = RuleFile.ReadLine()
        for (kind, text) in amounts {
            var values: [RuleColumn: String] = [
                .rule: "threshold", .periodKind: kind.rawValue, .amount: text,
            ]
            values[.storefront] = found[.storefront]
            values[.currency] = found[.currency]
            values[.validFrom] = found[.validFrom]
            let one = RuleRowBuilder.read(line, values)
            read.rows += one.rows
            for fault in one.faults where !read.faults.contains(fault) { read.faults.append(fault) }
        }
        return read
    }
}
