/// An argument known by its place.
struct Positional: Sendable {
    /// The name in upper case, as in the help.
    let name: String
    let help: String
    let isRequired: Bool
    /// The only values allowed; empty when any is.
    let choices: [String]
    let noun: Noun?

    init(
        _ name: String, _ help: String, isRequired: Bool = true, choices: [String] = [],
        noun: Noun? = nil
    ) {
        self.name = name
        self.help = help
        self.isRequired = isRequired
        self.choices = choices
        self.noun = noun ?? (["FILE", "DIR"].contains(name) ? .files : nil)
    }
}

/// An argument known by its name, `--name` or `--name VALUE`.
protocol OptionSpecification: Sendable {
    /// The name without the dashes.
    var name: String { get }
    /// The name of the value in upper case; nil for a flag.
    var valueName: String? { get }
    var help: String { get }
    var choices: [String] { get }
    /// The values that shells offer. Others may be allowed.
    var suggestions: [String] { get }
    var isRequired: Bool { get }
    /// Whether it may be given several times, and with several values.
    var isRepeatable: Bool { get }
    /// One letter for the same option; nil for most.
    var short: Character? { get }
    /// What its values name in this installation; nil where they name nothing.
    var noun: Noun? { get }
}

extension OptionSpecification {
    var suggestions: [String] { choices }
    var isRepeatable: Bool { false }
    var short: Character? { nil }
    var noun: Noun? { nil }
}

/// A kind of word that only the installation knows. Shells get these words from `completion`.
enum Noun: String, CaseIterable, Sendable {
    case batches, files, reports
}

/// An option that is given or not.
struct Flag: OptionSpecification {
    let name: String
    let help: String

    init(_ name: String, _ help: String) {
        self.name = name
        self.help = help
    }

    var valueName: String? { nil }
    var choices: [String] { [] }
    var isRequired: Bool { false }
}

/// `--name VALUE` or `--name=VALUE`.
struct ValueOption: OptionSpecification {
    let name: String
    let valueName: String?
    let help: String
    let choices: [String]
    let suggestions: [String]
    let isRequired: Bool
    let short: Character?
    let noun: Noun?

    init(
        _ name: String, _ valueName: String, _ help: String, choices: [String] = [],
        suggestions: [String]? = nil, isRequired: Bool = false, short: Character? = nil,
        noun: Noun? = nil
    ) {
        self.name = name
        self.valueName = valueName
        self.help = help
        self.choices = choices
        self.suggestions = suggestions ?? choices
        self.isRequired = isRequired
        self.short = short
        // Options for paths are recognised by their value names.
        self.noun = noun ?? (["FILE", "OUT", "DIR", "ROWS"].contains(valueName) ? .files : nil)
    }
}

/// `--name VALUE VALUE`, or `--name VALUE --name VALUE`.
struct ListOption: OptionSpecification {
    let name: String
    let valueName: String?
    let help: String
    let isRequired: Bool

    init(_ name: String, _ valueName: String, _ help: String, isRequired: Bool = false) {
        self.name = name
        self.valueName = valueName
        self.help = help
        self.isRequired = isRequired
    }

    var choices: [String] { [] }
    var isRepeatable: Bool { true }
}

/// The options that every command takes.
enum GlobalOptions {
    static let environmentFile = ValueOption(
        "env-file", "FILE", "read settings from FILE (KEY=value lines); the environment wins")
    static let clock = ValueOption(
        "clock", "START@RATE", "run on a virtual clock; only against a loopback App Store")
    static let json = Flag("json", "print facts as JSON: the same as --format json")
    static let format = ValueOption(
        "format", "FORMAT", "how to print facts; table when left out", choices: ["table", "json"],
        short: "o")
    static let quiet = Flag("quiet", "no progress and no notes, only errors")
    static let color = ValueOption(
        "color", "WHEN", "colour; on a terminal without NO_COLOR when left out",
        choices: ["auto", "always", "never"])
    static let logFormat = ValueOption(
        "log-format", "FORMAT", "how log lines are written; text when left out",
        choices: ["text", "json"])
    static let logLevel = ValueOption(
        "log-level", "LEVEL",
        "the least that is logged; serve: info, others: warning; debug follows each change",
        choices: ["debug", "info", "notice", "warning", "error"])
    static let noPager = Flag("no-pager", "print long tables at once, without PAGER")
    static let help = Flag("help", "show this text")

    static let all: [any OptionSpecification] = [
        environmentFile, clock, json, format, quiet, color, logFormat, logLevel, noPager,
        help,
    ]
}
