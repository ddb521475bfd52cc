/// Lines of cells as columns: no trailing blanks, so that output can be compared. A missing cell is empty; the first
/// line may be underlined.
package func aligned(
    _ lines: [[String]], isRight: [Bool], isUnderlined: Bool = false
) -> String {
    let widths = isRight.indices.map { column in
        lines.map { column < $0.count ? $0[column].count : 0 }.max() ?? 0
    }
    let dashes = isUnderlined ? [widths.map { String(repeating: "-", count: $0) }] : []
    return (lines.prefix(1) + dashes + lines.dropFirst()).map { cells in
        let padded = isRight.indices.map { column in
            let cell = column < cells.count ? cells[column] : ""
            let blanks = String(repeating: " ", count: widths[column] - cell.count)
            return isRight[column] ? blanks + cell : cell + blanks
        }
        return padded.joined(separator: "  ").trimmedAtEnd + "\n"
    }.joined()
}

/// Names and values, one a line.
package func namesAndValues(_ lines: [(name: String, value: String)]) -> String {
    aligned(lines.map { [$0.name, withoutControls($0.value)] }, isRight: [false, false])
}

/// Stored text may come from anybody: no character of it steers the terminal.
package func withoutControls(_ text: String) -> String {
    let isClean = text.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control }
    if isClean { return text }
    let scalars = text.unicodeScalars.map { scalar in
        scalar.properties.generalCategory == .control ? "\u{FFFD}" : scalar
    }
    return String(String.UnicodeScalarView(scalars))
}

extension String {
    fileprivate var trimmedAtEnd: String {
        guard let last = lastIndex(where: { $0 != " " }) else { return "" }
        return String(self[...last])
    }
}
