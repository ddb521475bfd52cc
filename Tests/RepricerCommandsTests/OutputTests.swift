import Postgres
import Testing

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
            (0, 0, "[....................]   0 %  x"),
            (999, 1000, "[###################.]  99 %  x"),
        ] as [(Int64, Int64, String)])
    func progress_isRoundedDown(_ done: Int64, _ total: Int64, _ line: String) {
        #expect(ProgressBar.line(done: done, total: total, note: "x", columns: 33) == line)
    }

    @Test func progress_onANarrowTerminal_neverWraps() {
        let note = String(repeating: "n", count: 200)

        #expect(ProgressBar.line(done: 1, total: 2, note: note, columns: 40).count == 39)
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

    @Test(
        arguments: [
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777_000), ("yesterday", nil),
            ("Sun, 06 Nov 1994 08:49:37 CET", nil), ("Sun, 31 Feb 2026 00:00:00 GMT", nil),
        ] as [(String, Int64?)])
    func httpDate_isReadInItsUsualForm(_ text: String, _ expected: Int64?) {
        #expect(HTTPDate.parse(text) == expected)
    }

    @Test(arguments: [
        ("42501", ExitCode.approvalNeededOrRefused), ("23505", .conflict), ("23P01", .conflict),
        ("40001", .conflict), ("55000", .conflict), ("23514", .inputRejected),
        ("22001", .inputRejected), ("P0002", .inputRejected), ("08006", .unavailable),
        ("57P01", .unavailable), ("53300", .unavailable), ("42P01", .failed), ("XX000", .failed),
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
}
