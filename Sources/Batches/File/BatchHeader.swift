/// The beginning of a batch file: the form it has, its columns and the unit of its prices.
enum BatchHeader {
    struct CSV {
        var columns: [BatchColumn]
        var unit: BatchPriceUnit
    }

    case csv(CSV)
    case ndjson(BatchPriceUnit)

    /// How far to look for a row of NDJSON that names its price.
    private static let unitLinesMax = 100

    /// Reads the header row of a CSV file; of NDJSON nothing is consumed.
    static func read(
        _ scanner: inout LineScanner, file: String
    ) throws(BatchFileError) -> BatchHeader {
        while var line = try scanner.next() {
            if line.number == 1 { try stripMark(&line, file) }
            let first = line.bytes.first { $0 != 0x20 && $0 != 0x09 }
            if first == UInt8(ascii: "{") {
                return .ndjson(try unit(from: line, &scanner))
            }
            if line.bytes.isEmpty { continue }
            return .csv(try csv(line, file))
        }
        throw BatchFileError(
            code: .emptyFile, file: file, line: nil, message: "the file has no rows",
            remedy: "begin with a header row")
    }

    static func stripMark(
        _ line: inout PhysicalLine, _ file: String
    ) throws(BatchFileError) {
        if line.bytes.starts(with: [0xEF, 0xBB, 0xBF]) { line.bytes.removeFirst(3) }
        let isWide =
            line.bytes.starts(with: [0xFF, 0xFE]) || line.bytes.starts(with: [0xFE, 0xFF])
        guard !isWide else {
            throw BatchFileError(
                code: .badEncoding, file: file, line: 1, message: "the file is UTF-16",
                remedy: "save it as UTF-8")
        }
    }

    /// The unit of the first row that names one, so that a spoiled row at the beginning condemns no other;
    /// decimal where none of the first rows does. Nothing is consumed.
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

    private static func csv(_ line: PhysicalLine, _ file: String) throws(BatchFileError) -> CSV {
        func failure(
            _ code: BatchFileError.Code, _ message: String, _ remedy: String
        ) -> BatchFileError {
            BatchFileError(
                code: code, file: file, line: line.number, message: message, remedy: remedy)
        }
        guard !line.isTooLong, case .cells(let cells) = CSVRecord(line.bytes) else {
            throw failure(.badHeader, "the header row is no CSV", "begin with the column names")
        }
        let names = cells.map { String(decoding: $0, as: UTF8.self) }
        if names.count == 1, names[0].contains(";") || names[0].contains("\t") {
            throw failure(.badHeader, "the columns are not separated by commas", "export as CSV")
        }
        let unknown = names.filter { BatchColumn(rawValue: $0) == nil }
        guard unknown.isEmpty else {
            let list = unknown.prefix(10).map { shownInMessage($0) }.joined(separator: ", ")
            let known = BatchColumn.allCases.filter { !$0.isIgnored }.map(\.rawValue)
            throw failure(
                .unknownColumn, "there is no column \(list)",
                "use \(known.joined(separator: ", "))")
        }
        let columns = names.compactMap(BatchColumn.init)
        if let twice = columns.first(where: { column in columns.count { $0 == column } > 1 }) {
            throw failure(
                .duplicateColumn, "the column \(twice.rawValue) is there twice", "keep one")
        }
        let missing = BatchColumn.required.filter { !columns.contains($0) }
        guard missing.isEmpty else {
            throw failure(
                .missingColumn,
                "the column \(missing.map(\.rawValue).joined(separator: ", ")) is missing",
                "add it")
        }
        switch (columns.contains(.price), columns.contains(.priceMilliunits)) {
        case (true, false): return CSV(columns: columns, unit: .decimal)
        case (false, true): return CSV(columns: columns, unit: .milliunits)
        case (true, true), (false, false):
            throw failure(
                .priceColumns, "exactly one of price and price_milliunits is needed",
                "keep the one whose unit the file uses")
        }
    }
}
