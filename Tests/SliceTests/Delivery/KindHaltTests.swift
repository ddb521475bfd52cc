import Facts
import Postgres
import Pricing
import ServiceKit
import TestSupport
import Testing

/// Cancellations and extensions that are refused alike stop by kind, and nothing else stops with them.
@Suite(.database) struct KindHaltTests {
    private typealias Harness = DeliveryHarness

    private static let halts = """
        SELECT concat_ws(' ', h.key, split_part(h.value ->> 'reason', ':', 1)) AS text
        FROM repricer.service_controls, jsonb_each(halted_kinds) h
        UNION ALL SELECT halted_reason FROM repricer.service_controls WHERE halted_reason IS NOT NULL
        """

    @Test func extensionsRefusedAlike_haltTheirKind_andGoOnByThemselves() async throws {
        let harness = try await ExtensionHarness.make(
            Array(repeating: .refused(4_030_005), count: 40))
        for number in 1...60 {
            try await harness.subscribe("\(number)")
            try await harness.requestOne("\(number)", number)
        }
        let extender = harness.extender()
        for _ in 0..<5 { try await harness.work(extender) }
        let early = harness.calls.calls.count
        let halted = try await harness.delivery.texts(Self.halts)
        for _ in 0..<4 {
            harness.pass(.seconds(61))
            try await harness.work(extender)
        }
        let probes = harness.calls.calls.count - early

        #expect(halted == ["extension 4030005 SubscriptionMaxExtensionError"])
        #expect(early < 40)
        #expect((3...4).contains(probes))
        for _ in 0..<120 {
            harness.pass(.seconds(61))
            try await harness.work(extender)
        }
        let states = try await harness.callStates()
        let ended = states.count { $0.hasPrefix("refused") }
        #expect(ended < 15)
        #expect(states.count { $0 == "extended by answer" } == 60 - ended)
        #expect(try await harness.delivery.texts(Self.halts).isEmpty)
        await harness.delivery.close()
    }

    /// One alone is parked: at once, after two minutes, after four more, then eight.
    @Test func cancelRefusedForReasonsThatNobodyKnows_waitsTwiceAsLongEachTime() async throws {
        let harness = try await Harness.declined()
        let store = harness.cancellingStore(
            Array(repeating: .refused(.suspect, code: 4_000_999), count: 100))
        let canceller = harness.canceller(store)

        for _ in 0..<60 {
            _ = try await canceller.round()
            harness.clock.advance(by: .seconds(31))
            harness.realClock.advance(by: .seconds(31))
        }

        #expect((4...5).contains(store.calls.count))
        #expect(try await harness.dependents() == ["2/FAR requested"])
        await harness.close()
    }

    @Test(arguments: [4_000_999, 4_000_082, 4_040_010])
    func extensionRefusedForReasonsThatNobodyKnows_waitsTwiceAsLongEachTime(
        code: Int
    ) async throws {
        let harness = try await ExtensionHarness.make(
            Array(repeating: .refused(code), count: 100))
        try await harness.subscribe("1")
        try await harness.requestOne("1")
        let extender = harness.extender()

        for _ in 0..<60 {
            try await harness.work(extender)
            harness.pass(.seconds(31))
        }

        #expect((4...5).contains(harness.calls.calls.count))
        #expect(try await harness.callStates() == ["queued"])
        await harness.delivery.close()
    }

    @Test func cancelsRefusedAlike_haltTheirKind_andGoOnByThemselves() async throws {
        let harness = try await Harness.make()
        let targets = (2...31).map(String.init)
        try await harness.subscribe("1", items: ["A", "B"])
        for id in targets { try await harness.subscribe(id, items: ["FAR\(id)"]) }
        try await harness.raise(dependents: targets.map { "\($0)/FAR\($0)" })
        harness.run(to: 13)
        try await harness.tellIncrease("PENDING", on: 13)
        harness.run(to: 40)
        try await harness.tellRenewal(items: ["B"])
        harness.run(to: 41)
        let store = harness.cancellingStore(
            Array(repeating: .refused(.reject, code: 4_030_010), count: 25),
            items: Dictionary(
                uniqueKeysWithValues: [("1", ["B"])] + targets.map { ($0, ["FAR\($0)"]) }))
        let canceller = harness.canceller(store)

        for _ in 0..<6 { try await harness.run(canceller) }
        let early = store.calls.count
        let halted = try await harness.texts(Self.halts)
        for _ in 0..<80 {
            harness.clock.advance(by: .seconds(61))
            harness.realClock.advance(by: .seconds(61))
            try await harness.run(canceller)
        }

        #expect(halted == ["cancel 4030010 code_4030010"])
        #expect(early < 25)
        let ended = try await harness.dependents().count { $0.hasSuffix("discrepancy") }
        #expect(ended < 15)
        #expect(
            try await harness.dependents().count { $0.hasSuffix("confirmed") }
                == targets.count - ended)
        #expect(try await harness.texts(Self.halts).isEmpty)
        await harness.close()
    }
}
