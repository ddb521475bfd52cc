import AppStore
import Batches
import Calls
import Facts
import Postgres
import PriceChanges
import Reconciliation
import ServiceKit
import Synchronization
import TestSupport
import Testing

@testable import Pricing

@Suite(.database) struct StatusCheckTests {
    private typealias Harness = DeliveryHarness

    /// A choice of another length that was lost on its way shows as what it is.
    @Test func drift_namesThePeriodThatComes() {
        var ours = SubscriptionFacts(originalTransactionID: "1")
        ours.period = "P1M"
        var apples = ours
        apples.renewalPeriod = "P1Y"

        #expect(
            Drift.between(ours, apples).map { "\($0.field) \($0.ours) \($0.apples)" } == [
                "renewal_period nothing P1Y"
            ])
        #expect(Drift.fields.contains("renewal_period"))
    }

    /// A label that was not declared would begin with its first drift, and an alert would miss that.
    @Test func drift_ofAnyItem_isCountedUnderAFieldThatWasDeclared() {
        var ours = SubscriptionFacts(originalTransactionID: "1")
        var apples = ours
        // The end of this SKU is the name of a field.
        ours.items = [
            SubscriptionFacts.Item(sku: "com.example.increase"),
            SubscriptionFacts.Item(sku: "com.example.news"),
        ]
        apples.items = [SubscriptionFacts.Item(sku: "com.example.news")]
        apples.items[0].currentPrice = 9990
        apples.items[0].renewalPrice = 9990
        apples.items[0].renews = true

        let drifts = Drift.between(ours, apples)

        #expect(
            drifts.map(\.countedField) == [
                "items", "items.current_price", "items.renewal_price", "items.renews",
            ])
        #expect(drifts.allSatisfy { Drift.fields.contains($0.countedField) })
    }

    @Test func unknownOutcome_whenReconciled_isCheckedAndNeverSent() async throws {
        let harness = try await Harness.make([.lost])
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        try await harness.deliver(harness.scheduler())
        #expect(try await harness.changes() == ["A unknown timed out"])

        let result = try await harness.reconciler(ScriptedHistory(), ScriptedIntake()).runOnce()

        let (summary, failure) = try #require(result)
        #expect(failure == nil)
        #expect([summary.unknownChecked, summary.unknownSettled] == [1, 1])
        #expect(harness.store.calls.count == 1)
        #expect(try await harness.changes() == ["A scheduled"])
        #expect(try await harness.requestStates() == ["answered"])
        await harness.close()
    }

    @Test func unknownOutcome_notApplied_isSentByTheSchedulerAgain() async throws {
        let harness = try await Harness.make([.unavailable])
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        try await harness.deliver(harness.scheduler())

        let result = try await harness.reconciler(ScriptedHistory(), ScriptedIntake()).runOnce()
        #expect(try #require(result).summary.unknownSettled == 0)
        #expect(harness.store.calls.count == 1)
        harness.realClock.advance(by: .seconds(5))
        try await harness.deliver(harness.scheduler())

        #expect(Set(harness.store.calls.map(\.requestReferenceID)).count == 1)
        #expect(try await harness.changes() == ["A scheduled"])
        await harness.close()
    }

    @Test func unknownOutcome_checkedAgainAndAgain_isStillSentInASecond() async throws {
        let harness = try await Harness.make([.unavailable])
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        try await harness.deliver(harness.scheduler())

        for _ in 0..<8 {
            harness.realClock.advance(by: .seconds(15))
            _ = try await harness.reconciler(ScriptedHistory(), ScriptedIntake()).runOnce()
        }
        harness.realClock.advance(by: .seconds(1))
        try await harness.deliver(harness.scheduler())

        #expect(harness.store.calls.count == 2)
        #expect(try await harness.changes() == ["A scheduled"])
        await harness.close()
    }

    @Test func changeSilentTooLong_isCheckedOnceAMargin_andItsDriftIsTold() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        try await harness.deliver(harness.scheduler())
        let store = StatusStore { id in
            .answered([Harness.declining(id, at: harness.now)], StoreReply(httpStatus: 200))
        }
        let reconciler = harness.reconciler(ScriptedHistory(), ScriptedIntake(), store: store)

        let early = try #require(try await reconciler.runOnce()).summary
        harness.clock.advance(by: .seconds(90 * 86_400))
        let late = try #require(try await reconciler.runOnce()).summary
        let again = try #require(try await reconciler.runOnce()).summary

        #expect([early.silent, late.silent, again.silent] == [0, 1, 0])
        #expect(late.checks.drifted == 1)
        #expect(late.checks.driftFields["items"] == 1)
        #expect(try await harness.changes().first?.hasPrefix("A scheduled") == false)
        await harness.close()
    }

    /// Where it is not known whether Apple asks, nothing is due on the day on which it would ask. A status that shows the
    /// change as it is breaks the silence, until its renewal has passed.
    @Test func changeOfUnknownConsent_isSilent_onlyOnceItHadToBeAnnounced() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        try await harness.deliver(harness.scheduler())
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            UPDATE repricer.price_changes SET forecast_consent = 'not_known', recorded_at = recorded_at,
                forecast_notice_at = due_effective_at - interval '60 days'
            """)
        let store = StatusStore { Self.healthy($0, harness) }
        let reconciler = harness.reconciler(ScriptedHistory(), ScriptedIntake(), store: store)
        func silent() async throws -> Int64 {
            try await harness.service.read {
                try StalenessQueries.read(
                    now: harness.now.milliseconds, margin: 86_400_000, on: $0
                ).silentChanges
            }
        }

        // The renewal comes in 40 days, and 27 days before it customers are told.
        harness.clock.advance(by: .seconds(14 * 86_400 - 60))
        #expect(try await silent() == 0)
        harness.clock.advance(by: .seconds(120))
        #expect(try await silent() == 1)
        #expect(try await reconciler.runOnce()?.summary.silent == 1)
        #expect(try await silent() == 0)
        harness.clock.advance(by: .seconds(28 * 86_400))
        #expect(try await silent() == 1)
        await owner.close()
        await harness.close()
    }

    /// The status that is under way may be older than what the second notification is about.
    @Test func hint_thatArrivesWhileAStatusIsRead_isFollowedAgain() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        let (at, list) = (harness.now.milliseconds, StatusCheckQueries.List(.legacy))
        func hint() async throws {
            try await harness.service.withTransaction {
                try StatusCheckQueries.wantAgain("1", in: list, at: at, on: $0)
            }
        }
        func claim() async throws -> Int {
            try await harness.service.withTransaction {
                try StatusCheckQueries.claim(
                    list, bucket: Bucket.of("1"), until: at + 60_000, realNow: at, limit: 9, on: $0
                ).count
            }
        }
        func settle() async throws {
            try await harness.service.withConnection { connection in
                _ = try await connection.pipeline(
                    StatusCheckQueries.settle([.init("1", .read)], in: list, at: at))
            }
        }

        try await hint()
        var claims = [try await claim()]
        try await hint()
        try await settle()
        claims.append(try await claim())
        try await settle()
        claims.append(try await claim())

        #expect(claims == [1, 1, 0])
        await harness.close()
    }

    @Test func hint_ofAV1Notification_isFollowedWithoutAReconcilerAndOnce() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        let at = harness.now.milliseconds
        try await harness.service.withTransaction { connection in
            try StatusCheckQueries.wantAgain(
                "1", in: StatusCheckQueries.List(.legacy), at: at, on: connection)
        }
        let asked = Mutex<[String]>([])
        let store = StatusStore { id in
            asked.withLock { $0.append(id) }
            return .answered([Harness.listed(id, at: harness.now)], StoreReply(httpStatus: 200))
        }
        let reconciler = harness.reconciler(ScriptedHistory(), ScriptedIntake(), store: store)
        let checks = StatusCheckService(reconciler, .hinted, every: .seconds(1))

        try await checks.step()
        try await checks.step()

        #expect(asked.withLock { $0 } == ["1"])
        let counts = try await harness.service.withConnection { connection in
            try await connection.read {
                try StatusCheckQueries.counts(of: StatusCheckQueries.List(.legacy), on: $0)
            }
        }
        #expect(counts.open == 0)
        await harness.close()
    }

    @Test func list_ofIDs_isReadOnce_andProblemsKeepTheirLines() async throws {
        let harness = try await Harness.make()
        let store = StatusStore { id in
            switch id {
            case "3": .refused(Self.notFound, StoreReply(httpStatus: 404))
            case "4": .unknown(reason: "not JSON", StoreReply(httpStatus: 200))
            case "5": .answered([], StoreReply(httpStatus: 200))
            default:
                .answered([Harness.listed(id, at: harness.now)], StoreReply(httpStatus: 200))
            }
        }
        let sync = Synchronizer(
            pool: harness.service, runner: harness.statusChecks(store), clock: harness.clock)
        let text = "\u{FEFF}x,original_transaction_id\n,1\n,2\n,1\n,2.0E+15\n\n,3\n,4\nbad\n,5\n"
        let input = BatchInput(Array(text.utf8), path: "ids.csv")
        let faults = Mutex<[String]>([])

        let loaded = try await sync.load(input) { fault, line in
            faults.withLock { $0.append("\(line) \(fault.code.rawValue)") }
        }
        var summary = StatusCheckSummary()
        try await sync.run(loaded.list, into: &summary)
        let problems = Mutex<[String]>([])
        try await sync.forEachProblem(of: loaded.list) { problem in
            problems.withLock { $0.append("\(problem.line) \(problem.outcome.rawValue)") }
        }

        #expect(faults.withLock { $0 } == ["5 bad_transaction_id", "9 malformed_row"])
        #expect([loaded.lines, loaded.faults] == [8, 2])
        #expect([loaded.ids, loaded.duplicates] == [5, 1])
        #expect(summary.outcomes == [.read: 2, .notFound: 2, .unreadable: 1])
        #expect(problems.withLock { $0 } == ["7 not_found", "8 unreadable", "10 not_found"])
        #expect(store.statusChecks(of: "1") == 1)
        await harness.close()
    }

    @Test func list_stoppedInItsMiddle_goesOnWithWhatIsOpen() async throws {
        let harness = try await Harness.make()
        let isAway = Mutex(false)
        let store = StatusStore { id in
            isAway.withLock { $0 } || id == "7"
                ? .notSent(reason: "connection refused")
                : .answered([Harness.listed(id, at: harness.now)], StoreReply(httpStatus: 200))
        }
        let sync = Synchronizer(
            pool: harness.service, runner: harness.statusChecks(store), clock: harness.clock)
        let input = BatchInput(Array("1\n2\n3\n".utf8), path: "ids")
        var loaded = try await sync.load(input) { _, _ in }
        isAway.withLock { $0 = true }
        var first = StatusCheckSummary()
        await #expect(throws: ReconcileError.storeAway("connection refused")) {
            try await sync.run(loaded.list, into: &first)
        }
        isAway.withLock { $0 = false }

        loaded = try await sync.load(input) { _, _ in }
        var second = StatusCheckSummary()
        try await sync.run(loaded.list, into: &second)
        let third = try await sync.load(input) { _, _ in }
        try await sync.forget(loaded.list)
        let anew = try await sync.load(input) { _, _ in }

        #expect(first.done == 0)
        #expect(second.read == 3)
        #expect(third.doneBefore == 3)
        #expect(anew.doneBefore == 0)
        await harness.close()
    }

    @Test func oneIDWithoutAnswer_doesNotStopTheOthers() async throws {
        let harness = try await Harness.make()
        let store = StatusStore { id in
            id == "7"
                ? .unknown(reason: "500", StoreReply(httpStatus: 500))
                : .answered([Harness.listed(id, at: harness.now)], StoreReply(httpStatus: 200))
        }
        let sync = Synchronizer(
            pool: harness.service, runner: harness.statusChecks(store), clock: harness.clock)
        let ids = (1...300).map { "\($0)" }.joined(separator: "\n")
        let loaded = try await sync.load(BatchInput(Array(ids.utf8), path: "ids")) { _, _ in }
        var summary = StatusCheckSummary()

        do {
            try await sync.run(loaded.list, into: &summary)
        } catch {
            #expect(error as? ReconcileError == .storeAway("500"))
        }

        #expect(summary.read == 299)
        #expect(store.statusChecks(of: "7") == 5)
        await harness.close()
    }

    // MARK: One that is refused, and all

    private static func list(
        _ ids: ClosedRange<Int>, _ harness: Harness, _ store: StatusStore
    ) async throws -> (sync: Synchronizer, list: StatusCheckQueries.List) {
        let sync = Synchronizer(
            pool: harness.service, runner: harness.statusChecks(store), clock: harness.clock)
        let text = ids.map { "\($0)" }.joined(separator: "\n")
        let loaded = try await sync.load(BatchInput(Array(text.utf8), path: "ids")) { _, _ in }
        return (sync, loaded.list)
    }

    private static func healthy(_ id: String, _ harness: Harness) -> StoreAnswer {
        .answered([Harness.listed(id, at: harness.now)], StoreReply(httpStatus: 200))
    }

    /// A 401 or a page of a proxy for one subscription, while others are answered, says nothing of our key.
    @Test(arguments: [403, 302, 4_010_000])
    func oneIDRefusedAsIfOurKeyWereBad_endsByItself_andStopsNoOther(code: Int) async throws {
        let harness = try await Harness.make()
        let store = StatusStore { id in
            id == "7" ? Harness.refusal(.haltService, code) : Self.healthy(id, harness)
        }
        let (sync, list) = try await Self.list(1...100, harness, store)

        var summary = StatusCheckSummary()
        try await sync.run(list, into: &summary)
        let problems = Mutex<[String]>([])
        try await sync.forEachProblem(of: list) { problem in
            problems.withLock { $0.append("\(problem.originalTransactionID): \(problem.detail)") }
        }

        #expect(summary.outcomes == [.read: 99, .refused: 1])
        #expect(problems.withLock { $0 } == ["7: \(code) code_\(code): no"])
        await harness.close()
    }

    /// Several odd ones that are left alone in their list would stop each run, and the list would never end.
    @Test func oddIDsThatAreLeft_endOnceOthersOfTheirListWereRead() async throws {
        let harness = try await Harness.make()
        let isAway = Mutex(true)
        let store = StatusStore { id in
            guard ["1", "2", "3", "4"].contains(id) else { return Self.healthy(id, harness) }
            return isAway.withLock { $0 }
                ? .notSent(reason: "connection refused") : Harness.refusal(.haltService, 403)
        }
        let (sync, list) = try await Self.list(1...6, harness, store)
        var first = StatusCheckSummary()
        await #expect(throws: ReconcileError.storeAway("connection refused")) {
            try await sync.run(list, into: &first)
        }
        isAway.withLock { $0 = false }

        var second = StatusCheckSummary()
        try await sync.run(list, into: &second)

        #expect(first.outcomes == [.read: 2])
        #expect(second.outcomes == [.refused: 4])
        await harness.close()
    }

    @Test(arguments: [
        (StoreRefusal.Meaning.haltService, 403), (.haltService, 4_010_000), (.reject, 4_030_001),
        (.suspect, 4_000_999),
    ])
    func refusedAlike_stopTheRun_endNothing_andAreReadByTheNextOne(
        meaning: StoreRefusal.Meaning, code: Int
    ) async throws {
        let harness = try await Harness.make()
        let isRefused = Mutex(true)
        let store = StatusStore { id in
            isRefused.withLock { $0 }
                ? Harness.refusal(meaning, code) : Self.healthy(id, harness)
        }
        let (sync, list) = try await Self.list(1...200, harness, store)

        var first = StatusCheckSummary()
        let error = await #expect(throws: ReconcileError.self) {
            try await sync.run(list, into: &first)
        }
        let told = String(describing: try #require(error))
        let asked = (1...200).count { store.statusChecks(of: "\($0)") > 0 }
        isRefused.withLock { $0 = false }
        var second = StatusCheckSummary()
        try await sync.run(list, into: &second)

        #expect(told.contains("\(code) code_\(code)"))
        #expect(first.outcomes.isEmpty)
        #expect(asked < 100)
        #expect(second.outcomes == [.read: 200])
        await harness.close()
    }

    /// Each part needs an answer of its own.
    @Test func partOfARunThatFails_doesNotStopTheOthers() async throws {
        let harness = try await Harness.make([.lost])
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        try await harness.deliver(harness.scheduler())
        let history = ScriptedHistory()
        for call in 0..<20 { history.fail(call, .refused(4_010_000)) }

        let result = try await harness.reconciler(history, ScriptedIntake()).runOnce()

        let (summary, failure) = try #require(result)
        #expect(failure is ReconcileError)
        #expect([summary.unknownChecked, summary.unknownSettled] == [1, 1])
        #expect(try await harness.changes() == ["A scheduled"])
        await harness.close()
    }

    @Test(arguments: [403, 4_010_000])
    func unknownOutcomeWhoseStatusIsRefused_doesNotStopTheOtherParts(code: Int) async throws {
        let harness = try await Harness.make([.lost])
        for id in ["1", "2"] { try await harness.subscribe(id) }
        try await harness.submitAndApprove([
            Harness.row("1"), Harness.row("2", line: 3),
        ])
        try await harness.deliver(harness.scheduler())
        let odd = try #require(harness.store.calls.first).transactionID
        harness.clock.advance(by: .seconds(90 * 86_400))
        let store = StatusStore { id in
            id == odd ? Harness.refusal(.haltService, code) : Self.healthy(id, harness)
        }

        let result = try await harness.reconciler(
            ScriptedHistory(), ScriptedIntake(), store: store
        ).runOnce()

        let (summary, failure) = try #require(result)
        #expect(failure == nil)
        #expect(summary.unknownChecked == 1)
        #expect(summary.silent >= 1)
        #expect(summary.checks.done >= 1)
        await harness.close()
    }

    /// The run ends before the second check has its permit.
    @Test func unknownOutcomes_whoseRunEnds_keepWhatWasRead() async throws {
        let harness = try await Harness.make([.lost, .lost])
        // A round reads those of one bucket.
        let other = try #require(
            (2...9999).map(String.init).first { Bucket.of($0) == Bucket.of("1") })
        for id in ["1", other] { try await harness.subscribe(id) }
        try await harness.submitAndApprove([
            Harness.row("1"), Harness.row(other, line: 3),
        ])
        try await harness.deliver(harness.scheduler())
        let waiting = harness.waiting
        let untilOneIsRead: CallPermitSource.Wait = { duration in
            for _ in 0..<1000 where harness.store.checks == 0 { await Task.yield() }
            guard harness.store.checks == 0 else { throw ReconcileError.storeAway("no permit") }
            try await waiting(duration)
        }

        let result = try await harness.reconciler(
            ScriptedHistory(), ScriptedIntake(), wait: untilOneIsRead
        ).runOnce()

        let (summary, failure) = try #require(result)
        #expect(failure is ReconcileError)
        #expect(harness.store.checks == 1)
        #expect([summary.unknownChecked, summary.unknownSettled] == [1, 1])
        #expect(try await harness.requestStates().sorted() == ["answered", "unknown"])
        await harness.close()
    }

    // MARK: Silences

    @Test func listOfIDs_toldToWait_asksNobodyBefore() async throws {
        let harness = try await Harness.make()
        let asked = Mutex<[Int64]>([])
        let store = StatusStore { id in
            let count = asked.withLock {
                $0.append(harness.realClock.nowMilliseconds())
                return $0.count
            }
            return count == 1
                ? .unknown(
                    reason: "503", StoreReply(httpStatus: 503, retryAfter: .seconds(40)))
                : Self.healthy(id, harness)
        }
        let (sync, list) = try await Self.list(1...1, harness, store)

        var summary = StatusCheckSummary()
        try await sync.run(list, into: &summary)
        let waited = asked.withLock { ($0.last ?? 0) - ($0.first ?? 0) }

        #expect(summary.outcomes == [.read: 1])
        #expect(waited >= 40_000)
        await harness.close()
    }

    private static let notFound = StoreRefusal(
        code: 4_040_010, name: "TransactionIdNotFoundError", message: "no", meaning: .reject)
}

/// Only checks, counted, as the test says.
final class StatusStore: StoreCalls {
    private let answer: @Sendable (String) -> StoreAnswer
    private let seen = Mutex<[String: Int]>([:])

    init(_ answer: @escaping @Sendable (String) -> StoreAnswer) {
        self.answer = answer
    }

    func statusChecks(of id: String) -> Int { seen.withLock { $0[id, default: 0] } }

    func changePrice(
        _ intent: PriceChangeIntent, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer {
        Issue.record("no change is asked for here")
        return .notSent(reason: "only checks")
    }

    func checkStatus(transactionID: String) async -> StoreAnswer {
        seen.withLock { $0[transactionID, default: 0] += 1 }
        return answer(transactionID)
    }
}

extension DeliveryHarness {
    /// Renewed without item A: its increase was declined.
    static func declining(_ id: String, at: Instant) -> SubscriptionEvent {
        SubscriptionEvent(
            key: .init(signedAt: at, evidenceID: "status:\(at.milliseconds)-\(id)"),
            source: .status, originalTransactionID: id, status: 1,
            transaction: TransactionStatement(
                transactionID: "t2-\(id)", purchasedAt: at, expiresAt: at.advanced(by: 86_400_000),
                storefront: "USA", currency: "USD", period: "P1M",
                items: [.init(sku: "B", price: 9990)]),
            renewal: RenewalStatement(autoRenewStatus: 1, items: [.init(sku: "B", price: 9990)]))
    }

    static func listed(_ id: String, at: Instant) -> SubscriptionEvent {
        SubscriptionEvent(
            key: .init(signedAt: at, evidenceID: "status:\(at.milliseconds)-\(id)"),
            source: .status, originalTransactionID: id, status: 1,
            renewal: RenewalStatement(autoRenewStatus: 1, items: [.init(sku: "A", price: 9990)]))
    }
}
