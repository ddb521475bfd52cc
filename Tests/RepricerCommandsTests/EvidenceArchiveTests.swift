import Foundation
import TestSupport
import Testing

@testable import RepricerCommands

/// A month of evidence in a file, read again without a database: each way of falsifying it is planted and found.
@Suite(.database) struct EvidenceArchiveTests {
    /// An hour after it, and the last moment of that hour.
    private static let january = (
        end: 1_769_904_000_000 + 3_600_000 as Int64, before: 1_769_904_000_000 + 3_599_999 as Int64
    )

    private static func exported(
        _ bench: EvidenceCommandTests.Bench
    ) async throws -> (path: String, lines: [String], head: String) {
        for number in 1...4 {
            try await bench.store(
                try bench.notification("00000000-0000-4000-8000-00000000000\(number)"))
        }
        let path = bench.folder.path + "/january.ndjson"
        let outcome = await bench.run(
            "evidence", "export", "--month", "2026-01", path, "--json", at: Self.january.end)
        #expect(outcome.code == .done, "\(outcome.messages)")
        #expect(outcome.output.contains(#""notifications":4"#))
        let text = try String(contentsOfFile: path, encoding: .utf8)
        let head = try #require(outcome.output.firstMatch(of: /"head":"([0-9a-f]{64})"/))
        return (path, text.split(separator: "\n").map(String.init), String(head.1))
    }

    private static func verify(
        _ bench: EvidenceCommandTests.Bench, _ arguments: String...
    ) async -> Outcome {
        // Nothing answers there.
        let environment = bench.environment.merging(
            ["REPRICER_DATABASE_URL": "postgresql://nobody@/none?host=/nowhere"]
        ) { _, new in new }
        return await RepricerCommandsTests.run(
            ["evidence", "verify"] + arguments, environment: environment)
    }

    @Test func verify_ofWhatWasExported_holdsWithoutADatabase() async throws {
        let bench = try EvidenceCommandTests.Bench()
        let (path, lines, head) = try await Self.exported(bench)

        let outcome = await Self.verify(bench, path, "--head", head)

        #expect(outcome.code == .done, "\(outcome.messages)")
        #expect(outcome.output == "4 notifications of 2026-01, 0 faults\n")
        #expect(lines.count == 6)
        let again = await bench.run(
            "evidence", "export", "--month", "2026-01", path, at: Self.january.end)
        #expect(again.code == .inputRejected)
        #expect(again.messages.contains("is there already"))
    }

    /// Two that begin at once, of which one may be of another month: the file is that of the one that says so.
    /// Who exports need not be the owner, nor run the service.
    @Test func export_byAMemberOfPricing_isTheSameFile() async throws {
        let bench = try EvidenceCommandTests.Bench()
        let (path, lines, _) = try await Self.exported(bench)
        let ana = bench.environment.merging([
            "REPRICER_DATABASE_URL": try await TestDatabase.login(
                "ana", memberOf: ["repricer_pricing"])
        ]) { _, new in new }

        let outcome = await run(
            "evidence", "export", "--month", "2026-01", path + ".ana", environment: ana
        ) { $0.realClock = ManualClock(Self.january.end) }

        #expect(outcome.code == .done, "\(outcome.messages)")
        let text = try String(contentsOfFile: path + ".ana", encoding: .utf8)
        #expect(text.split(separator: "\n").count == lines.count)
    }

