/// Sizes that a reader can hold.
enum SizeRules {
    static let functionLinesMax = 70
    static let fileLinesMax = 600
    static let testFileLinesMax = 800

    static func longFile(_ source: SwiftText, linesMax: Int) -> [Finding] {
        guard source.lineCount > linesMax else { return [] }
        return [Finding(line: source.lineCount, what: "more than \(linesMax) lines")]
    }

    /// Functions, initialisers, subscripts and computed properties, from their keyword to their last brace.
    static func longFunctions(_ source: SwiftText) -> [Finding] {
        var found: [Finding] = []
        for (index, token) in source.tokens.enumerated() where token.kind == .word {
            guard isDeclaration(source, at: index), let body = body(source, after: index) else {
                continue
            }
            let lines = source.tokens[source.close(of: body)].line - token.line + 1
            guard lines > functionLinesMax else { continue }
            let name = token.text == "func" || token.text == "var" ? source.token(index + 1) : token
            found.append(Finding(line: token.line, what: "\(name?.text ?? "") has \(lines) lines"))
        }
        return found
    }

    private static func isDeclaration(_ source: SwiftText, at index: Int) -> Bool {
        switch source.tokens[index].text {
        case "func", "deinit", "var": true
        // `.init(…)` calls one.
        case "init", "subscript": !(source.token(index - 1)?.isCode(".") ?? false)
        default: false
        }
    }

    /// The opening brace of a declaration's body; `nil` for a requirement or a stored property.
    private static func body(_ source: SwiftText, after keyword: Int) -> Int? {
        let isVariable = source.tokens[keyword].text == "var"
        var index = keyword + 1
        while let token = source.token(index) {
            guard token.kind == .symbol || token.kind == .word else { return nil }
            switch token.text {
            case "{": return index
            case "}", "func", "var", "let", "init", "subscript", "case": return nil
            case "=" where isVariable: return nil
            case "(", "[": index = source.close(of: index) + 1
            default: index += 1
            }
        }
        return nil
    }
}
