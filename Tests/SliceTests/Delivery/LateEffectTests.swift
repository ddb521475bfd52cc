import Calls
import Postgres
import Pricing
import ServiceKit
import TestSupport
import Testing

@testable import Batches

/// Calls without an answer that the App Store applies late: after the client gave up, and after the row did.
@Suite(.database) struct LateEffectTests {
    private typealias World = DeliveryWorld

    /// A world whose only call got no answer, and whose batch was aborted then.
    private static func aborted(dependents: [String] = []) async throws -> (World, batchID: String)
    {
        let world = try await World.make([.unavailable])
        try await world.subscribe("1")
        let batchID = try await world.submitAndApprove([World.row("1", dependents: dependents)])
        try await world.deliver(world.scheduler())
        try await world.abort(batchID)
        return (world, batchID)
    }

    /// Looks as often as the back-off allows until so much real time has passed.
    private static func pass(_ seconds: Int, in world: World) async throws {
        for _ in 0..<(seconds / 5) {
            world.realClock.advance(by: .seconds(5))
            world.clock.advance(by: .seconds(5))
            try await world.deliver(world.scheduler())
        }
    }

    private static func obstacles(_ world: World, _ batchID: String) async throws -> [String] {
        let at = world.now.milliseconds
        return try await world.submitter.withTransaction { connection in
            try UndoQueries.refused(
                UndoQueries.Scope(batchID: batchID), by: batchID, at: at, limit: 100, on: connection
            ).map { "\($0.obstacle)" }
        }
    }

    /// `check problems` of what is not OK; silence is, by the machine's clock.
    private static func findings() async throws -> [String] {
        let owner = try await TestDatabase.connect()
        let found = try await owner.query(
            """
            SELECT check_name || ' ' || problems AS text FROM report.reconciliation
            WHERE NOT is_ok AND check_name <> 'silent_past_renewal'
            """
        ).map { try $0.text("text") }
        await owner.close()
        return found
    }

    /// A world whose only call got no answer. A statement signed shortly before it, by a clock behind ours, shows its very
    /// price.
    private static func proved() async throws -> World {
        let world = try await World.make([.unavailable])
        try await world.subscribe("1", before: 600_000)
        try await world.submitAndApprove([World.row("1")])
        try await world.deliver(world.scheduler())
        try await world.tell(World.scheduled("1", at: World.start.advanced(by: -60_000)))
        #expect(try await world.changes() == ["A scheduled"])
        #expect(try await world.requestStates() == ["answered"])
        return world
    }

    /// The price was there long before the call: nobody knows what became of that.
    private static func takeProofAway(in world: World) async throws {
        try await world.tell(World.scheduled("1", at: World.start.advanced(by: -360_000)))
        #expect(try await world.changes().first == "A sending")
    }

    @Test func call_whoseProofALateStatementTakesAway_isLookedAtAgain() async throws {
        let world = try await Self.proved()

        try await Self.takeProofAway(in: world)

        #expect(try await world.requestStates() == ["unknown"])
        let calls = world.store.calls.count
        try await Self.pass(60, in: world)
        #expect(world.store.looks > 1)
        world.store.applyLate()
        try await Self.pass(15, in: world)
        #expect(try await world.changes() == ["A scheduled"])
        #expect(try await world.requestStates() == ["answered"])
        #expect(world.store.calls.count == calls)
        await world.close()
    }

    /// What was true when the call was written may be long past, so it is never sent again as it stands.
    @Test func call_openedAgainAndNeverSeenApplied_isJudgedAnew() async throws {
        let world = try await Self.proved()

        try await Self.takeProofAway(in: world)
        try await Self.pass(95, in: world)
        #expect(world.store.calls.count == 1)
        try await Self.pass(30, in: world)

        #expect(try await world.changes() == ["A scheduled"])
        #expect(try await world.requestStates().sorted() == ["answered", "refused"])
        #expect(Set(world.store.calls.map(\.requestReferenceID)).count == 2)
        #expect(world.store.applied.count == 1)
        await world.close()
    }

