import Postgres
import Reports
import TestSupport
import Testing

/// Each charge since the call of a change is explained, or named by what is wrong with it.
@Suite(.database) struct ChargeExceptionTests {
    /// A change of 9.990 USD to 12.990 USD, called on 3 January and due on 1 March.
    private static func change(_ state: String, _ more: String = "") -> String {
        let isEffective = state == "effective"
        return ReportFixture.batchSQL(ReportFixture.batch, name: "spring", rows: 1)
            + ReportFixture.Change(
                subscription: "1", line: 2, old: 9990, new: 12990, consent: "required",
                state: state,
                effective: isEffective ? "2026-03-01Z" : nil
            ).sql
            + (isEffective || state == "scheduled"
                ? "" : "UPDATE repricer.price_changes SET ended_at = '2026-02-20Z';")
            + more
    }

    private static func charge(
        _ day: String, _ price: Int, until: String, sku: String = "PLAN", currency: String = "USD",
        storefront: String = "USA", isOffer: Bool = false, isPurchase: Bool = false,
        refunded: Int = 0, quantity: Int = 1, id: String? = nil
    ) -> String {
        """
        INSERT INTO repricer.charges (original_transaction_id, bucket, transaction_id, sku, purchased_at, expires_at,
            price_milliunits, quantity, currency, storefront, is_offer, is_purchase, refunded_milliunits)
        VALUES ('1', repricer.bucket_of('1'), '\(id ?? day)', '\(sku)', '\(day)', '\(until)', \(price), \(quantity),
            '\(currency)', '\(storefront)', \(isOffer), \(isPurchase), \(refunded));
        INSERT INTO repricer.money_entries (original_transaction_id, bucket, transaction_id, sku, kind, occurred_at,
            number, correction, amount_milliunits, currency, storefront, evidence_id)
        VALUES ('1', repricer.bucket_of('1'), '\(id ?? day)', '\(sku)', 'charge', '\(day)', 0, 0,
            \(price * quantity), '\(currency)', '\(storefront)', 'e');
        """
    }

    /// What `report.money` says of each charge, and what `report.charge_exception` names, with its check.
    private func told(_ sql: String) async throws -> (explained: [String], named: [String]) {
        let connection = try await TestDatabase.connect()
        // A test asks more than once.
        try await connection.script(
            """
            TRUNCATE repricer.batches, repricer.price_changes, repricer.charges, repricer.money_entries,
                repricer.subscriptions, repricer.subscription_events CASCADE;
            """ + sql)
        let explained = try await connection.query(
            """
            SELECT coalesce(explained_as, '-') AS word FROM report.money ORDER BY occurred_at, transaction_id
            """
        ).map { try $0.text("word") }
        let named = try await connection.query(
            """
            SELECT concat_ws(' ', exception, amount_milliunits, expected_milliunits) AS word
            FROM report.charge_exception ORDER BY occurred_at, transaction_id
            """
        ).map { try $0.text("word") }
        let checks = try await connection.query(
            """
            SELECT sum(problems)::bigint AS problems FROM report.reconciliation WHERE check_name LIKE 'charges%'
            """)
        #expect(try checks.first?.int64("problems") == Int64(named.count))
        await connection.close()
        return (explained, named)
    }

    private static let february = charge("2026-02-01Z", 9990, until: "2026-03-01Z")
    private static let march = charge("2026-03-01Z", 12990, until: "2026-04-01Z")
    private static let april = charge("2026-04-01Z", 12990, until: "2026-05-01Z")

    /// What an owner alters by hand, past the product, is seen at once, although all figures are kept.
    @Test(arguments: [
        ("effective", "UPDATE repricer.charges SET price_milliunits = 11990", "other_price"),
        ("effective", "UPDATE repricer.charges SET currency = 'CAD'", "wrong_currency"),
        ("effective", "DELETE FROM repricer.charges", "missing"),
        (
            "effective",
            "UPDATE repricer.charges SET revoked_at = '2026-04-02Z', refunded_milliunits = 12990",
            "refunded"
        ),
        ("effective", again, "double"), ("declined", again, "declined_yet_charged"),
    ])
    func chargeAlteredByHand_isNamed_thoughFiguresAreKept(
        state: String, plant: String, name: String
    ) async throws {
        let may = Self.charge("2026-05-01Z", 12990, until: "2026-06-01Z")
        let paid = state == "effective" ? Self.march + Self.april + may : Self.february
        _ = try await told(Self.change(state) + paid)
        let connection = try await TestDatabase.connect()
        func step(_ name: String) async throws -> Int64? {
            try await connection.query("SELECT \(unsafe: name) AS n").first?.int64("n")
        }
        var count: Int64? = 1
        while count != 0 {
            try await connection.script("BEGIN ISOLATION LEVEL REPEATABLE READ")
            count = try await step("repricer.summarise_figures(1000)")
            try await connection.script("COMMIT")
        }
        let before = try await step("(SELECT count(*) FROM report.charge_exception)")
        let kept = try await step("(SELECT count(*) FROM repricer.change_figures)")

        let charge = state == "effective" ? "2026-04-01Z" : "2026-02-01Z"
        // The harness marks what tests write by hand; here the product alone has to.
        try await connection.script(
            "DROP TRIGGER by_hand_marked ON repricer.charges;" + plant
                + " WHERE transaction_id = '\(charge)'")

        let named = try await connection.query(
            "SELECT DISTINCT exception FROM report.charge_exception")
        let problems = try await step(
            "(SELECT sum(problems)::bigint FROM report.reconciliation WHERE check_name LIKE 'charges%')"
        )
        #expect(before == 0)
        #expect(kept == 1)
        #expect(try named.map { try $0.text("exception") } == [name])
        #expect(problems.map { $0 > 0 } == true)
        await connection.close()
    }

