/// The beginning of a batch file: its form, its columns and the unit of its prices.
enum BatchHeader {
    struct CSV {
        var columns: [BatchColumn]
        var unit: BatchPriceUnit
    }

    case csv(CSV)
    case ndjson(BatchPriceUnit)

    /// How many lines of NDJSON are searched for a row that names its price.
    private static let unitLinesMax = 100

    /// Reads the header row of a CSV file. For NDJSON it consumes nothing.
    static func read(
        _ scanner: inout LineScanner, file: String
    ) throws(BatchFileError) -> BatchHeader {
        let line = try scanner.firstLine(of: file)
        if line.bytes.first(where: { $0 != 0x20 && $0 != 0x09 }) == UInt8(ascii: "{") {
            return .ndjson(try unit(from: line, &scanner))
        }
        return .csv(try csv(try HeaderRow(line, file)))
    }

    /// The unit of the first row that names one, so that a spoiled row at the beginning does not spoil others; decimal
    /// where none of the first rows names one. It consumes nothing.
    private static func unit(
        from first: PhysicalLine, _ scanner: inout LineScanner
    ) throws(BatchFileError) -> BatchPriceUnit {
        var lines = [first]
        var found = unit(first.bytes)
        while found == nil, lines.count < unitLinesMax, let line = try scanner.next() {
            lines.append(line)
            found = unit(line.bytes)
        }
        scanner.putBack(lines)
        return found ?? .decimal
    }

    private static func unit(_ bytes: [UInt8]) -> BatchPriceUnit? {
        // A malformed line is reported when it is read as a row.
        guard let members = try? JSONLine.members(bytes) else { return nil }
        let hasDecimal = members[BatchColumn.price.rawValue] != nil
        let hasMilliunits = members[BatchColumn.priceMilliunits.rawValue] != nil
        guard hasDecimal != hasMilliunits else { return nil }
        return hasMilliunits ? .milliunits : .decimal
    }

    private static func csv(_ row: HeaderRow) throws(BatchFileError) -> CSV {
        let names = row.names
        if let only = names.first, names.count == 1, only.contains(";") || only.contains("\t") {
            throw row.fault(
                .badHeader,
                "the columns are separated by \(only.contains(";") ? "semicolons" : "tabs"), not by commas",
                "export with commas between the columns, and with points in prices")
        }
        let known = BatchColumn.allCases.filter { !$0.isIgnored }.map(\.rawValue)
        let columns = names.compactMap(BatchColumn.init)
        guard !columns.isEmpty else {
            throw row.fault(
                .badHeader,
                "the first row has no column name: \(names.prefix(10).map { shownInMessage($0) }.joined(separator: ", "))",
                "delete what stands above the row of column names, which are \(known.joined(separator: ", "))"
            )
        }
        let hasDecimal = columns.contains(.price)
        try row.refuse(
            row.unknown(
                names.filter { BatchColumn(rawValue: $0) == nil }.prefix(10),
                "use \(known.joined(separator: ", "))"),
            row.twice(columns.map(\.rawValue)),
            row.missing(BatchColumn.required.map(\.rawValue), among: names),
            hasDecimal != columns.contains(.priceMilliunits)
                ? nil
                : row.fault(
                    .priceColumns, "exactly one of price and price_milliunits is needed",
                    "keep the one whose unit the file uses"))
        return CSV(columns: columns, unit: hasDecimal ? .decimal : .milliunits)
    }
}
