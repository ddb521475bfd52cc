import Pricing
import ServiceKit

/// One run of one command: its arguments, its dependencies, and the settings when they are needed.
package struct Invocation: Sendable {
    let arguments: ParsedArguments
    /// Every command, for those that describe them.
    let commands: [Command]
    let dependencies: Dependencies
    /// What a person at a terminal sees while the command is silent.
    let waiting: WaitingLine

    init(
        of command: Command, among commands: [Command], arguments: ParsedArguments,
        dependencies: Dependencies
    ) {
        self.arguments = arguments
        self.commands = commands
        waiting = WaitingLine(
            command.name, dependencies, isQuiet: arguments[GlobalOptions.quiet])
        self.dependencies = waiting.dependencies
    }

    var isJSON: Bool {
        arguments[GlobalOptions.json] || arguments[GlobalOptions.format] == "json"
    }
    var isQuiet: Bool { arguments[GlobalOptions.quiet] }

    /// The present by the clock of the settings: the machine's, or the rehearsal's.
    func now(_ configuration: Configuration) async throws -> Instant {
        let clock = try await configuration.makeClock(dependencies: dependencies)
        return Instant(milliseconds: clock.nowMilliseconds())
    }

    /// Prints data.
    func print(_ text: String) throws(OutputError) {
        try dependencies.output.write(text)
    }

    /// Prints facts: with `--json` one JSON value on a line of its own.
    func print(json: @autoclosure () -> JSONValue, _ text: @autoclosure () -> String) throws {
        if isJSON { try print(json().text + "\n") } else { try page(text()) }
    }

    /// Prints text for a person, in their pager where it is longer than the terminal.
    func page(_ text: String) throws(OutputError) {
        if arguments[GlobalOptions.noPager] {
            try print(text)
        } else {
            try dependencies.paged(text)
        }
    }

    /// Prints facts to standard error, because standard output has other data that a program reads.
    func printAside(json: @autoclosure () -> JSONValue, _ text: @autoclosure () -> String) {
        if !isQuiet { dependencies.sayPlainly(isJSON ? json().text + "\n" : text()) }
    }

    /// The height of the terminal, if standard output is one; otherwise nil.
    var screenRows: Int? {
        dependencies.isOutputTerminal ? dependencies.terminalSize().rows : nil
    }

    /// Prints a remark for a person; `--quiet` suppresses it.
    func note(_ message: String) {
        if !isQuiet { dependencies.say(message) }
    }

    /// Suggests the next command to a person at a terminal, and to nobody else.
    func suggest(_ commands: String...) {
        guard dependencies.isMessagesTerminal, !isQuiet else { return }
        let settings = arguments[GlobalOptions.environmentFile].map {
            " --env-file \(ShellWord.quoted($0))"
        }
        for command in commands {
            dependencies.sayPlainly("next: repricer \(command)\(settings ?? "")\n")
        }
    }

    /// Suggests a next command that needs another user, or other settings than this command has.
    func suggest(_ command: String, by whom: String) {
        guard dependencies.isMessagesTerminal, !isQuiet else { return }
        dependencies.sayPlainly("next, \(whom): repricer \(command)\n")
    }

    /// Whether output is coloured: as the option says, or else on a terminal without NO_COLOR.
    var isColoured: Bool {
        switch arguments[GlobalOptions.color] {
        case "always": true
        case "never": false
        default:
            dependencies.isOutputTerminal && dependencies.environment["TERM"] != "dumb"
                && (dependencies.environment["NO_COLOR"] ?? "").isEmpty
        }
    }
}

extension Dependencies {
    /// Writes text for a person, in their pager where it is longer than the terminal.
    func paged(_ text: String) throws(OutputError) {
        let isLong =
            isOutputTerminal
            && text.utf8.lazy.filter { $0 == 0x0A }.count >= terminalSize().rows
        if isLong, let pager = Pager.command(environment), page(pager, text) { return }
        try output.write(text)
    }
}

extension Invocation {
    /// The log of a long command. `--log-level` overrides `level`.
    func log(_ component: String = "repricer", level: Log.Level = .warning) -> Log {
        let asked = arguments[GlobalOptions.logLevel]
        let level = Log.Level.allCases.first { "\($0)" == asked } ?? level
        let format = arguments[GlobalOptions.logFormat].flatMap(Log.Format.init) ?? .text
        return Log(
            component: component, level: level, format: format, clock: dependencies.realClock
        ) {
            dependencies.sayPlainly($0 + "\n")
        }
    }

    /// The dependencies with which a failure is reported. If log lines are JSON, the report is one too.
    var explaining: Dependencies {
        guard arguments[GlobalOptions.logFormat] == Log.Format.json.rawValue else {
            return dependencies
        }
        let log = log(level: .error)
        var explaining = dependencies
        explaining.isMessagesTerminal = false
        explaining.messages = OutputSink { bytes in
            for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n") {
                let words = line.hasPrefix("repricer: ") ? line.dropFirst(10) : line
                log.error(String(words))
            }
        }
        return explaining
    }

    var progressBar: ProgressBar { ProgressBar(dependencies: dependencies, isQuiet: isQuiet) }

    /// Reads the settings: the environment over `--env-file`, and `--clock` over both.
    func configuration() throws -> Configuration {
        let settings = try Settings.load(
            environment: dependencies.environment,
            envFile: arguments[GlobalOptions.environmentFile],
            isSecret: ConnectionString.isSecret)
        return Configuration(settings: settings, clockOption: arguments[GlobalOptions.clock])
    }
}
