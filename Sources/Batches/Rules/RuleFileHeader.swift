/// The columns of a file of rules.
package enum RuleColumn: String, Hashable, Sendable, CaseIterable {
    case rule, storefront, currency
    case periodKind = "period_kind"
    case amount
    case amountMilliunits = "amount_milliunits"
    case required, decimals
    case perEuro = "per_euro"
    case validFrom = "valid_from"
    case source
}

/// The header row of a file of rules: it tells the form.
enum RuleFileHeader {
    case own([RuleColumn])
    /// The currencies of the columns after `Date`.
    case europeanCentralBank([String])

    static func read(
        _ scanner: inout LineScanner, file: String
    ) throws(BatchFileError) -> RuleFileHeader {
        let row = try HeaderRow(try scanner.firstLine(of: file), file)
        return row.names.first == "Date" ? try bank(row) : try own(row)
    }

    /// `Date, USD, JPY, …` with a comma at the end.
    private static func bank(_ row: HeaderRow) throws(BatchFileError) -> RuleFileHeader {
        var currencies = Array(row.names.dropFirst())
        if currencies.last == "" { currencies.removeLast() }
        if let wrong = currencies.first(where: { !isCode($0) }) {
            throw row.fault(
                .unknownColumn, "\(shownInMessage(wrong)) is no currency",
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

    private static func own(_ row: HeaderRow) throws(BatchFileError) -> RuleFileHeader {
        let names = row.names
        let known = RuleColumn.allCases.map(\.rawValue).joined(separator: ", ")
        if let wrong = names.first(where: { RuleColumn(rawValue: $0) == nil }) {
            throw row.fault(
                .unknownColumn, "there is no column \(shownInMessage(wrong))",
                "use \(known), or the European Central Bank's eurofxref file as it is")
        }
        try row.refuseTwice(names)
        let columns = names.compactMap(RuleColumn.init)
        guard columns.contains(.rule) else {
            throw row.fault(
                .missingColumn, "the column rule is missing",
                "add it: \(RuleRowBuilder.kinds.joined(separator: ", "))")
        }
        return .own(columns)
    }
}

/// Three capital letters: a storefront or a currency.
func isCode(_ text: String) -> Bool {
    text.utf8.count == 3
        && text.utf8.allSatisfy { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) }
}
