import Postgres
import TestSupport
import Testing

@testable import Pricing

/// Items that METADATA_UPDATE or MIGRATION renames before, during and after our call, through PostgreSQL.
@Suite(.database) struct RenamedItemTests {
    @Test func unsentChange_itemRenamed_isCalledForByItsNewName() async throws {
        let harness = try await DeliveryHarness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([DeliveryHarness.row("1", to: 14990, dependents: ["B"])])

        try await harness.tell(Self.renamed("A", "A2", 9990, 10))
        try await harness.deliver(harness.scheduler())

        #expect(harness.store.calls.map { $0.items.map(\.sku) } == [["A2"]])
        #expect(try await Self.names() == ["A A2 A2 -"])
        #expect(
            try await Self.lines("reason LIKE 'renamed%'") == ["queued renamed from A to A2"])
        #expect(
            try await Self.roles() == ["A2 parent", "B dependent"])
        await harness.close()
    }

    /// Whether somebody who was held out has left is asked of the item by its new name.
    @Test func heldOutRow_itemRenamed_goesByItsNewName() async throws {
        let harness = try await DeliveryHarness.make()
        let ids = (1...8).map { "\($0)" }
        for id in ids { try await harness.subscribe(id) }
        try await harness.submitAndApprove(
            ids.enumerated().map { DeliveryHarness.row($1, to: 14990, line: $0 + 2) },
            terms: BatchTerms(holdout: 5000))
        try await harness.deliver(harness.scheduler())
        for id in ids {
            var event = Self.renamed("A", "A2", 9990, 100)
            event.originalTransactionID = id
            event.key.evidenceID += id
            try await harness.tell(event)
        }

        let owner = try await TestDatabase.connect()
        let rows = try await owner.query(
            """
            SELECT DISTINCT is_held_out || ' ' || coalesce(current_sku, sku) AS line
            FROM repricer.price_changes ORDER BY 1
            """
        ).map { try $0.text("line") }
        await owner.close()

        #expect(rows == ["false A2", "true A2"])
        // A final row has no further history.
        #expect(try await Self.lines("reason LIKE 'renamed%' AND state = 'aborted'") == [])
        await harness.close()
    }

    @Test func changeRenamedBeforeItsCall_whenALateStatementComes_keepsItsStateAndName()
        async throws
    {
        let harness = try await DeliveryHarness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([DeliveryHarness.row("1", to: 14990)])
        try await harness.tell(Self.renamed("A", "A2", 9990, 10))
        harness.clock.advance(by: .seconds(60))
        try await harness.deliver(harness.scheduler())
        try await harness.tell(Self.increase("A2", "PENDING", 120))
        let before = try await Self.changes()

        // Older than all that is folded: the fold begins again.
        try await harness.tell(Self.late(-500))

        #expect(before == ["A A2 pending_consent"])
        #expect(try await Self.changes() == before)
        await harness.close()
    }

    @Test(arguments: ["METADATA_UPDATE", "MIGRATION", "MIGRATE"])
    func reconciliation_chargedUnderANameInBetween_isOK(type: String) async throws {
        let harness = try await DeliveryHarness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([DeliveryHarness.row("1", to: 14990)])
        try await harness.deliver(harness.scheduler())
        try await harness.tell(Self.renamed("A", "A2", 9990, 100, type, status: "SCHEDULED"))
        try await harness.tell(Self.increase("A2", "ACCEPTED", 120))
        try await harness.tell(Self.charged("A2", 40 * 86_400))
        let once = try await Self.problems()

        try await harness.tell(Self.renamed("A2", "A3", 14990, 41 * 86_400, type))
        let twice = try await Self.problems()
        // A charge that no name of it bears is still missed.
        try await Self.run("UPDATE repricer.charges SET sku = 'OTHER' WHERE sku = 'A2'")
        let none = try await Self.problems()

        #expect(try await Self.changes() == ["A A3 effective"])
        #expect(once == [])
        #expect(twice == [])
        #expect(none == ["effective_without_charge 1"])
        await harness.close()
    }

    @Test func chargedRenewals_underEachNameOfTheItem_countAlike() async throws {
        let harness = try await DeliveryHarness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([DeliveryHarness.row("1", to: 14990)])
        try await harness.deliver(harness.scheduler())
        try await harness.tell(Self.increase("A", "ACCEPTED", 100))
        for (period, name, next) in [(0, "A", "A2"), (1, "A2", "A3"), (2, "A3", "A4")] {
            let day = Int64(40 + 31 * period) * 86_400
            try await harness.tell(Self.charged(name, day))
            try await harness.tell(Self.renamed(name, next, 14990, day + 60))
        }

        let renewals = try await Self.texts(
            "SELECT charged_renewals::text AS text FROM report.price_change")

        #expect(renewals == ["3"])
        #expect(try await Self.changes() == ["A A4 effective"])
        await harness.close()
    }

    /// The app renames the item at once, and Apple signs the running transaction under the new name, too: before the charge is
    /// told, or after, and with a refund. It was charged once.
    @Test(arguments: [false, true], [false, true])
    func itemRenamedAtOnce_isChargedOnce_inEveryReport(isLate: Bool, isRefunded: Bool) async throws
    {
        let day: Int64 = 86_400
        let harness = try await DeliveryHarness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([DeliveryHarness.row("1", to: 14990)])
        try await harness.deliver(harness.scheduler())
        try await harness.tell(Self.increase("A", "ACCEPTED", 100))
        let charge = Self.charged("A", 40 * day)
        let renamed = Self.renamedAtOnce("A2", of: charge, 45 * day)
        for event in isLate ? [renamed, charge] : [charge, renamed] {
            try await harness.tell(event)
        }
        try await harness.tell(
            Self.renamedAtOnce("A2", of: charge, 46 * day, "DID_CHANGE_RENEWAL_STATUS"))
        try await harness.tell(Self.charged("A2", 71 * day))
        if isRefunded {
            try await harness.tell(
                Self.renamedAtOnce("A2", of: charge, 75 * day, "REFUND", givenBack: 990))
        } else {
            // Of the former period, without any money.
            try await harness.tell(
                Self.renamedAtOnce("A2", of: charge, 75 * day, "REFUND_DECLINED"))
        }

        let charges = try await Self.texts(
            """
            SELECT transaction_id || ' ' || sku AS text FROM repricer.charges WHERE sku <> 'B' AND price_milliunits = 14990
            ORDER BY purchased_at
            """)
        let money = try await Self.texts(
            """
            SELECT sum(amount_milliunits)::text AS text FROM report.money WHERE sku <> 'B' AND transaction_id LIKE 't-%'
            """)
        let uplift = try await Self.texts(
            "SELECT charged_renewals || ' ' || charged_uplift_milliunits AS text FROM report.price_change"
        )
        let closing = try await Self.texts(
            "SELECT DISTINCT closing_milliunits::text AS text FROM report.revenue_bridge WHERE closing_milliunits > 10000"
        )

        #expect(charges == ["t-\(40 * day) A", "t-\(71 * day) A2"])
        // With what was charged before the call.
        #expect(money == [isRefunded ? "38980" : "39970"])
        #expect(uplift == [isRefunded ? "2 9670" : "2 10000"])
        #expect(closing == ["14990"])
        await harness.close()
    }

    /// Without any change of ours, and in the period that the customer bought, where a second line would be another seat.
    @Test(arguments: [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0]])
    func itemRenamedAtOnce_inItsFirstPeriod_isBoughtOnce(order: [Int]) async throws {
        let day: Int64 = 86_400
        let harness = try await DeliveryHarness.make()
        var bought = Self.charged("A", 10)
        bought.type = "SUBSCRIBED"
        bought.transaction?.reason = "PURCHASE"
        let told = [
            bought, Self.renamedAtOnce("A2", of: bought, 5 * day),
            Self.renamedAtOnce("A2", of: bought, 6 * day, "DID_CHANGE_RENEWAL_STATUS"),
        ]
        for place in order + [1] { try await harness.tell(told[place]) }

        let charges = try await Self.texts(
            "SELECT sku || ' ' || is_purchase AS text FROM repricer.charges ORDER BY sku")
        let money = try await Self.texts(
            """
            SELECT sku || ' ' || sum(amount_milliunits) AS text FROM report.money GROUP BY sku
            HAVING sum(amount_milliunits) <> 0 ORDER BY sku
            """)

        #expect(charges == ["A true", "B true"])
        #expect(money == ["A 14990", "B 9990"])
        await harness.close()
    }

    /// The statement of the rename was lost, and the transaction lists the item under another name at another price since: that
    /// is one charge, and it is named, whichever came first.
    @Test(arguments: [false, true])
    func transactionToldWithAnotherItem_isChargedOnce_andNamed(isLate: Bool) async throws {
        let day: Int64 = 86_400
        let harness = try await DeliveryHarness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([DeliveryHarness.row("1", to: 14990)])
        try await harness.deliver(harness.scheduler())
        try await harness.tell(Self.increase("A", "ACCEPTED", 100))
        let charge = Self.charged("A", 40 * day)
        var since = Self.renamedAtOnce("A2", of: charge, 45 * day, "DID_CHANGE_RENEWAL_STATUS")
        since.transaction?.items[0].price = 15990
        for event in isLate ? [since, charge] : [charge, since] { try await harness.tell(event) }

        let ledger = try await Self.texts(
            """
            SELECT transaction_id || ' ' || sku || ' ' || sum(amount_milliunits) AS text FROM report.money
            WHERE transaction_id = 't-\(unsafe: "\(40 * day)")' GROUP BY transaction_id, sku HAVING sum(amount_milliunits) <> 0
            ORDER BY sku
            """)
        let charges = try await Self.texts(
            """
            SELECT sku || ' ' || price_milliunits || ' ' || is_relisted AS text FROM repricer.charges
            WHERE transaction_id = 't-\(unsafe: "\(40 * day)")' ORDER BY sku
            """)
        let named = try await Self.texts(
            """
            SELECT check_name || ' ' || problems AS text FROM report.reconciliation WHERE check_name = 'charges_relisted'
            """)

        #expect(ledger == ["t-\(40 * day) A 15990", "t-\(40 * day) B 9990"])
        #expect(charges == ["A 15990 true", "B 9990 false"])
        #expect(named == ["charges_relisted 1"])
        await harness.close()
    }

    @Test func dependentOfADecliner_renamedBeforeItFell_isNotMissed() async throws {
        let harness = try await DeliveryHarness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([DeliveryHarness.row("1", to: 14990, dependents: ["B"])])
        try await harness.deliver(harness.scheduler())
        try await harness.tell(Self.renamed("B", "B2", 9990, 100, keeping: "A"))
        try await harness.tell(Self.increase("A", "PENDING", 120, other: "B2"))
        try await harness.tell(Self.expired(40 * 86_400))

        #expect(try await Self.changes() == ["A A declined"])
        #expect(
            try await Self.texts(
                "SELECT dependent_sku AS text FROM repricer.dependent_cancellations") == ["B2"])
        #expect(try await Self.problems().filter { $0.hasPrefix("dependents_not_recorded") } == [])
        await harness.close()
    }

    /// The loss of a dependent is money of the subscription's currency. What an earlier fold stored otherwise, the next
    /// one corrects, whether the state moves with it or not.
    @Test(arguments: ["", ", state = 'discrepancy', settled_by_evidence = 'x'"])
    func dependentsCurrency_thatWasStoredWrongly_isCorrected(others: String) async throws {
        let harness = try await DeliveryHarness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([DeliveryHarness.row("1", to: 14990, dependents: ["B"])])
        try await harness.deliver(harness.scheduler())
        try await harness.tell(Self.increase("A", "PENDING", 120, other: "B"))
        try await harness.tell(Self.expired(40 * 86_400))
        let stored: SQL =
            "SELECT state || ' ' || currency AS text FROM repricer.dependent_cancellations"
        let first = try await Self.texts(stored)
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            UPDATE repricer.dependent_cancellations
            SET currency = 'EUR', recorded_at = recorded_at\(others)
            """)

        // A late statement makes everything be counted again.
        try await harness.tell(Self.increase("A", "PENDING", 110, other: "B"))

        #expect(first.allSatisfy { $0.hasSuffix(" USD") } && first.count == 1)
        #expect(try await Self.texts(stored) == first)
        await owner.close()
        await harness.close()
    }
}

extension RenamedItemTests {
    private static func event(
        _ type: String, _ seconds: Int64, status: Int = 1,
        transaction: TransactionStatement? = nil, items: [StatementItem]?,
        intent: Int? = nil
    ) -> SubscriptionEvent {
        SubscriptionEvent(
            key: .init(
                signedAt: DeliveryHarness.start.advanced(by: seconds * 1000),
                evidenceID: "\(type)-\(seconds)"),
            source: .notification, originalTransactionID: "1", type: type, status: status,
            transaction: transaction,
            renewal: RenewalStatement(
                autoRenewStatus: 1, expirationIntent: intent, consistencyToken: "t",
                period: "P1M", items: items))
    }

    private static func renamed(
        _ from: String, _ to: String, _ price: Int64, _ seconds: Int64,
        _ type: String = "METADATA_UPDATE", keeping other: String = "B", status: String? = nil
    ) -> SubscriptionEvent {
        event(
            type, seconds,
            items: [
                StatementItem(sku: other, price: 9990),
                StatementItem(
                    sku: to, price: price, increaseStatus: status,
                    increasePrice: status == nil ? nil : 14990),
            ])
    }

    /// A statement about the transaction of a charge, whose first item bears another name since.
    private static func renamedAtOnce(
        _ name: String, of charge: SubscriptionEvent, _ seconds: Int64,
        _ type: String = "METADATA_UPDATE", givenBack: Int64? = nil
    ) -> SubscriptionEvent {
        var transaction = charge.transaction
        transaction?.items[0].sku = name
        if let givenBack {
            transaction?.items[0].refunds = [
                StatementRefund(
                    amount: givenBack, at: DeliveryHarness.start.advanced(by: seconds * 1000))
            ]
        }
        return event(
            type, seconds, transaction: transaction,
            items: [StatementItem(sku: name, price: 14990), StatementItem(sku: "B", price: 9990)])
    }

    private static func increase(
        _ sku: String, _ status: String, _ seconds: Int64, other: String = "B"
    ) -> SubscriptionEvent {
        event(
            "PRICE_INCREASE", seconds,
            items: [
                StatementItem(
                    sku: sku, price: 14990, increaseStatus: status, increasePrice: 14990),
                StatementItem(sku: other, price: 9990),
            ])
    }

    private static func charged(_ sku: String, _ seconds: Int64) -> SubscriptionEvent {
        let at = DeliveryHarness.start.advanced(by: seconds * 1000)
        let items = [(sku, Int64(14990)), ("B", 9990)]
        return event(
            "DID_RENEW", seconds,
            transaction: TransactionStatement(
                transactionID: "t-\(seconds)", purchasedAt: at,
                expiresAt: at.advanced(by: 31 * 86_400_000), reason: "RENEWAL", storefront: "USA",
                currency: "USD", period: "P1M",
                items: items.map { StatementItem(sku: $0.0, price: $0.1) }),
            items: items.map { StatementItem(sku: $0.0, price: $0.1) })
    }

    private static func expired(_ seconds: Int64) -> SubscriptionEvent {
        event("EXPIRED", seconds, status: 2, items: nil, intent: 3)
    }

    private static func late(_ seconds: Int64) -> SubscriptionEvent {
        event("A_TYPE_OF_TOMORROW", seconds, items: nil)
    }

    private static func texts(_ sql: SQL) async throws -> [String] {
        let owner = try await TestDatabase.connect()
        let texts = try await owner.query(sql).map { try $0.text("text") }
        await owner.close()
        return texts
    }

    private static func run(_ sql: SQL) async throws {
        let owner = try await TestDatabase.connect()
        _ = try await owner.execute(sql)
        await owner.close()
    }

    /// The submitted, today's and the called name, and the former ones.
    private static func names() async throws -> [String] {
        try await texts(
            """
            SELECT concat_ws(' ', sku, coalesce(current_sku, '-'), coalesce(called_sku, '-'),
                coalesce(former_skus::text, '-')) AS text FROM repricer.price_changes
            """)
    }

    private static func changes() async throws -> [String] {
        try await texts(
            """
            SELECT concat_ws(' ', sku, coalesce(current_sku, sku), state) AS text
            FROM repricer.price_changes ORDER BY line
            """)
    }

    private static func lines(_ condition: String) async throws -> [String] {
        try await texts(
            """
            SELECT state || ' ' || reason AS text FROM repricer.price_change_history
            WHERE \(unsafe: condition) ORDER BY occurred_at
            """)
    }

    private static func roles() async throws -> [String] {
        try await texts(
            "SELECT sku || ' ' || role AS text FROM repricer.dependency_roles ORDER BY sku")
    }

    /// Checks of `report.reconciliation` about charges and dependents that are not OK.
    private static func problems() async throws -> [String] {
        try await texts(
            """
            SELECT check_name || ' ' || problems AS text FROM report.reconciliation
            WHERE NOT is_ok AND check_name IN ('effective_without_charge', 'dependents_not_recorded')
            ORDER BY 1
            """)
    }
}
