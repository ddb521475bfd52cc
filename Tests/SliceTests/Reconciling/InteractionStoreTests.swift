import Calls
import Notifications
import Pricing
import ServiceKit
import TestSupport
import Testing

@testable import SandboxStore

/// The interaction matrix of "Handling subscription price changes" from end to end: our call over TLS, the store's
/// subscriber does something, and the notifications that it signs, folded, say what became of our change.
///
/// Sent on 1 March for the renewal of 19 April; the subscriber is told on 23 March and never answers.
@Suite(.database) struct InteractionStoreTests {
    struct Cell: Sendable, CustomTestStringConvertible {
        var testDescription: String
        /// Days after 1 March: 10 is before the telling, 30 after it.
        var day: Int64
        var actions: [OperatorAction.Kind]
        /// Right after the action.
        var then: String
        /// On 25 April.
        var finally: String
        /// With what the store refuses the last action; our change goes on.
        var refusal: StoreError?
    }

    private static let id: Int64 = 2_000_000_000_010_000
    private static let high: Int64 = 19_990
    private static let kept = OperatorAction.Kind.modify(
        retainsCycle: true,
        items: [.init(currentSKU: "A", sku: "A", price: high), .init(sku: "C", price: 990)],
        removed: [])
    private static let offered = OperatorAction.Kind.modify(
        retainsCycle: true,
        items: [.init(currentSKU: "A", sku: "A", price: high, offerPrice: 990, offerPeriods: 2)],
        removed: [])

    private static func replaced(_ retains: Bool) -> OperatorAction.Kind {
        .modify(
            retainsCycle: retains,
            items: [.init(currentSKU: "A", sku: "PREMIUM", price: 29_990)], removed: [])
    }

    private static func reset(_ items: [OperatorAction.Item]) -> OperatorAction.Kind {
        .modify(retainsCycle: false, items: items, removed: [])
    }

    static let cells = [
        Cell(
            testDescription: "reactivated, told", day: 30,
            actions: [.turnOff, .reactivate(["A", "B"])], then: "accepted", finally: "effective"),
        Cell(
            testDescription: "reactivated without the item, told", day: 30,
            actions: [.turnOff, .reactivate(["B"])], then: "pending_consent", finally: "declined"),
        Cell(
            testDescription: "reactivated, not told", day: 10,
            actions: [.turnOff, .reactivate([])],
            then: "scheduled", finally: "declined"),
        Cell(
            testDescription: "cycle kept, told", day: 30, actions: [kept], then: "accepted",
            finally: "effective"),
        Cell(
            testDescription: "cycle kept, not told", day: 10, actions: [kept], then: "scheduled",
            finally: "declined"),
        Cell(
            testDescription: "replaced, cycle kept, told", day: 30, actions: [replaced(true)],
            then: "invalidated item_replaced", finally: "invalidated"),
        Cell(
            testDescription: "replaced, cycle kept, not told", day: 10, actions: [replaced(true)],
            then: "invalidated item_replaced", finally: "invalidated"),
        Cell(
            testDescription: "replaced, cycle reset, told", day: 30, actions: [replaced(false)],
            then: "invalidated item_replaced", finally: "invalidated"),
        Cell(
            testDescription: "replaced, cycle reset, not told", day: 10, actions: [replaced(false)],
            then: "invalidated item_replaced", finally: "invalidated"),
        Cell(
            testDescription: "offer added, told", day: 30, actions: [offered],
            then: "scheduled postponed_by_offer", finally: "scheduled"),
        Cell(
            testDescription: "offer added, not told", day: 10, actions: [offered],
            then: "scheduled postponed_by_offer", finally: "pending_consent"),
        Cell(
            testDescription: "cycle reset at the higher price, told", day: 30,
            actions: [reset([.init(currentSKU: "A", sku: "A", price: high)])], then: "effective",
            finally: "effective"),
        Cell(
            testDescription: "cycle reset at the higher price, not told", day: 10,
            actions: [reset([.init(currentSKU: "A", sku: "A", price: high)])],
            // The next renewal charges that price, and no end is believed against money.
            then: "invalidated cycle_reset", finally: "effective charged_after_all"),
        Cell(
            testDescription: "declined, then another added with the cycle kept, told", day: 30,
            actions: [
                .modify(retainsCycle: true, items: [], removed: ["A"]),
                .modify(retainsCycle: true, items: [.init(sku: "C", price: 990)], removed: []),
            ], then: "pending_consent", finally: "declined"),
        Cell(
            testDescription: "cycle reset, told", day: 30, actions: [reset([])],
            then: "invalidated cycle_reset", finally: "invalidated"),
        Cell(
            testDescription: "cycle reset, not told", day: 10, actions: [reset([])],
            then: "invalidated cycle_reset", finally: "invalidated"),
        Cell(
            testDescription: "renamed, told", day: 30, actions: [.rename(from: "A", to: "A2")],
            then: "pending_consent", finally: "declined"),
        Cell(
            testDescription: "renamed, not told", day: 10, actions: [.rename(from: "A", to: "A2")],
            then: "scheduled", finally: "declined"),
        Cell(
            testDescription: "renamed at the renewal, not told", day: 10,
            actions: [.rename(from: "A", to: "A2", atRenewal: true)], then: "scheduled",
            finally: "declined"),
        Cell(
            testDescription: "refunded and ended as a whole, not told", day: 10,
            actions: [.refund([])], then: "cancelled refunded_or_revoked", finally: "cancelled"),
        Cell(
            testDescription: "refunded, service goes on, not told", day: 10,
            actions: [.refund([.init(sku: "A")])], then: "scheduled", finally: "declined"),
        Cell(
            testDescription: "refunded and ended, not told", day: 10,
            actions: [.refund([.init(sku: "A", revokes: true, isProrated: true)])],
            then: "cancelled item_refunded", finally: "cancelled"),
        Cell(
            testDescription: "migrated, not told", day: 10, actions: [.migrate(suffix: "_ACA")],
            then: "scheduled", finally: "declined"),
        Cell(
            testDescription: "migrated, told", day: 30, actions: [.migrate(suffix: "_ACA")],
            then: "pending_consent", finally: "declined", refusal: .migrationAfterCommunication),
        Cell(
            testDescription: "cycle kept, told, the item not in the sheet", day: 30,
            actions: [
                .modify(retainsCycle: true, items: [.init(sku: "C", price: 990)], removed: [])
            ], then: "pending_consent", finally: "declined"),
        Cell(
            testDescription: "offer added at the old price, told", day: 30,
            actions: [
                .modify(
                    retainsCycle: true,
                    items: [.init(currentSKU: "A", sku: "A", price: 9990, offerPrice: 990)],
                    removed: [])
            ], then: "pending_consent", finally: "declined", refusal: .invalidPriceInIncrease),
        Cell(
            testDescription: "another price sent, not told", day: 10,
            actions: [
                .modify(
                    retainsCycle: true, items: [.init(currentSKU: "B", sku: "B", price: 12_990)],
                    removed: [])
            ], then: "scheduled", finally: "declined", refusal: .priceChangeThroughModify),
    ]

