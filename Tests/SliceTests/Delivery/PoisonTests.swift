import Calls
import Foundation
import Notifications
import Postgres
import PriceChanges
import ServiceKit
import TestSupport
import Testing

@testable import Pricing

/// One statement that can't be stored, or one state that can't be, stops nobody else.
@Suite(.database) struct PoisonTests {
    private typealias Harness = DeliveryHarness

    @Test func settlement_answerThatCannotBeStored_stopsNoSiblingAndIsNotSentAgain() async throws {
        let harness = try await Harness.make()
        let ids = ["1", "2", "3", "4", "5", "6", "7", "8"]
        for id in ids { try await harness.subscribe(id) }
        try await harness.submitAndApprove(
            ids.enumerated().map { Harness.row($0.element, line: $0.offset + 2) })
        let poisoned = PoisonedStore(harness.store, victim: "5")

        for _ in 0..<20 { _ = try? await harness.scheduler(calls: poisoned).round() }
        harness.realClock.advance(by: .seconds(61))
        for _ in 0..<20 { _ = try? await harness.scheduler(calls: poisoned).round() }

        let changes = try await harness.changes()
        #expect(changes.filter { $0 == "A scheduled" }.count == 7)
        #expect(changes[4].hasPrefix("A unknown"))
        #expect(harness.store.calls.count == 8)
        await harness.close()
    }

    @Test func claim_subscriptionWhoseFactsCannotBeRead_stopsNoOther() async throws {
        let harness = try await Harness.make()
        // All in one bucket, so that one claim meets them together.
        let ids = try await harness.idsOfOneBucket(5)
        for id in ids { try await harness.subscribe(id) }
        try await harness.submitAndApprove(
            ids.enumerated().map { Harness.row($0.element, line: $0.offset + 2) })
        let owner = try await TestDatabase.connect()
        _ = try await owner.execute(
            """
            UPDATE repricer.subscriptions SET items = '[{"sku": 1, "renews": "odd"}]'
            WHERE original_transaction_id = \(ids[0])
            """)
        await owner.close()

        try await harness.deliver(harness.scheduler())

        #expect(try await harness.changes().filter { $0 == "A scheduled" }.count == 4)
        #expect(try await harness.changes().contains("A queued facts_unreadable"))
        await harness.close(isTamperedWith: true)
    }

