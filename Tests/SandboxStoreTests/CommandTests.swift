import Foundation
import JOSE
import ServiceKit
import Synchronization
import TestSupport
import Testing

@testable import SandboxStore

@Suite struct CommandTests {
    private func run(_ words: String...) async -> (code: Int32, output: String, errors: String) {
        let output = Mutex("")
        let errors = Mutex("")
        let code = await SandboxCommand.run(
            words, output: { text in output.withLock { $0 += text } },
            errors: { text in errors.withLock { $0 += text } })
        return (code, output.withLock { $0 }, errors.withLock { $0 })
    }

    @Test(arguments: [
        ([], "a command is missing"), (["run"], "unknown command \"run\""),
        (["version", "now"], "version takes no arguments"),
        (["seed"], "--data is required"), (["seed", "--data"], "--data needs a value"),
        (["seed", "--data", "x", "--data", "y"], "--data is given twice"),
        (["seed", "--color", "x"], "unknown flag --color"),
        (["seed", "DIR"], "unexpected argument \"DIR\""),
        (["serve", "--listen", "9090"], "--listen must be HOST:PORT"),
        (["serve", "--listen", "a:b"], "--listen must be HOST:PORT"),
        (["serve", "--notify", "ftp://x"], "--notify must be http://HOST:PORT/PATH or https://…"),
    ])
    func arguments_wrong_areAUsageError(words: [String], message: String) async {
        let errors = Mutex("")
        let code = await SandboxCommand.run(
            words, output: { _ in }, errors: { text in errors.withLock { $0 += text } })

        #expect(code == 2)
        #expect(
            errors.withLock { $0 }
                == "appstore-sandbox: \(message)\nSee appstore-sandbox help.\n")
    }

    @Test func seed_withWrongStoreFlags_isAUsageError() async throws {
        let folder = try ScratchFolder()
        for words in [
            ["--clock", "now"], ["--clock", "1999-01-01T00:00:00Z@10"], ["--month", "0"],
            ["--lives", "odd", "--subscriptions", "1"],
            ["--clock", "2026-01-05T00:00:00Z@10", "--month", "5"], ["--seed", "x"],
            ["--app-apple-id", "0"], ["--bundle-id", ""], ["--subscriptions", "0"],
        ] {
            let all = ["seed", "--data", folder.path] + words
            let code = await SandboxCommand.run(all, output: { _ in }, errors: { _ in })
            #expect(code == 2, "\(words)")
        }
    }

    @Test func help_andVersion_goToOutput() async {
        let help = await run("help")
        for word in ["serve", "seed", "act", "sample-batch"] {
            #expect(await run(word, "--help").output == help.output)
        }
        let version = await run("version")

        #expect(help.code == 0 && help.output.contains("appstore-sandbox serve"))
        #expect(version.output == "appstore-sandbox \(SandboxCommand.version)\n")
        #expect(help.errors.isEmpty && version.errors.isEmpty)
    }

    @Test func seed_intoAFolder_writesEverythingOnce() async throws {
        let folder = try ScratchFolder()
        let made = await run(
            "seed", "--data", folder.path, "--subscriptions", "110", "--seed", "3", "--clock",
            "2026-01-05T00:00:00Z@86400", "--batch", "\(folder.path)/copy.csv")
        let again = await run("seed", "--data", folder.path, "--subscriptions", "110")
        let printed = await run("sample-batch", "--data", folder.path, "--out", "-")

        #expect(made.code == 0)
        #expect(again.code == 5)
        let batch = try folder.text("batch.csv")
        let copy = try folder.text("copy.csv")
        #expect(copy == batch)
        #expect(printed.output == batch)
        let lines = try folder.text("subscriptions.ndjson").split(separator: "\n")
        #expect((150..<200).contains(lines.count))
        let mode = try FileManager.default.attributesOfItem(atPath: "\(folder.path)/key.p8")
        #expect(mode[.posixPermissions] as? Int == 0o600)
        for line in lines { try verify(String(line), folder) }
    }

    /// Whoever opens the store need not say again what it runs on; it begins to run then.
    @Test func serve_ofASeededStore_runsOnTheClockThatSeedWasGiven() async throws {
        let folder = try ScratchFolder()
        _ = await run(
            "seed", "--data", folder.path, "--subscriptions", "1", "--clock",
            "2026-01-05T00:00:00Z@86400")
        func open(_ words: String...) throws -> String? {
            let arguments = try Arguments(
                ["--data", folder.path] + words, known: SandboxCommand.storeFlags)
            return try Sandbox(
                setup: StoreSetup(arguments), host: "127.0.0.1", port: 0,
                notify: NotifyURL("http://127.0.0.1:9/"), log: .silent
            ).clockSpecification
        }
        let before = SystemClock().nowMilliseconds()

        let first = try #require(try open())
        let second = try open()

        #expect(throws: SandboxError.self) { try open("--clock", "2026-01-05T00:00:00Z@10") }
        #expect(first.hasPrefix("2026-01-05T00:00:00Z@86400@"))
        #expect(try #require(first.split(separator: "@").last.flatMap { Int64($0) }) >= before)
        #expect(second == first)
    }

    /// A line's signature and nested statements stand against the root that was written.
    private func verify(_ line: String, _ folder: ScratchFolder) throws {
        let roots = try TrustedRoots(certificatesIn: "\(folder.path)/root.pem")
        let verifier = try JWSVerifier(roots: roots)
        let outer = try #require(
            JSONValue.parse(Array(line.utf8))?.object?["signedPayload"]?.string)
        let at = SampleTests.start
        let payload = try verifier.payload(of: outer, at: at)
        let fields = try #require(JSONValue.parse(payload)?.object)
        let facts = try #require(fields["data"]?.object)
        let signedDate = try #require(fields["signedDate"]?.integer)
        #expect(signedDate < at)
        _ = try verifier.payload(of: outer, at: signedDate)
        #expect(facts["appAppleId"]?.integer == 1_234_567_890)
        for name in ["signedTransactionInfo", "signedRenewalInfo"] {
            let nested = try #require(facts[name]?.string)
            let bytes = try verifier.payload(of: nested, at: at)
            let inner = try #require(JSONValue.parse(bytes)?.object)
            #expect(inner["advancedCommerceInfo"]?.object?["items"]?.array?.isEmpty == false)
        }
    }

    @Test func journal_withATornLine_losesThatLineAlone() throws {
        let folder = try ScratchFolder()
        let path = "\(folder.path)/d.ndjson"
        let record = DeliveryRecord(uuid: "u", at: 1, result: .success)
        try JournalFile(path: path).append(record)
        let whole = try folder.text("d.ndjson")
        try (whole + whole.dropLast(9)).write(toFile: path, atomically: true, encoding: .utf8)

        try JournalFile(path: path).append(record)

        #expect(try JournalFile.lines(of: path, as: DeliveryRecord.self) == [record, record])
    }

    @Test func sampleBatch_withoutASeed_isRejectedInput() async throws {
        let folder = try ScratchFolder()

        let result = await run("sample-batch", "--data", folder.path, "--out", "-")

        #expect(result.code == 3)
    }
}
