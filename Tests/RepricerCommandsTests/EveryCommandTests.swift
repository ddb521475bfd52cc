import Foundation
import TestSupport
import Testing

@testable import RepricerCommands

/// Every command with every option that all commands take: what comes can be read by a program, and by a person at 80 columns.
@Suite(.database) struct EveryCommandTests {
    /// One command line that does something on the database of `PagesFixture`.
    struct Line: Sendable, CustomTestStringConvertible {
        /// FILE, DIR and NEW stand for paths of the test.
        var words: [String]
        var code: ExitCode = .done
        /// Whether it prints facts; else it prints nothing, or a text of its own.
        var hasFacts = true

        init(_ line: String, _ code: ExitCode = .done, hasFacts: Bool = true) {
            words = line.split(separator: " ").map(String.init)
            self.code = code
            self.hasFacts = hasFacts
        }

        var testDescription: String { words.joined(separator: " ") }
    }

    private static let change = "60acfa30-5e97-4b90-a1a1-b2b3e2c1a111"

    static let lines = [
        Line("plan FILE", .inputRejected), Line("submit FILE --name summer --accept-valid"),
        Line("show \(PagesFixture.waiting)"), Line("approve \(PagesFixture.waiting) --yes"),
        Line("reject \(PagesFixture.waiting) --reason no"), Line("pause spring"),
        Line("resume halted"), Line("release spring"), Line("abort spring"),
        Line("undo spring --dry-run"), Line("status"), Line("status spring"),
        Line("explain 2000000000000101 PLAN 12.99"), Line("scenario --sku PLAN --rule +10%"),
        Line("timeline 2000000000000181"), Line("close \(change) --reason gone", .inputRejected),
        Line("serve", .failed, hasFacts: false), Line("ingest /dev/null"),
        Line("evidence \(change)", .inputRejected),
        Line("evidence export --month 2026-02 NEW"), Line("evidence verify FILE", .inputRejected),
        Line("retention --dry-run"), Line("sync FILE", .failed, hasFacts: false),
        Line("reconcile", .failed, hasFacts: false),
        Line("recover --lost-since 2026-03-31T00:00:00Z", .failed, hasFacts: false),
        Line("reprocess --since 2026-03-31T00:00:00Z"), Line("report batch_summary"),
        Line("report --describe"), Line("close-month 2026-02"),
        Line("rules show"), Line("rules show --missing"),
        Line("rules import FILE", .inputRejected), Line("history import FILE", .inputRejected),
        Line("audit show"), Line("audit verify"), Line("policy show"),
        Line("policy set ben --rows 100"), Line("outbox status"), Line("outbox replay --all"),
        Line("extend one 2000000000000101 --days 3 --reason outage"),
        Line("extend all --product com.example.bundle --days 3 --reason outage"),
        Line("extend status"), Line("extend retry-failed \(change)", .inputRejected),
        Line("extend give-up \(change) --reason gone", .inputRejected),
        Line("test-notification", .failed, hasFacts: false), Line("init NEW"),
        Line("migrate"), Line("migrate status"), Line("config check", .failed),
        Line("config print"), Line("version"), Line("help", hasFacts: false),
        Line("completion bash", hasFacts: false),
    ]

    private let environment: [String: String]
    private let folder: ScratchFolder
    private let file: String

    init() async throws {
        try await PagesFixture.fill()
        environment = [
            "REPRICER_DATABASE_URL": TestDatabase.url, "REPRICER_ENVIRONMENT": "Production",
            "REPRICER_BUNDLE_ID": "com.example.app",
        ]
        folder = try ScratchFolder()
        file = try folder.file(
            "prices.csv",
            """
            original_transaction_id,sku,price,currency
            2000000000000181,PLAN,13.99,EUR
            2000000000000199,PLAN,9.999,EUR

            """)
    }

    private func outcome(
        _ line: Line, _ options: String..., isTerminal: Bool = false,
        environment more: [String: String] = [:]
    ) async -> Outcome {
        let words = line.words.map { word in
            switch word {
            case "FILE": file
            case "NEW": "\(folder.path)/new"
            default: word
            }
        }
        return await run(words + options, environment: environment.merging(more) { $1 }) {
            $0.realClock = ManualClock(PagesFixture.now)
            $0.workingDirectory = folder.path
            $0.isOutputTerminal = isTerminal
            $0.isMessagesTerminal = isTerminal
        }
    }

