import Postgres
import TestSupport
import Testing

/// A customer who modifies the subscription within a paid period gets a new transaction, which takes the place of the
/// running one: it is no second seat, and no second run. A seat that is added comes beside it.
@Suite(.database) struct ModifiedPeriodTests {
    private static func charge(
        _ day: String, _ price: Int, until: String, sku: String = "PLAN", seats: Int = 1,
        isPurchase: Bool = false, isAddedSeat: Bool = false
    ) -> String {
        let seat = isAddedSeat ? ("is_added_seat, ", "true, ") : ("", "")
        return """
            INSERT INTO repricer.charges (original_transaction_id, bucket, transaction_id, sku, purchased_at, expires_at,
                price_milliunits, quantity, currency, storefront, \(seat.0)is_purchase)
            VALUES ('1', repricer.bucket_of('1'), '\(day)', '\(sku)', '\(day)', '\(until)', \(price), \(seats), 'USD', 'USA',
                \(seat.1)\(isPurchase));
            INSERT INTO repricer.money_entries (original_transaction_id, bucket, transaction_id, sku, kind, occurred_at,
                number, correction, amount_milliunits, currency, storefront, evidence_id)
            VALUES ('1', repricer.bucket_of('1'), '\(day)', '\(sku)', 'charge', '\(day)', 0, 0, \(price * seats), 'USD', 'USA',
                'e');
            """
    }

    private static func change(
        _ state: String, ended: String? = nil, dependents: String = "{}"
    ) -> String {
        ReportFixture.batchSQL(ReportFixture.batch, name: "spring", rows: 1)
            + ReportFixture.Change(
                subscription: "1", line: 2, old: 9990, new: 12990, consent: "required",
                state: state, dependents: dependents, asked: "2026-01-10Z",
                effective: state == "effective" ? "2026-03-15Z" : nil
            ).sql
                + """
                INSERT INTO repricer.subscriptions (original_transaction_id, bucket, purchased_at, period)
                VALUES ('1', repricer.bucket_of('1'), '2026-03-15Z', 'P1M');
                """
            + (ended.map { "UPDATE repricer.price_changes SET ended_at = '\($0)';" } ?? "")
    }

    /// Charged on 15 March, and modified on 25 March: the cycle is retained, or begins anew.
    private static func modified(_ price: Int, until: String, sku: String = "PLAN") -> String {
        let id = sku == "PLAN" ? "" : "T12:00"
        return charge("2026-03-15\(id)Z", price, until: "2026-04-15Z", sku: sku)
            + charge("2026-03-25\(id)Z", price, until: until, sku: sku, isPurchase: true)
    }

