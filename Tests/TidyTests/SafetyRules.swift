/// What must not stop the process or hide an error.
enum SafetyRules {
    /// `try!`, `as!`, `x!`, `Type!` and `fatalError(`.
    static func traps(_ source: SwiftText) -> [Finding] {
        var found: [Finding] = []
        for (index, token) in source.tokens.enumerated() {
            if token.isCode("fatalError"), source.token(index + 1)?.isCode("(") ?? false {
                found.append(Finding(line: token.line, what: "fatalError"))
            }
            guard token.kind == .symbol, token.text.hasPrefix("!"), !token.text.hasPrefix("!="),
                !token.followsSpace, let operand = source.token(index - 1)
            else { continue }
            let endsOperand =
                operand.kind != .symbol || [")", "]", "}", ">", "?"].contains(operand.text)
            if endsOperand { found.append(Finding(line: token.line, what: "\(operand.text)!")) }
        }
        return found
    }

    /// `try?` without a comment that says why the error may be dropped: on its line, on the one above, or at
    /// another `try?` at most two lines above, for a row of attempts has one reason.
    static func silentErrors(_ source: SwiftText) -> [Finding] {
        var found: [Finding] = []
        var excusedLine: Int?
        for index in source.indices(of: "try") {
            let line = source.tokens[index].line
            guard let next = source.token(index + 1), next.isCode("?"), !next.followsSpace else {
                continue
            }
            let isCommented = !source.commentLines.isDisjoint(with: [line, line - 1])
            if isCommented || excusedLine.map({ line - $0 <= 2 }) ?? false {
                excusedLine = line
            } else {
                found.append(Finding(line: line, what: "try? without a comment"))
            }
        }
        return found
    }

    /// A `default` in a switch over one of `enums` (the names of its cases): a new case would pass unseen.
    /// A guess by names: every case of the switch starts with a dot and one enum has them all.
    static func defaults(_ source: SwiftText, enums: [Set<String>]) -> [Finding] {
        source.indices(of: "switch").compactMap { start in
            guard let cases = cases(source, ofSwitchAt: start), let line = cases.defaultLine,
                !cases.names.isEmpty, enums.contains(where: cases.names.isSubset)
            else { return nil }
            return Finding(line: line, what: "default over \(cases.names.sorted())")
        }
    }

    private struct Cases {
        var names: Set<String> = []
        var defaultLine: Int?
    }

    /// `nil` when a case is no plain enum pattern.
    private static func cases(_ source: SwiftText, ofSwitchAt start: Int) -> Cases? {
        var open = start + 1
        while let token = source.token(open), !token.isCode("{") {
            open = token.isCode("(") || token.isCode("[") ? source.close(of: open) + 1 : open + 1
        }
        guard source.token(open) != nil else { return nil }
        var cases = Cases()
        var index = open + 1
        let end = source.close(of: open)
        while index < end {
            let token = source.tokens[index]
            if token.isCode("default"), !source.tokens[index - 1].isCode("unknown") {
                cases.defaultLine = token.line
            } else if token.isCode("case"), !isCondition(source.tokens[index - 1]) {
                if source.tokens[index + 1].isCode("let") { index += 1 }
                guard source.tokens[index + 1].isCode("."), let name = source.token(index + 2)
                else { return nil }
                cases.names.insert(name.text)
            }
            let opens = token.isCode("{") || token.isCode("(") || token.isCode("[")
            index = opens ? source.close(of: index) + 1 : index + 1
        }
        return cases
    }

    /// `if case`, `guard case`, `, case`: a pattern within a body.
    private static func isCondition(_ before: Token) -> Bool {
        ["if", "guard", "while", "for", ","].contains { before.isCode($0) }
    }

    /// The names of the cases of each enum that the source declares.
    static func enumCases(_ source: SwiftText) -> [Set<String>] {
        source.indices(of: "enum").compactMap { start in
            var index = start + 1
            while let token = source.token(index), !token.isCode("{") { index += 1 }
            guard source.token(index) != nil else { return nil }
            let end = source.close(of: index)
            index += 1
            var names: Set<String> = []
            var isInCase = false
            while index < end {
                let token = source.tokens[index]
                if token.isCode("case") || (isInCase && token.isCode(",")) {
                    isInCase = true
                    names.insert(source.tokens[index + 1].text)
                    index += 1
                } else if token.kind == .word,
                    source.tokens[index].line != source.tokens[index - 1].line
                {
                    isInCase = false
                }
                let opens = ["{", "(", "["].contains { source.tokens[index].isCode($0) }
                index = opens ? source.close(of: index) + 1 : index + 1
            }
            return names.isEmpty ? nil : names
        }
    }
}
