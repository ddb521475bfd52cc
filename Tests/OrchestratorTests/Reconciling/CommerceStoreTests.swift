import AppStore
import Calls
import Ledger
import Orchestrator
import Pricing
import ServiceKit
import TestSupport
import Testing

@testable import SandboxStore

/// Revoke, Change Metadata and Request Transaction Refund, called over TLS at a store that plays them; and what their
/// notifications, folded, make of a change of ours.
@Suite(.database) struct CommerceStoreTests {
    // MARK: Around a change of ours

    struct Cell: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var call: @Sendable (AppStoreClient) async throws -> RawAnswer?
        /// An hour after the call, ten days after the change was sent.
        var then: String
        /// On 25 April; the renewal is on 19 April.
        var finally: String
    }

    static let cells = [
        Cell(
            testDescription: "revoked",
            call: {
                try await $0.revoke(transactionID: "\(Commerce.id)", Commerce.revocation(1)).raw
            },
            then: "cancelled refunded_or_revoked", finally: "cancelled"),
        Cell(
            testDescription: "renamed at once",
            call: {
                try await $0.changeMetadata(transactionID: "\(Commerce.id)", Commerce.renaming(1))
                    .raw
            },
            then: "scheduled", finally: "declined"),
        Cell(
            testDescription: "renamed at the renewal",
            call: {
                try await $0.changeMetadata(
                    transactionID: "\(Commerce.id)",
                    Commerce.renaming(1, "A", to: "A2", .nextBillCycle)
                ).raw
            }, then: "scheduled", finally: "declined"),
        Cell(
            testDescription: "refunded, service goes on",
            call: {
                try await $0.requestRefund(transactionID: "\(Commerce.id)", Commerce.refund(1)).raw
            },
            then: "scheduled", finally: "declined"),
        Cell(
            testDescription: "refunded and ended",
            call: {
                try await $0.requestRefund(
                    transactionID: "\(Commerce.id)",
                    Commerce.refund(1, type: .prorated, revokes: true)
                ).raw
            }, then: "cancelled item_refunded", finally: "cancelled"),
    ]

    @Test(arguments: cells)
    func call_playedByTheStore_movesOurChange(cell: Cell) async throws {
        let world = try await DeliveryWorld.make()
        var subscription = Commerce.subscription()
        subscription.plan.answer = .ignores
        let store = try await LossyStore.open(for: world, subscriptions: [subscription])
        defer { store.close() }
        let door = StoreDoor(world, store.verifier)
        for payload in store.firstPayloads { _ = await door.take(payload) }
        let projector = Projector(pool: world.service, log: .silent, metrics: Metrics())
        while try await projector.foldOnce() > 0 {}
        let calls = LiveStoreCalls(client: store.client)
        let reconciler = world.reconciler(store.client, door, store: calls)
        try await world.submitAndApprove([DeliveryWorld.row("\(Commerce.id)", to: Commerce.high)])
        try await world.deliver(world.scheduler(calls: calls))

        world.clock.advance(by: .seconds(10 * 86_400))
        let answer = try await cell.call(store.client)
        #expect(answer?.status == 200, "\(String(describing: answer))")
        world.clock.advance(by: .seconds(3700))
        _ = try await store.keeper.tick()
        #expect(try await reconciler.runOnce()?.failure == nil)
        #expect(try await world.changes() == ["A \(cell.then)"])

        world.clock.advance(by: .seconds(45 * 86_400))
        _ = try await store.keeper.tick()
        #expect(try await reconciler.runOnce()?.failure == nil)
        let ended = try await world.changes()
        #expect(ended.count == 1 && ended[0].hasPrefix("A \(cell.finally)"), "\(ended)")
        await world.close()
    }
}

/// What the client's calls come to at the store: Apple's codes, and answers.
@Suite struct CommerceCallTests {
    // MARK: Refusals

