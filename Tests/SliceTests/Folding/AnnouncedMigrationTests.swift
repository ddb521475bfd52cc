import AppStore
import Batches
import Calls
import Extensions
import Facts
import Outbox
import Postgres
import PriceChanges
import Reconciliation
import ServiceKit
import TestSupport
import Testing

@testable import Notifications

/// A breaking migration is announced: programs of before fold, store and drop nothing more, for they would write into
/// another schema. A `serve` ends by itself; a command that lasts for days ends with the first thing that it would write.
@Suite(.database) struct AnnouncedMigrationTests {
    private typealias Harness = DeliveryHarness

    fileprivate static func announce(_ lowest: Int) async throws {
        let owner = try await TestDatabase.connect()
        _ = try await owner.execute(
            "UPDATE repricer.service_controls SET lowest_program = \(lowest)")
        await owner.close()
    }

    fileprivate static func announceNow() async {
        do { try await announce(expectedSchemaVersion + 1) } catch { Issue.record(error) }
    }

    @Test func projector_afterTheAnnouncement_foldsNothing_untilItIsWithdrawn() async throws {
        let harness = try await Harness.make()
        try await harness.receive("n", of: "1")
        let projector = Projector(pool: harness.service, log: .silent, metrics: Metrics())
        try await Self.announce(expectedSchemaVersion + 1)

        #expect(try await projector.foldOnce() == 0)
        // Nor does a fold that knew before which subscriptions have work.
        let waiting = try await harness.service.withTransaction {
            try EventQueries.waiting(["1"], on: $0).count
        }
        #expect(waiting == 0)
        #expect(try await harness.count("inbox") == 1)

        try await Self.announce(expectedSchemaVersion)
        #expect(try await projector.foldOnce() == 1)
        #expect(try await harness.count("inbox") == 0)
        await harness.close()
    }

    // MARK: Commands that last

    private static let remedy =
        "the database is for programs of schema version \(expectedSchemaVersion + 1) or newer, this one is of "
        + "\(expectedSchemaVersion); install the release that migrated it"

