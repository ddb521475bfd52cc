import Foundation
import TestSupport
import Testing

@testable import RepricerCommands

@Suite struct HelpTests {
    private static let submitHelp = """
        store a batch for approval and print its id

        usage: repricer submit FILE --name NAME [--plan-hash H] [--plan-rows ROWS]
                 [--accept-valid] [--rejects OUT]
                 [--grouping announced|item|subscription] [--waves LIST]
                 [--halt-if LIST] [--holdout PERCENT]

          FILE  the batch, CSV or NDJSON; - is standard input

        options:
          --name NAME                   what people will call the batch
          --plan-hash H                 store only when the plan is still this one
          --plan-rows ROWS              the file of plan --rows: says which rows differ
                                        from that plan
          --accept-valid                store the rows that can go, although others are
                                        refused
          --rejects OUT                 write refused rows to OUT as CSV, to mend and
                                        submit again
          --grouping announced|item|subscription
                                        which items of a subscription share a call; see
                                        below
          --waves LIST                  send in waves: 1%,10%,rest or USA,GBR+IRL,rest;
                                        see below
          --halt-if LIST                pause the batch by itself:
                                        errors>2%,declined>5%,moved>5%
          --holdout PERCENT             hold so many subscriptions out, to compare with;
                                        5, at most 50

        for every command:
          --env-file FILE            read settings from FILE (KEY=value lines); the
                                     environment wins
          --clock START@RATE         run on a virtual clock; only against a loopback App
                                     Store
          --json                     print facts as JSON: the same as --format json
          -o, --format table|json    how to print facts; table when left out
          --quiet                    no progress and no notes, only errors
          --color auto|always|never  colour; on a terminal without NO_COLOR when left
                                     out
          --log-format text|json     how log lines are written; text when left out
          --log-level LEVEL          the least that is logged; serve: info, others:
                                     warning; debug follows each change
          --no-pager                 print long tables at once, without PAGER
          --help                     show this text

        All rows or none, unless --accept-valid. The same file again makes no new change
        and prints the id it has; with other options, or the hash of another plan, it
        exits 5. A plan is stored nowhere: with --plan-hash alone a plan that has
        drifted is refused, with --plan-rows its rows are compared too. Where standard
        output carries the rejects, the id goes to standard error. You are the database
        user of REPRICER_DATABASE_URL; another one has to approve.
        --grouping: increases that need no consent share one call a subscription,
        decreases another, and each that needs consent is alone; `item` sends every item
        alone, `subscription` all that can go at the same time.
        --waves: shares of all subscriptions (by a hash of the id), each in addition to
        those before it, or storefronts; all items of a subscription are in one wave.
        The first wave goes with the approval, which covers all; the others wait for
        `repricer release`, or name their time: 10%@2026-12-01T00:00:00Z, rest@+2d
        (after the wave before it), 1%@hand.
        --halt-if pauses the batch when more than so many percent of its changes were
        refused by the App Store (of those answered: errors), of its customers did not
        consent (of those asked: declined) or turned renewal off (of those told:
        auto_renew_off), or of its rows missed their renewal (of those queued or sent:
        moved). Nothing is judged before 50 are counted; errors>2%/200 waits for 200.
        Errors of batches with fewer rows are counted together, within a day. Left out
        it is errors>5%/50; `none` switches that off. Only a person resumes; then what
        was sent before counts no more.
        --holdout: so many subscriptions, chosen by a hash of the file and the id, are
        stored and never sent; they end with the approval (aborted, held_out), and
        `report holdout` compares who left among them and among the others.

        """

    @Test(arguments: [
        ["help", "submit"], ["submit", "--help"], ["submit", "-h"],
        // Who asks for help may not know the rest.
        ["submit", "--nonsense", "--help"], ["--help", "submit", "a", "b"],
    ])
    func help_ofOneCommand_isThisText(_ arguments: [String]) async {
        #expect(await run(arguments) == Outcome(code: .done, output: Self.submitHelp, messages: ""))
    }

