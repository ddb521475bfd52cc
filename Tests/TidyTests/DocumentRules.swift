import Foundation

/// What documents promise about the code.
enum DocumentRules {
    private static let topLevel: Set = [
        "Package.swift", "Sources", "Tests", "Migrations", "Deploy", "README.md",
    ]

    /// Entries of the top level that are neither ours nor dot-files.
    static func strays(ofPaths paths: [String]) -> [String] {
        let entries = Set(paths.compactMap { $0.split(separator: "/").first.map(String.init) })
        return entries.filter { !$0.hasPrefix(".") && !topLevel.contains($0) }.sorted()
    }

    /// The states of the first state diagram.
    static func diagramStates(_ markdown: String) -> Set<String> {
        var states: Set<String> = []
        var isInDiagram = false
        for line in markdown.split(separator: "\n", omittingEmptySubsequences: false) {
            let line = line.trimmingCharacters(in: .whitespaces)
            if line.hasPrefix("stateDiagram") { isInDiagram = true }
            guard isInDiagram else { continue }
            if line == "```" { break }
            guard let arrow = line.range(of: "-->") else { continue }
            let target =
                line[arrow.upperBound...].split(separator: ":").first.map(String.init) ?? ""
            for state in [String(line[..<arrow.lowerBound]), target] {
                let state = state.trimmingCharacters(in: .whitespaces)
                if state != "[*]" { states.insert(state) }
            }
        }
        return states
    }

    /// What is missing at the head of a migration: why, what it locks, whether it breaks the version before.
    static func migrationHead(_ sql: String) -> [String] {
        let lines = sql.split(separator: "\n", omittingEmptySubsequences: false)
        let head = lines.prefix { $0.hasPrefix("-- ") }.map { String($0.dropFirst(3)) }
        var missing: [String] = []
        let why = head.prefix { !$0.hasPrefix("Locks:") && !$0.hasPrefix("breaking:") }
        if why.joined(separator: " ").split(separator: " ").count < 4 { missing.append("why") }
        let locks = head.first { $0.hasPrefix("Locks: ") } ?? ""
        if locks.dropFirst("Locks: ".count).allSatisfy(\.isWhitespace) { missing.append("Locks:") }
        let breaking = head.filter { $0.hasPrefix("breaking:") }
        // A reason may follow in parentheses.
        let isClear = breaking.first?.wholeMatch(of: /breaking: (yes|no)( \(.+\))?/) != nil
        if breaking.count != 1 || !isClear {
            missing.append("breaking: yes|no")
        }
        return missing
    }
}
