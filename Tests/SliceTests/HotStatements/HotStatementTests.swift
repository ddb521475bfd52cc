import Facts
import Foundation
import Postgres
import TestSupport
import Testing

/// Every statement of a loop or a request is about one bucket, so that one shard or partition answers it; and finds its
/// rows by an index. The plans are those of stories that other suites tell.
@Suite(.database) struct HotStatementTests {
    /// What runs for each call, each notification, each check. A name that no story sends any more fails the test.
    private static let hot: Set<String> = [
        // A claim, and the intents of its calls.
        "wakeSleepingChanges", "earliestDueOfBucket", "lockDueSubscriptions", "claimableChanges",
        "importedIncreases", "insertCalls",
        "claimChanges",
        "recordClaims",
        // Leases, and calls that go on.
        "takeOverCalls", "takeOverUnknownCalls", "renewLeases", "heldCalls",
        // Settlement.
        "lockVersions", "lockAndLoadSubscriptions", "settleCalls", "leaveCallsOpen", "settledCalls",
        "leaveChangesUnknown", "requeueChanges", "rejectChanges", "batchesOfCalls",
        // The fold.
        "insertNewEvents", "insertSubscriptionEvents", "loadSubscriptions", "sentChanges",
        "dependentCancellations", "ownCancels", "allSubscriptionEvents", "saveSubscriptions",
        "saveChanges", "recordAnswers", "insertHistory", "correctHistory", "saveCharges",
        "markPutBack",
        "saveCancellation", "correctCancellation", "closeSettledCalls", "reopenCalls",
        "releaseRoles", "saveExtensions", "noteMovedRenewals",
        // Intake and projector.
        "storeArrivals", "waitingSubscriptions", "createSubscriptions", "lockFreeSubscriptions",
        "waitingNotifications", "deleteWaiting",
        // Dependents, with what they tell other programs.
        "takeDueDependents", "markCancelSent", "settleCancelledDependents", "abandonDependent",
        // Status checks, extensions, moved renewals.
        "claimChecks", "settleChecks", "unfoldedSubscriptions", "lockSubscriptions",
        "lockDueExtensions", "freeExtensions", "claimExtension", "settleExtension",
        "takeMovedRenewals",
    ]

    private static let stories: [@Sendable () async throws -> Void] = [
        { try await DeliveryTests().delivery_approvedChange_isSentOnceAndScheduled() },
        { try await DeliveryTests().delivery_noAnswerThreeTimes_checksBeforeSendingAgain() },
        { try await DeliveryTests().delivery_refused_endsWithTheCode() },
        { try await DeliveryTests().delivery_staleToken_isJudgedAgainWithANewID() },
        {
            try await JudgementTests()
                .documentedRefusalOfOneCustomer_whileOthersSucceed_endsTheRow()
        },
        { try await renewingLeases() },
        { try await SpreadSearchTests().queues_foundBucketByBucket_areThoseOfOneSearch() },
        { try await SpreadSearchTests().sleepingChanges_areWokenOnce() },
        { try await DeliveryTests().delivery_fourLanes_sendEachChangeOnceAndWithinTheRate() },
        { try await LateEffectTests().call_whoseProofALateStatementTakesAway_isCheckedAgain() },
        { try await StatusCheckTests().unknownOutcome_whenReconciled_isCheckedAndNeverSent() },
        {
            try await StatusCheckTests()
                .changeSilentTooLong_isCheckedOnceAMargin_andItsDriftIsTold()
        },
        {
            try await LostNotificationsTests()
                .changes_whoseNotificationsAreAllLost_endByReconcilingAlone()
        },
        {
            try await CancellerTests()
                .canceller_stillListed_isADiscrepancy_untilALaterStatementProvesIt()
        },
        {
            try await EveryKindTests()
                .cancel_refusedWhileItsFirstAttemptMayLand_isCheckedUntilItDoes()
        },
        { try await SingleExtensionTests().extension_whenAnswered_isSettledAndTold() },
        { try await MovedRenewalTests().unsentChange_whenRenewalIsExtended_isDatedAnew() },
    ]

