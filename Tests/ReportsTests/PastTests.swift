import Facts
import Postgres
import ServiceKit
import TestSupport
import Testing

@testable import Reports

/// What was known at an instant: by what was recorded until then, and the same for ever.
@Suite(.database) struct PastTests {
    /// From now on the database records by a clock that shows `instant` now.
    private static func clock(_ instant: String) -> String {
        """
        UPDATE repricer.service_controls SET is_rehearsal = true, clock_rate = 0.001, clock_origin = clock_timestamp(),
            clock_start = '\(instant)';
        """
    }

    private static let june: Int64 = 1_780_272_000_000

    /// What came after 1 June: a refund, a correction, a charge that was told late, an end that was no end, a decision.
    private static let lateNews =
        clock("2026-06-02Z") + """
            UPDATE repricer.charges SET refunded_milliunits = 12990 WHERE transaction_id = '1-2026-04-01Z';
            INSERT INTO repricer.money_entries (original_transaction_id, bucket, transaction_id, sku, kind, occurred_at,
                number, correction, amount_milliunits, currency, evidence_id)
            VALUES ('1', repricer.bucket_of('1'), '1-2026-04-01Z', 'PLAN', 'refund', '2026-05-01Z', 0, 0, -12990, 'USD', 'r');
            \(ReportFixture.charge("2", "2026-04-05Z", 5990))
            \(ReportFixture.charge("2", "2026-05-05Z", 4990))
            \(ReportFixture.charge("3", "2026-05-06Z", 1_000_000, currency: "JPY"))
            UPDATE repricer.price_changes SET state = 'effective', effective_at = '2026-05-20Z', accepted_at = '2026-05-19Z',
                acceptance = 'informed', current_sku = 'PLAN_2', due_effective_at = '2026-05-20Z', state_since = '2026-05-20Z'
                WHERE original_transaction_id IN ('5', '6', '8');
            UPDATE repricer.price_changes SET state = 'cancelled', ended_at = '2026-05-20Z' WHERE original_transaction_id = '1';
            UPDATE repricer.dependent_cancellations SET state = 'discrepancy', price_milliunits = 1;
            UPDATE repricer.batches SET is_paused = true, paused_reason = 'late';
            DELETE FROM repricer.subscription_events;
            """

    /// A paid period of the first subscription ran out, and nothing but a failed charge tells why.
    private static let failure = """
        UPDATE repricer.batches SET holdout_basis_points = 1000;
        INSERT INTO repricer.subscriptions (original_transaction_id, bucket, purchased_at)
        VALUES ('1', repricer.bucket_of('1'), '2026-05-01Z');
        INSERT INTO repricer.subscription_events (original_transaction_id, bucket, signed_at, evidence_id, source, type,
            statement)
        VALUES ('1', repricer.bucket_of('1'), '2026-05-02Z', 'f', 'notification', 'DID_FAIL_TO_RENEW',
            '{"transaction": {"purchasedAt": 1777593600000}}');
        UPDATE repricer.charges SET expires_at = purchased_at + interval '1 month' WHERE original_transaction_id = '1';
        DELETE FROM repricer.charges WHERE transaction_id = '1-2026-05-01Z';
        \(ReportFixture.charge("2", "2026-04-06Z", 5490))
        INSERT INTO repricer.money_entries (original_transaction_id, bucket, transaction_id, sku, kind, occurred_at,
            number, correction, amount_milliunits, currency, evidence_id)
        SELECT original_transaction_id, bucket, transaction_id, sku, 'charge', purchased_at, 0, 0, price_milliunits, currency,
            'e' || transaction_id FROM repricer.charges;
        """

    private static func lines(_ query: ReportQuery) async throws -> [Substring] {
        let text = try await ReportContractTests.render(query, .csv, conninfo: TestDatabase.url)
        let lines = text.split(separator: "\r\n")
        guard query.name == .reconciliation else { return lines }
        let kept = ["charges_", "rows_add_up", "effective_without_charge"]
        return lines.filter { line in kept.contains { line.contains(",\($0)") } }
    }