    @Test func lines_coverEveryCommand() {
        let covered = Set(
            Self.lines.compactMap { line in
                RepricerCommands.all.filter { line.words.starts(with: $0.path) }
                    .max { $0.path.count < $1.path.count }?.name
            })

        #expect(Set(RepricerCommands.all.map(\.name)).subtracting(covered) == [])
    }

    /// A program reads standard output: one JSON value, or nothing.
    @Test(arguments: lines, ["--json", "-o json", "--format=json"])
    func command_asJSON_printsOneValueAlone(_ line: Line, _ option: String) async throws {
        let words = option.split(separator: " ").map(String.init)
        var asked = line
        asked.words += words

        let outcome = await outcome(asked)

        #expect(outcome.code == line.code, "\(outcome.messages)")
        #expect(!outcome.output.contains("\u{1B}") && !outcome.messages.contains("\u{1B}"))
        guard line.hasFacts, !outcome.output.isEmpty else {
            // What failed says why on standard error.
            #expect(!line.hasFacts || line.code != .done, "\(outcome.messages)")
            #expect(line.code == .done || !outcome.messages.isEmpty)
            return
        }
        #expect(outcome.output.hasSuffix("\n"))
        #expect(outcome.output.split(separator: "\n").count == 1, "\(outcome.output)")
        #expect(throws: Never.self, "\(outcome.output)") {
            try JSONSerialization.jsonObject(with: Data(outcome.output.utf8))
        }
    }

    /// Elsewhere than on a terminal nothing is coloured, nothing is drawn over, and nothing is suggested.
    @Test(arguments: lines)
    func command_inAPipe_printsPlainText(_ line: Line) async {
        let outcome = await outcome(line)

        #expect(outcome.code == line.code, "\(outcome.messages)")
        for text in [outcome.output, outcome.messages] {
            #expect(!text.contains("\u{1B}") && !text.contains("\r"), "\(text)")
        }
        #expect(!outcome.messages.contains("next"), "\(outcome.messages)")
        #expect(line.code == .done || !outcome.messages.isEmpty)
    }

    @Test(arguments: lines, [["NO_COLOR": "1"], ["TERM": "dumb"], [:]])
    func command_onATerminal_keepsToItsWidthAndToNoColour(
        _ line: Line, _ environment: [String: String]
    ) async throws {
        let options = environment.isEmpty ? ["--color=never"] : []
        var asked = line
        asked.words += options + ["--no-pager"]

        let outcome = await outcome(asked, isTerminal: true, environment: environment)

        #expect(outcome.code == line.code, "\(outcome.messages)")
        #expect(!outcome.output.contains("\u{1B}["), "\(outcome.output)")
        if line.words.first != "completion", line.words.first != "help" {
            for shown in outcome.output.split(separator: "\n") where shown.contains(" ") {
                #expect(shown.count <= 80, "\(shown)")
            }
        }
        try Self.checkSuggestions(in: outcome.messages)
    }

    @Test(arguments: lines.filter(\.hasFacts))
    func command_thatMayColour_saysTheSameWords(_ line: Line) async {
        guard line.code != .done || !["init", "submit"].contains(line.words[0]) else { return }

        let coloured = await outcome(line, "--color=always")

        #expect(coloured.code == line.code)
        #expect(!coloured.output.replacing(/\u{1B}\[[0-9;]*m/, with: "").contains("\u{1B}"))
    }

    @Test(arguments: lines)
    func command_withOptionsThatCannotBe_isAUsageError(_ line: Line) async {
        let wrong = [
            ["--format", "xml"], ["-o", "yaml"], ["-o"], ["--color", "red"], ["--color"],
            ["--json", "-o", "table"], ["--format", "table", "--format", "json"], ["--jsn"],
            ["--log-level", "loud"],
        ]
        for options in wrong {
            var asked = line
            asked.words += options

            let outcome = await outcome(asked)

            #expect(outcome.code == .usage, "\(options): \(outcome.output)\(outcome.messages)")
            #expect(outcome.output.isEmpty, "\(options)")
            #expect(outcome.messages.contains("usage: repricer "), "\(options)")
        }
    }

    /// What is suggested can be typed as it stands.
    private static func checkSuggestions(in messages: String) throws {
        for match in messages.matches(of: /(?m)^next(?:, [a-z ]+)?: repricer (?<words>.*)$/) {
            let words = match.words.split(separator: " ").map(String.init)
            var parser = ArgumentParser(commands: RepricerCommands.all, arguments: words)
            #expect(throws: Never.self, "\(match.0)") { try parser.parse() }
        }
    }
}
