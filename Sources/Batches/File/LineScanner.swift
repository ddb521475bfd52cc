/// One physical line, without its line feed and a carriage return before it.
struct PhysicalLine: Hashable {
    /// The number of the line, from 1 on.
    var number: Int
    var bytes: [UInt8]
    /// Whether the line was longer than the limit. `bytes` then holds its beginning.
    var isTooLong = false

    mutating func stripMark(_ file: String) throws(BatchFileError) {
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { bytes.removeFirst(3) }
        guard !bytes.starts(with: [0xFF, 0xFE]), !bytes.starts(with: [0xFE, 0xFF]) else {
            throw BatchFileError(
                code: .badEncoding, file: file, line: 1, message: "the file is UTF-16",
                remedy: "save it as UTF-8")
        }
        // A text has no zero byte. A program or a picture has, and its first line would make no useful message.
        guard !bytes.contains(0) else {
            throw BatchFileError(
                code: .badEncoding, file: file, line: 1, message: "the file is no text",
                remedy: "save it as CSV in UTF-8")
        }
    }
}

/// The first row of a CSV file: the names of its columns.
struct HeaderRow {
    let names: [String]
    private let file: String
    private let line: Int

    init(
        _ line: PhysicalLine, _ file: String, separator: UInt8 = CSVRecord.comma
    ) throws(BatchFileError) {
        let record = CSVRecord(line.bytes, separator: separator)
        let cells: [[UInt8]]? = if case .cells(let cells) = record { cells } else { nil }
        names = (cells ?? []).map { $0.textWithoutBlanks }
        (self.file, self.line) = (file, line.number)
        guard !line.bytes.contains(UInt8(ascii: "\r")) else {
            throw fault(
                .badHeader, "the lines end with carriage returns alone",
                "save the file as CSV (UTF-8), whose lines end with line feeds")
        }
        guard !line.isTooLong, cells != nil else {
            throw fault(.badHeader, "the header row is no CSV", "begin with the column names")
        }
    }

    /// Throws all faults that were found, as one error.
    func refuse(_ faults: BatchFileError?...) throws(BatchFileError) {
        let found = faults.compactMap { $0 }
        guard var first = found.first else { return }
        first.further = Array(found.dropFirst())
        throw first
    }

    func unknown(_ names: some Collection<String>, _ remedy: String) -> BatchFileError? {
        guard !names.isEmpty else { return nil }
        let list = names.map { shownInMessage($0) }.joined(separator: ", ")
        return fault(.unknownColumn, "there is no column \(list)", remedy)
    }

    func missing(
        _ needed: [String], among names: [String], _ remedy: String = "add it"
    ) -> BatchFileError? {
        let missing = needed.filter { !names.contains($0) }
        guard !missing.isEmpty else { return nil }
        return fault(
            .missingColumn, "the column \(missing.joined(separator: ", ")) is missing", remedy)
    }

    /// Names the first ten that stand there more than once. Unknown names are not judged twice.
    func twice(_ names: some Sequence<String>) -> BatchFileError? {
        var seen: Set<String> = []
        var repeated: [String] = []
        for name in names where !seen.insert(name).inserted && !repeated.contains(name) {
            repeated.append(name)
        }
        guard !repeated.isEmpty else { return nil }
        let list = repeated.prefix(10).map { shownInMessage($0) }.joined(separator: ", ")
        return fault(
            .duplicateColumn,
            repeated.count == 1
                ? "the column \(list) is there twice" : "the columns \(list) are there twice",
            "keep one")
    }

    func fault(
        _ code: BatchFileError.Code, _ message: String, _ remedy: String
    ) -> BatchFileError {
        BatchFileError(code: code, file: file, line: line, message: message, remedy: remedy)
    }
}

/// Consecutive physical lines, each with its line feed.
struct LineBlock: Sendable {
    fileprivate let bytes: ArraySlice<UInt8>
    fileprivate let firstNumber: Int
    let count: Int

