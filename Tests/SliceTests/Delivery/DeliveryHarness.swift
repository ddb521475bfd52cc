import Batches
import Calls
import Facts
import Postgres
import PriceChanges
import ServiceKit
import TestSupport
import Testing

@testable import Pricing

/// A database with subscriptions of two items, a batch on its way, and hands on both clocks.
struct DeliveryHarness {
    static let start = Instant(milliseconds: 1_772_323_200_000)
    let service: DatabasePool
    let submitter: DatabasePool
    let approver: DatabasePool
    let clock = ManualClock(start.milliseconds)
    let realClock = ManualClock(start.milliseconds)
    let store: ScriptedStore

    static func make(_ replies: [ScriptedStore.Reply] = []) async throws -> DeliveryHarness {
        let owner = try await TestDatabase.connect()
        try await Keeping.watch(owner)
        await owner.close()
        let service = try await TestDatabase.login("service", memberOf: ["repricer_service"])
        let submitter = try await TestDatabase.login("submitter", memberOf: ["repricer_pricing"])
        let approver = try await TestDatabase.login("approver", memberOf: ["repricer_pricing"])
        return DeliveryHarness(
            service: DatabasePool(conninfo: service, applicationName: "service", size: 4),
            submitter: DatabasePool(conninfo: submitter, applicationName: "submitter", size: 1),
            approver: DatabasePool(conninfo: approver, applicationName: "approver", size: 1),
            replies)
    }

    private init(
        service: DatabasePool, submitter: DatabasePool, approver: DatabasePool,
        _ replies: [ScriptedStore.Reply]
    ) {
        self.service = service
        self.submitter = submitter
        self.approver = approver
        let clock = clock
        store = ScriptedStore(replies) { Instant(milliseconds: clock.nowMilliseconds()) }
    }

    /// A pool of its own for a process that dies: once it is closed, the process can write nothing any more, such as
    /// that it still lives, which it would do in real time.
    func mortalPool() async throws -> DatabasePool {
        DatabasePool(
            conninfo: try await TestDatabase.login("mortal", memberOf: ["repricer_service"]),
            applicationName: "mortal", size: 4)
    }

    /// And sees that whatever was written here is known as it was at that instant, and counted. Where a test wrote facts
    /// past the product, as nobody may, nothing keeps what they were before.
    func close(isTamperedWith: Bool = false) async {
        await service.close()
        await submitter.close()
        await approver.close()
        guard !isTamperedWith else { return }
        do {
            let owner = try await TestDatabase.connect()
            try await owner.script(FormerViews.statistics)
            let faults =
                try await Keeping.faults(owner)
                + FormerViews.differences(on: owner, instants: 3)
            for fault in faults { Issue.record("\(fault)") }
            await owner.close()
        } catch {
            Issue.record(error)
        }
    }

    /// What a test writes itself, and not the product.
    func write(_ statement: SQL) async throws {
        let owner = try await TestDatabase.connect()
        _ = try await owner.execute(statement)
        await owner.close()
    }

    var now: Instant { Instant(milliseconds: clock.nowMilliseconds()) }

    /// A monthly subscription in the USA with the items A and B at 9.99, renewing in 40 days; bought so many milliseconds before the start.
    func subscribe(_ id: String, storefront: String = "USA", before: Int64 = 1000) async throws {
        let boughtAt = Self.start.advanced(by: -before)
        try await tell(
            SubscriptionEvent(
                key: .init(signedAt: boughtAt, evidenceID: "bought-\(id)"),
                source: .notification, originalTransactionID: id, type: "SUBSCRIBED", status: 1,
                transaction: TransactionStatement(
                    transactionID: "t-\(id)", purchasedAt: boughtAt,
                    originalPurchaseAt: boughtAt,
                    expiresAt: Self.start.advanced(by: 40 * 86_400_000), storefront: storefront,
                    currency: "USD", period: "P1M",
                    items: ["A", "B"].map { StatementItem(sku: $0, price: 9990) }),
                renewal: RenewalStatement(
                    autoRenewStatus: 1, renewalAt: Self.start.advanced(by: 40 * 86_400_000),
                    consistencyToken: "first", period: "P1M",
                    items: ["A", "B"].map { StatementItem(sku: $0, price: 9990) })))
    }

    func tell(_ event: SubscriptionEvent) async throws {
        try await service.withTransaction { connection in
            try SubscriptionQueries.create([event.originalTransactionID], on: connection)
            try SubscriptionQueries.lock([event.originalTransactionID], on: connection)
            try SubscriptionFolder.fold([event], on: connection)
        }
    }

    static func row(
        _ id: String, _ sku: String = "A", to price: Int64 = 10990, line: Int = 2,
        dependents: [String] = []
    ) -> BatchRow {
        BatchRow(
            line: line, originalTransactionID: id, sku: sku, newPrice: price, currency: "USD",
            dependentSKUs: dependents)
    }

    /// Plans and submits as one person; returns the batch id.
    @discardableResult
    func submit(
        _ rows: [BatchRow], content: String = "content", terms: BatchTerms = BatchTerms()
    ) async throws -> String {
        let planned = try await Planner(
            pool: submitter, rules: .shipped, environment: .production
        ).plan(rows: rows, waves: terms.waves, asOf: now)
        return try await stored(planned, content: content, terms: terms).batchID
    }

    /// How many changes are queued by it; nil where a second approver is needed.
    @discardableResult
    func approve(_ batchID: String) async throws -> Int64? {
        let at = now.milliseconds
        return try await approver.withTransaction {
            try BatchQueries.approve(batchID, at: at, on: $0)
        }
    }

