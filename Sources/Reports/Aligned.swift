/// Lays out lines of cells in columns, without trailing blanks, so that output can be compared. A missing cell is
/// empty, and the first line may be underlined. On a terminal it keeps to the width of the screen: cells break between
/// words. If the words themselves are too long, the values of a list without headings break anywhere. Where even that
/// does not suffice, each line becomes a record of names and values.
package func aligned(
    _ lines: [[String]], isRight: [Bool], isUnderlined: Bool = false, hasHeadings: Bool = true
) -> String {
    let natural = isRight.indices.map { column in
        lines.map { column < $0.count ? cellCount($0[column]) : 0 }.max() ?? 0
    }
    guard
        let widths = TableWidths.fitted(
            natural, to: Screen.columns, lines, breaksLast: !hasHeadings)
    else {
        return records(lines, hasHeadings: hasHeadings, columns: Screen.columns ?? 80)
    }
    let dashes = isUnderlined ? [widths.map { String(repeating: "-", count: $0) }] : []
    let shown = lines.prefix(1) + dashes + lines.dropFirst()
    return shown.enumerated().map { number, cells in
        let pieces = isRight.indices.map { column in
            let cell = column < cells.count ? cells[column] : ""
            return cellCount(cell) <= widths[column]
                ? [cell] : brokenText(cell, width: widths[column])
        }
        return (0..<max(1, pieces.map(\.count).max() ?? 1)).map { line in
            isRight.indices.map { column in
                let piece = line < pieces[column].count ? pieces[column][line] : ""
                let blanks = String(
                    repeating: " ", count: max(0, widths[column] - cellCount(piece)))
                let painted =
                    number == 0 && hasHeadings ? Paint.heading(piece) : Paint.word(piece)
                return isRight[column] ? blanks + painted : painted + blanks
            }.joined(separator: "  ").trimmedAtEnd + "\n"
        }.joined()
    }.joined()
}

/// Names and values, one a line.
package func namesAndValues(_ lines: [(name: String, value: String)]) -> String {
    aligned(
        lines.map { [$0.name, withoutControls($0.value)] }, isRight: [false, false],
        hasHeadings: false)
}

/// How many cells of a terminal a text takes. Chinese, Japanese and Korean characters and emoji take two.
package func cellCount(_ text: String) -> Int {
    if text.utf8.count == text.count { return text.utf8.count }
    return text.reduce(0) { $0 + (isWide($1) ? 2 : 1) }
}

private func isWide(_ character: Character) -> Bool {
    let scalars = character.unicodeScalars
    guard let first = scalars.first else { return false }
    // An emoji, or a sign with the selector that shows it as one.
    if first.properties.isEmojiPresentation || scalars.contains("\u{FE0F}") { return true }
    switch first.value {
    case 0x1100...0x115F, 0x2E80...0x303E, 0x3041...0xA4CF, 0xAC00...0xD7A3, 0xF900...0xFAFF,
        0xFE30...0xFE6F, 0xFF00...0xFF60, 0xFFE0...0xFFE6, 0x20000...0x3FFFD:
        return true
    default: return false
    }
}

/// The screen that the command writes to. There is none unless it is a terminal.
package enum Screen {
    /// The width; nil where there is no terminal, or one of any width.
    @TaskLocal package static var columns: Int?
    @TaskLocal package static var isColoured = false
}

/// How wide the columns of a table are.
private enum TableWidths {
    private static let gap = 2

    /// The widths that fit; nil where the table is too wide even when broken at every blank. The widest columns are
    /// narrowed first.
    static func fitted(
        _ natural: [Int], to columns: Int?, _ lines: [[String]], breaksLast: Bool
    ) -> [Int]? {
        guard let columns else { return natural }
        var over = natural.reduce(0, +) + gap * max(0, natural.count - 1) - columns
        guard over > 0 else { return natural }
        let least = natural.indices.map { column in
            if breaksLast && column == natural.count - 1 { return min(natural[column], 30) }
            return lines.map { column < $0.count ? longestWord($0[column]) : 0 }.max() ?? 0
        }
        var widths = natural
        while over > 0 {
            let open = widths.indices.filter { widths[$0] > least[$0] }
            guard let widest = open.max(by: { widths[$0] < widths[$1] }) else { return nil }
            widths[widest] -= 1
            over -= 1
        }
        return widths
    }

