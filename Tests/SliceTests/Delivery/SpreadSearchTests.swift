import Batches
import Facts
import Foundation
import Postgres
import TestSupport
import Testing

@testable import PriceChanges

/// The searches of a spread database find what those of a plain one find.
@Suite(.database) struct SpreadSearchTests {
    private typealias Harness = DeliveryHarness

    private typealias Story = @Sendable () async throws -> Void

    private static let stories: [(name: String, body: Story)] = [
        (
            "sent once",
            { try await DeliveryTests().delivery_approvedChange_isSentOnceAndScheduled() }
        ),
        (
            "paused",
            { try await DeliveryTests().delivery_unapprovedOrPausedOrAborted_isNeverSent() }
        ),
        (
            "no answer",
            { try await DeliveryTests().delivery_noAnswerThreeTimes_checksBeforeSendingAgain() }
        ),
        ("process died", takenOver),
        ("refused", { try await DeliveryTests().delivery_refused_endsWithTheCode() }),
        ("wave", { try await WaveTests().wave_heldByHand_waitsForAPersonAfterTheApproval() }),
        ("halted", { try await HaltTests().batch_whenTooManyAreRefused_isHaltedAndSaysWhy() }),
        (
            "halted storefront",
            { try await HaltTests().haltedStorefront_beforeItsRowsAreParked_isNotClaimed() }
        ),
        ("probe", { try await ProbeTests().probe_findsTheOneThatIsAnswered() }),
        (
            "extended",
            { try await SingleExtensionTests().extension_whenAnswered_isSettledAndTold() }
        ),
        (
            "extended, answer lost",
            {
                try await SingleExtensionTests()
                    .extension_whenAnswerIsLost_isRepeatedUnderTheSameIdentifier()
            }
        ),
        (
            "extended, told before it was called again",
            {
                try await SingleExtensionTests()
                    .extension_whenAnswerIsLostAndTold_needsNoFurtherCall()
            }
        ),
        (
            "extending process died",
            { try await SingleExtensionTests().extension_whenItsProcessDied_isRepeatedByAnother() }
        ),
        (
            "extending paused",
            { try await SingleExtensionTests().extension_whileEverythingIsPaused_waits() }
        ),
        (
            "all extended",
            { try await MassExtensionTests().massExtension_whenApproved_runsUntilItsSummary() }
        ),
    ]

    private static func takenOver() async throws {
        try await DeliveryTests()
            .delivery_processDiedWithACallInFlight_anotherTakesOverWithTheSameID()
    }

    @Test(arguments: stories.map(\.name))
    func story_whereTheDatabaseIsSpread_endsTheSame(name: String) async throws {
        let story = try #require(Self.stories.first { $0.name == name })

        try await DatabaseLayout.$assumed.withValue(.spread) { try await story.body() }
    }

    @Test func queues_foundBucketByBucket_areThoseOfOneSearch() async throws {
        let harness = try await Harness.make()
        let ids = (1...40).map { "\($0)" }
        for id in ids { try await harness.subscribe(id) }
        _ = try await harness.submitAndApprove(ids.map { Harness.row($0) })
        let realNow = harness.realClock.nowMilliseconds()

        let (all, each) = try await harness.service.withTransaction { connection in
            let busy = try connection.ask(DueQueries.busyBuckets)
            return (
                try connection.ask(DueQueries.earliest(realNow: realNow)),
                try connection.ask(DueQueries.earliest(inEach: busy, realNow: realNow))
            )
        }

        #expect(!all.isEmpty)
        #expect(Set(all) == Set(each))
        #expect(each.map(\.sendBy) == all.map(\.sendBy))
        await harness.close()
    }

    /// Whoever wakes them asks again: between the search and the lock another process may have done it.
    @Test func sleepingChanges_areWokenOnce() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.subscribe("2")
        _ = try await harness.submitAndApprove([Harness.row("1"), Harness.row("2")])
        let now = Harness.start.milliseconds
        try await harness.write(
            """
            UPDATE repricer.price_changes SET is_ready = false,
                send_after = \(timestamp: now)::timestamptz + CASE original_transaction_id
                    WHEN '1' THEN interval '0' ELSE interval '1 day' END
            """)

        let (sleeping, woken, again) = try await harness.service.withTransaction { connection in
            let sleeping = try connection.ask(DueQueries.sleeping(from: nil, now: now, limit: 10))
            return (
                sleeping, try connection.ask(DueQueries.waking(sleeping, now: now)),
                try connection.ask(DueQueries.waking(sleeping, now: now))
            )
        }

        #expect(sleeping.map(\.originalTransactionID) == ["1"])
        #expect(woken == 1)
        #expect(again == 0)
        await harness.close()
    }
}
