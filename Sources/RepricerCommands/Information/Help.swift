import Glibc

extension Commands {
    private static let commandName = Positional(
        "COMMAND", "the command to explain", isRequired: false)
    private static let verb = Positional("VERB", "its second word", isRequired: false)

    private static let manual = ValueOption(
        "man", "DIR",
        "write the manual pages of all commands into DIR, made when missing, for man(1)")

    static let help = Command(
        "help", "explain a command", positionals: [commandName, verb], options: [manual]
    ) { invocation in
        if let folder = invocation.arguments[manual] {
            let pages = ManPage(commands: invocation.commands).all
            // If the folder cannot be created, the first file that cannot be written reports why.
            _ = mkdir(folder, 0o755)
            for page in pages {
                let file = try OutputFile(
                    path: "\(folder)/\(page.file)", dependencies: invocation.dependencies)
                try file.write(page.text)
                try file.flush()
            }
            invocation.note("wrote \(pages.count) manual pages to \(harmless(folder))")
            return .done
        }
        let path = [invocation.arguments[commandName], invocation.arguments[verb]].compactMap { $0 }
        guard !path.isEmpty else {
            try invocation.page(HelpText.overview(of: invocation.commands))
            return .done
        }
        let commands = invocation.commands.filter { $0.path.starts(with: path) }
        guard !commands.isEmpty else {
            throw UsageError.unknownCommand(
                path.joined(separator: " "), among: invocation.commands.map(\.name))
        }
        try invocation.page(HelpText.text(of: commands))
        return .done
    }
}