    /// What the audit trail says of this step of a batch.
    func audited(_ action: String, _ batchID: String) async throws -> String {
        let owner = try await TestDatabase.connect()
        let rows = try await owner.query(
            """
            SELECT details::text AS details FROM repricer.audit_trail
            WHERE action = \(action) AND object = \("batch:" + batchID)
            """)
        await owner.close()
        return try rows.one().text("details")
    }

    @discardableResult
    func submitAndApprove(
        _ rows: [BatchRow], terms: BatchTerms = BatchTerms()
    ) async throws -> String {
        let batchID = try await submit(rows, terms: terms)
        try await approve(batchID)
        return batchID
    }

    func scheduler(
        calls: (any StoreCalls)? = nil,
        retry: Backoff = Backoff(first: .seconds(1), max: .seconds(1), jitter: 0),
        leaseFor: Duration = CallEngine.Limits().leaseFor,
        perSecond: Double? = Scheduler.Limits().changePricePerSecond,
        statusPerSecond: Double = Scheduler.Limits().statusPerSecond,
        perClaim: Int = Scheduler.Limits().requestsPerClaim, pool: DatabasePool? = nil,
        wait: @escaping CallPermitSource.Wait = { _ in }
    ) -> Scheduler {
        var limits = Scheduler.Limits()
        limits.requestsPerClaim = perClaim
        limits.changePricePerSecond = perSecond
        limits.statusPerSecond = statusPerSecond
        limits.retry = retry
        var engine = CallEngine.Limits()
        engine.leaseFor = leaseFor
        engine.failureWait = .zero
        // A crowded machine is no reason to hold a call back.
        engine.leavesWithin = .seconds(60)
        engine.checksWithin = .seconds(60)
        return Scheduler(
            self.engine(engine, pool: pool), store: calls ?? store, limits: limits, wait: wait)
    }

    /// What carries calls, on the clocks of this harness.
    func engine(
        _ limits: CallEngine.Limits = CallEngine.Limits(), pool: DatabasePool? = nil,
        environment: StoreEnvironment = .production, log: Log = .silent,
        metrics: Metrics = Metrics()
    ) -> CallEngine {
        var limits = limits
        limits.probes.spread = .zero
        return CallEngine(
            pool: pool ?? service, environment: environment, clock: clock, realClock: realClock,
            log: log, metrics: metrics, limits: limits)
    }

    /// Rounds until nothing is left to do now. A call that missed its slot on a crowded machine goes a moment later.
    func deliver(_ scheduler: Scheduler) async throws {
        for _ in 0..<20 where try await scheduler.round() == 0 {
            guard try await changes().contains(where: { $0.hasSuffix(" queued held back") }) else {
                return
            }
            clock.advance(by: .seconds(2))
        }
    }

    /// `SKU state reason` of every change, in the order of lines.
    func changes() async throws -> [String] {
        try await service.withConnection { connection in
            try await connection.query(
                "SELECT sku, state, reason FROM repricer.price_changes ORDER BY line, sku"
            ).map { row in
                [try row.text("sku"), try row.text("state"), try row.textOrNil("reason")]
                    .compactMap { $0 }.joined(separator: " ")
            }
        }
    }

    /// UTC milliseconds: the renewal at which the only change takes effect as far as is known.
    func dueEffectiveAt() async throws -> Int64 {
        try await service.withConnection { connection in
            try await connection.query("SELECT due_effective_at FROM repricer.price_changes")
                .one().milliseconds("due_effective_at")
        }
    }

    func requestStates() async throws -> [String] {
        try await service.withConnection { connection in
            try await connection.query(
                "SELECT state FROM repricer.store_calls WHERE kind = 'price_change' ORDER BY call_id"
            ).map { try $0.text("state") }
        }
    }

    func abort(_ batchID: String) async throws {
        let at = now.milliseconds
        _ = try await approver.withTransaction {
            try BatchQueries.withdraw(
                batchID, newState: "aborted", reason: nil, at: at, on: $0)
        }
    }

    /// nil pauses or resumes everything.
    func setPause(_ batchID: String?, _ isPaused: Bool) async throws {
        let at = now.milliseconds
        _ = try await approver.withTransaction {
            try ControlQueries.setPause(
                batchID, isPaused: isPaused, reason: nil, at: at, on: $0)
        }
    }

    /// What Apple says at this instant once an increase of an item is applied.
    static func scheduled(
        _ id: String, _ sku: String = "A", to price: Int64 = 10990, status: String = "SCHEDULED",
        at: Instant = start
    ) -> SubscriptionEvent {
        SubscriptionEvent(
            key: .init(signedAt: at, evidenceID: "scheduled-\(id)-\(sku)-\(at.milliseconds)"),
            source: .notification, originalTransactionID: id, type: "PRICE_CHANGE", status: 1,
            renewal: RenewalStatement(
                autoRenewStatus: 1, consistencyToken: "told",
                items: ["A", "B"].map {
                    StatementItem(
                        sku: $0, price: 9990, increaseStatus: $0 == sku ? status : nil,
                        increasePrice: $0 == sku ? price : nil)
                }))
    }

    func count(_ table: String) async throws -> Int {
        try await service.withConnection { connection in
            try await connection.query("SELECT 1 FROM repricer.\(unsafe: table)").count
        }
    }

    /// The states of all history lines in the order of their instants, then of the road.
    func history() async throws -> [String] {
        let road = ChangeState.allCases.map(\.rawValue)
        return try await service.withConnection { connection in
            try await connection.query(
                "SELECT state FROM repricer.price_change_history ORDER BY occurred_at"
            ).map { try $0.text("state") }
        }.sorted { (road.firstIndex(of: $0) ?? 0) < (road.firstIndex(of: $1) ?? 0) }
    }
}
