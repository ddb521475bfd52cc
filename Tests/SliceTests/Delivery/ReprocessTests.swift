import AppStore
import Postgres
import ServiceKit
import TestSupport
import Testing

@testable import Notifications
@testable import Pricing

/// An upgrade knows more than the version that stored: `reprocess` reads the evidence anew.
@Suite(.database) struct ReprocessTests {
    private typealias Harness = DeliveryHarness

    private func reprocess(
        _ harness: Harness, since: Int64 = 0, all: Bool = false
    ) async throws -> Reprocessor.Summary {
        try await Reprocessor(pool: harness.service, log: .silent).run(since: since, all: all)
    }

    private func fold(_ harness: Harness) async throws -> Int {
        try await Projector(pool: harness.service, log: .silent, metrics: Metrics()).foldOnce()
    }

    /// As an owner: what an older version would have left.
    private func leave(_ sql: SQL) async throws {
        let owner = try await TestDatabase.connect()
        _ = try await owner.execute(sql)
        await owner.close()
    }

    /// Stored by a version that did not know the type: neither work nor understood.
    private func forget(_ harness: Harness) async throws {
        try await leave("DELETE FROM repricer.inbox")
        try await leave(
            """
            UPDATE repricer.notifications SET understood = false, unknown = ARRAY['type:SUBSCRIBED'],
                original_transaction_id = NULL
            """)
    }

