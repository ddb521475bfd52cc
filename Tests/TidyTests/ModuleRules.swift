import Foundation

/// The arrows between modules: as drawn, as declared, as imported.
enum ModuleRules {
    /// What `Package.swift` declares: `module`, `program` and `.systemLibrary` with their dependencies.
    static func declared(_ manifest: SwiftText) -> [String: Set<String>] {
        var declared: [String: Set<String>] = [:]
        for (index, token) in manifest.tokens.enumerated() {
            guard ["module", "program", "systemLibrary"].contains(where: token.isCode),
                !(manifest.token(index - 1)?.isCode("func") ?? false),
                manifest.token(index + 1)?.isCode("(") ?? false
            else { continue }
            let arguments = manifest.tokens[(index + 1)...manifest.close(of: index + 1)]
            let strings = arguments.filter { $0.kind == .string }.map(\.text)
            guard let name = strings.first else { continue }
            declared[name] = token.text == "systemLibrary" ? [] : Set(strings.dropFirst())
        }
        return declared
    }

    /// What the table in `Sources/README.md` draws: names in backticks, then purpose, then imports.
    /// `all above` are the rows above without the system libraries.
    static func drawn(_ markdown: String, systemLibraries: Set<String>) -> [String: Set<String>] {
        var drawn: [String: Set<String>] = [:]
        var isInTable = false
        for line in markdown.split(separator: "\n", omittingEmptySubsequences: false) {
            let cells = line.split(separator: "|", omittingEmptySubsequences: false)
                .map { $0.trimmingCharacters(in: .whitespaces) }
            if cells.count >= 4, cells[1] == "module", cells[3] == "imports" {
                isInTable = true
                continue
            }
            guard isInTable else { continue }
            guard cells.count >= 4 else { break }
            let names = self.names(cells[1]).filter { !$0.hasPrefix("---") }
            let imports =
                cells[3].hasPrefix("all above")
                ? Set(drawn.keys).subtracting(systemLibraries) : Set(self.names(cells[3]))
            for name in names { drawn[name] = imports }
        }
        return drawn
    }

    private static func names(_ cell: String) -> [String] {
        cell.split(separator: ",")
            .map { $0.trimmingCharacters(in: CharacterSet(charactersIn: " `–")) }
            .filter { !$0.isEmpty }
    }

    /// The modules that a file imports.
    static func imports(_ source: SwiftText) -> Set<String> {
        let kinds: Set = ["struct", "class", "enum", "protocol", "func", "typealias", "let", "var"]
        return Set(
            source.indices(of: "import").compactMap { index in
                let next = source.token(index + 1)
                return next.map { kinds.contains($0.text) } ?? false
                    ? source.token(index + 2)?.text : next?.text
            })
    }

    /// How two tables of arrows differ, one line a module.
    static func differences(
        _ one: [String: Set<String>], _ oneName: String, _ other: [String: Set<String>],
        _ otherName: String
    ) -> [String] {
        Set(one.keys).union(other.keys).sorted().flatMap { module -> [String] in
            guard let first = one[module] else { return ["\(module): not in \(oneName)"] }
            guard let second = other[module] else { return ["\(module): not in \(otherName)"] }
            let onlyFirst = first.subtracting(second).sorted()
            let onlySecond = second.subtracting(first).sorted()
            return (onlyFirst.isEmpty ? [] : ["\(module): \(onlyFirst) only in \(oneName)"])
                + (onlySecond.isEmpty ? [] : ["\(module): \(onlySecond) only in \(otherName)"])
        }
    }
}
