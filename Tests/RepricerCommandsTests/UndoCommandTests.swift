import TestSupport
import Testing

@testable import RepricerCommands

/// What a second person reads of an undo before the approval.
@Suite(.database) struct UndoCommandTests {
    private typealias Office = BatchCommandTests.Office

    /// The undo of a decrease raises a price, and asks nobody.
    @Test func show_ofAnUndoOfADecrease_saysThatNobodyIsAsked() async throws {
        let office = try await Office()
        let id = try await office.submit()
        _ = await run("approve", id, "--yes", environment: office.ben)
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            UPDATE repricer.price_changes SET state = 'scheduled', sent_at = '2025-12-05Z',
                scheduled_at = '2025-12-05Z', forecast_notice_at = due_effective_at - interval '1 day',
                direction = 'decrease', forecast_consent = 'none', current_price_milliunits = new_price_milliunits,
                new_price_milliunits = current_price_milliunits
            """)
        await owner.close()
        let undone = await run("undo", id, environment: office.ana)

        let show = await run("show", "undo of spring", environment: office.ben)

        #expect(undone.code == .done, "\(undone.messages)")
        #expect(
            show.output.contains("none        1  nobody was told of what is taken back\n"),
            "\(show.output)")
        #expect(show.output.contains("USD         1  9.99  12.99   +3.00 "), "\(show.output)")
    }
}