    /// The same once the subscriber has consented.
    static let consented = [
        Cell(
            testDescription: "reactivated", day: 30,
            actions: [.consent, .turnOff, .reactivate(["A", "B"])], then: "accepted",
            finally: "effective"),
        Cell(
            testDescription: "cycle kept", day: 30, actions: [.consent, kept], then: "accepted",
            finally: "effective"),
        Cell(
            testDescription: "replaced, cycle kept", day: 30, actions: [.consent, replaced(true)],
            then: "invalidated item_replaced", finally: "invalidated"),
        Cell(
            testDescription: "replaced, cycle reset", day: 30,
            actions: [.consent, replaced(false)],
            then: "invalidated item_replaced", finally: "invalidated"),
        Cell(
            testDescription: "offer added", day: 30, actions: [.consent, offered],
            then: "scheduled postponed_by_offer", finally: "scheduled"),
        Cell(
            testDescription: "cycle reset at the higher price", day: 30,
            actions: [.consent, reset([.init(currentSKU: "A", sku: "A", price: high)])],
            then: "effective", finally: "effective"),
        Cell(
            testDescription: "cycle reset", day: 30, actions: [.consent, reset([])],
            then: "invalidated cycle_reset", finally: "invalidated"),
        Cell(
            testDescription: "renamed", day: 30, actions: [.consent, .rename(from: "A", to: "A2")],
            then: "accepted", finally: "effective"),
        Cell(
            testDescription: "migrated", day: 30, actions: [.consent, .migrate(suffix: "_ACA")],
            then: "accepted", finally: "effective", refusal: .migrationAfterCommunication),
    ]

    @Test(arguments: cells + consented)
    func interaction_playedByTheStore_movesOurChange(cell: Cell) async throws {
        let harness = try await DeliveryHarness.make()
        let store = try await LossyStore.open(for: harness, subscriptions: [Self.subscription()])
        defer { store.close() }
        let intake = StoreIntake(harness, store.verifier)
        for payload in store.firstPayloads { _ = await intake.take(payload) }
        let projector = Projector(pool: harness.service, log: .silent, metrics: Metrics())
        while try await projector.foldOnce() > 0 {}
        let calls = LiveStoreCalls(client: store.client)
        let reconciler = harness.reconciler(store.client, intake, store: calls)
        try await harness.submitAndApprove([DeliveryHarness.row("\(Self.id)", to: Self.high)])
        try await harness.deliver(harness.scheduler(calls: calls))

        harness.clock.advance(by: .seconds(cell.day * 86_400))
        var refusal: StoreError?
        for kind in cell.actions {
            let outcome = try await store.keeper.act(
                OperatorAction(subscription: "\(Self.id)", kind: kind), body: [], number: 0)
            if case .refused(let error, _) = outcome { refusal = error }
        }
        #expect(refusal == cell.refusal)
        harness.clock.advance(by: .seconds(60))
        #expect(try await reconciler.runOnce()?.failure == nil)
        #expect(try await harness.changes() == ["A \(cell.then)"])

        harness.clock.advance(by: .seconds((55 - cell.day) * 86_400))
        _ = try await store.keeper.tick()
        #expect(try await reconciler.runOnce()?.failure == nil)
        let ended = try await harness.changes()
        #expect(ended.count == 1 && ended[0].hasPrefix("A \(cell.finally)"), "\(ended)")
        await harness.close()
    }

    private static func subscription() -> StoreSubscription {
        let purchasedAt = DeliveryHarness.start.milliseconds - 10 * 86_400_000
        let day = Milliseconds.date(of: purchasedAt).day
        var subscription = StoreSubscription(
            originalTransactionID: id, storefront: "USA", currency: "USD", period: .month,
            appAccountToken: "7c80bb86-f892-4b21-a919-1357811d6c10",
            purchaseReferenceID: "932c6903-0ab8-4469-9f21-015f6fab013c", startedAt: purchasedAt,
            anchorDay: day, purchasedAt: purchasedAt,
            expiresAt: BillingCalendar().end(of: .month, from: purchasedAt, anchorDay: day),
            items: ["A", "B"].map {
                StoreItem(sku: $0, displayName: $0, description: $0, price: 9990)
            }, lastSignedAt: purchasedAt)
        subscription.plan.answer = .ignores
        return subscription
    }
}
