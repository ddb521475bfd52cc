/// A place that breaks a rule.
struct Finding: Equatable, CustomStringConvertible {
    var line: Int
    var what: String

    var description: String { "\(line): \(what)" }
}

extension SwiftText {
    /// Each index with its token before and after, where `matches` holds for the token.
    func indices(of text: String) -> [Int] {
        tokens.indices.filter { tokens[$0].isCode(text) }
    }

    func token(_ index: Int) -> Token? { tokens.indices.contains(index) ? tokens[index] : nil }
}
