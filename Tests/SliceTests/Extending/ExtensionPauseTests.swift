import AppStore
import Calls
import Extensions
import Postgres
import Pricing
import ServiceKit
import TestSupport
import Testing

/// Lets something happen while the first extension is on its way.
private actor InterruptedExtensions: ExtensionCalls {
    private let calls: ScriptedExtensions
    private var meanwhile: (@Sendable () async throws -> Void)?

    init(_ calls: ScriptedExtensions, _ meanwhile: @escaping @Sendable () async throws -> Void) {
        self.calls = calls
        self.meanwhile = meanwhile
    }

    private func interrupt() async {
        let action = meanwhile
        meanwhile = nil
        do { try await action?() } catch { Issue.record(error) }
    }

    func extend(
        originalTransactionID: String, _ request: ExtensionRequest,
        leavingBefore: ContinuousClock.Instant?
    ) async -> CallOutcome<ExtensionAnswer> {
        await interrupt()
        return await calls.extend(
            originalTransactionID: originalTransactionID, request, leavingBefore: leavingBefore)
    }

    func extendAll(
        _ request: MassExtensionRequest, leavingBefore: ContinuousClock.Instant?
    ) async -> CallOutcome<String> {
        await interrupt()
        return await calls.extendAll(request, leavingBefore: leavingBefore)
    }

    func extensionStatus(
        productID: String, requestIdentifier: String
    ) async -> CallOutcome<MassExtensionStatus> {
        await calls.extensionStatus(productID: productID, requestIdentifier: requestIdentifier)
    }
}

/// Extensions that a pause, a slow permit or the end of the service overtakes: none leaves late, and none is lost.
@Suite(.database) struct ExtensionPauseTests {
    /// One request each for so many subscriptions, of different buckets.
    private func harness(
        _ count: Int, _ replies: [ScriptedExtensions.Reply] = []
    ) async throws -> ExtensionHarness {
        let harness = try await ExtensionHarness.make(replies)
        for number in 1...count {
            try await harness.subscribe(String(number))
            try await harness.requestOne(String(number), number)
        }
        let buckets = try await harness.delivery.service.withConnection { connection in
            try await connection.read {
                try ExtensionCallQueries.dueBuckets(realNow: .max / 1_000_000, on: $0)
            }
        }
        try #require(buckets.count == count)
        return harness
    }

    /// `STATE attempts`, and whether it counts as called, of every call for one subscription.
    private func calls(_ harness: ExtensionHarness) async throws -> [String] {
        try await harness.delivery.service.withConnection { connection in
            try await connection.query(
                """
                SELECT concat_ws(' ', q.state, coalesce(c.attempts, 0),
                    CASE WHEN q.called_at IS NOT NULL THEN 'called' END,
                    CASE WHEN c.call_id IS NOT NULL AND c.settled_at IS NULL AND c.next_attempt_at IS NULL
                        THEN 'held' END) AS said
                FROM repricer.extension_requests q
                LEFT JOIN repricer.store_calls c
                    ON c.subject = q.original_transaction_id AND c.call_id = q.call_id
                ORDER BY q.extension_id
                """
            ).map { try $0.text("said") }
        }
    }

    private func masses(_ harness: ExtensionHarness) async throws -> [String] {
        try await harness.delivery.service.withConnection { connection in
            try await connection.query(
                """
                SELECT concat_ws(' ', m.state, coalesce(c.attempts, 0),
                    CASE WHEN m.called_at IS NOT NULL THEN 'called' END) AS said
                FROM repricer.mass_extensions m
                LEFT JOIN repricer.store_calls c ON m.extension_id = ANY (c.carries)
                    AND c.settled_at IS NULL
                """
            ).map { try $0.text("said") }
        }
    }

    @Test func everythingPaused_whileACallIsOut_holdsWhatIsNotClaimedYet() async throws {
        let harness = try await harness(1)
        let slow = InterruptedExtensions(harness.calls) {
            try await harness.delivery.setPause(nil, true)
        }

        _ = try await harness.extender(calls: slow).round()
        for number in 2...4 {
            try await harness.subscribe(String(number))
            try await harness.requestOne(String(number), number)
        }
        try await harness.work(harness.extender())
        let whilePaused = harness.calls.calls.count
        try await harness.delivery.setPause(nil, false)
        try await harness.work(harness.extender())

        #expect(whilePaused == 1)
        #expect(harness.calls.calls.count == 4)
        #expect(try await calls(harness) == Array(repeating: "extended 1 called", count: 4))
        await harness.delivery.close()
    }

