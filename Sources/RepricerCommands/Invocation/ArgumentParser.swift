/// Parses a command line strictly: an unknown, missing, repeated or superfluous argument is an error.
struct ArgumentParser {
    /// The most arguments that are read. Nobody types more.
    static let argumentsMax = 1000

    enum Outcome {
        case run(Command, ParsedArguments)
        /// `--help` takes precedence over every later fault, because a person who asks for help may not know the rest.
        case help(path: [String])
    }

    /// A fault, with the command in which it was found, if that is known.
    struct Fault: Error {
        let error: UsageError
        let command: Command?
    }

    private let commands: [Command]
    private var rest: ArraySlice<String>
    private var parsed = ParsedArguments()
    /// The words of the command that were found so far.
    private var path: [String] = []
    private var isOptionFault = false

    init(commands: [Command], arguments: [String]) {
        self.commands = commands
        // `--version` is the common way to ask for the version, which is a command here.
        let words = arguments.first == "--version" ? ["version"] + arguments.dropFirst() : arguments
        rest = words.prefix(Self.argumentsMax + 1)[...]
    }

    mutating func parse() throws(Fault) -> Outcome {
        guard rest.count <= Self.argumentsMax else {
            throw Fault(error: UsageError("more than \(Self.argumentsMax) arguments"), command: nil)
        }
        let helpIsAsked = rest.prefix { $0 != "--" }.contains { $0 == "--help" || $0 == "-h" }
        let command: Command
        do {
            command = try resolveCommand()
        } catch let error {
            // An unknown command has no help, and the overview would not report it as unknown.
            let isUnknown = path.isEmpty && rest.first.map { !$0.hasPrefix("-") } ?? false
            if helpIsAsked, !isUnknown || isOptionFault { return .help(path: path) }
            throw Fault(error: error, command: nil)
        }
        if helpIsAsked { return .help(path: command.path) }
        do {
            try readArguments(of: command)
            return .run(command, parsed)
        } catch let error {
            throw Fault(error: error, command: command)
        }
    }

    /// Takes the words that name the command. Global options may stand before and between them.
    private mutating func resolveCommand() throws(UsageError) -> Command {
        while let argument = rest.first {
            let isOption = argument.hasPrefix("-") && argument.count > 1
            if isOption {
                // Once a command is complete, the options after it are its own.
                if commands.contains(where: { $0.path == path }) { break }
                isOptionFault = true
                try readOption(among: GlobalOptions.all)
                isOptionFault = false
                continue
            }
            let candidates = commands.filter { $0.path.starts(with: path + [argument]) }
            if candidates.isEmpty { break }
            path.append(argument)
            rest.removeFirst()
        }
        if let command = commands.first(where: { $0.path == path }) { return command }
        throw incomplete(path)
    }

    private func incomplete(_ path: [String]) -> UsageError {
        let next = commands.filter { $0.path.starts(with: path) && $0.path.count > path.count }
            .map { $0.path[path.count] }.uniqued()
        let noun = path.joined(separator: " ")
        guard let wrong = rest.first else {
            return path.isEmpty
                ? UsageError("missing command; `repricer help` lists them")
                : UsageError("\(noun) needs one of \(next.joined(separator: ", "))")
        }
        guard !path.isEmpty else { return .unknownCommand(wrong, among: next) }
        return .notAChoice(wrong, of: noun, choices: next)
    }

