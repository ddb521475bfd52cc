import Foundation
import TestSupport
import Testing

@testable import RepricerCommands

/// What a person at a terminal sees while a command takes its time: every command that reads or writes the database says
/// what it does and for how long, or how far it is.
@Suite(.database) struct ProgressTests {
    /// These are done at once, are told how far they are by their own suites, or are no command that ends.
    private static let others: Set = [
        // Each asks a store, and has a suite with one.
        "sync", "reconcile", "recover", "extend one", "test-notification",
        // They go on until somebody stops them, or ask.
        "serve", "init",
        // They read no database, or no more of it than its version.
        "help", "version", "config check", "config print",
    ]

    private static let unknown = "0190a0a0-0000-7000-8000-000000000001"

    private struct Step {
        var words: [String]
        var shows: String
        var isOwner = false
        var isBen = false
    }

    private static func steps(_ office: BatchCommandTests.Office) throws -> [Step] {
        try ofBatches(office) + ofFiles(office) + plain
    }

    private static func ofBatches(_ office: BatchCommandTests.Office) throws -> [Step] {
        let file = try office.file(BatchCommandTests.good)
        let again = try office.file(
            BatchCommandTests.good.replacing("12.99", with: "9.49"), name: "b.csv")
        return [
            Step(words: ["plan", file], shows: "reading the batch, 0 s"),
            Step(words: ["plan", file], shows: "1 of 1 rows"),
            Step(words: ["scenario", "--sku", "PLAN", "--rule", "+10%"], shows: "scenario, "),
            Step(
                words: ["scenario", "--sku", "PLAN", "--rule", "+10%"],
                shows: "subscriptions judged"),
            Step(words: ["submit", file, "--name", "spring"], shows: "reading the batch, 0 s"),
            Step(words: ["show", "spring"], shows: "reading what was submitted, 0 s"),
            Step(
                words: ["approve", "spring", "--yes"], shows: "approving 1 change, 0 s", isBen: true
            ),
            Step(
                words: ["report", "price_change", "--format", "csv"],
                shows: "report price_change, 1 row read, "),
            Step(
                words: ["report", "price_change", "--format", "html"],
                shows: "report price_change, 1 row read, "),
            Step(
                words: ["undo", "spring", "--dry-run"],
                shows: "counting what can be taken back, 0 s"),
            Step(words: ["undo", "spring"], shows: "storing the inverse changes, 0 s"),
            Step(words: ["abort", "spring"], shows: "withdrawing what was not sent, 0 s"),
            Step(words: ["submit", again, "--name", "other"], shows: "reading the batch, 0 s"),
            Step(
                words: ["reject", "other", "--reason", "no"],
                shows: "withdrawing what was not sent, 0 s"),
        ]
    }

    private static func ofFiles(_ office: BatchCommandTests.Office) throws -> [Step] {
        let file = "\(office.folder)/batch.csv"
        let rules = "\(office.folder)/rules.csv"
        try "rule,currency,decimals\ncurrency,XAA,2\n".write(
            toFile: rules, atomically: true, encoding: .utf8)
        let increases = "\(office.folder)/increases.csv"
        try """
        original_transaction_id,sku,increased_on,old_price,new_price,currency
        1000000000000001,PLAN,2025-08-01,8.99,9.99,USD

        """.write(toFile: increases, atomically: true, encoding: .utf8)
        return [
            Step(
                words: ["history", "import", increases, "--dry-run"],
                shows: "reading the past increases, 0 s"),
            Step(words: ["history", "import", increases], shows: "importing 1 increase, 0 s"),
            Step(words: ["rules", "import", rules, "--dry-run"], shows: "reading the rules, 0 s"),
            Step(words: ["rules", "import", rules], shows: "importing the rules, 0 s"),
            Step(
                words: [
                    "extend", "all", "--product", "generic", "--days", "7", "--reason", "outage",
                ],
                shows: "counting the subscriptions, 0 s"),
            Step(
                words: ["retention", "--keep", "13m", "--dry-run"],
                shows: "looking for what is too old, ", isOwner: true),
            Step(
                words: ["retention", "--keep", "13m"], shows: "dropping what is too old, ",
                isOwner: true),
            Step(words: ["close-month", "2025-12"], shows: "closing 2025-12, 0 s", isOwner: true),
            Step(words: ["audit", "verify"], shows: "lines"),
            Step(
                words: ["migrate", "--migrations", RepositoryFiles.path("Migrations")],
                shows: "migrate, ", isOwner: true),
            Step(
                words: ["migrate", "status", "--migrations", RepositoryFiles.path("Migrations")],
                shows: "migrate status, ", isOwner: true),
            Step(words: ["completion", "batches"], shows: "completion, "),
            Step(
                words: ["evidence", "export", "--month", "2025-12", "\(office.folder)/evidence"],
                shows: "evidence export, ", isOwner: true),
            Step(
                words: ["evidence", "verify", "\(office.folder)/evidence"], shows: "MB read",
                isOwner: true),
            Step(words: ["evidence", unknown], shows: "evidence, ", isOwner: true),
            Step(words: ["ingest", file], shows: "ingest, ", isOwner: true),
        ]
    }

