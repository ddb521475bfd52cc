import AppStore
import Calls
import Postgres
import TestSupport
import Testing

@testable import Pricing

/// Cancels of dependents whose answers don't come or mean nothing, and processes that die amid them.
@Suite(.database) struct CancelTroubleTests {
    private typealias Harness = DeliveryHarness

    @Test(arguments: [
        [CancellingStore.Reply.lost], [.unavailable], [.unavailable, .lost],
        [.unavailable, .unavailable, .unavailable, .unavailable],
    ])
    func cancel_outcomeUnknown_keepsItsIDUntilProved(replies: [CancellingStore.Reply]) async throws
    {
        let harness = try await Harness.declined()
        let store = harness.cancellingStore(replies)

        try await harness.run(harness.canceller(store), rounds: 12)

        #expect(try await harness.dependents() == ["2/FAR confirmed"])
        #expect(Set(store.calls.map(\.requestReferenceID)).count == 1)
        #expect(store.applied.count == 1)
        #expect(try await harness.count("store_calls WHERE kind = 'cancel'") == 1)
        await harness.close()
    }

    @Test(arguments: [
        CancellingStore.Reply.notSent, .throttled(until: Harness.start),
        .refused(.refresh, code: 4_000_082),
    ])
    func cancel_certainlyNotApplied_isJudgedAnewUnderANewID(reply: CancellingStore.Reply)
        async throws
    {
        let harness = try await Harness.declined()
        let store = harness.cancellingStore([reply])
        let canceller = harness.canceller(store)

        for _ in 0..<4 {
            try await harness.run(canceller)
            harness.clock.advance(by: .seconds(61))
        }

        #expect(try await harness.dependents() == ["2/FAR confirmed"])
        #expect(Set(store.calls.map(\.requestReferenceID)).count == 2)
        #expect(store.applied.count == 1)
        #expect(
            try await harness.told() == [
                "requested", "cancel_sent", "requested", "cancel_sent", "confirmed",
            ])
        await harness.close()
    }

    @Test(arguments: [
        (StoreRefusal.Meaning.haltService, 4_010_000), (.suspect, 4_000_999), (.suspect, 4_040_010),
    ])
    func cancel_refusedForReasonsThatNobodyKnows_isParked_andJudgedAnew(
        meaning: StoreRefusal.Meaning, code: Int
    ) async throws {
        let harness = try await Harness.declined()
        let store = harness.cancellingStore([.refused(meaning, code: code)])
        let canceller = harness.canceller(store)
        func halt() async throws -> String? {
            try await harness.service.withConnection { connection in
                try await connection.query("SELECT halted_reason FROM repricer.service_controls")
                    .one().textOrNil("halted_reason")
            }
        }

        try await harness.run(canceller)
        let early = store.calls.count
        harness.clock.advance(by: .seconds(150))
        harness.realClock.advance(by: .seconds(150))
        try await harness.run(canceller, rounds: 2)

        #expect(try await halt() == nil)
        #expect(early == 1)
        #expect(store.calls.count == 2)
        #expect(Set(store.calls.map(\.requestReferenceID)).count == 2)
        #expect(try await harness.dependents() == ["2/FAR confirmed"])
        await harness.close()
    }

    /// Its first attempt had no answer, and the subscription changed before the second: nothing for a person yet.
    @Test func cancel_staleTokenOnARetry_isChecked_thenJudgedAnewUnderANewID() async throws {
        let harness = try await Harness.declined()
        let store = harness.cancellingStore([.unavailable, .refused(.refresh, code: 4_000_082)])

        try await harness.run(harness.canceller(store), rounds: 16)

        #expect(try await harness.dependents() == ["2/FAR confirmed"])
        #expect(store.calls.count == 3)
        #expect(Set(store.calls.map(\.requestReferenceID)).count == 2)
        #expect(store.applied.count == 1)
        #expect(store.checks.count >= 4)
        await harness.close()
    }

    @Test func cancel_tokenStaleEachTime_isTriedSoonOnce_thenWaitsLongerEachTime() async throws {
        let harness = try await Harness.declined()
        let stale = CancellingStore.Reply.refused(.refresh, code: 4_000_082)
        let store = harness.cancellingStore(Array(repeating: stale, count: 5))
        let canceller = harness.canceller(store)
        func pass(_ halfMinutes: Int) async throws {
            for _ in 0..<halfMinutes {
                _ = try await canceller.round()
                harness.clock.advance(by: .seconds(30))
                harness.realClock.advance(by: .seconds(30))
            }
        }

        try await pass(3)
        let soon = store.calls.count
        try await pass(60)
        let later = store.calls.count
        try await pass(150)

        #expect(soon == 2)
        #expect((4...5).contains(later))
        #expect(store.calls.count == 6)
        #expect(try await harness.dependents() == ["2/FAR confirmed"])
        await harness.close()
    }

    /// The App Store refuses the very token that its status still shows.
    @Test func cancel_sameTokenShownAgain_goesOnceWithoutIt_thenWaits() async throws {
        let harness = try await Harness.declined()
        let stale = CancellingStore.Reply.refused(.refresh, code: 4_000_082)
        let store = harness.cancellingStore(Array(repeating: stale, count: 3))
        let canceller = harness.canceller(store)

        for _ in 0..<80 {
            _ = try await canceller.round()
            harness.clock.advance(by: .seconds(30))
            harness.realClock.advance(by: .seconds(30))
        }

        let tokens = store.calls.map { $0.consistencyToken ?? "none" }
        #expect(tokens == ["token-false", "none", "token-false", "none"])
        #expect(Set(store.calls.map(\.requestReferenceID)).count == 4)
        #expect(try await harness.dependents() == ["2/FAR confirmed"])
        await harness.close()
    }

    @Test func cancel_refused_isCheckedBeforeItIsBelieved_thenForAPerson() async throws {
        let harness = try await Harness.declined()
        let store = harness.cancellingStore(
            Array(repeating: .refused(.reject, code: 4_030_010), count: 9))

        try await harness.run(harness.canceller(store), rounds: 8)

        #expect(try await harness.dependents() == ["2/FAR discrepancy"])
        #expect(
            try await harness.dependentDetail() == "Cancel a Subscription was refused with 4030010")
        #expect(store.calls.count == 1)
        #expect(store.checks.count >= 4)
        await harness.close()
    }

    @Test func cancel_answeredButStillRenewing_isForAPerson_andNotCalledAgain() async throws {
        let harness = try await Harness.declined()
        let store = harness.cancellingStore([.hollow])

        try await harness.run(harness.canceller(store), rounds: 8)

        #expect(try await harness.dependents() == ["2/FAR discrepancy"])
        #expect(store.calls.count == 1)
        await harness.close()
    }

    @Test(arguments: [CancellingStore.Reply.diesBefore, .dies])
    func cancel_processDies_anotherCarriesOnWithTheSameID(reply: CancellingStore.Reply) async throws
    {
        let harness = try await Harness.declined()
        let store = harness.cancellingStore([reply])
        let pool = try await harness.mortalPool()
        let dying = harness.canceller(store, pool: pool)
        let abandoned = Task { try await dying.round() }
        while store.calls.isEmpty { await Task.yield() }
        #expect(try await harness.dependents() == ["2/FAR cancel_sent"])
        await pool.close()

        // Its lease holds: nobody else calls.
        let heir = harness.canceller(store)
        _ = try await heir.round()
        #expect(store.calls.count == 1)
        harness.realClock.advance(by: .seconds(11))
        try await harness.run(heir, rounds: 2)

        #expect(try await harness.dependents() == ["2/FAR confirmed"])
        #expect(store.calls.count == 2)
        #expect(Set(store.calls.map(\.requestReferenceID)).count == 1)
        #expect(store.applied.count == 1)
        abandoned.cancel()
    }

    /// The App Store does not know the subscription any more, or never did: neither called on nor checked for ever.
    @Test(arguments: ["2/FAR", "B"])
    func check_refusedForGood_isForAPerson(name: String) async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1", items: ["A", "B"])
        try await harness.subscribe("2", items: ["FAR"])
        try await harness.raise(dependents: [name])
        try await harness.tellIncrease("PENDING", on: 13)
        harness.run(to: 40)
        // Without renewal info, so that B's end is not proved yet.
        try await harness.tell(
            SubscriptionEvent(
                key: .init(signedAt: harness.at(40), evidenceID: "renewed"), source: .notification,
                originalTransactionID: "1", type: "DID_RENEW", status: 1,
                transaction: TransactionStatement(
                    transactionID: "t2-1", purchasedAt: harness.at(40), expiresAt: harness.at(70),
                    reason: "RENEWAL", storefront: "USA", currency: "USD", period: "P1M",
                    items: [StatementItem(sku: "OTHER", price: 4990)])))
        #expect(try await harness.dependents() == ["\(name) requested"])
        let store = harness.cancellingStore()
        store.refuseChecks(4_040_010)

        try await harness.run(harness.canceller(store), rounds: 9)
        let early = try await harness.dependents()
        try await harness.run(harness.canceller(store), rounds: 5)

        #expect(early == ["\(name) requested"])
        #expect(try await harness.dependents() == ["\(name) discrepancy"])
        #expect(
            try await harness.dependentDetail()?.contains(
                "refused with 4040010 TransactionIdNotFoundError") == true)
        // The second process has to see for itself that it is refused again and again.
        #expect(store.checks.count == 12)
        #expect(store.calls.isEmpty)
        await harness.close()
    }

    /// The check waits, too: what it reads would be old by the time of the call.
    @Test func cancel_toldToComeBackLater_isCheckedAndSentThen() async throws {
        let harness = try await Harness.declined()
        let store = harness.cancellingStore([.overloaded(retryAfter: .seconds(120))])
        try await harness.run(harness.canceller(store))
        let before = store.checks.count

        try await harness.run(harness.canceller(store), rounds: 3)
        let meanwhile = (store.checks.count - before, store.calls.count)
        harness.clock.advance(by: .seconds(120))
        try await harness.run(harness.canceller(store), rounds: 4)

        #expect(meanwhile == (0, 1))
        #expect(store.calls.count == 2)
        #expect(try await harness.dependents() == ["2/FAR confirmed"])
        await harness.close()
    }

    /// What the status of its own subscription shows needs none of the parent's.
    @Test func cancel_appliedWithoutAnAnswer_isConfirmed_thoughTheParentsStatusIsRefused()
        async throws
    {
        let harness = try await Harness.declined()
        let store = harness.cancellingStore([.lost])
        try await harness.run(harness.canceller(store))
        store.refuseChecks(4_040_010, of: "1")

        try await harness.run(harness.canceller(store), rounds: 2)

        #expect(try await harness.dependents() == ["2/FAR confirmed"])
        await harness.close()
    }

    /// Whether the customer has the parent again is not known, so the call does not go once more.
    @Test func cancel_unappliedWithoutAnAnswer_isForAPerson_whereTheParentsStatusStaysRefused()
        async throws
    {
        let harness = try await Harness.declined()
        let store = harness.cancellingStore([.unavailable])
        try await harness.run(harness.canceller(store))
        store.refuseChecks(4_040_010, of: "1")

        try await harness.run(harness.canceller(store), rounds: 20)

        #expect(store.calls.count == 1)
        #expect(try await harness.dependents() == ["2/FAR discrepancy"])
        #expect(try await harness.dependentDetail()?.contains("or of a parent, is refused") == true)
        await harness.close()
    }

    /// The call was applied and its answer lost, and the customer has turned the renewal on again. Apple told both before the
    /// call could be repeated, in whatever order.
    @Test(
        arguments: [CancellingStore.Reply.lost, .refused(.haltService, code: 404)], [false, true])
    func cancel_appliedWithoutAnAnswer_andRenewedByTheCustomer_isNotRepeated(
        reply: CancellingStore.Reply, isLateFirst: Bool
    ) async throws {
        let harness = try await Harness.declined()
        let store = harness.cancellingStore([reply])
        try await harness.run(harness.canceller(store))
        store.turnOn("2")
        let at = harness.clock.nowMilliseconds()
        let told = [(0, 500), (1, 20_000)].map { Self.toldRenewal($0, at: at + Int64($1)) }
        for event in isLateFirst ? told.reversed() : told { try await harness.tell(event) }
        for _ in 0..<10 {
            harness.clock.advance(by: .seconds(60))
            harness.realClock.advance(by: .seconds(60))
            try await harness.run(harness.canceller(store), rounds: 1)
        }

        #expect(store.calls.count == 1)
        #expect(try await harness.dependents() == ["2/FAR confirmed"])
        await harness.close()
    }

    /// The same where Apple told it only after the call had been given up.
    @Test func cancel_givenUpWithoutAnAnswer_andRenewedByTheCustomer_isNotCalledAnew() async throws
    {
        let harness = try await Harness.declined()
        let store = harness.cancellingStore([.refused(.haltService, code: 404)])
        let canceller = harness.canceller(store)
        try await harness.run(canceller)
        let at = harness.clock.nowMilliseconds()
        // Its status shows nothing of it until the call cannot be on its way any more. Then the dependent is requested anew.
        for _ in 0..<12 where try await harness.dependents() == ["2/FAR cancel_sent"] {
            harness.clock.advance(by: .seconds(20))
            harness.realClock.advance(by: .seconds(20))
            try await harness.run(canceller, rounds: 1)
        }
        #expect(try await harness.dependents() == ["2/FAR requested"])
        for (renews, later) in [(0, 500), (1, 20_000)] {
            try await harness.tell(Self.toldRenewal(renews, at: at + Int64(later)))
        }
        for _ in 0..<30 {
            harness.clock.advance(by: .seconds(60))
            harness.realClock.advance(by: .seconds(60))
            try await harness.run(canceller, rounds: 1)
        }

        #expect(store.calls.count == 1)
        #expect(try await harness.dependents() == ["2/FAR confirmed"])
        await harness.close()
    }

    private static func toldRenewal(_ renews: Int, at: Int64) -> SubscriptionEvent {
        SubscriptionEvent(
            key: .init(signedAt: Instant(milliseconds: at), evidenceID: "told \(renews)"),
            source: .notification, originalTransactionID: "2", type: "DID_CHANGE_RENEWAL_STATUS",
            subtype: renews == 1 ? "AUTO_RENEW_ENABLED" : "AUTO_RENEW_DISABLED", status: 1,
            renewal: RenewalStatement(
                autoRenewStatus: renews, items: [StatementItem(sku: "FAR", price: 4990)]))
    }

    /// A status that shows neither the target nor the parent tells nothing of them: the call does not go again on it.
    @Test func cancel_unansweredAndStatusesShowNothingOfIt_isNotRepeated_thenForAPerson()
        async throws
    {
        let harness = try await Harness.declined()
        let store = harness.cancellingStore([.unavailable])
        try await harness.run(harness.canceller(store))
        #expect(store.calls.count == 1)

        store.answerChecks(.answered([], StoreReply(httpStatus: 200)))
        for _ in 0..<20 {
            harness.clock.advance(by: .seconds(120))
            harness.realClock.advance(by: .seconds(120))
            try await harness.run(harness.canceller(store), rounds: 1)
        }

        #expect(store.calls.count == 1)
        #expect(try await harness.dependents() == ["2/FAR discrepancy"])
        await harness.close()
    }

    @Test func cancel_unansweredAndChecksRefusedForGood_isForAPerson() async throws {
        let harness = try await Harness.declined()
        let store = harness.cancellingStore([.lost])
        let canceller = harness.canceller(store)

        try await harness.run(canceller)
        #expect(try await harness.dependents() == ["2/FAR cancel_sent"])
        store.refuseChecks(4_040_010)
        try await harness.run(canceller, rounds: 20)

        #expect(try await harness.dependents() == ["2/FAR discrepancy"])
        #expect(
            try await harness.dependentDetail()?.hasPrefix(
                "whether Cancel a Subscription was applied is unknown") == true)
        await harness.close()
    }

    /// Whether they were applied is not known, and nothing was learnt of any of them.
    @Test func cancelsUnanswered_andStatusesRefusedAlike_endNothing_untilOneIsAnswered()
        async throws
    {
        let (harness, store) = try await Harness.declined(through: 7)
        store.setReplies(Array(repeating: .lost, count: 60))
        let canceller = harness.canceller(store)
        try await harness.run(canceller, rounds: 3)
        store.refuseChecks(4_040_010)

        try await harness.run(canceller, rounds: 140)
        let whileAlike = try await harness.dependents()
        store.refuseChecks(nil)
        try await harness.run(canceller, rounds: 4)

        #expect(whileAlike.filter { $0.hasSuffix("discrepancy") } == [])
        #expect(try await harness.dependents().allSatisfy { $0.hasSuffix("confirmed") })
        await harness.close()
    }

    /// Nobody knew its status in many checks, because none was answered. Then one refusal says no more than any other one.
    @Test func statusWithoutAnAnswer_isNoRefusedStatus() async throws {
        let (harness, store) = try await Harness.declined(through: 2)
        store.refuseChecks(4_040_010)
        let canceller = harness.canceller(store)
        try await harness.write("UPDATE repricer.dependent_cancellations SET checks = 9")

        try await harness.run(canceller)
        let afterOne = try await harness.dependents()
        try await harness.run(canceller, rounds: 4)

        #expect(afterOne.allSatisfy { $0.hasSuffix("requested") } && !afterOne.isEmpty)
        #expect(try await harness.dependents().allSatisfy { $0.hasSuffix("discrepancy") })
        await harness.close(isTamperedWith: true)
    }

    /// However long it takes.
    @Test func dependentsWhoseStatusesAreRefusedAlikeForDays_endNothing() async throws {
        let (harness, store) = try await Harness.declined(through: 7)
        store.refuseChecks(4_040_010)
        let canceller = harness.canceller(store)
        try await harness.run(canceller)
        try await harness.write("UPDATE repricer.dependent_cancellations SET checks = 5000")

        try await harness.run(canceller, rounds: 2)
        let whileAlike = try await harness.dependents()
        store.refuseChecks(nil)
        try await harness.run(canceller, rounds: 4)

        #expect(whileAlike.filter { $0.hasSuffix("discrepancy") } == [])
        #expect(try await harness.dependents().allSatisfy { $0.hasSuffix("confirmed") })
        await harness.close(isTamperedWith: true)
    }

    @Test func statusesOfDependents_areSilentOnceOneMeetsA429() async throws {
        let (harness, store) = try await Harness.declined(through: 11)
        let until = harness.now.advanced(by: 600_000)
        store.answerChecks(.throttled(until: until, StoreReply(httpStatus: 429)))
        let canceller = harness.canceller(store)

        try await harness.run(canceller)
        let asked = store.checks.count
        store.answerChecks(nil)
        harness.clock.set(until.milliseconds)
        harness.realClock.advance(by: .seconds(600))
        try await harness.run(canceller, rounds: 12)

        #expect(asked == 1)
        #expect(try await harness.dependents().allSatisfy { $0.hasSuffix("confirmed") })
        await harness.close()
    }

    /// Statuses are shared with all other checks, and none is needed of what may not be cancelled.
    @Test(arguments: ["batch", "all", "silence"])
    func cancelThatMayNotLeave_readsNoStatus(why: String) async throws {
        let harness = try await Harness.declined()
        let store = harness.cancellingStore()
        let canceller = harness.canceller(store)
        let batch = try await harness.texts("SELECT batch_id::text AS text FROM repricer.batches")
        let paused = why == "batch" ? batch.first : nil
        if why == "silence" {
            let cancels = CallPermitSource(
                pool: harness.service, endpoint: "cancel", perSecond: 5, clock: harness.clock)
            _ = try await cancels.lease(1)
            try await cancels.block(until: harness.now.advanced(by: 3_600_000))
        } else {
            try await harness.setPause(paused, true)
        }

        try await harness.run(canceller, rounds: 20)
        let checks = store.checks
        if why == "silence" {
            harness.clock.advance(by: .seconds(3600))
            harness.realClock.advance(by: .seconds(3600))
        } else {
            try await harness.setPause(paused, false)
        }
        try await harness.run(canceller, rounds: 3)

        #expect(checks == [])
        #expect(store.calls.count == 1)
        #expect(try await harness.dependents() == ["2/FAR confirmed"])
        await harness.close()
    }

    @Test func cancel_everythingPaused_waits() async throws {
        let harness = try await Harness.declined()
        let store = harness.cancellingStore()
        let canceller = harness.canceller(store)
        try await harness.setPause(nil, true)

        try await harness.run(canceller, rounds: 3)
        #expect(store.calls == [])
        #expect(try await harness.dependents() == ["2/FAR requested"])
        try await harness.setPause(nil, false)
        try await harness.run(canceller, rounds: 2)

        #expect(try await harness.dependents() == ["2/FAR confirmed"])
        await harness.close()
    }

    @Test func cancel_twoReplicasAtOnce_callOnce() async throws {
        let harness = try await Harness.declined()
        let store = harness.cancellingStore()
        let (left, right) = (harness.canceller(store), harness.canceller(store))

        for _ in 0..<3 {
            async let first = left.round()
            async let second = right.round()
            _ = try await (first, second)
            harness.realClock.advance(by: .seconds(31))
        }

        #expect(try await harness.dependents() == ["2/FAR confirmed"])
        #expect(store.calls.count == 1)
        await harness.close()
    }
}
