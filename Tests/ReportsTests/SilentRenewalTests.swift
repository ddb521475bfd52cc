import Postgres
import TestSupport
import Testing

/// Renewals of an effective change that stop without a word, that go on at another price, or after an end.
@Suite(.database) struct SilentRenewalTests {
    /// Called on 3 January, in effect on 1 March, and paid until 1 May. Another customer is charged for as long as `heard`.
    private static func story(heard: String, _ more: String = "") -> String {
        let change = ReportFixture.Change(
            subscription: "1", line: 2, old: 9990, new: 12990, consent: "required",
            state: "effective", effective: "2026-03-01Z")
        return """
            TRUNCATE repricer.batches, repricer.price_changes, repricer.charges, repricer.money_entries,
                repricer.subscriptions, repricer.subscription_events CASCADE;
            """
                + ReportFixture.batchSQL(ReportFixture.batch, name: "spring", rows: 1) + change.sql
                    + """
                    INSERT INTO repricer.subscriptions (original_transaction_id, bucket, purchased_at)
                    VALUES ('1', repricer.bucket_of('1'), '2026-04-01Z');
                    """
                + charge("1", "2026-03-01Z", 12990, until: "2026-04-01Z")
                + charge("1", "2026-04-01Z", 12990, until: "2026-05-01Z")
                + charge("2", heard, 990, until: "2027-01-01Z") + more
    }

    private static func charge(_ id: String, _ day: String, _ price: Int, until: String) -> String {
        """
        INSERT INTO repricer.charges (original_transaction_id, bucket, transaction_id, sku, purchased_at, expires_at,
            price_milliunits, currency, storefront)
        VALUES ('\(id)', repricer.bucket_of('\(id)'), '\(id)-\(day)', 'PLAN', '\(day)', '\(until)', \(price), 'USD', 'USA');
        INSERT INTO repricer.money_entries (original_transaction_id, bucket, transaction_id, sku, kind, occurred_at,
            number, correction, amount_milliunits, currency, storefront, evidence_id)
        VALUES ('\(id)', repricer.bucket_of('\(id)'), '\(id)-\(day)', 'PLAN', 'charge', '\(day)', 0, 0,
            \(price), 'USD', 'USA', 'e');
        """
    }

    private static func told(_ type: String, _ day: String) -> String {
        """
        INSERT INTO repricer.subscription_events (original_transaction_id, bucket, signed_at, evidence_id, source, type,
            statement)
        VALUES ('1', repricer.bucket_of('1'), '\(day)', '\(type)', 'notification', '\(type)', '{}');
        """
    }

