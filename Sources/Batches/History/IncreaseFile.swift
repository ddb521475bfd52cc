package import Pricing

/// A file of past increases that was read: the rows, and all that is wrong with them.
package struct IncreaseFile: Hashable, Sendable {
    package struct Row: Hashable, Sendable {
        package var line: Int
        package var increase: ImportedIncrease
    }

    enum Column: String, Hashable, CaseIterable {
        case id = "original_transaction_id"
        case sku
        case increasedOn = "increased_on"
        case oldPrice = "old_price"
        case newPrice = "new_price"
        case currency
    }

    static let linesMax = 200_000

    package private(set) var rows: [Row] = []
    /// The faults in the order of lines. A file with a fault is not imported at all.
    package private(set) var faults: [IncreaseFault] = []

    /// Reads a whole file. `rules` name the currencies. An increase after the day of `now` is refused, because it is
    /// not past. Throws where the file cannot be read as past increases.
    package init(
        source: any BatchByteSource, file: String, rules: RulesInForce, now: Instant
    ) throws(BatchFileError) {
        let table = try TableLines(source, file: file, limit: IncreaseFile.linesMax)
        let columns = try IncreaseFile.columns(table.header)
        try table.refuseEmpty(file)
        faults = table.faults.map {
            IncreaseFault($0.line, .malformedRow, $0.message, remedy: $0.remedy)
        }
        var lines: [ImportedIncrease.Key: Int] = [:]
        for line in table.lines(columns, decimals: [.oldPrice, .newPrice]) {
            guard line.cells.count == columns.count else {
                faults.append(
                    IncreaseFault(
                        line.number, .malformedRow,
                        "the row has \(line.cells.count) cells, the header \(columns.count)",
                        remedy: "give each column one cell"))
                continue
            }
            let values = Dictionary(zip(columns, line.cells)) { first, _ in first }
            var cells = IncreaseCells(
                line: line.number, values: values, rules: rules, today: now.day)
            let increase = cells.increase()
            faults += cells.faults
            guard let increase else { continue }
            if let first = lines[increase.key] {
                faults.append(
                    IncreaseFault(
                        line.number, .duplicateRow,
                        "\(increase.sku) of \(increase.originalTransactionID) on "
                            + "\(increase.increasedOn.text) is also on line \(first)",
                        remedy: "keep one of the rows"))
                continue
            }
            lines[increase.key] = line.number
            rows.append(Row(line: line.number, increase: increase))
        }
        faults.sort { $0.line < $1.line }
    }

    private static func columns(_ header: HeaderRow) throws(BatchFileError) -> [Column] {
        let names = header.names.map(TableLines.normalized)
        let all = Column.allCases.map(\.rawValue)
        try header.refuse(
            header.unknown(
                zip(header.names, names).filter { !all.contains($0.1) }.map(\.0),
                "use \(all.joined(separator: ", "))"),
            header.twice(names.filter(all.contains)), header.missing(all, among: names))
        return names.compactMap(Column.init)
    }
}

/// The cells of one row. Each read notes a fault and continues, so that all faults are reported.
private struct IncreaseCells {
    let line: Int
    let values: [IncreaseFile.Column: String]
    let rules: RulesInForce
    let today: CivilDate
    var faults: [IncreaseFault] = []

    mutating func increase() -> ImportedIncrease? {
        let (idText, skuText) = (cell(.id), cell(.sku))
        let id = checked(.badTransactionID) { () throws(RowFault) in
            try BatchRowBuilder.checkedTransactionID(idText)
        }
        let sku = checked(.badSKU) { () throws(RowFault) in
            try BatchRowBuilder.checkedSKU(skuText, "sku")
        }
        let day = day()
        let currency = currency()
        let old = price(.oldPrice, currency)
        let new = price(.newPrice, currency)
        if let old, let new, new <= old {
            note(
                .noIncrease, "\(cell(.oldPrice)) to \(cell(.newPrice)) is no increase",
                "leave the row out, or correct its prices")
        }
        guard faults.isEmpty, let id, let sku, let day, let currency, let old, let new else {
            return nil
        }
        return ImportedIncrease(
            originalTransactionID: id, sku: sku, increasedOn: day, oldPrice: old, newPrice: new,
            currency: currency.code)
    }

    private func cell(_ column: IncreaseFile.Column) -> String { values[column] ?? "" }

    private mutating func checked(
        _ code: IncreaseFault.Code, _ read: () throws(RowFault) -> String
    ) -> String? {
        do throws(RowFault) {
            return try read()
        } catch {
            note(code, error.message, error.remedy)
            return nil
        }
    }

    private mutating func day() -> CivilDate? {
        let text = cell(.increasedOn)
        guard let day = CivilDate(text), day.year >= 1970 else {
            note(
                .badDate, "increased_on \(shownInMessage(text)) is not a date",
                "write it as YYYY-MM-DD")
            return nil
        }
        guard day.daysSinceEpoch <= today.daysSinceEpoch else {
            note(
                .futureDate, "\(day.text) is still to come",
                "import an increase once it has taken effect")
            return nil
        }
        return day
    }

    private mutating func currency() -> Currency? {
        let text = cell(.currency)
        if let currency = rules.currency(text) { return currency }
        note(
            .unknownCurrency, "Apple has no prices in \(shownInMessage(text))",
            "write ISO 4217 in capitals, as USD")
        return nil
    }

    private mutating func price(_ column: IncreaseFile.Column, _ currency: Currency?) -> Int64? {
        let text = cell(column)
        let milliunits: Int64
        do throws(PriceText.Fault) {
            milliunits = try PriceText.milliunits(decimal: text)
        } catch {
            note(
                .badPrice, "\(column.rawValue) cannot be \(shownInMessage(text))",
                "write it above 0, as 9.99")
            return nil
        }
        if let currency, !currency.accepts(milliunits: milliunits) {
            note(
                .priceDecimals,
                "\(column.rawValue) \(text) has more decimals than \(currency.code), which has "
                    + "\(currency.decimals)", "write the price that was charged")
            return nil
        }
        return milliunits
    }

    private mutating func note(_ code: IncreaseFault.Code, _ message: String, _ remedy: String) {
        faults.append(IncreaseFault(line, code, message, remedy: remedy))
    }
}
