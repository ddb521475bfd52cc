import Reports

/// A command line that cannot be understood; exit code 2.
package struct UsageError: Error, Equatable, CustomStringConvertible {
    /// One line: what is wrong, and the nearest thing that would have been right.
    package let message: String

    init(_ message: String) {
        self.message = message
    }

    package var description: String { message }
}

extension UsageError {
    static func unknownOption(_ name: String, among known: [String]) -> UsageError {
        UsageError("unknown option \(quoted("--" + name))" + hint(name, known, prefix: "--"))
    }

    static func unknownCommand(_ name: String, among known: [String]) -> UsageError {
        UsageError(
            "unknown command \(quoted(name))"
                + hint(name, known, otherwise: "; `repricer help` lists them"))
    }

    static func notAChoice(_ value: String, of subject: String, choices: [String]) -> UsageError {
        UsageError(
            "\(subject) cannot be \(quoted(value)); it is one of \(choices.joined(separator: ", "))"
        )
    }

    /// `argument` begins with one dash.
    static func unknownShortOption(
        _ argument: String, among known: [any OptionSpecification]
    ) -> UsageError {
        guard argument != "-V" else {
            return UsageError(
                "unknown option \(quoted(argument)); did you mean \(quoted("--version"))?")
        }
        let shorts = (known.compactMap(\.short) + ["h"]).sorted().map { "-\($0)" }
            .joined(separator: " and ")
        return UsageError(
            "unknown option \(quoted(argument)); only \(shorts) \(shorts.count > 2 ? "have" : "has") one dash, and -- "
                + "stands before a name that begins with one")
    }

    private static func hint(
        _ name: String, _ known: [String], prefix: String = "", otherwise: String = ""
    ) -> String {
        guard let near = nearest(to: name, among: known) else { return otherwise }
        return "; did you mean \(quoted(prefix + near))?"
    }
}

/// The text in quotation marks, with control characters made visible, because it came from outside.
func quoted(_ text: String) -> String { quotedText(text) }
