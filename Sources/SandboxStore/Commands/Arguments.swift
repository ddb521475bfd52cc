/// Strict `--name value` arguments: an unknown, repeated or valueless flag is an error.
struct Arguments: Sendable {
    private var values: [String: String] = [:]

    init(_ words: [String], known: Set<String>) throws(SandboxError) {
        var rest = words[...]
        while let word = rest.popFirst() {
            guard word.hasPrefix("--") else {
                throw SandboxError(.usage, "unexpected argument \"\(word)\"")
            }
            let parts = word.dropFirst(2).split(
                separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let name = String(parts[0])
            guard known.contains(name) else { throw SandboxError(.usage, "unknown flag --\(name)") }
            guard values[name] == nil else {
                throw SandboxError(.usage, "--\(name) is given twice")
            }
            if parts.count == 2 {
                values[name] = String(parts[1])
            } else {
                guard let value = rest.popFirst() else {
                    throw SandboxError(.usage, "--\(name) needs a value")
                }
                values[name] = value
            }
        }
    }

    subscript(name: String) -> String? { values[name] }

    func required(_ name: String) throws(SandboxError) -> String {
        guard let value = values[name] else { throw SandboxError(.usage, "--\(name) is required") }
        return value
    }

    func integer(
        _ name: String, in range: ClosedRange<Int64>
    ) throws(SandboxError) -> Int64? {
        guard let text = values[name] else { return nil }
        guard let number = Int64(text), range.contains(number) else {
            throw SandboxError(
                .usage, "--\(name) must be \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }
}
