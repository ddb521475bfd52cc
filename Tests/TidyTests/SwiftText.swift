/// One token of Swift. Comments are no tokens; a string or regex literal is one token with its content, so that
/// no rule trips over what is only said. The code of an interpolation follows as tokens of its own.
struct Token: Equatable {
    enum Kind { case word, symbol, string, regex }

    var kind: Kind
    var text: String
    var line: Int
    /// Whether white space or a comment stands before it.
    var followsSpace: Bool

    func isCode(_ text: String) -> Bool { (kind == .word || kind == .symbol) && self.text == text }
}

/// Swift source as tokens. Not a parser: just enough to tell code, comments and literals apart.
struct SwiftText {
    private(set) var tokens: [Token] = []
    private(set) var commentLines: Set<Int> = []
    private(set) var lineCount = 0

    init(_ source: String) {
        var scanner = SwiftScanner(source)
        scanner.scan(untilParenthesis: false)
        tokens = scanner.tokens
        commentLines = scanner.commentLines
        lineCount =
            source.isEmpty ? 0 : scanner.line - (source.utf8.last == UInt8(ascii: "\n") ? 1 : 0)
    }

    /// The index of the symbol that closes the one at `open`, or the last index when it is never closed.
    func close(of open: Int) -> Int {
        var depth = 0
        for index in open..<tokens.count where tokens[index].kind == .symbol {
            switch tokens[index].text {
            case "(", "[", "{": depth += 1
            case ")", "]", "}":
                depth -= 1
                if depth == 0 { return index }
            default: break
            }
        }
        return tokens.count - 1
    }
}

private struct SwiftScanner {
    private let bytes: [UInt8]
    private var index = 0
    private var followsSpace = false
    var line = 1
    var tokens: [Token] = []
    var commentLines: Set<Int> = []

    init(_ source: String) { bytes = Array(source.utf8) }

    private func byte(_ offset: Int = 0) -> UInt8 {
        index + offset < bytes.count ? bytes[index + offset] : 0
    }

    /// Up to the end, or past the parenthesis that closes an interpolation.
    mutating func scan(untilParenthesis: Bool) {
        var depth = 0
        while index < bytes.count {
            let first = byte()
            switch first {
            case Character.newline:
                line += 1
                index += 1
                followsSpace = true
            case Character.space, Character.tab, Character.carriageReturn:
                index += 1
                followsSpace = true
            case Character.slash where byte(1) == Character.slash: lineComment()
            case Character.slash where byte(1) == Character.star: blockComment()
            case Character.slash where opensRegex: regex(hashes: 0)
            case Character.quote: string(hashes: 0)
            case Character.hash: hash()
            case Character.open:
                depth += 1
                symbol(1)
            case Character.close:
                depth -= 1
                symbol(1)
                if untilParenthesis, depth < 0 { return }
            default:
                if Character.isWord(first) {
                    word(from: index)
                } else if Character.isOperator(first) {
                    operatorRun()
                } else {
                    symbol(1)
                }
            }
        }
    }

    private mutating func append(_ kind: Token.Kind, _ range: Range<Int>, line: Int) {
        let text = String(decoding: bytes[range], as: UTF8.self)
        tokens.append(Token(kind: kind, text: text, line: line, followsSpace: followsSpace))
        followsSpace = false
    }

    private mutating func symbol(_ length: Int) {
        append(.symbol, index..<index + length, line: line)
        index += length
    }

    private mutating func word(from start: Int) {
        while Character.isWord(byte()) { index += 1 }
        append(.word, start..<index, line: line)
    }

    private mutating func operatorRun() {
        let start = index
        while Character.isOperator(byte()) {
            let opensComment =
                byte() == Character.slash
                && (byte(1) == Character.slash || byte(1) == Character.star)
            if opensComment { break }
            index += 1
        }
        append(.symbol, start..<index, line: line)
    }

    private mutating func lineComment() {
        commentLines.insert(line)
        while index < bytes.count, byte() != Character.newline { index += 1 }
        followsSpace = true
    }

    private mutating func blockComment() {
        var depth = 0
        repeat {
            commentLines.insert(line)
            if byte() == Character.slash, byte(1) == Character.star {
                depth += 1
                index += 2
            } else if byte() == Character.star, byte(1) == Character.slash {
                depth -= 1
                index += 2
            } else {
                if byte() == Character.newline { line += 1 }
                index += 1
            }
        } while depth > 0 && index < bytes.count
        followsSpace = true
    }