    /// What a claim would write of one subscription cannot be stored. It waits by itself, by name.
    @Test func claim_thatCannotBeStored_stopsNoOther() async throws {
        let harness = try await Harness.make()
        let ids = try await harness.idsOfOneBucket(9)
        for id in ids { try await harness.subscribe(id) }
        try await harness.submitAndApprove(
            ids.enumerated().map { Harness.row($0.element, line: $0.offset + 2) })
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            CREATE FUNCTION repricer.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN RAISE EXCEPTION 'planted' USING ERRCODE = 'not_null_violation'; END $$;
            CREATE TRIGGER planted BEFORE INSERT ON repricer.store_calls FOR EACH ROW
                WHEN (NEW.subject = '\(ids[6])') EXECUTE FUNCTION repricer.refuse();
            """)

        try await harness.deliver(harness.scheduler())

        #expect(try await harness.changes().filter { $0 == "A scheduled" }.count == 8)
        #expect(try await harness.changes().contains("A queued facts_unreadable"))
        try await owner.script("DROP TRIGGER planted ON repricer.store_calls")
        await owner.close()
        harness.realClock.advance(by: .seconds(61))
        try await harness.deliver(harness.scheduler())
        #expect(try await harness.changes().filter { $0 == "A scheduled" }.count == 9)
        await harness.close(isTamperedWith: true)
    }

    @Test func projector_notificationThatCannotBeStored_isSetAsideAndStopsNoOther() async throws {
        let harness = try await Harness.make()
        let ids = (1...40).map { "10000000\($0)" }
        for id in ids { try await harness.receive("good-\(id)", of: id) }
        for id in ids.prefix(3) {
            // Signed in the year 20000, which is no instant that a fold could order.
            try await harness.receive("bad-\(id)", of: id, at: 568_971_820_800)
        }
        for id in ids.prefix(3) { try await harness.receive("later-\(id)", of: id, at: 2) }

        let projector = Projector(pool: harness.service, log: .silent, metrics: Metrics())
        #expect(try await projector.foldOnce() == 46)

        #expect(try await projector.foldOnce() == 0)
        #expect(try await harness.inbox() == ids.prefix(3).map { "bad-\($0)" })
        #expect(try await harness.count("subscription_events") == 43)
        await harness.close()
    }

    @Test func fold_lateStatementReopensAChange_theUnsentOneOfTheItemYields() async throws {
        let harness = try await Harness.make()
        let day: Int64 = 86_400_000
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1", dependents: ["B"])])
        try await harness.deliver(harness.scheduler())
        // Its item is gone from the renewal of day 40, so it ends, and another batch takes its place.
        try await harness.tell(
            Harness.renewed("1", at: Harness.start.advanced(by: 40 * day), items: ["B"]))
        try await harness.tellRenewedWithoutItsIncrease(
            "1", at: Harness.start.advanced(by: 80 * day))
        harness.clock.set(Harness.start.advanced(by: 81 * day).milliseconds)
        #expect(try await harness.changes() == ["A cancelled item_missing_at_renewal"])
        try await harness.subscribe("2", before: -80 * day)
        let second = try await harness.submit(
            [Harness.row("1", to: 11990, line: 3), Harness.row("2", line: 4)], content: "second")

        // A statement from before says that the subscriber only paused: the period began on day 80.
        try await harness.tell(
            Harness.renewed(
                "1", at: Harness.start.advanced(by: 39 * day), items: ["A", "B"],
                purchased: Harness.start.advanced(by: 41 * day)))

        #expect(
            try await harness.changes() == [
                "A scheduled", "A ineligible conflict_open_change", "A awaiting_approval",
            ])
        #expect(try await harness.count("dependency_roles") == 2)

        // Who approves is told of what may be called by it, and the trail of what may not.
        #expect(try await harness.approve(second) == 1)
        let details = try await harness.audited("approve", second)
        #expect(
            details.contains(#""rows":2,"#) && details.contains(#""ended_before":1,"#),
            "\(details)")
        await harness.close()
    }

    @Test func projector_lateStatementReopensASentChange_theLaterCallWins() async throws {
        let harness = try await Harness.make()
        let day: Int64 = 86_400_000
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        try await harness.deliver(harness.scheduler())
        try await harness.tell(
            Harness.renewed("1", at: Harness.start.advanced(by: 40 * day), items: ["B"]))
        try await harness.tellRenewedWithoutItsIncrease(
            "1", at: Harness.start.advanced(by: 80 * day))
        harness.clock.set(Harness.start.advanced(by: 81 * day).milliseconds)
        let second = try await harness.submit(
            [Harness.row("1", to: 11990, line: 3)], content: "2nd")
        try await harness.approve(second)
        try await harness.deliver(harness.scheduler())

        try await harness.tell(
            Harness.renewed(
                "1", at: Harness.start.advanced(by: 39 * day), items: ["A", "B"],
                purchased: Harness.start.advanced(by: 41 * day)))

        #expect(
            try await harness.changes() == [
                "A invalidated replaced_by_a_later_change", "A scheduled",
            ]
        )
        await harness.close()
    }
}

extension DeliveryHarness {
    /// What the receiver leaves behind: the evidence, and work for the projector. A `status` beyond 32 bits
    /// can't be stored.
    func receive(
        _ uuid: String, of id: String, at: Int64 = 1, type: String = "SUBSCRIBED",
        subtype: String? = "INITIAL_BUY", transaction more: String = "", renewal: String? = nil
    ) async throws {
        let transaction = Self.jws(
            """
            {"originalTransactionId":"\(id)","transactionId":"\(id)","type":"Auto-Renewable Subscription",
            "purchaseDate":1000,"signedDate":1000,"currency":"USD","storefront":"USA",
            \(more)"advancedCommerceInfo":{"items":[{"SKU":"A","price":9990}],"period":"P1M"}}
            """)
        let renewalInfo =
            renewal.map {
                let signed = Self.jws(
                    "{\"originalTransactionId\":\"\(id)\",\"signedDate\":\(at * 1000),\($0)}")
                return ",\"signedRenewalInfo\":\"\(signed)\""
            } ?? ""
        let payload = Self.jws(
            """
            {"notificationType":"\(type)",\(subtype.map { "\"subtype\":\"\($0)\"," } ?? "")"notificationUUID":"\(uuid)","signedDate":\(at * 1000),
            "data":{"status":1,"signedTransactionInfo":"\(transaction)"\(renewalInfo)}}
            """)
        let stored = try await NotificationStore(pool: service).storeArrivals(
            [
                Arrival(
                    notificationUUID: uuid, signedAtMilliseconds: at * 1000, type: type,
                    subtype: subtype, originalTransactionID: id, understood: true,
                    evidence: .whole(payload))
            ], receivedAt: now.milliseconds)
        #expect(stored == [true])
    }

    private static func jws(_ payload: String) -> String {
        let part = Data(payload.utf8).base64EncodedString()
            .replacingOccurrences(of: "+", with: "-").replacingOccurrences(of: "/", with: "_")
            .replacingOccurrences(of: "=", with: "")
        return "e30.\(part).AA"
    }

    func idsOfOneBucket(_ count: Int) async throws -> [String] {
        try await service.withConnection { connection in
            try await connection.query(
                """
                SELECT n::text AS id FROM generate_series(1, 2000) n
                WHERE repricer.bucket_of(n::text) = 7 ORDER BY n LIMIT \(count)
                """
            ).map { try $0.text("id") }
        }
    }

    /// The notifications quarantined or waiting.
    func inbox() async throws -> [String] {
        try await service.withConnection { connection in
            try await connection.query(
                "SELECT notification_uuid FROM repricer.inbox ORDER BY notification_uuid"
            ).map { try $0.text("notification_uuid") }
        }
    }

    /// A renewal, or another statement of its period.
    static func renewed(
        _ id: String, at: Instant, items: [String], purchased: Instant? = nil,
        tellsRenewal: Bool = true
    ) -> SubscriptionEvent {
        let next = at.advanced(by: 40 * 86_400_000)
        return SubscriptionEvent(
            key: .init(signedAt: at, evidenceID: "renewed-\(id)-\(at.milliseconds)"),
            source: .notification, originalTransactionID: id, type: "DID_RENEW", status: 1,
            transaction: TransactionStatement(
                transactionID: "t-\(id)-\(at.milliseconds)", purchasedAt: purchased ?? at,
                originalPurchaseAt: start, expiresAt: next, reason: "RENEWAL", storefront: "USA",
                currency: "USD", period: "P1M",
                items: items.map { StatementItem(sku: $0, price: 9990) }),
            renewal: RenewalStatement(
                autoRenewStatus: 1, renewalAt: next, consistencyToken: "renewed", period: "P1M",
                items: tellsRenewal ? items.map { StatementItem(sku: $0, price: 9990) } : nil))
    }

    /// A period that charged the old price without a word of what renews, and later only that.
    func tellRenewedWithoutItsIncrease(_ id: String, at: Instant) async throws {
        let items = ["A", "B"]
        try await tell(Self.renewed(id, at: at, items: items, tellsRenewal: false))
        var later = Self.renewed(id, at: at.advanced(by: 60_000), items: items)
        later.transaction = nil
        later.type = "DID_CHANGE_RENEWAL_STATUS"
        try await tell(later)
    }
}

/// Answers for one subscription with a text that PostgreSQL cannot hold.
private struct PoisonedStore: StoreCalls {
    private let store: ScriptedStore
    private let victim: String

    init(_ store: ScriptedStore, victim: String) {
        self.store = store
        self.victim = victim
    }

    func changePrice(
        _ intent: PriceChangeIntent, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer {
        poison(
            await store.changePrice(intent, leavingBefore: leavingBefore),
            intent.transactionID)
    }

    func checkStatus(transactionID: String) async -> StoreAnswer {
        poison(await store.checkStatus(transactionID: transactionID), transactionID)
    }

    private func poison(_ answer: StoreAnswer, _ id: String) -> StoreAnswer {
        guard id == victim, case .answered(var words, let reply) = answer else { return answer }
        for index in words.statements.indices {
            words.statements[index].renewal?.items?.append(StatementItem(sku: "\u{0}"))
        }
        return .answered(words, reply)
    }
}