    fileprivate init(bytes: ArraySlice<UInt8>, firstNumber: Int, count: Int) {
        self.bytes = bytes
        self.firstNumber = firstNumber
        self.count = count
    }

    /// Calls `body` for each line with its number, without its line feed and a carriage return before it.
    func forEach(_ body: (_ line: UnsafeBufferPointer<UInt8>, _ number: Int) -> Void) {
        bytes.withUnsafeBufferPointer { bytes in
            var start = 0
            for number in firstNumber..<(firstNumber + count) {
                var end = start
                while end < bytes.count, bytes[end] != UInt8(ascii: "\n") { end += 1 }
                let next = end + 1
                if end > start, bytes[end - 1] == UInt8(ascii: "\r") { end -= 1 }
                body(UnsafeBufferPointer(rebasing: bytes[start..<end]), number)
                start = next
            }
        }
    }
}

/// Cuts a stream of bytes into physical lines. It never holds more than one line and one chunk.
struct LineScanner {
    /// The longest line, in bytes. A row with a hundred dependents of the longest SKUs still fits.
    static let lineBytesMax = 65_536

    private let source: any BatchByteSource
    private var chunk: [UInt8] = []
    private var position = 0
    private var number = 0
    private var isAtEnd = false
    private var returned: [PhysicalLine] = []

    init(_ source: any BatchByteSource) {
        self.source = source
    }

    /// Puts lines back, to be read again in their order.
    mutating func putBack(_ lines: some BidirectionalCollection<PhysicalLine>) {
        returned.append(contentsOf: lines.reversed())
    }

    /// The next line; nil at the end. The last line needs no line feed.
    mutating func next() throws(BatchFileError) -> PhysicalLine? {
        if let line = returned.popLast() { return line }
        var line = PhysicalLine(number: number + 1, bytes: [])
        var isStarted = false
        while try fill() {
            isStarted = true
            let end = chunk[position...].firstIndex(of: UInt8(ascii: "\n")) ?? chunk.endIndex
            let space = LineScanner.lineBytesMax - line.bytes.count
            line.bytes += chunk[position..<min(end, position + space)]
            if end - position > space { line.isTooLong = true }
            position = min(end + 1, chunk.endIndex)
            if end < chunk.endIndex { break }
        }
        guard isStarted else { return nil }
        number += 1
        if !line.isTooLong, line.bytes.last == UInt8(ascii: "\r") { line.bytes.removeLast() }
        return line
    }

    /// Whole lines that are already in memory, so that they can be parsed on any thread. Returns nil where the next line
    /// must be read by itself.
    mutating func block(linesMax: Int) throws(BatchFileError) -> LineBlock? {
        guard returned.isEmpty, try fill() else { return nil }
        var end = position
        var lines = 0
        while lines < linesMax, let feed = chunk[end...].firstIndex(of: UInt8(ascii: "\n")),
            feed - end < LineScanner.lineBytesMax
        {
            end = feed + 1
            lines += 1
        }
        guard lines > 0 else { return nil }
        defer {
            position = end
            number += lines
        }
        return LineBlock(bytes: chunk[position..<end], firstNumber: number + 1, count: lines)
    }

    /// The first line that holds more than separators, without a byte order mark.
    mutating func firstLine(of file: String) throws(BatchFileError) -> PhysicalLine {
        while var line = try next() {
            if line.number == 1 { try line.stripMark(file) }
            if line.bytes.contains(where: { !isBlank($0) && $0 != UInt8(ascii: ",") }) {
                return line
            }
        }
        throw BatchFileError(
            code: .emptyFile, file: file, line: nil, message: "the file has no rows",
            remedy: "begin with a header row")
    }

    /// Whether there is a byte to read.
    private mutating func fill() throws(BatchFileError) -> Bool {
        guard position == chunk.endIndex, !isAtEnd else { return !isAtEnd }
        chunk = try source.read()
        position = 0
        isAtEnd = chunk.isEmpty
        return !isAtEnd
    }
}