    /// Never two calls in flight: the look waits for the end of the other call, however that ends.
    @Test(arguments: ["answered", "refused", "proved"])
    func call_whoseProofIsTakenAwayBesideAnother_isLookedAtAfterIt(end: String) async throws {
        let world = try await Self.proved()
        let batch = try await world.submit([World.row("1", "B", line: 3)], content: "second")
        try await world.approve(batch)
        let other = try await world.claim()

        try await Self.takeProofAway(in: world)
        #expect(try await world.requestStates().sorted() == ["answered", "sending"])
        switch end {
        case "answered": try await world.settle(other, "B", .applied)
        case "refused": try await world.settle(other, "B", .refused)
        default:
            // A notification tells it, and the answer is lost.
            try await world.tell(World.scheduled("1", "B", at: world.now.advanced(by: 5)))
            try await world.settle(other, "B", .lost)
        }

        let ended = end == "refused" ? "refused" : "answered"
        #expect(try await world.requestStates().sorted() == [ended, "unknown"])
        world.store.applyLate()
        try await Self.pass(15, in: world)
        #expect(try await world.changes().first == "A scheduled")
        await world.close()
    }

    /// What one batch waits for is no reason for another to wait: the call that is held back is looked at, and ends.
    @Test func call_whoseProofIsTakenAwayBesideAPausedBatch_doesNotWaitForIt() async throws {
        let world = try await Self.proved()
        let batch = try await world.submit([World.row("1", "B", line: 3)], content: "second")
        try await world.approve(batch)
        let other = try await world.claim()
        try await world.settle(other, "B", .lost)
        try await world.setPause(batch, true)

        try await Self.takeProofAway(in: world)
        world.store.applyLate()
        try await Self.pass(150, in: world)

        #expect(try await world.changes().first == "A scheduled")
        await world.close()
    }

    /// The price was there, so the App Store refused the call; then its proof goes.
    @Test func refusedCall_whoseProofALateStatementTakesAway_endsAsRefused() async throws {
        let world = try await World.make()
        try await world.subscribe("1", before: 600_000)
        try await world.submitAndApprove([World.row("1")])
        let claim = try await world.claim()
        try await world.tell(World.scheduled("1", at: World.start.advanced(by: -60_000)))
        try await world.settle(claim, "A", .refused)
        #expect(try await world.changes() == ["A scheduled"])
        #expect(try await world.requestStates() == ["refused"])

        try await Self.takeProofAway(in: world)
        try await Self.pass(120, in: world)

        #expect(try await world.changes().first?.hasPrefix("A rejected") == true)
        #expect(world.store.calls.isEmpty)
        await world.close()
    }

    /// 10 s of its lease, 30 s of its client's patience, 60 s for the App Store.
    @Test func call_ofAnAbortedBatch_isLookedForUntilItCannotBeOnItsWay() async throws {
        let (world, _) = try await Self.aborted()

        try await Self.pass(95, in: world)
        #expect(try await world.changes().first?.hasPrefix("A unknown") == true)
        try await Self.pass(15, in: world)

        #expect(try await world.changes() == ["A aborted aborted"])
        #expect(world.store.calls.count == 1)
        #expect(world.store.looks > 3)
        await world.close()
    }

    @Test func call_appliedAfterItsClientsDeadline_isFoundByALook() async throws {
        let (world, _) = try await Self.aborted()
        try await Self.pass(45, in: world)
        world.store.applyLate()

        try await Self.pass(10, in: world)

        #expect(try await world.changes() == ["A scheduled"])
        #expect(world.store.calls.count == 1)
        await world.close()
    }