    @Test func help_afterTwoDashes_isNoHelp() async {
        let outcome = await run("timeline", "--", "--help", "x")

        #expect(outcome.code == .usage)
    }

    @Test func help_alone_listsEveryCommandAndExitCode() async {
        let outcome = await run("help")

        #expect(outcome.code == .done)
        for command in RepricerCommands.all {
            #expect(outcome.output.contains("\n  \(command.name) "), "\(command.name)")
        }
        for code in ExitCode.allCases {
            #expect(outcome.output.contains("\(code.rawValue) "), "\(code)")
        }
        #expect(await run("--help").output == outcome.output)
    }

    @Test func help_ofANoun_explainsEachVerb() async {
        let outcome = await run("help", "config")

        #expect(
            outcome.output.contains(
                "usage: repricer config check [--for service|pricing|finance]\n"))
        #expect(outcome.output.contains("usage: repricer config print\n"))
    }

    @Test(arguments: [["config", "--help"], ["config", "-h"], ["--help", "config"]])
    func help_askedOfANoun_explainsEachVerb(_ arguments: [String]) async {
        #expect(await run(arguments) == run("help", "config"))
    }

    @Test func help_askedOfWhatIsNoCommand_saysSo() async {
        let outcome = await run("plna", "--help")

        #expect(outcome.code == .usage)
        #expect(outcome.messages.contains("did you mean \"plan\"?"))
    }

    @Test func help_ofAnUnknownCommand_isAUsageError() async {
        let outcome = await run("help", "sumbit")

        #expect(outcome.code == .usage)
        #expect(outcome.messages.contains("did you mean \"submit\"?"))
    }

    @Test func version_asJSON_isOneObject() async {
        #expect(
            await run("version", "--json").output
                == "{\"name\":\"repricer\",\"version\":\"0.1.0\",\"commit\":null,\"schema\":20}\n")
    }

    @Test func version_asEveryProgramIsAsked_isTheCommand() async {
        #expect(
            await run("--version")
                == Outcome(
                    code: .done, output: "repricer 0.1.0 (commit not known, schema 20)\n",
                    messages: "")
        )
        #expect(
            await run("--version", "--format", "json").output == run("version", "--json").output)
    }

    @Test func format_isTheSameForEveryCommand_andContradictsNothing() async {
        #expect(await run("version", "-o", "json").output == run("version", "--json").output)
        // Other programs take a value that is joined to its letter.
        #expect(await run("version", "-ojson").output == run("version", "--json").output)
        #expect(await run("version", "--json", "-o", "table").code == .usage)
        #expect(
            await run("version", "-o").messages.hasPrefix(
                "repricer: version: --format needs a value: --format table|json\n"))
        #expect(
            await run("-V").messages.hasPrefix(
                "repricer: unknown option \"-V\"; did you mean \"--version\"?\n"))
        #expect(await run("version", "-o", "csv").messages.contains("it is one of table, json"))
    }

    /// One page a command; none of its lines is taken for a request by mistake.
    @Test func manual_hasAPageOfEveryCommand() async throws {
        let scratch = try ScratchFolder()
        let folder = "\(scratch.path)/man1"

        let outcome = await run("help", "--man", folder)

        #expect(outcome.code == .done, "\(outcome.messages)")
        let requests: Set = [".TH", ".SH", ".TP", ".PP", ".BR", ".br", ".nh", ".hy", ".ad"]
        for command in RepricerCommands.all {
            let name = (["repricer"] + command.path).joined(separator: "-")
            let page = try String(contentsOfFile: "\(folder)/\(name).1", encoding: .utf8)
            #expect(page.hasPrefix(".TH "))
            for option in command.allOptions {
                #expect(
                    page.contains("\\-\\-" + option.name.replacing("-", with: "\\-")),
                    "\(option.name)")
            }
            // What a word means is no list of them.
            let text = page.replacing("\n", with: " ")
            #expect(
                text.contains("follows each change; one of debug, info, notice, warning, error"))
            for line in page.split(separator: "\n") where line.hasPrefix(".") {
                #expect(requests.contains(String(line.prefix { $0 != " " })), "\(line)")
            }
        }
        #expect(await run("help", "--man", "/proc/nowhere").code == .failed)
    }

    /// The words that a person gets for what they typed, asked of bash itself.
    @Test(
        arguments: [
            (["repricer", "appr"], ["approve"]), (["repricer", "config", ""], ["check", "print"]),
            (["repricer", "report", "consent"], ["consent_funnel"]),
            (["repricer", "report", "money", "--format", ""], ["table", "csv", "json", "html"]),
            (["repricer", "status", "-o", "j"], ["json"]),
            (["repricer", "approve", "Sp"], ["Spring\\ prices"]),
            (["repricer", "approve", "\"Sp"], ["Spring prices"]),
            (["repricer", "report", "money", "--batch", ""], ["Spring\\ prices", "autumn"]),
            (["repricer", "status", "x", "--color", "a"], ["auto", "always"]),
            (["repricer", "extend", "one", "1", "--reason", "o"], ["outage", "other"]),
            (["repricer", "status", "--log-level", "w"], ["warning"]),
            (["repricer", "plan", "x", "--log-format", ""], ["text", "json"]),
            (["repricer", "--env-file", "a.env", "config", ""], ["check", "print"]),
            (["repricer", "--json", "appr"], ["approve"]),
            (["repricer", "status", "--color", "=", "n"], ["never"]),
            (["repricer", "help", "appr"], ["approve"]),
            (["repricer", "help", "rules"], ["rules"]),
            (["repricer", "help", "config", ""], ["check", "print"]),
        ] as [([String], [String])])
    func completion_inBash_offersWhatFits(_ words: [String], _ offered: [String]) async throws {
        let folder = try ScratchFolder()
        let script = try folder.file("completion", await run("completion", "bash").output)
        let line = words.map { "'\($0)'" }.joined(separator: " ")

        let end = try await Program.run(
            URL(fileURLWithPath: "/bin/bash"),
            [
                "-c",
                """
                source \(script)
                repricer() { for name in 'Spring prices' autumn; do
                    case "$name" in "${*: -1:1}"*) echo "$name" ;; esac
                    [ "${*: -1:1}" != -- ] || echo "$name"
                done; }
                COMP_WORDS=(\(line)) COMP_CWORD=\(words.count - 1)
                _repricer
                printf '%s\\n' "${COMPREPLY[@]}"
                """,
            ])

        #expect(
            end.output.split(separator: "\n").map(String.init).filter { !$0.hasPrefix("--") }
                == offered, "\(end.messages)")
    }

    /// bash hands over what was typed: with the tilde, and cut at each `=`.
    @Test(arguments: [
        ["--env-file", "~/a.env"], ["--env-file", "=", "~/a.env"], ["--env-file=~/a.env"],
    ])
    func completion_inBash_readsTheSettingsThatTheLineNames(_ words: [String]) async throws {
        let folder = try ScratchFolder()
        let script = try folder.file("completion", await run("completion", "bash").output)
        let line = (["repricer"] + words + ["status", ""]).map { "'\($0)'" }.joined(separator: " ")

        let end = try await Program.run(
            URL(fileURLWithPath: "/bin/bash"),
            [
                "-c",
                """
                source \(script)
                HOME=/home/ana
                repricer() { echo "$*"; }
                COMP_WORDS=(\(line)) COMP_CWORD=\(words.count + 2)
                _repricer
                printf '%s\\n' "${COMPREPLY[@]}"
                """,
            ])

        #expect(
            end.output.replacing("\\", with: "").replacing("=", with: " ").hasPrefix(
                "completion batches --env-file /home/ana/a.env "), "\(end.output)\(end.messages)")
    }

    @Test(arguments: ["bash", "zsh", "fish"])
    func completion_ofAShell_namesEveryCommandAndOption(_ shell: String) async {
        let script = await run("completion", shell).output

        for command in RepricerCommands.all {
            for word in command.path { #expect(script.contains(word), "\(word)") }
            for option in command.options {
                #expect(script.contains(option.name), "\(option.name)")
            }
        }
    }
}
