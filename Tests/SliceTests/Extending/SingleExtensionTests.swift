import AppStore
import Calls
import Extensions
import Postgres
import Pricing
import TestSupport
import Testing

@Suite(.database) struct SingleExtensionTests {
    @Test func extension_whenAnswered_isSettledAndTold() async throws {
        let harness = try await ExtensionHarness.make()
        try await harness.subscribe("1")
        try await harness.requestOne("1")

        try await harness.work(harness.extender())
        let before = try await harness.report()
        try await harness.tellExtended("1", days: 30, at: 1000)

        #expect(harness.calls.calls == ["1 +30"])
        #expect(harness.calls.identifiers == [ExtensionHarness.id(1)])
        #expect(try await harness.callStates() == ["extended by answer"])
        #expect(before == ["one extended 0/0 1/0 open"])
        #expect(try await harness.report() == ["one extended 1/0 1/0 clean"])
        await harness.delivery.close()
    }

    @Test func extension_whenAnswerIsLost_isRepeatedUnderTheSameIdentifier() async throws {
        let harness = try await ExtensionHarness.make([.lost, .lost])
        try await harness.subscribe("1")
        try await harness.requestOne("1")
        let extender = harness.extender()

        try await harness.work(extender)
        let lost = try await harness.callStates()
        harness.pass(.seconds(2))
        try await harness.work(extender)
        harness.pass(.seconds(2))
        try await harness.work(extender)

        #expect(lost == ["unknown"])
        #expect(harness.calls.identifiers == Array(repeating: ExtensionHarness.id(1), count: 3))
        #expect(harness.calls.taken.count == 1)
        #expect(try await harness.callStates() == ["extended by answer"])
        await harness.delivery.close()
    }

    @Test func extension_whenAnswerIsLostAndTold_needsNoFurtherCall() async throws {
        let harness = try await ExtensionHarness.make([.lost])
        try await harness.subscribe("1")
        try await harness.requestOne("1")
        let extender = harness.extender()

        try await harness.work(extender)
        try await harness.tellExtended("1", days: 30, at: 1000)
        harness.pass(.seconds(2))
        try await harness.work(extender)

        #expect(harness.calls.calls.count == 1)
        #expect(try await harness.callStates() == ["extended by notification"])
        await harness.delivery.close()
    }

    /// A mass extension of other days runs: the days tell whose the extension is.
    @Test func extension_whenAnswerIsLostBesideAMassExtensionOfOtherDays_isSettledByItsDays()
        async throws
    {
        let harness = try await ExtensionHarness.make()
        try await harness.subscribe("1")
        try await harness.requestAll(days: 10)
        let extender = harness.extender()
        try await harness.work(extender)
        harness.calls.with { $0.replies = [.lost] }
        try await harness.requestOne("1", days: 30)
        try await harness.work(extender)

        try await harness.tellExtended("1", days: 30, at: 1000)
        harness.pass(.seconds(2))
        try await harness.work(extender)

        #expect(harness.calls.calls.filter { $0.hasPrefix("1 ") } == ["1 +30"])
        #expect(try await harness.callStates() == ["extended by notification"])
        await harness.delivery.close()
    }

