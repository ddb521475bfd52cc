import Extensions
import Postgres
import Pricing
import TestSupport
import Testing

@Suite(.database) struct SingleExtensionTests {
    @Test func extension_whenAnswered_isSettledAndTold() async throws {
        let world = try await ExtensionWorld.make()
        try await world.subscribe("1")
        try await world.requestOne("1")

        try await world.work(world.extender())
        let before = try await world.report()
        try await world.tellExtended("1", days: 30, at: 1000)

        #expect(world.calls.calls == ["1 +30"])
        #expect(world.calls.identifiers == [ExtensionWorld.id(1)])
        #expect(try await world.callStates() == ["extended by answer"])
        #expect(before == ["one extended 0/0 1/0 open"])
        #expect(try await world.report() == ["one extended 1/0 1/0 clean"])
        await world.delivery.close()
    }

    @Test func extension_whenAnswerIsLost_isRepeatedUnderTheSameIdentifier() async throws {
        let world = try await ExtensionWorld.make([.lost, .lost])
        try await world.subscribe("1")
        try await world.requestOne("1")
        let extender = world.extender()

        try await world.work(extender)
        let lost = try await world.callStates()
        world.pass(.seconds(2))
        try await world.work(extender)
        world.pass(.seconds(2))
        try await world.work(extender)

        #expect(lost == ["unknown"])
        #expect(world.calls.identifiers == Array(repeating: ExtensionWorld.id(1), count: 3))
        #expect(world.calls.taken.count == 1)
        #expect(try await world.callStates() == ["extended by answer"])
        await world.delivery.close()
    }

    @Test func extension_whenAnswerIsLostAndTold_needsNoFurtherCall() async throws {
        let world = try await ExtensionWorld.make([.lost])
        try await world.subscribe("1")
        try await world.requestOne("1")
        let extender = world.extender()

        try await world.work(extender)
        try await world.tellExtended("1", days: 30, at: 1000)
        world.pass(.seconds(2))
        try await world.work(extender)

        #expect(world.calls.calls.count == 1)
        #expect(try await world.callStates() == ["extended by notification"])
        await world.delivery.close()
    }

