import Foundation
import TestSupport
import Testing

/// What interface.md promises of the quickstart's end.
@Suite struct QuickstartRules {
    @Test func story_isTenLinesAtMost_afterTheReports() throws {
        let script = try String(
            contentsOfFile: RepositoryFiles.path("Deploy/quickstart"), encoding: .utf8)
        let lines = script.split(separator: "\n", omittingEmptySubsequences: false)
        let told = lines.indices.filter {
            lines[$0].trimmingCharacters(in: .whitespaces).hasPrefix("tell \"")
        }
        let printed = lines.lastIndex { $0.hasPrefix("show_report ") }

        #expect((5...10).contains(told.count))
        #expect(try #require(printed) < (try #require(told.first)))
        #expect(lines[try #require(told.last)].contains("Next: "))
    }
}
