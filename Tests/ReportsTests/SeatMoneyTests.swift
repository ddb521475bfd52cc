import Postgres
import TestSupport
import Testing

/// A price is that of one seat. What a period brings, or loses, has as many seats as its charges in `report.money`.
@Suite(.database) struct SeatMoneyTests {
    private static func charge(
        _ id: String, _ day: String, _ price: Int, seats: Int, until: String, sku: String = "PLAN",
        isAddedSeat: Bool = false, isGivenBack: Bool = false
    ) -> String {
        let amount = price * seats
        let transaction = "\(id)-\(sku)-\(day)"
        return """
            INSERT INTO repricer.charges (original_transaction_id, bucket, transaction_id, sku, purchased_at, expires_at,
                price_milliunits, quantity, currency, storefront, is_purchase, is_added_seat, refunded_milliunits)
            VALUES ('\(id)', repricer.bucket_of('\(id)'), '\(transaction)', '\(sku)', '\(day)', '\(until)', \(price), \(seats),
                'USD', 'USA', \(isAddedSeat), \(isAddedSeat), \(isGivenBack ? amount : 0));
            INSERT INTO repricer.money_entries (original_transaction_id, bucket, transaction_id, sku, kind, occurred_at,
                number, correction, amount_milliunits, currency, storefront, evidence_id)
            VALUES ('\(id)', repricer.bucket_of('\(id)'), '\(transaction)', '\(sku)', 'charge', '\(day)', 0, 0,
                \(amount), 'USD', 'USA', 'e');
            """
    }

    private static func change(
        _ id: String, line: Int, _ state: String, dependents: String = "{}", ended: String? = nil
    ) -> String {
        ReportFixture.Change(
            subscription: id, line: line, old: 9990, new: 12990, consent: "required", state: state,
            dependents: dependents, asked: "2026-01-10Z",
            effective: state == "effective" ? "2026-03-01Z" : nil
        ).sql
            + """
            INSERT INTO repricer.subscriptions (original_transaction_id, bucket, purchased_at, period)
            VALUES ('\(id)', repricer.bucket_of('\(id)'), '2026-02-01Z', 'P1M');
            """
            + (ended.map {
                """
                UPDATE repricer.price_changes SET ended_at = '\($0)' WHERE original_transaction_id = '\(id)';
                """
            } ?? "")
    }

    /// Three seats, and a fourth that is added in April; one that was added and given back does not count.
    private static let goesOn =
        change("1", line: 2, "effective")
        + charge("1", "2026-02-01Z", 9990, seats: 3, until: "2026-03-01Z")
        + charge("1", "2026-03-01Z", 12990, seats: 3, until: "2026-04-01Z")
        + charge("1", "2026-04-01Z", 12990, seats: 3, until: "2026-05-01Z")
        + charge("1", "2026-04-10Z", 12990, seats: 1, until: "2026-05-01Z", isAddedSeat: true)
        + charge(
            "1", "2026-04-20Z", 12990, seats: 2, until: "2026-05-01Z", isAddedSeat: true,
            isGivenBack: true)
    /// Two seats of an item and of its dependent, which got three more; of those that were given back none counts.
    private static let declined =
        change("2", line: 3, "declined", dependents: "{EXTRA}", ended: "2026-03-01Z")
        + charge("2", "2026-02-01Z", 9990, seats: 2, until: "2026-03-01Z")
        + charge("2", "2026-02-01Z", 2000, seats: 2, until: "2026-03-01Z", sku: "EXTRA")
        + charge(
            "2", "2026-02-10Z", 2000, seats: 3, until: "2026-03-01Z", sku: "EXTRA",
            isAddedSeat: true
        )
        + charge(
            "2", "2026-02-11Z", 2000, seats: 4, until: "2026-03-01Z", sku: "EXTRA",
            isAddedSeat: true,
            isGivenBack: true)
            + """
            INSERT INTO repricer.dependent_cancellations (original_transaction_id, bucket, change_id, dependent_sku,
                parent_sku, batch_id, cause, state, price_milliunits, currency, requested_at, requested_by_evidence,
                settled_at, settled_by_evidence)
            SELECT '2', repricer.bucket_of('2'), change_id, 'EXTRA', 'PLAN', batch_id, 'declined', 'confirmed', 2000,
                'USD', '2026-03-01Z', 'e1', '2026-03-02Z', 'e2'
            FROM repricer.price_changes WHERE original_transaction_id = '2';
            """
    /// Somebody else is charged, and so the first one is heard of until then.
    private static func heard(_ day: String) -> String {
        charge("9", day, 990, seats: 1, until: "2027-01-01Z")
    }