    /// These say their name.
    private static var plain: [Step] {
        [
            ["pause", "--all"], ["resume", "--all"], ["release", "spring"], ["status"],
            ["explain", "1000000000000001", "PLAN", "12.99"], ["timeline", "1000000000000001"],
            ["close", unknown, "--reason", "x"], ["rules", "show"], ["audit", "show"],
            ["policy", "show"],
            ["policy", "set", "ben", "--rows", "9"], ["outbox", "status"],
            ["outbox", "replay", "--since", "2025-12-01T00:00:00Z"], ["extend", "status"],
            ["extend", "retry-failed", unknown], ["extend", "give-up", unknown, "--reason", "x"],
            ["reprocess", "--since", "2025-12-01T00:00:00Z"],
        ].map { words in
            let name =
                RepricerCommands.all.filter { words.starts(with: $0.path) }
                .max { $0.path.count < $1.path.count }?.name ?? ""
            return Step(words: words, shows: "\(name), ", isOwner: true)
        }
    }

    @Test func everyCommand_thatMayTakeLong_saysWhatItDoesAndForHowLong() async throws {
        let office = try await BatchCommandTests.Office()
        // It reads and writes evidence, too.
        let bench = try EvidenceCommandTests.Bench()
        let connection = try await TestDatabase.connect()
        try await connection.script(
            "SELECT repricer.prepare_months('notifications', '2025-12-15Z', 0)")
        await connection.close()
        let owner = bench.environment
        var seen = Self.others
        for step in try Self.steps(office) {
            let name =
                RepricerCommands.all.filter { step.words.starts(with: $0.path) }
                .max { $0.path.count < $1.path.count }?.name ?? ""
            seen.insert(name)

            let outcome = await run(
                step.words, environment: step.isOwner ? owner : step.isBen ? office.ben : office.ana
            ) {
                $0.isMessagesTerminal = true
                $0.progressAfter = .zero
            }

            let what = step.words.joined(separator: " ")
            #expect(outcome.messages.contains(step.shows), "\(what): \(outcome.messages)")
            // It is gone before anything else is written, and at the end.
            for part in outcome.messages.split(separator: /, [0-9]+ s/).dropFirst() {
                #expect(part.hasPrefix("\r\u{1B}[J"), "\(what): \(outcome.messages)")
            }
        }
        #expect(seen == Set(RepricerCommands.all.map(\.name)))
        withExtendedLifetime(bench) {}
    }

    /// What is piped, quiet or on a terminal that cannot be drawn on shows nothing.
    @Test func line_whereNobodyWatches_isNotDrawn() async throws {
        let office = try await BatchCommandTests.Office()
        let file = try office.file(BatchCommandTests.good)
        let piped = await run("plan", file, environment: office.ana) { $0.progressAfter = .zero }
        let quiet = await run("plan", file, "--quiet", environment: office.ana) {
            $0.isMessagesTerminal = true
            $0.progressAfter = .zero
        }
        let dumb = await run(
            "plan", file, environment: office.ana.merging(["TERM": "dumb"]) { $1 }
        ) {
            $0.isMessagesTerminal = true
            $0.progressAfter = .zero
        }

        for outcome in [piped, quiet, dumb] {
            #expect(!outcome.messages.contains("\u{1B}"), "\(outcome.messages)")
            #expect(!outcome.messages.contains("reading the batch"))
        }
    }

    /// Where facts go to the same screen, the line never stands within them, nor over a question.
    @Test func line_besideFactsAndQuestions_leavesThemWhole() async throws {
        let office = try await BatchCommandTests.Office()
        _ = try await office.submit()
        let screen = OutputMemory()

        _ = await run("approve", "spring", environment: office.ben) {
            $0.output = screen.sink
            $0.messages = screen.sink
            $0.isInputTerminal = true
            $0.isOutputTerminal = true
            $0.isMessagesTerminal = true
            $0.progressAfter = .zero
            $0.readAnswer = {
                #expect(screen.text.hasSuffix("? [y/N] "))
                return "y"
            }
        }

        let left = screen.text.split(separator: "\n").map { line in
            line.components(separatedBy: "\u{1B}[J").last ?? ""
        }
        #expect(!left.contains { $0.contains(/, [0-9]+ s/) }, "\(left)")
        #expect(screen.text.contains("approving 1 change, 0 s"))
        #expect(left.contains("approved 1 change of spring"))
    }
}
