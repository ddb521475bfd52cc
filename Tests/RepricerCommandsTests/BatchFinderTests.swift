import Postgres
import Reports
import TestSupport
import Testing

@testable import RepricerCommands

/// Which batch a name, an id or its beginning stands for.
@Suite(.database) struct BatchFinderTests {
    private typealias Office = BatchCommandTests.Office

    /// A command that is shown names one batch: by its name, or by so much of its id as no other has.
    @Test func word_ofABatch_standsForItAlone() {
        let id = "0190a0a0-1111-7000-8000-000000000001"
        let all = [
            NamedBatch(batchID: id, name: "spring", state: "approved"),
            NamedBatch(
                batchID: "0190a0a0-1122-7000-8000-000000000002", name: "Spring prices",
                state: "approved"),
            NamedBatch(
                batchID: "0290a0a0-1122-7000-8000-000000000003", name: "--all", state: "approved"),
            NamedBatch(
                batchID: "0390a0a0-1122-7000-8000-000000000004", name: "0290a0a0", state: "aborted"),
        ]

        #expect(
            all.map { NamedBatch.word(for: $0.batchID, among: all) } == [
                "0190a0a0-111", "0190a0a0-112", "0290a0a0-1", "0390a0a0",
            ])
        #expect(
            NamedBatch.word(
                for: id, among: [all[0], .init(batchID: "1", name: "spring", state: "approved")])
                == "0190a0a0")
        #expect(NamedBatch.word(for: id, among: []) == id)
    }

    /// As often as a person is asked for a batch, fewer letters will do.
    @Test func batch_byTheBeginningOfItsId_isFound_andSeveralAreListed() async throws {
        let office = try await Office()
        let id = try await office.submit()

        let found = await run("show", String(id.prefix(8)).uppercased(), environment: office.ana)
        let report = await run(
            "report", "batch_summary", "--batch", String(id.prefix(8)), "--json",
            environment: office.ana)
        let nothing = await run("show", "fffffff", environment: office.ana)
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            INSERT INTO repricer.batches (batch_id, name, content_sha256, plan_hash, planned_as_of, row_count, submitted_at)
            VALUES ('\(id.dropLast())\(id.hasSuffix("0") ? "1" : "0")', 'autumn', 'c', 'p', '2026-01-05Z', 1, '2026-01-05Z')
            """)
        let several = await run("abort", String(id.prefix(8)), environment: office.ana)
        // A name that looks like the beginning of another batch's id stands for neither.
        try await connection.script(
            "UPDATE repricer.batches SET name = '\(id.prefix(8))' WHERE name = 'autumn'")
        let named = await run("abort", String(id.prefix(8)), environment: office.ana)
        try await connection.script(
            "UPDATE repricer.batches SET name = 'autumn' WHERE name <> 'spring'")
        await connection.close()
        let reports = await run(
            "report", "batch_summary", "--batch", String(id.prefix(8)), environment: office.ana)

        #expect(found.code == .done, "\(found.messages)")
        #expect(report.output.contains(id))
        #expect(nothing.code == .inputRejected)
        #expect(several.code == .conflict)
        #expect(several.messages.contains("2 batches begin with"))
        #expect(several.messages.contains("\(id) (spring, awaiting_approval)"))
        #expect(several.messages.contains("(autumn, "))
        #expect(reports.code == .conflict)
        #expect(reports.messages.contains(id))
        #expect(named.code == .conflict)
        #expect(named.messages.contains("or begin with it"))
    }

    /// Figures of another batch than the one that every other command means would be signed unnoticed.
    @Test(arguments: ["autumn", ""])
    func report_namesTheSameBatchAsEveryOtherCommand(name: String) async throws {
        let office = try await Office()
        let id = try await office.submit()
        let other = id.dropLast() + (id.hasSuffix("0") ? "1" : "0")
        let words = String(id.prefix(8))
        let connection = try await TestDatabase.connect()
        // The one is withdrawn, which makes it no less a batch whose id begins so; or it has those words as its name.
        try await connection.script(
            """
            INSERT INTO repricer.batches
                (batch_id, name, content_sha256, plan_hash, planned_as_of, row_count, submitted_at, state)
            VALUES ('\(other)', '\(name.isEmpty ? words : name)', 'c', 'p', '2026-01-05Z', 1, '2026-01-05Z', 'aborted')
            """)
        await connection.close()

        let shown = await run("show", words, environment: office.ana)
        let report = await run(
            "report", "batch_summary", "--batch", words, environment: office.ana)
        let whole = await run(
            "report", "batch_summary", "--batch", id.uppercased(), environment: office.ana)

        #expect(shown.code == .conflict)
        #expect(shown.messages.contains("\(id) (spring, awaiting_approval)"))
        #expect(report.code == .conflict)
        #expect(report.output.isEmpty)
        #expect(report.messages == shown.messages)
        #expect(whole.code == .done, "\(whole.messages)")
    }
}
