/// The text of `help`. It is made from the specifications, so it cannot disagree with the parser.
enum HelpText {
    /// The width of the narrowest terminals in use.
    private static let columns = 80

    /// One line, without `usage:`.
    static func usage(of command: Command) -> String {
        usageWords(of: command).joined(separator: " ")
    }

    /// The command, and each argument with its value.
    private static func usageWords(of command: Command) -> [String] {
        var words = ["repricer \(command.name)"]
        for positional in command.positionals {
            let shown =
                positional.choices.isEmpty || positional.choices.count > 4
                ? positional.name : positional.choices.joined(separator: "|")
            words.append(positional.isRequired ? shown : "[\(shown)]")
        }
        for option in command.options {
            let shown = spelled(option)
            words.append(option.isRequired ? shown : "[\(shown)]")
        }
        return words
    }

    /// `usage: …`; what does not fit continues below the command.
    static func usageLines(of command: Command) -> String {
        let indent = "       "
        return "usage: "
            + wrapped(usageWords(of: command), width: columns - indent.count - 2)
            .joined(separator: "\n  " + indent) + "\n"
    }

    /// The whole text of one command, or of all commands that begin with one word.
    static func text(of commands: [Command]) -> String {
        commands.map(text(of:)).joined(separator: "\n")
    }

    private static func text(of command: Command) -> String {
        var text = "\(command.summary)\n\n\(usageLines(of: command))"
        let positionals = command.positionals.map {
            ($0.name, $0.help + choices($0.choices))
        }
        if !positionals.isEmpty { text += "\n" + section(positionals) }
        let options = command.options.map {
            (withShort($0), $0.help + choices($0.choices))
        }
        if !options.isEmpty { text += "\noptions:\n" + section(options) }
        text +=
            "\nfor every command:\n"
            + section(command.globalOptions.map { (withShort($0), $0.help) })
        let paragraphs = command.discussion.split(separator: "\n")
        if !paragraphs.isEmpty {
            let lines = paragraphs.flatMap { wrapped(String($0), width: columns) }
            text += "\n" + lines.joined(separator: "\n") + "\n"
        }
        return text
    }

    /// What `repricer help` prints.
    static func overview(of commands: [Command]) -> String {
        """
        repricer changes subscription prices through the App Store: forecast, approval,
        delivery, consent, reports.

        usage: repricer COMMAND [ARGUMENT...]
               repricer --version

        \(section(commands.map { ($0.name, $0.summary) }))
        for every command:
        \(section(GlobalOptions.all.map { (withShort($0), $0.help) }))
        `repricer help COMMAND` tells more. Exit codes: 0 done, 1 failed, 2 usage,
        3 input rejected, 4 approval needed or refused, 5 conflict, 6 database or App
        Store away, 130 interrupted.\n
        """
    }

    /// `-o, --format table|json`
    static func withShort(_ option: any OptionSpecification) -> String {
        (option.short.map { "-\($0), " } ?? "") + spelled(option)
    }

    private static func spelled(_ option: any OptionSpecification) -> String {
        guard let valueName = option.valueName else { return "--\(option.name)" }
        let isShort = !option.choices.isEmpty && option.choices.count <= 4
        let more = option.isRepeatable ? "..." : ""
        return "--\(option.name) "
            + (isShort ? option.choices.joined(separator: "|") : valueName + more)
    }

    private static func choices(_ choices: [String]) -> String {
        choices.count > 4 ? "; one of " + choices.joined(separator: ", ") : ""
    }

    /// Two columns; a help text that does not fit wraps within its own column.
    private static func section(_ lines: [(name: String, help: String)]) -> String {
        let width = min(28, lines.map(\.name.count).max() ?? 0)
        return lines.map { name, help in
            let pieces = wrapped(help, width: columns - 4 - width)
            let indent = String(repeating: " ", count: width + 4)
            let body = pieces.joined(separator: "\n" + indent)
            let gap = String(repeating: " ", count: max(0, width - name.count))
            return name.count > width
                ? "  \(name)\n\(indent)\(body)\n" : "  \(name)\(gap)  \(body)\n"
        }.joined()
    }
}

/// Lines of at most `width` characters, broken at blanks.
func wrapped(_ text: String, width: Int) -> [String] {
    wrapped(text.split(separator: " ").map(String.init), width: width)
}

/// Lines of at most `width` characters, broken between words.
private func wrapped(_ words: [String], width: Int) -> [String] {
    var lines: [String] = []
    var line = ""
    for word in words {
        if !line.isEmpty && line.count + 1 + word.count > width {
            lines.append(line)
            line = ""
        }
        line += (line.isEmpty ? "" : " ") + word
    }
    return lines + (line.isEmpty ? [] : [line])
}
