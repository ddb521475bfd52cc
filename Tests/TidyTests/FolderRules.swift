/// The folders of one module: which of them name types of which, or members that extensions there add (`Type.member`), and
/// whether that goes round in a circle. It does not see a member that is used by a value.
enum FolderRules {
    /// A file by the folder of its module that it stands in, `""` for the module's own.
    typealias File = (folder: String, text: SwiftText)

    private static let kinds: Set = ["struct", "enum", "class", "actor", "protocol", "typealias"]
    private static let hidden: Set = ["private", "fileprivate"]

    /// The folders that each folder needs.
    static func uses(_ files: [File]) -> [String: Set<String>] {
        var homes: [String: Set<String>] = [:]
        for file in files {
            for name in types(file.text) + additions(file.text) {
                homes[name, default: []].insert(file.folder)
            }
        }
        var uses: [String: Set<String>] = [:]
        for file in files {
            let own = Set(declarations(file.text).map(\.name))
            for (index, token) in file.text.tokens.enumerated() where token.kind == .word {
                // A name that two folders declare says nothing.
                for name in [token.text, member(file.text, index)].compactMap({ $0 }) {
                    guard !own.contains(name), let home = homes[name], home.count == 1,
                        !home.contains(file.folder)
                    else { continue }
                    uses[file.folder, default: []].formUnion(home)
                }
            }
        }
        return uses
    }

    /// The types at the top level of a file that other files see.
    static func types(_ source: SwiftText) -> [String] {
        declarations(source).filter { $0.depth == 0 && !isHidden(source, $0.index) }.map(\.name)
    }

    /// What extensions in a file add to other types, as `Type.member`.
    static func additions(_ source: SwiftText) -> [String] {
        let words: Set = ["static", "func", "let", "var", "struct", "enum", "class", "typealias"]
        var added: [String] = []
        for index in source.indices(of: "extension") where !isHidden(source, index) {
            guard let type = source.token(index + 1), type.kind == .word,
                let open = source.tokens[index...].firstIndex(where: { $0.isCode("{") })
            else { continue }
            var depth = 0
            for place in open...source.close(of: open) {
                let token = source.tokens[place]
                switch token.text {
                case "{" where token.kind == .symbol: depth += 1
                case "}" where token.kind == .symbol: depth -= 1
                default:
                    guard depth == 1, words.contains(where: token.isCode),
                        let name = source.token(place + 1), name.kind == .word,
                        !words.contains(name.text), !isHidden(source, place)
                    else { continue }
                    added.append("\(type.text).\(name.text)")
                }
            }
        }
        return added
    }

    /// `Type.member` where the word begins such a pair.
    private static func member(_ source: SwiftText, _ index: Int) -> String? {
        guard let dot = source.token(index + 1), dot.isCode("."),
            let name = source.token(index + 2), name.kind == .word,
            !(source.token(index - 1)?.isCode(".") ?? false)
        else { return nil }
        return "\(source.tokens[index].text).\(name.text)"
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
            "static",
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
