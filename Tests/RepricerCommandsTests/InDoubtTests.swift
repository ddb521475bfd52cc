import Facts
import TestSupport
import Testing

@testable import RepricerCommands

/// What a person is told who withdraws or undoes in a database of which nobody has read yet what its former self called.
@Suite(.database) struct InDoubtTests {
    private typealias Office = BatchCommandTests.Office

    /// A database that was lost may have called what is withdrawn in the one restored.
    @Test func abort_afterARestore_saysWhatTheAppStoreMayHave() async throws {
        let office = try await Office()
        let id = try await office.submit()
        _ = await run("approve", id, "--yes", environment: office.ben)
        let owner = try await TestDatabase.connect()
        try await owner.script(
            "SELECT repricer.begin_catch_up('2025-12-31Z', '2026-01-01Z', '2026-01-01Z', false)")

        let outcome = await run("abort", id, environment: office.ana)
        let undone = await run("undo", id, environment: office.ana)
        let doubt = """
            the database was restored, or failed over with loss, and until its statuses are read nobody knows whether \
            the App Store has 1 of them; `repricer recover --lost-since TIME` adopts what it has, then `undo` can take \
            it back
            """
        #expect(
            outcome.output == "aborted spring: 1 change withdrawn\nin doubt: \(doubt)\n")
        #expect(undone.code == .inputRejected)
        #expect(undone.messages.contains(doubt), "\(undone.messages)")

        // The history is read, and the status is still asked for.
        try await owner.script(
            """
            SELECT repricer.end_catch_up(true);
            INSERT INTO repricer.status_checks (original_transaction_id, bucket, reason, list_id, requested_at)
            SELECT original_transaction_id, bucket, 'recover', '\(RestoredDatabase.checkList)', '2026-01-01Z'
            FROM repricer.price_changes
            """)
        let waiting = await run("undo", id, environment: office.ana)
        #expect(waiting.messages.contains(doubt), "\(waiting.messages)")

        // Read before or after the withdrawal: it is no longer in doubt.
        try await owner.script(
            "UPDATE repricer.status_checks SET done_at = '2026-01-01Z', outcome = 'read'")
        let told = await run("undo", id, environment: office.ana)
        #expect(!told.messages.contains("recover"), "\(told.messages)")
        await owner.close()
    }

    /// A call without an outcome was given up: no database was lost.
    @Test func undo_ofAChangeWhoseCallWasGivenUp_saysNothingOfARestore() async throws {
        let office = try await Office()
        let id = try await office.submit()
        _ = await run("approve", id, "--yes", environment: office.ben)
        _ = await run("abort", id, environment: office.ana)
        let owner = try await TestDatabase.connect()
        try await owner.script("UPDATE repricer.price_changes SET doubtful_since = '2026-01-01Z'")
        await owner.close()

        let undone = await run("undo", id, environment: office.ana)

        #expect(undone.code == .inputRejected)
        #expect(!undone.messages.contains("restored"), "\(undone.messages)")
    }
}