    private mutating func readArguments(of command: Command) throws(UsageError) {
        var waiting = command.positionals[...]
        var optionsAreOver = false
        while let argument = rest.first {
            if !optionsAreOver && argument == "--" {
                optionsAreOver = true
                rest.removeFirst()
            } else if !optionsAreOver && argument.hasPrefix("-") && argument.count > 1 {
                try readOption(
                    among: command.allOptions,
                    takesMore: command.positionals.isEmpty)
            } else {
                guard let positional = waiting.popFirst() else {
                    throw UsageError("unexpected argument \(quoted(argument))")
                }
                try check(argument, of: positional.name, among: positional.choices)
                parsed.positionals[positional.name] = argument
                rest.removeFirst()
            }
        }
        if let missing = waiting.first(where: \.isRequired) {
            throw UsageError("missing \(missing.name)")
        }
        if let format = parsed.values["format"], parsed[GlobalOptions.json], format != "json" {
            throw UsageError("--json and --format \(format) contradict each other")
        }
        for option in command.options where option.isRequired {
            guard parsed.values[option.name] != nil || parsed.lists[option.name] != nil else {
                throw UsageError("missing --\(option.name) \(option.valueName ?? "")")
            }
        }
    }

    /// `takesMore` says that several values may follow, because no argument stands by itself.
    private mutating func readOption(
        among known: [any OptionSpecification], takesMore: Bool = false
    ) throws(UsageError) {
        guard var argument = rest.popFirst() else { return }
        if argument.count == 2, let long = known.first(where: { $0.short == argument.last }) {
            argument = "--\(long.name)"
        }
        // Other programs read a value that is joined to its letter: `-ojson`.
        if argument.hasPrefix("-"), !argument.hasPrefix("--"), argument.count > 2,
            let long = known.first(where: {
                $0.valueName != nil && $0.short != nil && $0.short == argument.dropFirst().first
            })
        {
            argument = "--\(long.name)=\(argument.dropFirst(2))"
        }
        guard argument.hasPrefix("--") else {
            throw .unknownShortOption(argument, among: known)
        }
        let parts = argument.dropFirst(2).split(
            separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let name = String(parts.first ?? "")
        guard let option = known.first(where: { $0.name == name }) else {
            throw .unknownOption(name, among: known.map(\.name))
        }
        guard parsed.values[name] == nil, !parsed.flags.contains(name) else {
            throw UsageError("--\(name) is given twice")
        }
        let attached = parts.dropFirst().first.map(String.init)
        guard let valueName = option.valueName else {
            guard attached == nil else { throw UsageError("--\(name) takes no value") }
            parsed.flags.insert(name)
            return
        }
        let value: String
        if let attached {
            value = attached
        } else {
            value = try separateValue(of: option, valueName)
        }
        try check(value, of: "--\(name)", among: option.choices)
        guard option.isRepeatable else {
            parsed.values[name] = value
            return
        }
        parsed.lists[name, default: []].append(value)
        // A value may begin with a dash, as -5% does.
        let shorts = known.compactMap(\.short).map { "-\($0)" }
        while takesMore, let next = rest.first, !next.hasPrefix("--"), !shorts.contains(next) {
            try check(next, of: "--\(name)", among: option.choices)
            parsed.lists[name, default: []].append(next)
            rest.removeFirst()
        }
    }

    /// Takes a separate value. A value that looks like an option shows that the value was forgotten; `--name=--value`
    /// states it.
    private mutating func separateValue(
        of option: any OptionSpecification, _ valueName: String
    ) throws(UsageError) -> String {
        guard let value = rest.first, !value.hasPrefix("--") else {
            let shown = option.choices.isEmpty ? valueName : option.choices.joined(separator: "|")
            throw UsageError("--\(option.name) needs a value: --\(option.name) \(shown)")
        }
        rest.removeFirst()
        return value
    }

    private func check(
        _ value: String, of subject: String, among choices: [String]
    ) throws(UsageError) {
        guard choices.isEmpty || choices.contains(value) else {
            throw .notAChoice(value, of: subject, choices: choices)
        }
        guard !value.isEmpty else { throw UsageError("\(subject) is empty") }
    }
}

extension Array where Element: Hashable {
    /// Each element once, in the order of its first appearance.
    func uniqued() -> [Element] {
        var seen: Set<Element> = []
        return filter { seen.insert($0).inserted }
    }
}
