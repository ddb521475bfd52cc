import Reports
import TestSupport
import Testing

@testable import RepricerCommands

/// What a terminal of 80 columns shows, whatever stands in the names.
@Suite(.database) struct ScreenTests {
    @Test func columns_besideWideCharacters_standUnderOneAnother() {
        let lines = [["NAME", "ROWS"], ["東京 春", "12"], ["🚀", "3"], ["abcdefgh", "100"]]

        let text = aligned(lines, isRight: [false, true], hasHeadings: false)

        #expect(
            text == "NAME      ROWS\n東京 春     12\n🚀           3\nabcdefgh   100\n")
    }

    @Test func text_thatSteersTheTerminal_isShownAsReplaced() {
        #expect(
            withoutControls("a\u{202E}b\u{2066}c\u{1B}d\u{2028}e")
                == "a\u{FFFD}b\u{FFFD}c\u{FFFD}d\u{FFFD}e")
        #expect(withoutControls("نوروز 🚀 e\u{301}") == "نوروز 🚀 e\u{301}")
    }

    @Test(arguments: [
        ("a\u{202E}b", "turns the direction"), ("a\tb", "control character"),
        ("a\nb", "line end"), ("   ", "blank"),
        (String(repeating: "x", count: 201), "200 characters"),
    ])
    func submit_underANameThatMisleads_isRefused(_ name: String, _ why: String) async {
        let outcome = await run("submit", "prices.csv", "--name", name)

        #expect(outcome.code == .usage)
        #expect(outcome.messages.contains(why), "\(outcome.messages)")
    }

    @Test(arguments: [80, 400])
    func timeline_onAScreen_isATableWhereItFits(_ columns: Int) async throws {
        try await PagesFixture.fill()

        let outcome = await run(
            "timeline", "2000000000000181", "--no-pager",
            environment: ["REPRICER_DATABASE_URL": TestDatabase.url]
        ) {
            $0.isOutputTerminal = true
            $0.terminalSize = { (columns, 24) }
            $0.environment["NO_COLOR"] = "1"
        }

        let lines = outcome.output.split(separator: "\n").map(String.init)
        #expect(lines.allSatisfy { $0.count <= columns }, "\(outcome.output)")
        #expect(lines.contains { $0.hasPrefix("AT ") } == (columns == 400))
        if columns == 80 {
            #expect(
                lines.contains("2026-02-03T00:00:00.000Z  response e-2")
                    || lines.contains("2026-02-03T00:00:00Z  response e-2"))
            #expect(outcome.output.contains("9.99 → 12.99 EUR"))
        }
    }
}
