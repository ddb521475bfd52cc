/// One physical line, without its line feed and a carriage return before it.
struct PhysicalLine: Hashable {
    /// From 1.
    var number: Int
    var bytes: [UInt8]
    /// The line was longer than the limit; `bytes` holds its beginning.
    var isTooLong = false
}

/// Cuts a stream of bytes into physical lines and never holds more than one of them and one chunk.
struct LineScanner {
    /// A row with a hundred dependents of the longest SKUs still fits.
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

    /// The next line; nil at the end. A last line needs no line feed.
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

    /// Whether there is a byte to read.
    private mutating func fill() throws(BatchFileError) -> Bool {
        guard position == chunk.endIndex, !isAtEnd else { return !isAtEnd }
        chunk = try source.read()
        position = 0
        isAtEnd = chunk.isEmpty
        return !isAtEnd
    }
}
