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

/// The header row of a file of rules, which decides its format. Names are compared without regard to case and blanks.
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
            let list = wrong.map { shownInMessage($0) }.joined(separator: ", ")
            throw row.fault(
                .unknownColumn, "\(list) is no currency",
                "download the European Central Bank's eurofxref file again")
        }
        guard !currencies.isEmpty else {
            throw row.fault(
                .missingColumn, "no currency follows Date",
                "download the European Central Bank's eurofxref file again")
        }
        try row.refuse(row.twice(currencies))
        return .europeanCentralBank(currencies)
    }

    private static func apple(
        _ row: HeaderRow, _ names: [String]
    ) throws(BatchFileError) -> RuleFileHeader {
        let columns = names.map(AppleThresholdTable.Column.init)
        let known = columns.compactMap { $0 }
        let read = known.filter { $0 != .ignored }.map(\.name)
        try row.refuse(
            row.unknown(
                zip(row.names, columns).filter { $0.1 == nil }.map(\.0),
                "of Apple's table keep the storefront's code, the currency and the two amounts"),
            row.twice(read),
            row.missing(
                [AppleThresholdTable.Column.storefront, .currency].map(\.name), among: read))
        return .appleTable(known)
    }

    private static func own(
        _ row: HeaderRow, _ names: [String]
    ) throws(BatchFileError) -> RuleFileHeader {
        let known = RuleColumn.allCases.map(\.rawValue)
        try row.refuse(
            row.unknown(
                zip(row.names, names).filter { !known.contains($0.1) }.map(\.0),
                "use \(known.joined(separator: ", ")), Apple's table with its columns storefront, currency, non-annual "
                    + "and annual, or the European Central Bank's eurofxref file as it is"),
            row.twice(names.filter(known.contains)),
            row.missing(
                [RuleColumn.rule.rawValue], among: names, "add it: \(RuleRowBuilder.kinds)"))
        return .own(names.compactMap(RuleColumn.init))
    }
}

/// Whether the text is three capital letters, as a storefront or a currency is.
func isCode(_ text: String) -> Bool {
    text.utf8.count == 3
        && text.utf8.allSatisfy { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) }
}
