import Testing

@testable import RepricerCommands

@Suite struct ArgumentParserTests {
    /// Error and usage, word for word: people search for these.
    @Test(arguments: [
        (
            ["plan"],
            """
            repricer: plan: missing FILE
            usage: repricer plan FILE [--as-of INSTANT] [--rows OUT] [--rejects OUT]
                     [--reporting-currency CODE] [--details]
                     [--grouping announced|item|subscription] [--waves LIST]

            """
        ),
        (
            ["plan", "a.csv", "b.csv"],
            """
            repricer: plan: unexpected argument "b.csv"
            usage: repricer plan FILE [--as-of INSTANT] [--rows OUT] [--rejects OUT]
                     [--reporting-currency CODE] [--details]
                     [--grouping announced|item|subscription] [--waves LIST]

            """
        ),
        (
            ["plan", "a.csv", "--rejcts", "x"],
            """
            repricer: plan: unknown option "--rejcts"; did you mean "--rejects"?
            usage: repricer plan FILE [--as-of INSTANT] [--rows OUT] [--rejects OUT]
                     [--reporting-currency CODE] [--details]
                     [--grouping announced|item|subscription] [--waves LIST]

            """
        ),
        (
            ["plan", "a.csv", "--rows", "x", "--rows=y"],
            """
            repricer: plan: --rows is given twice
            usage: repricer plan FILE [--as-of INSTANT] [--rows OUT] [--rejects OUT]
                     [--reporting-currency CODE] [--details]
                     [--grouping announced|item|subscription] [--waves LIST]

            """
        ),
        (
            ["plan", "a.csv", "--rows", "--json"],
            """
            repricer: plan: --rows needs a value: --rows OUT
            usage: repricer plan FILE [--as-of INSTANT] [--rows OUT] [--rejects OUT]
                     [--reporting-currency CODE] [--details]
                     [--grouping announced|item|subscription] [--waves LIST]

            """
        ),
        (
            ["plan", "a.csv", "--json=yes"],
            """
            repricer: plan: --json takes no value
            usage: repricer plan FILE [--as-of INSTANT] [--rows OUT] [--rejects OUT]
                     [--reporting-currency CODE] [--details]
                     [--grouping announced|item|subscription] [--waves LIST]

            """
        ),
        (
            ["plan", "a.csv", "-j"],
            """
            repricer: plan: unknown option "-j"; only -h and -o have one dash, and -- stands before a name that begins with one
            usage: repricer plan FILE [--as-of INSTANT] [--rows OUT] [--rejects OUT]
                     [--reporting-currency CODE] [--details]
                     [--grouping announced|item|subscription] [--waves LIST]

            """
        ),
        (
            ["plan", "a.csv", "-oyaml"],
            """
            repricer: plan: --format cannot be "yaml"; it is one of table, json
            usage: repricer plan FILE [--as-of INSTANT] [--rows OUT] [--rejects OUT]
                     [--reporting-currency CODE] [--details]
                     [--grouping announced|item|subscription] [--waves LIST]

            """
        ),
        (
            ["submit", "a.csv"],
            """
            repricer: submit: missing --name NAME
            usage: repricer submit FILE --name NAME [--plan-hash H] [--plan-rows ROWS]
                     [--accept-valid] [--rejects OUT]
                     [--grouping announced|item|subscription] [--waves LIST]
                     [--halt-if LIST] [--holdout PERCENT]

            """
        ),
        (
            ["serve", "--only", "projector"],
            """
            repricer: serve: --only cannot be "projector"; it is one of scheduler, receiver
            usage: repricer serve [--only scheduler|receiver]

            """
        ),
        (
            ["pause"],
            """
            repricer: pause: give either BATCH or --all
            usage: repricer pause [BATCH] [--all] [--reason TEXT]

            """
        ),
        (
            ["report", "batch_sumary"],
            """
            repricer: report: unknown report "batch_sumary"; did you mean "batch_summary"?
            usage: repricer report [NAME] [--batch B] [--as-of INSTANT]
                     [--format table|csv|json|html] [--reporting-currency CODE] [--describe]

            """
        ),
        (
            ["rules", "show", "--as-of", "yesterday"],
            """
            repricer: rules show: --as-of cannot be "yesterday"; write an instant as \
            2026-12-01T00:00:00Z or 2026-12-01
            usage: repricer rules show [--as-of INSTANT] [--missing]

            """
        ),
        (
            ["aprove"],
            """
            repricer: unknown command "aprove"; did you mean "approve"?
            usage: repricer COMMAND [ARGUMENT...]

            """
        ),
        (
            ["frobnicate"],
            """
            repricer: unknown command "frobnicate"; `repricer help` lists them
            usage: repricer COMMAND [ARGUMENT...]

            """
        ),
        (
            [],
            """
            repricer: missing command; `repricer help` lists them
            usage: repricer COMMAND [ARGUMENT...]

            """
        ),
        (
            ["config"],
            """
            repricer: config needs one of check, print
            usage: repricer COMMAND [ARGUMENT...]

            """
        ),
        (
            ["config", "chekc"],
            """
            repricer: config cannot be "chekc"; it is one of check, print
            usage: repricer COMMAND [ARGUMENT...]

            """
        ),
        (
            ["plan", "a\nb", "c\u{1B}[2J"],
            """
            repricer: plan: unexpected argument "c\\u{1b}[2J"
            usage: repricer plan FILE [--as-of INSTANT] [--rows OUT] [--rejects OUT]
                     [--reporting-currency CODE] [--details]
                     [--grouping announced|item|subscription] [--waves LIST]

            """
        ),
    ])
    func commandLine_whenWrong_saysWhatAndHowAndExits2(
        _ arguments: [String], _ messages: String
    ) async {
        let outcome = await run(arguments)

        #expect(outcome == Outcome(code: .usage, output: "", messages: messages))
    }

