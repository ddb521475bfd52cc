extension Commands {
    private static let commandName = Positional(
        "COMMAND", "the command to explain", isRequired: false)
    private static let verb = Positional("VERB", "its second word", isRequired: false)

    static let help = Command(
        "help", "explain a command", positionals: [commandName, verb]
    ) { invocation in
        let path = [invocation.arguments[commandName], invocation.arguments[verb]].compactMap { $0 }
        guard !path.isEmpty else {
            try invocation.print(RepricerCommands.helpText([]))
            return .done
        }
        let commands = RepricerCommands.all.filter { $0.path.starts(with: path) }
        guard !commands.isEmpty else {
            throw UsageError.unknownCommand(
                path.joined(separator: " "), among: RepricerCommands.all.map(\.name))
        }
        try invocation.print(HelpText.text(of: commands))
        return .done
    }
}
