import Postgres
import TestSupport
import Testing

/// Lives that leave a charge in no figure, or name one that is as it should be. Each charge above the old price belongs to one
/// change in effect, or is named.
@Suite(.database) struct OddChargeTests {
    private static let subscription = """
        INSERT INTO repricer.subscriptions (original_transaction_id, bucket, items)
        VALUES ('1', repricer.bucket_of('1'), '[]');
        """

    /// From 9.990 USD to 12.990, called on 3 January and in effect on 1 March.
    private static let first =
        ReportFixture.batchSQL(ReportFixture.batch, name: "spring", rows: 2)
        + ReportFixture.Change(
            subscription: "1", line: 2, old: 9990, new: 12990, consent: "required",
            state: "effective", effective: "2026-03-01Z"
        ).sql + subscription

    private static func charge(
        _ day: String, _ price: Int, until: String, refunded: Int = 0, isOffer: Bool = false
    ) -> String {
        """
        INSERT INTO repricer.charges (original_transaction_id, bucket, transaction_id, sku, purchased_at, expires_at,
            price_milliunits, currency, storefront, is_offer, refunded_milliunits)
        VALUES ('1', repricer.bucket_of('1'), '\(day)', 'PLAN', '\(day)', '\(until)', \(price), 'USD', 'USA', \(isOffer),
            \(refunded));
        INSERT INTO repricer.money_entries (original_transaction_id, bucket, transaction_id, sku, kind, occurred_at,
            number, correction, amount_milliunits, currency, storefront, evidence_id)
        VALUES ('1', repricer.bucket_of('1'), '\(day)', 'PLAN', 'charge', '\(day)', 0, 0, \(price), 'USD', 'USA', 'e');
        """
    }

    /// `day line explanation exception renewals` of each charge: the line of its change, and of how many it is a renewal.
    private func told(_ sql: String, in zone: String = "UTC") async throws -> [String] {
        let connection = try await TestDatabase.connect()
        try await connection.script(sql + "SET timezone = 'UTC';")
        let found = try await lines(connection, zone)
        await connection.close()
        return found
    }

    private func lines(_ connection: PostgresConnection, _ zone: String) async throws -> [String] {
        try await connection.script("SET timezone = '\(zone)'")
        return try await connection.query(
            """
            SELECT concat_ws(' ', to_char(m.occurred_at AT TIME ZONE 'UTC', 'MM-DD'), c.line, coalesce(m.explained_as, '-'),
                coalesce((SELECT string_agg(x.exception, '+') FROM report.charge_exception x
                    WHERE x.transaction_id = m.transaction_id), '-'),
                (SELECT count(*) FROM repricer.charged_renewals r WHERE r.transaction_id = m.transaction_id)) AS line
            FROM report.money m JOIN repricer.price_changes c ON c.change_id = m.change_id
            WHERE m.kind = 'charge' ORDER BY m.occurred_at
            """
        ).map { try $0.text("line") }
    }

    /// The clocks of New York went forward in this period, whose middle came half an hour after the end was told.
    @Test(arguments: ["UTC", "America/New_York", "Europe/Berlin"])
    func aPeriodThatWasEndedNearItsMiddle_countsTheSame_inASessionOfAnyTimeZone(zone: String)
        async throws
    {
        let lines = try await told(
            Self.first + Self.charge("2026-03-01Z", 12990, until: "2026-04-01Z")
                + """
                UPDATE repricer.price_changes SET effective_at = '2026-02-01Z', ended_at = '2026-02-01Z',
                    due_effective_at = '2026-02-01Z', sent_at = '2026-01-05Z';
                INSERT INTO repricer.subscription_events (original_transaction_id, bucket, signed_at, evidence_id, source,
                    type, subtype, statement)
                VALUES ('1', repricer.bucket_of('1'), '2026-03-16 11:30Z', 'ended', 'notification', 'EXPIRED', 'VOLUNTARY',
                    '{}');
                """
                + Self.charge("2026-02-01Z", 12990, until: "2026-03-01Z"), in: zone)

        #expect(lines == ["02-01 2 new_price - 1", "03-01 2 - after_end 1"])
    }

    /// The price was lowered again, and then somebody else raised it to what the first change had set.
    @Test func aRenewalAtThePriceOfAChange_thatALaterOneReplaced_isNamed() async throws {
        let second = ReportFixture.Change(
            subscription: "1", line: 3, old: 12990, new: 9990, consent: "none", state: "effective",
            effective: "2026-04-01Z")

        let lines = try await told(
            Self.first + second.sql
                + "UPDATE repricer.price_changes SET sent_at = '2026-03-05Z' WHERE line = 3;"
                + Self.charge("2026-03-01Z", 12990, until: "2026-04-01Z")
                + Self.charge("2026-04-01Z", 9990, until: "2026-05-01Z")
                + Self.charge("2026-05-01Z", 12990, until: "2026-06-01Z"))

        #expect(
            lines == [
                "03-01 2 new_price - 1", "04-01 3 new_price - 1", "05-01 3 - other_price 0",
            ])
    }

    @Test func ofTwoChargesOfOnePeriod_theOneThatStands_isNotDouble() async throws {
        let lines = try await told(
            Self.first + Self.charge("2026-03-01Z", 12990, until: "2026-04-01Z", refunded: 12990)
                + Self.charge("2026-03-02Z", 12990, until: "2026-04-02Z")
                + Self.charge("2026-03-03Z", 12990, until: "2026-04-03Z"))

        #expect(
            lines == ["03-01 2 - refunded 0", "03-02 2 new_price - 1", "03-03 2 - double 1"])
    }

    @Test func anOfferAtTheVeryNewPrice_countsAndIsExplainedAlike() async throws {
        let lines = try await told(
            Self.first + Self.charge("2026-03-01Z", 12990, until: "2026-04-01Z")
                + Self.charge("2026-04-01Z", 12990, until: "2026-05-01Z", isOffer: true)
                + Self.charge("2026-05-01Z", 990, until: "2026-06-01Z", isOffer: true))

        #expect(
            lines == ["03-01 2 new_price - 1", "04-01 2 new_price - 1", "05-01 2 offer - 0"])
    }
}
