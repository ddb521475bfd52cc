import HTTP
import Postgres
import TestSupport
import Testing

@testable import Pages

/// What the pages of a large batch cost: its rows are counted once in a while, however often somebody asks, and what
/// somebody decided is told all the same.
@Suite(.database) struct CountedPagesTests {
    private static let approval = "/batches/\(PagesFixture.waiting)/approval"

    /// Who leaves the page open has it loaded each minute, and the plan has a million rows.
    @Test func approval_askedAgain_readsItsPlanOnce_andTellsADecisionAtOnce() async throws {
        try await PagesFixture.fill()
        let owner = try await TestDatabase.connect()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            let before = PageTables(try await PagesHarness.whole(Self.approval, ask))
            try await owner.script(
                """
                UPDATE repricer.price_changes SET new_price_milliunits = new_price_milliunits + 90000
                WHERE batch_id = '\(PagesFixture.waiting)' AND direction = 'increase';
                UPDATE repricer.batches SET state = 'rejected', decided_by = 'ben', decided_at = '2026-03-31Z',
                    decision_reason = 'too much' WHERE batch_id = '\(PagesFixture.waiting)';
                """)
            let after = PageTables(try await PagesHarness.whole(Self.approval, ask))

            #expect(after.notices.contains { $0.hasPrefix("Decided by ben on 31 Mar 2026") })
            #expect(after.cards.prefix(4) == before.cards.prefix(4))
            #expect(
                after.rows("Money a month by currency") == before.rows("Money a month by currency"))
        }
        await owner.close()
    }

    /// Neither the one who asks nor the database waits for minutes.
    @Test(arguments: [("", "figure_tallies"), ("/approval", "approval_limits")])
    func page_beforeItsRowsAreCounted_tellsWhatIsKnown_andLoadsAgain(
        _ suffix: String, _ table: String
    ) async throws {
        try await PagesFixture.fill()
        let other = try await TestDatabase.connect()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            let path = "/batches/\(PagesFixture.waiting)\(suffix)"
            try await other.script("BEGIN; LOCK TABLE repricer.\(table) IN ACCESS EXCLUSIVE MODE")
            let early = try await ask("GET", path, [:])
            try await other.script("ROLLBACK")
            let late = try await PagesHarness.whole(path, ask)

            #expect(early.status == 200)
            #expect(early.text.contains("20 rows are being counted"))
            #expect(early.text.contains("submitted by ana"))
            #expect(early.text.contains("http-equiv=\"refresh\" content=\"3\""))
            #expect(late.contains("<table"))
        }
        await other.close()
    }
}
