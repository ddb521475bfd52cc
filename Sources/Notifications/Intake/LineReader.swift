import Glibc

/// Cuts a stream of bytes into lines, with a bound on the memory that a line may take.
package struct LineReader {
    package enum Line: Equatable {
        case bytes([UInt8])
        /// The line was longer than the limit, and its bytes were skipped.
        case tooLong
    }

    private let limit: Int
    private let nextChunk: () throws -> [UInt8]?
    private var chunk: [UInt8] = []
    private var position = 0
    package private(set) var number = 0

    /// - Parameter nextChunk: Returns nil at the end of the input.
    package init(limit: Int, nextChunk: @escaping () throws -> [UInt8]?) {
        self.limit = limit
        self.nextChunk = nextChunk
    }

    /// The next line without its end; nil after the last. `number` is then its number, from 1 on.
    package mutating func next() throws -> Line? {
        var line: [UInt8] = []
        var isTooLong = false
        var hasBegun = false
        while true {
            if position == chunk.count {
                guard let more = try nextChunk() else {
                    guard hasBegun else { return nil }
                    number += 1
                    return isTooLong ? .tooLong : .bytes(line)
                }
                (chunk, position) = (more, 0)
                continue
            }
            hasBegun = true
            let end = Self.lineFeed(in: chunk, from: position)
            let piece = chunk[position..<(end ?? chunk.count)]
            isTooLong = isTooLong || line.count + piece.count > limit
            if isTooLong { line = [] } else { line += piece }
            position = end.map { $0 + 1 } ?? chunk.count
            if end != nil {
                number += 1
                return isTooLong ? .tooLong : .bytes(line)
            }
        }
    }

    /// The place of the next line feed. It is as quick as memory in every build, which `firstIndex` is not.
    private static func lineFeed(in chunk: [UInt8], from start: Int) -> Int? {
        chunk.withUnsafeBytes { bytes in
            guard let base = bytes.baseAddress,
                let found = memchr(base + start, 0x0A, bytes.count - start)
            else { return nil }
            return base.distance(to: UnsafeRawPointer(found))
        }
    }
}