    struct Refused: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var code: Int
        var before: (@Sendable (AppStoreClient) async throws -> Void)?
        /// Whether the store's hour passes in between.
        var settles = false
        var call: @Sendable (AppStoreClient) async throws -> APIErrorCode?
    }

    static let refusals = [
        Refused(testDescription: "unknown transaction", code: 4_040_010) {
            try await $0.revoke(transactionID: "2000000000990000", Commerce.revocation(1)).code
        },
        Refused(testDescription: "another storefront", code: 4_000_133) {
            try await $0.revoke(
                transactionID: "\(Commerce.id)", Commerce.revocation(1, storefront: "FRA")
            ).code
        },
        Refused(testDescription: "stale token", code: 4_000_082) {
            try await $0.revoke(
                transactionID: "\(Commerce.id)", Commerce.revocation(1, token: "old")
            ).code
        },
        Refused(
            testDescription: "the same id again", code: 4_000_097,
            before: {
                _ = try await $0.changeMetadata(
                    transactionID: "\(Commerce.id)", Commerce.renaming(1))
            },
            call: {
                try await $0.changeMetadata(transactionID: "\(Commerce.id)", Commerce.renaming(1))
                    .code
            }),
        Refused(
            testDescription: "refund under way", code: 4_000_181,
            before: {
                _ = try await $0.revoke(transactionID: "\(Commerce.id)", Commerce.revocation(1))
            },
            call: {
                try await $0.requestRefund(transactionID: "\(Commerce.id)", Commerce.refund(2)).code
            }),
        Refused(
            testDescription: "revoked already", code: 4_030_021,
            before: {
                _ = try await $0.revoke(transactionID: "\(Commerce.id)", Commerce.revocation(1))
            },
            settles: true,
            call: {
                try await $0.revoke(transactionID: "\(Commerce.id)", Commerce.revocation(2)).code
            }),
        Refused(
            testDescription: "metadata of what ended", code: 4_030_015,
            before: {
                _ = try await $0.revoke(transactionID: "\(Commerce.id)", Commerce.revocation(1))
            },
            settles: true,
            call: {
                try await $0.changeMetadata(transactionID: "\(Commerce.id)", Commerce.renaming(2))
                    .code
            }),
        Refused(testDescription: "rename of no item", code: 4_040_016) {
            try await $0.changeMetadata(transactionID: "\(Commerce.id)", Commerce.renaming(1, "X"))
                .code
        },
        Refused(testDescription: "rename to an item", code: 4_000_114) {
            try await $0.changeMetadata(
                transactionID: "\(Commerce.id)", Commerce.renaming(1, "A", to: "B")
            ).code
        },
        Refused(testDescription: "migrated already", code: 4_000_176) {
            try await $0.migrate(transactionID: "\(Commerce.id)", Commerce.migration(1)).code
        },
        Refused(testDescription: "migration to a stranger's product", code: 4_000_167) {
            try await $0.migrate(
                transactionID: "\(Commerce.id + 10_000)", Commerce.migration(1, target: "com.other")
            ).code
        },
        Refused(testDescription: "refund of no item", code: 4_000_122) {
            try await $0.requestRefund(transactionID: "\(Commerce.id)", Commerce.refund(1, "X"))
                .code
        },
        Refused(testDescription: "more than was paid", code: 4_000_132) {
            try await $0.requestRefund(
                transactionID: "\(Commerce.id)", Commerce.refund(1, type: .custom, amount: 10_000)
            ).code
        },
        Refused(testDescription: "all items", code: 4_000_168) {
            try await $0.requestRefund(
                transactionID: "\(Commerce.id)", Commerce.refund(1, revokes: true, and: ["B"])
            ).code
        },
        Refused(
            testDescription: "refunded already", code: 4_030_021,
            before: {
                _ = try await $0.requestRefund(transactionID: "\(Commerce.id)", Commerce.refund(1))
            },
            settles: true,
            call: {
                try await $0.requestRefund(transactionID: "\(Commerce.id)", Commerce.refund(2)).code
            }),
    ]

    @Test(arguments: refusals)
    func call_thatTheStoreRefuses_hasApplesCode(refused: Refused) async throws {
        let clock = ManualClock(DeliveryWorld.start.milliseconds)
        let store = try await LossyStore.open(
            clock: clock,
            subscriptions: [Commerce.subscription(), Commerce.subscription(1, plain: true)])
        defer { store.close() }
        try await refused.before?(store.client)
        if refused.settles {
            clock.advance(by: .seconds(3700))
            _ = try await store.keeper.tick()
        }

        let code = try await refused.call(store.client)

        #expect(code?.rawValue == refused.code)
        #expect(code?.name != nil)
    }

    // MARK: Migration and transactions

    @Test func migration_ofAPlainSubscription_givesItItemsAndIsTold() async throws {
        let clock = ManualClock(DeliveryWorld.start.milliseconds)
        let store = try await LossyStore.open(
            clock: clock, subscriptions: [Commerce.subscription(plain: true)])
        defer { store.close() }

        let plain = await store.client.subscriptionStatuses(transactionID: "\(Commerce.id)")
        let outcome = try await store.client.migrate(
            transactionID: "\(Commerce.id)", Commerce.migration(1))

        guard case .answered(let before, _) = plain, case .answered(let answer, _) = outcome else {
            Issue.record("\(plain) \(outcome)")
            return
        }
        #expect(before.map { $0.event.renewal?.items ?? [] } == [[]])
        #expect(answer.event.renewal?.items?.map(\.sku) == ["NEWS"])
        #expect(answer.event.renewal?.items?.map(\.price) == [9990])
        let told = await store.keeper.state()
        #expect(told.notifications == 1)
        #expect(told.callsByAnswer["migrate 200"] == 1)
    }

    @Test func transactions_ofTwoYears_comeInPagesOfTwenty() async throws {
        let clock = ManualClock(DeliveryWorld.start.milliseconds)
        let store = try await LossyStore.open(
            clock: clock, subscriptions: [Commerce.subscription(), Commerce.subscription(1)])
        defer { store.close() }
        clock.advance(by: .seconds(365 * 86_400))
        _ = try await store.keeper.tick()
        let request = try TransactionHistoryRequest(transactionID: "\(Commerce.id)")

        let first = await store.client.transactionHistory(request, revision: nil)
        guard case .answered(let page, _) = first else {
            Issue.record("\(first)")
            return
        }
        let second = await store.client.transactionHistory(request, revision: page.revision)
        let newest = try await store.client.transactionHistory(
            TransactionHistoryRequest(
                transactionID: "\(Commerce.id)", sort: .descending, revoked: false), revision: nil)
        guard case .answered(let rest, _) = second, case .answered(let last, _) = newest else {
            Issue.record("\(second) \(newest)")
            return
        }

        // Twelve renewals of each, and the period that ran when the store began.
        #expect(page.transactions.count == 20 && page.hasMore)
        #expect(rest.transactions.count == 6 && !rest.hasMore)
        let told = (page.transactions + rest.transactions).compactMap(\.statement.transactionID)
        #expect(Set(told).count == 26)
        #expect(last.transactions.first?.statement.transactionID == told.last)
        let owners = Set((page.transactions + rest.transactions).map(\.originalTransactionID))
        #expect(owners == ["\(Commerce.id)", "\(Commerce.id + 10_000)"])
        let info = await store.client.transactionInfo(transactionID: told[3])
        guard case .answered(let one, _) = info else {
            Issue.record("\(info)")
            return
        }
        #expect(one.statement.transactionID == told[3])
        #expect(one.statement.purchasedAt == page.transactions[3].statement.purchasedAt)
    }

    @Test func refund_ofAnEarlierTransaction_isToldOfThatOne() async throws {
        let clock = ManualClock(DeliveryWorld.start.milliseconds)
        let store = try await LossyStore.open(
            clock: clock, subscriptions: [Commerce.subscription()])
        defer { store.close() }
        clock.advance(by: .seconds(60 * 86_400))
        _ = try await store.keeper.tick()

        let outcome = try await store.client.requestRefund(
            transactionID: "\(Commerce.id)", Commerce.refund(1))
        let prorated = try await store.client.requestRefund(
            transactionID: "\(Commerce.id)", Commerce.refund(2, type: .prorated)
        ).code
        clock.advance(by: .seconds(3700))
        _ = try await store.keeper.tick()
        let info = await store.client.transactionInfo(transactionID: "\(Commerce.id)")

        guard case .answered(let answer, _) = outcome, case .answered(let then, _) = info else {
            Issue.record("\(outcome) \(info)")
            return
        }
        #expect(answer.statement.transactionID == "\(Commerce.id)")
        // The first refund is still under way: that is in the way before anything else.
        #expect(prorated?.rawValue == 4_000_181)
        #expect(then.statement.transactionID == "\(Commerce.id)")
        let held = try #require(await store.keeper.subscription("\(Commerce.id)"))
        #expect(held.status == .active)
        #expect(held.past?.first?.items.first { $0.sku == "A" }?.refund?.amount == 9990)
        #expect(held.items.allSatisfy { $0.refund == nil })
    }
}