    /// `#"raw"#`, `#/regex/#`, or a word such as `#expect`.
    private mutating func hash() {
        let start = index
        var count = 0
        while byte(count) == Character.hash { count += 1 }
        switch byte(count) {
        case Character.quote:
            index += count
            string(hashes: count)
        case Character.slash:
            index += count
            regex(hashes: count)
        default:
            index += count
            word(from: start)
        }
    }

    /// A slash opens a regex where an operand is due and no space follows it, if its line closes it.
    private var opensRegex: Bool {
        guard byte(1) != Character.space, byte(1) != Character.newline else { return false }
        if let last = tokens.last {
            let before = ["(", ",", ":", "=", "[", "{", "&&", "||", "return", "in", "??"]
            guard last.kind == .word || last.kind == .symbol, before.contains(last.text) else {
                return false
            }
        }
        var offset = 1
        while byte(offset) != Character.newline, index + offset < bytes.count {
            if byte(offset) == Character.backslash {
                offset += 1
            } else if byte(offset) == Character.slash {
                return true
            }
            offset += 1
        }
        return false
    }

    private mutating func regex(hashes: Int) {
        let startLine = line
        index += 1
        let start = index
        while index < bytes.count, !(byte() == Character.slash && hasHashes(hashes, at: 1)) {
            if byte() == Character.newline { line += 1 }
            index += byte() == Character.backslash ? 2 : 1
        }
        append(.regex, start..<min(index, bytes.count), line: startLine)
        index += 1 + hashes
    }

    private func hasHashes(_ count: Int, at offset: Int) -> Bool {
        var matched = 0
        while matched < count, byte(offset + matched) == Character.hash { matched += 1 }
        return matched == count
    }

    /// `index` is at the first quote. The literal keeps its place before the tokens of its interpolations.
    private mutating func string(hashes: Int) {
        let isMultiline = byte(1) == Character.quote && byte(2) == Character.quote
        let quotes = isMultiline ? 3 : 1
        let place = tokens.count
        append(.string, index..<index, line: line)
        index += quotes
        let start = index
        while index < bytes.count {
            if closesString(quotes: quotes, hashes: hashes) { break }
            if byte() == Character.newline {
                guard isMultiline else { break }
                line += 1
            } else if byte() == Character.backslash, hasHashes(hashes, at: 1) {
                index += 1 + hashes
                if byte() == Character.open {
                    symbol(1)
                    scan(untilParenthesis: true)
                    continue
                }
                if byte() == Character.newline { line += 1 }
            }
            index += 1
        }
        let end = min(index, bytes.count)
        tokens[place].text = String(decoding: bytes[start..<end], as: UTF8.self)
        index += quotes + hashes
        followsSpace = false
    }

    private func closesString(quotes: Int, hashes: Int) -> Bool {
        guard byte() == Character.quote else { return false }
        if quotes == 3, byte(1) != Character.quote || byte(2) != Character.quote { return false }
        return hasHashes(hashes, at: quotes)
    }
}

private enum Character {
    static let newline = UInt8(ascii: "\n")
    static let carriageReturn = UInt8(ascii: "\r")
    static let space = UInt8(ascii: " ")
    static let tab = UInt8(ascii: "\t")
    static let slash = UInt8(ascii: "/")
    static let backslash = UInt8(ascii: "\\")
    static let star = UInt8(ascii: "*")
    static let quote = UInt8(ascii: "\"")
    static let hash = UInt8(ascii: "#")
    static let open = UInt8(ascii: "(")
    static let close = UInt8(ascii: ")")

    private static let words = table(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$`")
    private static let operators = table("/=-+!*%<>&|^~?")

    static func isWord(_ byte: UInt8) -> Bool { words[Int(byte)] || byte >= 0x80 }
    static func isOperator(_ byte: UInt8) -> Bool { operators[Int(byte)] }

    private static func table(_ members: String) -> [Bool] {
        var table = [Bool](repeating: false, count: 256)
        for byte in members.utf8 { table[Int(byte)] = true }
        return table
    }
}