    private static func longestWord(_ text: String) -> Int {
        text.split(separator: " ").map { cellCount(String($0)) }.max() ?? 0
    }
}

/// Lays each line out as a block, every cell beside its heading.
private func records(_ lines: [[String]], hasHeadings: Bool, columns: Int) -> String {
    let headings = hasHeadings ? lines.first ?? [] : []
    return lines.dropFirst(hasHeadings ? 1 : 0).map { cells in
        zip(cells.indices, cells).filter { !$0.1.isEmpty }.map { column, cell in
            let heading = column < headings.count ? headings[column] : ""
            let isName = !hasHeadings && column == 0
            let text = heading.isEmpty ? cell : "\(heading): \(cell)"
            let indent = isName || column == 0 ? "" : "  "
            return brokenText(text, width: max(1, columns - indent.count))
                .map { indent + $0 + "\n" }.joined()
        }.joined()
    }.joined()
}

/// Lines of at most `width` characters, broken at blanks. A longer word is broken anywhere.
package func brokenText(_ text: String, width: Int) -> [String] {
    var lines: [String] = []
    var line = ""
    for word in text.split(separator: " ") {
        if !line.isEmpty && cellCount(line) + 1 + cellCount(String(word)) > width {
            lines.append(line)
            line = ""
        }
        var rest = word
        while cellCount(String(rest)) > width {
            let piece = prefix(of: rest, width: width)
            lines.append(piece)
            rest = rest.dropFirst(piece.count)
        }
        line += (line.isEmpty ? "" : " ") + rest
    }
    return lines + (line.isEmpty ? [] : [line])
}

/// As many characters as fit, and at least one.
private func prefix(of text: Substring, width: Int) -> String {
    var piece = ""
    var cells = 0
    for character in text {
        cells += cellCount(String(character))
        if cells > width && !piece.isEmpty { break }
        piece.append(character)
    }
    return piece
}

/// Colours of a terminal, to highlight what should be seen first. Colour is never the only sign.
package enum Paint {
    private static let good: Set = [
        "ok", "yes", "effective", "accepted", "approved", "approved, finished",
        "confirmed",
    ]
    private static let bad: Set = [
        "FAILED", "HALTED", "BLOCKED", "THROTTLED", "UNREACHABLE", "declined", "rejected", "lapsed",
        "missed",
        "no",
        "discrepancy", "moved", "overdue", "late", "approved, halted",
    ]
    private static let open: Set = [
        "PAUSED", "WAITING", "CATCHING UP", "awaiting_approval", "awaiting approval", "parked",
        "approved, paused",
        "not tried", "unknown",
    ]

    static func heading(_ text: String) -> String { text.isEmpty ? text : paint(text, "1") }

    package static func word(_ text: String) -> String {
        if good.contains(text) { return paint(text, "32") }
        if bad.contains(text) { return paint(text, "31") }
        return open.contains(text) ? paint(text, "33") : text
    }

    /// The text without the codes of its colours.
    package static func plain(_ text: String) -> String {
        text.contains("\u{1B}") ? text.replacing(/\u{1B}\[[0-9]*m/, with: "") : text
    }

    private static func paint(_ text: String, _ code: String) -> String {
        Screen.isColoured ? "\u{1B}[\(code)m\(text)\u{1B}[0m" : text
    }
}

/// Removes control characters, because stored text may come from anybody and must not control the terminal.
package func withoutControls(_ text: String) -> String {
    if text.unicodeScalars.allSatisfy({ !steers($0) }) { return text }
    let scalars = text.unicodeScalars.map { steers($0) ? "\u{FFFD}" : $0 }
    return String(String.UnicodeScalarView(scalars))
}

/// Whether a character moves the cursor, breaks a line, or changes the direction of the text after it.
package func steers(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.properties.generalCategory {
    case .control, .lineSeparator, .paragraphSeparator: true
    case .format:
        (0x202A...0x202E).contains(scalar.value) || (0x2066...0x2069).contains(scalar.value)
    default: false
    }
}

extension String {
    fileprivate var trimmedAtEnd: String {
        guard let last = lastIndex(where: { $0 != " " }) else { return "" }
        return String(self[...last])
    }
}
