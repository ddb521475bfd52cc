import Pricing
import TestSupport
import Testing

/// Which items of a subscription share a call, as the batch was submitted.
@Suite(.database) struct GroupingTests {
    private typealias Harness = DeliveryHarness

    /// A is only announced, B needs consent.
    private static let mixed = [
        Harness.row("1", "A"), Harness.row("1", "B", to: 19_990, line: 3),
    ]
    private static let announced = [
        Harness.row("1", "A"), Harness.row("1", "B", line: 3),
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
        let harness = try await Harness.make()
        try await harness.subscribe("1")

        try await harness.submitAndApprove(rows, terms: BatchTerms(grouping: grouping))
        try await harness.deliver(harness.scheduler())

        let sent = harness.store.calls.map { $0.items.map(\.sku).sorted() }
        #expect(sent.sorted { $0.joined() < $1.joined() } == calls)
        #expect(try await harness.changes() == ["A scheduled", "B scheduled"])
        await harness.close()
    }

    @Test func items_ofTwoBatches_areNotMixedByOneBatchsGrouping() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        let terms = BatchTerms(grouping: .subscription)
        let first = try await harness.submit([Harness.row("1")], content: "1", terms: terms)
        let second = try await harness.submit(
            [Harness.row("1", "B", line: 3)], content: "2", terms: terms)
        try await harness.approve(first)
        try await harness.approve(second)

        try await harness.deliver(harness.scheduler())

        #expect(harness.store.calls.map { $0.items.count } == [1, 1])
        await harness.close()
    }
}
