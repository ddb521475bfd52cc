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

    private static func told(_ type: String, _ day: String, _ subtype: String? = nil) -> String {
        """
        INSERT INTO repricer.subscription_events (original_transaction_id, bucket, signed_at, evidence_id, source, type,
            subtype, statement)
        VALUES ('1', repricer.bucket_of('1'), '\(day)', '\(type)', 'notification', '\(type)',
            nullif('\(subtype ?? "")', ''), '{}');
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

    /// The change is not in effect yet, and its customer was last charged on 1 April, at the old price.
    private static func open(_ state: String, due: String, _ more: String = "") -> String {
        story(
            heard: "2026-05-20Z",
            """
            UPDATE repricer.price_changes SET state = '\(state)', effective_at = NULL, called_renewal_at = '2026-02-01Z',
                due_effective_at = '\(due)';
            UPDATE repricer.charges SET price_milliunits = 9990 WHERE original_transaction_id = '1';
            """ + more)
    }

    private static let missesTheOldPrice = ["charges_missing 1", "missing 2026-05-01 0 9990"]
    private static let missesTheNewPrice = ["charges_missing 1", "missing 2026-05-01 0 12990"]
    private static let isDecrease = """
        UPDATE repricer.price_changes SET direction = 'decrease', forecast_consent = 'none', current_price_milliunits = 13990;
        """

    private static func said(_ statement: String, _ day: String = "2026-04-20Z") -> String {
        told("DID_CHANGE_RENEWAL_STATUS", day)
            + "UPDATE repricer.subscription_events SET statement = '\(statement)' WHERE signed_at = '\(day)';"
    }

    /// Before the renewal that the change is due at, each is due at the old price. At it, only what awaits no consent.
    @Test(arguments: [
        ("a month before it is due", open("scheduled", due: "2026-06-01Z"), missesTheOldPrice),
        ("asked, and not due", open("pending_consent", due: "2026-06-01Z"), missesTheOldPrice),
        ("accepted, and not due", open("accepted", due: "2026-06-01Z"), missesTheOldPrice),
        ("accepted, and due", open("accepted", due: "2026-05-01Z"), missesTheNewPrice),
        ("asked, and due", open("pending_consent", due: "2026-05-01Z"), []),
        ("an increase of which nothing is told", open("scheduled", due: "2026-05-01Z"), []),
        ("a decrease", open("scheduled", due: "2026-05-01Z", isDecrease), missesTheNewPrice),
        (
            "its charge failed",
            open("accepted", due: "2026-06-01Z", told("DID_FAIL_TO_RENEW", "2026-05-01Z")), []
        ),
        ("it ended", open("accepted", due: "2026-06-01Z", told("EXPIRED", "2026-05-01Z")), []),
        (
            "it was revoked",
            open(
                "accepted", due: "2026-06-01Z", update("2026-04-01Z", "revoked_at = '2026-04-20Z'")),
            []
        ),
        (
            "it was called after the renewal",
            open(
                "accepted", due: "2026-06-01Z",
                "UPDATE repricer.price_changes SET sent_at = '2026-05-02Z';"),
            []
        ),
        (
            "a later period runs",
            open(
                "accepted", due: "2026-06-01Z",
                "UPDATE repricer.subscriptions SET purchased_at = '2026-05-15Z';"),
            missesTheOldPrice
        ),
        (
            // Their charge begins no period. The one that runs has all seats: one, and two that were added.
            "seats were added",
            open(
                "accepted", due: "2026-06-01Z",
                """
                INSERT INTO repricer.charges (original_transaction_id, bucket, transaction_id, sku, purchased_at, expires_at,
                    price_milliunits, quantity, currency, storefront, is_purchase, is_added_seat)
                VALUES ('1', repricer.bucket_of('1'), 'seats', 'PLAN', '2026-04-15Z', '2026-05-01Z', 5000, 2, 'USD', 'USA',
                    true, true);
                """
                    + said(
                        #"{"status": 1, "transaction": {"purchasedAt": 1776211200000, "details": {"additionalTransactionReason": "SEAT_ADDITION"}}}"#
                    )),
            ["charges_missing 1", "missing 2026-05-01 0 29970"]
        ),
        ("it was aborted", open("aborted", due: "2026-06-01Z"), []),
        (
            "the customer turned renewal off",
            open(
                "accepted", due: "2026-06-01Z",
                said(#"{"status": 1, "renewal": {"autoRenewStatus": 0}}"#)), []
        ),
        (
            "a status tells that its charge is tried again",
            open("accepted", due: "2026-06-01Z", said(#"{"status": 3}"#)), []
        ),
        (
            "it was in trouble, and is not any more",
            open(
                "accepted", due: "2026-06-01Z",
                said(#"{"status": 3}"#, "2026-04-02Z") + said(#"{"status": 1}"#)), missesTheOldPrice
        ),
        (
            "another item is to take its place",
            open(
                "accepted", due: "2026-06-01Z",
                "UPDATE repricer.price_changes SET reason = 'item_replaced';"), []
        ),
        (
            "asked, and due some moments later than the period ends",
            open("pending_consent", due: "2026-05-01T00:00:03Z"), []
        ),
        (
            "accepted, and due some moments later", open("accepted", due: "2026-05-01T00:00:03Z"),
            missesTheNewPrice
        ),
    ])
    func renewalsThatStop_beforeTheChangeIsInEffect_areMissing(
        what: String, story: String, lines: [String]
    ) async throws {
        let read = try await read(story)

        #expect(read.filter { $0.contains("missing") } == lines, "\(what)")
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

    @Test func aRenewalAfterTheSubscriptionEnded_isNamed_withAGapOrWithout() async throws {
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
        #expect(
            withoutGap == ["3000 0 0", "after_end 2026-05-01 12990 12990", "charges_after_end 1"])
        #expect(cameBack == Self.goesOn)
    }

    /// Apple signs an end at the former expiry or later. That of a renewal's own period comes at its own expiry.
    @Test(arguments: [
        ("EXPIRED", "2026-05-01T00:03:00Z", true), ("EXPIRED", "2026-05-02Z", true),
        ("EXPIRED", "2026-04-30T23:59:00Z", true), ("EXPIRED", "2026-05-31T23:59:00Z", false),
        ("EXPIRED", "2026-04-05Z", false), ("GRACE_PERIOD_EXPIRED", "2026-05-02Z", false),
    ])
    func aRenewalThatBeganAtTheEnd_isNamed(type: String, signed: String, isNamed: Bool) async throws
    {
        let atOnce = Self.charge("1", "2026-05-01Z", 12990, until: "2026-06-01Z")

        let lines = try await read(
            Self.story(heard: "2026-05-20Z", Self.told(type, signed) + atOnce))

        #expect(
            lines.filter { $0.hasPrefix("after_end") && !$0.contains("2026-04") }
                == (isNamed ? ["after_end 2026-05-01 12990 12990"] : []))
    }

    /// A charge that failed and was made up for in time keeps the date of its period, and an end is in between.
    @Test func aRenewalThatWasRecovered_isNotAfterTheEnd() async throws {
        let recovered =
            Self.told("DID_FAIL_TO_RENEW", "2026-05-01Z") + Self.told("EXPIRED", "2026-05-03Z")
            + Self.charge("1", "2026-05-01Z", 12990, until: "2026-06-01Z")

        #expect(try await read(Self.story(heard: "2026-05-20Z", recovered)) == Self.goesOn)
    }

    /// A story whose renewal of 1 May never came, and the next one did.
    private static func gap(_ more: String) -> String {
        story(
            heard: "2026-06-02Z", charge("1", "2026-06-01Z", 12990, until: "2026-07-01Z") + more)
    }

    private static func update(_ day: String, _ sets: String) -> String {
        "UPDATE repricer.charges SET \(sets) WHERE transaction_id = '1-\(day)';"
    }

    /// A statement tells of renewals near it or after it, and not of all between two charges.
    @Test(arguments: [
        ("nothing is told", "", ["05", "06", "07"]),
        ("a charge was recovered", told("DID_RENEW", "2026-08-01Z", "BILLING_RECOVERY"), ["05"]),
        (
            "the first charge was recovered", told("DID_RENEW", "2026-04-01Z", "BILLING_RECOVERY"),
            ["05", "06", "07"]
        ),
        ("a charge went through", told("DID_RENEW", "2026-08-01Z"), ["05", "06", "07"]),
        ("the last charge failed", told("DID_FAIL_TO_RENEW", "2026-07-01Z"), ["05", "06"]),
        ("the first charge failed", told("DID_FAIL_TO_RENEW", "2026-05-01Z"), []),
        ("a charge failed before", told("DID_FAIL_TO_RENEW", "2026-04-02Z"), ["07"]),
        ("the grace period is over", told("GRACE_PERIOD_EXPIRED", "2026-07-17Z"), ["05"]),
        ("it ended at the first", told("EXPIRED", "2026-05-01Z"), []),
        ("it ended after failed charges", told("EXPIRED", "2026-07-01Z"), []),
        ("it ended at the last", told("EXPIRED", "2026-07-16Z"), ["05"]),
        ("another plan was chosen", preference("DOWNGRADE", "2026-04-16Z"), []),
        ("another plan was chosen late", preference("DOWNGRADE", "2026-06-16Z"), ["05", "06"]),
        (
            "another plan was chosen, and not wanted",
            preference("DOWNGRADE", "2026-04-10Z") + preference(nil, "2026-04-12Z"),
            ["05", "06", "07"]
        ),
        (
            "another plan was not wanted any more in between",
            preference("DOWNGRADE", "2026-04-10Z") + preference(nil, "2026-05-16Z"), ["06", "07"]
        ),
        (
            "another item was added to the next renewal, and this one stays off it",
            preference("DOWNGRADE", "2026-04-10Z")
                + preference(nil, "2026-04-12Z", renewing: ["NEWS", "SPORT"]), []
        ),
        (
            "the item is back in the next renewal",
            preference("DOWNGRADE", "2026-04-10Z")
                + preference(nil, "2026-04-12Z", renewing: ["NEWS", "PLAN"]),
            ["05", "06", "07"]
        ),
        (
            "another item leaves the next renewal",
            preference("DOWNGRADE", "2026-04-10Z", renewing: ["PLAN"]), ["05", "06", "07"]
        ),
        (
            "the item was taken off the next renewal, and no word says that it is another plan",
            preference(nil, "2026-04-10Z", renewing: ["NEWS"]), []
        ),
        (
            "another item left the next renewal, and no word says that it is another plan",
            preference(nil, "2026-04-10Z", renewing: ["PLAN"]), ["05", "06", "07"]
        ),
        (
            "the item renews for another time",
            preference("DOWNGRADE", "2026-04-10Z", renewing: ["PLAN"], period: "P1Y"), []
        ),
        (
            "the period was bought by an upgrade",
            preference("UPGRADE", "2026-04-01Z") + update("2026-04-01Z", "is_purchase = true"),
            ["05", "06", "07"]
        ),
    ])
    func aStatement_tellsOfTheRenewalsNearIt(_: String, told: String, missing: [String])
        async throws
    {
        let lines = try await read(
            Self.story(
                heard: "2026-08-02Z",
                Self.charge("1", "2026-08-01Z", 12990, until: "2026-09-01Z") + told))

        #expect(
            lines.filter { $0.hasPrefix("missing") }
                == missing.map { "missing 2026-\($0)-01 0 12990" })
    }

    private static func preference(
        _ subtype: String?, _ day: String, renewing: [String] = [], period: String = "P1M"
    ) -> String {
        let items = renewing.map { "{\"sku\": \"\($0)\", \"price\": 12990}" }
        let statement =
            "{\"renewal\": {\"period\": \"\(period)\", \"items\": [\(items.joined(separator: ", "))]}}"
        return told("DID_CHANGE_RENEWAL_PREF", day)
            + (subtype.map {
                "UPDATE repricer.subscription_events SET subtype = '\($0)' WHERE signed_at = '\(day)';"
            } ?? "")
            + (renewing.isEmpty
                ? ""
                : "UPDATE repricer.subscription_events SET statement = '\(statement)' WHERE signed_at = '\(day)';")
    }

    private static func renewalPreference(_ subtype: String) -> String {
        told("DID_CHANGE_RENEWAL_PREF", "2026-04-16Z")
            + "UPDATE repricer.subscription_events SET subtype = '\(subtype)';"
    }

    private static let double = charge(
        "1", "2026-04-01T00:05:00Z", 12990, until: "2026-05-01Z")
    private static let seat =
        charge("1", "2026-04-16Z", 12990, until: "2026-05-01Z")
        + update("2026-04-16Z", "is_purchase = true, is_added_seat = true")
    private static let refund = told("REFUND", "2026-04-17Z")
    private static let isMissing = ["missing 2026-05-01 0 12990"]

    /// A statement tells why a renewal did not come where it is about this item's own paid period.
    @Test(arguments: [
        ("nothing is told", "", isMissing),
        (
            "a doubled charge was given back",
            double + update("2026-04-01T00:05:00Z", "refunded_milliunits = 12990") + refund,
            isMissing
        ),
        (
            "a doubled charge was revoked",
            double + update("2026-04-01T00:05:00Z", "revoked_at = '2026-04-17Z'") + refund,
            isMissing
        ),
        (
            "a seat was added", seat + renewalPreference("INCREASE_QUANTITY"),
            ["missing 2026-05-01 0 25980"]
        ),
        ("another plan was chosen", renewalPreference("DOWNGRADE"), []),
        (
            "a seat was added and given back",
            seat + update("2026-04-16Z", "refunded_milliunits = 12990")
                + renewalPreference("INCREASE_QUANTITY") + refund, isMissing
        ),
        (
            "the period was given back, and the subscription goes on",
            update("2026-04-01Z", "refunded_milliunits = 12990") + refund, isMissing
        ),
        ("the item was revoked", update("2026-04-01Z", "revoked_at = '2026-04-17Z'") + refund, []),
        (
            "another item was revoked",
            charge("1", "2026-04-01T00:00:00Z", 990, until: "2026-05-01Z")
                + update("2026-04-01T00:00:00Z", "sku = 'EXTRA', revoked_at = '2026-04-17Z'")
                + refund
                    + """
                    UPDATE repricer.subscription_events
                    SET statement = '{"transaction": {"items": [{"sku": "EXTRA", "revokedAt": 1776384000000}]}}';
                    """, isMissing
        ),
        (
            "it was revoked after the renewal was due",
            update("2026-04-01Z", "revoked_at = '2026-05-10Z'") + refund, isMissing
        ),
    ])
    func aGap_isExplainedByWhatIsAboutItsOwnPeriodAlone(
        what: String, more: String, missing: [String]
    ) async throws {
        let lines = try await read(Self.gap(more))

        #expect(lines.filter { $0.hasPrefix("missing") } == missing, "\(what)")
    }

    private static let isExtended =
        told("RENEWAL_EXTENDED", "2026-04-20Z")
            + """
            UPDATE repricer.subscription_events SET statement = '{"transaction": {"expiresAt": 1778457600000}}';
            """ + update("2026-04-01Z", "expires_at = '2026-05-11Z'")

    /// The statement of an extension tells the new date.
    @Test func aRenewalThatWasPutOff_isMissingAfterTheNewDate() async throws {
        func missing(_ story: String) async throws -> [String] {
            try await read(story).filter { $0.hasPrefix("missing") }
        }
        let next = Self.charge("1", "2026-06-11Z", 12990, until: "2026-07-11Z")
        let onTime = Self.charge("1", "2026-05-11Z", 12990, until: "2026-06-11Z")
        let later = ["missing 2026-05-11 0 12990"]

        #expect(
            try await missing(Self.story(heard: "2026-06-12Z", Self.isExtended + next)) == later)
        #expect(
            try await missing(Self.story(heard: "2026-06-12Z", Self.isExtended + Self.seat + next))
                == ["missing 2026-05-11 0 12990"])
        #expect(
            try await missing(Self.story(heard: "2026-06-12Z", Self.isExtended + onTime + next))
                == [])
        #expect(try await missing(Self.story(heard: "2026-05-20Z", Self.isExtended)) == later)
        #expect(try await missing(Self.story(heard: "2026-05-13Z", Self.isExtended)) == [])
        // Without the date, nobody knows when it was due.
        #expect(try await missing(Self.gap(Self.told("RENEWAL_EXTENDED", "2026-04-20Z"))) == [])
    }

    /// How many renewals a gap has is told by the period of the plan that the customer has, and not by how long the last one
    /// was, or by the period that the plan had at the call.
    @Test(arguments: [
        (
            "a month that was put off by two", "P1M", nil, "2026-06-01Z", "2026-08-01Z",
            ["2026-06-01", "2026-07-01"]
        ),
        (
            "a week that was put off by twelve", "P1W", nil, "2026-06-27Z", "2026-07-18Z",
            ["2026-06-27", "2026-07-04", "2026-07-11"]
        ),
        (
            "a year that became months", "P1Y", "P1M", "2026-05-01Z", "2026-08-01Z",
            ["2026-05-01", "2026-06-01", "2026-07-01"]
        ),
        (
            "months that became a year", "P1M", "P1Y", "2027-04-01Z", "2028-04-01Z", ["2027-04-01"]
        ),
    ])
    func eachRenewalOfAGap_isOneOfTheCustomersOwnPeriods(
        what: String, plan: String, own: String?, until: String, next: String, days: [String]
    ) async throws {
        let sql =
            Self.update("2026-04-01Z", "expires_at = '\(until)'")
            + "UPDATE repricer.charges SET period = \(own.map { "'\($0)'" } ?? "NULL");"
            + "UPDATE repricer.price_changes SET period = '\(plan)';"
            + Self.charge("1", next, 12990, until: "2029-04-01Z")

        let lines = try await read(Self.story(heard: next, sql), asOf: "2028-12-01Z")

        #expect(
            lines.filter { $0.hasPrefix("missing") } == days.map { "missing \($0) 0 12990" },
            "\(what)")
    }

    /// Apple keeps the day of the purchase, and goes back to it after a month that is too short for it.
    @Test func renewalsAfterAShortMonth_areDueOnTheDayOfThePurchase() async throws {
        let sql =
            Self.update("2026-04-01Z", "purchased_at = '2026-03-31Z', expires_at = '2026-04-30Z'")
            + Self.charge("1", "2026-07-31Z", 12990, until: "2026-08-31Z")
            + "UPDATE repricer.subscriptions SET purchased_at = '2026-07-31Z';"

        let lines = try await read(Self.story(heard: "2026-07-31Z", sql))

        #expect(
            lines.filter { $0.hasPrefix("missing") }
                == ["2026-04-30", "2026-05-31", "2026-06-30"].map { "missing \($0) 0 12990" })
    }

    @Test func theFirstChargeAtTheNewPrice_whenItIsMissing_wasToBringTheNewPrice() async throws {
        let more =
            "UPDATE repricer.price_changes SET effective_at = '2026-04-01Z';"
            + Self.update(
                "2026-03-01Z",
                "purchased_at = '2026-02-01Z', expires_at = '2026-03-01Z', price_milliunits = 9990")

        let lines = try await read(Self.story(heard: "2026-04-20Z", more))

        #expect(lines.filter { $0.hasPrefix("missing") } == ["missing 2026-03-01 0 12990"])
    }

    /// Whoever was revoked renews no more, whatever part of the money was given back.
    @Test func anItemThatWasRevokedInPart_isNotSilent() async throws {
        let more =
            Self.update("2026-04-01Z", "revoked_at = '2026-04-17Z', refunded_milliunits = 6000")
            + Self.refund

        let lines = try await read(Self.story(heard: "2026-05-20Z", more))

        #expect(lines.filter { $0.hasPrefix("missing") } == [])
    }

    /// All was given back and the item was not revoked: nothing is missing, but nothing tells that it is paid for, either.
    @Test func whoFallsSilentAfterAFullRefund_isSilent_andInNoFurtherPeriod() async throws {
        let refunded = """
            UPDATE repricer.charges SET refunded_milliunits = price_milliunits WHERE transaction_id = '1-2026-04-01Z';
            INSERT INTO repricer.money_entries (original_transaction_id, bucket, transaction_id, sku, kind, occurred_at,
                number, correction, amount_milliunits, currency, storefront, evidence_id)
            VALUES ('1', repricer.bucket_of('1'), '1-2026-04-01Z', 'PLAN', 'refund', '2026-04-17Z', 0, 0, -12990, 'USD',
                'USA', 'r');
            """ + Self.told("REFUND", "2026-04-17Z")
        let anotherPrice =
            "UPDATE repricer.charges SET price_milliunits = 17990 WHERE transaction_id = '1-2026-04-01Z';"

        #expect(
            try await read(Self.story(heard: "2026-04-30Z", refunded)) == [
                "3000 0 0", "charges_refunded 1", "refunded 2026-04-01 12990 12990",
            ])
        #expect(
            try await read(Self.story(heard: "2026-05-05Z", refunded)) == [
                "0 1 12990", "charges_refunded 1", "refunded 2026-04-01 12990 12990",
            ])
        // What was given back says nothing of the price that goes on.
        #expect(
            try await read(Self.story(heard: "2026-04-30Z", anotherPrice + refunded)).first
                == "3000 0 0")
    }

    /// Another item has taken the former name, and one transaction charges both: the item of the change is that of today's
    /// name, in whatever order they are stored.
    @Test(arguments: [["PLAN", "PLAN2"], ["PLAN2", "PLAN"]])
    func paidPeriod_whereAnotherItemHasTakenTheFormerName_isThatOfTodaysName(
        stored: [String]
    ) async throws {
        let charges = stored.map { sku in
            """
            INSERT INTO repricer.charges (original_transaction_id, bucket, transaction_id, sku, purchased_at, expires_at,
                price_milliunits, currency, storefront)
            VALUES ('1', repricer.bucket_of('1'), '1-both', '\(sku)', '2026-05-01Z', '2026-06-01Z',
                \(sku == "PLAN2" ? 12_990 : 4990), 'USD', 'USA');
            """
        }.joined()
        let connection = try await TestDatabase.connect()
        try await connection.script(
            Self.story(
                heard: "2026-06-01Z",
                "UPDATE repricer.price_changes SET current_sku = 'PLAN2', former_skus = '{PLAN}';"
                    + charges))

        let paid = try await connection.query("SELECT sku, is_at_price FROM repricer.paid_changes")

        #expect(try paid.map { try $0.text("sku") } == ["PLAN2"])
        #expect(try paid.map { try $0.bool("is_at_price") } == [true])
        await connection.close()
    }
}