    @Test func massExtension_inASilence_isNotClaimed_andAPauseMeanwhileHoldsIt() async throws {
        let harness = try await ExtensionHarness.make()
        try await harness.subscribe("1")
        try await harness.requestAll()
        let permitSource = CallPermitSource(
            pool: harness.delivery.service, endpoint: "extend_all", perSecond: 1,
            clock: harness.delivery.clock)
        // Its row is made by the first lease.
        _ = try await permitSource.lease(1)
        try await permitSource.block(until: harness.delivery.now.advanced(by: 25_000))

        try await harness.work(harness.extender())
        #expect(try await masses(harness) == ["queued 0"])
        try await harness.delivery.setPause(nil, true)
        harness.pass(.seconds(30))
        try await harness.work(harness.extender())
        let whilePaused = harness.calls.calls.count
        try await harness.delivery.setPause(nil, false)
        try await harness.work(harness.extender())

        #expect(whilePaused == 0)
        #expect(harness.calls.calls.count == 1)
        #expect(try await masses(harness) == ["running 1 called"])
        await harness.delivery.close()
    }

    @Test func call_withoutAPermitInTime_countsAsNotMade() async throws {
        let harness = try await harness(1)
        try await harness.requestAll()

        try await harness.work(harness.extender(leavesWithin: .zero))
        #expect(harness.calls.calls.isEmpty)
        #expect(try await calls(harness) == ["queued 0"])
        #expect(try await masses(harness) == ["queued 0"])
        harness.pass(.seconds(2))
        try await harness.work(harness.extender())

        #expect(Set(harness.calls.identifiers) == [ExtensionHarness.id(1), ExtensionHarness.id(9)])
        #expect(harness.calls.calls.count == 2)
        await harness.delivery.close()
    }

    @Test func retry_withoutAPermitInTime_staysUnknownUnderItsIdentifier() async throws {
        let harness = try await harness(1, [.lost, .lost])
        try await harness.requestAll()
        try await harness.work(harness.extender())
        #expect(harness.calls.calls.count == 2)

        harness.pass(.seconds(2))
        try await harness.work(harness.extender(leavesWithin: .zero))
        #expect(harness.calls.calls.count == 2)
        #expect(try await calls(harness) == ["unknown 1 called"])
        #expect(try await masses(harness) == ["unknown 1 called"])
        harness.pass(.seconds(2))
        try await harness.work(harness.extender())

        #expect(harness.calls.calls.count == 4)
        #expect(Set(harness.calls.identifiers) == [ExtensionHarness.id(1), ExtensionHarness.id(9)])
        await harness.delivery.close()
    }

    @Test func refusalOfARetry_whileChecksAreSilenced_isStoredWithoutWaitingItOut() async throws {
        let harness = try await harness(1, [.lost, .refused(4_030_005)])
        try await harness.work(harness.extender())
        let until = harness.delivery.now.advanced(by: 3_600_000)
        let checks = CallPermitSource(
            pool: harness.delivery.service, endpoint: "status", perSecond: 50,
            clock: harness.delivery.clock)
        // Its row is made by the first lease.
        _ = try await checks.lease(1)
        try await checks.block(until: until)
        harness.pass(.seconds(2))

        try await harness.work(harness.extender())

        #expect(harness.delivery.now < until)
        #expect(harness.delivery.store.checks == 0)
        #expect(try await calls(harness) == ["unknown 2 called"])
        await harness.delivery.close()
    }

    @Test func service_toldToStop_settlesTheCallThatIsOutAndBeginsNoOther() async throws {
        let harness = try await harness(3)
        let held = HeldExtensions()
        let extender = harness.extender(calls: held)
        let running = Task { try await extender.run() }
        for await _ in held.arrived { break }

        running.cancel()
        held.letGo()
        try await running.value

        let begun = held.count
        #expect(
            try await calls(harness).sorted()
                == Array(repeating: "queued 0", count: 3 - begun)
                + Array(repeating: "unknown 1 called", count: begun))
        await harness.delivery.close()
    }

    @Test(arguments: ["one", "all"])
    func service_toldToStopWithACallOut_endsWithoutItsAnswer(what: String) async throws {
        let harness = try await ExtensionHarness.make()
        try await harness.subscribe("1")
        if what == "one" {
            try await harness.requestOne("1")
        } else {
            try await harness.requestAll()
        }
        let held = HeldExtensions()
        let pool = try await harness.delivery.mortalPool()
        let group = ServiceGroup(
            [harness.extender(calls: held, pool: pool, drainFor: .milliseconds(20))], log: .silent,
            stopDeadline: .seconds(5))
        let (stop, continuation) = AsyncStream.makeStream(of: Void.self)
        let running = Task { try await group.run(until: stop) }
        for await _ in held.arrived { break }

        continuation.yield()
        try await running.value
        await pool.close()
        held.letGo()

        // Its lease brings it to another.
        harness.pass(.seconds(28))
        try await harness.work(harness.extender())
        #expect(harness.calls.identifiers == [ExtensionHarness.id(what == "one" ? 1 : 9)])
        await harness.delivery.close()
    }
}
