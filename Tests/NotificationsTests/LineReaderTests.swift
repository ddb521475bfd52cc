import Testing

@testable import Notifications

@Suite struct LineReaderTests {
    static func lines(_ text: String, chunk: Int, limit: Int = 100) throws -> [LineReader.Line] {
        var rest = Array(text.utf8)[...]
        var reader = LineReader(limit: limit) {
            guard !rest.isEmpty else { return nil }
            defer { rest = rest.dropFirst(chunk) }
            return Array(rest.prefix(chunk))
        }
        var lines: [LineReader.Line] = []
        while let line = try reader.next() { lines.append(line) }
        #expect(reader.number == lines.count)
        return lines
    }

    @Test(arguments: [1, 2, 3, 7, 100])
    func next_whenChunksCutAnywhere_givesTheSameLines(chunk: Int) throws {
        let lines = try Self.lines("ab\n\ncde\nf", chunk: chunk)

        #expect(lines == ["ab", "", "cde", "f"].map { .bytes(Array($0.utf8)) })
    }

    @Test func next_whenLastLineEnds_addsNoEmptyOne() throws {
        #expect(try Self.lines("a\n", chunk: 9) == [.bytes([0x61])])
        #expect(try Self.lines("", chunk: 9) == [])
    }

    @Test(arguments: [1, 4, 100])
    func next_whenLineIsTooLong_passesOverItAlone(chunk: Int) throws {
        let lines = try Self.lines("abcd\nabcde\nx", chunk: chunk, limit: 4)

        #expect(lines == [.bytes(Array("abcd".utf8)), .tooLong, .bytes([0x78])])
    }
}
