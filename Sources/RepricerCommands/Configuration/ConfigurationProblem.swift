/// One thing that is wrong with the configuration, and how to mend it.
package struct ConfigurationProblem: Equatable, Sendable, CustomStringConvertible {
    /// The variable, or what else was checked: `database`, `schema`.
    package let subject: String
    /// `FILE:LINE`, `environment`, `--clock`; nil where the value is missing or a default.
    package let source: String?
    package let wrong: String
    package let remedy: String

    init(_ subject: String, source: String? = nil, _ wrong: String, remedy: String) {
        self.subject = subject
        self.source = source
        self.wrong = wrong
        self.remedy = remedy
    }

    var isFromCommandLine: Bool { source == Configuration.clockOptionSource }

    /// `FILE:LINE: VARIABLE: what is wrong; what to do`.
    package var description: String {
        let place = source.flatMap { $0.contains(":") ? "\($0): " : nil } ?? ""
        return "\(place)\(subject): \(wrong); \(remedy)"
    }
}

/// All configuration problems that keep a command from running, not only the first.
package struct ConfigurationFault: Error, Equatable, CustomStringConvertible {
    package let problems: [ConfigurationProblem]

    package var description: String { problems.map(\.description).joined(separator: "\n") }
}