    @Test func exports_toOneFileAtOnce_disturbNoneOfThem() async throws {
        let bench = try EvidenceCommandTests.Bench()
        let (path, lines, _) = try await Self.exported(bench)
        let shared = bench.folder.path + "/shared.ndjson"

        let outcomes = await withTaskGroup(of: Outcome.self) { group in
            for _ in 1...6 {
                group.addTask {
                    await bench.run(
                        "evidence", "export", "--month", "2026-01", shared, at: Self.january.end)
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }

        let done = outcomes.filter { $0.code == .done }
        #expect(done.count == 1)
        #expect(outcomes.filter { $0.messages.contains("is there already") }.count == 5)
        let head = try #require(done.first?.output.firstMatch(of: /head ([0-9a-f]{64})/))
        let verified = await Self.verify(bench, shared, "--head", String(head.1))
        #expect(verified.code == .done, "\(verified.messages)")
        let text = try String(contentsOfFile: shared, encoding: .utf8)
        #expect(text.split(separator: "\n").count == lines.count)
        let left = try FileManager.default.contentsOfDirectory(atPath: bench.folder.path)
        #expect(left.filter { $0.hasSuffix(".part") } == [])
        let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions]
        #expect(mode as? Int == 0o600)
    }

    @Test func verify_withoutAHead_saysWhatItCannotSee() async throws {
        let bench = try EvidenceCommandTests.Bench()
        let (path, _, head) = try await Self.exported(bench)

        #expect(await Self.verify(bench, path).messages.contains("without --head"))
        #expect(await !Self.verify(bench, path, "--head", head).messages.contains("without --head"))
    }

    /// A month may have millions, and a person wants to know that it goes on.
    @Test func exportAndVerify_onATerminal_showHowFarTheyAre() async throws {
        let bench = try EvidenceCommandTests.Bench()
        let (path, _, _) = try await Self.exported(bench)
        let onTerminal: (inout Dependencies) -> Void = {
            $0.isMessagesTerminal = true
            $0.progressAfter = .zero
            $0.realClock = ManualClock(Self.january.end)
        }

        let exported = await RepricerCommandsTests.run(
            "evidence", "export", "--month", "2026-01", path + ".again",
            environment: bench.environment, change: onTerminal)
        let verified = await RepricerCommandsTests.run(
            "evidence", "verify", path, environment: bench.environment, change: onTerminal)
        let ingested = await RepricerCommandsTests.run(
            "ingest", path, environment: bench.environment, change: onTerminal)
        let reprocessed = await RepricerCommandsTests.run(
            "reprocess", "--since", "2026-01-01", "--all", environment: bench.environment,
            change: onTerminal)

        #expect(exported.messages.contains("notifications written"), "\(exported.messages)")
        #expect(verified.messages.contains("0 of 0 MB read"), "\(verified.messages)")
        #expect(ingested.messages.contains("0 of 0 MB read"), "\(ingested.messages)")
        #expect(reprocessed.messages.contains("notifications read"), "\(reprocessed.messages)")
    }

    @Test(arguments: [
        ("a payload is changed", "its hash doesn't follow"),
        ("a line is missing", "line 2 is missing"),
        ("two lines change places", "line 2 is missing"),
        ("the end is missing", "the last line is missing"),
        ("a line is cut", "it is cut or changed"),
        ("a line is added", "a line follows the last one"),
        ("the head is missing", "doesn't say that this is an evidence file"),
        ("a member is added", "it holds more than was written"),
        ("a member is there twice", "it holds more than was written"),
        ("a member is added to the last line", "it holds more than was written"),
        ("it is empty", "the last line is missing"),
        ("it is another file", "no line of an evidence file"),
    ])
    func verify_ofAFalsifiedFile_namesIt(_ fault: String, _ message: String) async throws {
        let bench = try EvidenceCommandTests.Bench()
        var (path, lines, head) = try await Self.exported(bench)
        switch fault {
        case "a payload is changed":
            lines[2] = lines[2].replacing("signedPayload\":\"ey", with: "signedPayload\":\"eY")
        case "a line is missing": lines.remove(at: 2)
        case "two lines change places": lines.swapAt(2, 3)
        case "the end is missing": lines.removeLast()
        case "a line is cut": lines[2] = String(lines[2].prefix(100))
        case "a line is added": lines.append(lines[1])
        case "the head is missing": lines.removeFirst()
        case "a member is added": lines[2] = lines[2].dropLast() + #","note":"genuine"}"#
        case "a member is there twice":
            lines[2] = lines[2].replacing(#"{"n":"#, with: #"{"uuid":"another","n":"#)
        case "a member is added to the last line":
            lines[5] = lines[5].dropLast() + #","note":"genuine"}"#
        case "it is empty": lines = []
        default: lines = ["PNG", "x"]
        }
        path += ".false"
        try lines.map { $0 + "\n" }.joined().write(toFile: path, atomically: true, encoding: .utf8)

        let outcome = await Self.verify(bench, path, "--head", head)

        #expect(outcome.code == .failed)
        #expect(outcome.messages.contains(message), "\(outcome.messages)")
        #expect(!head.isEmpty)
    }

    /// Another payload under a chain of hashes that was made anew: its signature, and the head that was kept, find it.
    @Test func verify_ofAFileThatWasWrittenAnew_isFoundByTheHead() async throws {
        let bench = try EvidenceCommandTests.Bench()
        let (path, lines, head) = try await Self.exported(bench)
        var writer = EvidenceFile.Writer(
            EvidenceFile.Head(
                month: "2026-01", bundleID: "com.example.app", environment: "Sandbox",
                exportedAt: "2026-01-05T00:00:00Z"))
        let forged =
            writer.firstLine
            + writer.line(
                EvidenceFile.Entry(
                    uuid: EvidenceCommandTests.uuid, receivedAt: "2026-01-05T00:00:00Z",
                    signedPayload: "e30.e30.e30")) + writer.lastLine()
        try forged.write(toFile: path, atomically: true, encoding: .utf8)

        let outcome = await Self.verify(bench, path, "--head", head)

        #expect(lines.count == 6)
        #expect(outcome.code == .failed)
        #expect(outcome.messages.contains("\(EvidenceCommandTests.uuid) is not verified"))
        #expect(outcome.messages.contains("the last hash is another than --head"))
    }

    /// What comes later on would be in no file, and the file would still verify as whole.
    @Test(arguments: [EvidenceCommandTests.now, january.before])
    func export_ofAMonthThatMayStillGrow_isRefused(_ now: Int64) async throws {
        let bench = try EvidenceCommandTests.Bench()
        try await bench.store(try bench.notification())
        let path = bench.folder.path + "/january.ndjson"

        let outcome = await bench.run("evidence", "export", "--month", "2026-01", path, at: now)

        #expect(outcome.code == .inputRejected, "\(outcome.messages)")
        #expect(outcome.messages.contains("export it from 2026-02-01T01:00:00Z on"))
        #expect(!FileManager.default.fileExists(atPath: path))
        #expect(!FileManager.default.fileExists(atPath: path + ".part"))
    }

    /// A file of no notifications would say that none came.
    @Test func export_ofAMonthThatIsGone_isRefused() async throws {
        let bench = try EvidenceCommandTests.Bench()
        try await bench.store(try bench.notification())
        let path = bench.folder.path + "/gone.ndjson"

        let outcome = await bench.run(
            "evidence", "export", "--month", "2020-01", path, at: Self.january.end)

        #expect(outcome.code == .inputRejected)
        #expect(
            outcome.messages
                == "repricer: nothing is stored of 2020-01: `retention` dropped it, or nothing was received yet\n"
        )
        #expect(!FileManager.default.fileExists(atPath: path))
    }

    @Test(arguments: ["2026-13", "2026-1", "march", "2026-03-01", ""])
    func export_ofNoMonth_isUsage(_ month: String) async throws {
        let bench = try EvidenceCommandTests.Bench()

        let outcome = await bench.run("evidence", "export", "--month=\(month)", "/tmp/none")

        #expect(outcome.code == .usage)
    }
}
