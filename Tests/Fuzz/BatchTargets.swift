import Pricing

@testable import Batches

/// One CSV record by a table of states, a byte at a time: RFC 4180.
enum SlowCSV {
    enum Record: Equatable {
        case cells([[UInt8]])
        case open
        case malformed
    }

    private enum State { case start, bare, quoted, quoteInQuoted, closed }

    static func isBlank(_ byte: UInt8) -> Bool { byte == 32 || byte == 9 }

    static func record(_ bytes: [UInt8]) -> Record {
        var cells: [[UInt8]] = [[]]
        var state = State.start
        for byte in bytes {
            switch (state, byte) {
            case (.start, 34):
                // The blanks before it.
                cells[cells.count - 1] = []
                state = .quoted
            case (.start, 44), (.bare, 44), (.quoteInQuoted, 44), (.closed, 44):
                cells.append([])
                state = .start
            case (.quoted, 34): state = .quoteInQuoted
            case (.quoteInQuoted, 34):
                cells[cells.count - 1].append(34)
                state = .quoted
            case (.quoteInQuoted, _) where isBlank(byte), (.closed, _) where isBlank(byte):
                state = .closed
            case (.quoteInQuoted, _), (.closed, _), (.bare, 34): return .malformed
            case (.quoted, _): cells[cells.count - 1].append(byte)
            case (.start, _) where isBlank(byte): cells[cells.count - 1].append(byte)
            case (.start, _), (.bare, _):
                cells[cells.count - 1].append(byte)
                state = .bare
            }
        }
        return state == .quoted ? .open : .cells(cells)
    }

    static func written(_ cells: [[UInt8]]) -> [UInt8] {
        Array(
            cells.map { cell in
                [34] + cell.flatMap { $0 == 34 ? [34, 34] : [$0] } + [34]
            }.joined(separator: [44]))
    }
}

enum CSVTarget: FuzzTarget {
    static let name = "csv"
    static let words = ["\"", "\"\"", ",", "\",\"", "\n", "\r\n"]
    static let seeds = [
        "a,b,c", "\"a\",\"b\"\"c\",", "", ",", "a\"b", "\"a\nb\",c", "\"a\"b", " \"a\"\t, b ",
    ]
    .map { [UInt8]($0) }

    static func check(_ input: [UInt8]) {
        let slow = SlowCSV.record(input)
        switch CSVRecord(input) {
        case .cells(let cells): require(slow == .cells(cells), "the cells differ")
        case .open: require(slow == .open, "open for us alone")
        case .malformed: require(slow == .malformed, "malformed for us alone")
        }
        let cells = split(input, ",")
        require(
            CSVRecord(SlowCSV.written(cells)) == .cells(cells), "what was quoted does not come back"
        )
    }
}

/// Whole files, CSV and NDJSON.
enum BatchTarget: FuzzTarget {
    static let name = "batch"
    private static let header = "original_transaction_id,sku,currency,price"
    static let words =
        JSONTarget.words + CSVTarget.words + [
            header, "price_milliunits", "dependent_skus", "USD", "JPY", "9.99", "1000", "a;b",
            "\u{FEFF}", "{\"sku\":",
        ]
    static let seeds = [
        "\(header)\n1,a,USD,9.99\n2,b,JPY,100\r\n\"3\",\"c\"\"d\",EUR,1\n",
        "\(header)\n1,a,USD\n\"2,a\n3,b,USD,1\n\"", "\(header)\n",
        #"{"original_transaction_id":"1","sku":"a","currency":"USD","price":"9.99"}"# + "\n{}\n",
    ].map { [UInt8]($0) }

    private static let rules = RuleSet(
        Currency.apple.map {
            Rule(
                Rule.Key(.currency, currency: $0.code), value: Int64($0.decimals),
                source: RuleSource.apple.rawValue)
        }
    ).inForce(at: Instant(milliseconds: 1_796_083_200_000))

    static func check(_ input: [UInt8]) {
        let whole = entries(input, chunkBytes: 65_536)
        let cut = entries(input, chunkBytes: 1 + input.count % 13)
        require(whole == cut, "the entries depend on the chunks")
        for rowsMax in [1, 3, 4096] {
            let pieces = entriesOfPieces(input, chunkBytes: 1 + input.count % 29, rowsMax: rowsMax)
            require(whole == pieces, "the entries depend on the pieces")
        }
        guard let whole, !whole.isEmpty else { return }
        let lines = whole.map { entry in
            switch entry {
            case .row(let row): row.line
            case .spoiled(let row): row.line
            }
        }
        require(zip(lines, lines.dropFirst()).allSatisfy { $0 < $1 }, "lines are out of order")
        let count = split(input, "\n").count
        require(lines.allSatisfy { $0 >= 1 && $0 <= count }, "a line that does not exist")
        if input.first.map({ $0 != UInt8(ascii: "{") }) == true { conserve(input, lines) }
    }

    /// Each physical line after the header belongs to exactly one entry.
    private static func conserve(_ input: [UInt8], _ lines: [Int]) {
        var physical = split(input, "\n")
        if physical.last == [] { physical.removeLast() }
        physical = physical.map { $0.last == 13 ? $0.dropLast() : $0 }
        guard physical.allSatisfy({ $0.count <= 65_536 }), let first = physical.first,
            first.contains(where: { !SlowCSV.isBlank($0) && $0 != 44 }),
            first != [0xEF, 0xBB, 0xBF],
            !first.contains(UInt8(ascii: "{"))
        else { return }
        let expected = physical.indices.dropFirst().filter { index in
            // A line of blanks and separators is no row.
            guard case .cells(let cells) = SlowCSV.record(physical[index]) else { return true }
            return !cells.allSatisfy { $0.allSatisfy(SlowCSV.isBlank) }
        }.map { $0 + 1 }
        require(lines == expected, "entries begin at \(lines), slowly at \(expected)")
    }

    /// The entries of whole pieces, as a plan reads them.
    private static func entriesOfPieces(
        _ input: [UInt8], chunkBytes: Int, rowsMax: Int
    ) -> [BatchFileEntry]? {
        do throws(BatchFileError) {
            var reader = try BatchFileReader(
                source: MemoryByteSource(input, chunkBytes: chunkBytes), file: "f", rules: rules)
            var entries: [BatchFileEntry] = []
            while let piece = try reader.nextPiece(rowsMax: rowsMax) { entries += piece.entries() }
            return entries
        } catch {
            return nil
        }
    }

    private static func entries(_ input: [UInt8], chunkBytes: Int) -> [BatchFileEntry]? {
        do throws(BatchFileError) {
            var reader = try BatchFileReader(
                source: MemoryByteSource(input, chunkBytes: chunkBytes), file: "f", rules: rules)
            var entries: [BatchFileEntry] = []
            while let entry = try reader.next() { entries.append(entry) }
            return entries
        } catch {
            return nil
        }
    }
}
