/// One command: its arguments, and the function that runs it. The parser, the help and the completions are all made
/// from it.
package struct Command: Sendable {
    /// One or two words: `plan`, `config check`.
    package let path: [String]
    /// One line without a full stop.
    let summary: String
    /// Whole sentences below the options of the help text. It may be empty.
    let discussion: String
    let positionals: [Positional]
    let options: [any OptionSpecification]
    let run: @Sendable (Invocation) async throws -> ExitCode

    init(
        _ path: String, _ summary: String, positionals: [Positional] = [],
        options: [any OptionSpecification] = [], discussion: String = "",
        run: @escaping @Sendable (Invocation) async throws -> ExitCode
    ) {
        self.path = path.split(separator: " ").map(String.init)
        self.summary = summary
        self.discussion = discussion
        self.positionals = positionals
        self.options = options
        self.run = run
    }

    var name: String { path.joined(separator: " ") }

    /// Its own options, and those global ones for which it has no option of the same name.
    var allOptions: [any OptionSpecification] { options + globalOptions }

    var globalOptions: [any OptionSpecification] {
        GlobalOptions.all.filter { global in !options.contains { $0.name == global.name } }
    }
}

/// The commands, each in the file of its verb.
enum Commands {}
