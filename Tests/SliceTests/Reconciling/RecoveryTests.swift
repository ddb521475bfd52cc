import AppStore
import Calls
import Postgres
import Reconciliation
import ServiceKit
import Synchronization
import TestSupport
import Testing

@testable import PriceChanges
@testable import Pricing

/// A database that was restored has forgotten calls that Apple has: none of them is made a second time, and what Apple
/// shows is taken for what it is.
@Suite(.database) struct RecoveryTests {
    private typealias Harness = DeliveryHarness

    /// Rows of the subscriptions "1" … "count", approved in a database in which nothing was called yet.
    private static func approved(_ count: Int) async throws -> Harness {
        let harness = try await Harness.make()
        var rows: [BatchRow] = []
        for number in 1...count {
            try await harness.subscribe("\(number)")
            rows.append(Harness.row("\(number)", line: number + 1))
        }
        try await harness.submitAndApprove(rows)
        harness.clock.advance(by: .seconds(3600))
        harness.realClock.advance(by: .seconds(3600))
        return harness
    }

    /// A call of the database that was lost.
    private static func forgottenCall(
        _ harness: Harness, _ id: String, to price: Int64 = 10990
    ) async throws {
        let intent = PriceChangeIntent(
            transactionID: id, requestReferenceID: "6d9b7c1e-0000-4000-8000-00000000000\(id)",
            consistencyToken: nil, currency: "USD", storefront: "USA",
            items: [.init(sku: "A", price: price, dependentSKUs: [])])
        _ = await harness.store.changePrice(intent, leavingBefore: .now)
    }

    private static func recovery(
        _ harness: Harness, store: (any StoreCalls)? = nil
    ) -> Recovery {
        Recovery(
            pool: harness.service,
            reconciler: harness.reconciler(ScriptedHistory(), ScriptedIntake()),
            runner: harness.statusChecks(store ?? harness.store),
            lostSince: Harness.start.advanced(by: 1), flightTime: .seconds(100))
    }

    private static func recover(_ recovery: Recovery) async throws -> RecoveryQueries.Outcome {
        _ = try await recovery.begin()
        try await recovery.waitForFlight()
        let history = try #require(try await recovery.readHistory { _ in })
        #expect(history.failure == nil)
        try await recovery.readStatuses { _ in }
        return try await recovery.end()
    }

    // MARK: recover

    @Test func recover_adoptsWhatAppleShows_andReleasesTheRest() async throws {
        let harness = try await Self.approved(3)
        for id in ["1", "2"] { try await Self.forgottenCall(harness, id) }

        let outcome = try await Self.recover(Self.recovery(harness))
        #expect(
            outcome.batches.map { [$0.adopted, $0.released, $0.ended, $0.unread] } == [
                [2, 1, 0, 0]
            ])
        try await harness.deliver(harness.scheduler())

