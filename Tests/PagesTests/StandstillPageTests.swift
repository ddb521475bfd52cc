import Postgres
import TestSupport
import Testing

@testable import Pages

/// What the page of health and the home page say of what holds calls back. A page that says all is well while nothing
/// moves is worse than none.
@Suite(.database) struct StandstillPageTests {
    private static func script(_ text: String) async throws {
        let connection = try await TestDatabase.connect()
        try await connection.script(text)
        await connection.close()
    }

    private static func page(_ target: String) async throws -> PageTables {
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            PageTables(try await PagesHarness.whole(target, ask))
        }
    }

    /// A batch whose only row is due.
    private static func fillDueRow() async throws {
        try await script(
            """
            INSERT INTO repricer.batches (batch_id, name, state, content_sha256, plan_hash, planned_as_of, row_count,
                submitted_by, submitted_at, decided_by, decided_at)
            VALUES ('\(PagesFixture.batch(1))', 'spring', 'approved', 'c1', 'h1', '2026-03-01Z', 1, 'ana', '2026-03-01Z',
                'ben', '2026-03-02Z');
            INSERT INTO repricer.price_changes (original_transaction_id, bucket, change_id, batch_id, submitted_by, line, sku,
                direction, currency, storefront, period, current_price_milliunits, new_price_milliunits, forecast_consent,
                forecast_effective_at, send_by, due_effective_at, request_reference_id, state, state_since, is_ready)
            VALUES ('1', repricer.bucket_of('1'), md5('1')::uuid, '\(PagesFixture.batch(1))', 'ana', 2, 'PLAN', 'increase',
                'USD', 'USA', 'P1M', 9990, 12990, 'not_required', '2026-05-01Z', '2026-04-20Z', '2026-05-01Z', md5('1')::uuid,
                'queued', '2026-03-02Z', true)
            """)
    }

    @Test func health_whereNothingIsWrong_saysSo() async throws {
        let page = try await Self.page("/health")

        #expect(page.paragraphs.first == "No alarm, and nothing holds calls back.")
        #expect(page.notices.isEmpty)
    }

    @Test(arguments: [
        (
            "catch_up_since = '2026-03-31Z', catch_up_from = '2026-03-31Z'",
            "Catching up: no call leaves"
        ),
        (
            #"""
            throttled_kinds = '{"price_change": {"since": "2026-03-31T00:00:00Z", "until": "2026-04-01T00:05:00Z",
                "answer": "500"}}'
            """#, "Price changes are slowed down"
        ),
        (
            #"""
            unreached_kinds = jsonb_build_object('price_change', jsonb_build_object('since', '2026-03-31Z',
                'tried', '2026-04-01Z', 'seen', clock_timestamp(), 'answer', 'connection refused'))
            """#, "Price changes do not leave"
        ),
    ])
    func health_whereCallsWait_givesNoAllClear(_ control: String, _ notice: String) async throws {
        try await Self.script("UPDATE repricer.service_controls SET \(control)")

        let page = try await Self.page("/health")

        #expect(page.paragraphs.first == "No alarm, but 1 thing holds calls back.")
        #expect(page.notices.contains { $0.hasPrefix(notice) }, "\(page.notices)")
    }

    @Test func health_whereAPersonPausedABatch_namesIt() async throws {
        try await Self.fillDueRow()
        try await Self.script(
            """
            UPDATE repricer.batches SET is_paused = true, paused_by = 'ana', paused_at = '2026-03-31Z',
                paused_reason = 'a typo'
            """)

        let page = try await Self.page("/health")

        #expect(page.paragraphs.first == "No alarm, but 1 thing holds calls back.")
        #expect(page.notices.count == 1)
        #expect(page.notices.first?.hasPrefix("Paused: spring since 31 Mar 2026") == true)
    }

    /// It is our own wait for the next call that asks, and the App Store asked for nothing.
    @Test func health_whileCallsAreSlowedDown_saysNothingOfASilence() async throws {
        try await Self.script(
            """
            INSERT INTO repricer.rate_limits (endpoint, blocked_until) VALUES ('change_price', '2026-04-01T00:05:00Z')
            ON CONFLICT (endpoint) DO UPDATE SET blocked_until = EXCLUDED.blocked_until;
            UPDATE repricer.service_controls SET throttled_kinds = '{"price_change": {"since": "2026-03-31T23:00:00Z",
                "until": "2026-04-01T00:05:00Z", "answer": "503"}}'
            """)

        let page = try await Self.page("/health")

        #expect(page.notices.count == 1, "\(page.notices)")
        #expect(page.notices.first?.contains("are slowed down") == true, "\(page.notices)")
    }

    @Test func health_whereTheAppStoreAskedForSilence_namesIt() async throws {
        try await Self.script(
            """
            INSERT INTO repricer.rate_limits (endpoint, blocked_until) VALUES ('change_price', '2026-04-01T00:05:00Z')
            ON CONFLICT (endpoint) DO UPDATE SET blocked_until = EXCLUDED.blocked_until
            """)

        let page = try await Self.page("/health")

        #expect(page.paragraphs.first == "No alarm, but 1 thing holds calls back.")
        #expect(
            page.notices == [
                "Silence asked for: the App Store takes no calls of change price until 1 Apr 2026, 00:05 UTC."
            ])
    }

    @Test(arguments: ["/", "/health"])
    func page_whereChangesAreDueAndNobodyAsksForCalls_isAnAlarm(_ target: String) async throws {
        try await Self.fillDueRow()

        let page = try await Self.page(target)

        let told =
            "Nobody delivers: changes are due, and no process has asked for a call so far; repricer serve delivers."
        #expect(page.notices == [told])
        if target == "/health" { #expect(page.paragraphs.first == "1 thing needs somebody.") }
    }

    @Test func health_ofAlarmsAndWaits_countsBoth() async throws {
        try await Self.fillDueRow()
        try await Self.script(
            """
            UPDATE repricer.service_controls SET halted_at = '2026-03-31Z', halted_reason = 'the key was refused',
                catch_up_since = '2026-03-31Z', catch_up_from = '2026-03-31Z'
            """)

        let page = try await Self.page("/health")

        #expect(
            page.paragraphs.first == "1 thing needs somebody, and 1 more holds calls back.")
    }

    /// Support opens the page to say what a customer loses who does not agree.
    @Test func subscription_ofAnOpenChange_namesWhatFallsWithIt() async throws {
        try await PagesFixture.fill()
        let (parent, carrier) = ("2000000000000145", "2000000000000146")
        try await Self.script(
            """
            UPDATE repricer.price_changes SET dependent_skus = '{ADVANCED,SIDE}', current_dependent_skus = '{ADVANCED_1M,SIDE}'
            WHERE original_transaction_id = '\(parent)';
            INSERT INTO repricer.dependent_claims (original_transaction_id, bucket, sku, claimed_by, change_id, period)
            SELECT '\(carrier)', repricer.bucket_of('\(carrier)'), 'SIDE', original_transaction_id, change_id, 'P1M'
            FROM repricer.price_changes WHERE original_transaction_id = '\(parent)';
            """)

        let page = try await Self.page("/subscriptions/\(parent)")
        let other = try await Self.page("/subscriptions/\(carrier)")

        #expect(
            page.rows("Price changes").map { $0[1] } == ["PLAN falls with it: ADVANCED_1M, SIDE"])
        #expect(
            other.rows("Items that fall if another one is declined") == [
                ["SIDE", "PLAN on \(parent)", "spring", "pending consent"]
            ])
        #expect(page["Items that fall if another one is declined"].isEmpty)

        // What has ended lets nothing fall any more, but by the proof that the dependents' table has.
        try await Self.script(
            """
            UPDATE repricer.price_changes SET state = 'cancelled', ended_at = '2026-03-30Z'
            WHERE original_transaction_id = '\(parent)'
            """)
        #expect(
            try await Self.page("/subscriptions/\(parent)").rows("Price changes").map { $0[1] }
                == ["PLAN"])
        #expect(
            try await Self.page("/subscriptions/\(carrier)")[
                "Items that fall if another one is declined"
            ].isEmpty)
    }
}
