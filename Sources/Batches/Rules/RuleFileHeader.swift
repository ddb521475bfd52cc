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
        while var line = try scanner.next() {
            if line.number == 1 { try BatchHeader.stripMark(&line, file) }
            if line.bytes.isEmpty { continue }
            guard !line.isTooLong, case .cells(let cells) = CSVRecord(line.bytes) else {
                throw failure(
                    .badHeader, "the header row is no CSV", "begin with the column names", file,
                    line)
            }
            let names = cells.map { trimmed(String(decoding: $0, as: UTF8.self)) }
            return names.first == "Date"
                ? try bank(names, file, line) : try own(names, file, line)
        }
        throw BatchFileError(
            code: .emptyFile, file: file, line: nil, message: "the file has no rows",
            remedy: "begin with a header row")
    }

    /// `Date, USD, JPY, …` with a comma at the end.
    private static func bank(
        _ names: [String], _ file: String, _ line: PhysicalLine
    ) throws(BatchFileError) -> RuleFileHeader {
        var currencies = Array(names.dropFirst())
        if currencies.last == "" { currencies.removeLast() }
        if let wrong = currencies.first(where: { !isCode($0) }) {
            throw failure(
                .unknownColumn, "\(shownInMessage(wrong)) is no currency",
                "download the European Central Bank's eurofxref file again", file, line)
        }
        guard !currencies.isEmpty else {
            throw failure(
                .missingColumn, "no currency follows Date",
                "download the European Central Bank's eurofxref file again", file, line)
        }
        try refuseTwice(currencies, file, line)
        return .europeanCentralBank(currencies)
    }

    private static func own(
        _ names: [String], _ file: String, _ line: PhysicalLine
    ) throws(BatchFileError) -> RuleFileHeader {
        let known = RuleColumn.allCases.map(\.rawValue).joined(separator: ", ")
        if let wrong = names.first(where: { RuleColumn(rawValue: $0) == nil }) {
            throw failure(
                .unknownColumn, "there is no column \(shownInMessage(wrong))",
                "use \(known), or the European Central Bank's eurofxref file as it is", file, line)
        }
        try refuseTwice(names, file, line)
        let columns = names.compactMap(RuleColumn.init)
        guard columns.contains(.rule) else {
            throw failure(
                .missingColumn, "the column rule is missing",
                "add it: \(RuleRowBuilder.kinds.joined(separator: ", "))", file, line)
        }
        return .own(columns)
    }

    private static func refuseTwice(
        _ names: [String], _ file: String, _ line: PhysicalLine
    ) throws(BatchFileError) {
        var seen: Set<String> = []
        for name in names where !seen.insert(name).inserted {
            throw failure(
                .duplicateColumn, "the column \(name) is there twice", "keep one", file, line)
        }
    }

    private static func failure(
        _ code: BatchFileError.Code, _ message: String, _ remedy: String, _ file: String,
        _ line: PhysicalLine
    ) -> BatchFileError {
        BatchFileError(
            code: code, file: file, line: line.number, message: message, remedy: remedy)
    }
}

/// Three capital letters: a storefront or a currency.
func isCode(_ text: String) -> Bool {
    text.utf8.count == 3
        && text.utf8.allSatisfy { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) }
}
