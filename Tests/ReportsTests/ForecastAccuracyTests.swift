import Postgres
import TestSupport
import Testing

/// The forecast against fact, rule by rule: what a stored verdict says of each. `ForecastRuleTests` and
/// `ForecastSlipTests` tell the same of real batches.
@Suite(.database) struct ForecastAccuracyTests {
    /// A change with this verdict that the App Store asked about; then what the view says of it.
    private static func read(
        _ columns: SQL, consent: String, rules: String = "[]", reasons: String = "{}",
        notKnown: String = "{}", more: String = ""
    ) async throws -> String {
        let connection = try await TestDatabase.connect()
        let change = ReportFixture.Change(
            subscription: "1", line: 2, old: 9990, new: 12990, consent: consent,
            state: "pending_consent", asked: "2026-01-10Z")
        try await connection.script(
            ReportFixture.batchSQL(ReportFixture.batch, name: "rules", rows: 1) + change.sql
                + "UPDATE repricer.price_changes SET forecast_rules = '\(rules)', "
                + "forecast_reasons = '\(reasons)', forecast_not_known = '\(notKnown)';"
                + more)
        let line = try await connection.query(
            "SELECT \(fragment: columns) AS line FROM report.forecast_accuracy"
        ).one().text("line")
        await connection.close()
        return line
    }

    private static func line(
        consent: String, rules: String = "[]", reasons: String = "{}", notKnown: String = "{}"
    ) async throws -> String {
        try await read(
            "concat_ws(' ', consent_outcome, array_to_string(forecast_not_known, '+'), forecast_because)",
            consent: consent, rules: rules, reasons: reasons, notKnown: notKnown)
    }

    @Test(arguments: [
        "always_consent_storefront", "threshold", "increase_within_12_months",
        "korea_offer_conversion",
    ])
    func rule_withTooLittleToAnswer_isNamedWhereTheForecastDidNotSay(rule: String) async throws {
        let line = try await Self.line(consent: "not_known", notKnown: "{\(rule)}")

        #expect(line == "was_not_known \(rule)")
    }

    /// Another rule said yes: what this one could not say decided nothing.
    @Test func ruleWithTooLittle_besideOneThatSaidYes_isNotNamed() async throws {
        let line = try await Self.line(
            consent: "required", reasons: "{threshold}", notKnown: "{increase_within_12_months}")

        #expect(line == "as_forecast ")
    }

    @Test(arguments: [
        ("line 7", "sibling"), ("0190aaaa-0000-7000-8000-000000000001", "sibling"),
        ("2025-11-02T00:00:00Z", "earlier_increase"),
    ])
    func increaseThatCounted_isASiblingsOrAnEarlierOne(
        because: String, expected: String
    ) async throws {
        let line = try await Self.line(
            consent: "required",
            rules:
                #"[{"rule": "increase_within_12_months", "answer": true, "inputs": {"because": "\#(because)"}}]"#,
            reasons: "{increase_within_12_months}")

        #expect(line == "as_forecast  \(expected)")
    }

    /// Only an increase of another item that took effect within 12 months before explains why consent was asked for.
    @Test(arguments: [
        ("effective", "increase", "2026-02-01Z", 1 as Int64),
        ("effective", "increase", "2026-03-01Z", 0), ("effective", "increase", "2024-12-01Z", 0),
        ("effective", "decrease", "2026-02-01Z", 0), ("declined", "increase", "NULL", 0),
    ])
    func missedConsent_isASiblingsDoing_whereItsIncreaseCounts(
        state: String, direction: String, effective: String, expected: Int64
    ) async throws {
        let instant = effective == "NULL" ? effective : "'\(effective)'"
        let missed = try await Self.read(
            "sum(missed_by_sibling)::text", consent: "not_required",
            more: """
                INSERT INTO repricer.price_changes (original_transaction_id, bucket, change_id, batch_id, line,
                    sku, direction, current_price_milliunits, new_price_milliunits, forecast_consent,
                    forecast_effective_at, send_by, due_effective_at, state, sent_at, effective_at, state_since,
                    submitted_by, currency, storefront, period)
                SELECT original_transaction_id, bucket, '00000000-0000-7000-8000-0000000000ff', batch_id, 3,
                    'OTHER', '\(direction)', 5000, \(direction == "increase" ? 6000 : 4000),
                    '\(direction == "increase" ? "required" : "none")', '2026-02-01Z', '2026-02-01Z',
                    '2026-02-01Z', '\(state)', '2026-01-03Z', \(instant), '2026-01-03Z', submitted_by, currency,
                    storefront, period FROM repricer.price_changes;
                """)
        #expect(missed == "\(expected)")
    }

    /// They are never sent, so that no fact comes of their forecast: neither before the approval nor after it, nor as of
    /// the past.
    @Test(arguments: ["awaiting_approval", "aborted"])
    func heldOutRows_areNotCounted(state: String) async throws {
        let connection = try await TestDatabase.connect()
        let sent = ReportFixture.Change(
            subscription: "1", line: 2, old: 9990, new: 12990, consent: "required",
            state: "pending_consent", asked: "2026-01-10Z")
        let heldOut = ReportFixture.Change(
            subscription: "2", line: 3, old: 9990, new: 12990, consent: "required", state: state)
        try await connection.script(
            ReportFixture.batchSQL(ReportFixture.batch, name: "held out", rows: 2) + sent.sql
                + heldOut.sql
                + "UPDATE repricer.price_changes SET is_held_out = true, sent_at = NULL WHERE line = 3;"
        )
        let lines = try await connection.query(
            """
            SELECT concat_ws(' ', consent_outcome, changes) AS line FROM report.forecast_accuracy
            UNION ALL
            SELECT concat_ws(' ', consent_outcome, changes) FROM report.forecast_accuracy_as_of(clock_timestamp())
            """
        ).map { try $0.text("line") }
        await connection.close()

        #expect(lines == ["as_forecast 1", "as_forecast 1"])
    }

    /// What is late for no reason that was kept is late by moments.
    @Test func slipped_isTheSumOfItsReasons_andOfLaterDaysAlone() async throws {
        let connection = try await TestDatabase.connect()
        let marks = [
            ("2026-03-01Z", "'late_call'", "NULL"), ("2026-04-01Z", "'late_call'", "'extension'"),
            ("2026-04-01Z", "NULL", "'billing_failure'"), ("2026-04-01Z", "NULL", "'other'"),
            ("2026-04-01Z", "NULL", "'extension'"), ("2026-04-01Z", "NULL", "NULL"),
        ]
        let changes = marks.indices.map { index in
            ReportFixture.Change(
                subscription: "\(index)", line: index + 2, old: 9990, new: 12990,
                consent: "required", state: "accepted", acceptance: "informed", due: marks[index].0)
        }
        let moved = marks.indices.map { index in
            """
            UPDATE repricer.price_changes SET moved_before_call = \(marks[index].1),
                moved_since_call = \(marks[index].2) WHERE original_transaction_id = '\(index)';
            """
        }
        try await connection.script(
            ReportFixture.batchSQL(ReportFixture.batch, name: "slips", rows: marks.count)
                + changes.map(\.sql).joined() + moved.joined())
        let line = try await connection.query(
            """
            SELECT concat_ws(' ', changes, slipped, slipped_by_billing_failure, slipped_by_late_call,
                slipped_by_extension, slipped_by_other) AS line FROM report.forecast_accuracy
            """
        ).one().text("line")
        await connection.close()

        #expect(line == "6 4 1 1 1 1")
    }
}
