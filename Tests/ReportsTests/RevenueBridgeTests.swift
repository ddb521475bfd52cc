import Postgres
import TestSupport
import Testing

/// Closing less opening is the sum of what is named between them, and each loss stands under its cause.
@Suite(.database) struct RevenueBridgeTests {
    /// A monthly subscription at 9.990 USD, called at 12.990 on 3 January and due on 1 March, paid from January on.
    private struct Life {
        var subscription: String
        var line: Int
        var state = "effective"
        var reason: String?
        var ended: String?
        var dependents = "{}"
        var paid: [(day: String, until: String, price: Int, sku: String)] = []
        var events: [(day: String, type: String, subtype: String)] = []

        var sql: String {
            let change = ReportFixture.Change(
                subscription: subscription, line: line, old: 9990, new: 12990, consent: "required",
                state: state,
                dependents: dependents, effective: state == "effective" ? "2026-03-01Z" : nil)
            let ends = """
                UPDATE repricer.price_changes SET reason = \(Self.quoted(reason)), ended_at = \(Self.quoted(ended))
                WHERE original_transaction_id = '\(subscription)';
                """
            let charges = paid.map { charge in
                """
                INSERT INTO repricer.charges (original_transaction_id, bucket, transaction_id, sku, purchased_at,
                    expires_at, price_milliunits, currency, storefront)
                VALUES ('\(subscription)', repricer.bucket_of('\(subscription)'), '\(charge.day)', '\(charge.sku)',
                    '\(charge.day)', '\(charge.until)', \(charge.price), 'USD', 'USA');
                """
            }
            let told = events.map { event in
                """
                INSERT INTO repricer.subscription_events (original_transaction_id, bucket, signed_at, evidence_id,
                    source, type, subtype, statement)
                VALUES ('\(subscription)', repricer.bucket_of('\(subscription)'), '\(event.day)', 'e', 'notification',
                    '\(event.type)', '\(event.subtype)', '{}');
                """
            }
            return change.sql + ends + charges.joined() + told.joined()
        }

        private static func quoted(_ text: String?) -> String {
            text.map { "'\($0)'" } ?? "NULL"
        }

        mutating func pays(_ price: Int, from first: Int, to last: Int, sku: String = "PLAN") {
            for month in first...last {
                paid.append((Self.day(month), Self.day(month + 1), price, sku))
            }
        }

        static func day(_ month: Int) -> String { "2026-0\(month)-01Z" }
    }

    /// `month opening price declined left lapsed dependents refunds other closing`, of USD.
    private func bridge(
        _ lives: [Life], until asOf: String, more: String = ""
    ) async throws -> [String] {
        let connection = try await TestDatabase.connect()
        try await connection.script(
            ReportFixture.batchSQL(ReportFixture.batch, name: "spring", rows: lives.count)
                + lives.map(\.sql).joined() + more + "SET repricer.as_of = '\(asOf)';")
        let rows = try await connection.query(
            """
            SELECT concat_ws(' ', to_char(month, 'MM'), opening_milliunits, price_effect_milliunits,
                declined_milliunits, left_milliunits, lapsed_milliunits, dependents_milliunits, refunds_milliunits,
                other_milliunits, closing_milliunits) AS line
            FROM report.revenue_bridge ORDER BY month
            """
        ).map { try $0.text("line") }
        await connection.close()
        return rows
    }

