import Foundation
import HTTP
import JOSE
import Reconciliation
import SandboxStore
import ServiceKit
import Synchronization
import TestSupport
import Testing

@testable import RepricerCommands

@Suite(.database) struct ServiceCommandTests {
    private let scratch: ScratchFolder

    init() throws { scratch = try ScratchFolder() }

    /// A receiver's settings, with a root certificate of its own.
    private func environment(database: String) throws -> [String: String] {
        let authority = try CertificateAuthority(
            validFrom: 1_577_836_800_000, validUntil: 2_208_988_800_000)
        let roots = try scratch.file("roots.pem", authority.rootPEM())
        return [
            "REPRICER_DATABASE_URL": database, "REPRICER_BUNDLE_ID": "com.example.app",
            "REPRICER_ENVIRONMENT": "Sandbox", "REPRICER_API_BASE_URL": "http://127.0.0.1:9",
            "REPRICER_ROOT_CERTIFICATES": roots,
            "REPRICER_LISTEN": "127.0.0.1:0", "REPRICER_PAGES_LISTEN": "127.0.0.1:0",
        ]
    }

    /// Serves until `word` is logged, then sends the signal.
    private func serve(
        _ environment: [String: String], until word: String, signal: Int32
    ) async -> Outcome {
        let (signals, continuation) = AsyncStream.makeStream(of: Int32.self)
        let seen = Mutex("")
        let text = OutputMemory()
        let outcome = await run("serve", "--only", "receiver", environment: environment) {
            harness in
            harness.terminations = { signals }
            harness.messages = OutputSink { bytes throws(OutputError) in
                let line = String(decoding: bytes, as: UTF8.self)
                try text.sink.write(line)
                if line.contains(word) { continuation.yield(signal) }
                seen.withLock { $0 += line }
            }
        }
        return Outcome(code: outcome.code, output: outcome.output, messages: text.text)
    }

    @Test(arguments: [(15, ExitCode.done), (2, .interrupted)] as [(Int32, ExitCode)])
    func serve_onASignal_endsWithItsCode(_ signal: Int32, _ code: ExitCode) async throws {
        let outcome = await serve(
            try environment(database: TestDatabase.url), until: "message=serving", signal: signal)

        #expect(outcome.code == code, "\(outcome.messages)")
        #expect(outcome.output.isEmpty)
        #expect(outcome.messages.contains("message=stopped"))
    }

    @Test func serve_whenTheDatabaseIsAway_startsAndWaits() async throws {
        let outcome = await serve(
            try environment(database: "host=/nonexistent dbname=x user=y"),
            until: "message=serving", signal: 15)

        #expect(outcome.code == .done)
        #expect(outcome.messages.contains("waiting for the database"))
    }

    @Test func serve_onAnotherSchemaVersion_refuses() async throws {
        let database = try await TestDatabase.makeEmptyDatabase()

        let outcome = await run(
            "serve", "--only", "receiver", environment: try environment(database: database))

        #expect(outcome.code == .failed)
        #expect(outcome.messages.contains("schema: the database is not migrated"))
    }

