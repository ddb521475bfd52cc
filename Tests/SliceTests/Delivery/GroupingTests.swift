import Pricing
import TestSupport
import Testing

/// Which items of a subscription share a call, as the batch was submitted.
@Suite(.database) struct GroupingTests {
    private typealias World = DeliveryWorld

    /// A is only announced, B needs consent.
    private static let mixed = [
        World.row("1", "A"), World.row("1", "B", to: 19_990, line: 3),
    ]
    private static let announced = [
        World.row("1", "A"), World.row("1", "B", line: 3),
    ]

    @Test(arguments: [
        (RequestGrouping.announced, Self.announced, [["A", "B"]]),
        (.announced, Self.mixed, [["A"], ["B"]]),
        (.item, Self.announced, [["A"], ["B"]]),
        (.subscription, Self.mixed, [["A", "B"]]),
    ])
    func items_ofOneSubscription_shareCallsAsSubmitted(
        grouping: RequestGrouping, rows: [BatchRow], calls: [[String]]
    ) async throws {
        let world = try await World.make()
        try await world.subscribe("1")

        try await world.submitAndApprove(rows, terms: BatchTerms(grouping: grouping))
        try await world.deliver(world.scheduler())

        let sent = world.store.calls.map { $0.items.map(\.sku).sorted() }
        #expect(sent.sorted { $0.joined() < $1.joined() } == calls)
        #expect(try await world.changes() == ["A scheduled", "B scheduled"])
        await world.close()
    }

    @Test func items_ofTwoBatches_areNotMixedByOneBatchsGrouping() async throws {
        let world = try await World.make()
        try await world.subscribe("1")
        let terms = BatchTerms(grouping: .subscription)
        let first = try await world.submit([World.row("1")], content: "1", terms: terms)
        let second = try await world.submit(
            [World.row("1", "B", line: 3)], content: "2", terms: terms)
        try await world.approve(first)
        try await world.approve(second)

        try await world.deliver(world.scheduler())

        #expect(world.store.calls.map { $0.items.count } == [1, 1])
        await world.close()
    }
}