    @Test func aChangeThatTakesEffect_isPriceEffectInItsMonthAlone() async throws {
        var life = Life(subscription: "1", line: 2)
        life.pays(9990, from: 1, to: 2)
        life.pays(12990, from: 3, to: 5)

        // At midnight on the first: that is March.
        #expect(
            try await bridge([life], until: "2026-05-20Z") == [
                "01 9990 0 0 0 0 0 0 0 9990", "02 9990 0 0 0 0 0 0 0 9990",
                "03 9990 3000 0 0 0 0 0 0 12990", "04 12990 0 0 0 0 0 0 0 12990",
                "05 12990 0 0 0 0 0 0 0 12990",
            ])
    }

    /// The App Store may date a renewal some moments off: the month turns between the end of a period and the next one.
    @Test(arguments: [
        ("2026-03-01T00:57Z", "03 9990 3000 0 0 0 0 0 0 12990"),
        // Later than moments is a gap: nobody paid when the month turned.
        ("2026-03-01T01:03Z", "03 0 3000 0 0 0 0 0 9990 12990"),
    ])
    func renewalThatIsMomentsLate_leavesNoGapWhereTheMonthTurns(at: String, march: String)
        async throws
    {
        var life = Life(subscription: "1", line: 2)
        life.paid = [
            ("2026-01-28T23:58Z", "2026-02-28T23:58Z", 9990, "PLAN"),
            (at, "2026-03-31T23:58Z", 12990, "PLAN"),
        ]

        let rows = try await bridge(
            [life], until: "2026-03-10Z",
            more: "UPDATE repricer.price_changes SET effective_at = '\(at)';")
        #expect(rows.contains(march), "\(rows)")
    }

    /// The Sandbox's periods last minutes: an hour is ten of them.
    @Test(arguments: [
        ("2026-03-01T00:00:20Z", "03 9990 3000 0 0 0 0 0 0 12990"),
        ("2026-03-01T00:00:40Z", "03 0 3000 0 0 0 0 0 9990 12990"),
    ])
    func renewalOfAPeriodOfMinutes_isMomentsLate_upToATenth(at: String, march: String) async throws
    {
        var life = Life(subscription: "1", line: 2)
        // Five minutes, of which half a minute is a tenth.
        life.paid = [
            ("2026-02-28T23:54:55Z", "2026-02-28T23:59:55Z", 9990, "PLAN"),
            (at, "2026-03-31T00:05:00Z", 12990, "PLAN"),
        ]

        let rows = try await bridge(
            [life], until: "2026-03-10Z",
            more:
                "UPDATE repricer.price_changes SET effective_at = '\(at)', sent_at = '2026-02-28T23:55Z';"
        )
        #expect(rows.contains(march), "\(rows)")
    }

    /// Of who was called before the first charge that is known, the plan knew when the period that ran would end.
    @Test(arguments: [
        ("2026-03-01T00:03Z", "02 9990 0 0 0 0 0 0 0 9990", "03 9990 3000 0 0 0 0 0 0 12990"),
        ("2026-03-01T01:03Z", "02 9990 0 0 0 0 0 0 -9990 0", "03 0 3000 0 0 0 0 0 9990 12990"),
    ])
    func firstRenewalThatIsMomentsLate_leavesNoGapEither(
        at: String, february: String, march: String
    ) async throws {
        var life = Life(subscription: "1", line: 2)
        life.paid = [(at, "2026-03-31T23:58Z", 12990, "PLAN")]

        #expect(
            try await bridge(
                [life], until: "2026-03-10Z",
                more: """
                    UPDATE repricer.price_changes SET effective_at = '\(at)', forecast_renewal_at = '2026-02-28T23:58Z';
                    """) == ["01 9990 0 0 0 0 0 0 0 9990", february, march])
    }

    @Test func eachLoss_standsUnderItsCause() async throws {
        var declined = Life(
            subscription: "1", line: 2, state: "declined", reason: "expired_for_price_increase",
            ended: "2026-03-01Z", dependents: "{EXTRA}")
        declined.pays(9990, from: 1, to: 2)
        declined.pays(2000, from: 1, to: 2, sku: "EXTRA")
        var left = Life(
            subscription: "2", line: 3, state: "cancelled", reason: "left_voluntarily",
            ended: "2026-03-01Z")
        left.pays(9990, from: 1, to: 2)
        var refunded = Life(
            subscription: "3", line: 4, state: "cancelled", reason: "refunded_or_revoked",
            ended: "2026-02-10Z")
        refunded.pays(9990, from: 1, to: 2)
        var lapsed = Life(
            subscription: "4", line: 5, state: "lapsed", reason: "billing_failed",
            ended: "2026-03-01Z")
        lapsed.pays(9990, from: 1, to: 2)

        #expect(
            try await bridge([declined, left, refunded, lapsed], until: "2026-03-10Z") == [
                "01 41960 0 0 0 0 0 0 0 41960", "02 41960 0 0 0 0 0 0 0 41960",
                "03 41960 0 -9990 -9990 -9990 -2000 -9990 0 0",
            ])
    }

    /// Each reason for which the fold ends a change as cancelled.
    @Test(arguments: [
        ("left_voluntarily", "0 -9990 0 0 0"), ("refunded_or_revoked", "0 0 0 0 -9990"),
        ("item_refunded", "0 0 0 0 -9990"), ("parent_declined", "0 0 0 -9990 0"),
        ("expired_for_another_increase", "-9990 0 0 0 0"),
        ("expired_for_price_increase", "-9990 0 0 0 0"),
        ("product_not_for_sale", "0 -9990 0 0 0"),
    ])
    func aCancelledChange_standsUnderItsReason(reason: String, columns: String) async throws {
        var life = Life(
            subscription: "1", line: 2, state: "cancelled", reason: reason, ended: "2026-03-01Z")
        life.pays(9990, from: 1, to: 2)

        #expect(
            try await bridge([life], until: "2026-03-10Z").suffix(1) == ["03 9990 0 \(columns) 0 0"]
        )
    }

    /// Declined in March, bought again in April, and gone in July of the customer's own accord.
    @Test(arguments: [("VOLUNTARY", "0 -9990 0"), ("BILLING_RETRY", "0 0 -9990")])
    func whoComesBackAfterTheEnd_andLeavesLater_leavesForTheLaterReason(
        subtype: String, columns: String
    ) async throws {
        var life = Life(
            subscription: "1", line: 2, state: "declined", reason: "expired_for_price_increase",
            ended: "2026-03-01Z")
        life.pays(9990, from: 1, to: 2)
        life.pays(9990, from: 4, to: 6)
        life.events = [("2026-07-01Z", "EXPIRED", subtype)]

        let rows = try await bridge([life], until: "2026-07-20Z")

        #expect(rows.filter { $0.hasPrefix("03") } == ["03 9990 0 -9990 0 0 0 0 0 0"])
        #expect(rows.suffix(1) == ["07 9990 0 \(columns) 0 0 0 0"])
    }

    @Test func aDependentThatWasRenamed_isPaidForUnderEitherName() async throws {
        var life = Life(subscription: "1", line: 2, dependents: "{EXTRA}")
        life.pays(9990, from: 1, to: 2)
        life.pays(12990, from: 3, to: 4)
        life.pays(2000, from: 1, to: 2, sku: "EXTRA")
        life.pays(2000, from: 3, to: 4, sku: "EXTRA2")

        #expect(
            try await bridge(
                [life], until: "2026-04-20Z",
                more: "UPDATE repricer.price_changes SET current_dependent_skus = '{EXTRA2}';") == [
                    "01 11990 0 0 0 0 0 0 0 11990", "02 11990 0 0 0 0 0 0 0 11990",
                    "03 11990 3000 0 0 0 0 0 0 14990", "04 14990 0 0 0 0 0 0 0 14990",
                ])
    }

    @Test
    func whoLeavesAfterTheNewPrice_isToldByTheEventOfTheEnd_andWhoComesBackIsOther() async throws {
        var left = Life(subscription: "1", line: 2)
        left.pays(9990, from: 1, to: 2)
        left.pays(12990, from: 3, to: 3)
        left.events = [("2026-04-01Z", "EXPIRED", "VOLUNTARY")]
        var recovers = Life(subscription: "2", line: 3)
        recovers.pays(9990, from: 1, to: 2)
        recovers.pays(12990, from: 3, to: 3)
        recovers.pays(12990, from: 5, to: 6)
        recovers.events = [("2026-04-01Z", "DID_FAIL_TO_RENEW", "")]

        #expect(
            try await bridge([left, recovers], until: "2026-05-20Z") == [
                "01 19980 0 0 0 0 0 0 0 19980", "02 19980 0 0 0 0 0 0 0 19980",
                "03 19980 6000 0 0 0 0 0 0 25980", "04 25980 0 0 -12990 -12990 0 0 0 0",
                "05 0 0 0 0 0 0 0 12990 12990",
            ])
    }

    /// Only the next charge will be told: the plan knew what is paid and until when.
    @Test
    func aSubscriptionWithoutAKnownCharge_countsAtTheOldPrice_untilItsRenewal() async throws {
        func rows(renewal: String) async throws -> [String] {
            let life = Life(subscription: "1", line: 2, state: "scheduled")
            let connection = try await TestDatabase.connect()
            try await connection.script("TRUNCATE repricer.batches, repricer.price_changes CASCADE")
            await connection.close()
            return try await bridge(
                [life], until: "2026-03-20Z",
                more: "UPDATE repricer.price_changes SET forecast_renewal_at = '\(renewal)';")
        }

        #expect(
            try await rows(renewal: "2026-12-01Z") == [
                "01 9990 0 0 0 0 0 0 0 9990", "02 9990 0 0 0 0 0 0 0 9990",
                "03 9990 0 0 0 0 0 0 0 9990",
            ])
        #expect(
            try await rows(renewal: "2026-02-15Z") == [
                "01 9990 0 0 0 0 0 0 0 9990", "02 9990 0 0 0 0 0 0 -9990 0",
            ])
    }

    /// Of five seats the plan knew the price of each.
    @Test func aSubscriptionWithoutAKnownCharge_countsEachSeat() async throws {
        let life = Life(subscription: "1", line: 2, state: "scheduled")

        #expect(
            try await bridge(
                [life], until: "2026-01-20Z",
                more: """
                    UPDATE repricer.price_changes SET forecast_renewal_at = '2026-12-01Z', forecast_seats = 5;
                    """) == ["01 49950 0 0 0 0 0 0 0 49950"])
    }

    @Test func aPriceThatChangedElsewhere_isOther() async throws {
        var life = Life(subscription: "1", line: 2)
        life.pays(9990, from: 1, to: 2)
        life.pays(12990, from: 3, to: 3)
        life.pays(4990, from: 4, to: 5)

        #expect(
            try await bridge([life], until: "2026-04-20Z").suffix(2) == [
                "03 9990 3000 0 0 0 0 0 0 12990", "04 12990 0 0 0 0 0 0 -8000 4990",
            ])
    }

    /// A charge of the only subscription beside those of its life.
    private func charge(
        _ id: String, _ day: String, until: String, _ price: Int, isOffer: Bool = false,
        givenBackAt: String? = nil
    ) -> String {
        let charge = """
            INSERT INTO repricer.charges (original_transaction_id, bucket, transaction_id, sku, purchased_at,
                expires_at, price_milliunits, currency, storefront, is_offer, refunded_milliunits)
            VALUES ('1', repricer.bucket_of('1'), '\(id)', 'PLAN', '\(day)', '\(until)', \(price), 'USD', 'USA',
                \(isOffer), \(givenBackAt == nil ? 0 : price));
            """
        guard let givenBackAt else { return charge }
        return charge + """
            INSERT INTO repricer.money_entries (original_transaction_id, bucket, transaction_id, sku, kind, occurred_at,
                number, correction, amount_milliunits, currency, storefront, evidence_id)
            VALUES ('1', repricer.bucket_of('1'), '\(id)', 'PLAN', 'refund', '\(givenBackAt)', 0, 0, \(-price), 'USD', 'USA',
                'e');
            """
    }

    /// The second charge ends the first one only while it stands.
    @Test func aDoubledChargeThatIsGivenBack_dropsNoPayer() async throws {
        var life = Life(subscription: "1", line: 2)
        life.pays(9990, from: 1, to: 2)
        life.pays(12990, from: 3, to: 4)
        let doubled = charge(
            "double", "2026-03-01T00:05:00Z", until: "2026-04-01T00:05:00Z", 12990,
            givenBackAt: "2026-03-02Z")

        #expect(
            try await bridge([life], until: "2026-04-20Z", more: doubled) == [
                "01 9990 0 0 0 0 0 0 0 9990", "02 9990 0 0 0 0 0 0 0 9990",
                "03 9990 3000 0 0 0 0 0 0 12990", "04 12990 0 0 0 0 0 0 0 12990",
            ])
    }

    /// Whatever part of the money was given back, the item is gone on that day.
    @Test(arguments: [12990, 6495, 0])
    func anItemThatIsRevoked_endsThenByTheRefund(givenBack: Int) async throws {
        var life = Life(subscription: "1", line: 2)
        life.pays(9990, from: 1, to: 2)
        life.pays(12990, from: 3, to: 4)
        life.events = [("2026-04-20Z", "REFUND", "")]
        let revoked = """
            UPDATE repricer.charges SET revoked_at = '2026-04-20Z', refunded_milliunits = \(givenBack)
            WHERE purchased_at = '2026-04-01Z';
            """

        #expect(
            try await bridge([life], until: "2026-05-20Z", more: revoked).suffix(2) == [
                "03 9990 3000 0 0 0 0 0 0 12990", "04 12990 0 0 0 0 0 -12990 0 0",
            ])
    }

    /// Two items of one transaction, of which one is revoked: the other one fell silent by itself.
    @Test func anItemBesideOneThatIsRevoked_isNotLostByTheRefund() async throws {
        var life = Life(subscription: "1", line: 2)
        life.pays(9990, from: 1, to: 2)
        life.pays(12990, from: 3, to: 3)
        life.pays(500, from: 3, to: 3, sku: "EXTRA")
        life.events = [("2026-03-31T20:00:00Z", "REFUND", "")]
        let revoked = """
            UPDATE repricer.charges SET revoked_at = '2026-03-31T20:00:00Z' WHERE sku = 'EXTRA';
            UPDATE repricer.subscription_events
            SET statement = '{"transaction": {"items": [{"sku": "EXTRA", "revokedAt": 1774987200000}]}}';
            """

        #expect(
            try await bridge([life], until: "2026-04-20Z", more: revoked).suffix(1) == [
                "04 12990 0 0 0 0 0 0 -12990 0"
            ])
    }

    @Test func anItemThatIsUpgradedAway_endsInItsMonth_asOther() async throws {
        var life = Life(subscription: "1", line: 2)
        life.pays(9990, from: 1, to: 2)
        life.pays(12990, from: 3, to: 4)
        let bought = """
            INSERT INTO repricer.charges (original_transaction_id, bucket, transaction_id, sku, purchased_at, expires_at,
                price_milliunits, currency, storefront, is_purchase)
            VALUES ('1', repricer.bucket_of('1'), 'premium', 'PREMIUM', '2026-04-10Z', '2026-05-10Z', 19990, 'USD', 'USA',
                true);
            """
        let beside = try await bridge([life], until: "2026-04-20Z", more: bought)
        let connection = try await TestDatabase.connect()
        try await connection.script(
            "TRUNCATE repricer.batches, repricer.price_changes, repricer.charges CASCADE")
        await connection.close()
        life.events = [("2026-04-10Z", "DID_CHANGE_RENEWAL_PREF", "UPGRADE")]
        let instead = try await bridge([life], until: "2026-04-20Z", more: bought)

        #expect(beside.suffix(1) == ["04 12990 0 0 0 0 0 0 0 12990"])
        #expect(instead.suffix(1) == ["04 12990 0 0 0 0 0 0 -12990 0"])
    }

    /// Charged twice for April, and one of the two given back in May: one price was paid for at the end of April, as where both
    /// were kept, or one was given back at once. What pays for a seat of its own counts beside it.
    @Test(arguments: [
        ("", 12990), ("2026-04-20Z", 12990), ("2026-05-02Z", 12990), ("2026-05-02Z seat", 25980),
    ])
    func oneOfTwoCharges_givenBackInALaterMonth_doublesNoMonth(refund: String, closing: Int)
        async throws
    {
        var life = Life(subscription: "1", line: 2)
        life.pays(9990, from: 1, to: 2)
        life.pays(12990, from: 3, to: 5)
        let refundedAt = refund.split(separator: " ").first.map(String.init)
        let twice = """
            INSERT INTO repricer.charges (original_transaction_id, bucket, transaction_id, sku, purchased_at, expires_at,
                price_milliunits, currency, storefront, refunded_milliunits, is_purchase, is_added_seat)
            VALUES ('1', repricer.bucket_of('1'), 'again', 'PLAN', '2026-04-03Z', '2026-05-03Z', 12990, 'USD', 'USA',
                \(refundedAt == nil ? 0 : 12990), \(refund.hasSuffix("seat")), \(refund.hasSuffix("seat")));
            """
        let given = refundedAt.map {
            """
            INSERT INTO repricer.money_entries (original_transaction_id, bucket, transaction_id, sku, kind, occurred_at,
                number, correction, amount_milliunits, currency, storefront, evidence_id)
            VALUES ('1', repricer.bucket_of('1'), 'again', 'PLAN', 'refund', '\($0)', 0, 0, -12990, 'USD', 'USA', 'e');
            """
        }

        let months = try await bridge([life], until: "2026-05-20Z", more: twice + (given ?? ""))

        let april = try #require(months.first { $0.hasPrefix("04 ") })
        #expect(april.hasSuffix(" \(closing)"), "\(months)")
    }

    /// What was kept and taken out again leaves zeros, and no row: which there are must not depend on the order.
    @Test func aRowWithoutMoney_isNone() async throws {
        var life = Life(subscription: "1", line: 2)
        life.pays(9990, from: 1, to: 1)
        let zeros = """
            INSERT INTO repricer.move_tallies VALUES
                ('\(ReportFixture.batch)', '2026-01-01', 'GBP', 'GBR', 'other', 0, 0, 0),
                ('\(ReportFixture.batch)', '2026-05-01', 'USD', 'USA', 'lapsed', 0, 0, 0);
            """

        #expect(
            try await bridge([life], until: "2026-06-20Z", more: zeros) == [
                "01 9990 0 0 0 0 0 0 0 9990", "02 9990 0 0 0 0 0 0 -9990 0",
            ])
    }

    /// Three months for 8.970 are 2.990 a month.
    @Test func anOfferThatIsPaidOnceForSeveralMonths_countsAMonthAtItsShare() async throws {
        var life = Life(subscription: "1", line: 2, state: "scheduled")
        life.pays(9990, from: 1, to: 2)
        let offer = charge("offer", "2026-03-01Z", until: "2026-06-01Z", 8970, isOffer: true)

        #expect(
            try await bridge([life], until: "2026-05-20Z", more: offer) == [
                "01 9990 0 0 0 0 0 0 0 9990", "02 9990 0 0 0 0 0 0 0 9990",
                "03 9990 0 0 0 0 0 0 -7000 2990", "04 2990 0 0 0 0 0 0 0 2990",
                "05 2990 0 0 0 0 0 0 0 2990",
            ])
    }

    /// A dependent on another subscription, which was by the month at the call and is by the year, or the week, since: each
    /// charge is a month's share of the time that it pays for. What was extended stays what it was.
    @Test func aDependentElsewhere_countsByTheLengthOfWhatItPaysFor() async throws {
        func rows(_ paid: [(String, String, Int)]) async throws -> [String] {
            let connection = try await TestDatabase.connect()
            try await connection.script(
                """
                TRUNCATE repricer.batches, repricer.price_changes, repricer.charges, repricer.dependent_claims CASCADE
                """)
            await connection.close()
            let life = Life(
                subscription: "1", line: 2, state: "declined",
                reason: "expired_for_price_increase", ended: "2026-04-15Z", dependents: "{2/EXTRA}")
            let charges = paid.map { from, until, price in
                """
                INSERT INTO repricer.charges (original_transaction_id, bucket, transaction_id, sku, purchased_at, expires_at,
                    price_milliunits, currency, storefront)
                VALUES ('2', repricer.bucket_of('2'), '\(from)', 'EXTRA', '\(from)', '\(until)', \(price), 'USD', 'USA');
                """
            }
            return try await bridge(
                [life], until: "2026-06-20Z",
                more: """
                    INSERT INTO repricer.dependent_claims (original_transaction_id, bucket, sku, claimed_by, change_id, period)
                    SELECT '2', repricer.bucket_of('2'), 'EXTRA', '1', change_id, 'P1M' FROM repricer.price_changes;
                    """ + charges.joined()
            ).map { line in
                let words = line.split(separator: " ")
                return "\(words[0]) \(words[1]) \(words[6]) \(words[9])"
            }
        }

        // 49.900 a year are 4.158 a month.
        #expect(
            try await rows([
                ("2026-03-01Z", "2026-04-01Z", 4990), ("2026-04-01Z", "2027-04-01Z", 49900),
            ]) == [
                "03 0 0 4990", "04 4990 0 4158", "05 4158 0 4158", "06 4158 0 4158",
            ])
        // 1.000 a week are 4.333 a month.
        #expect(
            try await rows([
                ("2026-03-01Z", "2026-04-01Z", 4990), ("2026-04-26Z", "2026-05-03Z", 1000),
            ]) == ["03 0 0 4990", "04 4990 0 4333", "05 4333 -4333 0"])
        #expect(
            try await rows([("2026-03-01Z", "2026-04-15Z", 4990)]) == [
                "03 0 0 4990", "04 4990 -4990 0",
            ])
    }

    /// The customer moves to the year: each charge is a month's share of the period that was signed with it, however long
    /// an extension has made it.
    @Test func anItem_countsByThePeriodThatWasSignedWithItsCharge() async throws {
        var life = Life(subscription: "1", line: 2)
        life.pays(9990, from: 1, to: 2)
        life.pays(12990, from: 3, to: 3)
        life.paid.append(("2026-04-01Z", "2027-04-01Z", 99990, "PLAN"))
        func rows(_ period: String) async throws -> [String] {
            let connection = try await TestDatabase.connect()
            try await connection.script(
                "TRUNCATE repricer.batches, repricer.price_changes, repricer.charges CASCADE")
            await connection.close()
            return try await bridge(
                [life], until: "2026-06-20Z",
                more: """
                    UPDATE repricer.charges SET period = CASE WHEN price_milliunits = 99990 THEN \(period) ELSE 'P1M' END;
                    """
            ).map { line in
                let words = line.split(separator: " ")
                return "\(words[0]) \(words[1]) \(words[9])"
            }
        }

        // 99.990 a year are 8.333 a month.
        #expect(
            try await rows("'P1Y'").suffix(3) == ["04 12990 8333", "05 8333 8333", "06 8333 8333"])
        // An extended month stays one.
        #expect(try await rows("'P1M'").suffix(1) == ["06 99990 99990"])
    }

    /// `batch month opening closing`, where a second batch called something of the subscription on 10 April.
    private func bridgeOfTwo(
        _ life: Life, until asOf: String, sku: String = "PLAN", dependents: String = "{}",
        state: String = "scheduled"
    ) async throws -> [String] {
        let connection = try await TestDatabase.connect()
        let later = ReportFixture.Change(
            subscription: "1", batch: ReportFixture.otherBatch, line: 9, old: 12990, new: 14990,
            consent: "required", state: state, dependents: dependents)
        try await connection.script(
            ReportFixture.batchSQL(ReportFixture.batch, name: "spring", rows: 1)
                + ReportFixture.batchSQL(ReportFixture.otherBatch, name: "summer", rows: 1)
                + life.sql + later.sql
                    + """
                    UPDATE repricer.price_changes SET sent_at = '2026-04-10Z', sku = '\(sku)' WHERE line = 9;
                    SET repricer.as_of = '\(asOf)';
                    """)
        let rows = try await connection.query(
            """
            SELECT concat_ws(' ', batch_name, to_char(month, 'MM'), opening_milliunits, closing_milliunits) AS line
            FROM report.revenue_bridge ORDER BY month, batch_name
            """
        ).map { try $0.text("line") }
        await connection.close()
        return rows
    }

    @Test func anItemThatASecondBatchCalls_countsOnce() async throws {
        var life = Life(subscription: "1", line: 2)
        life.pays(9990, from: 1, to: 2)
        life.pays(12990, from: 3, to: 5)

        #expect(
            try await bridgeOfTwo(life, until: "2026-05-20Z") == [
                "spring 01 9990 9990", "spring 02 9990 9990", "spring 03 9990 12990",
                "summer 04 12990 12990", "summer 05 12990 12990",
            ])
    }

    /// The second batch was refused, or never sent: the first one keeps the item.
    @Test(arguments: ["rejected", "ineligible", "missed", "aborted"])
    func aBatchThatTheAppStoreRefused_movesNothing(state: String) async throws {
        var life = Life(subscription: "1", line: 2)
        life.pays(9990, from: 1, to: 2)
        life.pays(12990, from: 3, to: 5)

        #expect(
            try await bridgeOfTwo(life, until: "2026-05-20Z", state: state) == [
                "spring 01 9990 9990", "spring 02 9990 9990", "spring 03 9990 12990",
                "spring 04 12990 12990", "spring 05 12990 12990",
            ])
    }

    /// What the second batch does with the dependent that the first one named: nothing, the same, or it changes its price.
    @Test(arguments: [
        ("PLAN", "{}", "spring 04 2000 2000", "summer 04 12990 12990"),
        ("PLAN", "{EXTRA}", nil, "summer 04 14990 14990"),
        ("EXTRA", "{}", "spring 04 12990 12990", "summer 04 2000 2000"),
    ])
    func aDependentOfTheFirstBatch_countsOnce_untilALaterOneNamesIt(
        sku: String, dependents: String, spring: String?, summer: String
    ) async throws {
        var life = Life(subscription: "1", line: 2, dependents: "{EXTRA}")
        life.pays(9990, from: 1, to: 2)
        life.pays(12990, from: 3, to: 5)
        life.pays(2000, from: 1, to: 5, sku: "EXTRA")

        let rows = try await bridgeOfTwo(
            life, until: "2026-04-20Z", sku: sku, dependents: dependents)

        #expect(
            rows == ["spring 01 11990 11990", "spring 02 11990 11990", "spring 03 11990 14990"]
                + [spring, summer].compactMap(\.self))
    }

    /// The parent alone was given back: its dependent goes on, and leaves later of the customer's own accord.
    @Test func aDependentOfAnItemThatWasRefunded_leavesForItsOwnReason() async throws {
        var life = Life(
            subscription: "1", line: 2, state: "cancelled", reason: "item_refunded",
            ended: "2026-03-01Z",
            dependents: "{EXTRA}")
        life.pays(9990, from: 1, to: 2)
        life.pays(2000, from: 1, to: 3, sku: "EXTRA")
        life.events = [("2026-04-01Z", "EXPIRED", "VOLUNTARY")]

        #expect(
            try await bridge([life], until: "2026-04-10Z").suffix(2) == [
                "03 11990 0 0 0 0 0 -9990 0 2000", "04 2000 0 0 -2000 0 0 0 0 0",
            ])
    }

    /// Nothing was paid for when March began: the old price came back, and with it the increase.
    @Test func anIncreaseThatIsChargedAfterAnUnpaidTime_isPriceEffectAllTheSame() async throws {
        let late = """
            UPDATE repricer.price_changes SET effective_at = '2026-03-05Z';
            """ + charge("before", "2026-01-20Z", until: "2026-02-20Z", 9990)
            + charge("after", "2026-03-05Z", until: "2026-04-05Z", 12990)

        #expect(
            try await bridge([Life(subscription: "1", line: 2)], until: "2026-03-20Z", more: late)
                .suffix(2) == [
                    "02 9990 0 0 0 0 0 0 -9990 0", "03 0 3000 0 0 0 0 0 9990 12990",
                ])
    }

    /// The plan's own charge is revoked and the seat that was added to it stays, or the other way round: in the month after
    /// the increase, or in its own.
    @Test(arguments: ["plan", "seat"], ["2026-04-05Z", "2026-03-25Z"])
    func oneOfTwoSeatsThatIsRevoked_isARefund(revoked: String, day: String) async throws {
        let charges =
            charge("before", "2026-02-10Z", until: "2026-03-10Z", 9990)
            + charge("seat before", "2026-02-20Z", until: "2026-03-10Z", 9990)
            + charge("plan", "2026-03-10Z", until: "2026-04-10Z", 12990)
            + charge("seat", "2026-03-20Z", until: "2026-04-10Z", 12990) + """
                UPDATE repricer.charges SET is_purchase = true, is_added_seat = true WHERE transaction_id LIKE 'seat%';
                UPDATE repricer.charges SET revoked_at = '\(day)', refunded_milliunits = 12990
                WHERE transaction_id = '\(revoked)';
                UPDATE repricer.price_changes SET effective_at = '2026-03-10Z';
                """

        let rows = try await bridge(
            [Life(subscription: "1", line: 2)], until: "2026-04-08Z", more: charges)

        #expect(
            rows.suffix(2)
                == (day == "2026-04-05Z"
                    ? ["03 19980 3000 0 0 0 0 0 3000 25980", "04 25980 0 0 0 0 0 -12990 0 12990"]
                    : ["03 19980 3000 0 0 0 0 -9990 0 12990", "04 12990 0 0 0 0 0 0 0 12990"]))
    }

    /// The rest of a period costs a part of the price, and a further one all of it.
    @Test(arguments: [
        ("", "25980"), ("is_offer = true", "18640"), ("expires_at = '2026-03-15Z'", "5650"),
    ])
    func aSeatThatIsAdded_bringsThePriceOfThoseBesideIt(plan: String, closing: String) async throws
    {
        let charges =
            charge("before", "2026-02-10Z", until: "2026-03-10Z", 9990)
            + charge("plan", "2026-03-10Z", until: "2026-04-10Z", 12990)
            + charge("seat", "2026-03-20Z", until: "2026-04-10Z", 5650) + """
                UPDATE repricer.charges SET is_purchase = true, is_added_seat = true WHERE transaction_id = 'seat';
                UPDATE repricer.charges SET \(plan.isEmpty ? "quantity = 1" : plan) WHERE transaction_id = 'plan';
                UPDATE repricer.price_changes SET effective_at = '2026-03-10Z';
                """

        let rows = try await bridge(
            [Life(subscription: "1", line: 2)], until: "2026-04-08Z", more: charges)

        let last = try #require(rows.last)
        #expect(last.hasSuffix(" \(closing)"), "\(rows)")
    }

    @Test func inOneCurrency_atTheNewestRates_saysWhatHasNone() async throws {
        var life = Life(subscription: "1", line: 2)
        life.pays(9990, from: 1, to: 2)
        life.pays(12990, from: 3, to: 3)
        let foreign = ReportFixture.Change(
            subscription: "2", line: 3, old: 1000, new: 2000, consent: "required",
            place: "('JPY', 'JPN', 'P1M')", state: "scheduled")
        let connection = try await TestDatabase.connect()
        try await connection.script(
            ReportFixture.batchSQL(ReportFixture.batch, name: "spring", rows: 2) + life.sql
                + foreign.sql
                    + """
                    UPDATE repricer.price_changes SET forecast_renewal_at = '2026-12-01Z' WHERE line = 3;
                    INSERT INTO repricer.rule_imports (revision, imported_at, imported_by, file)
                        VALUES (2, '2026-01-01Z', 'r', 'f'), (3, '2026-01-02Z', 'r', 'f'), (4, '2026-01-03Z', 'r', 'f');
                    INSERT INTO repricer.exchange_rates (currency, valid_from, revision, imported_by, recorded_at, withdrawn,
                        billionths_per_euro, source)
                    VALUES ('USD', '2026-01-01Z', 2, 'r', '2026-01-01Z', false, 1250000000, 'ecb'),
                        ('USD', '2026-02-01Z', 3, 'r', '2026-01-02Z', false, 9, 'ecb'),
                        ('USD', '2026-02-01Z', 4, 'r', '2026-01-03Z', true, NULL, NULL);
                    SET repricer.as_of = '2026-03-20Z'; SET repricer.reporting_currency = 'EUR';
                    """)
        let rows = try await connection.query(
            """
            SELECT concat_ws(' ', to_char(month, 'MM'), currency, opening_milliunits, price_effect_milliunits,
                other_milliunits, closing_milliunits, rates_from, without_rate::text) AS line
            FROM report.revenue_bridge_total ORDER BY month
            """
        ).map { try $0.text("line") }
        await connection.close()

        #expect(
            rows == [
                "01 EUR 7992 0 0 7992 2026-01-01 {JPY}", "02 EUR 7992 0 0 7992 2026-01-01 {JPY}",
                "03 EUR 7992 2400 0 10392 2026-01-01 {JPY}",
            ])
    }

    /// Rates are units for one euro, so nobody imports one of the euro itself. What was converted, by which rates and since
    /// when those hold, stands in the row.
    @Test func theEuro_needsNoRate_andEachRateStandsInTheRow_withItsDay() async throws {
        func waiting(_ line: Int, _ price: Int, _ place: String) -> String {
            ReportFixture.Change(
                subscription: "\(line)", line: line, old: price, new: price + 1000,
                consent: "required",
                place: "(\(place), 'P1M')", state: "scheduled"
            ).sql
        }
        let connection = try await TestDatabase.connect()
        try await connection.script(
            ReportFixture.batchSQL(ReportFixture.batch, name: "spring", rows: 3)
                + waiting(2, 10_000, "'USD', 'USA'") + waiting(3, 20_000, "'EUR', 'DEU'")
                + waiting(4, 1_500_000, "'JPY', 'JPN'")
                    + """
                    UPDATE repricer.price_changes SET forecast_renewal_at = '2026-12-01Z';
                    INSERT INTO repricer.rule_imports (revision, imported_at, imported_by, file)
                        VALUES (2, '2026-01-01Z', 'r', 'f');
                    INSERT INTO repricer.exchange_rates (currency, valid_from, revision, imported_by, recorded_at, withdrawn,
                        billionths_per_euro, source)
                    VALUES ('USD', '2026-01-01Z', 2, 'r', '2026-01-01Z', false, 1250000000, 'ecb'),
                        ('JPY', '2025-12-30Z', 2, 'r', '2026-01-01Z', false, 150000000000, 'ecb');
                    SET repricer.as_of = '2026-01-20Z';
                    """)
        func rows(in currency: String) async throws -> [String] {
            try await connection.script(
                "SET repricer.reporting_currency = '\(currency)'; SET datestyle = 'SQL, DMY'")
            return try await connection.query(
                """
                SELECT concat_ws(' ', currency, opening_milliunits, closing_milliunits, to_char(rates_from, 'YYYY-MM-DD'), rates::text,
                    coalesce(without_rate::text, '-')) AS line
                FROM report.revenue_bridge_total
                """
            ).map { try $0.text("line") }
        }

        let dollars = try await rows(in: "USD")
        let euros = try await rows(in: "EUR")
        let pounds = try await rows(in: "GBP")
        await connection.close()

        // 10 USD, 20 EUR and 1,500 JPY, which are 10 EUR.
        #expect(
            dollars == [
                #"USD 47500 47500 2025-12-30 {"JPY 150 for EUR 1 since 2025-12-30","#
                    + #""USD 1.25 for EUR 1 since 2026-01-01"} -"#
            ])
        #expect(
            euros == [
                #"EUR 38000 38000 2025-12-30 {"JPY 150 for EUR 1 since 2025-12-30","#
                    + #""USD 1.25 for EUR 1 since 2026-01-01"} -"#
            ])
        // The pound alone lacks one.
        #expect(pounds == ["GBP {GBP}"])
    }
}