    /// What a further period brings and what is lost of it; the bridge's months; what is missing. From the facts, kept, and
    /// as of the instant.
    private func read(_ sql: String, asOf: String) async throws -> [String] {
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            UPDATE repricer.service_controls SET is_rehearsal = true, clock_rate = 0.001,
                clock_origin = clock_timestamp(), clock_start = timestamptz '\(asOf)' - interval '1 hour';
            """ + sql + "SET repricer.as_of = '\(asOf)'; SET timezone = 'UTC';")
        func lines(_ suffix: String) async throws -> [String] {
            try await connection.query(
                """
                SELECT concat_ws(' ', 'impact', new_per_period_milliunits, uplift_per_period_milliunits,
                    lost_per_period_milliunits, dependent_lost_per_period_milliunits) AS line
                FROM report.revenue_impact\(unsafe: suffix)
                UNION ALL
                SELECT concat_ws(' ', 'bridge', to_char(month, 'MM'), opening_milliunits, price_effect_milliunits, other_milliunits,
                    closing_milliunits)
                FROM report.revenue_bridge\(unsafe: suffix) WHERE month >= '2026-03-01'
                UNION ALL
                SELECT concat_ws(' ', exception, expected_milliunits) FROM report.charge_exception\(unsafe: suffix)
                ORDER BY 1
                """
            ).map { try $0.text("line") }
        }
        let fromFacts = try await lines("")
        try await connection.script(
            """
            BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT repricer.summarise_figures(100); COMMIT;
            """)
        #expect(try await lines("") == fromFacts, "kept")
        try await connection.script(
            """
            UPDATE repricer.service_controls SET clock_origin = clock_timestamp(),
                clock_start = timestamptz '\(asOf)' + interval '1 day';
            """)
        #expect(try await lines("_as_of('\(asOf)')") == fromFacts, "as of")
        await connection.close()
        return fromFacts
    }

    @Test(arguments: ["2026-04-15Z", "2026-04-25Z"])
    func aModificationInMidPeriod_isOneSeat_andOneRun(until: String) async throws {
        let before = Self.charge("2026-02-15Z", 9990, until: "2026-03-15Z")

        #expect(
            try await read(
                Self.change("effective") + before + Self.modified(12990, until: until),
                asOf: "2026-04-10Z") == [
                    "bridge 03 9990 3000 0 12990", "bridge 04 12990 0 0 12990",
                    "impact 12990 3000 0 0",
                ])
    }

    @Test func whatIsLostInSuchAPeriod_isOneSeat_ofTheItemAndItsDependents() async throws {
        let fell = """
            INSERT INTO repricer.dependent_cancellations (original_transaction_id, bucket, change_id, dependent_sku,
                parent_sku, batch_id, cause, state, price_milliunits, currency, requested_at, requested_by_evidence,
                settled_at, settled_by_evidence)
            SELECT '1', repricer.bucket_of('1'), change_id, 'EXTRA', 'PLAN', batch_id, 'declined', 'confirmed', 2000,
                'USD', '2026-04-15Z', 'e1', '2026-04-16Z', 'e2'
            FROM repricer.price_changes;
            """

        #expect(
            try await read(
                Self.change("declined", ended: "2026-04-15Z", dependents: "{EXTRA}")
                    + Self.modified(9990, until: "2026-04-15Z")
                    + Self.modified(2000, until: "2026-04-15Z", sku: "EXTRA") + fell,
                asOf: "2026-04-14Z"
            ).suffix(1) == ["impact 0 0 11990 2000"])
    }

    @Test func aRenewalThatIsMissingAfterIt_wasToBringOneSeat() async throws {
        let may = Self.charge("2026-05-15Z", 12990, until: "2026-06-15Z")

        #expect(
            try await read(
                Self.change("effective") + Self.modified(12990, until: "2026-04-15Z") + may,
                asOf: "2026-05-20Z"
            ).suffix(1) == ["missing 12990"])
    }

    /// A seat that is added stays beside the renewal, whose run it does not end.
    @Test func aSeatThatIsAdded_comesBesideIt() async throws {
        let renewal = Self.charge("2026-03-15Z", 12990, until: "2026-04-15Z")
        let seat = Self.charge(
            "2026-03-25Z", 12990, until: "2026-04-15Z", seats: 2, isPurchase: true,
            isAddedSeat: true)

        #expect(
            try await read(Self.change("effective") + renewal + seat, asOf: "2026-04-10Z").suffix(2)
                == ["bridge 04 38970 0 0 38970", "impact 38970 9000 0 0"])
    }

    /// Two seats, a third that is added, and then a modification, whose transaction has all of them, or fewer.
    private static func reseated(
        _ price: Int, until: String, seats: Int, sku: String = "PLAN"
    ) -> String {
        let at = sku == "PLAN" ? "" : "T12:00"
        return charge("2026-03-15\(at)Z", price, until: "2026-04-15Z", sku: sku, seats: 2)
            + charge(
                "2026-03-20\(at)Z", price, until: "2026-04-15Z", sku: sku, isPurchase: true,
                isAddedSeat: true)
            + charge(
                "2026-03-25\(at)Z", price, until: until, sku: sku, seats: seats, isPurchase: true)
    }

    @Test(arguments: [3, 1], ["2026-04-15Z", "2026-04-25Z"])
    func aModificationAfterASeatWasAdded_hasAllSeats(seats: Int, until: String) async throws {
        let total = 12990 * seats

        #expect(
            try await read(
                Self.change("effective") + Self.reseated(12990, until: until, seats: seats),
                asOf: "2026-04-10Z"
            ).suffix(2) == [
                "bridge 04 \(total) 0 0 \(total)", "impact \(total) \(3000 * seats) 0 0",
            ])
    }

    /// A seat that is added after the modification comes beside it.
    @Test func aSeatThatIsAddedAfterAModification_comesBesideIt() async throws {
        let seat = Self.charge(
            "2026-03-28Z", 12990, until: "2026-04-15Z", isPurchase: true, isAddedSeat: true)

        #expect(
            try await read(
                Self.change("effective") + Self.reseated(12990, until: "2026-04-15Z", seats: 3)
                    + seat,
                asOf: "2026-04-10Z"
            ).suffix(2) == ["bridge 04 51960 0 0 51960", "impact 51960 12000 0 0"])
    }

    @Test func aRenewalThatIsMissingAfterSuchAModification_wasToBringItsSeats() async throws {
        let may = Self.charge("2026-05-15Z", 12990, until: "2026-06-15Z")

        #expect(
            try await read(
                Self.change("effective") + Self.reseated(12990, until: "2026-04-15Z", seats: 3)
                    + may,
                asOf: "2026-05-20Z"
            ).suffix(1) == ["missing 38970"])
    }

    /// Of the item, of its dependent, and of another item that went with the subscription.
    @Test func whatIsLostAfterSuchAModification_isItsSeats() async throws {
        let fell = """
            INSERT INTO repricer.dependent_cancellations (original_transaction_id, bucket, change_id, dependent_sku,
                parent_sku, batch_id, cause, state, price_milliunits, currency, requested_at, requested_by_evidence,
                settled_at, settled_by_evidence)
            SELECT '1', repricer.bucket_of('1'), change_id, 'EXTRA', 'PLAN', batch_id, 'declined', 'confirmed', 2000,
                'USD', '2026-04-15Z', 'e1', '2026-04-16Z', 'e2'
            FROM repricer.price_changes;
            INSERT INTO repricer.subscription_events (original_transaction_id, bucket, signed_at, evidence_id, source, type,
                subtype, statement)
            VALUES ('1', repricer.bucket_of('1'), '2026-04-15Z', 'e', 'notification', 'EXPIRED', 'PRICE_INCREASE', '{}');
            """

        // Three seats at 9.990, at 2.000, and at 1.000.
        #expect(
            try await read(
                Self.change("declined", ended: "2026-04-15Z", dependents: "{EXTRA}")
                    + Self.reseated(9990, until: "2026-04-15Z", seats: 3)
                    + Self.reseated(2000, until: "2026-04-15Z", seats: 3, sku: "EXTRA")
                    + Self.reseated(1000, until: "2026-04-15Z", seats: 3, sku: "OTHER") + fell,
                asOf: "2026-04-14Z"
            ).suffix(1) == ["impact 0 0 38970 6000"])
    }
}
