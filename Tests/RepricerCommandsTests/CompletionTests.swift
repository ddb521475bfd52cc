import Foundation
import TestSupport
import Testing

@testable import RepricerCommands

/// Completion in zsh and fish, asked of the shells themselves; that in bash is with the help's tests. Without the shells
/// this fails, and says so: `Deploy/install browser` installs them.
@Suite(.database) struct CompletionTests {
    private static let stub = """
        repricer() {
            case "$*" in
                *--env-file*) echo "$*" | tr ' ' '_' ;;
                *) for name in 'Spring prices' autumn; do
                    case "$name" in "${@: -1}"*) echo "$name" ;; esac
                    [ "${@: -1}" != -- ] || echo "$name"
                done ;;
            esac
        }
        """

    /// The same words in every shell. fish is asked for what may follow; zsh completes a line as far as it is certain.
    @Test(
        arguments: [
            ("appr", ["approve"]), ("approve Sp", ["Spring prices"]),
            ("approve ", ["Spring prices", "autumn"]), ("status aut", ["autumn"]),
            ("report consent", ["consent_funnel"]), ("report money -o c", ["csv"]),
            ("report money --batch Sp", ["Spring prices"]), ("config ", ["check", "print"]),
            ("--env-file a.env config ", ["check", "print"]), ("--json appr", ["approve"]),
            ("help appr", ["approve"]), ("help config ", ["check", "print"]),
            ("help plan ", []), ("help config check ", []),
            // A word of two meanings: `show` and `status` are commands, and words of others.
            ("rules show ", []), ("rules show --web", []), ("rules show --mis", ["--missing"]),
            ("audit show ", []), ("policy show --det", []), ("extend status ", []),
            ("extend status --wat", []), ("outbox status --wat", []), ("migrate status --pat", []),
            ("migrate --pat", ["--patience"]), ("migrate sta", ["status"]),
            ("evidence export --pay", []), ("evidence --pay", ["--payload"]),
            ("extend one 1 --reason o", ["outage", "other"]), ("status --log-level w", ["warning"]),
            ("--vers", ["--version"]), ("--env", ["--env-file"]), ("rules ", ["import", "show"]),
            ("rules show rules ", []),
        ] as [(String, [String])])
    func fish_offersWhatFits(_ line: String, _ offered: [String]) async throws {
        let end = try await Self.fish("complete -C 'repricer \(line)'")

        let words = end.output.split(separator: "\n").map { line in
            String(line.prefix { $0 != "\t" }).replacing("\\", with: "")
        }
        // A command with its own words also has options, which nobody asked for.
        let typed = line.split(separator: " ", omittingEmptySubsequences: false).last ?? ""
        #expect(
            words.filter { typed.hasPrefix("-") || !$0.hasPrefix("-") }.sorted()
                == offered.sorted(),
            "\(end.output)\(end.messages)")
        #expect(end.messages.isEmpty)
    }

    @Test(arguments: ["--env-file ~/a.env", "--env-file=~/a.env"])
    func fish_readsTheSettingsThatTheLineNames(_ option: String) async throws {
        let end = try await Self.fish(
            "set HOME /home/ana; function repricer; echo said-$argv[4]; end; complete -C 'repricer \(option) status '"
        )

        #expect(end.output.contains("said-/home/ana/a.env\n"), "\(end.output)\(end.messages)")
    }

    private static func fish(_ command: String) async throws -> Program.End {
        let folder = try ScratchFolder()
        let script = try folder.file("completion", await run("completion", "fish").output)
        return try await Program.run(
            URL(fileURLWithPath: "/usr/bin/fish"),
            [
                "--no-config", "-c",
                """
                source \(script)
                function repricer
                    for name in 'Spring prices' autumn
                        if test "$argv[-1]" = --; or string match -q -- "$argv[-1]*" $name
                            echo $name
                        end
                    end
                end
                \(command)
                """,
            ], environment: ["HOME": folder.path, "PATH": "/usr/bin:/bin"])
    }

    /// The line as it stands after the tab key, in a zsh of its own on a terminal of its own.
    @Test(
        arguments: [
            ("appr", "approve "), ("approve Sp", "approve Spring\\ prices "),
            ("report consent", "report consent_funnel "), ("status aut", "status autumn "),
            ("rules show --mis", "rules show --missing "), ("help appr", "help approve "),
            ("--env-file a.env config ch", "--env-file a.env config check "),
        ])
    func zsh_completesALine(_ typed: String, _ completed: String) async throws {
        let folder = try ScratchFolder()
        let script = try folder.file("completion", await run("completion", "zsh").output)
        _ = try folder.file(
            ".zshrc",
            """
            PS1=
            autoload -Uz compinit
            compinit -u -D
            source \(script)
            \(Self.stub)
            told() { print -r -- "$BUFFER" >\(folder.path)/line; exit }
            zle -N told
            bindkey '^T' told
            """)
        let check = try await Program.run(
            URL(fileURLWithPath: "/usr/bin/zsh"), ["-n", script],
            environment: ["PATH": "/usr/bin:/bin"])
        let end = try await Program.run(
            URL(fileURLWithPath: "/usr/bin/zsh"),
            [
                "-f", "-c",
                """
                zmodload zsh/zpty
                zpty shell ZDOTDIR=\(folder.path) TERM=xterm zsh -d -i
                zpty -n -w shell $'repricer \(typed)\\t\\x14'
                while zpty -r shell said; do print -rn -- "$said"; done
                """,
            ], environment: ["HOME": folder.path, "PATH": "/usr/bin:/bin"])

        #expect(check == Program.End(code: 0, output: "", messages: ""))
        let line = try? String(contentsOfFile: "\(folder.path)/line", encoding: .utf8)
        #expect(line == "repricer \(completed)\n", "\(end.output)\(end.messages)")
    }

    /// What the three scripts ask.
    @Test func batches_ofADatabase_areNamedAndFoundByTheBeginningOfAnId() async throws {
        let office = try await BatchCommandTests.Office()
        let id = try await office.submit()
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            INSERT INTO repricer.batches (batch_id, name, state, content_sha256, plan_hash, planned_as_of, row_count,
                submitted_by, submitted_at)
            VALUES ('aaaaaaaa-0000-7000-8000-000000000001', E'odd\\x1b[31m', 'aborted', 'c', 'h', '2026-01-01Z', 1, 'ana',
                '2026-01-01Z')
            """)
        await connection.close()
        func offered(_ words: String...) async -> [String] {
            let outcome = await run(["completion", "batches"] + words, environment: office.ana)
            #expect(outcome.code == .done, "\(outcome.messages)")
            return outcome.output.split(separator: "\n").map(String.init).sorted()
        }

        // An id is offered only to who has begun one.
        let all = await offered()
        #expect(all.count == 2 && all.contains("spring"))
        #expect(!all.joined().contains("\u{1B}"))
        #expect(await offered("sp") == ["spring"])
        #expect(await offered(String(id.prefix(10))) == [id])
        #expect(await offered("aaaaaaaa") == ["aaaaaaaa-0000-7000-8000-000000000001"])
        #expect(await offered("nothing") == [])
        #expect(await offered("--", "sp") == ["spring"])
    }
}