    private static func renewingLeases() async throws {
        let connection = try await TestDatabase.connect()
        let call = StoreCall(
            .priceChange, subject: "1", callID: "0190a0a0-0000-7000-8000-000000000001",
            bucket: Bucket.of("1"), carries: ["0190a0a0-0000-7000-8000-000000000002"], intent: "{}")
        let owner = "0190a0a0-0000-7000-8000-000000000003"

        _ = try await connection.pipeline([
            StoreCallQueries.insert([call], owner: owner, leaseUntil: 1, flightTime: 0, now: 0),
            StoreCallQueries.renew([call], until: 2),
        ])
        let leases = try await connection.query(
            "SELECT 1 FROM repricer.store_calls WHERE lease_until = \(timestamp: 2)")

        #expect(leases.count == 1)
        await connection.close()
    }

    private static func plans(
        of template: String = TestCluster.template, settings: [String: String]
    ) async throws -> [StatementPlan] {
        try await withThrowingTaskGroup(of: [StatementPlan].self) { group in
            var waiting = stories[...]
            func begin() {
                guard let story = waiting.popFirst() else { return }
                group.addTask {
                    try await TestDatabase.plans(of: template, settings: settings, in: story)
                }
            }
            (0..<atOnce).forEach { _ in begin() }
            var plans: [StatementPlan] = []
            while let more = try await group.next() {
                plans += more
                begin()
            }
            return plans
        }
    }

    /// So many stories are told side by side. Each waits for its database most of the time.
    private static let atOnce = 4

    /// Whatever a statement asks for by a parameter or of each row by itself: its plan may be made for its values, or for
    /// any.
    @Test(arguments: ["force_custom_plan", "force_generic_plan"])
    func hotStatement_whereTablesAreSpreadByBucket_readsOnePartitionOfEach(mode: String)
        async throws
    {
        let folder = try Self.spreadMigrations()
        let template = try await TestDatabase.makeTemplate(by: folder.path)
        withExtendedLifetime(folder) {}

        let plans = try await Self.plans(
            of: template, settings: ["plan_cache_mode": mode])

        let wide = plans.filter { Self.hot.contains($0.name) }.flatMap { plan in
            Dictionary(grouping: Set(plan.scans.map(\.relation)), by: Self.table)
                .filter { $0.value.count > 1 }.map { "\(plan.name): \($0.key)" }
        }
        #expect(Self.hot.subtracting(plans.map(\.name)).sorted() == [])
        #expect(Set(wide).sorted() == [])
    }

    private static func table(ofPartition name: String) -> String {
        name.replacing(/_of_four_\d$/, with: "")
    }

    /// Whatever the statistics say: first that tables are next to empty, as when they were filled since, then that they are
    /// large. In the first case a table is read from end to end only where no index can serve.
    @Test func hotStatement_findsItsRowsByTheKeyOfAnIndex() async throws {
        let small = try await Self.plans(settings: ["enable_seqscan": "off"])
            .filter { Self.hot.contains($0.name) }
        let connection = try await TestDatabase.connect()
        try await LargeTables.fill(connection)
        var large: [StatementPlan] = []
        for (_, plan) in Dictionary(small.map { ($0.text, $0) }, uniquingKeysWith: { $1 }) {
            large.append(try await plan.explained(on: connection))
        }

        #expect(Self.hot.subtracting(large.map(\.name)).sorted() == [])
        #expect(Self.faults(small) == [])
        #expect(Self.faults(large) == [])
        await connection.close()
    }

    private static func faults(_ plans: [StatementPlan]) -> [String] {
        let faults = plans.flatMap { plan in
            plan.scans.filter { scan in
                !small.contains(scan.relation)
                    && (!scan.hasKey
                        || queues[scan.index ?? ""].map { !$0.contains(plan.name) } ?? false)
            }.map { "\(plan.name): \($0.relation) by \($0.index ?? $0.kind)" }
        }
        return Set(faults).sorted()
    }

    /// Indexes of a bucket's queue, each with the statements that ask for it. Others look up their subscriptions: they
    /// would read a queue from end to end.
    private static let queues: [String: Set<String>] = [
        "price_changes_due": ["lockDueSubscriptions", "earliestDueOfBucket"],
        "inbox_waiting": ["waitingSubscriptions"],
        "dependent_cancellations_open": ["takeDueDependents"],
        "status_checks_due": ["claimChecks"],
        "extension_requests_due": ["lockDueExtensions"],
        "moved_renewals_waiting": ["takeMovedRenewals"],
    ]

