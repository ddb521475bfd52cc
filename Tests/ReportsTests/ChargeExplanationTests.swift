import Postgres
import TestSupport
import Testing

/// What explains a charge, or names it, where the customer acted: part refunds, who comes back, another
/// currency.
@Suite(.database) struct ChargeExplanationTests {
    private static func change(
        _ state: String, old: Int = 9990, new: Int = 12990, effective: String = "2026-03-01Z",
        _ more: String = ""
    ) -> String {
        let isEffective = state == "effective"
        return ReportFixture.batchSQL(ReportFixture.batch, name: "spring", rows: 1)
            + ReportFixture.Change(
                subscription: "1", line: 2, old: old, new: new,
                consent: new > old ? "required" : "none",
                state: state, effective: isEffective ? effective : nil
            ).sql
            + (isEffective || state == "scheduled"
                ? "" : "UPDATE repricer.price_changes SET ended_at = '2026-02-20Z';")
            + more
    }

    private static func charge(
        _ day: String, _ price: Int, until: String, sku: String = "PLAN", currency: String = "USD",
        storefront: String = "USA", isOffer: Bool = false, isPurchase: Bool = false,
        refunded: Int = 0
    ) -> String {
        """
        INSERT INTO repricer.charges (original_transaction_id, bucket, transaction_id, sku, purchased_at, expires_at,
            price_milliunits, currency, storefront, is_offer, is_purchase, refunded_milliunits)
        VALUES ('1', repricer.bucket_of('1'), '\(day)', '\(sku)', '\(day)', '\(until)', \(price),
            '\(currency)', '\(storefront)', \(isOffer), \(isPurchase), \(refunded));
        INSERT INTO repricer.money_entries (original_transaction_id, bucket, transaction_id, sku, kind, occurred_at,
            number, correction, amount_milliunits, currency, storefront, evidence_id)
        VALUES ('1', repricer.bucket_of('1'), '\(day)', '\(sku)', 'charge', '\(day)', 0, 0,
            \(price), '\(currency)', '\(storefront)', 'e');
        """
    }

    /// `line explained-as exception` of each charge, by its day: from the facts, which are then kept and say the same.
    private func told(_ sql: String) async throws -> [String] {
        let connection = try await TestDatabase.connect()
        // A test asks more than once.
        try await connection.script(
            """
            TRUNCATE repricer.batches, repricer.price_changes, repricer.charges, repricer.money_entries,
                repricer.subscriptions, repricer.subscription_events, repricer.change_figures, repricer.figure_tallies,
                repricer.kept_exceptions, repricer.kept_moves, repricer.move_tallies, repricer.running_moves,
                repricer.forecast_tallies, repricer.stale_figures CASCADE;
            """ + sql + "SET timezone = 'UTC';")
        func lines() async throws -> [String] {
            try await connection.query(
                """
                SELECT concat_ws(' ', to_char(m.occurred_at, 'MM-DD'), c.line, m.explained_as, x.exception) AS line
                FROM report.money m
                LEFT JOIN report.charge_exception x USING (original_transaction_id, transaction_id)
                LEFT JOIN repricer.price_changes c ON c.change_id = m.change_id
                WHERE m.kind = 'charge' ORDER BY 1
                """
            ).map { try $0.text("line") }
        }
        let fromFacts = try await lines()
        try await connection.script(
            """
            BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT repricer.summarise_figures(100); COMMIT;
            """)
        #expect(try await lines() == fromFacts, "kept")
        await connection.close()
        return fromFacts
    }

    private static let march = charge("2026-03-01Z", 12990, until: "2026-04-01Z")

