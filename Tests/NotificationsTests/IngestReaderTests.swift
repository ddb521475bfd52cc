import Testing

@testable import Notifications

@Suite struct IngestReaderTests {
    static func ingest(
        _ text: String, into store: MemoryStore, chunk: Int = 64
    ) async throws(IngestError) -> IngestSummary {
        var rest = Array(text.utf8)[...]
        return try await IngestReader(intake: makeIntake(store), threads: 2).ingest {
            guard !rest.isEmpty else { return nil }
            defer { rest = rest.dropFirst(chunk) }
            return Array(rest.prefix(chunk))
        }
    }

    @Test func ingest_whenLinesAreMixed_countsEachOnce() async throws {
        let file = """
            \u{FEFF}{"signedPayload":"ok:a"}\r
            {"signedPayload":"ok:a"}

            {"signedPayload":"strange:b"}
            {"signedPayload":"forged"}
            not json
            {"signedPayload":"junk"}
            {"signedPayload":"ok:c"}
            """

        let summary = try await Self.ingest(file, into: MemoryStore())

        #expect(summary.lines == 7)
        #expect(summary.new == 2)
        #expect(summary.duplicate == 1)
        #expect(summary.notUnderstood == 1)
        #expect(summary.refused == ["bad_signature": 1])
        #expect(summary.malformed == 2)
        #expect(summary.problems.map(\.line) == [5, 6, 7])
        #expect(summary.problems.map(\.refusal.code) == ["bad_signature", "not_json", "not_a_jws"])
        #expect(!summary.isClean)
    }

    @Test func ingest_whenThereAreMoreLinesThanABatch_takesAll() async throws {
        let store = MemoryStore()
        let file = (1...250).map { #"{"signedPayload":"ok:\#($0)"}"# }.joined(separator: "\n")

        let summary = try await Self.ingest(file, into: store)
        let again = try await Self.ingest(file, into: store)

        #expect(summary.new == 250)
        #expect(summary.isClean)
        #expect(again.duplicate == 250)
        #expect(store.state.withLock { $0.batches.allSatisfy { $0 <= 100 } })
    }

    @Test func ingest_whenALineIsTooLong_countsItMalformed() async throws {
        let long = String(repeating: "x", count: IngestReader.lineBytesMax + 1)

        let summary = try await Self.ingest(
            "\(long)\n{\"signedPayload\":\"ok:a\"}\n", into: MemoryStore(), chunk: 65536)

        #expect(summary.problems.map(\.refusal.code) == ["line_too_long"])
        #expect(summary.new == 1)
    }

    @Test func ingest_whenDatabaseGoesAway_namesTheLineToResumeAt() async throws {
        let store = MemoryStore()
        store.state.withLock { $0.isAway = true }

        let error = await #expect(throws: IngestError.self) {
            _ = try await Self.ingest("\nbad\n{\"signedPayload\":\"ok:a\"}", into: store)
        }

        #expect(error?.kind == .away)
        #expect(error?.line == 3)
        #expect(error?.soFar.malformed == 1)
    }
}
