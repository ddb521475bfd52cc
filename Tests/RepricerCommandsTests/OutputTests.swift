import Postgres
import Reports
import Synchronization
import TestSupport
import Testing

@testable import Reconciliation
@testable import RepricerCommands

@Suite struct OutputTests {
    @Test func table_alignsColumns_andLeavesNoTrailingBlanks() {
        var table = Table([.left("STATE"), .right("ROWS"), .left("NOTE")])
        table.add(["effective", "12", ""])
        table.add(["sent", "3", "wait"])

        #expect(
            table.text == """
                STATE      ROWS  NOTE
                effective    12
                sent          3  wait

                """)
    }

    @Test func table_ofHostileText_cannotSteerTheTerminal() {
        var table = Table([.left("A")])
        table.add(["\u{1B}[2Jx\n"])

        #expect(table.text == "A\n\u{FFFD}[2Jx\u{FFFD}\n")
    }

    @Test func json_keepsTheOrderOfKeys_andEscapes() {
        let value: JSONValue = [
            "b": JSONValue.array([1.json, true.json, .null]), "a": "x\"\\\n\u{1}é",
            "c": JSONValue.finished("{\"z\":1}"),
        ]

        #expect(
            value.text == #"{"b":[1,true,null],"a":"x\"\\\n\u0001é","c":{"z":1}}"#)
    }

    @Test(
        arguments: [
            (0, 10, "[....................]   0 %  x"), (5, 10, "[##########..........]  50 %  x"),
            (10, 10, "[####################] 100 %  x"),
            (99, 10, "[####################] 100 %  x"),
            // Of how many, nobody knows.
            (7, 0, "x"),
            (999, 1000, "[###################.]  99 %  x"),
        ] as [(Int64, Int64, String)])
    func progress_isRoundedDown(_ done: Int64, _ total: Int64, _ line: String) {
        #expect(ProgressBar.lines(done: done, total: total, note: "x", columns: 32) == [line])
    }

    @Test(arguments: [10, 20, 40, 79, 199])
    func progress_onATerminalOfAnyWidth_losesNoWord(_ columns: Int) {
        let note = "511 of 564 delivered, 300 pending_consent, 2 declined"

        let lines = ProgressBar.lines(done: 511, total: 564, note: note, columns: columns)

        #expect(lines.allSatisfy { $0.count <= columns })
        let shown = lines.joined().filter { $0 != " " }
        #expect(shown.hasSuffix(note.filter { $0 != " " }))
    }

    private static func table() -> Table {
        var table = Table([.left("BATCH"), .right("ROWS"), .left("WHY")])
        table.add([
            "0190a0b0-0000-7000-8000-000000000001", "12",
            "of storefront USA alone, since Apple refused",
        ])
        return table
    }

    @Test func table_onATerminal_breaksBetweenWordsAndKeepsToTheScreen() {
        let text = Screen.$columns.withValue(70) { Self.table().text }

        #expect(
            text == """
                BATCH                                 ROWS  WHY
                0190a0b0-0000-7000-8000-000000000001    12  of storefront USA alone,
                                                            since Apple refused

                """)
    }

    @Test func namesAndValues_withALongWord_keepTheirColumns() {
        let text = Screen.$columns.withValue(48) {
            definitionList([
                ("batch", "0190a0b0 A-name-without-any-blank-that-is-longer-than-the-screen"),
                ("refused rows", "3"),
            ])
        }

        #expect(
            text == """
                batch         0190a0b0
                              A-name-without-any-blank-that-is-l
                              onger-than-the-screen
                refused rows  3

                """)
    }

    @Test func table_onATerminalThatItsWordsAreTooLongFor_isARecordALine() {
        let text = Screen.$columns.withValue(20) { Self.table().text }

        #expect(
            text == """
                BATCH:
                0190a0b0-0000-7000-8
                000-000000000001
                  ROWS: 12
                  WHY: of storefront
                  USA alone, since
                  Apple refused

                """)
    }

    @Test func table_elsewhere_isAsWideAsItIs() {
        #expect(Self.table().text.split(separator: "\n").count == 2)
    }

    @Test(
        arguments: [
            ([], true, [:], true), ([], false, [:], false), ([], true, ["NO_COLOR": "1"], false),
            ([], true, ["NO_COLOR": ""], true), ([], true, ["TERM": "dumb"], false),
            (["--color", "always"], false, ["NO_COLOR": "1"], true),
            (["--color", "never"], true, [:], false),
        ] as [([String], Bool, [String: String], Bool)])
    func colour_isForTerminalsUnlessSomebodySaysOtherwise(
        _ options: [String], _ isTerminal: Bool, _ environment: [String: String], _ isColoured: Bool
    ) async {
        let outcome = await run(["config", "check"] + options, environment: environment) {
            $0.isOutputTerminal = isTerminal
            $0.terminalSize = { (200, 100) }
        }

        #expect(
            outcome.output.contains("\u{1B}[31mFAILED\u{1B}[0m") == isColoured, "\(outcome.output)")
        #expect(outcome.output.contains("\u{1B}") == isColoured)
    }

    @Test(
        arguments: [
            (true, [], [:], "less -FRX"), (true, [], ["PAGER": "more -s"], "more -s"),
            (false, [], [:], nil), (true, ["--no-pager"], [:], nil), (true, [], ["PAGER": ""], nil),
            (true, ["--json"], [:], nil), (true, [], ["TERM": "dumb"], nil),
        ] as [(Bool, [String], [String: String], String?)])
    func pager_isForLongTablesOnATerminal(
        _ isTerminal: Bool, _ options: [String], _ environment: [String: String], _ pager: String?
    ) async {
        let paged = Mutex<[String]>([])

        let outcome = await run(["config", "print"] + options, environment: environment) {
            $0.isOutputTerminal = isTerminal
            $0.page = { command, _ in
                paged.withLock { $0.append(command) }
                return true
            }
        }

        #expect(outcome.code == .done)
        #expect(paged.withLock { $0 } == [pager].compactMap { $0 })
        #expect(outcome.output.isEmpty == (pager != nil))
    }

    @Test(arguments: [
        ["--batch", "x"], ["--as-of", "2026-01-01"], ["-o", "csv"],
        ["--reporting-currency", "EUR"],
    ])
    func describe_besideWhatChoosesRows_isRefused(_ options: [String]) async {
        let outcome = await run(["report", "money", "--describe"] + options)

        #expect(outcome.code == .usage)
        #expect(outcome.messages.contains("--describe tells what the columns say"))
    }

    /// The help of `submit` is longer than a screen.
    @Test(arguments: [
        (["help", "submit"], true), (["submit", "--help"], true),
        (["submit", "--help", "--no-pager"], false), (["help", "submit", "--no-pager"], false),
    ])
    func help_onATerminal_isPagedAsTablesAre(_ words: [String], _ isPaged: Bool) async {
        let paged = Mutex<[String]>([])

        let outcome = await run(words) {
            $0.isOutputTerminal = true
            $0.page = { command, _ in
                paged.withLock { $0.append(command) }
                return true
            }
        }

        #expect(outcome.code == .done)
        #expect(paged.withLock { $0 } == (isPaged ? ["less -FRX"] : []))
        #expect(outcome.output.isEmpty == isPaged)
    }

    @Test func pager_thatIsNotInstalled_isNoReasonToPrintNothing() async {
        #expect(!Pager.run("no-such-pager-anywhere", "text\n"))
        #expect(Pager.run("cat >/dev/null", "text\n"))
    }

    @Test func output_whenTheReaderIsGone_failsInSilence() async {
        let outcome = await run("help") { harness in
            harness.output = OutputSink { _ throws(OutputError) in
                throw OutputError(errorNumber: 32)
            }
        }

        #expect(outcome == Outcome(code: .failed, output: "", messages: ""))
    }

    @Test func output_whenTheDiskIsFull_saysSo() async {
        let outcome = await run("help") { harness in
            harness.output = OutputSink { _ throws(OutputError) in
                throw OutputError(errorNumber: 28)
            }
        }

        #expect(outcome.code == .failed)
        #expect(
            outcome.messages
                == "repricer: the output cannot be written: No space left on device\n")
    }

    @Test(arguments: [
        ("42501", ExitCode.approvalNeededOrRefused), ("23505", .conflict), ("23P01", .conflict),
        ("40001", .conflict), ("55000", .conflict), ("23514", .inputRejected),
        ("22001", .inputRejected), ("P0002", .inputRejected), ("08006", .unavailable),
        ("57P01", .unavailable), ("53300", .unavailable), ("42P01", .failed), ("XX000", .failed),
        ("RP001", .failed),
    ])
    func databaseError_bySQLState_hasThisExitCode(_ state: String, _ code: ExitCode) {
        var error = PostgresError(.server, "the server refused")
        error.sqlState = SQLState(state)
        error.message = "said so"

        let failure = CommandFailure(database: error)

        #expect(failure.code == code)
        #expect(failure.message.contains("said so"))
    }

    @Test(arguments: [
        (PostgresError.Code.cannotConnect, ExitCode.unavailable), (.connectionLost, .unavailable),
        (.commitOutcomeUnknown, .unavailable), (.poolTimedOut, .unavailable),
        (.nulInText, .inputRejected), (.badConnectionString, .failed), (.missingColumn, .failed),
    ])
    func databaseError_ofTheClient_hasThisExitCode(
        _ code: PostgresError.Code, _ expected: ExitCode
    ) {
        #expect(CommandFailure(database: PostgresError(code, "x")).code == expected)
    }

    @Test func ownApproval_refusedByTheConstraint_needsAnotherUser() {
        var error = PostgresError(.server, "the server refused")
        error.sqlState = SQLState("23514")
        error.constraint = "batches_second_pair_of_eyes"

        #expect(CommandFailure(database: error).code == .approvalNeededOrRefused)
    }

    /// A first run speaks of no earlier one, and one is no several.
    @Test(arguments: [
        (Int64(0), "read        64\n"), (7, "read        64, 7 of all by an earlier run\n"),
    ])
    func sync_tellsOfAnEarlierRun_whereThereWasOne(before: Int64, line: String) {
        var counts = StatusCheckQueries.Counts()
        (counts.wanted, counts.outcomes) = (64, [.read: 63, .drifted: 1])
        let loaded = Synchronizer.Loaded(
            list: .init(.sync), lines: 65, faults: 1, ids: 64, doneBefore: before)

        let text = SyncText(loaded: loaded, counts: counts, checks: .init()).text

        #expect(text.contains(line), "\(text)")
        #expect(text.contains("64, 0 duplicate, 1 bad line\n"), "\(text)")
        #expect(text.contains("1 subscription\n"), "\(text)")
    }
}

@Suite(.database) struct ReportPagerTests {
    /// A program reads them, and they come in pieces: each would open a pager of its own.
    @Test(arguments: [("csv", 0), ("json", 0), ("html", 1)])
    func report_forAProgram_isNotPaged(_ format: String, _ pagers: Int) async throws {
        let paged = Mutex(0)

        let outcome = await run(
            "report", "reconciliation", "--format", format,
            environment: ["REPRICER_DATABASE_URL": TestDatabase.url]
        ) {
            $0.isOutputTerminal = true
            $0.terminalSize = { (80, 1) }
            $0.page = { _, _ in
                paged.withLock { $0 += 1 }
                return true
            }
        }

        #expect(outcome.code == .done, "\(outcome.messages)")
        #expect(paged.withLock { $0 } == pagers)
    }
}
