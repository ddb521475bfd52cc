import Pricing
import ServiceKit

/// What the command line said, checked against the command's specification.
package struct ParsedArguments: Sendable, Equatable {
    var positionals: [String: String] = [:]
    var values: [String: String] = [:]
    /// The values of options that may have several.
    var lists: [String: [String]] = [:]
    var flags: Set<String> = []

    subscript(_ flag: Flag) -> Bool { flags.contains(flag.name) }

    subscript(_ option: ValueOption) -> String? { values[option.name] }

    subscript(_ option: ListOption) -> [String] { lists[option.name] ?? [] }

    subscript(_ positional: Positional) -> String? { positionals[positional.name] }

    /// A positional or option that its specification makes required.
    func required(_ positional: Positional) throws(UsageError) -> String {
        guard let value = self[positional] else {
            throw UsageError("missing \(positional.name)")
        }
        return value
    }

    func required(_ option: ValueOption) throws(UsageError) -> String {
        guard let value = self[option] else { throw UsageError("missing --\(option.name)") }
        return value
    }

    /// An instant in UTC milliseconds. A day alone stands for its first instant.
    func instant(_ option: ValueOption) throws(UsageError) -> Int64? {
        guard let text = self[option] else { return nil }
        guard let instant = RFC3339.parse(text) ?? RFC3339.parse(text + "T00:00:00Z") else {
            throw UsageError(
                "--\(option.name) cannot be \(quoted(text)); write an instant as "
                    + "2026-12-01T00:00:00Z or 2026-12-01")
        }
        guard Instant(milliseconds: instant).isOnCalendar else {
            throw UsageError(
                "--\(option.name) cannot be \(quoted(text)); use an instant from 1970 to the end of 9999"
            )
        }
        return instant
    }
}
