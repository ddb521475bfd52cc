import AppStore
import Notifications
import Postgres
import Pricing
import ServiceKit
import TestSupport
import Testing

/// An upgrade knows more than the version that stored: `reprocess` reads the evidence anew.
@Suite(.database) struct ReprocessTests {
    private typealias World = DeliveryWorld

    private func reprocess(
        _ world: World, since: Int64 = 0, all: Bool = false
    ) async throws -> Reprocessor.Summary {
        try await Reprocessor(pool: world.service, log: .silent).run(since: since, all: all)
    }

    private func fold(_ world: World) async throws -> Int {
        try await Projector(pool: world.service, log: .silent, metrics: Metrics()).foldOnce()
    }

    /// As an owner: what an older version would have left.
    private func leave(_ sql: SQL) async throws {
        let owner = try await TestDatabase.connect()
        _ = try await owner.execute(sql)
        await owner.close()
    }

    /// Stored by a version that did not know the type: neither work nor understood.
    private func forget(_ world: World) async throws {
        try await leave("DELETE FROM repricer.inbox")
        try await leave(
            """
            UPDATE repricer.notifications SET understood = false, unknown = ARRAY['type:SUBSCRIBED'],
                original_transaction_id = NULL
            """)
    }

    @Test func reprocess_whenTypesAreKnownNow_foldsThemOnce() async throws {
        let world = try await World.make()
        for number in 1...450 {
            try await world.receive("n-\(number)", of: "\(number % 40 + 1)", at: 1)
        }
        try await forget(world)

        let first = try await reprocess(world)
        let second = try await reprocess(world)

        #expect(first == Reprocessor.Summary(read: 450, putBack: 450))
        #expect(second == Reprocessor.Summary())
        #expect(try await fold(world) == 450)
        #expect(try await world.count("subscription_events") == 450)
        #expect(try await world.count("subscriptions") == 40)
        #expect(
            try await world.count("notifications WHERE NOT understood OR unknown IS NOT NULL") == 0)
        await world.close()
    }

    @Test func reprocess_whenServeRunsMeanwhile_endsTheSame() async throws {
        let world = try await World.make()
        for number in 1...300 {
            try await world.receive("n-\(number)", of: "\(number % 10 + 1)", at: Int64(number))
        }
        try await forget(world)

        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { _ = try await reprocess(world) }
            group.addTask { _ = try await reprocess(world, all: true) }
            group.addTask { for _ in 0..<20 { _ = try? await fold(world) } }
            try await group.waitForAll()
        }
        while try await fold(world) > 0 {}

        #expect(try await world.count("subscription_events") == 300)
        #expect(try await world.count("inbox") == 0)
        #expect(try await world.count("notifications WHERE NOT understood") == 0)
        await world.close()
    }

    @Test func reprocess_whenAStatementWasMisread_replacesIt() async throws {
        let world = try await World.make()
        try await world.receive("n", of: "1")
        #expect(try await fold(world) == 1)
        try await leave(
            """
            UPDATE repricer.subscription_events
            SET statement = jsonb_set(statement, '{transaction,storefront}', '"XXX"')
            """)
        try await leave("UPDATE repricer.subscriptions SET storefront = 'XXX'")
        try await leave(
            "UPDATE repricer.notifications SET understood = false, unknown = ARRAY['value:x']")

        #expect(try await reprocess(world) == Reprocessor.Summary(read: 1, putBack: 1))
        #expect(try await fold(world) == 1)

        #expect(try await world.count("subscriptions WHERE storefront = 'USA'") == 1)
        #expect(
            try await world.count(
                "subscription_events WHERE statement->'transaction'->>'storefront' = 'USA'") == 1)
        #expect(try await world.count("subscriptions WHERE folded_signed_at > '9000-01-01'") == 0)
        await world.close()
    }

    @Test func reprocess_whenFoldingSetOneAside_letsItTryAgain() async throws {
        let world = try await World.make()
        try await world.receive("n", of: "1")
        try await leave("UPDATE repricer.inbox SET error = 'an old fault'")
        #expect(try await fold(world) == 0)

        #expect(try await reprocess(world) == Reprocessor.Summary(read: 1, putBack: 1))

        #expect(try await fold(world) == 1)
        #expect(try await world.count("inbox") == 0)
        await world.close()
    }

    @Test func reprocess_whenItIsBeforeSince_isLeftAlone() async throws {
        let world = try await World.make()
        try await world.receive("n", of: "1")
        try await forget(world)
        let receivedAt = world.now.milliseconds

        #expect(try await reprocess(world, since: receivedAt + 1) == Reprocessor.Summary())
        #expect(try await reprocess(world, since: receivedAt).putBack == 1)
        await world.close()
    }

    @Test func reprocess_whenStillUnknownOrDamaged_saysSoAndKeepsIt() async throws {
        let world = try await World.make()
        try await world.receive("n", of: "1", type: "BRAND_NEW")
        try await world.receive("broken", of: "2")
        try await leave(
            """
            UPDATE repricer.notifications SET understood = false, unknown = ARRAY['type:BRAND_NEW'],
                signed_payload = CASE notification_uuid WHEN 'n' THEN signed_payload ELSE 'x' END
            """)

        let summary = try await reprocess(world)

        #expect(
            summary
                == Reprocessor.Summary(read: 2, unchanged: 1, damaged: 1, stillNotUnderstood: 1))
        #expect(try await world.count("notifications WHERE NOT understood") == 2)
        await world.close()
    }

    @Test func reprocess_whenAll_foldsEverythingAgainToTheSameEnd() async throws {
        let world = try await World.make()
        for number in 1...5 { try await world.receive("n-\(number)", of: "1", at: Int64(number)) }
        #expect(try await fold(world) == 5)
        try await leave(
            "UPDATE repricer.notifications SET understood = true, unknown = NULL, type = 'SUBSCRIBED', subtype = 'INITIAL_BUY'"
        )

        let summary = try await reprocess(world, all: true)

        #expect(summary.putBack == 5)
        #expect(try await fold(world) == 5)
        #expect(try await world.count("subscription_events") == 5)
        #expect(try await world.count("charges") == 1)
        await world.close()
    }

    /// A V1 notification as the receiver keeps it; `type` is what an older version made of it.
    private func keepLegacy(
        _ type: String = "DID_CHANGE_RENEWAL_STATUS", understood: Bool, number: Int = 0
    ) async throws -> String {
        let body = """
            {"notification_type":"\(type)","password":"0123456789abcdef","environment":"Sandbox",
            "bid":"com.example.app","original_transaction_id":1,"auto_renew_status":"false",
            "auto_renew_status_change_date_ms":"\(World.start.milliseconds + 5000 + Int64(number))"}
            """
        let text = try LegacyNotification(Array(body.utf8)).redacted()
        let id = LegacyNotification.id(ofRedacted: text)
        try await leave(
            """
            INSERT INTO repricer.notifications (notification_uuid, received_at, type,
                original_transaction_id, understood, unknown, signed_payload)
            VALUES (\(id), \(timestamp: World.start.milliseconds + 9000), \(type), '1', \(understood),
                \(understood ? [] : ["type:V1 \(type)"])::text[], \(text))
            """)
        return id
    }

    @Test func reprocess_ofAV1NotificationWhoseTypeIsKnownNow_foldsItAsAHint() async throws {
        let world = try await World.make()
        try await world.subscribe("1")
        let id = try await keepLegacy(understood: false)

        let first = try await reprocess(world)
        let second = try await reprocess(world)
        let folded = try await fold(world)

        #expect(first == Reprocessor.Summary(read: 1, putBack: 1))
        #expect(second == Reprocessor.Summary())
        #expect(folded == 1)
        #expect(try await world.count("notifications WHERE understood AND unknown IS NULL") == 1)
        #expect(try await world.count("subscription_events WHERE source = 'legacy'") == 1)
        #expect(try await world.count("subscription_events WHERE evidence_id = '\(id)'") == 1)
        #expect(try await world.count("subscriptions WHERE auto_renews = false") == 1)
        await world.close()
    }

    @Test func reprocess_ofAllV1Notifications_changesNothingThatIsFolded() async throws {
        let world = try await World.make()
        try await world.subscribe("1")
        for number in 0..<3 { _ = try await keepLegacy(understood: true, number: number) }
        let unknown = try await keepLegacy("A_TYPE_OF_TOMORROW", understood: false)

        let first = try await reprocess(world, all: true)
        while try await fold(world) > 0 {}
        let second = try await reprocess(world, all: true)
        while try await fold(world) > 0 {}

        #expect(
            first
                == Reprocessor.Summary(
                    read: 4, putBack: 3, unchanged: 1, stillNotUnderstood: 1))
        #expect(second == first)
        #expect(try await world.count("subscription_events WHERE source = 'legacy'") == 3)
        #expect(try await world.count("subscription_events WHERE evidence_id = '\(unknown)'") == 0)
        #expect(try await world.count("subscriptions WHERE auto_renews = false") == 1)
        await world.close()
    }
}