    /// What is named, what a further period adds, and how many are silent: from the facts, kept, and as of now.
    private func read(_ sql: String, asOf: String = "2026-12-01Z") async throws -> [String] {
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            UPDATE repricer.service_controls SET is_rehearsal = true, clock_rate = 0.001,
                clock_origin = clock_timestamp(), clock_start = timestamptz '\(asOf)' - interval '1 hour';
            """ + sql + "SET repricer.as_of = '\(asOf)'; SET timezone = 'UTC';")
        func lines(_ suffix: String) async throws -> [String] {
            try await connection.query(
                """
                SELECT concat_ws(' ', exception, occurred_at::date, amount_milliunits, expected_milliunits) AS line
                FROM report.charge_exception\(unsafe: suffix)
                UNION ALL
                SELECT concat_ws(' ', uplift_per_period_milliunits, silent, silent_per_period_milliunits)
                FROM report.revenue_impact\(unsafe: suffix)
                UNION ALL
                SELECT concat_ws(' ', check_name, problems) FROM report.reconciliation\(unsafe: suffix)
                WHERE check_name LIKE 'charges_%' AND problems > 0 ORDER BY 1
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

    private static let goesOn = ["3000 0 0"]
    private static let isSilent = [
        "0 1 12990", "charges_missing 1", "missing 2026-05-01 0 12990",
    ]

    @Test(arguments: [
        ("2026-04-30Z", "", goesOn),
        ("2026-05-03T23:00:00Z", "", goesOn),
        ("2026-05-05Z", "", isSilent),
        // A failed charge is tried again for 60 days, and a renewal may be put off.
        ("2026-05-05Z", told("DID_FAIL_TO_RENEW", "2026-05-01Z"), goesOn),
        ("2026-07-10Z", told("DID_FAIL_TO_RENEW", "2026-05-01Z"), isSilent),
        ("2026-07-10Z", told("RENEWAL_EXTENDED", "2026-04-20Z"), goesOn),
        ("2026-08-10Z", told("RENEWAL_EXTENDED", "2026-04-20Z"), isSilent),
        ("2026-05-05Z", told("PRICE_INCREASE", "2026-05-01Z"), isSilent),
        ("2026-05-05Z", told("EXPIRED", "2026-05-01Z"), goesOn),
        ("2026-05-05Z", "UPDATE repricer.price_changes SET is_leaving = true;", ["0 0 0"]),
    ])
    func renewals_thatStopWithoutAWord_areMissing_asFarAsOthersAreHeard(
        heard: String, more: String, lines: [String]
    ) async throws {
        #expect(try await read(Self.story(heard: heard, more)) == lines)
    }

    /// Others are heard later than the instant that is asked about.
    @Test func silence_isJudgedByTheInstant() async throws {
        let story = Self.story(heard: "2026-05-10Z")

        #expect(try await read(story, asOf: "2026-05-09Z") == Self.goesOn)
        #expect(try await read(story, asOf: "2026-05-11Z") == Self.isSilent)
    }

    @Test func anItemThatIsChargedAtAnotherPriceByNow_bringsNoMoreOfTheChange() async throws {
        let more = Self.charge("1", "2026-05-01Z", 4990, until: "2026-06-01Z")

        #expect(
            try await read(Self.story(heard: "2026-05-20Z", more)) == [
                "0 0 0", "charges_other_price 1", "other_price 2026-05-01 4990 12990",
            ])
        // It added nothing any more, so that its silence takes nothing away.
        #expect(
            try await read(Self.story(heard: "2026-06-20Z", more)) == [
                "0 0 0", "charges_missing 1", "charges_other_price 1", "missing 2026-06-01 0 12990",
                "other_price 2026-05-01 4990 12990",
            ])
    }

    /// A second increase of the item, in effect since 1 April: what the first one added stays in it, and both fall silent.
    @Test func anItemThatTookASecondPrice_isMissingOnce() async throws {
        let second = ReportFixture.Change(
            subscription: "1", line: 3, old: 12990, new: 14990, consent: "required",
            state: "effective", effective: "2026-05-01Z")
        let more = second.sql + Self.charge("1", "2026-05-01Z", 14990, until: "2026-06-01Z")

        #expect(try await read(Self.story(heard: "2026-05-20Z", more)) == ["5000 0 0"])
        #expect(
            try await read(Self.story(heard: "2026-06-20Z", more)) == [
                "0 2 27980", "charges_missing 1", "missing 2026-06-01 0 14990",
            ])
    }

    @Test func aRenewalAfterTheSubscriptionEnded_isNamed_unlessThereWasNoGap() async throws {
        let ended = Self.told("EXPIRED", "2026-05-01Z")
        let later = Self.charge("1", "2026-05-08Z", 12990, until: "2026-06-08Z")
        let atOnce = Self.charge("1", "2026-05-01Z", 12990, until: "2026-06-01Z")
        let bought =
            "UPDATE repricer.charges SET is_purchase = true WHERE transaction_id = '1-2026-05-08Z';"

        let named = try await read(Self.story(heard: "2026-05-20Z", ended + later))
        let withoutEnd = try await read(Self.story(heard: "2026-05-20Z", later))
        let withoutGap = try await read(Self.story(heard: "2026-05-20Z", ended + atOnce))
        let cameBack = try await read(Self.story(heard: "2026-05-20Z", ended + later + bought))

        #expect(
            named == ["3000 0 0", "after_end 2026-05-08 12990 12990", "charges_after_end 1"])
        #expect(
            withoutEnd == ["3000 0 0", "charges_missing 1", "missing 2026-05-01 0 12990"])
        #expect(withoutGap == Self.goesOn)
        #expect(cameBack == Self.goesOn)
    }
}
