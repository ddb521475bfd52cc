import Facts
import FoldStories
import Notifications
import Postgres
import Pricing
import Reports
import TestSupport
import Testing

/// What was known at an instant stays so when retention drops the statements that told it.
@Suite(.database) struct RetainedPastTests {
    private static let subscriptions = 24

    /// Everything that the reports say as of the instant, and the latest period of each subscription.
    private static func known(
        at instant: String, on owner: PostgresConnection
    ) async throws -> [String] {
        var lines: [String] = []
        for name in ReportName.allCases where name.hasPast {
            lines += try await owner.query(
                """
                SELECT \(name.rawValue) || ' ' || v::text AS line
                FROM report.\(unsafe: name.rawValue)_as_of(\(instant)::timestamptz) v ORDER BY 1
                """
            ).map { try $0.text("line") }
        }
        return lines
            + (try await owner.query(
                """
                SELECT concat_ws(' ', 'paid', s.original_transaction_id, s.purchased_at) AS line
                FROM repricer.subscriptions_at(\(instant)::timestamptz) s
                WHERE EXISTS (SELECT FROM repricer.price_changes c
                    WHERE c.original_transaction_id = s.original_transaction_id)
                ORDER BY s.original_transaction_id
                """
            ).map { try $0.text("line") })
    }

    /// From now on the database records by a clock that shows `instant` now.
    private static func setClock(_ instant: String, on owner: PostgresConnection) async throws {
        try await owner.script(
            """
            UPDATE repricer.service_controls SET is_rehearsal = true, clock_rate = 0.001,
                clock_origin = clock_timestamp(), clock_start = '\(instant)';
            """)
    }

