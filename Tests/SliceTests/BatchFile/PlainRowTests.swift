import ServiceKit
import Testing

@testable import Batches

@Suite("Rows that are cut the short way")
struct PlainRowTests {
    private static let header: [BatchColumn] = [.originalTransactionID, .sku, .price]

    private static func cells(_ line: [UInt8]) -> BatchCells? {
        line.withUnsafeBufferPointer { PlainRow.cells(of: $0, header) }
    }

    @Test("They have the cells that the careful reader finds")
    func sameCells() {
        let alphabet = Array("ab;,,,,\"\" \t'é".utf8)
        var random = SeededRandom(seed: 18)
        var plain = 0
        for _ in 0..<100_000 {
            let line = (0..<Int.random(in: 0...12, using: &random)).map { _ in
                alphabet.randomElement(using: &random) ?? 0
            }
            guard let cells = Self.cells(line) else { continue }
            plain += 1
            guard case .cells(let careful) = CSVRecord(line) else {
                Issue.record("not one record: \(line)")
                continue
            }
            #expect(careful.count == Self.header.count)
            for (column, cell) in zip(Self.header, careful) {
                let text = String(decoding: cell[...].withoutBlanks, as: UTF8.self)
                #expect(cells[column] == .text(text), "\(line)")
            }
        }
        #expect(plain > 1000)
    }

    @Test(
        "What needs care is left to the careful reader",
        arguments: [
            "1,A", "1,A,2,3", "1,'=A,2", "1,\"a\"\"b\",2", "1,a\"b,2", "1,\"A,2", ",,", "1,ä,2",
        ])
    func leftAlone(line: String) {
        #expect(Self.cells(Array(line.utf8)) == nil)
    }

    /// `BatchText` compares rows read one by one with those of pieces.
    @Test("Whatever stands in a file, its pieces hold the rows that are read one by one")
    func piecesHoldTheSameRows() throws {
        let cells = [
            "1", "A", "\"A\"", "\"a\"\"b\"", "\"A\nB\"", "\"", "a\"b", "\"A\"x", "", " ", "é",
            "'=1",
        ]
        var random = SeededRandom(seed: 1811)
        var spoiled = 0
        for _ in 0..<500 {
            let lines = (0..<Int.random(in: 1...12, using: &random)).map { _ in
                (0..<Int.random(in: 1...5, using: &random)).map { _ in
                    cells.randomElement(using: &random) ?? ""
                }.joined(separator: ",")
            }
            let ending = Bool.random(using: &random) ? "\r\n" : "\n"
            let text = ([BatchCSVTests.header] + lines).joined(separator: ending)
            spoiled += try BatchText(text).spoiled.count
        }
        #expect(spoiled > 1000)
    }
}
