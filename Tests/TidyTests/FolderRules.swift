/// The folders of one module: which of them name types of which, and whether that goes round in a circle. It does not see
/// members that an extension in another folder adds.
enum FolderRules {
    /// A file by the folder of its module that it stands in, `""` for the module's own.
    typealias File = (folder: String, text: SwiftText)

    private static let kinds: Set = ["struct", "enum", "class", "actor", "protocol", "typealias"]
    private static let hidden: Set = ["private", "fileprivate"]

    /// The folders that each folder needs.
    static func uses(_ files: [File]) -> [String: Set<String>] {
        var homes: [String: Set<String>] = [:]
        for file in files {
            for type in types(file.text) { homes[type, default: []].insert(file.folder) }
        }
        var uses: [String: Set<String>] = [:]
        for file in files {
            let own = Set(declarations(file.text).map(\.name))
            for token in file.text.tokens where token.kind == .word && !own.contains(token.text) {
                // A name that two folders declare says nothing.
                guard let home = homes[token.text], home.count == 1, !home.contains(file.folder)
                else { continue }
                uses[file.folder, default: []].formUnion(home)
            }
        }
        return uses
    }

    /// The types at the top level of a file that other files see.
    static func types(_ source: SwiftText) -> [String] {
        declarations(source).filter { $0.depth == 0 && !isHidden(source, $0.index) }.map(\.name)
    }

    private static func declarations(
        _ source: SwiftText
    ) -> [(name: String, index: Int, depth: Int)] {
        var found: [(name: String, index: Int, depth: Int)] = []
        var depth = 0
        for (index, token) in source.tokens.enumerated() {
            switch token.text {
            case "{" where token.kind == .symbol: depth += 1
            case "}" where token.kind == .symbol: depth -= 1
            default:
                guard kinds.contains(where: token.isCode), let name = source.token(index + 1),
                    name.kind == .word
                else { continue }
                found.append((name.text, index, depth))
            }
        }
        return found
    }

    /// Whether a word before the declaration keeps it to its file.
    private static func isHidden(_ source: SwiftText, _ index: Int) -> Bool {
        let words: Set = [
            "private", "fileprivate", "package", "public", "final", "indirect", "nonisolated",
        ]
        var before = index - 1
        while let token = source.token(before), words.contains(where: token.isCode) {
            if hidden.contains(where: token.isCode) { return true }
            before -= 1
        }
        return false
    }

    /// The folders that need themselves through others.
    static func circles(_ uses: [String: Set<String>]) -> [String] {
        uses.keys.filter { reached(from: $0, uses).contains($0) }.sorted()
    }

    private static func reached(from start: String, _ uses: [String: Set<String>]) -> Set<String> {
        var reached: Set<String> = []
        var next = uses[start] ?? []
        while let folder = next.popFirst() {
            guard reached.insert(folder).inserted else { continue }
            next.formUnion(uses[folder] ?? [])
        }
        return reached
    }
}