    /// The rows that a query gives of a report: from the facts, from what is kept, and as of the instant.
    private func read(_ sql: String, asOf: String, _ line: (String) -> String) async throws
        -> [String]
    {
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            UPDATE repricer.service_controls SET is_rehearsal = true, clock_rate = 0.001,
                clock_origin = clock_timestamp(), clock_start = timestamptz '\(asOf)' - interval '1 hour';
            """ + ReportFixture.batchSQL(ReportFixture.batch, name: "spring", rows: 3) + sql
                + "SET repricer.as_of = '\(asOf)'; SET timezone = 'UTC';")
        func lines(_ suffix: String) async throws -> [String] {
            try await connection.query("\(unsafe: line(suffix))").map { try $0.text("line") }
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

    private static let marks =
        "INSERT INTO repricer.stale_figures SELECT original_transaction_id, bucket FROM repricer.subscriptions;"

    @Test func aPeriod_bringsAndLosesAsManySeatsAsWereCharged() async throws {
        let lines = try await read(
            Self.goesOn + Self.declined + Self.heard("2026-04-20Z") + Self.marks,
            asOf: "2026-04-25Z"
        ) { suffix in
            """
            SELECT concat_ws(' ', old_total_milliunits, new_total_milliunits, old_per_period_milliunits,
                new_per_period_milliunits, uplift_per_month_milliunits, declined_lost_per_period_milliunits,
                dependent_lost_per_period_milliunits, lost_per_month_milliunits) AS line
            FROM report.revenue_impact\(suffix)
            UNION ALL
            -- The charges of the period that runs, by the ledger, but for the seats that were given back.
            SELECT sum(amount_milliunits)::text FROM report.money\(suffix)
            WHERE original_transaction_id = '1' AND occurred_at BETWEEN '2026-04-01Z' AND '2026-04-15Z'
            """
        }

        // Seven seats were charged in all, four of them in the period that runs.
        #expect(lines == ["69930 90930 39960 51960 12000 19980 10000 29980", "51960"])
    }

    /// What an added seat costs may be a part of the price. It is no price of the item: the subscription goes on, and no charge
    /// is odd, whether that part is below the old price or above it. Beyond the new price it is no part of it.
    @Test(arguments: [(6000, ""), (11990, ""), (12990, ""), (13990, "other_price")])
    func aPartOfThePriceForAnAddedSeat_isNoPriceOfTheItem(
        price: Int, exception: String
    ) async throws {
        let life =
            Self.change("1", line: 2, "effective")
            + Self.charge("1", "2026-03-01Z", 12990, seats: 2, until: "2026-04-01Z")
            + Self.charge("1", "2026-04-01Z", 12990, seats: 2, until: "2026-05-01Z")
            + Self.charge(
                "1", "2026-04-20Z", price, seats: 1, until: "2026-05-01Z", isAddedSeat: true)

        let lines = try await read(
            life + Self.heard("2026-04-20Z") + Self.marks, asOf: "2026-04-25Z"
        ) { suffix in
            """
            SELECT concat_ws(' ', old_per_period_milliunits, new_per_period_milliunits) AS line
            FROM report.revenue_impact\(suffix)
            UNION ALL
            SELECT coalesce((SELECT string_agg(exception, ' ') FROM report.charge_exception\(suffix)), '')
            """
        }

        #expect(lines == ["29970 38970", exception])
    }

    /// A seat that came four days before the end of the period, and then no charge for two months: two renewals are missing,
    /// and none where the customer had turned to another item before the seat came.
    @Test(arguments: [
        ("", ["2026-05-01 38970", "2026-06-01 38970"]),
        (
            """
            INSERT INTO repricer.subscription_events (original_transaction_id, bucket, signed_at, evidence_id, source, type,
                subtype, statement)
            VALUES ('1', repricer.bucket_of('1'), '2026-04-20Z', 'e', 'notification', 'DID_CHANGE_RENEWAL_PREF', 'DOWNGRADE',
                '{}');
            """, []
        ),
    ])
    func aSeatThatCameLate_isOfTheLengthOfItsPeriod(told: String, missing: [String]) async throws {
        let life =
            Self.change("1", line: 2, "effective")
            + Self.charge("1", "2026-03-01Z", 12990, seats: 2, until: "2026-04-01Z")
            + Self.charge("1", "2026-04-01Z", 12990, seats: 2, until: "2026-05-01Z")
            + Self.charge(
                "1", "2026-04-27Z", 12990, seats: 1, until: "2026-05-01Z", isAddedSeat: true)
            + Self.charge("1", "2026-07-01Z", 12990, seats: 3, until: "2026-08-01Z")

        let lines = try await read(
            life + told + Self.heard("2026-07-04Z") + Self.marks, asOf: "2026-07-05Z"
        ) {
            suffix in
            """
            SELECT concat_ws(' ', occurred_at::date, expected_milliunits) AS line FROM report.charge_exception\(suffix)
            WHERE exception = 'missing' ORDER BY 1
            """
        }

        #expect(lines == missing)
    }

    @Test func thePriceEffectOfTheBridge_isThatOfEverySeat() async throws {
        let lines = try await read(
            Self.goesOn + Self.heard("2026-04-20Z") + Self.marks, asOf: "2026-04-15Z"
        ) { suffix in
            """
            SELECT concat_ws(' ', to_char(month, 'MM'), opening_milliunits, price_effect_milliunits, other_milliunits,
                closing_milliunits) AS line
            FROM report.revenue_bridge\(suffix) ORDER BY month
            """
        }

        #expect(
            lines == [
                "02 0 0 29970 29970", "03 29970 9000 0 38970", "04 38970 0 12990 51960",
            ])
    }

    @Test func aRenewalThatIsMissing_wasToBringEverySeat() async throws {
        let lines = try await read(
            Self.goesOn + Self.heard("2026-05-20Z") + Self.marks, asOf: "2026-05-21Z"
        ) { suffix in
            """
            SELECT concat_ws(' ', exception, occurred_at::date, expected_milliunits) AS line
            FROM report.charge_exception\(suffix)
            UNION ALL
            SELECT concat_ws(' ', silent, silent_per_period_milliunits, new_per_period_milliunits)
            FROM report.revenue_impact\(suffix) ORDER BY 1
            """
        }

        #expect(
            lines == ["1 51960 0", "missing 2026-05-01 51960", "refunded 2026-04-20 25980"])
    }
}
