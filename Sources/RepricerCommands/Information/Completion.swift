import Batches
import Postgres
import Reports

extension Commands {
    private static let shell = Positional(
        "SHELL", "the shell to complete for; batches is what the scripts ask",
        choices: ["bash", "zsh", "fish", "batches"])
    private static let word = Positional(
        "WORD", "of batches: the beginning of a name or an id", isRequired: false)

    static let completion = Command(
        "completion", "print a completion script for a shell", positionals: [shell, word],
        discussion: """
            bash: source <(repricer completion bash)
            zsh:  source <(repricer completion zsh)
            fish: repricer completion fish | source
            It completes commands, options, their values, reports, and batches by their names: those of the database that \
            the line's --env-file or the environment names.
            """
    ) { invocation in
        let name = try invocation.arguments.required(shell)
        let script = CompletionScript(commands: invocation.commands)
        switch name {
        case "batches": try await printBatches(invocation)
        case "fish": try invocation.print(script.fish)
        case "zsh": try invocation.print(script.zsh)
        default: try invocation.print(script.bash)
        }
        return .done
    }

    /// Prints names with the typed beginning, and ids only if the typed text begins one.
    private static func printBatches(_ invocation: Invocation) async throws {
        let begun = invocation.arguments[word] ?? ""
        let all = try await invocation.withPool(try invocation.configuration()) { pool in
            try await pool.withTransaction { try BatchQueries.all(on: $0) }
        }
        let names = all.map(\.name).filter { $0.hasPrefix(begun) }.uniqued()
        let ids = begun.isEmpty ? [] : all.map(\.batchID).filter { $0.hasPrefix(begun) }
        try invocation.print((names + ids).map { harmless($0) + "\n" }.joined())
    }
}

/// Completion scripts. They are made from the same specifications as the parser.
struct CompletionScript {
    let commands: [Command]

    var bash: String {
        """
        _repricer() {
            local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" words="" noun="" own="" i line
            local first="" second="" settings=() value
            COMPREPLY=()
            # bash cuts --format=json in three words.
            if [ "$current" = = ]; then current=""
            elif [ "$previous" = = ]; then previous="${COMP_WORDS[COMP_CWORD-2]}"; fi
            for ((i = 1; i < COMP_CWORD; i++)); do
                case "${COMP_WORDS[i]}" in
                    \(globalNames))
                        value=$((i + 1))
                        [ "${COMP_WORDS[value]}" != = ] || value=$((i + 2))
                        if [ "${COMP_WORDS[i]}" = --env-file ]; then
                            settings=(--env-file "${COMP_WORDS[value]/#\\~/$HOME}")
                        fi
                        i=$value ;;
                    --env-file=*) settings=("${COMP_WORDS[i]/#--env-file=\\~/--env-file=$HOME}") ;;
                    -*) ;;
                    *) if [ -z "$first" ]; then first="${COMP_WORDS[i]}"
                        elif [ -z "$second" ]; then second="${COMP_WORDS[i]}"; fi ;;
                esac
            done
            if [ -z "$first" ]; then
                words="\(firstWords.joined(separator: " ")) --version \(globalWords)"
            else
                case "$first $second" in
        \(cases)
                esac
            fi
            if [ -z "$own" ]; then
                case "$previous" in
        \(globalValues)
                esac
            fi
            if [ "$noun" = batches ] && [ "${current#-}" = "$current" ]; then
                local typed="${current//\\\\/}"
                typed="${typed#[\\"\\']}"
                while IFS= read -r line; do
                    case "$current" in
                        [\\"\\']*) COMPREPLY+=("$line") ;;
                        *) COMPREPLY+=("$(printf %q "$line")") ;;
                    esac
                done < <(repricer completion batches "${settings[@]}" -- ${typed:+"$typed"} 2>/dev/null)
                return
            fi
            COMPREPLY=($(compgen -W "$words" -- "$current"))
        }
        complete -o default -F _repricer repricer

        """
    }

