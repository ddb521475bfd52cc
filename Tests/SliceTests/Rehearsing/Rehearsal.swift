import AppStore
import Batches
import Calls
import Facts
import Notifications
import PriceChanges
import Pricing
import Reconciliation
import Reports
import ServiceKit
import Testing

@testable import SandboxStore

/// The product's own engine before the simulated App Store, day by day: planned, approved, sent over TLS, told by signed
/// notifications, charged. The store reads Apple's consent rule by itself and can contradict.
struct Rehearsal {
    static let day: Int64 = 86_400_000
    /// 1 March 2026.
    static let start = DeliveryHarness.start
    static let id: Int64 = 2_000_000_000_010_000

    let harness: DeliveryHarness
    let store: LossyStore
    private let scheduler: Scheduler
    private let reconciler: Reconciler
    private let keeper: FigureKeeper

    static func open(_ subscriptions: StoreSubscription...) async throws -> Rehearsal {
        try await open(all: subscriptions)
    }

    static func open(all subscriptions: [StoreSubscription]) async throws -> Rehearsal {
        let harness = try await DeliveryHarness.make()
        let store = try await LossyStore.open(for: harness, subscriptions: subscriptions)
        let intake = StoreIntake(harness, store.verifier)
        for payload in store.firstPayloads { _ = await intake.take(payload) }
        let projector = Projector(pool: harness.service, log: .silent, metrics: Metrics())
        while try await projector.foldOnce() > 0 {}
        return Rehearsal(harness, store, intake)
    }

    private init(_ harness: DeliveryHarness, _ store: LossyStore, _ intake: StoreIntake) {
        self.harness = harness
        self.store = store
        let calls = LiveStoreCalls(client: store.client)
        keeper = FigureKeeper(pool: harness.service, log: .silent)
        scheduler = harness.scheduler(calls: calls)
        reconciler = harness.reconciler(store.client, intake, store: calls)
    }

    func close() async {
        store.close()
        await harness.close()
    }

    /// Each item by its price; bought so many days before the start.
    static func subscription(
        _ number: Int64 = 0, _ period: BillingPeriod = .month, items: KeyValuePairs<String, Int64>,
        storefront: String = "USA", currency: String = "USD", boughtBefore days: Int64 = 10
    ) -> StoreSubscription {
        let purchasedAt = start.milliseconds - days * day
        let anchorDay = Milliseconds.date(of: purchasedAt).day
        return StoreSubscription(
            originalTransactionID: id + number * 10_000, storefront: storefront,
            currency: currency, period: period,
            appAccountToken: "7c80bb86-f892-4b21-a919-1357811d6c1\(number)",
            purchaseReferenceID: "932c6903-0ab8-4469-9f21-015f6fab013c", startedAt: purchasedAt,
            anchorDay: anchorDay, purchasedAt: purchasedAt,
            expiresAt: BillingCalendar().end(of: period, from: purchasedAt, anchorDay: anchorDay),
            items: items.map {
                StoreItem(sku: $0.key, displayName: $0.key, description: $0.key, price: $0.value)
            }, lastSignedAt: purchasedAt)
    }

    static func row(
        _ sku: String, to price: Int64, line: Int = 2, onOrAfter: String? = nil,
        currency: String = "USD", number: Int64 = 0
    ) -> BatchRow {
        BatchRow(
            line: line, originalTransactionID: "\(id + number * 10_000)", sku: sku,
            newPrice: price, currency: currency,
            effectiveOnOrAfter: onOrAfter.flatMap { CivilDate($0) })
    }

    @discardableResult
    func submit(
        _ rows: BatchRow..., name: String = "spring", grouping: RequestGrouping = .announced
    ) async throws -> String {
        try await submit(all: rows, name: name, grouping: grouping)
    }

    @discardableResult
    func submit(
        all rows: [BatchRow], name: String = "spring", grouping: RequestGrouping = .announced
    ) async throws -> String {
        var terms = BatchTerms()
        terms.grouping = grouping
        let now = harness.now
        let rules = try await harness.submitter.withTransaction {
            try RuleQueries.load(.from, now, on: $0)
        }
        let planned = try await Planner(
            pool: harness.submitter, rules: rules, environment: .production
        ).plan(rows: rows, asOf: now)
        #expect(planned.compactMap(\.fault).isEmpty)
        let batchID = try await harness.stored(planned, content: name, terms: terms).batchID
        try await harness.approve(batchID)
        return batchID
    }

