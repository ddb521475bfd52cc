import Batches
import Pricing
import Testing

/// Reads a whole batch from memory, by rows and by pieces; small chunks, so that every boundary is crossed.
struct BatchText {
    var entries: [BatchFileEntry] = []
    var columns: [BatchColumn] = []

    init(_ bytes: [UInt8], chunkBytes: Int = 7) throws {
        let rules = RuleSet.shipped.inForce(at: Instant(milliseconds: 1_796_083_200_000))
        var reader = try BatchFileReader(
            source: MemoryByteSource(bytes, chunkBytes: chunkBytes), file: "batch.csv",
            rules: rules)
        while let entry = try reader.next() { entries.append(entry) }
        columns = reader.columns
        for (rowsMax, chunkBytes) in [(1, chunkBytes), (2, 31), (4096, 65_536)] {
            var pieces = try BatchFileReader(
                source: MemoryByteSource(bytes, chunkBytes: chunkBytes), file: "batch.csv",
                rules: rules)
            var found: [BatchFileEntry] = []
            while let piece = try pieces.nextPiece(rowsMax: rowsMax) { found += piece.entries() }
            #expect(found == entries, "pieces of \(rowsMax) rows, chunks of \(chunkBytes) bytes")
        }
    }

    init(_ text: String, chunkBytes: Int = 7) throws {
        try self.init(Array(text.utf8), chunkBytes: chunkBytes)
    }

    var rows: [BatchRow] {
        entries.compactMap { entry in
            guard case .row(let row) = entry else { return nil }
            return row
        }
    }

    var spoiled: [SpoiledRow] {
        entries.compactMap { entry in
            guard case .spoiled(let row) = entry else { return nil }
            return row
        }
    }

    /// `LINE code`, one an entry; a good row has no code.
    var outline: [String] {
        entries.map { entry in
            switch entry {
            case .row(let row): "\(row.line)"
            case .spoiled(let row): "\(row.line) \(row.fault.code.rawValue)"
            }
        }
    }
}