        #expect(
            try await harness.changes() == [
                "A scheduled adopted", "A scheduled adopted", "A scheduled",
            ])
        #expect(harness.store.calls.map(\.transactionID) == ["1", "2", "3"])
        await harness.close()
    }

    /// It was dealt with, and whoever asks again is told what was found, and counts the same rows.
    @Test func recover_onceMore_tellsWhatWasFoundBefore() async throws {
        let harness = try await Self.approved(3)
        try await Self.forgottenCall(harness, "1")
        let first = Self.recovery(harness)
        #expect(try await first.former() == nil)
        let changes = try await first.begin()
        #expect(changes == 3)
        _ = try await Self.recover(first)

        let second = Self.recovery(harness)
        let former = try #require(try await second.former())
        let rows = try await second.begin()
        _ = try await Self.recover(second)

        #expect([former.adopted, former.released, former.ended, former.unread] == [1, 2, 0, 0])
        #expect(rows == 2)
        #expect(try await second.former()?.adopted == 1)
        await harness.close()
    }

    @Test func recovering_noCallLeavesUntilItHasEnded() async throws {
        let harness = try await Self.approved(2)
        let recovery = Self.recovery(harness)
        _ = try await recovery.begin()

        try await harness.deliver(harness.scheduler())
        #expect(harness.store.calls.isEmpty)

        _ = try await Self.recover(recovery)
        try await harness.deliver(harness.scheduler())
        #expect(harness.store.calls.count == 2)
        await harness.close()
    }

    @Test func rowThatEndedUnsent_andThatAppleHas_isAdopted() async throws {
        let harness = try await Self.approved(1)
        harness.store.setAnswers(["1"], .refused(.reject, code: 4_030_010))
        try await harness.deliver(harness.scheduler())
        #expect(try await harness.changes() == ["A rejected 4030010 code_4030010"])
        harness.store.setAnswers(["1"], nil)
        try await Self.forgottenCall(harness, "1")

        let outcome = try await Self.recover(Self.recovery(harness))

        #expect(outcome.batches.map(\.adopted) == [1])
        #expect(try await harness.changes() == ["A scheduled applied_after_all"])
        await harness.close()
    }

    /// Another price than the row's is none of its calls.
    @Test func anotherPriceAtApple_isNotAdopted() async throws {
        let harness = try await Self.approved(1)
        try await Self.forgottenCall(harness, "1", to: 11990)

        let outcome = try await Self.recover(Self.recovery(harness))
        try await harness.deliver(harness.scheduler())

        #expect(outcome.batches.map(\.adopted) == [0])
        #expect(try await harness.changes() == ["A ineligible conflict_open_change"])
        await harness.close()
    }

    /// Whoever lost sight of it: a row that no call of this database was made for, and that Apple has.
    @Test func rowThatEndedHereAndThatAppleHas_isNamedByTheReconciliation() async throws {
        let harness = try await Self.approved(1)
        try await harness.tell(Harness.scheduled("1", at: harness.now))
        try await Self.execute(
            harness,
            "UPDATE repricer.price_changes SET state = 'ineligible', reason = 'drifted', ended_at = now()"
        )
        let connection = try await TestDatabase.connect()
        let problems = try await connection.query(
            "SELECT problems FROM report.reconciliation WHERE check_name = 'ended_yet_applied'"
        ).map { try $0.int("problems") }
        await connection.close()

        #expect(problems == [1])
        await harness.close()
    }

    @Test func unreadableStatus_putsItsRowOff_andStopsNoOther() async throws {
        let harness = try await Self.approved(2)

        let outcome = try await Self.recover(
            Self.recovery(harness, store: RefusingChecks(["1"], harness.store)))
        try await harness.deliver(harness.scheduler())

        #expect(outcome.unread.map(\.originalTransactionID) == ["1"])
        #expect(outcome.batches.map { [$0.released, $0.unread] } == [[1, 1]])
        #expect(harness.store.calls.map(\.transactionID) == ["2"])
        await harness.close()
    }

    /// That a day has passed proves nothing: the row waits until somebody has read its status.
    @Test func statusThatRecoverCouldNotRead_holdsItsRowUntilItIsRead() async throws {
        let harness = try await Self.approved(2)
        try await Self.forgottenCall(harness, "1")
        _ = try await Self.recover(
            Self.recovery(harness, store: RefusingChecks(["1"], harness.store)))
        for clock in [harness.clock, harness.realClock] { clock.advance(by: .seconds(90_000)) }

        try await harness.deliver(harness.scheduler())
        #expect(harness.store.calls.map(\.transactionID) == ["1", "2"])

        _ = try await harness.reconciler(ScriptedHistory(), ScriptedIntake()).runOnce()
        try await Self.readStatuses(harness, harness.store)
        try await harness.deliver(harness.scheduler())

        // The call of the lost database is found, and no other one is made.
        #expect(harness.store.calls.map(\.transactionID) == ["1", "2"])
        #expect(try await harness.changes() == ["A scheduled adopted", "A scheduled"])
        await harness.close()
    }

    /// Apple applied the lost database's call, and does not show its subscription for a moment: it may have it or not.
    @Test(arguments: [
        DeliveryHarness.refusal(.suspect, 4_040_010),
        .unknown(reason: "4040002", StoreReply(httpStatus: 404)),
        .answered([], StoreReply(httpStatus: 200)),
    ])
    func statusThatIsNotFound_putsItsRowOff_andCallsNothingTwice(answer: StoreAnswer) async throws {
        let harness = try await Self.approved(2)
        try await Self.forgottenCall(harness, "1")

        let outcome = try await Self.recover(
            Self.recovery(harness, store: RefusingChecks(["1"], harness.store, answer)))
        try await harness.deliver(harness.scheduler())

        #expect(outcome.unread.map(\.originalTransactionID) == ["1"])
        #expect(outcome.batches.map { [$0.released, $0.unread] } == [[1, 1]])
        #expect(harness.store.calls.map(\.transactionID) == ["1", "2"])
        await harness.close()
    }

    /// Our key is good, and the others are answered: nobody waits for the one that is refused.
    @Test(arguments: [403, 302, 4_010_000])
    func statusRefusedAsIfOurKeyWereBad_putsItsRowOff_andStopsNoOther(code: Int) async throws {
        let harness = try await Self.approved(2)

        let outcome = try await Self.recover(
            Self.recovery(
                harness,
                store: RefusingChecks(
                    ["1"], harness.store, DeliveryHarness.refusal(.haltService, code))))
        try await harness.deliver(harness.scheduler())

        #expect(outcome.unread.map(\.originalTransactionID) == ["1"])
        #expect(outcome.unread.first?.why.hasPrefix("\(code) ") == true)
        #expect(harness.store.calls.map(\.transactionID) == ["2"])
        await harness.close()
    }

    /// Nothing is known of any of them, so none is put off for a day.
    @Test func anotherDatabase_statusesRefusedAlike_leaveTheirRowsToTheNextReading() async throws {
        let harness = try await Self.approved(30)
        try await Self.restored(harness)
        try await harness.deliver(harness.scheduler())
        let all = Set((1...30).map(String.init))

        await #expect(throws: ReconcileError.self) {
            try await Self.readStatuses(harness, RefusingChecks(all, harness.store))
        }
        #expect(
            try await harness.texts(
                "SELECT original_transaction_id AS text FROM repricer.price_changes"
                    + " WHERE parked_reason IS NOT NULL") == [])

        try await Self.readStatuses(harness, harness.store)
        try await harness.deliver(harness.scheduler())
        #expect(Set(harness.store.calls.map(\.transactionID)) == all)
        await harness.close()
    }

    // MARK: Without recover

    @Test(arguments: [("SCHEDULED", "scheduled"), ("PENDING", "pending_consent")])
    func statementWithTheRowsPrice_isAdoptedAndNeverCalled(
        status: String, state: String
    ) async throws {
        let harness = try await Self.approved(1)
        try await harness.tell(Harness.scheduled("1", status: status, at: harness.now))

        try await harness.deliver(harness.scheduler())

        #expect(harness.store.calls.isEmpty)
        let changes = try await harness.changes()
        #expect(changes.map { $0.hasPrefix("A \(state)") } == [true], "\(changes)")
        #expect(try await harness.history().contains("scheduled"))
        await harness.close()
    }

    /// The batch of a lost database, submitted again: a decrease shows in the renewal price alone.
    @Test(arguments: [7990 as Int64, 8990])
    func decreaseThatAppleHas_isAConflictInAPlan(price: Int64) async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.tell(
            SubscriptionEvent(
                key: .init(signedAt: harness.now, evidenceID: "decreased"), source: .notification,
                originalTransactionID: "1", type: "PRICE_CHANGE", status: 1,
                renewal: RenewalStatement(
                    autoRenewStatus: 1, consistencyToken: "told",
                    items: [
                        StatementItem(sku: "A", price: 7990), StatementItem(sku: "B", price: 9990),
                    ])))

        let faults = try await harness.faults([Harness.row("1", to: price)])

        #expect(faults.first?.hasPrefix("conflict_open_change: ") == true, "\(faults)")
        await harness.close()
    }

    @Test func anotherDatabase_makesNoCallUntilTheHistoryIsRead() async throws {
        let harness = try await Self.approved(1)
        let history = ScriptedHistory()
        let catchUp = CatchUp(
            harness.reconciler(history, ScriptedIntake()), lagMax: nil, flightTime: .seconds(100))
        try await catchUp.prepare()
        try await Self.execute(
            harness, "UPDATE repricer.service_controls SET database_identity = 'another'")

        // At once, before anybody has noticed.
        try await harness.deliver(harness.scheduler())
        #expect(harness.store.calls.isEmpty)

        // What the former database called may be on its way for another hundred seconds.
        #expect(try await catchUp.step())
        #expect(history.asked.isEmpty)
        harness.realClock.advance(by: .seconds(101))
        history.fail(0, .away)
        for call in 1..<5 { history.fail(call, .away) }
        #expect(try await catchUp.step() == false)
        try await harness.deliver(harness.scheduler())
        #expect(harness.store.calls.isEmpty)
        // Who looks is told why it takes so long, as long as it does.
        #expect(try await harness.texts(Self.answer) != ["-"])

        #expect(try await catchUp.step())
        // Apple takes entries up late: it begins an hour before what may be lost.
        #expect(
            history.asked.first?.request.startAt
                == DeliveryHarness.start.advanced(by: -3_600_000))
        #expect(try await harness.texts(Self.answer) == ["-"])
        try await Self.readStatuses(harness, harness.store)
        try await harness.deliver(harness.scheduler())
        #expect(harness.store.calls.count == 1)
        await harness.close()
    }

    /// A database that is away for a moment costs a second; one that stays away is not asked for each second.
    @Test func catchUp_whoseDatabaseGoesAway_goesOnAtOnce_andWaitsLongerWhereItStaysAway()
        async throws
    {
        let harness = try await Self.approved(1)
        let history = ScriptedHistory([
            .init(payload: "one", at: harness.clock.nowMilliseconds() + 1)
        ])
        let intake = ScriptedIntake()
        let waits = Mutex<[Duration]>([])
        let catchUp = try await Self.catchUp(
            harness,
            harness.reconciler(history, intake) { duration in
                // Shorter ones are those of the rate.
                guard duration >= .seconds(1) else { return }
                let count = waits.withLock {
                    $0.append(duration)
                    return $0.count
                }
                if count >= 3 { throw CancellationError() }
            })
        intake.close(after: 0)

        try await catchUp.run()
        #expect(
            waits.withLock { $0.prefix(3) } == [.seconds(1), .seconds(10), .seconds(10)])
        #expect(
            try await harness.texts(Self.answer) == [
                "a notification was not stored: away; run it again"
            ])
        intake.close(after: .max)
        #expect(try await catchUp.step())
        #expect(try await harness.texts(Self.answer) == ["-"])
        await harness.close()
    }

    /// What a service says that is stopped is no answer of the App Store.
    @Test func catchUp_thatIsStopped_notesNoAnswer() async throws {
        let harness = try await Self.approved(1)
        let history = ScriptedHistory(faults: [0: .away])
        let stopped = harness.reconciler(
            history, ScriptedIntake(), wait: { _ in throw CancellationError() })
        let catchUp = try await Self.catchUp(harness, stopped)

        await #expect(throws: CancellationError.self) { try await catchUp.step() }
        #expect(history.asked.count == 1)
        #expect(try await harness.texts(Self.answer) == ["-"])
        await harness.close()
    }

    private static let answer =
        "SELECT coalesce(catch_up_answer, '-') AS text FROM repricer.service_controls"

    /// In another database, with nothing on its way any more.
    private static func catchUp(
        _ harness: Harness, _ reconciler: Reconciler
    ) async throws -> CatchUp {
        let catchUp = CatchUp(reconciler, lagMax: nil, flightTime: .seconds(100))
        try await catchUp.prepare()
        try await execute(
            harness, "UPDATE repricer.service_controls SET database_identity = 'another'")
        _ = try await catchUp.step()
        harness.clock.advance(by: .seconds(101))
        harness.realClock.advance(by: .seconds(101))
        return catchUp
    }

    /// A dump that takes the place of dropped schemas has the same cluster, timeline and database, and other tables.
    @Test func tablesMadeAnew_areAnotherDatabase() async throws {
        let harness = try await Self.approved(1)
        let catchUp = CatchUp(
            harness.reconciler(ScriptedHistory(), ScriptedIntake()), lagMax: nil,
            flightTime: .seconds(100))
        try await catchUp.prepare()
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            ALTER TABLE repricer.service_controls RENAME TO former_controls;
            CREATE TABLE repricer.service_controls (LIKE repricer.former_controls INCLUDING ALL);
            INSERT INTO repricer.service_controls SELECT * FROM repricer.former_controls;
            GRANT SELECT, UPDATE ON repricer.service_controls TO PUBLIC;
            """)
        await owner.close()

        try await harness.deliver(harness.scheduler())

        #expect(harness.store.calls.isEmpty)
        #expect(try await catchUp.step())
        await harness.close(isTamperedWith: true)
    }

    /// Processes that die one after another, each amid its reading, end it together.
    @Test func readingThatWasInterrupted_goesOnWhereItStopped_andLetsCallsGo() async throws {
        let harness = try await Self.approved(1)
        let (history, intake) = (ScriptedHistory(), ScriptedIntake())
        let catchUp = CatchUp(
            harness.reconciler(history, intake), lagMax: nil, flightTime: .seconds(100))
        try await catchUp.prepare()
        try await Self.execute(
            harness, "UPDATE repricer.service_controls SET database_identity = 'another'")
        #expect(try await catchUp.step())
        func pass(_ time: Duration) {
            harness.realClock.advance(by: time)
            harness.clock.advance(by: time)
        }
        let now = harness.clock.nowMilliseconds()
        for number in 1...100 {
            history.add(.init(payload: "\(number)", at: now + Int64(number)))
        }
        // The first call asks for failures, the next two for forty of a hundred.
        for call in 3...7 { history.fail(call, .away) }
        pass(.seconds(101))
        #expect(try await catchUp.step() == false)
        #expect(history.asked.count == 8)

        pass(.seconds(600))
        #expect(try await catchUp.step())

        #expect(history.asked.count == 11)
        #expect(Set(intake.stored).count == 100)
        try await Self.readStatuses(harness, harness.store)
        try await harness.deliver(harness.scheduler())
        #expect(harness.store.calls.count == 1)
        await harness.close()
    }

    /// A service that finds itself in another database than before, and has read a history that says nothing.
    private static func restored(_ harness: Harness) async throws {
        let catchUp = CatchUp(
            harness.reconciler(ScriptedHistory(), ScriptedIntake()), lagMax: nil,
            flightTime: .seconds(100))
        try await catchUp.prepare()
        try await execute(
            harness, "UPDATE repricer.service_controls SET database_identity = 'another'")
        #expect(try await catchUp.step())
        harness.realClock.advance(by: .seconds(101))
        harness.clock.advance(by: .seconds(101))
        #expect(try await catchUp.step())
    }

    private static func readStatuses(_ harness: Harness, _ store: any StoreCalls) async throws {
        let reconciler = harness.reconciler(ScriptedHistory(), ScriptedIntake(), store: store)
        try await StatusCheckService(reconciler, .restored, every: .seconds(1)).step()
    }

    /// Apple's notifications may come late, or never: the history alone does not tell what a lost database did.
    @Test func anotherDatabase_readsTheStatusOfEachSubscriptionBeforeItsCall() async throws {
        let harness = try await Self.approved(2)
        try await Self.forgottenCall(harness, "1")
        try await Self.restored(harness)

        try await harness.deliver(harness.scheduler())
        #expect(harness.store.calls.map(\.transactionID) == ["1"])
        #expect(
            try await harness.changes() == ["A queued status_awaited", "A queued status_awaited"])

        try await Self.readStatuses(harness, harness.store)
        try await harness.deliver(harness.scheduler())
        #expect(try await harness.changes() == ["A scheduled adopted", "A scheduled"])
        #expect(harness.store.calls.map(\.transactionID) == ["1", "2"])
        await harness.close()
    }

    /// A person recovers while the service still asks for statuses, and rows wait for them: what is read now goes at once.
    @Test func recover_afterTheServiceHasBegunToAsk_letsCallsGo() async throws {
        let harness = try await Self.approved(2)
        try await Self.forgottenCall(harness, "1")
        try await Self.restored(harness)
        try await harness.deliver(harness.scheduler())
        #expect(
            try await harness.changes() == ["A queued status_awaited", "A queued status_awaited"])

        let outcome = try await Self.recover(Self.recovery(harness))
        try await harness.deliver(harness.scheduler())

        #expect(outcome.unread.isEmpty)
        #expect(try await harness.changes() == ["A scheduled adopted", "A scheduled"])
        #expect(harness.store.calls.map(\.transactionID) == ["1", "2"])
        #expect(try await harness.count("status_checks") == 0)
        await harness.close()
    }

    /// A status of another subscription alone says nothing of what Apple has of the one that was asked for. One that was signed
    /// long before the App Store sent it may be older than the call that is lost.
    private static let silent: [StoreAnswer] = [
        .answered([DeliveryHarness.scheduled("2", "NONE", at: later)], StoreReply(httpStatus: 200)),
        signed(longBeforeItsAnswer: 60_001),
    ]

    /// By the App Store's clock, which is hours away from ours.
    private static func signed(longBeforeItsAnswer milliseconds: Int64) -> StoreAnswer {
        .answered(
            [DeliveryHarness.scheduled("1", "NONE", at: DeliveryHarness.start)],
            StoreReply(
                httpStatus: 200, leftAt: DeliveryHarness.start.advanced(by: milliseconds)))
    }

    @Test func statusThatWasSignedRightBeforeItWasSent_isRead() async throws {
        let harness = try await Self.approved(2)
        try await Self.forgottenCall(harness, "1")
        let fresh = RefusingChecks(
            ["1"], harness.store, Self.signed(longBeforeItsAnswer: 60_000))

        let outcome = try await Self.recover(Self.recovery(harness, store: fresh))

        #expect(outcome.unread.isEmpty)
        await harness.close()
    }

    private static let later = DeliveryHarness.start.advanced(by: 7_200_000)

    @Test(arguments: silent)
    func statusThatIsSilent_isNotRead_andCallsNothingTwice(answer: StoreAnswer) async throws {
        let harness = try await Self.approved(2)
        try await Self.forgottenCall(harness, "1")

        let outcome = try await Self.recover(
            Self.recovery(harness, store: RefusingChecks(["1"], harness.store, answer)))
        // As `resume` does.
        try await harness.write(
            "UPDATE repricer.price_changes SET parked_reason = NULL, next_attempt_at = NULL")
        try await harness.deliver(harness.scheduler())

        #expect(outcome.unread.map(\.originalTransactionID) == ["1"])
        #expect(outcome.batches.map { [$0.released, $0.unread] } == [[1, 1]])
        #expect(harness.store.calls.map(\.transactionID) == ["1", "2"])
        await harness.close()
    }

    @Test(arguments: silent)
    func anotherDatabase_statusThatIsSilent_releasesNoCall(answer: StoreAnswer) async throws {
        let harness = try await Self.approved(2)
        try await Self.forgottenCall(harness, "1")
        try await Self.restored(harness)
        try await harness.deliver(harness.scheduler())

        try await Self.readStatuses(harness, RefusingChecks(["1"], harness.store, answer))
        try await harness.write(
            "UPDATE repricer.price_changes SET parked_reason = NULL, next_attempt_at = NULL")
        try await harness.deliver(harness.scheduler())

        #expect(harness.store.calls.map(\.transactionID) == ["1", "2"])
        await harness.close()
    }

    @Test func anotherDatabase_aStatusThatCanNotBeRead_parksItsRow_andStopsNoOther() async throws {
        let harness = try await Self.approved(2)
        try await Self.restored(harness)
        try await harness.deliver(harness.scheduler())

        try await Self.readStatuses(harness, RefusingChecks(["1"], harness.store))
        try await harness.deliver(harness.scheduler())

        #expect(harness.store.calls.map(\.transactionID) == ["2"])
        let connection = try await TestDatabase.connect()
        let parked = try await connection.query(
            """
            SELECT original_transaction_id FROM repricer.price_changes
            WHERE parked_reason = 'its status could not be read'
            """
        ).map { try $0.text("original_transaction_id") }
        await connection.close()
        #expect(parked == ["1"])
        await harness.close()
    }

    /// What was approved in the database that is here can't have been called by the one that is lost.
    @Test func rowApprovedAfterARestore_goesAtOnce() async throws {
        let harness = try await Self.approved(1)
        try await Self.restored(harness)
        try await harness.subscribe("2")
        let later = try await harness.submit([Harness.row("2")], content: "later")
        try await harness.approve(later)

        try await harness.deliver(harness.scheduler())

        #expect(harness.store.calls.map(\.transactionID) == ["2"])
        await harness.close()
    }

    /// Its subscription was called before, by a call that this database knows: there is nothing to ask about it.
    @Test func rowApprovedAfterARestore_onASubscriptionCalledBefore_goesAtOnce() async throws {
        let harness = try await Self.approved(1)
        try await harness.deliver(harness.scheduler())
        #expect(try await harness.changes() == ["A scheduled"])
        try await Self.restored(harness)
        let later = try await harness.submit([Harness.row("1", "B")], content: "later")
        try await harness.approve(later)

        try await harness.deliver(harness.scheduler())

        #expect(try await harness.changes() == ["A scheduled", "B scheduled"])
        #expect(harness.store.calls.count == 2)
        await harness.close()
    }

    /// One of its rows may have been called by the lost database: the other goes once that is known.
    @Test func rowApprovedAfterARestore_besideOneThatMayHaveBeenCalled_waitsForTheStatus()
        async throws
    {
        let harness = try await Self.approved(1)
        try await Self.forgottenCall(harness, "1")
        try await Self.restored(harness)
        let later = try await harness.submit([Harness.row("1", "B")], content: "later")
        try await harness.approve(later)

        try await harness.deliver(harness.scheduler())
        #expect(harness.store.calls.count == 1)
        try await Self.readStatuses(harness, harness.store)
        try await harness.deliver(harness.scheduler())

        #expect(try await harness.changes() == ["A scheduled adopted", "B scheduled"])
        #expect(harness.store.calls.map { $0.items.map(\.sku) } == [["A"], ["B"]])
        await harness.close()
    }

    /// Whatever a database that is lost did, it called nothing that is held out: no price there is ours.
    @Test func rowsHeldOut_areNeverFollowedAsCalled() async throws {
        let harness = try await Harness.make()
        let ids = (1...16).map { "\($0)" }
        for id in ids { try await harness.subscribe(id) }
        try await harness.submitAndApprove(
            ids.enumerated().map { Harness.row($0.element, line: $0.offset + 2) },
            terms: BatchTerms(holdout: 5000))

        try await Self.execute(
            harness,
            "SELECT repricer.begin_catch_up(now() - interval '10 years', now(), now(), true)")

        let owner = try await TestDatabase.connect()
        let rows = try await owner.query(
            """
            SELECT is_held_out, count(*) AS rows, count(doubtful_since) AS followed FROM repricer.price_changes
            GROUP BY is_held_out ORDER BY is_held_out
            """)
        await owner.close()
        let counts = try rows.map { (try $0.int64("rows"), try $0.int64("followed")) }
        #expect(counts.count == 2)
        #expect(counts.first.map { $0.0 > 0 && $0.1 == $0.0 } ?? false)
        #expect(counts.last.map { $0.0 > 0 && $0.1 == 0 } ?? false)
        await harness.close()
    }

    @Test func historyReadLongAgo_isReadBeforeTheFirstCall() async throws {
        let harness = try await Self.approved(1)
        let history = ScriptedHistory()
        let reconciler = harness.reconciler(history, ScriptedIntake())
        _ = try await reconciler.runOnce()
        harness.clock.advance(by: .seconds(3601))
        let catchUp = CatchUp(reconciler, lagMax: .seconds(3600), flightTime: .zero)
        try await catchUp.prepare()

        try await harness.deliver(harness.scheduler())
        #expect(harness.store.calls.isEmpty)
        let asked = history.asked.count

        #expect(try await catchUp.step())
        try await harness.deliver(harness.scheduler())
        #expect(history.asked.count > asked)
        #expect(harness.store.calls.count == 1)
        await harness.close()
    }

    /// One line when calls begin to wait, one when the reading fails, and one for each end, however often it is tried.
    @Test func historyThatIsRefused_isToldOnce_andItsEnd() async throws {
        let harness = try await Self.approved(1)
        let lines = LogLines()
        _ = try await harness.reconciler(ScriptedHistory(), ScriptedIntake()).runOnce()
        harness.clock.advance(by: .seconds(3601))
        let history = ScriptedHistory(faults: [
            0: .refused(403), 1: .refused(403), 2: .refused(403),
        ])
        let catchUp = CatchUp(
            harness.reconciler(history, ScriptedIntake(), log: lines.log()),
            lagMax: .seconds(3600), flightTime: .zero)
        try await catchUp.prepare()

        for _ in 0..<3 { #expect(try await !catchUp.step()) }
        for _ in 0..<2 { #expect(try await catchUp.step()) }

        for line in [
            "calls wait until the notification history is read",
            "the history is not read; calls wait", "the history is read again",
            "caught up; calls go on",
        ] {
            #expect(lines.about("message=\"\(line)\"").count == 1, "\(lines.all)")
        }
        await harness.close()
    }

    @Test func historyReadLately_holdsNothingBack() async throws {
        let harness = try await Self.approved(1)
        let reconciler = harness.reconciler(ScriptedHistory(), ScriptedIntake())
        _ = try await reconciler.runOnce()
        let catchUp = CatchUp(reconciler, lagMax: .seconds(3600), flightTime: .zero)
        try await catchUp.prepare()

        try await harness.deliver(harness.scheduler())

        #expect(harness.store.calls.count == 1)
        await harness.close()
    }

    private static func execute(_ harness: Harness, _ sql: String) async throws {
        let connection = try await TestDatabase.connect()
        _ = try await connection.query(SQL(unsafe: sql))
        await connection.close()
    }
}

/// Statuses of some subscriptions are refused.
private struct RefusingChecks: StoreCalls {
    let ids: Set<String>
    let inner: ScriptedStore
    let answer: StoreAnswer
    /// How often it answers so, before it answers soundly.
    let times: Int
    private let asked = Asked()

    private final class Asked: Sendable {
        let count = Mutex(0)
    }

    init(
        _ ids: Set<String>, _ inner: ScriptedStore,
        _ answer: StoreAnswer = DeliveryHarness.refusal(.reject, 4_030_001), times: Int = .max
    ) {
        self.ids = ids
        self.inner = inner
        self.answer = answer
        self.times = times
    }

    func changePrice(
        _ intent: PriceChangeIntent, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer {
        await inner.changePrice(intent, leavingBefore: leavingBefore)
    }

    func checkStatus(transactionID: String) async -> StoreAnswer {
        let isSound =
            !ids.contains(transactionID)
            || asked.count.withLock { count in
                count += 1
                return count > times
            }
        return isSound ? await inner.checkStatus(transactionID: transactionID) : answer
    }
}