    @Test func change_givenUpAndAppliedLater_goesOnAndCanBeUndone() async throws {
        let (world, batchID) = try await Self.aborted(dependents: ["B"])
        try await Self.pass(120, in: world)
        #expect(try await world.changes() == ["A aborted aborted"])
        #expect(try await world.count("dependency_roles") == 0)
        #expect(try await Self.obstacles(world, batchID).count == 1)

        try await world.tell(World.scheduled("1", at: world.now))

        #expect(try await world.changes() == ["A scheduled applied_after_all"])
        #expect(try await world.count("dependency_roles") == 2)
        #expect(try await Self.obstacles(world, batchID).isEmpty)
        #expect(try await Self.findings().isEmpty)
        #expect(
            try await Set(world.history())
                == ["queued", "sending", "unknown", "scheduled", "aborted"])
        try await world.tell(World.scheduled("1", status: "PENDING", at: world.now.advanced(by: 1)))
        #expect(try await world.changes() == ["A pending_consent"])
        await world.close()
    }

    /// Nothing follows such a row: somebody has to hear of it.
    @Test func reconciliation_endedWhileTheAppStoreHasItsPrice_isAFinding() async throws {
        let (world, _) = try await Self.aborted()
        try await Self.pass(120, in: world)
        #expect(try await Self.findings().isEmpty)
        let owner = try await TestDatabase.connect()
        _ = try await owner.execute("UPDATE repricer.price_changes SET doubtful_since = NULL")

        try await world.tell(World.scheduled("1", at: world.now))

        #expect(try await world.changes() == ["A aborted aborted"])
        #expect(try await Self.findings() == ["ended_yet_applied 1"])
        await owner.close()
        await world.close()
    }

    @Test func change_ofALaterBatch_yieldsToTheOneThatTheAppStoreHas() async throws {
        let (world, _) = try await Self.aborted()
        try await Self.pass(120, in: world)
        let later = try await world.submit([World.row("1", to: 11990)], content: "later")
        try await world.approve(later)

        try await world.tell(World.scheduled("1", at: world.now))
        try await world.deliver(world.scheduler())

        #expect(
            try await world.changes().sorted() == [
                "A ineligible conflict_open_change", "A scheduled applied_after_all",
            ])
        #expect(world.store.calls.count == 1)
        await world.close()
    }

    @Test func retry_refusedForItsToken_getsANewIDOnlyOnceTheFirstCannotBeOnItsWay() async throws {
        let world = try await World.make([.unavailable, .refused(.refresh, code: 4_000_082)])
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])
        try await world.deliver(world.scheduler())

        try await Self.pass(90, in: world)
        #expect(Set(world.store.calls.map(\.requestReferenceID)).count == 1)
        try await Self.pass(30, in: world)

        #expect(Set(world.store.calls.map(\.requestReferenceID)).count == 2)
        #expect(world.store.calls.last?.consistencyToken == "of the status")
        #expect(try await world.changes() == ["A scheduled"])
        await world.close()
    }

    /// One row, one outcome: the first call's effect ends the wait for a second.
    @Test func change_waitingForASecondCall_isNotSentOnceTheFirstIsSeenApplied() async throws {
        let world = try await World.make([.unavailable, .refused(.refresh, code: 4_000_082)])
        try await world.subscribe("1")
        let batchID = try await world.submitAndApprove([World.row("1")])
        try await world.deliver(world.scheduler())
        try await Self.pass(10, in: world)
        try await world.setPause(batchID, true)
        try await Self.pass(120, in: world)
        #expect(try await world.changes() == ["A queued stale_token"])

        try await world.tell(World.scheduled("1", at: world.now))
        try await world.setPause(batchID, false)
        try await world.deliver(world.scheduler())

        #expect(try await world.changes() == ["A scheduled applied_after_all"])
        #expect(Set(world.store.calls.map(\.requestReferenceID)).count == 1)
        await world.close()
    }

    /// The second call is out, or was refused, when the App Store tells of the first.
    @Test(arguments: [ScriptedStore.Reply.unavailable, .refused(.reject, code: 4_000_205)])
    func change_sentUnderTwoIDs_takesTheEffectOfTheFirstForItsOwn(
        second: ScriptedStore.Reply
    ) async throws {
        let world = try await World.make([
            .unavailable, .refused(.refresh, code: 4_000_082), second,
        ])
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])
        try await world.deliver(world.scheduler())
        let between = world.now.advanced(by: 20_000)
        for _ in 0..<60 where world.store.calls.count < 3 { try await Self.pass(5, in: world) }
        #expect(Set(world.store.calls.map(\.requestReferenceID)).count == 2)

        try await world.tell(World.scheduled("1", at: between))

        #expect(try await world.changes().first?.hasPrefix("A scheduled") == true)
        #expect(try await world.changes().count == 1)
        await world.close()
    }

    @Test func flightTime_isOfTheBusinessClock() async throws {
        let world = try await World.make()
        func time(_ environment: StoreEnvironment, _ clock: any WallClock) -> Int64 {
            CallEngine(
                pool: world.service, environment: environment, clock: clock,
                realClock: SystemClock(), log: .silent, metrics: Metrics(),
                limits: CallEngine.Limits()
            ).flightTime
        }
        let fast = VirtualClock(start: 0, rate: 90, origin: 0)

        #expect(time(.production, world.clock) == 90_000)
        #expect(time(.sandbox, world.clock) == 30_000)
        #expect(time(.production, fast) == 1000)
        await world.close()
    }
}