    @Test func reprocess_whenTypesAreKnownNow_foldsThemOnce() async throws {
        let harness = try await Harness.make()
        for number in 1...450 {
            try await harness.receive("n-\(number)", of: "\(number % 40 + 1)", at: 1)
        }
        try await forget(harness)

        let first = try await reprocess(harness)
        let second = try await reprocess(harness)

        #expect(first == Reprocessor.Summary(read: 450, requeued: 450))
        #expect(second == Reprocessor.Summary())
        #expect(try await fold(harness) == 450)
        #expect(try await harness.count("subscription_events") == 450)
        #expect(try await harness.count("subscriptions") == 40)
        #expect(
            try await harness.count("notifications WHERE NOT understood OR unknown IS NOT NULL")
                == 0)
        await harness.close()
    }

    @Test func reprocess_whenServeRunsMeanwhile_endsTheSame() async throws {
        let harness = try await Harness.make()
        for number in 1...300 {
            try await harness.receive("n-\(number)", of: "\(number % 10 + 1)", at: Int64(number))
        }
        try await forget(harness)

        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { _ = try await reprocess(harness) }
            group.addTask { _ = try await reprocess(harness, all: true) }
            group.addTask { for _ in 0..<20 { _ = try? await fold(harness) } }
            try await group.waitForAll()
        }
        while try await fold(harness) > 0 {}

        #expect(try await harness.count("subscription_events") == 300)
        #expect(try await harness.count("inbox") == 0)
        #expect(try await harness.count("notifications WHERE NOT understood") == 0)
        await harness.close()
    }

    @Test func reprocess_whenAStatementWasMisread_replacesIt() async throws {
        let harness = try await Harness.make()
        try await harness.receive("n", of: "1")
        #expect(try await fold(harness) == 1)
        try await leave(
            """
            UPDATE repricer.subscription_events
            SET statement = jsonb_set(statement, '{transaction,storefront}', '"XXX"')
            """)
        try await leave("UPDATE repricer.subscriptions SET storefront = 'XXX'")
        try await leave(
            "UPDATE repricer.notifications SET understood = false, unknown = ARRAY['value:x']")

        #expect(try await reprocess(harness) == Reprocessor.Summary(read: 1, requeued: 1))
        #expect(try await fold(harness) == 1)

        #expect(try await harness.count("subscriptions WHERE storefront = 'USA'") == 1)
        #expect(
            try await harness.count(
                "subscription_events WHERE statement->'transaction'->>'storefront' = 'USA'") == 1)
        #expect(try await harness.count("subscriptions WHERE folded_signed_at > '9000-01-01'") == 0)
        await harness.close()
    }

    @Test func reprocess_whenFoldingSetOneAside_letsItTryAgain() async throws {
        let harness = try await Harness.make()
        try await harness.receive("n", of: "1")
        try await leave("UPDATE repricer.inbox SET error = 'an old fault'")
        #expect(try await fold(harness) == 0)

        #expect(try await reprocess(harness) == Reprocessor.Summary(read: 1, requeued: 1))

        #expect(try await fold(harness) == 1)
        #expect(try await harness.count("inbox") == 0)
        await harness.close()
    }

    @Test func reprocess_whenItIsBeforeSince_isLeftAlone() async throws {
        let harness = try await Harness.make()
        try await harness.receive("n", of: "1")
        try await forget(harness)
        let receivedAt = harness.now.milliseconds

        #expect(try await reprocess(harness, since: receivedAt + 1) == Reprocessor.Summary())
        #expect(try await reprocess(harness, since: receivedAt).requeued == 1)
        await harness.close()
    }

    @Test func reprocess_whenStillUnknownOrDamaged_saysSoAndKeepsIt() async throws {
        let harness = try await Harness.make()
        try await harness.receive("n", of: "1", type: "BRAND_NEW")
        try await harness.receive("broken", of: "2")
        try await leave(
            """
            UPDATE repricer.notifications SET understood = false, unknown = ARRAY['type:BRAND_NEW'],
                signed_payload = CASE notification_uuid WHEN 'n' THEN signed_payload ELSE 'x' END
            """)

        let summary = try await reprocess(harness)

        #expect(
            summary
                == Reprocessor.Summary(read: 2, unchanged: 1, damaged: 1, stillNotUnderstood: 1))
        #expect(try await harness.count("notifications WHERE NOT understood") == 2)
        await harness.close()
    }

    @Test func reprocess_whenAll_foldsEverythingAgainToTheSameEnd() async throws {
        let harness = try await Harness.make()
        for number in 1...5 { try await harness.receive("n-\(number)", of: "1", at: Int64(number)) }
        #expect(try await fold(harness) == 5)
        try await leave(
            "UPDATE repricer.notifications SET understood = true, unknown = NULL, type = 'SUBSCRIBED', subtype = 'INITIAL_BUY'"
        )

        let summary = try await reprocess(harness, all: true)

        #expect(summary.requeued == 5)
        #expect(try await fold(harness) == 5)
        #expect(try await harness.count("subscription_events") == 5)
        #expect(try await harness.count("charges") == 1)
        await harness.close()
    }

    /// Each fold in between knows the whole story: no charge is taken back and told again.
    @Test func reprocess_whileOtherStatementsAreFolded_losesNoPartOfTheStory() async throws {
        let harness = try await Harness.make()
        for number in 1...5 { try await harness.receive("n-\(number)", of: "1", at: Int64(number)) }
        #expect(try await fold(harness) == 5)
        let money = try await harness.count("money_entries")

        #expect(try await reprocess(harness, all: true).requeued == 5)
        let meanwhile = try await harness.count("subscription_events")
        try await harness.tell(
            SubscriptionEvent(
                key: .init(signedAt: harness.now, evidenceID: "a-status"), source: .status,
                originalTransactionID: "1", status: 1))
        var limits = Projector.Limits()
        limits.notificationsPerFold = 2
        let pieces = Projector(
            pool: harness.service, log: .silent, metrics: Metrics(), limits: limits)
        while try await pieces.foldOnce() > 0 {}

        #expect(meanwhile == 5)
        #expect(try await harness.count("subscription_events") == 6)
        #expect(money > 0)
        #expect(try await harness.count("money_entries") == money)
        #expect(try await harness.count("subscriptions WHERE folded_signed_at > '9000-01-01'") == 0)
        await harness.close()
    }

    /// The newest is no later than what is folded already, and is folded on its old reading otherwise.
    @Test func reprocess_foldedInPieces_replacesTheNewestStatementToo() async throws {
        let harness = try await Harness.make()
        for number in 1...5 { try await harness.receive("n-\(number)", of: "1", at: Int64(number)) }
        #expect(try await fold(harness) == 5)
        try await leave(
            """
            UPDATE repricer.subscription_events
            SET statement = jsonb_set(statement, '{transaction,transactionID}', '"misread"') WHERE evidence_id = 'n-5'
            """)

        #expect(try await reprocess(harness, all: true).requeued == 5)
        var limits = Projector.Limits()
        limits.notificationsPerFold = 2
        let pieces = Projector(
            pool: harness.service, log: .silent, metrics: Metrics(), limits: limits)
        while try await pieces.foldOnce() > 0 {}

        // What only the old reading charged is taken out.
        #expect(
            try await harness.texts(
                "SELECT transaction_id || ' ' || sum(amount_milliunits) AS text FROM repricer.money_entries GROUP BY transaction_id ORDER BY 1"
            ) == ["1 9990", "misread 0"])
        #expect(try await harness.count("subscription_events") == 5)
        await harness.close(isTamperedWith: true)
    }

    @Test func reprocess_ofTheOnlyStatement_whichIsNoneToday_leavesNothingOfIt() async throws {
        let harness = try await Harness.make()
        try await harness.receive("test", of: "1", at: 1, type: "TEST", subtype: nil)
        #expect(try await fold(harness) == 1)
        try await leave("UPDATE repricer.notifications SET type = 'SUBSCRIBED'")
        #expect(try await harness.count("subscriptions WHERE storefront = 'USA'") == 1)

        #expect(try await reprocess(harness, all: true).corrected == 1)

        #expect(try await harness.count("subscription_events") == 0)
        #expect(try await harness.count("subscriptions WHERE storefront IS NULL") == 1)
        await harness.close(isTamperedWith: true)
    }

    /// What is read as no statement today is folded no more.
    @Test func reprocess_ofWhatIsNoStatementToday_takesItBack() async throws {
        let harness = try await Harness.make()
        try await harness.receive("n", of: "1", at: 1)
        try await harness.receive("test", of: "1", at: 2, type: "TEST", subtype: nil)
        try await leave("DELETE FROM repricer.inbox WHERE notification_uuid = 'test'")
        #expect(try await fold(harness) == 1)
        try await leave(
            """
            INSERT INTO repricer.subscription_events
                (original_transaction_id, signed_at, evidence_id, source, type, statement, bucket)
            SELECT original_transaction_id, signed_at + interval '1 second', 'test', source, 'SUBSCRIBED',
                jsonb_set(statement, '{transaction,storefront}', '"XXX"'), bucket
            FROM repricer.subscription_events
            """)
        try await leave("UPDATE repricer.subscriptions SET storefront = 'XXX'")
        try await leave(
            """
            UPDATE repricer.notifications SET type = 'SUBSCRIBED', original_transaction_id = '1'
            WHERE notification_uuid = 'test'
            """)

        let summary = try await reprocess(harness, all: true)
        while try await fold(harness) > 0 {}

        #expect(summary.corrected == 1)
        #expect(try await harness.count("subscription_events") == 1)
        #expect(try await harness.count("subscriptions WHERE storefront = 'USA'") == 1)
        await harness.close(isTamperedWith: true)
    }

    /// A V1 notification as the receiver keeps it; `type` is what an older version made of it.
    private func keepLegacy(
        _ type: String = "DID_CHANGE_RENEWAL_STATUS", understood: Bool, number: Int = 0
    ) async throws -> String {
        let body = """
            {"notification_type":"\(type)","password":"0123456789abcdef","environment":"Sandbox",
            "bid":"com.example.app","original_transaction_id":1,"auto_renew_status":"false",
            "auto_renew_status_change_date_ms":"\(Harness.start.milliseconds + 5000 + Int64(number))"}
            """
        let text = try LegacyNotification(Array(body.utf8)).redacted()
        let id = LegacyNotification.id(ofRedacted: text)
        try await leave(
            """
            INSERT INTO repricer.notifications (notification_uuid, received_at, type,
                original_transaction_id, understood, unknown, signed_payload)
            VALUES (\(id), \(timestamp: Harness.start.milliseconds + 9000), \(type), '1', \(understood),
                \(understood ? [] : ["type:V1 \(type)"])::text[], \(text))
            """)
        return id
    }

    @Test func reprocess_ofAV1NotificationWhoseTypeIsKnownNow_foldsItAsAHint() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        let id = try await keepLegacy(understood: false)

        let first = try await reprocess(harness)
        let second = try await reprocess(harness)
        let folded = try await fold(harness)

        #expect(first == Reprocessor.Summary(read: 1, requeued: 1))
        #expect(second == Reprocessor.Summary())
        #expect(folded == 1)
        #expect(try await harness.count("notifications WHERE understood AND unknown IS NULL") == 1)
        #expect(try await harness.count("subscription_events WHERE source = 'legacy'") == 1)
        #expect(try await harness.count("subscription_events WHERE evidence_id = '\(id)'") == 1)
        #expect(try await harness.count("subscriptions WHERE auto_renews = false") == 1)
        await harness.close()
    }

    @Test func reprocess_ofAllV1Notifications_changesNothingThatIsFolded() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        for number in 0..<3 { _ = try await keepLegacy(understood: true, number: number) }
        let unknown = try await keepLegacy("A_TYPE_OF_TOMORROW", understood: false)

        let first = try await reprocess(harness, all: true)
        while try await fold(harness) > 0 {}
        let second = try await reprocess(harness, all: true)
        while try await fold(harness) > 0 {}

        #expect(
            first
                == Reprocessor.Summary(
                    read: 4, requeued: 3, unchanged: 1, stillNotUnderstood: 1))
        #expect(second == first)
        #expect(try await harness.count("subscription_events WHERE source = 'legacy'") == 3)
        #expect(
            try await harness.count("subscription_events WHERE evidence_id = '\(unknown)'") == 0)
        #expect(try await harness.count("subscriptions WHERE auto_renews = false") == 1)
        await harness.close()
    }
}
