import Postgres
import TestSupport
import Testing

/// Sent against held out: by decision, by subscription, with an interval, and no answer from too few.
@Suite(.database) struct HoldoutReportTests {
    private struct Arm {
        var held = false
        var count: Int
        var left: Int
        var consent = "required"
        var first: Int
    }

    /// Each subscription renews in March; who left has paid until then, the others until July.
    private func report(
        _ arms: [Arm], more: String = "", asOf: String = "2026-06-01Z",
        heardUntil: String = "2026-05-30Z"
    ) async throws -> [String] {
        let connection = try await TestDatabase.connect()
        var sql =
            ReportFixture.batchSQL(ReportFixture.batch, name: "spring", rows: 1)
            + "UPDATE repricer.batches SET holdout_basis_points = 1000;"
                // The newest charge of anybody.
                + """
                INSERT INTO repricer.money_entries (original_transaction_id, bucket, transaction_id, sku, kind, occurred_at,
                    number, correction, amount_milliunits, currency, evidence_id)
                VALUES ('9', repricer.bucket_of('9'), 't', 'PLAN', 'charge', '\(heardUntil)', 0, 0, 1, 'USD', 'e');
                """
        for arm in arms {
            for place in 0..<arm.count {
                let line = arm.first + place
                sql +=
                    ReportFixture.Change(
                        subscription: "\(line)", line: line, old: 9990, new: 12990,
                        consent: arm.consent,
                        state: arm.held ? "aborted" : "scheduled"
                    ).sql
                        + """
                        INSERT INTO repricer.charges (original_transaction_id, bucket, transaction_id, sku, purchased_at,
                            expires_at, price_milliunits, currency)
                        VALUES ('\(line)', repricer.bucket_of('\(line)'), 't', 'PLAN', '2026-02-01Z',
                            '\(place < arm.left ? "2026-03-01Z" : "2026-07-01Z")', 9990, 'USD');
                        """
                if arm.held {
                    sql +=
                        "UPDATE repricer.price_changes SET is_held_out = true, sent_at = NULL WHERE line = \(line);"
                }
            }
        }
        try await connection.script(sql + more + "SET repricer.as_of = '\(asOf)';")
        let rows = try await connection.query(
            """
            SELECT concat_ws(' ', forecast_consent, sent_subscriptions, never_sent, sent_left, held_out_subscriptions,
                held_out_left, not_due, coalesce(difference_basis_points::text, '-'),
                coalesce(lower_basis_points::text, '-'), coalesce(upper_basis_points::text, '-'), answer) AS line
            FROM report.holdout ORDER BY forecast_consent
            """
        ).map { try $0.text("line") }
        await connection.close()
        return rows
    }

    /// Newcombe's own example: 56 of 70 against 48 of 80 differ by 0.2, from 0.0524 to 0.3339.
    @Test func interval_isNewcombes() async throws {
        let rows = try await report([
            Arm(count: 70, left: 56, first: 1), Arm(held: true, count: 80, left: 48, first: 101),
        ])

        #expect(rows == ["required 70 0 56 80 48 0 2000 524 3339 more_left"])
    }

    /// Where nobody's charges have been heard of for so long, nobody knows who of them has renewed. Only one whose end was told
    /// has left.
    @Test func whoseRenewalNobodyTold_hasNotLeft() async throws {
        let arms = [
            Arm(count: 40, left: 40, first: 1), Arm(held: true, count: 40, left: 0, first: 101),
        ]

        let silent = try await report(
            arms,
            // A refund says nothing of renewals.
            more: """
                INSERT INTO repricer.money_entries (original_transaction_id, bucket, transaction_id, sku, kind, occurred_at,
                    number, correction, amount_milliunits, currency, evidence_id)
                VALUES ('9', repricer.bucket_of('9'), 't', 'PLAN', 'refund', '2026-05-30Z', 0, 0, -1, 'USD', 'e');
                """, heardUntil: "2026-03-03Z")
        #expect(silent == ["required 0 0 0 40 0 40 - - - too_few"])
    }

