import Calls
import Postgres
import ServiceKit
import TestSupport
import Testing

@testable import Batches
@testable import Pricing

/// Calls without an answer that the App Store applies late: after the client gave up, and after the row did.
@Suite(.database) struct LateEffectTests {
    private typealias Harness = DeliveryHarness

    /// A harness whose only call got no answer, and whose batch was aborted then.
    private static func aborted(dependents: [String] = []) async throws -> (
        Harness, batchID: String
    ) {
        let harness = try await Harness.make([.unavailable])
        try await harness.subscribe("1")
        let batchID = try await harness.submitAndApprove([
            Harness.row("1", dependents: dependents)
        ])
        try await harness.deliver(harness.scheduler())
        try await harness.abort(batchID)
        return (harness, batchID)
    }

    /// Looks as often as the back-off allows until so much real time has passed.
    private static func pass(_ seconds: Int, in harness: Harness) async throws {
        for _ in 0..<(seconds / 5) {
            harness.realClock.advance(by: .seconds(5))
            harness.clock.advance(by: .seconds(5))
            try await harness.deliver(harness.scheduler())
        }
    }

    private static func obstacles(_ harness: Harness, _ batchID: String) async throws
        -> [String]
    {
        let at = harness.now.milliseconds
        return try await harness.submitter.withTransaction { connection in
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

    /// A harness whose only call got no answer. A statement signed shortly before it, by a clock behind ours, shows its very
    /// price.
    private static func proved() async throws -> Harness {
        let harness = try await Harness.make([.unavailable])
        try await harness.subscribe("1", before: 600_000)
        try await harness.submitAndApprove([Harness.row("1")])
        try await harness.deliver(harness.scheduler())
        try await harness.tell(
            Harness.scheduled("1", at: Harness.start.advanced(by: -60_000)))
        #expect(try await harness.changes() == ["A scheduled"])
        #expect(try await harness.requestStates() == ["answered"])
        return harness
    }

    /// HTTP 200, and what Apple signed says otherwise: the row is not scheduled by it. The call goes again under its id, and
    /// statuses are read between, until one shows the change.
    @Test(arguments: [
        [StatementItem(sku: "A", price: 9990), StatementItem(sku: "B", price: 9990)],
        [
            StatementItem(
                sku: "A", price: 9990, increaseStatus: "SCHEDULED", increasePrice: 12990)
        ],
        [StatementItem(sku: "B", price: 9990)],
    ])
    func delivery_answerContradictsItsCall_isUnknownUntilAStatusShowsIt(
        items: [StatementItem]
    ) async throws {
        let harness = try await Harness.make()
        harness.store.setAnswers([], nil, all: .contradicted(items))
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])

        _ = try await harness.scheduler().round()
        let answered = try await harness.changes()
        for _ in 0..<60 where harness.store.calls.count < 2 { try await Self.pass(5, in: harness) }
        let checkedFirst = harness.store.checks
        try await Self.pass(120, in: harness)
        let unknown = try await harness.changes()
        let (calls, checks) = (harness.store.calls, harness.store.checks)
        harness.store.applyLate()
        try await Self.pass(1200, in: harness)

        #expect(answered == ["A unknown answered, and no effect shows"])
        #expect(checkedFirst > 0)
        #expect(unknown.first?.hasPrefix("A unknown ") == true)
        #expect(calls.count >= 3 && checks >= 1)
        #expect(Set(harness.store.calls.map(\.requestReferenceID)).count == 1)
        #expect(try await harness.changes() == ["A scheduled"])
        await harness.close()
    }

    /// The price was there long before the call: nobody knows what became of that.
    private static func takeProofAway(in harness: Harness) async throws {
        try await harness.tell(
            Harness.scheduled("1", at: Harness.start.advanced(by: -360_000)))
        #expect(try await harness.changes().first == "A sending")
    }

    @Test func call_whoseProofALateStatementTakesAway_isCheckedAgain() async throws {
        let harness = try await Self.proved()

        try await Self.takeProofAway(in: harness)

        #expect(try await harness.requestStates() == ["unknown"])
        let calls = harness.store.calls.count
        try await Self.pass(60, in: harness)
        #expect(harness.store.checks > 1)
        harness.store.applyLate()
        try await Self.pass(15, in: harness)
        #expect(try await harness.changes() == ["A scheduled"])
        #expect(try await harness.requestStates() == ["answered"])
        #expect(harness.store.calls.count == calls)
        await harness.close()
    }

    /// What was true when the call was written may be long past, so it is never sent again as it stands.
    @Test func call_openedAgainAndNeverSeenApplied_isJudgedAnew() async throws {
        let harness = try await Self.proved()

        try await Self.takeProofAway(in: harness)
        try await Self.pass(95, in: harness)
        #expect(harness.store.calls.count == 1)
        try await Self.pass(30, in: harness)

        #expect(try await harness.changes() == ["A scheduled"])
        #expect(try await harness.requestStates().sorted() == ["answered", "refused"])
        #expect(Set(harness.store.calls.map(\.requestReferenceID)).count == 2)
        #expect(harness.store.applied.count == 1)
        await harness.close()
    }