/// A subscriber, and requests of the client about them.
private enum Commerce {
    static let id: Int64 = 2_000_000_000_010_000
    static let high: Int64 = 19_990
    static let customer = "7c80bb86-f892-4b21-a919-1357811d6c10"

    static func subscription(
        _ number: Int64 = 0, plain: Bool = false
    ) -> StoreSubscription {
        let purchasedAt = DeliveryWorld.start.milliseconds - 10 * 86_400_000
        let day = Milliseconds.date(of: purchasedAt).day
        var subscription = StoreSubscription(
            originalTransactionID: id + number * 10_000, storefront: "USA", currency: "USD",
            period: .month, appAccountToken: customer,
            purchaseReferenceID: "932c6903-0ab8-4469-9f21-015f6fab013c", startedAt: purchasedAt,
            anchorDay: day, purchasedAt: purchasedAt,
            expiresAt: BillingCalendar().end(of: .month, from: purchasedAt, anchorDay: day),
            items: (plain ? ["com.example.monthly"] : ["A", "B"]).map {
                StoreItem(sku: $0, displayName: $0, description: $0, price: 9990)
            }, lastSignedAt: purchasedAt)
        subscription.isPlain = plain ? true : nil
        return subscription
    }

    static func info(
        _ number: Int, token: String? = nil
    ) throws -> CommerceRequestInfo {
        try CommerceRequestInfo(
            requestReferenceID: "019a0000-0000-7000-8000-\(100_000_000_000 + number)",
            consistencyToken: token)
    }