    /// The notification may be the mass extension's; the repeated call tells.
    @Test(arguments: [
        (ScriptedExtensions.Reply.done, "extended by answer"),
        (.refused(4_030_005), "refused by answer SubscriptionMaxExtensionError"),
    ])
    func lostAnswer_whileAMassExtensionMovesTheRenewal_isAskedForAgain(
        second: ScriptedExtensions.Reply, end: String
    ) async throws {
        let world = try await ExtensionWorld.make([.unavailable])
        try await world.subscribe("1")
        try await world.requestOne("1", days: 10)
        let extender = world.extender()
        try await world.work(extender)
        #expect(try await world.callStates() == ["unknown"])

        try await world.requestAll(days: 10)
        try await world.work(extender)
        try await world.tellExtended("1", days: 10, at: 60_000)
        let told = try await world.report().filter { $0.hasPrefix("all") }
        world.calls.with { $0.replies = [second] }
        try await world.passUntilChecked(extender)

        #expect(told == ["all running 1/0 - open"])
        #expect(
            world.calls.identifiers
                == [ExtensionWorld.id(1), ExtensionWorld.id(9), ExtensionWorld.id(1)])
        #expect(try await world.callStates() == [end])
        await world.delivery.close()
    }

    /// Another program's extension is no answer to a call of ours.
    @Test func lostAnswer_whenTheRenewalMovedByOtherDays_isAskedForAgain() async throws {
        let world = try await ExtensionWorld.make([.unavailable])
        try await world.subscribe("1")
        try await world.requestOne("1", days: 10)
        let extender = world.extender()

        try await world.work(extender)
        try await world.tellExtended("1", days: 7, at: 1000)
        world.pass(.seconds(2))
        try await world.work(extender)

        #expect(world.calls.calls.count == 2)
        #expect(try await world.callStates() == ["extended by answer"])
        await world.delivery.close()
    }

    @Test func refusal_ofARetry_isBelievedOnlyAfterTheStatus() async throws {
        let world = try await ExtensionWorld.make([.lost, .refused(4_030_005)])
        try await world.subscribe("1")
        try await world.requestOne("1")
        let extender = world.extender()

        try await world.work(extender)
        world.pass(.seconds(2))
        try await world.work(extender)
        world.pass(.seconds(2))
        try await world.work(extender)
        let checkedOnce = (world.delivery.store.looks, try await world.callStates())
        try await world.passUntilChecked(extender)

        // The scripted status knows no later renewal. While the first call may be on its way, nobody believes that.
        #expect(checkedOnce == (1, ["unknown"]))
        #expect(
            try await world.callStates() == ["refused by answer SubscriptionMaxExtensionError"])
        await world.delivery.close()
    }

    /// Days of mass extensions, days by which the renewal moved, whether that proves ten days of our own.
    @Test(arguments: [
        ([], 10, true), ([], 7, false), ([7], 7, false), ([7], 17, true), ([7], 10, true),
        ([10], 10, false), ([10], 20, true), ([3, 7], 10, false), ([3, 7], 13, true),
    ])
    func refusal_ofARetry_whileTheRenewalMoved_isBelievedUnlessItsOwnDaysExplainIt(
        masses: [Int], moved: Int64, isProved: Bool
    ) async throws {
        let world = try await ExtensionWorld.make()
        try await world.subscribe("1")
        let extender = world.extender()
        for (number, days) in masses.enumerated() {
            try await world.requestAll(20 + number, days: days)
            try await world.work(extender)
            try await world.receiveSummary(
                20 + number, succeeded: 1, failed: 0, uuid: "summary-\(number)")
            try await world.work(extender)
        }
        try await world.requestOne("1", days: 10)
        world.calls.with { $0.replies = [.unavailable, .refused(4_030_005)] }
        try await world.work(extender)
        let lost = try await world.callStates()

        world.delivery.store.setRenewal(
            "1", at: ExtensionWorld.renewal.advanced(by: moved * 86_400_000))
        try await world.passUntilChecked(extender)

        #expect(lost == ["unknown"])
        #expect(
            try await world.callStates() == [
                isProved ? "extended by status" : "refused by answer SubscriptionMaxExtensionError"
            ])
        await world.delivery.close()
    }

    /// Once the key is refused one call a minute asks for all.
    @Test func refusedKey_ofAnExtension_haltsTheServiceUntilACallIsHeard() async throws {
        let world = try await ExtensionWorld.make([.refused(4_010_000), .refused(4_010_000)])
        try await world.subscribe("1")
        try await world.requestOne("1")
        let extender = world.extender()
        func halt() async throws -> String? {
            try await world.delivery.service.withConnection { connection in
                try await connection.query("SELECT halted_reason FROM repricer.service_controls")
                    .one().textOrNil("halted_reason")
            }
        }

        try await world.work(extender)
        #expect(try await halt() == "4010000 UnauthorizedError")
        for _ in 0..<2 {
            world.pass(.seconds(61))
            try await world.work(extender)
        }

        #expect(try await halt() == nil)
        #expect(world.calls.calls.count == 3)
        #expect(try await world.callStates() == ["extended by answer"])
        await world.delivery.close()
    }

    /// Two of the customer's other subscription are used up; a stranger's count for nothing.
    @Test(arguments: [("jo", "two_within_365_days"), ("sam", nil)])
    func extension_afterTwoOfAnotherSubscription_isRefusedForTheSameCustomerOnly(
        owner: String, refusal: String?
    ) async throws {
        let world = try await ExtensionWorld.make()
        try await world.subscribe("1") { $0.transaction?.appAccountToken = "jo" }
        try await world.subscribe("2") { $0.transaction?.appAccountToken = owner }
        try await world.tellExtended("2", days: 5, at: 1000)
        try await world.tellExtended("2", days: 10, at: 2000)
        world.pass(.seconds(60))

        let forecast = try await ExtensionForecast.obstacle(
            of: "1", now: Instant(milliseconds: world.delivery.clock.nowMilliseconds()),
            pool: world.delivery.service)
        try await world.requestOne("1")
        try await world.work(world.extender())

        #expect(forecast?.rawValue == refusal)
        #expect(world.calls.calls == (refusal == nil ? ["1 +30"] : []))
        #expect(
            try await world.callStates()
                == [refusal.map { "ineligible by judgement \($0)" } ?? "extended by answer"])
        await world.delivery.close()
    }

    @Test func refusal_ofAFirstCall_isFinal() async throws {
        let world = try await ExtensionWorld.make([.refused(4_030_004)])
        try await world.subscribe("1")
        try await world.requestOne("1")

        try await world.work(world.extender())

        #expect(world.delivery.store.looks == 0)
        #expect(
            try await world.report()
                == ["one refused 0/0 0/0 ended SubscriptionExtensionIneligibleError"])
        await world.delivery.close()
    }

    @Test func extension_whenThrottledOrOutOfReach_goesLaterAndOnce() async throws {
        let world = try await ExtensionWorld.make([
            .throttled(until: DeliveryWorld.start.advanced(by: 5000)), .notSent,
        ])
        try await world.subscribe("1")
        try await world.requestOne("1")
        let extender = world.extender()

        try await world.work(extender)
        for _ in 0..<4 {
            world.pass(.seconds(3))
            try await world.work(extender)
        }

        #expect(world.calls.calls.count == 3)
        #expect(world.calls.taken.values.map { $0 } == [1])
        #expect(try await world.callStates() == ["extended by answer"])
        await world.delivery.close()
    }

    @Test func extension_whenItsProcessDied_isRepeatedByAnother() async throws {
        let world = try await ExtensionWorld.make([.lost])
        try await world.subscribe("1")
        try await world.requestOne("1")
        try await world.work(world.extender())
        // As a process leaves it that dies between its call and the settlement.
        try await world.delivery.service.withConnection { connection in
            _ = try await connection.execute(
                "UPDATE repricer.extension_requests SET state = 'sending'")
        }

        world.pass(.seconds(200))
        try await world.work(world.extender())

        #expect(world.calls.identifiers == Array(repeating: ExtensionWorld.id(1), count: 2))
        #expect(try await world.callStates() == ["extended by answer"])
        await world.delivery.close()
    }

    @Test func extension_whenFactsChangeBeforeItsCall_isJudgedAgain() async throws {
        let world = try await ExtensionWorld.make()
        try await world.subscribe("1")
        try await world.requestOne("1")
        var failed = world.said("1", "DID_FAIL_TO_RENEW", at: 10)
        failed.status = 3
        try await world.delivery.tell(failed)

        try await world.work(world.extender())

        #expect(world.calls.calls.isEmpty)
        #expect(try await world.callStates() == ["ineligible by judgement billing_retry"])
        await world.delivery.close()
    }

    @Test func extension_whileEverythingIsPaused_waits() async throws {
        let world = try await ExtensionWorld.make()
        try await world.subscribe("1")
        try await world.requestOne("1")
        try await world.delivery.setPause(nil, true)
        let extender = world.extender()

        try await world.work(extender)
        let paused = world.calls.calls.count
        try await world.delivery.setPause(nil, false)
        try await world.work(extender)

        #expect(paused == 0)
        #expect(world.calls.calls == ["1 +30"])
        await world.delivery.close()
    }

    @Test func request_madeTwice_changesNothingAndOtherTermsAreRefused() async throws {
        let world = try await ExtensionWorld.make()
        try await world.subscribe("1")
        try await world.subscribe("2")
        try await world.requestOne("1")

        try await world.requestOne("1")
        await #expect(throws: PostgresError.self) { try await world.requestOne("1", days: 31) }
        await #expect(throws: PostgresError.self) { try await world.requestOne("2") }
        await #expect(throws: PostgresError.self) { try await world.requestOne("1", 2) }
        await #expect(throws: PostgresError.self) { try await world.requestOne("77", 3) }

        #expect(try await world.delivery.count("extension_requests") == 1)
        await world.delivery.close()
    }

    @Test func third_withinAYear_isNotEligible() async throws {
        let world = try await ExtensionWorld.make()
        try await world.subscribe("1")
        try await world.tellExtended("1", days: 5, at: 100)
        try await world.tellExtended("1", days: 9, at: 200)

        let now = try await ExtensionForecast.obstacle(
            of: "1", now: world.delivery.now.advanced(by: 300), pool: world.delivery.submitter)
        let later = try await ExtensionForecast.obstacle(
            of: "1", now: world.delivery.now.advanced(by: 366 * 86_400_000),
            pool: world.delivery.submitter)

        #expect(now == .twoWithinAYear)
        #expect(later == nil)
        await world.delivery.close()
    }
}
