/// The columns of a file of rules.
package enum RuleColumn: String, Hashable, Sendable, CaseIterable {
    case rule, storefront, currency
    case periodKind = "period_kind"
    case amount
    case amountMilliunits = "amount_milliunits"
    case required, decimals
    case perEuro = "per_euro"
    case validFrom = "valid_from"
    case source, withdrawn
}

/// The header row of a file of rules, which tells its form. Names are read without regard to capitals and blanks.
enum RuleFileHeader {
    case own([RuleColumn])
    case appleTable([AppleThresholdTable.Column])
    /// The currencies of the columns after `Date`.
    case europeanCentralBank([String])

    init(_ row: HeaderRow) throws(BatchFileError) {
        let names = row.names.map(TableLines.normalized)
        if names.first == "date" {
            self = try RuleFileHeader.bank(row)
        } else if !names.contains(RuleColumn.rule.rawValue),
            names.contains(where: { AppleThresholdTable.Column($0)?.isAmount ?? false })
        {
            self = try RuleFileHeader.apple(row, names)
        } else {
            self = try RuleFileHeader.own(row, names)
        }
    }

    /// Reads `Date, USD, JPY, …`, with a comma at the end.
    private static func bank(_ row: HeaderRow) throws(BatchFileError) -> RuleFileHeader {
        var currencies = Array(row.names.dropFirst())
        if currencies.last == "" { currencies.removeLast() }
        let wrong = currencies.filter { !isCode($0) }
        guard wrong.isEmpty else {
            throw row.fault(
                .unknownColumn, "\(listed(wrong)) is no currency",
                "download the European Central Bank's eurofxref file again")
        }
        guard !currencies.isEmpty else {
            throw row.fault(
                .missingColumn, "no currency follows Date",
                "download the European Central Bank's eurofxref file again")
        }
        try row.refuseTwice(currencies)
        return .europeanCentralBank(currencies)
    }

    private static func apple(
        _ row: HeaderRow, _ names: [String]
    ) throws(BatchFileError) -> RuleFileHeader {
        let columns = names.map(AppleThresholdTable.Column.init)
        let wrong = zip(row.names, columns).filter { $0.1 == nil }.map(\.0)
        guard wrong.isEmpty else {
            throw row.fault(
                .unknownColumn, "there is no column \(listed(wrong))",
                "of Apple's table keep the storefront's code, the currency and the two amounts")
        }
        let known = columns.compactMap { $0 }
        try row.refuseTwice(known.filter { $0 != .ignored }.map(\.name))
        let missing = [AppleThresholdTable.Column.storefront, .currency]
            .filter { !known.contains($0) }
        guard missing.isEmpty else {
            throw row.fault(
                .missingColumn,
                "the column \(missing.map(\.name).joined(separator: ", ")) is missing", "add it")
        }
        return .appleTable(known)
    }

    private static func own(
        _ row: HeaderRow, _ names: [String]
    ) throws(BatchFileError) -> RuleFileHeader {
        let known = RuleColumn.allCases.map(\.rawValue).joined(separator: ", ")
        let wrong = zip(row.names, names).filter { RuleColumn(rawValue: $0.1) == nil }.map(\.0)
        guard wrong.isEmpty else {
            throw row.fault(
                .unknownColumn, "there is no column \(listed(wrong))",
                "use \(known), Apple's table with its columns storefront, currency, non-annual and annual, or the "
                    + "European Central Bank's eurofxref file as it is")
        }
        try row.refuseTwice(names)
        let columns = names.compactMap(RuleColumn.init)
        guard columns.contains(.rule) else {
            throw row.fault(
                .missingColumn, "the column rule is missing",
                "add it: \(RuleRowBuilder.kinds)")
        }
        return .own(columns)
    }

    private static func listed(_ names: [String]) -> String {
        names.map { shownInMessage($0) }.joined(separator: ", ")
    }
}

/// Whether the text is three capital letters, as a storefront or a currency is.
func isCode(_ text: String) -> Bool {
    text.utf8.count == 3
        && text.utf8.allSatisfy { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) }
}
