/// Texts as cells of a CSV file that somebody opens in a spreadsheet: what begins like a formula is run there, and what
/// begins with `'` is a text.
package enum SpreadsheetText {
    /// The text, with a `'` before it where it would run.
    package static func cell(_ text: String) -> String {
        wouldRun(text) ? "'" + text : text
    }

    /// The text of a cell that `cell` wrote.
    package static func text(_ cell: String) -> String {
        cell.hasPrefix("'") && wouldRun(cell) ? String(cell.dropFirst()) : cell
    }

    /// By bytes: a line end of two is one Character. A text that begins as an escaped one does counts, so that each
    /// text is read back as it was.
    private static func wouldRun(_ text: String) -> Bool {
        guard let first = text.utf8.first(where: { $0 != UInt8(ascii: "'") }) else { return false }
        switch first {
        case UInt8(ascii: "="), UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "@"), 9, 10, 13:
            return true
        default: return false
        }
    }
}
