import AppStore
import Batches
import Calls
import Postgres
import PriceChanges
import Pricing
import ServiceKit
import TestSupport
import Testing

/// What a refusal means beside what other subscriptions got: one odd subscription stops nobody, and one answer to all
/// ends no row.
@Suite(.database) struct JudgementTests {
    private typealias Harness = DeliveryHarness

    // MARK: One odd subscription

    @Test(arguments: [
        (StoreRefusal.Meaning.haltService, 4_010_000), (.haltBatch, 4_000_173),
        (.suspect, 4_000_999), (.suspect, 4_040_010), (.haltStorefront, 4_000_134),
    ])
    func oneOddSubscription_isParkedAndStopsNobody(
        meaning: StoreRefusal.Meaning, code: Int
    ) async throws {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...12)
        harness.store.setAnswers(["1"], .refused(meaning, code: code))
        let scheduler = harness.scheduler()

        try await harness.deliver(scheduler)
        try await harness.pass(minutes: 10, scheduler)

        #expect(try await harness.stateCounts() == ["queued": 1, "scheduled": 11])
        #expect(try await harness.halts() == ["-", "-"])
        #expect(
            try await harness.texts(
                "SELECT original_transaction_id || ' ' || parked_reason AS text FROM repricer.price_changes WHERE parked_reason IS NOT NULL"
            ) == ["1 \(code) \(ScriptedStore.name(code))"])
        // At once, after two minutes, and after four more: each wait is twice as long.
        #expect(harness.store.calls.count { $0.transactionID == "1" } == 3)

        harness.store.setAnswers(["1"], nil)
        try await harness.pass(minutes: 10, scheduler)
        #expect(try await harness.stateCounts() == ["scheduled": 12])
        #expect(
            try await harness.texts(
                "SELECT parked_reason AS text FROM repricer.price_changes WHERE parked_reason IS NOT NULL"
            ) == [])
        await harness.close()
    }

    /// A proxy answered in the App Store's place, which had applied the call. The status is read before anything is sent
    /// under another id.
    @Test(arguments: [302, 400, 403, 404, 407, 409])
    func oneAnswerWithoutACode_ofACallThatWasApplied_isFoundBeforeAnotherCall(status: Int)
        async throws
    {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...12)
        harness.store.setAnswers(["1"], .proxied(status))
        let scheduler = harness.scheduler()

        try await harness.deliver(scheduler)
        try await harness.pass(minutes: 10, scheduler)

        #expect(try await harness.stateCounts() == ["scheduled": 12])
        #expect(harness.store.calls.count { $0.transactionID == "1" } == 1)
        #expect(harness.store.applied.count == 12)
        await harness.close()
    }

    /// The same of all subscriptions, which halts everything. The rows that met it keep their calls until their statuses
    /// are read, and no probe repeats them.
    @Test(arguments: [302, 403, 404, 407])
    func answersWithoutACode_ofAll_whoseCallsWereApplied_leadToNoOtherCalls(status: Int)
        async throws
    {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...30)
        harness.store.setAnswers([], nil, all: .proxied(status))
        let scheduler = harness.scheduler()
        for _ in 0..<3 { try await harness.deliver(scheduler) }
        #expect(try await harness.halts().last?.hasPrefix("\(status) ") == true)
        #expect(try await harness.stateCounts()["unknown"] ?? 0 >= 3)

        // The status answers while price changes do not.
        try await harness.pass(minutes: 2, scheduler)
        harness.store.setAnswers([], nil)
        try await harness.pass(minutes: 12, scheduler)

        #expect(try await harness.stateCounts() == ["scheduled": 30])
        #expect(harness.store.calls.count == 30)
        #expect(harness.store.applied.count == 30)
        await harness.close()
    }

    /// A status that does not show the subscription is no sign that the call was not applied.
    @Test func oneAnswerWithoutACode_whoseStatusShowsNothingOfIt_isNotCalledAgain() async throws {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...12)
        harness.store.setAnswers(["1"], .proxied(403))
        let scheduler = harness.scheduler()
        try await harness.deliver(scheduler)

        harness.store.answerChecks(.answered([], StoreReply(httpStatus: 200)))
        try await harness.pass(minutes: 20, scheduler)
        #expect(try await harness.stateCounts() == ["scheduled": 11, "unknown": 1])
        #expect(harness.store.calls.count == 12)

        harness.store.answerChecks(nil)
        try await harness.pass(minutes: 70, scheduler)
        #expect(try await harness.stateCounts() == ["scheduled": 12])
        #expect(harness.store.calls.count == 12)
        await harness.close()
    }

    /// A check that the App Store puts off says nothing of the call, so it is not one of the three that find nothing.
    @Test(arguments: [ScriptedCheck.throttled, .notSent])
    func checkThatIsNotAnswered_doesNotCountAsOneThatFindsNothing(check: ScriptedCheck)
        async throws
    {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...12)
        harness.store.setAnswers(["1"], .refused(.haltService, code: 403))
        let scheduler = harness.scheduler()
        try await harness.deliver(scheduler)
        #expect(try await harness.stateCounts() == ["scheduled": 11, "unknown": 1])

        harness.store.answerChecks(check.answer(harness.now))
        try await harness.pass(minutes: 20, scheduler)
        let vain = harness.store.checks
        #expect(vain >= 3)
        harness.store.answerChecks(nil)
        for _ in 0..<400 where harness.store.checks < vain + 1 {
            try await harness.pass(minutes: 1, scheduler)
        }
        let afterOne = try await harness.requestStates()
        for _ in 0..<400 where try await harness.requestStates().contains("unknown") {
            try await harness.pass(minutes: 1, scheduler)
        }

        #expect(afterOne.filter { $0 == "unknown" }.count == 1)
        #expect(harness.store.checks == vain + 3)
        await harness.close()
    }

    /// The first attempt was lost, and the App Store refuses the form of its repetitions. Checks show that none was applied, and
    /// then the row is parked like one that was refused at once, so that people see why.
    @Test(arguments: [false, true])
    func lostCall_whoseRepetitionIsRefusedAlone_isParked_andNotUnknownForEver(
        isReconciled: Bool
    ) async throws {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...12)
        harness.store.setAnswers(["1"], .unavailable)
        let scheduler = harness.scheduler()
        try await harness.deliver(scheduler)
        #expect(try await harness.stateCounts() == ["scheduled": 11, "unknown": 1])

        harness.store.setAnswers(["1"], .refused(.haltBatch, code: 4_000_173))
        for _ in 0..<30 {
            try await harness.pass(minutes: 1, scheduler)
            guard isReconciled else { continue }
            _ = try await harness.reconciler(ScriptedHistory(), ScriptedIntake()).runOnce()
        }
        #expect(try await harness.stateCounts() == ["scheduled": 11, "queued": 1])
        #expect(
            try await harness.texts(
                "SELECT parked_reason AS text FROM repricer.price_changes WHERE parked_reason IS NOT NULL"
            ).first?.hasPrefix("4000173 ") == true)

        harness.store.setAnswers(["1"], nil)
        try await harness.pass(minutes: 70, scheduler)
        #expect(try await harness.stateCounts() == ["scheduled": 12])
        #expect(harness.store.applied.values.count { $0.transactionID == "1" } == 1)
        await harness.close()
    }

    /// What a status check gets where the App Store does not answer it.
    enum ScriptedCheck: Sendable {
        case throttled
        case notSent

        func answer(_ now: Instant) -> StoreAnswer {
            switch self {
            case .throttled:
                .throttled(until: now.advanced(by: 1000), StoreReply(httpStatus: 429))
            case .notSent: .notSent(reason: "connection refused")
            }
        }
    }

    /// It waits under its id until it cannot be on its way any more. Then it goes again under another one, later each time.
    @Test func oneAnswerWithoutACode_ofACallThatWasNotApplied_isCalledAgain_andStopsNobody()
        async throws
    {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...12)
        harness.store.setAnswers(["1"], .refused(.haltService, code: 403))
        let scheduler = harness.scheduler()

        try await harness.deliver(scheduler)
        #expect(
            try await harness.texts(
                "SELECT original_transaction_id || ' ' || state || ' ' || parked_reason AS text FROM repricer.price_changes WHERE parked_reason IS NOT NULL"
            ) == ["1 unknown 403 without_code"])
        try await harness.pass(minutes: 12, scheduler)

        #expect(try await harness.halts() == ["-", "-"])
        let calls = harness.store.calls.filter { $0.transactionID == "1" }
        // Whether a third one has come depends on the random part of the waits.
        #expect((2...3).contains(calls.count))
        #expect(Set(calls.map(\.requestReferenceID)).count == calls.count)
        #expect(try await harness.stateCounts()["scheduled"] == 11)

        harness.store.setAnswers(["1"], nil)
        try await harness.pass(minutes: 12, scheduler)
        #expect(try await harness.stateCounts() == ["scheduled": 12])
        await harness.close()
    }

    /// A change whose outcome stays unknown through several attempts says since when nobody knows it.
    @Test func unknownOutcome_saysSinceWhen_howeverOftenItIsTried() async throws {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...12)
        harness.store.setAnswers(["1"], .unavailable)
        let scheduler = harness.scheduler()
        try await harness.deliver(scheduler)
        let since =
            "SELECT state_since::text AS text FROM repricer.price_changes WHERE state = 'unknown'"
        let first = try await harness.texts(since)

        try await harness.pass(minutes: 3, scheduler)

        #expect(first.count == 1)
        #expect(try await harness.texts(since) == first)
        #expect(harness.store.calls.count { $0.transactionID == "1" } > 1)
        await harness.close()
    }

    /// The App Store applied it, and refused it all the same. What it tells later is believed before another call, though
    /// the history says by then that the row waits.
    @Test func parkedRow_thatAppleShowsApplied_isAdopted_andStopsNobody() async throws {
        let harness = try await Harness.make()
        let ids = try await harness.idsOfOneBucket(4)
        for id in ids { try await harness.subscribe(id) }
        harness.store.setAnswers([ids[0]], .refused(.suspect, code: 4_000_999))
        try await harness.submitAndApprove(
            ids.prefix(3).enumerated().map { Harness.row($0.element, line: $0.offset + 2) })
        harness.clock.advance(by: .seconds(60))
        harness.realClock.advance(by: .seconds(60))
        try await harness.deliver(harness.scheduler())
        // Signed before the refusal came: the line that says it waits is the newest of its history.
        try await harness.tell(
            Harness.scheduled(ids[0], at: Harness.start.advanced(by: 59_000)))
        #expect(try await harness.changes().first?.hasPrefix("A queued") == true)
        let calls = harness.store.calls.count
        try await harness.approve(try await harness.submit([Harness.row(ids[3])], content: "later"))
        harness.clock.advance(by: .seconds(3600))
        harness.realClock.advance(by: .seconds(3600))

        try await harness.deliver(harness.scheduler())

        #expect(
            try await harness.changes().filter { $0.hasPrefix("A scheduled") }.count == 4)
        #expect(harness.store.calls.count == calls + 1)
        await harness.close()
    }

    /// Its call was refused, and somebody else set the very price. No fold follows the row; whoever signs the figures is told
    /// of the charge.
    @Test func parkedRow_whoseItemIsChargedAtItsPrice_isNamed() async throws {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...6)
        harness.store.setAnswers(["1"], .refused(.suspect, code: 4_000_999))
        let scheduler = harness.scheduler()
        try await harness.deliver(scheduler)
        try await harness.pass(minutes: 2, scheduler)
        let renewal = Harness.start.advanced(by: 40 * 86_400_000)
        var item = StatementItem(sku: "A")
        item.price = 10990
        var charge = TransactionStatement(items: [item])
        charge.transactionID = "charged"
        (charge.purchasedAt, charge.expiresAt) = (renewal, renewal.advanced(by: 30 * 86_400_000))
        (charge.reason, charge.storefront, charge.currency) = ("RENEWAL", "USA", "USD")
        var charged = Harness.scheduled("1", at: renewal)
        charged.renewal?.items = [item]
        charged.transaction = charge
        // What the calls marked is computed, so that the charge has to mark it itself.
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            BEGIN ISOLATION LEVEL REPEATABLE READ;
            SELECT repricer.summarise_figures(1000);
            COMMIT
            """)
        let marks = try await owner.query("SELECT 1 FROM repricer.stale_figures").count
        await owner.close()
        #expect(marks == 0)

        try await harness.tell(charged)

        #expect(try await harness.stateCounts() == ["queued": 1, "scheduled": 5])
        let refused =
            "SELECT original_transaction_id AS text FROM repricer.price_changes WHERE refused_at IS NOT NULL"
        #expect(try await harness.texts(refused) == ["1"])
        let named = """
            SELECT original_transaction_id || ' ' || exception || ' ' || expected_milliunits AS text
            FROM report.charge_exception WHERE amount_milliunits > 0
            """
        #expect(try await harness.texts(named) == ["1 other_price 9990"])
        await harness.close()
    }

    /// It would be the first to go after each silence, and nobody else would.
    @Test func subscription_thatMeets429Again_waitsByItself_andIsNamed() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.subscribe("2")
        harness.store.setAnswers(["1"], .throttled(until: Harness.start))
        try await harness.submitAndApprove([Harness.row("1")])

        try await harness.deliver(harness.scheduler())
        harness.realClock.advance(by: .seconds(10))
        try await harness.deliver(harness.scheduler())

        #expect(harness.store.calls.count == 2)
        let parked = try await harness.service.withConnection { connection in
            try await connection.query(
                "SELECT parked_reason AS text FROM repricer.price_changes WHERE parked_reason IS NOT NULL"
            ).map { try $0.text("text") }
        }
        #expect(parked == ["rate_limited"])
        // Apple answered for its rate, and refused nothing of this row.
        let refused =
            "SELECT 1::text AS text FROM repricer.price_changes WHERE refused_at IS NOT NULL"
        #expect(try await harness.texts(refused) == [])
        harness.store.setAnswers(["1"], nil)
        harness.realClock.advance(by: .seconds(400))
        try await harness.deliver(harness.scheduler())
        #expect(try await harness.changes() == ["A scheduled"])
        await harness.close()
    }

    /// What met a 429 and was answered since is like any other.
    @Test func subscription_answeredSinceIts429_isNotParkedByTheNext() async throws {
        let harness = try await Harness.make([
            .throttled(until: Harness.start), .applied, .throttled(until: Harness.start), .applied,
        ])
        try await harness.subscribe("1")
        let scheduler = harness.scheduler()
        for (sku, line) in [("A", 2), ("B", 3)] {
            let batchID = try await harness.submit(
                [Harness.row("1", sku, line: line)], content: sku)
            try await harness.approve(batchID)
            try await harness.deliver(scheduler)
            harness.realClock.advance(by: .seconds(10))
            try await harness.deliver(scheduler)
        }

        #expect(try await harness.texts(Self.parkedReasons) == [])
        #expect(harness.store.calls.count == 4)
        #expect(try await harness.changes() == ["A scheduled", "B scheduled"])
        await harness.close()
    }

    /// Each time it waits longer. Past its last instant it would take effect a renewal later.
    @Test func parkedRow_isTriedOnceMoreBeforeItsLastInstant() async throws {
        let harness = try await Harness.make()
        try await harness.submitRows(1...12)
        harness.store.setAnswers(["1"], .refused(.suspect, code: 4_000_999))
        let scheduler = harness.scheduler()
        try await harness.deliver(scheduler)
        let (parks, sendBy) = try await harness.service.withConnection { connection in
            let row = try await connection.query(
                "SELECT parks, send_by FROM repricer.price_changes WHERE original_transaction_id = '1'"
            ).one()
            return (try row.int("parks"), try row.milliseconds("send_by"))
        }
        try await harness.write(
            "UPDATE repricer.price_changes SET parks = 5 WHERE original_transaction_id = '1'")
        func wait(until instant: Int64) {
            let wait = Duration.milliseconds(instant - harness.now.milliseconds)
            harness.clock.advance(by: wait)
            harness.realClock.advance(by: wait)
        }
        func calls() -> Int { harness.store.calls.count { $0.transactionID == "1" } }

        // Another hour would be too long.
        wait(until: sendBy - 40 * 60_000)
        try await harness.deliver(scheduler)
        let parked = calls()
        wait(until: sendBy - 60_000)
        try await harness.deliver(scheduler)
        let waiting = calls()
        harness.store.setAnswers(["1"], nil)
        wait(until: sendBy - 29_000)
        try await harness.deliver(scheduler)

        #expect((parks, parked, waiting, calls()) == (1, 2, 2, 3))
        #expect(try await harness.stateCounts() == ["scheduled": 12])
        await harness.close()
    }

    /// Two rows that share no call, of one subscription: the parked one waits, and keeps the other from nothing.
    @Test func parkedRow_waitsThoughItsSubscriptionHasAnother() async throws {
        let harness = try await Harness.make()
        for number in 1...12 { try await harness.subscribe("\(number)") }
        var rows = (1...12).map { Harness.row("\($0)", line: $0 + 1) }
        rows.append(Harness.row("1", "B", to: 19990, line: 14))
        try await harness.submitAndApprove(rows, terms: BatchTerms(grouping: .item))
        harness.store.setAnswers(["1"], .refused(.suspect, code: 4_000_999))
        let scheduler = harness.scheduler()

        for _ in 0..<5 { try await harness.deliver(scheduler) }

        let calls = harness.store.calls.filter { $0.transactionID == "1" }
        #expect(Set(calls.flatMap { $0.items.map(\.sku) }) == ["A", "B"])
        #expect(calls.count == 2)
        await harness.close()
    }

    @Test func documentedRefusalOfOneCustomer_whileOthersSucceed_endsTheRow() async throws {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...12)
        harness.store.setAnswers(["5"], .refused(.reject, code: 4_030_010))

        try await harness.deliver(harness.scheduler())

        #expect(try await harness.stateCounts() == ["rejected": 1, "scheduled": 11])
        await harness.close()
    }

    // MARK: One answer to all

    @Test(arguments: [
        (StoreRefusal.Meaning.reject, 4_030_010), (.suspect, 4_000_999), (.suspect, 4_040_010),
        (.haltBatch, 4_000_173),
    ])
    func sameRefusalOfAll_haltsTheBatch_endsFewRows_andIsProbedByAnotherSubscriptionEachMinute(
        meaning: StoreRefusal.Meaning, code: Int
    ) async throws {
        let harness = try await Harness.make()
        let batchID = try await harness.submitRows(1...60)
        harness.store.setAnswers([], nil, all: .refused(meaning, code: code))
        let scheduler = harness.scheduler()

        try await harness.deliver(scheduler)
        let before = harness.store.calls.count
        #expect(try await harness.halts() == ["\(code)", "-"])
        #expect(before < 60)
        try await harness.pass(minutes: 4, scheduler)

        let probes = harness.store.calls.dropFirst(before).map(\.transactionID)
        #expect((3...4).contains(probes.count))
        #expect(Set(probes).count == probes.count)
        let ended = try await harness.stateCounts()["rejected"] ?? 0
        #expect(ended < 10)
        #expect(meaning == .reject || ended == 0)
        #expect(
            try await harness.texts(
                "SELECT paused_reason AS text FROM repricer.batches WHERE batch_id = '\(batchID)'"
            ).first?.contains(
                " subscriptions in a row were refused with \(code) code_\(code) (\"no\"), the last of them "
            ) == true)

        // Mended: the next probe is answered, and the batch goes on by itself.
        harness.store.setAnswers([], nil, all: nil)
        try await harness.pass(minutes: 70, scheduler)
        #expect(try await harness.halts() == ["-", "-"])
        #expect(
            try await harness.stateCounts()
                == (ended == 0
                    ? ["scheduled": 60] : ["scheduled": 60 - ended, "rejected": ended]))
        #expect(
            try await harness.texts(
                "SELECT action AS text FROM repricer.audit_trail WHERE action IN ('halt', 'recover') ORDER BY sequence"
            ) == ["halt", "recover"])
        await harness.close()
    }

    @Test func refusalsOfOneBatch_leaveTheOtherAlone() async throws {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...20)
        _ = try await harness.submitRows(21...40)
        harness.store.setAnswers((1...20).map(String.init), .refused(.haltService, code: 4_010_000))
        let scheduler = harness.scheduler()

        try await harness.deliver(scheduler)
        try await harness.pass(minutes: 6, scheduler)

        #expect(try await harness.stateCounts() == ["queued": 20, "scheduled": 20])
        await harness.close()
    }

    @Test func refusedKey_ofEverySubscription_haltsTheServiceAndIsNamedTruly() async throws {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...30)
        harness.store.setAnswers([], nil, all: .refused(.haltService, code: 4_010_000))
        let scheduler = harness.scheduler()

        try await harness.deliver(scheduler)
        let before = harness.store.calls.count
        try await harness.pass(minutes: 3, scheduler)

        let said = try #require(try await harness.halts().last)
        let counted = said.firstMatch(
            of: /^4010000 code_4010000: ([0-9]+) subscriptions in a row were refused with 4010000/)
        // Three halt it; others of the same claim may be refused before it is written down.
        #expect((3...before).contains(counted.flatMap { Int($0.1) } ?? 0), "\(said)")
        let probes = harness.store.calls.dropFirst(before).map(\.transactionID)
        #expect(Set(probes).count == probes.count)
        #expect((2...3).contains(probes.count))

        harness.store.setAnswers([], nil)
        try await harness.pass(minutes: 70, scheduler)
        #expect(try await harness.stateCounts() == ["scheduled": 30])
        await harness.close()
    }

    // MARK: No answers

    @Test func unansweredCalls_ofManySubscriptions_becomeFew_andManyAgain() async throws {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...60)
        harness.store.setAnswers([], nil, all: .unavailable)
        let scheduler = harness.scheduler()

        try await harness.deliver(scheduler)
        try await harness.pass(minutes: 3, scheduler)

        #expect(harness.store.calls.count < 60)
        harness.store.setAnswers([], nil)
        try await harness.pass(minutes: 10, scheduler)
        #expect(try await harness.stateCounts() == ["scheduled": 60])
        #expect(harness.store.applied.count == 60)
        await harness.close()
    }

    // MARK: Stale tokens and prices that may be ours

    @Test func staleToken_shownAgainByTheStatus_isLeftOutOnce_thenTheRowIsParked() async throws {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...2)
        harness.store.setAnswers(["1"], .refused(.refresh, code: 4_000_082))
        harness.store.setToken("the same")
        let scheduler = harness.scheduler()

        for _ in 0..<20 {
            try await harness.deliver(scheduler)
            harness.clock.advance(by: .seconds(2))
            harness.realClock.advance(by: .seconds(2))
        }

        let tokens = harness.store.calls.filter { $0.transactionID == "1" }.map(\.consistencyToken)
        #expect(tokens == ["first", "the same", nil])
        #expect(
            try await harness.texts(
                "SELECT parked_reason AS text FROM repricer.price_changes WHERE parked_reason IS NOT NULL"
            ) == ["4000082 code_4000082"])
        await harness.close()
    }

    @Test(arguments: [4_000_205, 4_000_097])
    func priceThatMayBeOurs_refusedAtAFirstTry_isReadBeforeItIsBelieved(code: Int) async throws {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...1)
        harness.store.setAnswers(["1"], .refused(.checkStatus, code: code))
        let scheduler = harness.scheduler()

        try await harness.deliver(scheduler)
        #expect(try await harness.stateCounts() == ["unknown": 1])
        harness.store.applyLate()
        try await harness.pass(minutes: 1, scheduler)

        #expect(try await harness.stateCounts() == ["scheduled": 1])
        #expect(harness.store.calls.count == 1)
        await harness.close()
    }

    /// One subscription whose price and status are both refused: it is asked later and later, and named.
    @Test func callWhoseStatusIsRefused_isParkedAndNamed() async throws {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...1)
        harness.store.setAnswers(["1"], .refused(.checkStatus, code: 4_000_205))
        harness.store.answerChecks(Self.statusRefused)
        let scheduler = harness.scheduler()
        try await harness.deliver(scheduler)

        try await harness.pass(minutes: 120, scheduler)

        #expect(try await harness.stateCounts() == ["unknown": 1])
        #expect(try await harness.texts(Self.parkedReasons) == [Self.refusedInWords])
        #expect(harness.store.calls.count == 1)
        #expect((6...20).contains(harness.store.checks))
        harness.store.answerChecks(nil)
        harness.store.applyLate()
        try await harness.pass(minutes: 61, scheduler)
        #expect(try await harness.stateCounts() == ["scheduled": 1])
        await harness.close()
    }

    /// A lost call goes again under its id, though no check shows that it was lost: the App Store knows the id.
    @Test func lostCallWhoseStatusIsRefused_goesAgainWithTheSameID() async throws {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...4)
        harness.store.setAnswers(["1"], .unavailable)
        harness.store.answerChecks(Self.statusRefused)
        let scheduler = harness.scheduler()
        try await harness.deliver(scheduler)
        try await harness.pass(minutes: 30, scheduler)
        let parked = try await harness.texts(Self.parkedReasons)

        harness.store.setAnswers(["1"], nil)
        try await harness.pass(minutes: 16, scheduler)

        #expect(parked.count == 1)
        #expect(try await harness.stateCounts() == ["scheduled": 4])
        #expect(harness.store.applied.count == 4)
        #expect(Set(harness.store.calls.map(\.requestReferenceID)).count == 4)
        await harness.close()
    }

    private static let parkedReasons =
        "SELECT parked_reason AS text FROM repricer.price_changes WHERE parked_reason IS NOT NULL"
    private static let refusedInWords = "its status is refused: 4040010 code_4040010"
    private static let statusRefused = StoreAnswer.refused(
        StoreRefusal(code: 4_040_010, name: "code_4040010", message: "", meaning: .suspect),
        StoreReply(httpStatus: 404))

    /// As after a restored backup whose calls all had their effect: the refusals are no refusals, and nobody need resume.
    @Test(arguments: [4_000_205, 4_000_097])
    func pricesThatAreAllOurs_areTakenOver_andNothingStaysHalted(code: Int) async throws {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...60)
        harness.store.setAnswers([], nil, all: .refused(.checkStatus, code: code))
        // The clock stands still in a round, and the permits of its next second would never come.
        let scheduler = harness.scheduler(perSecond: 1000, statusPerSecond: 1000)

        for _ in 0..<8 {
            try await harness.deliver(scheduler)
            harness.store.applyLate()
            harness.clock.advance(by: .seconds(10))
            harness.realClock.advance(by: .seconds(10))
        }

        #expect(try await harness.stateCounts() == ["scheduled": 60])
        // Those that met the halt were put back, and asked again.
        #expect(harness.store.calls.count < 80)
        #expect(try await harness.halts() == ["-", "-"])
        await harness.close()
    }

    /// The halt ends with the first probe that a status shows to be done, as with one that is answered.
    @Test func probe_ofAPriceThatIsOurs_endsTheHalt() async throws {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...20)
        harness.store.setAnswers([], nil, all: .refused(.checkStatus, code: 4_000_205))
        let scheduler = harness.scheduler()
        for _ in 0..<9 {
            try await harness.deliver(scheduler)
            try await harness.watch().round()
            harness.clock.advance(by: .seconds(6))
            harness.realClock.advance(by: .seconds(6))
        }
        #expect(try await harness.stateCounts() == ["queued": 20])
        #expect(try await harness.halts() == ["4000205", "-"])

        // From now on Apple has the price of whoever was called before.
        for _ in 0..<30 {
            harness.store.applyLate()
            try await harness.pass(minutes: 1, scheduler)
            try await harness.watch().round()
        }

        #expect(try await harness.stateCounts() == ["scheduled": 20])
        #expect(try await harness.halts() == ["-", "-"])
        await harness.close()
    }

    /// Some were done, and all that follow are not: they count again as what they are, also where none is left to call.
    @Test(arguments: [30, 200])
    func pricesThatAreNotOurs_afterSomeThatWere_haltTheirBatch(rows: Int) async throws {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...12)
        harness.store.setAnswers([], nil, all: .refused(.checkStatus, code: 4_000_205))
        let scheduler = harness.scheduler()
        for _ in 0..<3 {
            try await harness.deliver(scheduler)
            harness.store.applyLate()
            harness.clock.advance(by: .seconds(10))
            harness.realClock.advance(by: .seconds(10))
        }
        #expect(try await harness.stateCounts() == ["scheduled": 12])
        _ = try await harness.submitRows(13...(12 + rows))

        for _ in 0..<20 {
            try await harness.deliver(scheduler)
            try await harness.watch().round()
            harness.clock.advance(by: .seconds(10))
            harness.realClock.advance(by: .seconds(10))
        }

        #expect(try await harness.stateCounts()["rejected"] ?? 0 < min(50, rows))
        #expect(try await harness.halts().contains("4000205"))
        await harness.close()
    }
}