    static func revocation(
        _ number: Int, token: String? = nil, storefront: String? = nil
    ) throws -> RevokeRequest {
        try RevokeRequest(
            info(number, token: token), reason: .legal, type: .full, weighsRisk: true,
            storefront: storefront, environment: .production)
    }

    static func renaming(
        _ number: Int, _ sku: String = "A", to new: String = "A2",
        _ effective: MetadataEffective = .immediately
    ) throws -> MetadataRequest {
        try MetadataRequest(
            info(number),
            items: [.init(currentSKU: sku, effective: effective, newSKU: new)])
    }

    static func refund(
        _ number: Int, _ sku: String = "A", type: RefundType = .full, revokes: Bool = false,
        amount: Int32? = nil, and more: [String] = []
    ) throws -> RefundRequest {
        try RefundRequest(
            info(number),
            items: ([sku] + more).map {
                try .init(
                    sku: $0, reason: .fulfillmentIssue, type: type, revokes: revokes,
                    amountMilliunits: amount)
            }, weighsRisk: false, currency: "USD", environment: .production)
    }

    static func migration(
        _ number: Int, target: String = "com.example.stream.subscription"
    ) throws -> MigrateRequest {
        try MigrateRequest(
            info(number), targetProductID: target,
            descriptors: CommerceDescriptors(displayName: "Bundle", description: "All of it"),
            items: [.init(sku: "NEWS", displayName: "News", description: "All day")],
            taxCode: "C003-00-1")
    }
}

extension CallOutcome {
    fileprivate var raw: RawAnswer? {
        switch self {
        case .answered(_, let raw), .refused(_, _, let raw), .throttled(_, let raw): raw
        case .unknownOutcome(_, let raw): raw
        case .notSent: nil
        }
    }

    fileprivate var code: APIErrorCode? {
        if case .refused(let code, _, _) = self { code } else { nil }
    }
}
