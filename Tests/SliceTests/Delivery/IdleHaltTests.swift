import Calls
import Facts
import Postgres
import PriceChanges
import ServiceKit
import TestSupport
import Testing

@testable import Pricing

/// A halt or throttle that no call can end any more, since nothing is left to call, ends by itself. And what price changes
/// are refused for keeps no other kind of call from its end.
@Suite(.database) struct IdleHaltTests {
    private typealias Harness = DeliveryHarness

    private static func controls(
        _ harness: Harness
    ) async throws -> ServiceControlQueries.Everything {
        try await harness.engine().controls()
    }

    private static func watch(_ harness: Harness, rounds: Int = 4) async throws {
        for _ in 0..<rounds { try await harness.watch().round() }
    }

    private static let ends = """
        SELECT object || ' ' || (details ->> 'because') AS text FROM repricer.audit_trail
        WHERE action = 'recover' ORDER BY sequence
        """

    @Test(arguments: [401, 403, 4_030_010])
    func haltOfEverything_whenNothingIsLeftToCall_endsByItself(code: Int) async throws {
        let harness = try await Harness.make()
        let batches = [try await harness.submitRows(1...20), try await harness.submitRows(21...40)]
        harness.store.setAnswers(
            [], nil, all: .refused(code == 4_030_010 ? .reject : .haltService, code: code))
        let scheduler = harness.scheduler()
        try await harness.deliver(scheduler)
        try await Self.watch(harness)
        #expect(try await Self.controls(harness).isHalted)

        try await harness.abort(batches[0])
        try await Self.watch(harness)
        // The rows of the other batch ask on.
        #expect(try await Self.controls(harness).isHalted)
        try await harness.abort(batches[1])
        // An answer without a code leaves calls whose outcome nobody knows. Their statuses are read first.
        for _ in 0..<4 {
            harness.clock.advance(by: .seconds(61))
            harness.realClock.advance(by: .seconds(61))
            try await harness.deliver(scheduler)
        }
        try await Self.watch(harness)

        #expect(try await !Self.controls(harness).isHalted)
        #expect(
            try await harness.texts(Self.ends) == ["everything nothing is left to call"])
        #expect(try await harness.stateCounts() == ["aborted": 40])
        await harness.close()
    }

    @Test func throttle_whenNothingIsLeftToCall_endsByItself() async throws {
        let harness = try await Harness.make()
        let batchID = try await harness.submitRows(1...20)
        harness.store.setAnswers([], nil, all: .unavailable)
        let scheduler = harness.scheduler()
        for _ in 0..<4 {
            try await harness.deliver(scheduler)
            harness.clock.advance(by: .seconds(2))
            harness.realClock.advance(by: .seconds(2))
        }
        #expect(try await Self.controls(harness).throttledKinds.map(\.kind) == ["price_change"])

        try await harness.abort(batchID)
        for _ in 0..<12 {
            harness.clock.advance(by: .seconds(61))
            harness.realClock.advance(by: .seconds(61))
            try await harness.deliver(scheduler)
            try await Self.watch(harness, rounds: 1)
        }

        #expect(try await harness.stateCounts() == ["aborted": 20])
        #expect(try await Self.controls(harness).throttledKinds.isEmpty)
        #expect(
            try await harness.texts(Self.ends) == ["throttle:price_change nothing is left to call"])
        await harness.close()
    }

    @Test func haltOfAKind_whenNothingIsLeftToCall_endsByItself() async throws {
        let harness = try await Harness.make()
        try await harness.write(
            "SELECT repricer.halt_kind('extension', now(), '4030005 name: 10 subscriptions', now())"
        )
        try await Self.watch(harness)

        #expect(try await Self.controls(harness).haltedKinds.isEmpty)
        #expect(
            try await harness.texts(Self.ends) == ["calls:extension nothing is left to call"])
        await harness.close()
    }

    /// What price changes are refused for halts them alone. Our key halts all kinds, and what it refused goes back.
    @Test(arguments: [("4030010 refused", 0), ("401 our key", 1)])
    func haltOfAKind_whilePriceChangesAreHalted_endsItsPutBack_unlessTheKeyIsRefused(
        reason: String, putBacks: Int
    ) async throws {
        let harness = try await Harness.make()
        try await harness.submitRows(1...3)
        try await harness.write(
            "SELECT repricer.halt_kind('extension', now(), '4030004 no', now()), repricer.halt_service(now(), \(reason)::text, 'price_change', now())"
        )

        try await Self.watch(harness, rounds: 8)

        let controls = try await Self.controls(harness)
        #expect(controls.isHalted)
        #expect(controls.haltedKinds.isEmpty)
        #expect(
            try await harness.count("put_backs WHERE kind = 'extension' AND NOT is_done")
                == putBacks)
        await harness.close()
    }

    /// The last rows of a halted batch end otherwise, as by their deadline: nothing is left that could probe.
    @Test func haltOfABatch_whenNothingIsLeftToCall_endsByItself() async throws {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...12)
        harness.store.setAnswers([], nil, all: .refused(.reject, code: 4_030_010))
        try await harness.deliver(harness.scheduler())
        try await Self.watch(harness)
        let halts = "SELECT CASE WHEN is_paused THEN halted_by END AS text FROM repricer.batches"
        let before = try await harness.texts(halts)

        try await harness.write(
            "UPDATE repricer.price_changes SET state = 'missed', ended_at = state_since")
        try await Self.watch(harness, rounds: 6)

        #expect(before != ["-"])
        #expect(try await harness.texts(halts) == ["-"])
        #expect(
            try await harness.texts(
                "SELECT object AS text FROM repricer.audit_trail WHERE action = 'recover'"
            ).count == 1)
        await harness.close(isTamperedWith: true)
    }

    /// A key that is refused while price changes stand still for another reason halts all kinds.
    @Test func refusedKey_duringAHaltForAnotherReason_haltsAllKinds() async throws {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...3)
        for reason in ["403 without_code: 10", "401 unauthorized: 10", "403 without_code: 10"] {
            try await harness.write(
                "SELECT repricer.halt_service(now(), \(reason)::text, 'price_change', now())")
        }

        let controls = try await Self.controls(harness)
        #expect(controls.haltedReason?.hasPrefix("401") == true)
        #expect(controls.isServiceHalted(.cancel))
        await harness.close()
    }

    /// One cancellation is refused while price changes are halted for what they say, and not for our key.
    @Test(arguments: ["4030010 SubscriptionNotEligibleError", "403 without_code"])
    func refusedCancellation_whilePriceChangesAreHalted_ends(reason: String) async throws {
        let harness = try await Harness.declined()
        try await harness.write(
            "SELECT repricer.halt_service(now(), \("\(reason): 10 subscriptions")::text, 'price_change', now())"
        )
        let store = harness.cancellingStore(
            Array(repeating: .refused(.reject, code: 4_030_011), count: 99))

        let canceller = harness.canceller(store)
        for _ in 0..<12 {
            try await harness.run(canceller)
            harness.clock.advance(by: .seconds(10))
            harness.realClock.advance(by: .seconds(10))
        }

        #expect(try await harness.dependents() == ["2/FAR discrepancy"])
        #expect(try await Self.controls(harness).isHalted)
        await harness.close()
    }
}
