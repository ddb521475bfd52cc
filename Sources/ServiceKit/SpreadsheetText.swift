/// Texts as cells of a CSV file that somebody may open in a spreadsheet. A spreadsheet runs a cell that begins like a
/// formula, and takes a cell that begins with `'` as text.
package enum SpreadsheetText {
    /// The text, with a `'` before it where a spreadsheet would run it.
    package static func cell(_ text: String) -> String {
        wouldRun(text) ? "'" + text : text
    }

    /// The text of a cell that `cell` wrote.
    package static func text(_ cell: String) -> String {
        cell.hasPrefix("'") && wouldRun(cell) ? String(cell.dropFirst()) : cell
    }

    /// Whether a spreadsheet would run it. It compares bytes, because CR LF is a single Character. A text that already
    /// looks escaped counts too, so that each text is read back unchanged.
    package static func wouldRun(_ text: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let first = text.first(where: { $0 != UInt8(ascii: "'") }) else { return false }
        switch first {
        case UInt8(ascii: "="), UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "@"), 9, 10, 13:
            return true
        default: return false
        }
    }

    private static func wouldRun(_ text: String) -> Bool {
        var text = text
        return text.withUTF8 { wouldRun($0) }
    }
}