    /// The same charge once more, or at the new price a month later where the change was declined.
    private static let again = """
        INSERT INTO repricer.charges (original_transaction_id, bucket, transaction_id, sku, purchased_at, expires_at,
            price_milliunits, quantity, currency, storefront)
        SELECT original_transaction_id, bucket, 'again', sku,
            purchased_at + CASE WHEN price_milliunits = 9990 THEN interval '1 month' ELSE '0' END, expires_at + interval '1 month',
            12990, 1, currency, storefront
        FROM repricer.charges
        """

    /// A year that is exchanged for months pays for no month after that: each is charged, and may be missed.
    @Test func monthsAfterAnExchangedYear_areNoneChargedTwice_andMissed() async throws {
        let year = Self.charge("2026-03-01Z", 12990, until: "2027-03-01Z")
        let month = Self.charge("2026-03-16Z", 12990, until: "2026-04-16Z", isPurchase: true)
        let next = Self.charge("2026-04-16Z", 12990, until: "2026-05-16Z")
        let later = Self.charge("2026-06-16Z", 12990, until: "2026-07-16Z")

        #expect(try await told(Self.change("effective") + year + month + next).named == [])
        #expect(
            try await told(Self.change("effective") + year + month + next + later).named == [
                "missing 0 12990"
            ])
        // Without the exchange they are charged twice.
        #expect(
            try await told(Self.change("effective") + year + next).named == ["double 12990 12990"])
    }

    /// What a purchase paid for is not charged once more, unless the purchase was taken back.
    @Test(arguments: [("", ["double 12990 12990"]), ("revoked_at = '2026-03-20Z'", [])])
    func renewalWithinABoughtPeriod_isDouble(alsoOfThePurchase: String, named: [String])
        async throws
    {
        let year = Self.charge("2026-03-01Z", 12990, until: "2027-03-01Z", isPurchase: true)
        let month = Self.charge("2026-05-01Z", 12990, until: "2026-06-01Z")
        let revoked =
            alsoOfThePurchase.isEmpty
            ? "" : "UPDATE repricer.charges SET \(alsoOfThePurchase) WHERE is_purchase;"

        #expect(try await told(Self.change("effective") + year + month + revoked).named == named)
    }

    /// Up to a day before its period begins a renewal is early, and no second one for the time before. What pays for
    /// nothing that follows is a second one, however late in the period it comes.
    @Test(arguments: [
        ("2026-03-31T23:58:30Z", "2026-05-01Z", [String]()),
        ("2026-03-31T01:00:00Z", "2026-05-01Z", []),
        ("2026-03-30T12:00:00Z", "2026-05-01Z", ["double 12990 12990"]),
        ("2026-03-31T23:59:30Z", "2026-04-01Z", ["double 12990 12990"]),
        ("2026-03-31T23:59:59.999Z", "2026-04-01Z", ["double 12990 12990"]),
        ("2026-03-16Z", "2026-04-01Z", ["double 12990 12990"]),
        ("2026-03-16Z", "2026-04-16Z", ["double 12990 12990"]),
    ])
    func renewalBeforeTheEndOfAnother_isDouble_whereItPaysForTheSameTime(
        day: String, until: String, names: [String]
    ) async throws {
        let second = Self.charge(day, 12990, until: until)

        #expect(try await told(Self.change("effective") + Self.march + second).named == names)
    }

    @Test func charges_asTheyShouldBe_areExplained() async throws {
        let before = Self.charge("2026-01-01Z", 9990, until: "2026-02-01Z")
        let other = Self.charge("2026-03-01Z", 1990, until: "2026-04-01Z", sku: "OTHER", id: "o")

        let (explained, named) = try await told(
            Self.change("effective") + before + Self.february + Self.march + Self.april + other)

        #expect(explained == ["-", "old_price", "new_price", "-", "new_price"])
        #expect(named == [])
    }

    @Test(arguments: [
        (charge("2026-04-01Z", 990, until: "2026-05-01Z", isOffer: true), "offer"),
        (
            charge("2026-04-01Z", 8990, until: "2026-05-01Z", currency: "GBP", storefront: "GBR"),
            "moved"
        ),
        (charge("2026-04-01Z", 9990, until: "2026-05-01Z", isPurchase: true), "new_purchase"),
        (charge("2026-04-01Z", 12990, until: "2026-05-01Z", quantity: 3), "new_price"),
        // A seat that is added in the running period.
        (charge("2026-03-10Z", 12990, until: "2026-04-01Z", isPurchase: true), "new_price"),
    ])
    func charge_withAReason_isExplained(charge: String, word: String) async throws {
        let (explained, named) = try await told(Self.change("effective") + Self.march + charge)

        #expect(explained == ["new_price", word])
        #expect(named == [])
    }

    /// What the App Store refused explains nothing. A renewal above the old price is named all the same, at whatever price, unless
    /// a change that it took is about it.
    @Test(arguments: [
        (charge("2026-03-01Z", 12990, until: "2026-04-01Z"), ["other_price 12990 9990"]),
        (charge("2026-03-01Z", 11990, until: "2026-04-01Z"), ["other_price 11990 9990"]),
        (
            charge("2026-03-01Z", 11990, until: "2026-04-01Z", refunded: 11990),
            ["refunded 11990 9990"]
        ),
        (charge("2026-03-01Z", 9990, until: "2026-04-01Z"), []),
        (charge("2026-03-01Z", 8990, until: "2026-04-01Z"), []),
        (charge("2026-03-01Z", 11990, until: "2026-04-01Z", isOffer: true), []),
        (charge("2026-03-01Z", 11990, until: "2026-04-01Z", isPurchase: true), []),
        (charge("2026-01-01Z", 12990, until: "2026-02-01Z"), []),
        (
            charge(
                "2026-03-01Z", 13990, until: "2026-04-01Z", currency: "CAD", storefront: "CAN"), []
        ),
        (charge("2026-03-01Z", 13990, until: "2026-04-01Z", storefront: "PRI"), []),
    ])
    func chargeOfARefusedRow_aboveTheOldPrice_isNamed(charge: String, names: [String]) async throws
    {
        let (explained, named) = try await told(Self.change("rejected") + charge)

        #expect(named == names)
        #expect(explained == ["-"])
    }

    /// The customer came back at a higher list price.
    @Test func renewalsOfAPurchase_afterARefusedRow_areNotNamed() async throws {
        let bought = Self.charge("2026-02-10Z", 11990, until: "2026-03-10Z", isPurchase: true)
        let renewed = Self.charge("2026-03-10Z", 11990, until: "2026-04-10Z")

        let (explained, named) = try await told(Self.change("rejected") + bought + renewed)

        #expect(named == [])
        #expect(explained == ["-", "-"])
    }

    /// A row whose call was refused and put back is no other than one that was refused for good, whatever became of it since. One
    /// that was never called tells nothing of a price.
    @Test(arguments: ["queued", "ineligible", "missed", "aborted"])
    func chargeOfARowThatWasPutBack_aboveTheOldPrice_isNamed(state: String) async throws {
        let march = Self.charge("2026-03-01Z", 12990, until: "2026-04-01Z")
        let april = Self.charge("2026-04-01Z", 9990, until: "2026-05-01Z")
        let row = Self.change(state) + "UPDATE repricer.price_changes SET sent_at = NULL"

        let putBack = try await told(row + ", refused_at = '2026-01-03Z';" + march + april)
        let never = try await told(row + ";" + march + april)
        let before = try await told(row + ", refused_at = '2026-03-10Z';" + march + april)
        let other = try await told(
            row + ", refused_at = '2026-01-03Z';" + Self.another("effective", from: 9990, to: 12990)
                + march)

        #expect(putBack.named == ["other_price 12990 9990"])
        #expect(never.named == [])
        #expect(before.named == [])
        #expect(other.named == [])
        #expect(other.explained == ["new_price"])
    }

    /// A row that never went, and one that another batch followed, are not asked. Of two that were refused the later one is.
    @Test(arguments: [
        ("UPDATE repricer.price_changes SET sent_at = NULL;", "-", []),
        (another("effective", from: 9990, to: 11990), "new_price", []),
        // The row that was refused does not follow a rename.
        (
            another("effective", from: 9990, to: 11990)
                + "UPDATE repricer.price_changes SET current_sku = 'PLAN2' WHERE state = 'effective';",
            "new_price", []
        ),
        (another("rejected", from: 9490, to: 11490), "-", ["other_price 11990 9490"]),
    ])
    func chargeOfARefusedRow_besideAnother_isNamedOnce(
        more: String, word: String, names: [String]
    ) async throws {
        let march = Self.charge("2026-03-01Z", 11990, until: "2026-04-01Z")

        let (explained, named) = try await told(Self.change("rejected") + more + march)

        #expect(named == names)
        #expect(explained == [word])
    }

    private static func another(_ state: String, from: Int, to: Int) -> String {
        """
        INSERT INTO repricer.price_changes (original_transaction_id, bucket, change_id, batch_id, line, sku,
            direction, current_price_milliunits, new_price_milliunits, dependent_skus, forecast_consent,
            forecast_effective_at, send_by, due_effective_at, state, sent_at, scheduled_at, effective_at, ended_at,
            state_since, submitted_by, currency, storefront, period)
        SELECT original_transaction_id, bucket, gen_random_uuid(), batch_id, 3, sku, direction, \(from), \(to),
            dependent_skus, forecast_consent, '2026-03-01Z', '2026-03-01Z', '2026-03-01Z', '\(state)', '2026-02-25Z',
            '2026-02-25Z', \(state == "effective" ? "'2026-03-01Z', NULL" : "NULL, '2026-02-25Z'"), '2026-03-01Z',
            submitted_by, currency, storefront, period
        FROM repricer.price_changes;
        """
    }

    @Test func chargeAtTheOldPriceAgain_afterAnUndo_isExplained() async throws {
        let undo = """
            INSERT INTO repricer.price_changes (original_transaction_id, bucket, change_id, batch_id, line, sku,
                direction, current_price_milliunits, new_price_milliunits, dependent_skus, forecast_consent,
                forecast_effective_at, send_by, due_effective_at, state, sent_at, scheduled_at, state_since,
                submitted_by, currency, storefront, period, undoes_change_id)
            SELECT original_transaction_id, bucket, gen_random_uuid(), batch_id, 3, sku, 'decrease', 12990, 9990,
                dependent_skus, 'none', '2026-04-01Z', '2026-04-01Z', '2026-04-01Z', 'scheduled', '2026-03-05Z',
                '2026-03-05Z', '2026-03-05Z', submitted_by, currency, storefront, period, change_id
            FROM repricer.price_changes;
            """
        let april = Self.charge("2026-04-01Z", 9990, until: "2026-05-01Z")

        let (explained, named) = try await told(
            Self.change("effective") + undo + Self.march + april)

        #expect(explained == ["new_price", "undone"])
        #expect(named == [])
    }

    /// January and February were charged under a former name. Nothing is missing, before the change took effect or after.
    @Test(arguments: ["2026-02-01Z", "2026-03-01Z", "2026-04-01Z"])
    func charges_underAFormerName_leaveNoGap(renamed: String) async throws {
        func charge(_ day: String, _ price: Int, until: String) -> String {
            Self.charge(day, price, until: until, sku: day < renamed ? "FORMER" : "PLAN")
        }
        let rename = "UPDATE repricer.price_changes SET sku = 'FORMER', current_sku = 'PLAN';"

        let (_, named) = try await told(
            Self.change("effective") + rename + charge("2026-01-01Z", 9990, until: "2026-02-01Z")
                + charge("2026-02-01Z", 9990, until: "2026-03-01Z")
                + charge("2026-03-01Z", 12990, until: "2026-04-01Z")
                + charge("2026-04-01Z", 12990, until: "2026-05-01Z")
                + charge("2026-05-01Z", 12990, until: "2026-06-01Z"))

        #expect(named == [])
    }

    /// Two charges of one instant, and then no renewal: one is double, and one renewal is missing.
    @Test func chargesOfOneInstant_nameTheGapBehindThemOnce() async throws {
        let may = Self.charge("2026-05-01Z", 12990, until: "2026-06-01Z")

        let (_, named) = try await told(
            Self.change("effective") + Self.march
                + Self.charge("2026-03-01Z", 12990, until: "2026-04-01Z", id: "again") + may)

        #expect(named.filter { $0.hasPrefix("missing") } == ["missing 0 12990"])
    }

    @Test(arguments: [
        (
            "other_price 11990 12990", change("effective"),
            charge("2026-04-01Z", 11990, until: "2026-05-01Z")
        ),
        (
            "other_price 7990 9990", change("scheduled"),
            charge("2026-02-01Z", 7990, until: "2026-03-01Z")
        ),
        (
            "wrong_currency 12990", change("effective"),
            charge("2026-04-01Z", 12990, until: "2026-05-01Z", currency: "EUR")
        ),
        (
            "double 12990 12990", change("effective"),
            charge("2026-03-09Z", 12990, until: "2026-04-09Z")
        ),
        (
            "after_end 12990 9990", change("cancelled"),
            charge("2026-03-01Z", 12990, until: "2026-04-01Z")
        ),
        (
            "after_end 9990 9990", change("lapsed"),
            charge("2026-03-01Z", 9990, until: "2026-04-01Z")
        ),
        (
            "declined_yet_charged 12990 9990", change("declined"),
            charge("2026-03-01Z", 12990, until: "2026-04-01Z")
        ),
        (
            "refunded 12990 12990", change("effective"),
            charge("2026-04-01Z", 12990, until: "2026-05-01Z", refunded: 12990)
        ),
        (
            "refunded 12990 12990", change("effective"),
            charge("2026-04-01Z", 12990, until: "2026-05-01Z", refunded: 1)
        ),
        (
            "relisted 12990 12990", change("effective"),
            charge("2026-04-01Z", 12990, until: "2026-05-01Z")
                + "UPDATE repricer.charges SET is_relisted = true WHERE transaction_id = '2026-04-01Z';"
        ),
        (
            "missing 0 12990", change("effective"),
            charge("2026-05-01Z", 12990, until: "2026-06-01Z")
        ),
    ])
    func plantedFault_isNamedAndCounted(name: String, change: String, fault: String) async throws {
        let subscription = """
            INSERT INTO repricer.subscriptions (original_transaction_id, bucket, items)
            VALUES ('1', repricer.bucket_of('1'), '[]');
            """
        let march = change.contains("'effective'") ? Self.march : ""

        let sound = try await told(change + subscription + march)
        let (_, named) = try await told(change + subscription + march + fault)

        #expect(sound.named == [])
        #expect(named == [name])
    }

    /// What ended the change is signed at the end of the period before, or later, and a renewal begins at that end.
    @Test(arguments: [
        (
            "declined", "expired_for_price_increase", 9990, "2026-03-01T00:03:00Z",
            "declined_yet_charged"
        ),
        ("declined", "expired_for_price_increase", 12990, "2026-03-01Z", "declined_yet_charged"),
        (
            "declined", "item_missing_at_renewal", 9990, "2026-03-01T00:01:00Z",
            "declined_yet_charged"
        ),
        ("cancelled", "left_voluntarily", 9990, "2026-03-01T00:03:00Z", "after_end"),
        ("lapsed", "billing_failed", 9990, "2026-03-02Z", "after_end"),
        // The end of its own period, what was taken out of it, and a refund end what was charged well.
        ("cancelled", "left_voluntarily", 9990, "2026-03-31T23:59:00Z", nil),
        ("cancelled", "item_missing_at_renewal", 9990, "2026-03-10Z", nil),
        ("cancelled", "item_refunded", 9990, "2026-03-01T00:03:00Z", nil),
        ("cancelled", "refunded_or_revoked", 9990, "2026-03-01T00:03:00Z", nil),
    ])
    func aRenewalThatBeginsWhereItsChangeEnded_isAfterTheEnd(
        state: String, reason: String, price: Int, ended: String, name: String?
    ) async throws {
        let change = Self.change(
            state, "UPDATE repricer.price_changes SET ended_at = '\(ended)', reason = '\(reason)';")
        func march(_ isPurchase: Bool) -> String {
            Self.charge("2026-03-01Z", price, until: "2026-04-01Z", isPurchase: isPurchase)
        }

        let (explained, named) = try await told(change + Self.february + march(false))
        let bought = try await told(change + Self.february + march(true))

        #expect(explained == ["old_price", name == nil ? "old_price" : "-"])
        #expect(named == (name.map { ["\($0) \(price) 9990"] } ?? []))
        #expect(bought.named == (price == 9990 ? [] : ["other_price 12990 9990"]))
    }

    /// A charge that failed and was made up for in the grace period keeps the date of its period.
    @Test func aRenewalThatWasRecovered_isNotAfterTheEndOfItsChange() async throws {
        let change = Self.change(
            "lapsed",
            "UPDATE repricer.price_changes SET ended_at = '2026-03-04Z', reason = 'billing_failed';"
        )
        let failed = """
            INSERT INTO repricer.subscription_events (original_transaction_id, bucket, signed_at, evidence_id, source, type,
                statement)
            VALUES ('1', repricer.bucket_of('1'), '2026-03-01Z', 'e', 'notification', 'DID_FAIL_TO_RENEW', '{}');
            """

        let (explained, named) = try await told(
            change + Self.february + Self.charge("2026-03-01Z", 9990, until: "2026-04-01Z") + failed
        )

        #expect(explained == ["old_price", "old_price"])
        #expect(named == [])
    }

    /// A revocation ended the subscription, and it is charged on: unless that was taken back, or the customer bought it again.
    @Test(arguments: [
        ("REFUND", 5, "", true), ("REVOKE", 5, "", true), ("REFUND", 1, "", false),
        ("REFUND", 5, event("REFUND_REVERSED", "2026-03-20Z"), false),
        ("REFUND", 5, event("SUBSCRIBED", "2026-03-20Z"), false),
        ("REFUND", 5, charge("2026-03-20Z", 12990, until: "2026-04-20Z", isPurchase: true), false),
    ])
    func aRenewalAfterARevocation_isAfterTheEnd(
        type: String, status: Int, more: String, isNamed: Bool
    ) async throws {
        let (_, named) = try await told(
            Self.change("effective") + Self.march
                + Self.event(type, "2026-03-15Z", #"{"status": \#(status)}"#)
                + Self.charge("2026-05-10Z", 12990, until: "2026-06-10Z") + more)

        #expect(named.contains("after_end 12990 12990") == isNamed, "\(named)")
    }

    private static func event(_ type: String, _ day: String, _ statement: String = "{}") -> String {
        """
        INSERT INTO repricer.subscription_events (original_transaction_id, bucket, signed_at, evidence_id, source, type,
            statement)
        VALUES ('1', repricer.bucket_of('1'), '\(day)', '\(type)', 'notification', '\(type)', '\(statement)');
        """
    }

    /// The end was told, and the purchase that followed was lost; a later statement tells when the customer began anew.
    @Test func aRenewalAfterAnEnd_whosePurchaseIsLost_isNamedUnlessItsStartIsTold() async throws {
        func story(startedOn day: String?) -> String {
            let started = day.map {
                "jsonb_build_object('renewal', jsonb_build_object('recentSubscriptionStartAt', extract(epoch FROM '\($0)'::timestamptz) * 1000))"
            }
            return Self.change("effective") + Self.march
                + """
                INSERT INTO repricer.subscription_events (original_transaction_id, bucket, signed_at, evidence_id, source, type,
                    statement)
                VALUES ('1', repricer.bucket_of('1'), '2026-04-02Z', 'e', 'notification', 'EXPIRED', '{}'),
                    ('1', repricer.bucket_of('1'), '2026-05-20Z', 'f', 'notification', 'DID_RENEW', \(started ?? "'{}'"));
                """
                + Self.charge("2026-05-20Z", 12990, until: "2026-06-20Z")
        }

        for day in [nil, "2026-01-15Z", "2026-04-01Z", "2026-05-20T00:00:01Z"] {
            #expect(try await told(story(startedOn: day)).named == ["after_end 12990 12990"])
        }
        for day in ["2026-04-20Z", "2026-05-20Z"] {
            let (explained, named) = try await told(story(startedOn: day))
            #expect(named == [])
            #expect(explained == ["new_price", "new_price"])
        }
    }

    /// Whoever left may buy again: that purchase and its renewals are theirs, at whatever price but the one they declined.
    @Test(arguments: ["declined", "cancelled", "lapsed"])
    func whoBuysAgainAfterTheEnd_isChargedAsTheyBought(state: String) async throws {
        func again(
            _ price: Int, _ renewal: Int, _ currency: String = "USD", _ storefront: String = "USA"
        ) -> String {
            Self.charge("2026-03-10Z", price, until: "2026-04-10Z", isPurchase: true)
                + Self.charge(
                    "2026-04-10Z", renewal, until: "2026-05-10Z", currency: currency,
                    storefront: storefront)
        }
        let named = state == "declined" ? "declined_yet_charged" : "after_end"

        let old = try await told(Self.change(state) + again(9990, 9990))
        let other = try await told(Self.change(state) + again(8990, 8990))
        let moved = try await told(Self.change(state) + again(8990, 7990))
        let atItsPrice = try await told(Self.change(state) + again(12990, 12990))
        // The customer came back, and moved to another storefront afterwards.
        let abroad = try await told(Self.change(state) + again(9990, 15990, "AUD", "AUS"))
        let neverBack = try await told(
            Self.change(state)
                + Self.charge(
                    "2026-04-10Z", 15990, until: "2026-05-10Z", currency: "AUD", storefront: "AUS"))

        #expect(old.explained == ["new_purchase", "new_purchase"])
        #expect(other.explained == ["new_purchase", "new_purchase"])
        #expect(old.named + other.named == [])
        #expect(moved.named == ["\(named) 7990 9990"])
        #expect(atItsPrice.named == ["\(named) 12990 9990", "\(named) 12990 9990"])
        #expect(abroad.explained == ["new_purchase", "moved"])
        #expect(abroad.named == [])
        #expect(neverBack.named.map { $0.hasPrefix("\(named) 15990") } == [true])
    }

    /// The App Store dates the purchase at the very instant at which the subscription had ended.
    @Test(arguments: ["declined", "cancelled", "lapsed"])
    func whoBuysAgainAtTheInstantOfTheEnd_isChargedAsTheyBought(state: String) async throws {
        func story(isPurchase: Bool) -> String {
            Self.change(state)
                + Self.charge("2026-02-20Z", 9990, until: "2026-03-20Z", isPurchase: isPurchase)
                + Self.charge("2026-03-20Z", 9990, until: "2026-04-20Z")
        }

        let back = try await told(story(isPurchase: true))
        let neverBack = try await told(story(isPurchase: false))

        #expect(back.explained == ["new_purchase", "new_purchase"])
        #expect(back.named == [])
        #expect(neverBack.named.count == 1)
    }

    /// The price of an offer by which a customer came back is not the one of the renewals that follow it.
    @Test(arguments: ["declined", "cancelled", "lapsed", "effective"], [0, 4990])
    func whoComesBackByAnOffer_isChargedTheOldPriceAfterIt(state: String, offer: Int) async throws {
        func again(_ renewal: Int, isOffer: Bool = true) -> String {
            Self.charge(
                "2026-05-10Z", offer, until: "2026-06-10Z", isOffer: isOffer, isPurchase: true)
                + Self.charge("2026-06-10Z", renewal, until: "2026-07-10Z")
                + Self.charge("2026-07-10Z", renewal, until: "2026-08-10Z")
        }
        let ended = """
            INSERT INTO repricer.subscription_events (original_transaction_id, bucket, signed_at, evidence_id, source, type,
                statement)
            VALUES ('1', repricer.bucket_of('1'), '2026-04-01Z', 'x', 'notification', 'EXPIRED', '{}');
            """
        let story =
            state == "effective" ? Self.change(state) + Self.march + ended : Self.change(state)
        let named =
            ["declined": "declined_yet_charged", "effective": "other_price"][state] ?? "after_end"

        let back = try await told(story + again(9990))
        let bought = try await told(story + again(9990, isOffer: false))
        let above = try await told(story + again(10990))

        #expect(back.named == [])
        #expect(back.explained.suffix(3) == ["offer", "new_purchase", "new_purchase"])
        #expect(bought.named.count == 2, "renewals at another price than the one of the purchase")
        #expect(above.named.count == 2)
        #expect(above.named.allSatisfy { $0.hasPrefix("\(named) 10990") })
    }

    /// The subscription renews with its other items. That this one is not set to renew is all that is known of it.
    @Test func anItemThatIsGoneFromTheRenewals_isMissingOnce_andNotWhereAConsentWasAsked()
        async throws
    {
        func facts(isLeaving: Bool, asked day: String? = nil) -> String {
            """
            UPDATE repricer.price_changes SET is_leaving = \(isLeaving);
            INSERT INTO repricer.subscriptions (original_transaction_id, bucket, items, purchased_at)
            VALUES ('1', repricer.bucket_of('1'), '[]', '2026-06-01Z');
            """
                + (day.map {
                    """
                    INSERT INTO repricer.subscription_events (original_transaction_id, bucket, signed_at, evidence_id,
                        source, type, subtype, statement)
                    VALUES ('1', repricer.bucket_of('1'), '\($0)', 'e', 'notification', 'PRICE_INCREASE', 'PENDING', '{}');
                    """
                } ?? "")
        }
        let changed = Self.change("effective") + Self.march
        let missing = "missing 0 12990"

        #expect(
            try await told(changed + facts(isLeaving: false)).named == [missing, missing])
        #expect(try await told(changed + facts(isLeaving: true)).named == [missing])
        #expect(try await told(changed + facts(isLeaving: true, asked: "2026-03-20Z")).named == [])
        #expect(
            try await told(changed + facts(isLeaving: true, asked: "2026-02-20Z")).named == [
                missing
            ])
        // It was charged again since: each renewal of the gap is named, as ever.
        #expect(
            try await told(
                changed + facts(isLeaving: true)
                    + Self.charge("2026-06-01Z", 12990, until: "2026-07-01Z")
            ).named == [missing, missing])
    }

    /// What is above the old price belongs to the change or is named, wherever and by whomever it was bought.
    @Test func aChargeAboveTheOldPrice_thatIsNotOurs_isNamed() async throws {
        let bought = Self.charge("2026-04-01Z", 13990, until: "2026-05-01Z", isPurchase: true)
        let moved = Self.charge("2026-04-01Z", 13990, until: "2026-05-01Z", storefront: "PRI")
        let again = Self.charge("2026-03-10Z", 11990, until: "2026-04-10Z", isPurchase: true)

        let inEffect = Self.change("effective") + Self.march

        #expect(try await told(inEffect + bought).named == ["other_price 13990 12990"])
        #expect(try await told(inEffect + moved).named == ["other_price 13990 12990"])
        #expect(
            try await told(Self.change("cancelled") + again).named == ["other_price 11990 9990"])
    }

    @Test func renewalOfTheRunningPeriod_withoutACharge_isMissing_unlessItFailed() async throws {
        func facts(_ type: String?) -> String {
            """
            INSERT INTO repricer.subscriptions (original_transaction_id, bucket, items, purchased_at)
            VALUES ('1', repricer.bucket_of('1'), '[]', '2026-05-01Z');
            """
                + (type.map {
                    """
                    INSERT INTO repricer.subscription_events (original_transaction_id, bucket, signed_at, evidence_id,
                        source, type, statement)
                    VALUES ('1', repricer.bucket_of('1'), '2026-04-01Z', 'e', 'notification', '\($0)', '{}');
                    """
                } ?? "")
        }
        let changed = Self.change("effective") + Self.march

        #expect(try await told(changed + facts(nil)).named == ["missing 0 12990"])
        #expect(try await told(changed + facts("DID_FAIL_TO_RENEW")).named == [])
        #expect(try await told(changed + facts("PRICE_INCREASE")).named == ["missing 0 12990"])
    }

    /// Between the call and the renewal that takes effect, too: once, under the change in effect, else the newest called.
    @Test func renewalThatNeverCame_beforeTheChangeTookEffect_isMissing() async throws {
        let subscription = """
            INSERT INTO repricer.subscriptions (original_transaction_id, bucket, items)
            VALUES ('1', repricer.bucket_of('1'), '[]');
            """
        let january = Self.charge("2026-01-01Z", 9990, until: "2026-02-01Z", quantity: 2)
        let marchAtOld = Self.charge("2026-03-01Z", 9990, until: "2026-04-01Z")
        let called = "UPDATE repricer.price_changes SET sent_at = '2026-02-10Z';"
        let second = ReportFixture.Change(
            subscription: "1", line: 3, old: 9990, new: 14990, consent: "required",
            state: "declined")
        let secondCalled =
            second.sql
            + "UPDATE repricer.price_changes SET sent_at = '2026-01-20Z', ended_at = '2026-05-01Z' WHERE line = 3;"
        let refundOfAPart = """
            UPDATE repricer.charges SET refunded_milliunits = 1 WHERE transaction_id = '2026-01-01Z';
            INSERT INTO repricer.subscription_events (original_transaction_id, bucket, signed_at, evidence_id, source, type,
                statement)
            VALUES ('1', repricer.bucket_of('1'), '2026-01-20Z', 'e', 'notification', 'REFUND', '{}');
            """

        let takesEffect = try await told(
            Self.change("effective") + subscription + january + Self.march)
        let waits = try await told(
            Self.change("scheduled") + subscription + january + marchAtOld)
        let isCalledLater = try await told(
            Self.change("effective") + called + subscription + january + Self.march)
        let isCalledTwice = try await told(
            Self.change("effective") + secondCalled + subscription + january + Self.march)
        let givesAPartBack = try await told(
            Self.change("effective") + subscription + january + refundOfAPart + Self.march)
        let hasJustBought = try await told(
            Self.change("effective") + subscription + january + Self.march
                + """
                INSERT INTO repricer.subscription_events (original_transaction_id, bucket, signed_at, evidence_id, source,
                    type, statement)
                VALUES ('1', repricer.bucket_of('1'), '2026-01-01T00:01:00Z', 'e', 'notification', 'SUBSCRIBED', '{}');
                """)
        let hasEnded = try await told(
            Self.change("declined") + subscription + january + marchAtOld)

        #expect(takesEffect.named == ["missing 0 19980"])
        #expect(waits.named == ["missing 0 19980"])
        #expect(isCalledLater.named == [])
        #expect(isCalledTwice.named == ["missing 0 19980"])
        #expect(givesAPartBack.named == ["missing 0 19980"])
        #expect(hasJustBought.named == ["missing 0 19980"])
        #expect(hasEnded.named == ["declined_yet_charged 9990 9990"])
    }
}