    @Test(arguments: ReportName.allCases.filter(\.hasPast))
    func report_asOf_isWhatItSaidThen_andStaysSo(name: ReportName) async throws {
        let owner = try await TestDatabase.connect()
        try await owner.script(
            Self.clock("2026-05-30Z") + ReportFixture.everyState
                + ReportFixture.batchSQL(ReportFixture.otherBatch, name: "empty", rows: 1)
                + Self.failure
                + Self.clock("2026-06-01T00:00:01Z"))
        let then = try await Self.lines(ReportQuery(name, judgedAt: Self.june))
        let asked = try await Self.lines(ReportQuery(name, asOf: Self.june))
        let ofBatch = try await Self.lines(
            ReportQuery(name, batchID: ReportFixture.batch, asOf: Self.june))

        try await owner.script(Self.lateNews)
        await owner.close()

        #expect(asked == then)
        #expect(then.count > 1)
        #expect(try await Self.lines(ReportQuery(name, asOf: Self.june)) == then)
        #expect(
            try await Self.lines(
                ReportQuery(name, batchID: ReportFixture.batch, asOf: Self.june)) == ofBatch)
        #expect(try await Self.lines(ReportQuery(name, judgedAt: Self.june)) != then)
    }

    /// What else it would tell, retention may drop one day: the same question would have another answer.
    @Test func reportOfThePast_hasTheColumnsOfTodays() async throws {
        let owner = try await TestDatabase.connect()
        let others = try await owner.query(
            """
            SELECT proname AS text FROM pg_proc
            WHERE pronamespace = 'report'::regnamespace AND proname LIKE '%\\_as\\_of'
                AND prorettype IS DISTINCT FROM
                    (SELECT reltype FROM pg_class WHERE relnamespace = 'report'::regnamespace AND relname || '_as_of' = proname)
            """
        ).map { try $0.text("text") }
        let all = try await owner.query(
            "SELECT 1 FROM pg_proc WHERE pronamespace = 'report'::regnamespace AND proname LIKE '%\\_as\\_of'"
        )
        await owner.close()
        #expect(others == [])
        #expect(all.count > 10)
    }

    @Test(arguments: [
        ("2025-12-31T23:59:59Z", nil), ("2026-01-01T12:00:00Z", "awaiting_approval 0"),
        ("2026-01-02T12:00:00Z", "queued 0"), ("2026-01-03T12:00:00Z", "scheduled 0"),
        ("2026-01-15T00:00:00Z", "pending_consent 0"),
        ("2026-02-01T00:00:00Z", "accepted consented 0"),
        // Its charge was recorded a day after the state, and another one a month late.
        ("2026-03-01T12:00:00Z", "effective consented 0"),
        ("2026-03-15T00:00:00Z", "effective consented 1"),
        ("2026-04-15T00:00:00Z", "effective consented 1"),
        ("2026-06-01T00:00:00Z", "effective consented 2"),
    ])
    func priceChangeAsOf_anInstant_saysWhatWasKnownThen(at: String, told: String?) async throws {
        let owner = try await TestDatabase.connect()
        func move(_ at: String, _ state: String, _ more: String = "") -> String {
            Self.clock(at) + """
                UPDATE repricer.price_changes SET state = '\(state)', state_since = '\(at)'\(more);
                INSERT INTO repricer.price_change_history (original_transaction_id, bucket, change_id, occurred_at, state,
                    evidence_kind, evidence_id)
                SELECT original_transaction_id, bucket, change_id, '\(at)', '\(state)', 'notification', 'e-\(state)'
                FROM repricer.price_changes WHERE '\(state)' <> 'queued';
                """
        }
        let change = ReportFixture.Change(
            subscription: "1", line: 2, old: 9990, new: 12990, consent: "required",
            state: "awaiting_approval"
        ).sql
        try await owner.script(
            Self.clock("2026-01-01Z")
                + ReportFixture.batchSQL(ReportFixture.batch, name: "spring", rows: 1)
                + change
                + "UPDATE repricer.price_changes SET sent_at = NULL, state_since = '2026-01-01Z';"
                + move("2026-01-02Z", "queued")
                + move(
                    "2026-01-03Z", "sending",
                    ", sent_at = '2026-01-03Z', request_reference_id = gen_random_uuid()")
                + move(
                    "2026-01-03T00:01:00Z", "scheduled", ", scheduled_at = '2026-01-03T00:01:00Z'")
                + move("2026-01-10Z", "pending_consent", ", consent_asked_at = '2026-01-10Z'")
                + move("2026-01-20Z", "accepted", ", acceptance = 'consented'")
                + move("2026-03-01Z", "effective", ", effective_at = '2026-03-01Z'")
                + Self.clock("2026-03-02Z") + ReportFixture.charge("1", "2026-03-01Z", 12990)
                + Self.clock("2026-05-02Z") + ReportFixture.charge("1", "2026-04-01Z", 12990)
                + Self.clock("2026-06-02Z"))
        await owner.close()
        let finance = try await TestDatabase.login("fiona", memberOf: ["repricer_finance"])
        let connection = try await PostgresConnection.connect(finance, applicationName: "test")

        let row = try await connection.query(
            """
            SELECT concat_ws(' ', state, acceptance, charged_renewals) AS text, sent_at IS NULL AS is_unsent
            FROM report.price_change_as_of(\(at)::timestamptz)
            """
        ).first
        await connection.close()

        #expect(try row?.text("text") == told)
        #expect(
            try row?.bool("is_unsent")
                == told.map { $0.hasSuffix("approval 0") || $0 == "queued 0" })
    }

    /// Functions with parameters can't be asked there, and one answered without rows.
    @Test func report_asOfOnACluster_isRefused() async throws {
        let error = await #expect(throws: ReportError.self) {
            try await DatabaseLayout.$assumed.withValue(.spread) {
                try await Self.lines(ReportQuery(.revenueBridge, asOf: Self.june))
            }
        }

        #expect(error?.description.contains("this Citus cluster can't tell what was known") == true)
    }

    @Test func report_asOfAnInstantToCome_isRefused() async throws {
        let error = await #expect(throws: ReportError.self) {
            try await Self.lines(ReportQuery(.money, asOf: 32_503_680_000_000))
        }

        #expect("\(error, default: "")".contains("lies ahead of the database's clock"))
    }

    @Test(arguments: [
        ("2026-12-01 00:00:00+00", "2026-12-01T00:00:00Z"),
        ("2026-12-01 00:00:00.5+00", "2026-12-01T00:00:00.500Z"),
        ("2026-12-01 00:00:00.123+00", "2026-12-01T00:00:00.123Z"),
        ("2026-12-01 00:00:00.123987+00", "2026-12-01T00:00:00.123987Z"),
        ("2026-12-01 00:00:00.0009+00", "2026-12-01T00:00:00.000900Z"),
        ("294276-12-31 23:59:59.999999+00", "294276-12-31T23:59:59.999999Z"),
        ("0044-03-15 00:00:00+00 BC", "0044-03-15 00:00:00+00 BC"),
        ("-infinity", "-infinity"), ("+00", "+00"), ("", ""),
    ])
    func instant_isWrittenInUTC_toTheMicrosecond(stored: String, written: String) {
        var (stored, found) = (stored, "")
        stored.withUTF8 { bytes in
            withInstant(bytes) { found = String(decoding: $0, as: UTF8.self) }
        }
        #expect(found == written)
    }

    @Test(arguments: ReportName.allCases.filter { !$0.hasPast })
    func report_withoutAPast_refusesAnInstant(name: ReportName) async throws {
        await #expect(throws: ReportError.hasNoPast(name)) {
            try await Self.lines(ReportQuery(name, asOf: Self.june))
        }
    }

    @Test func views_always_haveAPastOrAWordWhyNot() async throws {
        let owner = try await TestDatabase.connect()
        let views = try await owner.query(
            """
            SELECT c.relname::text AS name, obj_description(c.oid) LIKE '%No NAME_as_of:%' AS says_why_not,
                to_regprocedure('report.' || c.relname || '_as_of(timestamptz, uuid)') IS NOT NULL AS has_past
            FROM pg_class c WHERE c.relnamespace = 'report'::regnamespace AND c.relkind = 'v'
            """)
        await owner.close()

        for view in views {
            let name = try view.text("name")
            #expect(try view.bool("has_past") != view.bool("says_why_not"), "\(name)")
            #expect(try ReportName(rawValue: name)?.hasPast == view.bool("has_past"), "\(name)")
        }
    }

    @Test func recorderThatIsOpen_isWaitedFor() async throws {
        let owner = try await TestDatabase.connect()
        try await owner.script(ReportFixture.everyState)
        let recorder = try await TestDatabase.connect()
        try await recorder.script(
            "BEGIN;" + ReportFixture.charge("2", "2026-04-05Z", 5990))
        let now = try await owner.query("SELECT repricer.recording_instant() AS at").one()
            .milliseconds("at")

        async let asked = Self.lines(ReportQuery(.priceChange, asOf: now))
        try await recorder.script("COMMIT")
        let first = try await asked

        #expect(first == (try await Self.lines(ReportQuery(.priceChange, asOf: now))))
        #expect(first.contains { $0.contains("2026-03-05T00:00:00Z,11980,2000") })
        await owner.close()
        await recorder.close()
    }

    /// Whoever asks by SQL is told the same as by the command line.
    @Test func recorderThatIsOpen_isWaitedForBySQL_ifItBeganBeforeTheInstant() async throws {
        let owner = try await TestDatabase.connect()
        try await owner.script(ReportFixture.everyState)
        let earlier = try await Self.instant(on: owner)
        let recorder = try await TestDatabase.connect()
        try await recorder.script("BEGIN;" + ReportFixture.charge("2", "2026-04-05Z", 5990))
        let now = try await Self.instant(on: owner)
        let asking = try await PostgresConnection.connect(
            try await TestDatabase.login("fiona", memberOf: ["repricer_finance"]),
            applicationName: "asking")
        func charged(at instant: String) async throws -> Int64 {
            try await asking.query(
                "SELECT sum(charged_renewals)::bigint AS sum FROM report.price_change_as_of(\(instant)::timestamptz)"
            ).one().int64("sum")
        }

        let before = try await charged(at: earlier)
        async let asked = charged(at: now)
        try await eventually("the report waits") {
            try await owner.query(
                """
                SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'asking' AND wait_event = 'PgSleep') AS waits
                """
            ).one().bool("waits")
        }
        try await recorder.script("COMMIT")

        #expect(try await asked == before + 1)
        #expect(try await charged(at: now) == before + 1)
        #expect(try await charged(at: earlier) == before)
        await asking.close()
        await owner.close()
        await recorder.close()
    }

    private static func instant(on owner: PostgresConnection) async throws -> String {
        try await owner.query("SELECT repricer.recording_instant()::text AS at").one().text("at")
    }

    /// A dependent on another subscription was paid by the month when it fell. Its subscription is by the year since.
    @Test func whatADependentBrought_isByThePeriodThatItHadThen_forEver() async throws {
        let owner = try await TestDatabase.connect()
        try await owner.script(
            Self.clock("2026-05-30Z")
                + ReportFixture.batchSQL(ReportFixture.batch, name: "spring", rows: 1)
                + ReportFixture.Change(
                    subscription: "1", line: 2, old: 9990, new: 12990, consent: "required",
                    state: "declined", dependents: "{2/EXTRA}", asked: "2026-01-10Z"
                ).sql
                    + """
                    UPDATE repricer.price_changes SET ended_at = '2026-04-15Z';
                    INSERT INTO repricer.subscriptions (original_transaction_id, bucket, purchased_at, period)
                    VALUES ('1', repricer.bucket_of('1'), '2026-03-15Z', 'P1M'), ('2', repricer.bucket_of('2'), '2026-04-01Z', 'P1M');
                    INSERT INTO repricer.charges (original_transaction_id, bucket, transaction_id, sku, purchased_at, expires_at,
                        price_milliunits, currency, storefront)
                    VALUES ('2', repricer.bucket_of('2'), 't', 'EXTRA', '2026-04-01Z', '2026-05-01Z', 4990, 'USD', 'USA');
                    INSERT INTO repricer.dependent_cancellations (original_transaction_id, bucket, change_id, dependent_sku,
                        parent_sku, batch_id, cause, state, is_cross_subscription, target_transaction_id, target_period,
                        price_milliunits, currency, requested_at, requested_by_evidence, settled_at, settled_by_evidence)
                    SELECT '1', repricer.bucket_of('1'), change_id, '2/EXTRA', 'PLAN', batch_id, 'declined', 'confirmed', true, '2',
                        'P1M', 4990, 'USD', '2026-04-15Z', 'e1', '2026-04-20Z', 'e2'
                    FROM repricer.price_changes;
                    INSERT INTO repricer.dependent_claims (original_transaction_id, bucket, sku, claimed_by, change_id, period)
                    SELECT '2', repricer.bucket_of('2'), 'EXTRA', '1', change_id, 'P1M' FROM repricer.price_changes;
                    """ + Self.clock("2026-06-02Z"))
        func said() async throws -> [String] {
            try await owner.query(
                """
                SELECT concat_ws(' ', 'lost', dependent_lost_per_period_milliunits) AS line
                FROM report.revenue_impact_as_of('2026-06-01Z')
                UNION ALL
                SELECT concat_ws(' ', 'fell', period) FROM report.dependent_cancellation_as_of('2026-06-01Z')
                UNION ALL
                SELECT concat_ws(' ', to_char(month, 'MM'), opening_milliunits, dependents_milliunits, closing_milliunits)
                FROM report.revenue_bridge_as_of('2026-06-01Z') WHERE month >= '2026-04-01'
                """
            ).map { try $0.text("line") }
        }
        let before = try await said()

        try await owner.script(
            "UPDATE repricer.subscriptions SET period = 'P1Y' WHERE original_transaction_id = '2'")
        let after = try await said()
        await owner.close()

        #expect(before.prefix(2) == ["lost 4990", "fell P1M"])
        #expect(after == before)
    }

    /// The renewal of 1 April never came. That a later one did is told on 2 May, and read anew on 2 July, if at all.
    @Test(arguments: [
        (told: "'2026-05-02Z'", readAnew: false, july: "missing 2026-04-01"),
        (told: "'2026-05-02Z'", readAnew: true, july: ""),
        // Its day may come within days after the word of it.
        (told: "'2026-04-28Z'", readAnew: false, july: "missing 2026-04-01"),
    ])
    func aLaterPeriod_thatAStatementTells_isKnownFromThenOn_forEver(
        told: String, readAnew: Bool, july: String
    ) async throws {
        let owner = try await TestDatabase.connect()
        try await owner.script(
            Self.clock("2026-04-10Z")
                + ReportFixture.batchSQL(ReportFixture.batch, name: "spring", rows: 1)
                + ReportFixture.Change(
                    subscription: "1", line: 2, old: 9990, new: 12990, consent: "required",
                    state: "effective", effective: "2026-03-01Z"
                ).sql
                    + """
                    INSERT INTO repricer.subscriptions (original_transaction_id, bucket, purchased_at)
                    VALUES ('1', repricer.bucket_of('1'), '2026-03-01Z');
                    INSERT INTO repricer.charges (original_transaction_id, bucket, transaction_id, sku, purchased_at, expires_at,
                        price_milliunits, currency, storefront)
                    VALUES ('1', repricer.bucket_of('1'), 't', 'PLAN', '2026-03-01Z', '2026-04-01Z', 12990, 'USD', 'USA');
                    """ + Self.clock("2026-05-02Z") + """
                    INSERT INTO repricer.subscription_events (original_transaction_id, bucket, signed_at, evidence_id, source, type,
                        statement)
                    VALUES ('1', repricer.bucket_of('1'), \(told), 'r', 'notification', 'DID_RENEW',
                        '{"transaction": {"purchasedAt": 1777593600000}}');
                    UPDATE repricer.subscriptions SET purchased_at = '2026-05-01Z';
                    """ + Self.clock("2026-06-02Z"))
        func said(_ at: String) async throws -> String {
            try await owner.query(
                """
                SELECT coalesce(string_agg(concat_ws(' ', exception, (occurred_at AT TIME ZONE 'UTC')::date), ','), '') AS line
                FROM report.charge_exception_as_of(\(at)::timestamptz)
                """
            ).one().text("line")
        }
        let before = [try await said("2026-04-20Z"), try await said("2026-06-01Z")]

        try await owner.script(
            Self.clock("2026-07-02Z")
                + (readAnew
                    ? """
                    INSERT INTO repricer.subscription_event_versions
                    SELECT e.*, '2026-07-02Z' FROM repricer.subscription_events e;
                    UPDATE repricer.subscription_events SET statement = '{}', recorded_at = '2026-07-02Z';
                    UPDATE repricer.subscriptions SET purchased_at = '2026-03-01Z';
                    """ : "UPDATE repricer.subscriptions SET purchased_at = '2026-07-01Z';")
                + Self.clock("2026-07-20Z"))
        let after = [try await said("2026-04-20Z"), try await said("2026-06-01Z")]
        let now = try await said("2026-07-10Z")
        await owner.close()

        #expect(before == ["", "missing 2026-04-01"])
        #expect(after == before)
        #expect(now == july)
    }
}