    /// In Berlin this day has 23 hours. What is due is due for everybody.
    @Test(arguments: ["UTC", "Europe/Berlin", "America/New_York"])
    func dayAfterARenewal_isOf24Hours_inEverySession(zone: String) async throws {
        let due = "UPDATE repricer.price_changes SET forecast_effective_at = '2026-03-28T12:00Z';"

        let before = try await report(
            [Arm(count: 2, left: 0, first: 1)], more: due + "SET timezone = '\(zone)';",
            asOf: "2026-03-29T11:30Z")

        #expect(before == ["required 0 0 0 0 0 2 - - - too_few"])
    }

    @Test func whoseEndWasTold_hasLeft_alsoWhereNothingElseWasHeard() async throws {
        let rows = try await report(
            [Arm(count: 3, left: 3, first: 1)],
            more: """
                INSERT INTO repricer.subscription_events (original_transaction_id, bucket, signed_at, evidence_id, source, type,
                    statement)
                VALUES ('1', repricer.bucket_of('1'), '2026-03-01T00:05Z', 'e', 'notification', 'EXPIRED', '{}');
                INSERT INTO repricer.charges (original_transaction_id, bucket, transaction_id, sku, purchased_at, expires_at,
                    price_milliunits, currency)
                VALUES ('2', repricer.bucket_of('2'), 'u', 'OTHER', '2026-03-01Z', '2026-07-01Z', 9990, 'USD');
                """, heardUntil: "2026-03-03Z")

        #expect(rows == ["required 2 0 2 0 0 1 - - - too_few"])
    }

    @Test func aDifferenceThatMayBeChance_isNoneSeen_andTooFewSayNothing() async throws {
        let rows = try await report([
            Arm(count: 30, left: 2, consent: "not_required", first: 1),
            Arm(held: true, count: 30, left: 1, consent: "not_required", first: 101),
            Arm(count: 100, left: 50, first: 201), Arm(held: true, count: 29, left: 1, first: 401),
        ])

        #expect(rows.first?.hasSuffix("no_difference_seen") == true, "\(rows)")
        #expect(rows.last == "required 100 0 50 29 1 0 - - - too_few")
    }

    @Test func aRenewalThatHasNotCome_isNotCounted_andOneNeverSentIsNamed() async throws {
        let rows = try await report(
            [Arm(count: 3, left: 1, first: 1), Arm(held: true, count: 2, left: 1, first: 101)],
            more: """
                UPDATE repricer.price_changes SET forecast_effective_at = '2026-06-15Z' WHERE line IN (1, 101);
                UPDATE repricer.price_changes SET sent_at = NULL, state = 'ineligible' WHERE line = 2;
                """)

        #expect(rows == ["required 2 1 0 1 0 2 - - - too_few"])
    }

    /// Half of it was given back, so the money says nothing: its item is gone since that day.
    @Test func anItemThatIsRevoked_isNotPaidForAnyMore() async throws {
        let revoked =
            "UPDATE repricer.charges SET revoked_at = '2026-04-20Z', refunded_milliunits = 4995 "
            + "WHERE original_transaction_id IN ('2', '101');"
        let arms = [
            Arm(count: 3, left: 1, first: 1), Arm(held: true, count: 2, left: 0, first: 101),
        ]

        #expect(
            try await report(arms, more: revoked) == ["required 3 0 2 2 1 0 - - - too_few"])
    }

    @Test func anItemThatIsRevokedLater_isPaidForUntilThen() async throws {
        let revoked =
            "UPDATE repricer.charges SET revoked_at = '2026-06-20Z' WHERE original_transaction_id = '2';"

        #expect(
            try await report([Arm(count: 3, left: 1, first: 1)], more: revoked) == [
                "required 3 0 1 0 0 0 - - - too_few"
            ])
    }
}
