/// A test that never runs is worse than none: it is counted on.
enum TestRules {
    /// Functions named like tests (`testThing`, or like a promise: `subject_whenCondition_result`) without `@Test`.
    static func testsThatNeverRun(_ source: SwiftText) -> [Finding] {
        functions(source).filter { looksLikeTest($0.name.text) && !$0.isTest }
            .map { Finding(line: $0.name.line, what: "\($0.name.text) lacks @Test") }
    }

    /// The names of the functions behind `@Test`.
    static func tests(_ source: SwiftText) -> Set<String> {
        Set(functions(source).filter(\.isTest).map(\.name.text))
    }

    private static func functions(_ source: SwiftText) -> [(name: Token, isTest: Bool)] {
        var found: [(name: Token, isTest: Bool)] = []
        var attributes: Set<String> = []
        var index = 0
        while let token = source.token(index) {
            if token.isCode("@"), let name = source.token(index + 1) {
                attributes.insert(name.text)
                index += 2
                if let open = source.token(index), open.isCode("("), !open.followsSpace {
                    index = source.close(of: index) + 1
                }
                continue
            }
            if token.isCode("func"), let name = source.token(index + 1) {
                found.append((name, attributes.contains("Test")))
            }
            if !(token.kind == .word && modifiers.contains(token.text)) { attributes = [] }
            index += 1
        }
        return found
    }

    private static let modifiers: Set = [
        "package", "public", "internal", "private", "fileprivate", "static", "final", "mutating",
        "nonisolated", "override", "class",
    ]

    private static func looksLikeTest(_ name: String) -> Bool {
        let name = name.filter { $0 != "`" }
        if name.hasPrefix("test") {
            let next = name.dropFirst(4).first
            return next.map { $0.isUppercase || $0.isNumber || $0 == "_" } ?? true
        }
        return name.dropFirst().contains("_")
    }
}