    /// Some statements come late: after the first instant, and signed before what is dropped.
    @Test func reportsOfThePast_whenTheirMonthsAreDropped_stayAsTheyWere() async throws {
        let pool = DatabasePool(conninfo: TestDatabase.url, applicationName: "owner", size: 1)
        let owner = try await TestDatabase.connect()
        let stories = (1...Self.subscriptions).map { number in
            RandomStory(
                seed: UInt64(9000 + number), id: String(number), steps: 4 + number % 9
            ).withOneChange()
        }
        for story in stories { try await FoldOrderDatabaseTests.submit(story, on: owner) }
        let first = try #require(stories.flatMap(\.events).map(\.key.signedAt).min())
        _ = try await owner.read {
            try MonthPartitions.prepare(
                .statements, now: first.milliseconds, monthsAhead: 12, on: $0)
        }
        var random = StoryRandom(seed: 9)
        let told = stories.map { story in
            story.events.map { (event: $0, isLate: random.chance(40)) }
        }
        try await Self.setClock("2040-01-01Z", on: owner)
        for (isLate, clock) in [(false, "2040-02-01Z"), (true, "2040-03-01Z")] {
            for story in told {
                let events = story.filter { $0.isLate == isLate }.map(\.event)
                for piece in ArrivalOrder(events, random: &random).pieces {
                    try await FoldOrderDatabaseTests.fold(piece, pool)
                }
            }
            try await Self.setClock(clock, on: owner)
        }
        let instants = ["2040-01-15Z", "2040-02-15Z"]
        var before: [[String]] = []
        for instant in instants { before.append(try await Self.known(at: instant, on: owner)) }

        var covered = 0
        for months in [4, 6] {
            let horizon = first.startOfMonth.advanced(byMonths: months).milliseconds
            let counts = try await StatementRetention(before: horizon, pool: pool).run { false }
            covered += counts.covered
            let old = try await pool.withTransaction {
                try MonthRetention.candidates(of: .statements, before: horizon, on: $0)
            }
            for month in old {
                #expect(
                    try await pool.withTransaction {
                        try MonthRetention.drop(month, before: horizon, on: $0)
                    })
            }
            for (index, instant) in instants.enumerated() {
                let now = try await Self.known(at: instant, on: owner)
                #expect(
                    Set(now).symmetricDifference(before[index]).sorted() == [],
                    "\(months) \(instant)"
                )
            }
        }

        #expect(covered > 10)
        #expect(before[0] != before[1])
        for name in ["charge_exception", "revenue_bridge", "money", "paid"] {
            #expect(before[0].contains { $0.hasPrefix(name + " ") }, "\(name)")
        }
        await owner.close()
        await pool.close()
    }

    /// 2024-01-01T00:00:00Z.
    private static let firstMonth = Instant(milliseconds: 1_704_067_200_000)

    /// Statements of a monthly item: charged on the first of month `month`, of which a part was given back on the third.
    private static func told(month: Int, on day: Int = 1, refunds: Int = 0) -> SubscriptionEvent {
        let start = firstMonth.advanced(byMonths: month)
        var event = SubscriptionEvent(
            key: .init(
                signedAt: start.advanced(by: Int64(day) * 86_400_000),
                evidenceID: "e\(month)-\(day)"),
            source: .notification, originalTransactionID: "1")
        event.type = refunds == 0 ? "DID_RENEW" : "REFUND"
        event.status = 1
        var item = StatementItem(sku: "A")
        item.price = 12_990
        item.refunds = (0..<refunds).map { _ in
            StatementRefund(amount: 5000, at: start.advanced(by: 3 * 86_400_000))
        }
        var transaction = TransactionStatement(items: [item])
        transaction.transactionID = "t\(month)"
        transaction.purchasedAt = start
        transaction.expiresAt = start.advanced(byMonths: 1)
        transaction.reason = "RENEWAL"
        transaction.storefront = "USA"
        transaction.currency = "USD"
        transaction.period = "P1M"
        event.transaction = transaction
        return event
    }

    /// A fold from the checkpoint knows no charge of more than 400 days before it, and what was given back of it it does.
    @Test func chargeThatRetentionForgot_keepsItsLine_whereAPartWasGivenBack() async throws {
        let pool = DatabasePool(conninfo: TestDatabase.url, applicationName: "owner", size: 1)
        let owner = try await TestDatabase.connect()
        _ = try await owner.read {
            try MonthPartitions.prepare(
                .statements, now: Self.firstMonth.milliseconds, monthsAhead: 24, on: $0)
        }
        func lines() async throws -> [String] {
            try await owner.query(
                """
                SELECT concat_ws(' ', transaction_id, kind, amount_milliunits, correction) AS line
                FROM repricer.money_entries ORDER BY occurred_at, kind, correction
                """
            ).map { try $0.text("line") }
        }
        var events = (0...18).map { Self.told(month: $0) }
        events.insert(Self.told(month: 0, on: 4, refunds: 1), at: 1)
        for event in events { try await FoldOrderDatabaseTests.fold([event], pool) }
        let before = try await lines()

        let horizon = Self.firstMonth.advanced(byMonths: 17).milliseconds
        let counts = try await StatementRetention(before: horizon, pool: pool).run { false }
        try await FoldOrderDatabaseTests.fold([Self.told(month: 18, on: 5, refunds: 1)], pool)

        #expect(counts.covered == 1)
        #expect(before.prefix(2) == ["t0 charge 12990 0", "t0 refund -5000 0"])
        #expect(try await lines() == before + ["t18 refund -5000 0"])
        await owner.close()
        await pool.close()
    }

    private static func item(_ sku: String, _ price: Int64) -> StatementItem {
        var item = StatementItem(sku: sku)
        item.price = price
        return item
    }

    /// One statement of a subscription of PLAN and ADD: the period of month `month`, and which items renew after it.
    private static func renewal(
        _ id: String, _ month: Int, on day: Int = 0, signed: Int = 0, _ type: String,
        _ subtype: String? = nil, charged: [StatementItem], renews: [String], began: Int? = nil
    ) -> SubscriptionEvent {
        let dayLength: Int64 = 86_400_000
        let start = firstMonth.advanced(byMonths: month).advanced(by: Int64(day) * dayLength)
        var event = SubscriptionEvent(
            key: .init(
                signedAt: start.advanced(by: Int64(signed) * dayLength),
                evidenceID: "\(id)-\(month)-\(signed)"),
            source: .notification, originalTransactionID: id)
        event.type = type
        event.subtype = subtype
        event.status = type == "EXPIRED" ? 2 : 1
        var transaction = TransactionStatement(items: charged)
        transaction.transactionID = "\(id)-\(month)"
        transaction.purchasedAt = start
        transaction.expiresAt = firstMonth.advanced(byMonths: month + 1).advanced(
            by: Int64(day) * dayLength)
        transaction.reason = "RENEWAL"
        transaction.storefront = "USA"
        transaction.currency = "USD"
        transaction.period = "P1M"
        event.transaction = transaction
        var renewal = RenewalStatement(items: renews.map { item($0, 9990) })
        renewal.autoRenewStatus = type == "EXPIRED" ? 0 : 1
        renewal.period = "P1M"
        renewal.recentSubscriptionStartAt = began.map {
            firstMonth.advanced(byMonths: $0).advanced(by: 19 * dayLength)
        }
        event.renewal = renewal
        return event
    }

    /// A change of ADD of one, and of PLAN of another, called in January.
    private static let twoChanges = """
        INSERT INTO repricer.batches (batch_id, name, state, content_sha256, plan_hash, planned_as_of, row_count,
            submitted_at, decided_at, decided_by)
        VALUES ('019a0000-0000-7000-8000-000000000001', 'test', 'approved', 'c', '', '2024-01-09Z', 2, '2024-01-09Z',
            '2024-01-09Z', 'ben');
        INSERT INTO repricer.price_changes (original_transaction_id, bucket, change_id, batch_id, line, sku, direction,
            currency, storefront, period, current_price_milliunits, new_price_milliunits, dependent_skus, forecast_consent,
            forecast_effective_at, send_by, due_effective_at, request_reference_id, state, sent_at, state_since)
        SELECT id, repricer.bucket_of(id), gen_random_uuid(), '019a0000-0000-7000-8000-000000000001', line, sku,
            'increase', 'USD', 'USA', 'P1M', 9990, 12990, '{}', 'not_required', '2024-03-01Z', '2024-02-01Z', '2024-03-01Z',
            gen_random_uuid(), 'sending', '2024-01-10Z', '2024-01-10Z'
        FROM (VALUES ('1', 2, 'ADD'), ('2', 3, 'PLAN')) AS c (id, line, sku);
        """

    /// ADD is raised, and then taken off the renewals of the first. The second ends, and comes back by a purchase that nobody tells
    /// of.
    private static var leftOutAndBack: [SubscriptionEvent] {
        func charged(_ plan: Int64, _ add: Int64? = nil) -> [StatementItem] {
            [item("PLAN", plan)] + (add.map { [item("ADD", $0)] } ?? [])
        }
        let both = ["PLAN", "ADD"]
        var events = [
            renewal("1", 0, "DID_RENEW", charged: charged(9990, 9990), renews: both),
            renewal("1", 1, "DID_RENEW", charged: charged(9990, 9990), renews: both),
            renewal("1", 2, "DID_RENEW", charged: charged(9990, 12_990), renews: both),
            renewal(
                "1", 2, signed: 5, "DID_CHANGE_RENEWAL_PREF", "DOWNGRADE",
                charged: charged(9990, 12_990), renews: ["PLAN"]),
            renewal(
                "1", 2, signed: 9, "DID_CHANGE_RENEWAL_PREF", charged: charged(9990, 12_990),
                renews: ["PLAN"]),
        ]
        events += (3...18).map {
            renewal("1", $0, "DID_RENEW", charged: charged(9990), renews: ["PLAN"])
        }
        events += (0...1).map {
            renewal("2", $0, "DID_RENEW", charged: charged(9990), renews: ["PLAN"])
        }
        events += (2...3).map {
            renewal("2", $0, "DID_RENEW", charged: charged(12_990), renews: ["PLAN"])
        }
        events.append(
            renewal(
                "2", 3, signed: 31, "EXPIRED", "VOLUNTARY", charged: charged(12_990),
                renews: ["PLAN"]))
        // What stays after retention says nothing of the start.
        events += (6...18).map { month in
            renewal(
                "2", month, on: 19, "DID_RENEW", charged: charged(12_990), renews: ["PLAN"],
                began: month < 12 ? 5 : nil)
        }
        return events
    }

    /// What explains them is no charge and no type of a statement: that an item was left out of the renewals, and when the
    /// subscription began anew although nobody told of the purchase.
    @Test func explanationsThatOnlyARenewalInfoGives_outliveItsMonth() async throws {
        let pool = DatabasePool(conninfo: TestDatabase.url, applicationName: "owner", size: 1)
        let owner = try await TestDatabase.connect()
        _ = try await owner.read {
            try MonthPartitions.prepare(
                .statements, now: Self.firstMonth.milliseconds, monthsAhead: 24, on: $0)
        }
        try await owner.script(Self.twoChanges)
        for event in Self.leftOutAndBack { try await FoldOrderDatabaseTests.fold([event], pool) }
        func faults() async throws -> [String] {
            try await owner.query(
                """
                SELECT concat_ws(' ', original_transaction_id, sku, exception, occurred_at) AS line
                FROM repricer.live_charge_exceptions ORDER BY 1
                """
            ).map { try $0.text("line") }
        }
        // As where charges are recorded with their statements: then no statement is kept for its period.
        try await owner.script(
            """
            UPDATE repricer.price_changes SET recorded_at = '2024-01-10Z';
            UPDATE repricer.subscription_events SET recorded_at = recorded_at + interval '1 day';
            """)
        let before = try await faults()

        let horizon = Self.firstMonth.advanced(byMonths: 15).milliseconds
        let counts = try await StatementRetention(before: horizon, pool: pool).run { false }
        let old = try await pool.withTransaction {
            try MonthRetention.candidates(of: .statements, before: horizon, on: $0)
        }
        for month in old {
            #expect(
                try await pool.withTransaction {
                    try MonthRetention.drop(month, before: horizon, on: $0)
                })
        }

        #expect(counts.covered == 2)
        #expect(before == [])
        #expect(try await faults() == before)
        #expect(
            try await owner.query(
                "SELECT string_agg(original_transaction_id || state, ' ' ORDER BY line) AS text FROM repricer.price_changes"
            ).one().text("text") == "1effective 2effective")
        await owner.close()
        await pool.close()
    }
}
