import Foundation
import HTTP
import Postgres
import Reports
import ServiceKit
import TestSupport
import Testing

@testable import Pages

/// Figures of the pages, counted by hand in the fixture. No two that a page shows side by side are equal there, so that
/// one shown in place of another is found.
@Suite(.database) struct PageFiguresTests {
    private static func read<T: Sendable>(
        _ target: String, _ look: @Sendable (PageTables) -> T
    ) async throws -> T {
        try await PagesFixture.fill()
        return try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            look(PageTables(try await ask("GET", target, [:]).text))
        }
    }

    @Test func home_showsEachBatchByItsOwnFigures() async throws {
        let (rows, deadlines, notices) = try await Self.read("/") {
            ($0.rows("Batches"), $0.rows("Deadlines this week"), $0.notices)
        }

        let script = PagesFixture.script
        #expect(
            rows.map { $0.prefix(10).joined(separator: " | ") } == [
                "autumn \(script) | awaits approval | 30 Mar 2026 | 20 | 0 % | 0 % | 0 % | 0 | 0 | 0",
                "halted one | halted | 1 Mar 2026 | 17 | 41 % | 12 % | 12 % | 0 | 0 | 0",
                "spring | under way 12 overdue 4 parked 1 wave waits 2 dependents | 1 Feb 2026 | 60 | 75 % | 42 % | 30 % | 15 | 5 | 11",
                "winter | finished | 1 Nov 2025 | 23 | 100 % | 100 % | 100 % | 12 | 6 | 0",
            ])
        #expect(
            deadlines.map { $0.joined(separator: " | ") } == [
                "24 Feb 2026, 00:00 UTC | spring | calls must leave | 14",
                "1 Apr 2026, 00:00 UTC | spring | new prices take effect | 7",
                "3 Apr 2026, 00:00 UTC | autumn \(script) | calls must leave | 5",
                "3 Apr 2026, 00:00 UTC | spring | customers must have answered | 3",
                "3 Apr 2026, 00:00 UTC | halted one | calls must leave | 3",
            ])
        let told = notices.joined(separator: "\n")
        for part in [
            "To approve: autumn \(script), 20 rows, submitted by ana, its first call must leave by 3 Apr 2026, 00:00 UTC.",
            "Parked: 4 rows of spring wait after a refusal or without an answer, and are tried again: "
                + "4000000 odd \(script) (3), its status could not be read (1).",
            "Overdue: 12 rows of spring are not sent", "Dependents: 2 cancellations of spring",
        ] {
            #expect(told.contains(part), "\(told)")
        }
    }

    @Test(arguments: [PagesFixture.underWay, PagesFixture.finished])
    func home_andBatchPage_showTheSameEffect(_ batch: String) async throws {
        try await PagesFixture.fill()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            let home = PageTables(try await ask("GET", "/", [:]).text)
            let page = PageTables(try await ask("GET", "/batches/\(batch)", [:]).text)
            let name = batch == PagesFixture.finished ? "winter" : "spring"
            let effect = try #require(home["Batches"].first { $0.first == name }?.last)
            let card = try #require(page.cards.first { $0.hasPrefix("Effect a month | ") })

            #expect(effect.contains(" 4 currencies") || effect.contains("and 3 more"), "\(effect)")
            let value = effect.prefix { $0 != "o" && $0 != "a" }
                .trimmingCharacters(in: .whitespaces)
            #expect(card.hasPrefix("Effect a month | \(value)"), "\(card) \(effect)")
        }
    }

    @Test func batch_showsItsFiguresAtAGlance() async throws {
        let (cards, funnel) = try await Self.read("/batches/\(PagesFixture.underWay)") {
            ($0.cards, $0.rows("Consent funnel"))
        }

        #expect(
            cards.filter { !$0.hasPrefix("Effect") } == [
                "Delivered | 75 % | 45 of 60; the App Store has answered, or no call is needed",
                "Answered | 42 % | 25 of 60; agreed, informed, or ended",
                "Final | 30 % | 18 of 60; nothing more is expected",
                "Next call by | 24 Feb 2026, 00:00 UTC | the first queued row must have left",
            ])
        #expect(
            funnel.map { "\($0[0]) \($0[2])" } == [
                "In the batch 60 (100 %)", "Sent to the App Store 46 (77 %)",
                "Customer asked to agree 22 (37 %)", "Agreed 6 (10 %)",
                "Informed, need not agree 9 (15 %)", "Charged the new price 8 (13 %)",
                "Did not agree 5 (8 %)", "Left 3 (5 %)", "Lapsed: billing or product 2 (3 %)",
                "Still open 42 (70 %)",
            ])
    }

    @Test func batch_showsWhatStopsItAndHowItEnded() async throws {
        let tables = try await Self.read("/batches/\(PagesFixture.underWay)") { page in
            [
                "Guards", "Waves", "Parked rows", "Rows by state", "Changes that ended otherwise",
                "Dependents of who declined",
            ].map { name in page.rows(name).map { $0.joined(separator: " | ") } }
        }

        #expect(
            tables[0] == [
                "Declined, of the customers who were asked | more than 10% of at least 10 | 5 of 22 (23 %) "
                    + "| 31 Mar 2026, 00:00 UTC"
            ])
        #expect(
            tables[1] == [
                "1 | 10% | 24 | 6 | 2 Feb 2026, 00:00 UTC",
                "2 | rest | 36 | 8 | by hand: repricer release",
            ])
        #expect(
            tables[2] == [
                "4000000 odd \(PagesFixture.script) | 3 | 2000000000000121",
                "its status could not be read | 1 | 2000000000000124",
            ])
        #expect(
            tables[3].map { $0.split(separator: " | ", omittingEmptySubsequences: false) }
                .map { "\($0[0]) \($0[2])" } == [
                    "queued 14", "unknown 1", "scheduled 9", "pending consent 11", "accepted 7",
                    "effective 8", "declined 5", "cancelled 3", "lapsed 2", "All rows 60",
                ])
        #expect(
            tables[4] == [
                "declined | expired for price increase | 5", "cancelled |  | 3", "lapsed |  | 2",
            ])
        #expect(tables[5] == ["confirmed | 3", "discrepancy | 2"])
    }

    @Test(arguments: [
        (PagesFixture.odd(6), "Never sent | 7 rows | rejected: too much for Italy"),
        (PagesFixture.odd(3), "Never sent | 9 rows | nothing of it can be sent any more"),
    ])
    func batch_thatWasNeverSent_isNotSaidToBeDelivered(_ id: String, _ card: String) async throws {
        try await PagesFixture.fillOdd()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            let text = try await ask("GET", "/batches/\(id)", [:]).text

            #expect(PageTables(text).cards.first == card)
            #expect(!text.contains("Delivered") && !text.contains("Forecast against fact</h2>"))
        }
    }
}