    /// zsh runs bash completions, so that there is only one script to keep right.
    var zsh: String {
        // In a package it is a file in `fpath`, which its first line binds to the command. Such a file is loaded by the
        // first completion, and must answer that one too.
        """
        #compdef repricer
        autoload -Uz compinit bashcompinit
        whence compdef >/dev/null || compinit
        bashcompinit
        \(bash)
        [[ -z ${compstate[context]-} ]] || _bash_complete -o default -F _repricer

        """
    }

    private var valued: [any OptionSpecification] {
        GlobalOptions.all.filter { $0.valueName != nil }
    }

    /// The options of every command that a value follows.
    private var globalNames: String { valued.map(pattern).joined(separator: " | ") }

    private var globalWords: String {
        GlobalOptions.all.map { "--\($0.name)" }.joined(separator: " ")
    }

    private var globalValues: String {
        valued.map {
            "                \(pattern($0))) words=\"\($0.suggestions.joined(separator: " "))\" noun=\"\" ;;"
        }.joined(separator: "\n")
    }

    private func pattern(_ option: any OptionSpecification) -> String {
        (option.short.map { "-\($0) | " } ?? "") + "--\(option.name)"
    }

    private var firstWords: [String] { commands.compactMap(\.path.first).uniqued() }

    /// Two-word commands come first, because their pattern is the narrower one.
    private var cases: String {
        let ordered = commands.sorted { $0.path.count > $1.path.count }
        let exact = ordered.map { command in
            let pattern =
                command.path.count > 1 ? "\"\(command.name)\"" : "\"\(command.name) \"*"
            let isOfBatches = command.positionals.first?.noun == .batches
            return """
                            \(pattern)) words="\(words(after: command))"\(isOfBatches ? " noun=batches" : "")
                \(values(of: command))            ;;
                """
        }
        let nouns = ordered.filter { $0.path.count > 1 }.compactMap(\.path.first).uniqued()
            .filter { noun in !commands.contains { $0.path == [noun] } }
            .map { noun in
                let verbs = commands.filter { $0.path.first == noun && $0.path.count > 1 }
                    .map { $0.path[1] }
                return "            \"\(noun) \"*) words=\"\(verbs.joined(separator: " "))\" ;;"
            }
        return (explained + exact + nouns).joined(separator: "\n")
    }

    /// After `help` come the words of commands: first words, and the verbs of a noun once it was typed.
    private var explained: [String] {
        let verbs = Dictionary(grouping: commands.filter { $0.path.count > 1 }) { $0.path[0] }
        return firstWords.filter { verbs[$0] != nil }.map { noun in
            let words = (verbs[noun] ?? []).map { $0.path[1] }.joined(separator: " ")
            return "            \"help \(noun)\") words=\"\(words)\" ;;"
        }
    }

    /// What follows an option with a value. Where any value is allowed, the shell completes files.
    private func values(of command: Command) -> String {
        let lines = command.options.filter { $0.valueName != nil }.map { option in
            let names = (option.short.map { "-\($0)|" } ?? "") + "--\(option.name)"
            let noun = option.noun == .batches ? "batches" : ""
            return
                "                \(names)) words=\"\(option.suggestions.joined(separator: " "))\" noun=\"\(noun)\" own=1 ;;\n"
        }
        return lines.isEmpty
            ? "" : "            case \"$previous\" in\n\(lines.joined())            esac\n"
    }

    private func words(after command: Command) -> String {
        let verbs = commands.filter {
            $0.path.count > command.path.count && $0.path.starts(with: command.path)
        }.map { $0.path[command.path.count] }
        let nouns =
            command.positionals.flatMap { $0.noun == .reports ? Self.reports : $0.choices }
            + (command.path == Commands.help.path ? firstWords : [])
        return (verbs + nouns + command.allOptions.map { "--\($0.name)" }).joined(separator: " ")
    }

    private static let reports = ReportName.allCases.map(\.rawValue)
}