    /// Never two calls in flight: the check waits for the end of the other call, however that ends.
    @Test(arguments: ["answered", "refused", "proved"])
    func call_whoseProofIsTakenAwayBesideAnother_isCheckedAfterIt(end: String) async throws {
        let harness = try await Self.proved()
        let batch = try await harness.submit(
            [Harness.row("1", "B", line: 3)], content: "second")
        try await harness.approve(batch)
        let other = try await harness.claim()

        try await Self.takeProofAway(in: harness)
        #expect(try await harness.requestStates().sorted() == ["answered", "sending"])
        switch end {
        case "answered": try await harness.settle(other, "B", .applied)
        case "refused": try await harness.settle(other, "B", .refused)
        default:
            // A notification tells it, and the answer is lost.
            try await harness.tell(
                Harness.scheduled("1", "B", at: harness.now.advanced(by: 5)))
            try await harness.settle(other, "B", .lost)
        }

        let ended = end == "refused" ? "refused" : "answered"
        #expect(try await harness.requestStates().sorted() == [ended, "unknown"])
        harness.store.applyLate()
        try await Self.pass(15, in: harness)
        #expect(try await harness.changes().first == "A scheduled")
        await harness.close()
    }

    /// What one batch waits for is no reason for another to wait: the call that is held back is checked, and ends.
    @Test func call_whoseProofIsTakenAwayBesideAPausedBatch_doesNotWaitForIt() async throws {
        let harness = try await Self.proved()
        let batch = try await harness.submit(
            [Harness.row("1", "B", line: 3)], content: "second")
        try await harness.approve(batch)
        let other = try await harness.claim()
        try await harness.settle(other, "B", .lost)
        try await harness.setPause(batch, true)

        try await Self.takeProofAway(in: harness)
        harness.store.applyLate()
        try await Self.pass(150, in: harness)

        #expect(try await harness.changes().first == "A scheduled")
        await harness.close()
    }

    /// The price was there, so the App Store refused the call; then its proof goes.
    @Test func refusedCall_whoseProofALateStatementTakesAway_endsAsRefused() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1", before: 600_000)
        try await harness.submitAndApprove([Harness.row("1")])
        let claim = try await harness.claim()
        try await harness.tell(
            Harness.scheduled("1", at: Harness.start.advanced(by: -60_000)))
        try await harness.settle(claim, "A", .refused)
        #expect(try await harness.changes() == ["A scheduled"])
        #expect(try await harness.requestStates() == ["refused"])

        try await Self.takeProofAway(in: harness)
        try await Self.pass(120, in: harness)