    /// A part that was given back is named, whoever made the charge and whatever explains the rest of it.
    @Test(arguments: [
        charge("2026-04-01Z", 9990, until: "2026-05-01Z", isPurchase: true, refunded: 1000),
        charge("2026-04-01Z", 990, until: "2026-05-01Z", isOffer: true, refunded: 100),
        charge(
            "2026-04-01Z", 8990, until: "2026-05-01Z", currency: "GBP", storefront: "GBR",
            refunded: 1000),
        charge("2026-04-01Z", 12990, until: "2026-05-01Z", isPurchase: true, refunded: 5000),
    ])
    func aChargeThatIsGivenBackInPart_isNamed_whateverExplainsIt(charge: String) async throws {
        #expect(
            try await told(Self.change("effective") + Self.march + charge) == [
                "03-01 2 new_price", "04-01 2 refunded",
            ])
    }

    /// Whoever left after the new price may come back at the old one, or less: the renewals of it are theirs, too.
    @Test func whoComesBackAfterTheNewPrice_atTheOldOneOrLess_isChargedAsTheyBought() async throws {
        func back(_ price: Int, _ renewal: Int) -> String {
            Self.change("effective") + Self.march
                + Self.charge("2026-06-01Z", price, until: "2026-07-01Z", isPurchase: true)
                + Self.charge("2026-07-01Z", renewal, until: "2026-08-01Z")
                + Self.charge("2026-08-01Z", renewal, until: "2026-09-01Z")
        }
        let ours = ["03-01 2 new_price", "06-01 2 new_purchase"]

        #expect(
            try await told(back(9990, 9990))
                == ours + ["07-01 2 new_purchase", "08-01 2 new_purchase"])
        #expect(
            try await told(back(8990, 8990))
                == ours + ["07-01 2 new_purchase", "08-01 2 new_purchase"])
        // Somebody else's price.
        #expect(
            try await told(back(9990, 8990)) == ours + [
                "07-01 2 other_price", "08-01 2 other_price",
            ])
        #expect(
            try await told(back(11990, 11990)) == [
                "03-01 2 new_price", "06-01 2 other_price", "07-01 2 other_price",
                "08-01 2 other_price",
            ])
    }

    /// A modification, or a seat, at the old price in mid period is no return: who never left is to be charged the new price.
    @Test(arguments: ["is_purchase = true", "is_purchase = true, is_added_seat = true"])
    func whoBuysBesidesWithoutLeaving_isToldOfARenewalAtTheOldPrice(purchase: String) async throws {
        let bought =
            Self.charge("2026-03-10Z", 9990, until: "2026-04-01Z")
            + "UPDATE repricer.charges SET \(purchase) WHERE transaction_id = '2026-03-10Z';"
        let renewals =
            Self.charge("2026-04-01Z", 9990, until: "2026-05-01Z")
            + Self.charge("2026-05-01Z", 9990, until: "2026-06-01Z")
        let ended = """
            INSERT INTO repricer.subscription_events (original_transaction_id, bucket, signed_at, evidence_id, source, type,
                statement)
            VALUES ('1', repricer.bucket_of('1'), '2026-03-09Z', 'e', 'notification', 'EXPIRED', '{}');
            """
        let lives = Self.change("effective") + Self.march + bought + renewals

        #expect(
            try await told(lives) == [
                "03-01 2 new_price", "03-10 2 new_purchase", "04-01 2 other_price",
                "05-01 2 other_price",
            ])
        guard !purchase.contains("seat") else { return }
        // Who was told to have left came back, though the period was not over.
        #expect(
            try await told(lives + ended).suffix(2) == [
                "04-01 2 new_purchase", "05-01 2 new_purchase",
            ])
    }

    /// A price is a number of one currency: the same number in another one is another price.
    @Test(arguments: ["declined", "cancelled"])
    func whoBuysAgainAbroad_atTheSameNumber_hasMoved(state: String) async throws {
        func abroad(_ price: Int) -> String {
            Self.change(state)
                + Self.charge(
                    "2026-03-10Z", price, until: "2026-04-10Z", currency: "GBP", storefront: "GBR",
                    isPurchase: true)
        }

        #expect(try await told(abroad(12990)) == ["03-10 2 moved"])
        #expect(try await told(abroad(12980)) == ["03-10 2 moved"])
    }
}