    @Test func commandLine_whenLongerThanTheLimit_isRefused() async {
        let outcome = await run(Array(repeating: "plan", count: 1001))

        #expect(outcome.code == .usage)
        #expect(outcome.messages.contains("more than 1000 arguments"))
    }

    @Test func parser_whenEverythingIsGiven_keepsEachValue() throws {
        let first = Positional("FIRST", "")
        let second = Positional("SECOND", "", isRequired: false)
        let (flag, value) = (Flag("flag", ""), ValueOption("value", "V", ""))
        let command = Command("do it", "", positionals: [first, second], options: [flag, value]) {
            _ in .done
        }

        var parser = ArgumentParser(
            commands: [command],
            arguments: ["--json", "do", "it", "-", "--value=a=b", "--flag", "--", "--second"])
        guard case .run(let found, let parsed) = try parser.parse() else {
            Issue.record("not a run")
            return
        }

        #expect(found.path == ["do", "it"])
        #expect(parsed[first] == "-")
        #expect(parsed[second] == "--second")
        #expect(parsed[value] == "a=b")
        #expect(parsed[flag])
        #expect(parsed[GlobalOptions.json])
        #expect(!parsed[GlobalOptions.quiet])
    }

    @Test func parser_whenAGlobalOptionTakesAValueBeforeTheCommand_findsTheCommand() async {
        let outcome = await run("--clock", "nonsense", "version")

        #expect(
            outcome
                == Outcome(
                    code: .done, output: "repricer 0.1.0 (commit not known, schema 20)\n",
                    messages: ""))
    }

    @Test func parser_whenACommandIsAlsoANoun_takesTheLongerOne() throws {
        var short = ArgumentParser(
            commands: RepricerCommands.all, arguments: ["migrate", "--json"])
        var long = ArgumentParser(commands: RepricerCommands.all, arguments: ["migrate", "status"])

        guard case .run(let migrate, _) = try short.parse(),
            case .run(let status, _) = try long.parse()
        else {
            Issue.record("not a run")
            return
        }
        #expect(migrate.name == "migrate")
        #expect(status.name == "migrate status")
    }

    @Test func specifications_ofAllCommands_areUniqueAndConsistent() {
        let names = RepricerCommands.all.map(\.name)
        #expect(Set(names).count == names.count)

        for command in RepricerCommands.all {
            let options = command.allOptions.map(\.name)
            #expect(Set(options).count == options.count, "\(command.name)")
            // An optional positional before a required one could never be left out.
            let required = command.positionals.map(\.isRequired)
            #expect(required == required.sorted { $0 && !$1 }, "\(command.name)")
            #expect(!command.summary.isEmpty && !command.summary.hasSuffix("."), "\(command.name)")
        }
    }
}

@Suite struct NearestWordTests {
    @Test(arguments: [
        ("aprove", "approve"), ("stauts", "status"), ("pla", "plan"), ("comp", "completion"),
        ("frobnicate", nil), ("", nil), ("pa", "pause"),
    ])
    func nearest_toATypedWord_isTheLikelyOne(_ typed: String, _ expected: String?) {
        let words = ["plan", "approve", "status", "completion", "pause", "report", "reject"]

        #expect(nearest(to: typed, among: words) == expected)
    }

    @Test(arguments: [
        ("", "", 0), ("a", "", 1), ("ab", "ba", 1), ("kitten", "sitting", 3), ("abc", "abc", 0),
        ("abcd", "acbd", 1),
    ])
    func editDistance_ofTwoWords_countsInsertDeleteReplaceSwap(
        _ left: String, _ right: String, _ expected: Int
    ) {
        #expect(editDistance(left, right) == expected)
        #expect(editDistance(right, left) == expected)
    }
}
