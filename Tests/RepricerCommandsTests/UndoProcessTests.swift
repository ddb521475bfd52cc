import Foundation
import TestSupport
import Testing

@testable import RepricerCommands

/// Undo through the real programs: the simulated App Store replaces a scheduled change by a second call, as App Store
/// Connect does.
@Suite(.database) struct UndoProcessTests {
    @Test func undo_ofAScheduledIncrease_leavesTheOldPriceInTheStore() async throws {
        let harness = try await ProcessHarness.open()
        defer { harness.close() }
        let batchID = try await harness.change(ProcessHarness.other, "FAR", to: "6.99")
        try await harness.until("SELECT state = 'scheduled' AS done FROM repricer.price_changes")
        #expect(try await harness.storeItem(ProcessHarness.other, "FAR")?["change"] != nil)

        let undone = try await harness.command("undo", batchID, "--sku", "FAR", as: "ana")
        let undoID = undone.output.trimmingCharacters(in: .newlines)
        try await harness.command(
            "approve", undoID, "--yes", as: "ana", exits: .approvalNeededOrRefused)
        let again = try await harness.command("undo", batchID, as: "ana", exits: .inputRejected)
        try await harness.command("approve", undoID, "--yes", as: "ben")
        try await harness.until(
            "SELECT state = 'scheduled' AS done FROM repricer.price_changes WHERE undoes_change_id IS NOT NULL"
        )

        let item = try await harness.storeItem(ProcessHarness.other, "FAR")
        #expect(item?["price"] as? Int == 4990)
        #expect(item?["change"] == nil)
        #expect(try await harness.calls("changePrice") == [200, 200])
        #expect(again.messages.contains("line 2: \(ProcessHarness.other) FAR: undo_under_way: "))
        let status = try await harness.command("status", undoID, as: "ana")
        #expect(status.output.contains("undoes"))
        #expect(status.output.contains(batchID))
        let timeline = try await harness.command("timeline", ProcessHarness.other, as: "ana")
        #expect(timeline.output.contains("takes back change"))
        #expect(timeline.output.contains("change is invalidated"))
        #expect(timeline.output.contains("undone"))
        let late = try await harness.command("undo", batchID, as: "ana", exits: .inputRejected)
        #expect(late.messages.contains("has_ended: it has ended: invalidated"))
        // The item is free for another price at once.
        try await harness.command("explain", ProcessHarness.other, "FAR", "5.99", as: "ana")
    }

    @Test func undo_whenTheStoreSaysTheCustomerWasTold_isRejectedAndTheChangeStays() async throws {
        let harness = try await ProcessHarness.open()
        defer { harness.close() }
        let batchID = try await harness.change(ProcessHarness.other, "FAR", to: "6.99")
        try await harness.until("SELECT state = 'scheduled' AS done FROM repricer.price_changes")
        let explained = try await harness.command(
            "explain", ProcessHarness.other, "FAR", "5.99", as: "ana", exits: .inputRejected)
        #expect(explained.messages.contains("take it back with repricer undo"))
        try await harness.order(fault: "refuse", on: "changePrice", code: 4_000_205)

        let undone = try await harness.command("undo", batchID, as: "ana")
        let undoID = undone.output.trimmingCharacters(in: .newlines)
        try await harness.command("approve", undoID, "--yes", as: "ben")
        try await harness.until(
            "SELECT state = 'rejected' AS done FROM repricer.price_changes WHERE undoes_change_id IS NOT NULL"
        )

        try await harness.until(
            "SELECT state = 'scheduled' AS done FROM repricer.price_changes WHERE undoes_change_id IS NULL"
        )
        #expect(try await harness.storeItem(ProcessHarness.other, "FAR")?["change"] != nil)
    }
}