    @Test func ingest_ofGarbage_namesEachLineAndExits3() async throws {
        let path = try scratch.file(
            "notifications.ndjson", "garbage\n\n{\"signedPayload\":\"a.b.c\"}\n")

        let outcome = await run(
            "ingest", path, "--json", environment: try environment(database: TestDatabase.url))

        #expect(outcome.code == .inputRejected)
        #expect(outcome.output.hasPrefix(#"{"lines":2,"new":0,"duplicate":0,"#))
        let lines = outcome.messages.split(separator: "\n").map(String.init)
        #expect(lines.count == 2)
        #expect(lines.first?.hasPrefix("\(path):1: ") == true)
        #expect(
            lines.last
                == "\(path):3: jws_malformed: a part is not base64url without padding; "
                + "pass each payload on as the App Store sent it")
    }

    @Test func ingest_ofACompressedFile_saysWhatToDoAndExits3() async throws {
        let path = scratch.path + "/notifications.gz"
        try Data([0x1F, 0x8B, 8, 0, 0, 0, 0, 0]).write(to: URL(fileURLWithPath: path))
        let why = "compressed_file: it is compressed by gzip; run zcat"
        let environment = try environment(database: TestDatabase.url)

        let outcome = await run("ingest", path, environment: environment)

        #expect(outcome.code == .inputRejected)
        #expect(outcome.output.isEmpty)
        #expect(outcome.messages == "\(path): \(why) \(path), and pipe it in as -\n")

        let program = Process()
        program.executableURL = URL(fileURLWithPath: CommandLine.arguments[0])
            .resolvingSymlinksInPath().deletingLastPathComponent()
            .appendingPathComponent("repricer")
        program.arguments = ["ingest", "-"]
        program.environment = environment
        program.standardInput = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
        let said = Pipe()
        program.standardError = said
        try program.run()
        let messages = said.fileHandleForReading.readDataToEndOfFile()
        program.waitUntilExit()

        #expect(program.terminationStatus == 3)
        #expect(
            String(decoding: messages, as: UTF8.self) == "-: \(why) FILE, and pipe it in as -\n")
    }

    /// It would fail for ever if a job were to try it again.
    @Test func reconcile_withAProgramOfBefore_exits1WithTheRemedyAlone() {
        let failure = Commands.commandFailure(ReconcileError.outdated("install the release"))

        #expect((failure as? CommandFailure)?.code == .failed)
        #expect("\(failure)".contains("install the release"))
        #expect(!"\(failure)".contains("again"))
    }

    @Test func ingest_ofAMissingFile_exits3() async throws {
        let outcome = await run(
            "ingest", "/nowhere/x", environment: try environment(database: TestDatabase.url))

        #expect(outcome.code == .inputRejected)
        #expect(
            outcome.messages
                == "/nowhere/x: unreadable_file: No such file or directory; "
                + "check the path and its permissions\n")
    }

    @Test func ingest_ofAFolder_exits3() async throws {
        let outcome = await run(
            "ingest", "/tmp", environment: try environment(database: TestDatabase.url))

        #expect(outcome.code == .inputRejected)
        #expect(
            outcome.messages
                == "/tmp: unreadable_file: Is a directory; check the path and its permissions\n")
    }

    @Test(arguments: [["serve", "--only", "receiver"], ["ingest", "-"]])
    func service_asAUserWithoutTheRole_isRefusedAtOnce(_ command: [String]) async throws {
        let analyst = try await TestDatabase.login("ana", memberOf: ["repricer_pricing"])

        let outcome = await run(command, environment: try environment(database: analyst))

        #expect(outcome.code == .approvalNeededOrRefused)
        #expect(outcome.messages.contains("may not write repricer.inbox; GRANT repricer_service"))
    }

    @Test(arguments: ["REPRICER_LISTEN", "REPRICER_PAGES_LISTEN"])
    func serve_onATakenPort_saysWhich(_ variable: String) async throws {
        let taken = try HTTPServer(host: "127.0.0.1", port: 0, log: Log(component: "test")) { _ in
            .text(200, "")
        }
        var settings = try environment(database: TestDatabase.url)
        settings[variable] = "127.0.0.1:\(try taken.bind())"

        let outcome = await run("serve", "--only", "receiver", environment: settings)

        #expect(outcome.code == .failed)
        #expect(outcome.messages.contains("\(variable): cannot listen on 127.0.0.1:"))
        #expect(outcome.messages.contains("choose another HOST:PORT"))
    }

    @Test func configCheck_ofWhatWasNotTried_doesNotSayOk() async throws {
        let outcome = await run("config", "check", environment: ["PGHOST": "/nonexistent"])

        #expect(outcome.output.contains("key        not tried"))
        #expect(outcome.output.contains("app store  not tried"))
    }

    @Test func report_whenTheDatabaseIsAway_saysWhyAndExits6() async throws {
        let outcome = await run(
            "report", "batch_summary",
            environment: ["REPRICER_DATABASE_URL": "host=/nonexistent dbname=x user=y"])

        #expect(outcome.code == .unavailable)
        #expect(outcome.messages.contains("the database cannot be reached: connection to server"))
        #expect(outcome.messages.contains("check REPRICER_DATABASE_URL"))
    }

    @Test func configCheck_ofAReceiverAlone_namesWhatIsMissingAndExits1() async throws {
        var settings = try environment(database: TestDatabase.url)
        settings["REPRICER_API_BASE_URL"] = "http://example.com"

        let outcome = await run("config", "check", "--json", environment: settings)

        #expect(outcome.code == .failed)
        #expect(outcome.output.hasPrefix(#"{"ok":false,"checks":[{"check":"settings","ok":false"#))
        #expect(outcome.output.contains(#"{"check":"roots","ok":true,"found":"1 in "#))
        #expect(outcome.output.contains(#"{"check":"schema","ok":true,"#))
        #expect(outcome.messages.contains("REPRICER_API_BASE_URL: \"http://example.com\""))
    }

    /// A root that has ended verifies nothing, however well its file can be read.
    @Test func configCheck_ofARootThatHasExpired_saysSo() async throws {
        let settings = try environment(database: TestDatabase.url)

        let late = await run("config", "check", "--json", environment: settings) {
            $0.realClock = ManualClock(9_000_000_000_000)
        }

        #expect(late.code != .done)
        #expect(late.output.contains(#"{"check":"roots","ok":false"#), "\(late.output)")
        #expect(late.messages.contains("has expired"), "\(late.messages)")
    }

    @Test func configCheck_whenNobodyAnswers_exits6() async throws {
        var settings = try environment(database: "host=/nonexistent dbname=x user=y")
        settings["REPRICER_API_BASE_URL"] = "http://127.0.0.1:1"

        let outcome = await run("config", "check", environment: settings)

        #expect(outcome.code == .unavailable)
        #expect(outcome.messages.contains("REPRICER_DATABASE_URL: the database cannot be reached"))
        #expect(
            outcome.messages.contains("REPRICER_API_BASE_URL: http://127.0.0.1:1 does not answer"))
    }
}
