import Foundation
import HTTP
import Reports
import TestSupport
import Testing

@testable import Pages

/// A report on a page beside the same as CSV, which the database wrote.
@Suite(.database) struct PageReportTests {
    /// Each cell stands under the heading of its own column.
    @Test(arguments: ReportName.allCases.map(\.rawValue))
    func report_showsEachColumnUnderItsOwnHeading(_ name: String) async throws {
        try await PagesFixture.fill()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            let page = PageTables(try await ask("GET", "/reports/\(name)", [:]).text)
            let csv = try await ask("GET", "/reports/\(name)?format=csv", [:]).text
            let lines = csv.split(separator: "\r\n").map { Self.cells(String($0)) }
            let columns = try #require(lines.first)
            let report = try #require(ReportName(rawValue: name))
            let shown = Self.rows(of: page, report)

            #expect(shown.isEmpty == (lines.count == 1), "\(page.names)")
            for (line, row) in zip(lines.dropFirst(), shown) {
                let currency = columns.firstIndex(of: "currency").map { line[$0] }
                for (heading, cell) in row {
                    guard let column = columns.firstIndex(where: { Self.heading($0) == heading })
                    else {
                        Issue.record("\(name) has no column \(heading) in \(columns)")
                        continue
                    }
                    guard let number = Int64(line[column]) else { continue }
                    #expect(
                        cell == Self.shown(number, columns[column], currency),
                        "\(name) \(heading): \(line)")
                }
            }
        }
    }

    /// Headings and cells of each row.
    private static func rows(of page: PageTables, _ report: ReportName) -> [[(String, String)]] {
        guard report == .batchSummary else {
            let table = page[exactly: report.title]
            guard let headings = table.first else { return [] }
            return table.dropFirst().map { Array(zip(headings, $0)) }
        }
        var records: [[(String, String)]] = []
        for line in page.definitions {
            let parts = line.split(separator: " | ", maxSplits: 1).map(String.init)
            guard let heading = parts.first else { continue }
            if heading == "Batch name" { records.append([]) }
            guard !records.isEmpty else { continue }
            records[records.count - 1].append((heading, parts.count == 2 ? parts[1] : ""))
        }
        return records
    }

    private static func shown(_ number: Int64, _ column: String, _ currency: String?) -> String {
        if column.hasSuffix("_milliunits"), let currency { return amount(number, currency) }
        if column.hasSuffix("_basis_points") {
            let size = number.magnitude
            return "\(number < 0 ? "-" : "")\(size / 100).\(size % 100 / 10)\(size % 10)"
        }
        // An id is no number.
        return column.hasSuffix("_id") ? String(number) : counted(number)
    }

    private static func heading(_ column: String) -> String {
        var words = column
        switch column {
        case "original_transaction_id": words = "subscription"
        case "sku": words = "item"
        case "dependent_sku": words = "dependent"
        case "parent_sku": words = "parent"
        default: break
        }
        if words.hasSuffix("_milliunits") { words.removeLast("_milliunits".count) }
        if words.hasSuffix("_basis_points") { words = words.dropLast("basis_points".count) + "%" }
        words = words.replacing("_", with: " ")
        return words.prefix(1).uppercased() + words.dropFirst()
    }

    /// Of a line without quoted line breaks.
    private static func cells(_ line: String) -> [String] {
        var cells = [""]
        var isQuoted = false
        for character in line {
            switch character {
            case "\"": isQuoted.toggle()
            case "," where !isQuoted: cells.append("")
            default: cells[cells.count - 1].append(character)
            }
        }
        return cells
    }
}
