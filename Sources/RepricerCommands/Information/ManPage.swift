/// Manual pages, made from the same specifications as the parser and the help: `repricer.1`, and one for each
/// command.
struct ManPage {
    let commands: [Command]

    /// File names with their text.
    var all: [(file: String, text: String)] {
        [("repricer.1", overview)]
            + commands.map { ("\(Self.name(of: $0)).1", Self.text(of: $0)) }
    }

    private static func name(of command: Command) -> String {
        "repricer-" + command.path.joined(separator: "-")
    }

    private var overview: String {
        Self.head("repricer", "change subscription prices through the App Store")
            + ".SH SYNOPSIS\n\\fBrepricer\\fR \\fICOMMAND\\fR [\\fIARGUMENT\\fR...]\n.br\n"
            + "\\fBrepricer \\-\\-version\\fR\n.SH COMMANDS\n"
            + commands.map {
                ".TP\n\\fB\(Self.escaped($0.name))\\fR\n" + Self.paragraph($0.summary + ".")
            }.joined()
            + Self.options("OPTIONS OF EVERY COMMAND", GlobalOptions.all)
            + ".SH EXIT STATUS\n" + Self.exits.map { ".TP\n\($0.0)\n\($0.1)\n" }.joined()
            + ".SH ENVIRONMENT\n"
            + Variable.allCases.map { ".TP\n\\fB\($0.rawValue)\\fR\n" + Self.paragraph($0.meaning) }
            .joined()
            + ".TP\n\\fBPAGER\\fR, \\fBNO_COLOR\\fR\nas everywhere\n"
            + Self.seeAlso(commands.map(Self.name(of:)))
    }

    private static let exits = [
        ("0", "done"), ("1", "failed"), ("2", "usage"), ("3", "input rejected"),
        ("4", "approval needed or refused"), ("5", "conflict"),
        ("6", "database or App Store away"), ("130", "interrupted"),
    ]

    private static func text(of command: Command) -> String {
        let arguments = command.positionals.map {
            ".TP\n\\fI\(escaped($0.name))\\fR\n" + paragraph($0.help + listed($0.choices))
        }.joined()
        return head(name(of: command), command.summary)
            // Options are not hyphenated and lines not justified, because the usage is copied into a shell.
            + ".SH SYNOPSIS\n.nh\n.ad l\n" + paragraph(HelpText.usage(of: command)) + ".ad\n.hy\n"
            + (arguments.isEmpty ? "" : ".SH ARGUMENTS\n" + arguments)
            + options("OPTIONS", command.options)
            + options("OPTIONS OF EVERY COMMAND", command.globalOptions)
            + (command.discussion.isEmpty
                ? ""
                : ".SH DESCRIPTION\n"
                    + command.discussion.split(separator: "\n").map { paragraph(String($0)) }
                    .joined(separator: ".PP\n"))
            + seeAlso(["repricer"])
    }

    private static func head(_ name: String, _ what: String) -> String {
        ".TH \(name.uppercased().replacing("-", with: "\\-")) 1 \(Commands.productDate) \"repricer "
            + "\(Commands.productVersion)\" \"User Commands\"\n"
            + ".SH NAME\n\(escaped(name)) \\-\n" + paragraph(what)
    }

    private static func options(_ title: String, _ options: [any OptionSpecification]) -> String {
        guard !options.isEmpty else { return "" }
        return ".SH \(title)\n"
            + options.map {
                ".TP\n\\fB\(escaped(HelpText.withShort($0)))\\fR\n"
                    + paragraph($0.help + ($0.choices.count > 4 ? listed($0.choices) : ""))
            }.joined()
    }

    private static func seeAlso(_ names: [String]) -> String {
        ".SH SEE ALSO\n"
            + names.enumerated().map { index, name in
                ".BR \(escaped(name)) (1)\(index == names.count - 1 ? "" : ",")\n"
            }.joined()
    }

    private static func listed(_ choices: [String]) -> String {
        choices.isEmpty ? "" : "; one of " + choices.joined(separator: ", ")
    }

    /// Breaks a paragraph into short lines of source, none of which begins like a request.
    private static func paragraph(_ text: String) -> String {
        wrapped(escaped(text), width: 76).map {
            (($0.hasPrefix(".") || $0.hasPrefix("'")) ? "\\&" : "") + $0 + "\n"
        }.joined()
    }

    private static func escaped(_ text: String) -> String {
        text.flatMap { character -> [Character] in
            switch character {
            case "\\": Array("\\e")
            case "-": Array("\\-")
            case "`": Array("\\(ga")
            default: [character]
            }
        }.map(String.init).joined()
    }
}
