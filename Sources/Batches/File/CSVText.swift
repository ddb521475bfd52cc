import ServiceKit

/// Writes CSV that may be opened in a spreadsheet.
package enum CSVText {
    /// One record with its line break. A `'` stands before each text that a spreadsheet would run as a formula.
    package static func record(_ cells: [String]) -> String {
        cells.map { quoted(isNumber($0) ? $0 : SpreadsheetText.cell($0)) }.joined(separator: ",")
            + "\r\n"
    }

    /// Whether the cell is a number: a wrong price such as -5 is no formula.
    private static func isNumber(_ cell: String) -> Bool {
        guard cell.hasPrefix("-") || cell.hasPrefix("+") else { return false }
        let digits = cell.utf8.dropFirst()
        return !digits.isEmpty
            && digits.allSatisfy { (0x30...0x39).contains($0) || $0 == UInt8(ascii: ".") }
    }

    private static func quoted(_ cell: String) -> String {
        let needsQuotes = cell.utf8.contains { byte in
            byte == UInt8(ascii: "\"") || byte == UInt8(ascii: ",") || byte == UInt8(ascii: "\n")
                || byte == UInt8(ascii: "\r")
        }
        guard needsQuotes else { return cell }
        return "\""
            + cell.split(separator: "\"", omittingEmptySubsequences: false)
            .joined(separator: "\"\"") + "\""
    }
}