    private static let small: Set = [
        "service_controls", "blocking_sessions", "rate_limits", "batches", "bucket_turns",
        "refusal_streaks",
    ]

    /// The keys of notifications and their ids hold the id of the notification, for which no subscription need be known;
    /// refused rows belong to their batch.
    @Test func table_ofSubscriptions_hasTheCheckedBucketInEveryKey() async throws {
        let connection = try await TestDatabase.connect()

        let faults = try await connection.query(
            """
            WITH tables AS (
                SELECT DISTINCT c.oid, c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
                WHERE c.relnamespace = 'repricer'::regnamespace AND c.relkind IN ('r', 'p')
                    AND a.attname IN ('original_transaction_id', 'aggregateid', 'subject')
                    AND c.relname !~ '^notifications' AND c.relname <> 'batch_rejects'
            )
            SELECT t.relname || ' has an unchecked bucket' AS fault FROM tables t
            WHERE NOT EXISTS (
                SELECT FROM pg_constraint k JOIN pg_attribute b ON b.attrelid = t.oid AND b.attname = 'bucket'
                WHERE k.conrelid = t.oid AND b.attnotnull AND b.attgenerated = ''
                    AND pg_get_constraintdef(k.oid) ~ '^CHECK \\(\\(bucket = repricer.bucket_of\\(')
            UNION ALL
            SELECT i.indexrelid::regclass || ' lacks bucket' FROM tables t
            JOIN pg_index i ON i.indrelid = t.oid AND i.indisunique
            WHERE NOT EXISTS (
                SELECT FROM pg_attribute a
                WHERE a.attrelid = t.oid AND a.attname = 'bucket' AND a.attnum = ANY (i.indkey))
            """
        ).map { try $0.text("fault") }

        #expect(faults == [])
        await connection.close()
    }

    @Test func bucket_isTheSameHereAndInTheDatabase() async throws {
        let ids = (0..<200).map { String("2000000é😀0123456789abcdef".prefix($0 % 23)) + "\($0)" }
        let connection = try await TestDatabase.connect()

        let buckets = try await connection.query(
            """
            SELECT repricer.bucket_of(id) AS bucket
            FROM unnest(\(ids)::text[]) WITH ORDINALITY AS t (id, place) ORDER BY place
            """
        ).map { try $0.int("bucket") }

        #expect(buckets == ids.map(Bucket.of))
        await connection.close()
    }

    /// The migrations, but that each table with a bucket has four partitions by its hash.
    private static func spreadMigrations() throws -> ScratchFolder {
        let folder = try ScratchFolder()
        for migration in try Migration.read(directory: RepositoryFiles.path("Migrations")) {
            let text = [
                "price_change_history", "price_change_versions", "subscription_events",
            ].reduce(migration.text) { text, table in
                text.replacing(
                    "CREATE TABLE repricer.\(table)_default PARTITION OF repricer.\(table) DEFAULT;",
                    with: "")
            }
            _ = try folder.file(
                migration.file,
                text.split(separator: "CREATE TABLE repricer.", omittingEmptySubsequences: false)
                    .map(spread).joined(separator: "CREATE TABLE repricer."))
        }
        return folder
    }

    /// - Parameter text: What follows `CREATE TABLE repricer.`, up to the next one.
    private static func spread(_ text: Substring) -> String {
        guard let head = text.prefixMatch(of: /(\w+) \(\n/),
            let end = text.firstMatch(of: /\n\)[^;]*;/),
            text[..<end.range.lowerBound].contains("\n    bucket smallint NOT NULL,\n")
        else { return String(text) }
        let partitions = (0..<4).map { number in
            """
            \nCREATE TABLE repricer.\(head.1)_of_four_\(number) PARTITION OF repricer.\(head.1)
                FOR VALUES WITH (MODULUS 4, REMAINDER \(number));
            """
        }
        return text[..<end.range.lowerBound] + "\n) PARTITION BY HASH (bucket);"
            + partitions.joined() + text[end.range.upperBound...]
    }
}
