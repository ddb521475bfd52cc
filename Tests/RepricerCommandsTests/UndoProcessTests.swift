import Foundation
import TestSupport
import Testing

@testable import RepricerCommands

/// Undo through the real programs: the simulated App Store replaces a scheduled change by a second call, as App Store
/// Connect does.
@Suite(.database) struct UndoProcessTests {
    @Test func undo_ofAScheduledIncrease_leavesTheOldPriceInTheStore() async throws {
        let world = try await ProcessWorld.open()
        defer { world.close() }
        let batchID = try await world.change(ProcessWorld.other, "FAR", to: "6.99")
        try await world.until("SELECT state = 'scheduled' AS done FROM repricer.price_changes")
        #expect(try await world.storeItem(ProcessWorld.other, "FAR")?["change"] != nil)

        let undone = try await world.command("undo", batchID, "--sku", "FAR", as: "ana")
        let undoID = undone.output.trimmingCharacters(in: .newlines)
        try await world.command("approve", undoID, as: "ana", exits: .approvalNeededOrRefused)
        let again = try await world.command("undo", batchID, as: "ana", exits: .inputRejected)
        try await world.command("approve", undoID, as: "ben")
        try await world.until(
            "SELECT state = 'scheduled' AS done FROM repricer.price_changes WHERE undoes_change_id IS NOT NULL"
        )

        let item = try await world.storeItem(ProcessWorld.other, "FAR")
        #expect(item?["price"] as? Int == 4990)
        #expect(item?["change"] == nil)
        #expect(try await world.calls("changePrice") == [200, 200])
        #expect(again.messages.contains("line 2: \(ProcessWorld.other) FAR: undo_under_way: "))
        let status = try await world.command("status", undoID, as: "ana")
        #expect(status.output.contains("undoes"))
        #expect(status.output.contains(batchID))
        let timeline = try await world.command("timeline", ProcessWorld.other, as: "ana")
        #expect(timeline.output.contains("takes back change"))
        #expect(timeline.output.contains("change is invalidated"))
        #expect(timeline.output.contains("undone"))
        let late = try await world.command("undo", batchID, as: "ana", exits: .inputRejected)
        #expect(late.messages.contains("has_ended: it has ended: invalidated"))
        // The item is free for another price at once.
        try await world.command("explain", ProcessWorld.other, "FAR", "5.99", as: "ana")
    }

    @Test func undo_whenTheStoreSaysTheCustomerWasTold_isRejectedAndTheChangeStays() async throws {
        let world = try await ProcessWorld.open()
        defer { world.close() }
        let batchID = try await world.change(ProcessWorld.other, "FAR", to: "6.99")
        try await world.until("SELECT state = 'scheduled' AS done FROM repricer.price_changes")
        let explained = try await world.command(
            "explain", ProcessWorld.other, "FAR", "5.99", as: "ana", exits: .inputRejected)
        #expect(explained.messages.contains("take it back with repricer undo"))
        try await world.order(fault: "refuse", on: "changePrice", code: 4_000_205)

        let undone = try await world.command("undo", batchID, as: "ana")
        let undoID = undone.output.trimmingCharacters(in: .newlines)
        try await world.command("approve", undoID, as: "ben")
        try await world.until(
            "SELECT state = 'rejected' AS done FROM repricer.price_changes WHERE undoes_change_id IS NOT NULL"
        )

        try await world.until(
            "SELECT state = 'scheduled' AS done FROM repricer.price_changes WHERE undoes_change_id IS NULL"
        )
        #expect(try await world.storeItem(ProcessWorld.other, "FAR")?["change"] != nil)
    }
}