    /// The notification may be the mass extension's; the repeated call tells.
    @Test(arguments: [
        (ScriptedExtensions.Reply.done, "extended by answer"),
        (.refused(4_030_005), "refused by answer SubscriptionMaxExtensionError"),
    ])
    func lostAnswer_whileAMassExtensionMovesTheRenewal_isAskedForAgain(
        second: ScriptedExtensions.Reply, end: String
    ) async throws {
        let harness = try await ExtensionHarness.make([.unavailable])
        try await harness.subscribe("1")
        try await harness.requestOne("1", days: 10)
        let extender = harness.extender()
        try await harness.work(extender)
        #expect(try await harness.callStates() == ["unknown"])

        try await harness.requestAll(days: 10)
        try await harness.work(extender)
        try await harness.tellExtended("1", days: 10, at: 60_000)
        let told = try await harness.report().filter { $0.hasPrefix("all") }
        harness.calls.with { $0.replies = [second] }
        try await harness.passUntilChecked(extender)

        #expect(told == ["all running 1/0 - open"])
        #expect(
            harness.calls.identifiers
                == [ExtensionHarness.id(1), ExtensionHarness.id(9), ExtensionHarness.id(1)])
        #expect(try await harness.callStates() == [end])
        await harness.delivery.close()
    }

    /// Another program's extension is no answer to a call of ours.
    @Test func lostAnswer_whenTheRenewalMovedByOtherDays_isAskedForAgain() async throws {
        let harness = try await ExtensionHarness.make([.unavailable])
        try await harness.subscribe("1")
        try await harness.requestOne("1", days: 10)
        let extender = harness.extender()

        try await harness.work(extender)
        try await harness.tellExtended("1", days: 7, at: 1000)
        harness.pass(.seconds(2))
        try await harness.work(extender)

        #expect(harness.calls.calls.count == 2)
        #expect(try await harness.callStates() == ["extended by answer"])
        await harness.delivery.close()
    }

    /// How long a day of an extension is in the Sandbox, no page says: twelve minutes are thirty days here.
    @Test(arguments: [true, false])
    func lostAnswer_inTheSandbox_isSettledByAnExtensionOfAnyLength(isTold: Bool) async throws {
        let harness = try await ExtensionHarness.make([.lost, .refused(4_030_004)])
        try await harness.subscribe("1")
        try await harness.requestOne("1")
        let extender = harness.extender(environment: .sandbox)
        let movedTo = ExtensionHarness.renewal.advanced(by: 720_000)

        try await harness.work(extender)
        if isTold {
            try await harness.tellExtended("1", to: movedTo, at: 1000)
        } else {
            harness.delivery.store.setRenewal("1", at: movedTo)
        }
        try await harness.passUntilChecked(extender)

        #expect(
            try await harness.callStates()
                == ["extended by \(isTold ? "notification" : "status")"])
        await harness.delivery.close()
    }

    @Test func refusal_ofARetry_isBelievedOnlyAfterTheStatus() async throws {
        let harness = try await ExtensionHarness.make([.lost, .refused(4_030_005)])
        try await harness.subscribe("1")
        try await harness.requestOne("1")
        let extender = harness.extender()

        try await harness.work(extender)
        harness.pass(.seconds(2))
        try await harness.work(extender)
        harness.pass(.seconds(2))
        try await harness.work(extender)
        let checkedOnce = (harness.delivery.store.checks, try await harness.callStates())
        try await harness.passUntilChecked(extender)

        // The scripted status knows no later renewal. While the first call may be on its way, nobody believes that.
        #expect(checkedOnce == (1, ["unknown"]))
        #expect(
            try await harness.callStates() == ["refused by answer SubscriptionMaxExtensionError"])
        await harness.delivery.close()
    }

    /// Days of mass extensions, days by which the renewal moved, whether that proves ten days of our own.
    @Test(arguments: [
        ([], 10, true), ([], 7, false), ([7], 7, false), ([7], 17, true), ([7], 10, true),
        ([10], 10, false), ([10], 20, true), ([3, 7], 10, false), ([3, 7], 13, true),
    ])
    func refusal_ofARetry_whileTheRenewalMoved_isBelievedUnlessItsOwnDaysExplainIt(
        masses: [Int], moved: Int64, isProved: Bool
    ) async throws {
        let harness = try await ExtensionHarness.make()
        try await harness.subscribe("1")
        let extender = harness.extender()
        for (number, days) in masses.enumerated() {
            try await harness.requestAll(20 + number, days: days)
            try await harness.work(extender)
            try await harness.receiveSummary(
                20 + number, succeeded: 1, failed: 0, uuid: "summary-\(number)")
            try await harness.work(extender)
        }
        try await harness.requestOne("1", days: 10)
        harness.calls.with { $0.replies = [.unavailable, .refused(4_030_005)] }
        try await harness.work(extender)
        let lost = try await harness.callStates()

        harness.delivery.store.setRenewal(
            "1", at: ExtensionHarness.renewal.advanced(by: moved * 86_400_000))
        try await harness.passUntilChecked(extender)

        #expect(lost == ["unknown"])
        #expect(
            try await harness.callStates() == [
                isProved ? "extended by status" : "refused by answer SubscriptionMaxExtensionError"
            ])
        await harness.delivery.close()
    }

    /// Once the key is refused to several one call a minute asks for all. Where a status shows that the key is good, the
    /// refusals concern extensions alone.
    @Test(arguments: [true, false])
    func refusedKey_ofExtensions_haltsTheServiceUntilACallIsHeard_unlessAStatusIsAnswered(
        isKeyGood: Bool
    ) async throws {
        let harness = try await ExtensionHarness.make(
            Array(repeating: .refused(4_010_000), count: 3))
        for (number, id) in ["1", "2", "3"].enumerated() {
            try await harness.subscribe(id)
            try await harness.requestOne(id, number + 1)
        }
        if !isKeyGood {
            let refusal = StoreRefusal(
                code: 4_010_000, name: "", message: "", meaning: .haltService)
            harness.delivery.store.answerChecks(.refused(refusal, StoreReply(httpStatus: 401)))
        }
        let extender = harness.extender()
        let halts = """
            SELECT halted_reason AS text FROM repricer.service_controls WHERE halted_reason IS NOT NULL
            UNION ALL SELECT concat(h.key, ' ', h.value ->> 'reason')
            FROM repricer.service_controls, jsonb_each(halted_kinds) h
            """

        try await harness.work(extender)
        let said = try await harness.delivery.texts(halts)
        #expect(said.count == 1)
        let kind = isKeyGood ? "extension " : ""
        #expect(said.first?.hasPrefix("\(kind)4010000 UnauthorizedError: ") == true, "\(said)")
        #expect(
            said.first?.contains(/[0-9]+ subscriptions in a row were refused with/) == true,
            "\(said)")
        for _ in 0..<6 {
            harness.pass(.seconds(121))
            try await harness.work(extender)
        }

        #expect(try await harness.delivery.texts(halts).isEmpty)
        #expect(harness.calls.calls.count == 6)
        #expect(
            try await harness.callStates() == Array(repeating: "extended by answer", count: 3))
        await harness.delivery.close()
    }

    /// Two of the customer's other subscription are used up; a stranger's count for nothing.
    @Test(arguments: [("jo", "two_within_365_days"), ("sam", nil)])
    func extension_afterTwoOfAnotherSubscription_isRefusedForTheSameCustomerOnly(
        owner: String, refusal: String?
    ) async throws {
        let harness = try await ExtensionHarness.make()
        try await harness.subscribe("1") { $0.transaction?.appAccountToken = "jo" }
        try await harness.subscribe("2") { $0.transaction?.appAccountToken = owner }
        try await harness.tellExtended("2", days: 5, at: 1000)
        try await harness.tellExtended("2", days: 10, at: 2000)
        harness.pass(.seconds(60))

        let forecast = try await ExtensionForecast.obstacle(
            of: "1", now: Instant(milliseconds: harness.delivery.clock.nowMilliseconds()),
            pool: harness.delivery.service)
        try await harness.requestOne("1")
        try await harness.work(harness.extender())

        #expect(forecast?.rawValue == refusal)
        #expect(harness.calls.calls == (refusal == nil ? ["1 +30"] : []))
        #expect(
            try await harness.callStates()
                == [refusal.map { "ineligible by judgement \($0)" } ?? "extended by answer"])
        await harness.delivery.close()
    }

    /// What the customer's other subscriptions have under way counts before it is told: else all three would be called.
    @Test func extension_besideTwoUnderWayOfTheSameCustomer_isRefused() async throws {
        let harness = try await ExtensionHarness.make()
        for (id, owner) in [("1", "jo"), ("2", "jo"), ("3", "jo"), ("4", "sam")] {
            try await harness.subscribe(id) { $0.transaction?.appAccountToken = owner }
        }
        func obstacle(_ id: String) async throws -> String? {
            try await ExtensionForecast.obstacle(
                of: id, now: harness.delivery.now.advanced(by: 60_000),
                pool: harness.delivery.service)?
                .rawValue
        }

        try await harness.requestOne("1", 1)
        let afterOne = try await obstacle("3")
        try await harness.requestOne("2", 2)

        #expect(afterOne == nil)
        #expect(try await obstacle("3") == "two_within_365_days")
        #expect(try await obstacle("4") == nil)
        // Neither of the two stops the other.
        try await harness.work(harness.extender())
        #expect(harness.calls.calls.count == 2)
        await harness.delivery.close()
    }

    /// The answer is lost, and the notification is here: one extension, and not two.
    @Test func extension_besideOneThatIsToldAndOpen_isAllowed() async throws {
        let harness = try await ExtensionHarness.make()
        for id in ["1", "2"] {
            try await harness.subscribe(id) { $0.transaction?.appAccountToken = "jo" }
        }
        try await harness.requestOne("1")
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            UPDATE repricer.extension_requests SET state = 'unknown', called_at = '\(harness.delivery.now.text)'
            """)
        await owner.close()
        try await harness.tellExtended("1", days: 30, at: 1000)

        let obstacle = try await ExtensionForecast.obstacle(
            of: "2", now: harness.delivery.now.advanced(by: 60_000), pool: harness.delivery.service)

        #expect(obstacle == nil)
        await harness.delivery.close()
    }

    @Test func refusal_ofAFirstCall_isFinal() async throws {
        let harness = try await ExtensionHarness.make([.refused(4_030_004)])
        try await harness.subscribe("1")
        try await harness.requestOne("1")

        try await harness.work(harness.extender())

        #expect(harness.delivery.store.checks == 0)
        #expect(
            try await harness.report()
                == ["one refused 0/0 0/0 ended SubscriptionExtensionIneligibleError"])
        await harness.delivery.close()
    }

    @Test func extension_whenThrottledOrOutOfReach_goesLaterAndOnce() async throws {
        let harness = try await ExtensionHarness.make([
            .throttled(until: DeliveryHarness.start.advanced(by: 5000)), .notSent,
        ])
        try await harness.subscribe("1")
        try await harness.requestOne("1")
        let extender = harness.extender()

        try await harness.work(extender)
        for _ in 0..<4 {
            harness.pass(.seconds(3))
            try await harness.work(extender)
        }

        #expect(harness.calls.calls.count == 3)
        #expect(harness.calls.taken.values.map { $0 } == [1])
        #expect(try await harness.callStates() == ["extended by answer"])
        await harness.delivery.close()
    }

    @Test func extension_whenItsProcessDied_isRepeatedByAnother() async throws {
        let harness = try await ExtensionHarness.make([.lost])
        try await harness.subscribe("1")
        try await harness.requestOne("1")
        try await harness.work(harness.extender())
        // As a process leaves it that dies between its call and the settlement.
        try await harness.delivery.service.withConnection { connection in
            _ = try await connection.execute(
                "UPDATE repricer.extension_requests SET state = 'sending'")
        }

        harness.pass(.seconds(200))
        try await harness.work(harness.extender())

        #expect(harness.calls.identifiers == Array(repeating: ExtensionHarness.id(1), count: 2))
        #expect(try await harness.callStates() == ["extended by answer"])
        await harness.delivery.close()
    }

    @Test func extension_whenFactsChangeBeforeItsCall_isJudgedAgain() async throws {
        let harness = try await ExtensionHarness.make()
        try await harness.subscribe("1")
        try await harness.requestOne("1")
        var failed = harness.said("1", "DID_FAIL_TO_RENEW", at: 10)
        failed.status = 3
        try await harness.delivery.tell(failed)

        try await harness.work(harness.extender())

        #expect(harness.calls.calls.isEmpty)
        #expect(try await harness.callStates() == ["ineligible by judgement billing_retry"])
        await harness.delivery.close()
    }

    @Test func extension_whileEverythingIsPaused_waits() async throws {
        let harness = try await ExtensionHarness.make()
        try await harness.subscribe("1")
        try await harness.requestOne("1")
        try await harness.delivery.setPause(nil, true)
        let extender = harness.extender()

        try await harness.work(extender)
        let paused = harness.calls.calls.count
        try await harness.delivery.setPause(nil, false)
        try await harness.work(extender)

        #expect(paused == 0)
        #expect(harness.calls.calls == ["1 +30"])
        await harness.delivery.close()
    }

    @Test func request_madeTwice_changesNothingAndOtherTermsAreRefused() async throws {
        let harness = try await ExtensionHarness.make()
        try await harness.subscribe("1")
        try await harness.subscribe("2")
        try await harness.requestOne("1")

        try await harness.requestOne("1")
        await #expect(throws: PostgresError.self) { try await harness.requestOne("1", days: 31) }
        await #expect(throws: PostgresError.self) { try await harness.requestOne("2") }
        await #expect(throws: PostgresError.self) { try await harness.requestOne("1", 2) }
        await #expect(throws: PostgresError.self) { try await harness.requestOne("77", 3) }

        #expect(try await harness.delivery.count("extension_requests") == 1)
        await harness.delivery.close()
    }

    /// An answer may leave out the new date, which a notification then tells: that is one extension.
    @Test func extension_answeredWithoutItsDate_andTold_countsOnce() async throws {
        let harness = try await ExtensionHarness.make()
        try await harness.subscribe("1")
        try await harness.requestOne("1")
        try await harness.work(harness.extender())
        try await harness.delivery.write(
            "UPDATE repricer.extension_requests SET effective_at = NULL WHERE state = 'extended'")
        try await harness.tellExtended("1", days: 30, at: 1000)

        let obstacle = try await ExtensionForecast.obstacle(
            of: "1", now: harness.delivery.now.advanced(by: 2000),
            pool: harness.delivery.submitter)

        #expect(try await harness.callStates() == ["extended by answer"])
        #expect(obstacle == nil)
        await harness.delivery.close()
    }

    @Test func third_withinAYear_isNotEligible() async throws {
        let harness = try await ExtensionHarness.make()
        try await harness.subscribe("1")
        try await harness.tellExtended("1", days: 5, at: 100)
        try await harness.tellExtended("1", days: 9, at: 200)

        let now = try await ExtensionForecast.obstacle(
            of: "1", now: harness.delivery.now.advanced(by: 300), pool: harness.delivery.submitter)
        let later = try await ExtensionForecast.obstacle(
            of: "1", now: harness.delivery.now.advanced(by: 366 * 86_400_000),
            pool: harness.delivery.submitter)

        #expect(now == .twoWithinAYear)
        #expect(later == nil)
        await harness.delivery.close()
    }
}