        #expect(try await harness.changes().first?.hasPrefix("A rejected") == true)
        #expect(harness.store.calls.isEmpty)
        await harness.close()
    }

    /// 10 s of its lease, 30 s of its client's patience, 60 s for the App Store.
    @Test func call_ofAnAbortedBatch_isCheckedUntilItCannotBeOnItsWay() async throws {
        let (harness, _) = try await Self.aborted()

        try await Self.pass(95, in: harness)
        #expect(try await harness.changes().first?.hasPrefix("A unknown") == true)
        try await Self.pass(15, in: harness)

        #expect(try await harness.changes() == ["A aborted aborted"])
        #expect(harness.store.calls.count == 1)
        #expect(harness.store.checks > 3)
        await harness.close()
    }

    @Test func call_appliedAfterItsClientsDeadline_isFoundByACheck() async throws {
        let (harness, _) = try await Self.aborted()
        try await Self.pass(45, in: harness)
        harness.store.applyLate()

        try await Self.pass(10, in: harness)

        #expect(try await harness.changes() == ["A scheduled"])
        #expect(harness.store.calls.count == 1)
        await harness.close()
    }

    @Test func change_givenUpAndAppliedLater_goesOnAndCanBeUndone() async throws {
        let (harness, batchID) = try await Self.aborted(dependents: ["B"])
        try await Self.pass(120, in: harness)
        #expect(try await harness.changes() == ["A aborted aborted"])
        #expect(try await harness.count("dependency_roles") == 0)
        #expect(try await Self.obstacles(harness, batchID).count == 1)

        try await harness.tell(Harness.scheduled("1", at: harness.now))

        #expect(try await harness.changes() == ["A scheduled applied_after_all"])
        #expect(try await harness.count("dependency_roles") == 2)
        #expect(try await Self.obstacles(harness, batchID).isEmpty)
        #expect(try await Self.findings().isEmpty)
        #expect(
            try await Set(harness.history())
                == ["queued", "sending", "unknown", "scheduled", "aborted"])
        try await harness.tell(
            Harness.scheduled("1", status: "PENDING", at: harness.now.advanced(by: 1)))
        #expect(try await harness.changes() == ["A pending_consent"])
        await harness.close()
    }

    /// Nothing follows such a row: somebody has to hear of it.
    @Test func reconciliation_endedWhileTheAppStoreHasItsPrice_isAFinding() async throws {
        let (harness, _) = try await Self.aborted()
        try await Self.pass(120, in: harness)
        #expect(try await Self.findings().isEmpty)
        let owner = try await TestDatabase.connect()
        _ = try await owner.execute("UPDATE repricer.price_changes SET doubtful_since = NULL")

        try await harness.tell(Harness.scheduled("1", at: harness.now))

        #expect(try await harness.changes() == ["A aborted aborted"])
        #expect(try await Self.findings() == ["ended_yet_applied 1"])
        await owner.close()
        await harness.close()
    }

    @Test func change_ofALaterBatch_yieldsToTheOneThatTheAppStoreHas() async throws {
        let (harness, _) = try await Self.aborted()
        try await Self.pass(120, in: harness)
        let later = try await harness.submit([Harness.row("1", to: 11990)], content: "later")
        try await harness.approve(later)

        try await harness.tell(Harness.scheduled("1", at: harness.now))
        try await harness.deliver(harness.scheduler())

        #expect(
            try await harness.changes().sorted() == [
                "A ineligible conflict_open_change", "A scheduled applied_after_all",
            ])
        #expect(harness.store.calls.count == 1)
        await harness.close()
    }

    @Test func retry_refusedForItsToken_getsANewIDOnlyOnceTheFirstCannotBeOnItsWay() async throws {
        let harness = try await Harness.make([
            .unavailable, .refused(.refresh, code: 4_000_082),
        ])
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        try await harness.deliver(harness.scheduler())

        try await Self.pass(90, in: harness)
        #expect(Set(harness.store.calls.map(\.requestReferenceID)).count == 1)
        try await Self.pass(30, in: harness)

        #expect(Set(harness.store.calls.map(\.requestReferenceID)).count == 2)
        #expect(harness.store.calls.last?.consistencyToken == "of the status")
        #expect(try await harness.changes() == ["A scheduled"])
        await harness.close()
    }

    /// One row, one outcome: the first call's effect ends the wait for a second.
    @Test func change_waitingForASecondCall_isNotSentOnceTheFirstIsSeenApplied() async throws {
        let harness = try await Harness.make([
            .unavailable, .refused(.refresh, code: 4_000_082),
        ])
        try await harness.subscribe("1")
        let batchID = try await harness.submitAndApprove([Harness.row("1")])
        try await harness.deliver(harness.scheduler())
        try await Self.pass(10, in: harness)
        try await harness.setPause(batchID, true)
        try await Self.pass(120, in: harness)
        #expect(try await harness.changes() == ["A queued stale_token"])

        try await harness.tell(Harness.scheduled("1", at: harness.now))
        try await harness.setPause(batchID, false)
        try await harness.deliver(harness.scheduler())

        #expect(try await harness.changes() == ["A scheduled applied_after_all"])
        #expect(Set(harness.store.calls.map(\.requestReferenceID)).count == 1)
        await harness.close()
    }

    /// The second call is out, or was refused, when the App Store tells of the first.
    @Test(arguments: [ScriptedStore.Reply.unavailable, .refused(.reject, code: 4_000_205)])
    func change_sentUnderTwoIDs_takesTheEffectOfTheFirstForItsOwn(
        second: ScriptedStore.Reply
    ) async throws {
        let harness = try await Harness.make([
            .unavailable, .refused(.refresh, code: 4_000_082), second,
        ])
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        try await harness.deliver(harness.scheduler())
        let between = harness.now.advanced(by: 20_000)
        for _ in 0..<60 where harness.store.calls.count < 3 { try await Self.pass(5, in: harness) }
        #expect(Set(harness.store.calls.map(\.requestReferenceID)).count == 2)

        try await harness.tell(Harness.scheduled("1", at: between))

        #expect(try await harness.changes().first?.hasPrefix("A scheduled") == true)
        #expect(try await harness.changes().count == 1)
        await harness.close()
    }

    @Test func flightTime_isOfTheBusinessClock() async throws {
        let harness = try await Harness.make()
        func time(_ environment: StoreEnvironment, _ clock: any WallClock) -> Int64 {
            CallEngine(
                pool: harness.service, environment: environment, clock: clock,
                realClock: SystemClock(), log: .silent, metrics: Metrics(),
                limits: CallEngine.Limits()
            ).flightTime
        }
        let fast = VirtualClock(start: 0, rate: 90, origin: 0)

        #expect(time(.production, harness.clock) == 90_000)
        #expect(time(.sandbox, harness.clock) == 30_000)
        #expect(time(.production, fast) == 1000)
        await harness.close()
    }
}