    /// The work, which a program of before is refused: with the remedy, and with nothing of it done.
    private func expectRefused(
        _ work: () async throws -> Void, sourceLocation: SourceLocation = #_sourceLocation
    ) async {
        let error = await #expect(throws: (any Error).self, sourceLocation: sourceLocation) {
            try await work()
        }
        #expect(
            "\(String(describing: error))".contains(Self.remedy), sourceLocation: sourceLocation)
        if let error = error as? PostgresError {
            #expect(error.sqlState == .programTooOld, sourceLocation: sourceLocation)
            #expect(!isDataFault(error), "no statement is at fault", sourceLocation: sourceLocation)
        }
    }

    /// A list of ids that takes two days: the announcement comes while a status is on its way.
    @Test func sync_whenAMigrationIsAnnouncedMeanwhile_stopsAndWritesNothingOfTheStatus()
        async throws
    {
        let harness = try await Harness.make()
        let at = harness.now
        let sync = Synchronizer(
            pool: harness.service,
            runner: harness.statusChecks(
                AnnouncingStore(
                    StatusStore { .answered([Harness.listed($0, at: at)], StoreReply()) })),
            clock: harness.clock)
        let input = BatchInput(
            Array("original_transaction_id\n1\n2\n3\n".utf8), path: "ids.csv")
        let loaded = try await sync.load(input) { _, _ in }

        await expectRefused {
            var summary = StatusCheckSummary()
            try await sync.run(loaded.list, into: &summary)
        }
        let left = try await harness.count("status_checks WHERE done_at IS NULL")
        let known = try await harness.count("subscriptions")

        #expect(left > 0)
        #expect(known == 3 - left)
        #expect(try await harness.count("subscription_events") == known)
        await harness.close()
    }

    @Test func intake_afterTheAnnouncement_storesNothing_neitherOverHTTPNorFromAFile()
        async throws
    {
        let harness = try await Harness.make()
        try await harness.receive("known", of: "1")
        try await Self.announce(expectedSchemaVersion + 1)

        await expectRefused { try await harness.receive("new", of: "1") }
        // Whoever reads a file tells it from a database that is away, and does not come again.
        await #expect(throws: ArrivalError.outdated(Self.remedy)) {
            try await harness.receive("new", of: "1")
        }
        // What is there already is asked for, too: to say "known" is to say "stored".
        await expectRefused { try await harness.receive("known", of: "1") }

        #expect(try await harness.count("notification_ids") == 1)
        #expect(try await harness.count("notifications") == 1)
        #expect(try await harness.count("inbox") == 1)
        await harness.close()
    }

    @Test func reprocess_afterTheAnnouncement_putsNothingBack() async throws {
        let harness = try await Harness.make()
        try await harness.receive("n", of: "1")
        try await harness.write("DELETE FROM repricer.inbox")
        try await Self.announce(expectedSchemaVersion + 1)

        await expectRefused {
            _ = try await Reprocessor(pool: harness.service, log: .silent).run(
                since: 0, all: true)
        }

        #expect(try await harness.count("inbox") == 0)
        #expect(try await harness.count("subscriptions") == 0)
        await harness.close()
    }

    @Test func retention_afterTheAnnouncement_dropsAndDeletesNothing() async throws {
        let owners = DatabasePool(
            conninfo: TestDatabase.url, applicationName: "retention", size: 1)
        let later: Int64 = 4_000_000_000_000
        _ = try await owners.withTransaction {
            try (
                MonthPartitions.prepare(.history, now: 1, monthsAhead: 1, on: $0),
                MonthPartitions.prepare(.notifications, now: 1, monthsAhead: 1, on: $0)
            )
        }
        let (month, evidence) = try await owners.withTransaction {
            (
                try MonthRetention.candidates(of: .history, before: later, on: $0).first,
                try EvidenceRetention.candidates(before: later, on: $0).first
            )
        }
        let (oldMonth, oldEvidence) = (try #require(month), try #require(evidence))
        var work: [@Sendable (isolated DatabaseConnection) throws -> Void] = [
            { _ = try MonthRetention.drop(oldMonth, before: later, on: $0) },
            { _ = try MonthRetention.dropStrays(of: .versions, before: 1, limit: 1, on: $0) },
            { _ = try EvidenceRetention.drop(oldEvidence, on: $0) },
            { _ = try EvidenceRetention.forgetIDs(of: 0..<1, limit: 1, on: $0) },
        ]
        for rows in OldRows.allCases {
            work.append { _ = try rows.delete(of: 0..<1, before: 1, limit: 1, on: $0) }
        }
        try await Self.announce(expectedSchemaVersion + 1)

        for body in work {
            await expectRefused { try await owners.withTransaction { try body($0) } }
        }

        let left = try await owners.withTransaction {
            (
                try MonthRetention.candidates(of: .history, before: later, on: $0).first,
                try EvidenceRetention.candidates(before: later, on: $0).first
            )
        }
        #expect(left.0 == month && left.1 == evidence)
        await owners.close()
    }

    @Test func outbox_afterTheAnnouncement_isNeitherReplayedNorPrunedNorSent() async throws {
        let harness = try await Harness.make()
        try await Self.announce(expectedSchemaVersion + 1)

        await expectRefused {
            _ = try await harness.service.withTransaction {
                try WebhookQueries.replay(.init(), at: 1, on: $0)
            }
        }
        await expectRefused {
            _ = try await harness.service.withTransaction {
                try WebhookQueries.prune(before: 1, limit: 1, on: $0)
            }
        }
        await expectRefused {
            _ = try await harness.service.withTransaction {
                try WebhookQueries.takeDue(realNow: 1, leaseUntil: 2, limit: 1, on: $0)
            }
        }
        await harness.close()
    }

    /// It ends with the remedy, and neither statuses nor anything else are asked for after it.
    @Test func reconcile_afterTheAnnouncement_endsWithTheRemedy() async throws {
        let harness = try await Harness.make()
        let history = ScriptedHistory([
            .init(payload: "one", at: harness.clock.nowMilliseconds() - 1000)
        ])
        let (_, failure) = try #require(
            try await harness.reconciler(history, OutdatedIntake(why: Self.remedy)).runOnce())

        #expect(failure as? ReconcileError == .outdated(Self.remedy))
        #expect("\(String(describing: failure))" == "Optional(\(Self.remedy))")
        #expect(try await harness.count("status_checks") == 0)
        await harness.close()
    }

    @Test func redating_andTheEndOfARecovery_doNothing() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.write(
            """
            INSERT INTO repricer.moved_renewals (original_transaction_id, bucket, moved_at)
            SELECT original_transaction_id, bucket, now() FROM repricer.subscriptions
            """)
        let bucket = try #require(
            try await harness.service.withTransaction { try RedatingQueries.nextBucket(on: $0) })
        func taken() async throws -> [String] {
            try await harness.service.withTransaction {
                try RedatingQueries.take(bucket: bucket, limit: 1, on: $0)
            }
        }
        try await Self.announce(expectedSchemaVersion + 1)

        #expect(try await taken().isEmpty)
        await expectRefused {
            try await harness.service.withTransaction {
                try RecoveryQueries.parkUnread(in: .init(.recover, id: ""), until: 1, on: $0)
            }
        }

        try await Self.announce(expectedSchemaVersion)
        #expect(try await taken() == ["1"])
        await harness.close()
    }

    @Test func summaryOfAMassExtension_isFoldedByTheNewProgram() async throws {
        let harness = try await ExtensionHarness.make()
        try await harness.receiveSummary(9, succeeded: 1, failed: 0)
        func waiting() async throws -> Int {
            try await harness.delivery.service.withTransaction {
                try MassExtensionQueries.waitingSummaries(limit: 1, on: $0).count
            }
        }
        try await Self.announce(expectedSchemaVersion + 1)
        #expect(try await waiting() == 0)

        try await Self.announce(expectedSchemaVersion)
        #expect(try await waiting() == 1)
        await harness.delivery.close()
    }

    /// Who began with the old release decides nothing more; what only holds calls back passes.
    @Test func decisions_afterTheAnnouncement_areRefused_butForAPause() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        let batchID = try await harness.submit([Harness.row("1")])
        try await Self.announce(expectedSchemaVersion + 1)

        await expectRefused {
            _ = try await harness.submit([Harness.row("1", "B")], content: "other")
        }
        await expectRefused { try await harness.approve(batchID) }
        try await harness.setPause(nil, true)
        await expectRefused { try await harness.setPause(nil, false) }

        #expect(try await harness.count("batches WHERE state = 'approved'") == 0)
        #expect(try await harness.count("batches") == 1)
        #expect(try await harness.count("service_controls WHERE is_paused") == 1)
        await harness.close()
    }

    /// The migration waits for it.
    @Test func answerOfACall_thatIsOutAtTheAnnouncement_isStillWritten() async throws {
        let harness = try await ExtensionHarness.make()
        try await harness.subscribe("1")
        try await harness.requestOne("1")

        try await harness.work(harness.extender(calls: AnnouncingExtensions(inner: harness.calls)))

        #expect(harness.calls.calls == ["1 +30"])
        #expect(try await harness.callStates() == ["extended by answer"])
        await harness.delivery.close()
    }

    /// So it is with price changes, of which one goes out.
    @Test func priceChange_thatIsOutAtTheAnnouncement_isStillSettled_andNoOtherGoesOut()
        async throws
    {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])

        try await harness.deliver(
            harness.scheduler(calls: AnnouncingStore(harness.store)))

        #expect(try await harness.changes() == ["A scheduled"])
        await harness.close()
    }
}

