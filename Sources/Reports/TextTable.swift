extension ReportTable {
    /// The table for a terminal, with numbers aligned right and without characters that could control the terminal.
    var text: String {
        guard !rows.isEmpty else { return "\(name.title): no rows\n" }
        let shown = shownColumns
        let headings = shown.map { columns[$0].heading }
        let lines = rows.map { row in shown.map { withoutControls(self.shown(row, $0)) } }
        guard !name.isInRecords else {
            return lines.map { namesAndValues(zip(headings, $0).map { ($0, $1) }) }
                .joined(separator: "\n")
        }
        let sums = totals.map { row in shown.map { withoutControls(self.shown(row, $0)) } }
        return aligned(
            [headings] + lines + (sums.isEmpty ? [] : [[]] + sums),
            isRight: shown.map { columns[$0].kind == .integer },
            isUnderlined: true)
    }
}
