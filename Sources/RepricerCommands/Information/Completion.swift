extension Commands {
    private static let shell = Positional(
        "SHELL", "the shell to complete for", choices: ["bash", "zsh", "fish"])

    static let completion = Command(
        "completion", "print a completion script for a shell", positionals: [shell],
        discussion: """
            bash: source <(repricer completion bash)
            zsh:  source <(repricer completion zsh)
            fish: repricer completion fish | source
            """
    ) { invocation in
        let name = try invocation.arguments.required(shell)
        let script = CompletionScript(commands: RepricerCommands.all)
        try invocation.print(
            name == "fish" ? script.fish : name == "zsh" ? script.zsh : script.bash)
        return .done
    }
}

/// Completion scripts, made from the same specifications as the parser.
struct CompletionScript {
    let commands: [Command]

    var bash: String {
        """
        _repricer() {
            local current="${COMP_WORDS[COMP_CWORD]}" words=""
            local first="${COMP_WORDS[1]:-}" second="${COMP_WORDS[2]:-}"
            COMPREPLY=()
            if [ "$COMP_CWORD" -eq 1 ]; then
                words="\(firstWords.joined(separator: " "))"
            else
                case "$first $second" in
        \(cases)
                esac
            fi
            COMPREPLY=($(compgen -W "$words" -- "$current"))
        }
        complete -o default -F _repricer repricer

        """
    }

    /// zsh runs bash completions; one script is one thing to keep right.
    var zsh: String {
        """
        autoload -Uz compinit bashcompinit
        whence compdef >/dev/null || compinit
        bashcompinit
        \(bash)
        """
    }

    var fish: String {
        var text = "complete -c repricer -f\n"
        for word in firstWords {
            let summary = commands.first { $0.path.first == word }?.summary ?? ""
            text += "complete -c repricer -n __fish_use_subcommand -a \(word) -d '\(summary)'\n"
        }
        for command in commands {
            guard let first = command.path.first else { continue }
            let seen = "-n '__fish_seen_subcommand_from \(first)'"
            for second in command.path.dropFirst() {
                text += "complete -c repricer \(seen) -a \(second) -d '\(command.summary)'\n"
            }
            for positional in command.positionals where !positional.choices.isEmpty {
                text +=
                    "complete -c repricer \(seen) -a '\(positional.choices.joined(separator: " "))'\n"
            }
            for option in command.options {
                let takesValue =
                    option.valueName == nil ? "" : option.choices.isEmpty ? " -r -F" : " -r"
                let choices =
                    option.choices.isEmpty ? "" : " -a '\(option.choices.joined(separator: " "))'"
                text += "complete -c repricer \(seen) -l \(option.name)\(takesValue)\(choices)\n"
            }
        }
        return text
    }

    private var firstWords: [String] { commands.compactMap(\.path.first).uniqued() }

    /// Two-word commands first: their pattern is the narrower one.
    private var cases: String {
        let ordered = commands.sorted { $0.path.count > $1.path.count }
        let exact = ordered.map { command in
            let pattern =
                command.path.count > 1 ? "\"\(command.name)\"" : "\"\(command.name) \"*"
            return "            \(pattern)) words=\"\(words(after: command))\" ;;"
        }
        let nouns = ordered.filter { $0.path.count > 1 }.compactMap(\.path.first).uniqued()
            .filter { noun in !commands.contains { $0.path == [noun] } }
            .map { noun in
                let verbs = commands.filter { $0.path.first == noun && $0.path.count > 1 }
                    .map { $0.path[1] }
                return "            \"\(noun) \"*) words=\"\(verbs.joined(separator: " "))\" ;;"
            }
        return (exact + nouns).joined(separator: "\n")
    }

    private func words(after command: Command) -> String {
        let verbs = commands.filter {
            $0.path.count > command.path.count && $0.path.starts(with: command.path)
        }.map { $0.path[command.path.count] }
        let choices = command.positionals.flatMap(\.choices)
        let options = (command.options + GlobalOptions.all).map { "--\($0.name)" }
        return (verbs + choices + options).joined(separator: " ")
    }
}
