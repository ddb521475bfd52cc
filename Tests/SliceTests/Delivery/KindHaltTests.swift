import Calls
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

    /// As the watch does for each halt; only the service's own function may.
    private static func putBack(_ what: String) async throws -> [String] {
        let owner = try await TestDatabase.connect()
        let rows = try await owner.query(
            """
            SELECT repricer.put_back_\(unsafe: what)(h, now(), 100)::text AS text FROM repricer.put_backs h
            """)
        await owner.close()
        return try rows.map { try $0.text("text") }
    }

    /// A few that are refused rightly would halt their kind again and again, and never end.
    @Test func extension_thatIsRefusedAgainWithItsCode_isPutBackOnce() async throws {
        let harness = try await ExtensionHarness.make([])
        try await harness.subscribe("1")
        try await harness.requestOne("1", 1)
        try await harness.delivery.write(
            "SELECT repricer.note_put_back('extension', NULL, '4030004', now() - interval '1 hour')"
        )
        func refuse(_ code: String) async throws -> [String] {
            try await harness.delivery.write(
                """
                UPDATE repricer.extension_requests SET state = 'refused', settled_by = 'answer',
                    code = \(code)::text, settled_at = now()
                """)
            return try await Self.putBack("extensions")
        }

        let first = try await refuse("4030004")
        let again = try await refuse("4030004")
        let other = try await refuse("4030005")

        #expect(first == ["1"])
        #expect(again == ["0"])
        #expect(other == ["1"])
        await harness.delivery.close()
    }

    @Test func cancellation_thatIsRefusedAgainWithItsCode_isPutBackOnce() async throws {
        let harness = try await Harness.declined()
        try await harness.write(
            "SELECT repricer.note_put_back('cancel', NULL, '4030010', now() - interval '1 hour')")
        func refuse(_ code: String) async throws -> [String] {
            try await harness.write(
                """
                UPDATE repricer.dependent_cancellations SET state = 'discrepancy', settled_at = now(),
                    detail = 'Cancel a Subscription was refused with ' || \(code)::text
                """)
            return try await Self.putBack("cancellations")
        }

        let first = try await refuse("4030010")
        let again = try await refuse("4030010")

        #expect(first == ["1"])
        #expect(again == ["0"])
        await harness.close(isTamperedWith: true)
    }

    /// What price changes are refused for halts them alone.
    @Test(arguments: [("4030010 refused", true), ("401 our key", false)])
    func recoveredKind_endsItsPutBack_unlessTheKeyIsRefused(
        reason: String, isEnded: Bool
    ) async throws {
        let harness = try await Harness.make()
        try await harness.write(
            "SELECT repricer.halt_kind('extension', now(), '4030004 no', now()), repricer.halt_service(now(), \(reason)::text, 'price_change', now())"
        )

        try await harness.write("SELECT repricer.recover_kind('extension', now())")

        #expect(
            try await harness.texts(
                "SELECT (ended_until IS NOT NULL)::text AS text FROM repricer.put_backs WHERE kind = 'extension'"
            ) == ["\(isEnded)"])
        await harness.close(isTamperedWith: true)
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

    private static let serviceHalts =
        "SELECT action AS text FROM repricer.audit_trail WHERE action = 'halt' AND object = 'everything'"

    /// Where our key is refused for cancellations alone, the statuses that are read before them show that it is good.
    @Test(arguments: [(StoreRefusal.Meaning.reject, 4_030_010), (.haltService, 4_010_000)])
    func cancelsRefusedAlike_haltTheirKind_andGoOnByThemselves(
        meaning: StoreRefusal.Meaning, code: Int
    ) async throws {
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
            Array(repeating: .refused(meaning, code: code), count: 25),
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

        #expect(halted == ["cancel \(code) code_\(code)"])
        #expect(early < 25)
        #expect(try await harness.texts(Self.serviceHalts).isEmpty)
        let ended = try await harness.dependents().count { $0.hasSuffix("discrepancy") }
        #expect(ended < 15)
        #expect(
            try await harness.dependents().count { $0.hasSuffix("confirmed") }
                == targets.count - ended)
        #expect(try await harness.texts(Self.halts).isEmpty)
        await harness.close()
    }
}