extension CompletionScript {
    /// What may follow depends on the first words, not on words anywhere, because `show` and `status` are commands and
    /// also words of other commands.
    var fish: String {
        var text = fishFunctions
        for word in firstWords {
            let summary = commands.first { $0.path.first == word }?.summary ?? ""
            text += offer("__repricer_none", "-a \(word) -d \(quotedForFish(summary))")
        }
        text += offer("__repricer_none", "-l version -d 'print the program\\'s version'")
        for option in GlobalOptions.all { text += offer("__repricer_none", option) }
        for (noun, verbs) in verbs.sorted(by: { $0.key < $1.key }) {
            for verb in verbs {
                let summary = quotedForFish(verb.summary)
                text += offer("__repricer_at \(noun)", "-a \(verb.path[1]) -d \(summary)")
                text += offer("__repricer_at help \(noun)", "-a \(verb.path[1]) -d \(summary)")
            }
        }
        for word in firstWords { text += offer("__repricer_at help", "-a \(word)") }
        for command in commands {
            let path = command.path.joined(separator: " ")
            let others = command.path.count > 1 ? [] : verbs[path, default: []].map { $0.path[1] }
            let seen =
                "__repricer_in \(path)"
                + (others.isEmpty
                    ? ""
                    : "; and not __repricer_second \(others.joined(separator: " "))")
            for positional in command.positionals {
                guard let words = offered(positional.noun, positional.choices) else { continue }
                text += offer(seen, words)
            }
            for option in command.allOptions { text += offer(seen, option) }
        }
        return text
    }

    /// The commands of two words by their first.
    private var verbs: [String: [Command]] {
        Dictionary(grouping: commands.filter { $0.path.count > 1 }) { $0.path[0] }
    }

    private var fishFunctions: String {
        """
        function __repricer_words
            # The words before the cursor that are neither options nor their values.
            set -l words (commandline -opc)
            set -e words[1]
            set -l is_value no
            for word in $words
                if test $is_value = yes
                    set is_value no
                    continue
                end
                switch $word
                    case \(valued.flatMap { ["--\($0.name)"] + ($0.short.map { ["-\($0)"] } ?? []) }.joined(separator: " "))
                        set is_value yes
                    case '-*'
                    case '*'
                        printf '%s\\n' $word
                end
            end
        end
        function __repricer_none
            test -z "$(__repricer_words)"
        end
        function __repricer_in
            set -l words (__repricer_words)
            test "$words[1..$(count $argv)]" = "$argv"
        end
        function __repricer_at
            __repricer_in $argv; and test (count (__repricer_words)) = (count $argv)
        end
        function __repricer_second
            set -l words (__repricer_words)
            contains -- "$words[2]" $argv
        end
        function __repricer_batches
            set -l words (commandline -opc)
            set -l settings
            if set -l at (contains -i -- --env-file $words)
                set settings --env-file $words[(math $at + 1)]
            else if set -l file (string replace -f -- --env-file= '' $words)
                set settings --env-file $file[-1]
            end
            # The shell hands over what was typed.
            set settings (string replace -r -- '^~(?=/|$)' $HOME $settings)
            set -l begun (string unescape -- (commandline -ct))
            # No word is none, and not an empty one.
            if test -z "$begun"
                set begun
            end
            repricer completion batches $settings -- $begun 2>/dev/null
        end
        complete -c repricer -f

        """
    }

    private func offer(_ condition: String, _ words: String) -> String {
        "complete -c repricer -n '\(condition)' \(words)\n"
    }

    private func offer(_ condition: String, _ option: any OptionSpecification) -> String {
        let short = option.short.map { "-s \($0) " } ?? ""
        let value =
            option.valueName == nil
            ? "" : " -r" + (offered(option.noun, option.suggestions).map { " " + $0 } ?? "")
        return offer(
            condition,
            "\(short)-l \(option.name)\(value) -d \(quotedForFish(option.help))")
    }

    /// The words that are offered; nil where nothing is known.
    private func offered(_ noun: Noun?, _ choices: [String]) -> String? {
        switch noun {
        case .batches: "-f -a '(__repricer_batches)'"
        case .reports: "-f -a '\(Self.reports.joined(separator: " "))'"
        case .files: "-F"
        case nil: choices.isEmpty ? nil : "-f -a '\(choices.joined(separator: " "))'"
        }
    }

    private func quotedForFish(_ text: String) -> String {
        "'" + text.replacing("\\", with: "\\\\").replacing("'", with: "\\'") + "'"
    }
}
