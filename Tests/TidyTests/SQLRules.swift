import Foundation

/// Where SQL may stand, and what it may ask.
enum SQLRules {
    /// String literals that start as a statement does.
    static func statements(_ source: SwiftText) -> [Finding] {
        source.tokens.compactMap { token in
            guard token.kind == .string, startsStatement(token.text) else { return nil }
            return Finding(line: token.line, what: "SQL: \(token.text.prefix(40))")
        }
    }

    /// String literals that ask the server for the time: the clock is a parameter, so that a rehearsal can set it.
    static func clocks(_ source: SwiftText) -> [Finding] {
        source.tokens.compactMap { token in
            guard token.kind == .string, let clock = clock(in: token.text) else { return nil }
            return Finding(line: token.line, what: "asks the server's clock: \(clock)")
        }
    }

    /// Prose and HTTP methods start with some of the same words: the shape of a statement decides.
    private static func startsStatement(_ text: String) -> Bool {
        let words = text.split { $0.isWhitespace }.map(String.init)
        guard let first = words.first else { return false }
        if first == "--" { return words.dropFirst().first == "name:" }
        let second = words.count > 1 ? words[1].uppercased() : ""
        let third = words.count > 2 ? words[2].uppercased() : ""
        switch first.uppercased() {
        case "SELECT": return first == "SELECT" || (first == "select" && words.contains("from"))
        case "INSERT", "MERGE": return second == "INTO"
        case "DELETE": return second == "FROM"
        case "UPDATE": return third == "SET" || (first == "UPDATE" && second.contains("."))
        case "WITH": return third == "AS" || second == "RECURSIVE"
        case "CREATE", "ALTER", "DROP": return objects.contains(second)
        case "SET" where first == "SET":
            return ["LOCAL", "SESSION", "ROLE", "CONSTRAINTS"].contains(second)
                || ["=", "TO"].contains(third)
        case "GRANT", "REVOKE":
            // REVOKE alone is a type of notification.
            return first == first.uppercased() && words.count > 1
        case "BEGIN", "COMMIT", "ROLLBACK", "TRUNCATE", "VACUUM", "ANALYZE", "LISTEN", "NOTIFY":
            return first == first.uppercased()
        case "COPY": return first == "COPY"
        case "VALUES": return second.hasPrefix("(")
        default: return false
        }
    }

    private static let objects: Set = [
        "TABLE", "INDEX", "VIEW", "FUNCTION", "SCHEMA", "ROLE", "DATABASE", "TYPE", "SEQUENCE",
        "UNIQUE", "MATERIALIZED", "TEMPORARY", "TEMP", "OR", "TRIGGER", "EXTENSION", "USER",
    ]

    private static let functions = [
        "now", "clock_timestamp", "statement_timestamp", "transaction_timestamp",
    ]
    private static let values = [
        "current_timestamp", "current_date", "current_time", "localtimestamp", "localtime",
    ]

    private static func clock(in text: String) -> String? {
        for line in text.split(separator: "\n") {
            let code = (line.range(of: "--").map { line[..<$0.lowerBound] } ?? line).lowercased()
            let isName = { (character: Swift.Character) in
                character.isLetter || character.isNumber || character == "_"
            }
            let words = code.split { !isName($0) }
            for word in words {
                if values.contains(String(word)) { return String(word) }
                guard functions.contains(String(word)) else { continue }
                let rest = code[word.endIndex...].drop { $0.isWhitespace }
                if rest.first == "(" { return "\(word)()" }
            }
        }
        return nil
    }
}