    /// Lives through so many days, some at a time; each time the store acts, its news are read, and what is due is sent.
    func live(_ days: Int64, every step: Int64 = 1) async throws {
        try await harness.deliver(scheduler)
        for _ in 0..<(days / step) {
            harness.clock.advance(by: .milliseconds(step * Self.day))
            harness.realClock.advance(by: .milliseconds(step * Self.day))
            _ = try await store.keeper.tick()
            #expect(try await reconciler.runOnce()?.failure == nil)
            try await harness.deliver(scheduler)
            while try await keeper.keepOnce() > 0 {}
        }
    }

    func act(_ kind: OperatorAction.Kind) async throws {
        let outcome = try await store.keeper.act(
            OperatorAction(subscription: "\(Self.id)", kind: kind), body: [], number: 0)
        if case .refused(let error, _) = outcome { Issue.record("the store refused: \(error)") }
    }

    /// A person tells of an increase of A, of every subscription, from 7.99.
    func importIncreases(on day: String) async throws {
        let day = try #require(CivilDate(day))
        let ids = await store.keeper.engine.subscriptions.values.map(\.id).sorted()
        let at = harness.now.milliseconds
        _ = try await harness.submitter.withTransaction { connection in
            try IncreaseQueries.add(
                ids.map {
                    ImportedIncrease(
                        originalTransactionID: $0, sku: "A", increasedOn: day, oldPrice: 7990,
                        newPrice: 9990, currency: "USD")
                }, file: "history.csv", contentSHA256: "00", at: at, on: connection)
        }
    }

    /// A person tells whether a storefront always asks, from a day on.
    func importAlways(_ storefront: String, _ isRequired: Bool, from day: String) async throws {
        let from = try #require(CivilDate(day)).startAt
        let added = Rule.alwaysConsent(storefront, isRequired: isRequired, validFrom: from)
        let at = harness.now.milliseconds
        _ = try await harness.submitter.withTransaction {
            try RuleQueries.add(
                [.init(rule: added)], file: "rules.csv", contentSHA256: "00", at: at, on: $0)
        }
    }

    /// Another system changes a price.
    func callElsewhere(_ sku: String, to price: Int64) async throws {
        let outcome = await store.client.changePrice(
            transactionID: "\(Self.id)",
            request: try PriceChangeCall(
                requestReferenceID: "00000000-0000-4000-8000-000000000001",
                items: [.init(sku: sku, priceMilliunits: price)]))
        guard case .answered = outcome else {
            Issue.record("the store refused: \(outcome)")
            return
        }
    }

    /// What became of one row, and what had been foretold.
    struct Row: Sendable {
        var id: String
        var sku: String
        var state: String
        var reason: String?
        var price: Int64
        var consent: Consent?
        var reasons: [String]
        var effectiveAt: Int64
    }

    func rows() async throws -> [Row] {
        try await harness.service.withConnection { connection in
            try await connection.query(
                """
                SELECT c.original_transaction_id, c.sku, c.state, c.reason, c.new_price_milliunits, c.forecast_consent,
                    c.forecast_reasons, c.forecast_effective_at
                FROM repricer.price_changes c JOIN repricer.batches b USING (batch_id)
                ORDER BY b.submitted_at, c.line
                """
            ).map { row in
                Row(
                    id: try row.text("original_transaction_id"), sku: try row.text("sku"),
                    state: try row.text("state"), reason: try row.textOrNil("reason"),
                    price: try row.int64("new_price_milliunits"),
                    consent: Consent(rawValue: try row.text("forecast_consent")),
                    reasons: try row.texts("forecast_reasons"),
                    effectiveAt: try row.milliseconds("forecast_effective_at"))
            }
        }
    }

    /// Each row took effect, with the verdict and at the renewal that had been foretold. `turned` are items whose
    /// consent was foretold to turn while they waited.
    func expectWhatWasForetold(
        turned: [String: Bool] = [:], sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let rows = try await rows()
        let records = await store.keeper.callRecords().filter {
            $0.endpoint == "changePrice" && $0.applied
        }
        #expect(!rows.isEmpty, sourceLocation: sourceLocation)
        for row in rows {
            let said = "\(row)"
            #expect(row.state == "effective", "\(said)", sourceLocation: sourceLocation)
            let verdict = records.lazy.filter { $0.transactionId.hasPrefix(row.id.dropLast(4)) }
                .compactMap { record in
                    record.effects?.first { $0.sku == row.sku && $0.newPrice == row.price }
                }.first
            let foretold = turned[row.sku] ?? (row.consent == .required)
            #expect(verdict?.needsConsent == foretold, "\(said)", sourceLocation: sourceLocation)
            #expect(row.consent != .notKnown, "\(said)", sourceLocation: sourceLocation)
            #expect(
                verdict?.effectiveAt == row.effectiveAt, "\(said)", sourceLocation: sourceLocation)
        }
    }
}
