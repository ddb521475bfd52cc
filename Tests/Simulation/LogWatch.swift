import Synchronization

/// Reads what the product logs, down to its debug lines, on every road that a world takes: what was signed, and the tokens
/// that prove who calls, belong in none of them.
final class LogWatch: Sendable {
    /// A JSON object in base64url begins so: the header of each JWS, of notifications and bearer tokens alike.
    private static let beginning = "eyJ"
    /// Our words have no such run of letters after it.
    private static let runMin = 12

    private let customers: Set<String>
    private let found = Mutex<[String: Int]>([:])

    /// - Parameter customers: Their tokens, which tell one person's purchases from another's.
    init(customers: Set<String>) { self.customers = customers }

    /// What should not have been said, with how often.
    var leaks: [String] {
        found.withLock { $0.map { "\($0.key), \($0.value) times" } }.sorted()
    }

    func read(_ line: String) {
        var kinds: [String] = []
        if Self.holdsSigned(line) { kinds.append("something signed") }
        if Self.uuids(line).contains(where: customers.contains) {
            kinds.append("a customer's token")
        }
        guard !kinds.isEmpty else { return }
        let place = line.split(separator: " ").first { $0.hasPrefix("component=") } ?? "a line"
        found.withLock { found in
            for kind in kinds { found["\(kind) in the log of \(place)", default: 0] += 1 }
        }
    }

    private static func holdsSigned(_ line: String) -> Bool {
        var rest = line[...]
        while let range = rest.firstRange(of: beginning) {
            rest = rest[range.upperBound...]
            let run = rest.prefix {
                $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-" || $0 == "_")
            }
            if run.count >= runMin { return true }
        }
        return false
    }

    private static func uuids(_ line: String) -> [String] {
        line.split { !($0.isHexDigit || $0 == "-") }.map { $0.lowercased() }.filter {
            $0.utf8.count == 36
        }
    }
}