/// What stores nothing more, because the database is for newer programs.
private struct OutdatedIntake: HistoryIntake {
    let why: String

    func take(_ signedPayload: String) async -> IntakeOutcome { .outdated(why) }
}

/// An App Store during whose answers the migration is announced.
private struct AnnouncingStore: StoreCalls {
    let inner: any StoreCalls

    init(_ inner: any StoreCalls) {
        self.inner = inner
    }

    func changePrice(
        _ intent: PriceChangeIntent, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer {
        let answer = await inner.changePrice(intent, leavingBefore: leavingBefore)
        await AnnouncedMigrationTests.announceNow()
        return answer
    }

    func checkStatus(transactionID: String) async -> StoreAnswer {
        let answer = await inner.checkStatus(transactionID: transactionID)
        await AnnouncedMigrationTests.announceNow()
        return answer
    }
}

private struct AnnouncingExtensions: ExtensionCalls {
    let inner: any ExtensionCalls

    func extend(
        originalTransactionID: String, _ request: ExtensionRequest,
        leavingBefore: ContinuousClock.Instant?
    ) async -> CallOutcome<ExtensionAnswer> {
        let answer = await inner.extend(
            originalTransactionID: originalTransactionID, request, leavingBefore: leavingBefore)
        await AnnouncedMigrationTests.announceNow()
        return answer
    }

    func extendAll(
        _ request: MassExtensionRequest, leavingBefore: ContinuousClock.Instant?
    ) async -> CallOutcome<String> {
        await inner.extendAll(request, leavingBefore: leavingBefore)
    }

    func extensionStatus(
        productID: String, requestIdentifier: String
    ) async -> CallOutcome<MassExtensionStatus> {
        await inner.extensionStatus(productID: productID, requestIdentifier: requestIdentifier)
    }
}
