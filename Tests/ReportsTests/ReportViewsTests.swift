import Postgres
import Reports
import TestSupport
import Testing

@Suite(.database) struct ReportViewsTests {
    /// Reads one report of the fixture; cells by column name.
    static func read(
        _ name: ReportName, batch: String? = ReportFixture.batch,
        sql: String = ReportFixture.everyState
    ) async throws -> [[String: String]] {
        let connection = try await TestDatabase.connect()
        try await connection.script(sql)
        await connection.close()
        let pool = PostgresPool(conninfo: TestDatabase.url, applicationName: "test", size: 1)
        let table = try await readTable(
            ReportQuery(name, batchID: batch, judgedAt: ReportFixture.asOf),
            from: ReportStore(pool: pool))
        await pool.close()
        let names = table.columns.map(\.name)
        return table.rows.map { row in
            Dictionary(uniqueKeysWithValues: zip(names, row.map { $0 ?? "NULL" }))
        }
    }

    static func pick(_ row: [String: String], _ names: String...) -> [String?] {
        names.map { row[$0] }
    }

    @Test func batchSummary_whenRowsAreInManyStates_addsThemUp() async throws {
        let rows = try await Self.read(.batchSummary)

        let row = try #require(rows.first)
        #expect(rows.count == 1)
        #expect(
            Self.pick(row, "batch_name", "submitted_by", "approver", "approved_at")
                == ["spring", "alice", "bob", "2026-01-02T00:00:00Z"])
        #expect(
            Self.pick(
                row, "rows", "rows_effective", "rows_declined", "rows_cancelled", "rows_accepted",
                "rows_pending_consent", "rows_queued", "rows_open", "rows_final")
                == ["8", "3", "1", "1", "1", "1", "1", "3", "5"])
        #expect(
            Self.pick(row, "is_final", "rows_add_up", "refused_file_rows")
                == ["false", "true", "1"])
    }

    @Test func batchSummary_whenARowIsMissing_doesNotAddUp() async throws {
        let sql = ReportFixture.batchSQL(ReportFixture.batch, name: "torn", rows: 2)

        let rows = try await Self.read(.batchSummary, sql: sql)

        #expect(rows.map { $0["rows_add_up"] } == ["false"])
        #expect(rows.map { $0["is_final"] } == ["false"])
        #expect(rows.map { $0["rows_effective"] } == ["0"])
    }

    /// The database of tests sorts texts as people do, and puts `alpha` first.
    @Test func rows_areSortedByteByByte_howeverTheDatabaseSortsTexts() async throws {
        let rows = try await Self.read(
            .reconciliation, batch: nil,
            sql: ReportFixture.batchSQL(ReportFixture.batch, name: "alpha", rows: 1)
                + ReportFixture.batchSQL(ReportFixture.otherBatch, name: "Beta", rows: 1))

        let names = rows.compactMap { $0["batch_name"] }.filter { $0 != "NULL" }
        #expect(names.count > 2)
        #expect(names == names.filter { $0 == "Beta" } + names.filter { $0 == "alpha" })
        #expect(names.first == "Beta")
    }

    @Test func priceChange_whenChargedAndRevoked_countsWhatWasKept() async throws {
        let rows = try await Self.read(.priceChange)

        #expect(rows.count == 8)
        #expect(
            Self.pick(
                rows[0], "state", "charged_renewals", "first_charged_at",
                "charged_total_milliunits", "charged_uplift_milliunits", "difference_basis_points")
                == ["effective", "2", "2026-03-01T00:00:00Z", "25980", "6000", "3003"])
        #expect(
            Self.pick(rows[2], "dependent_skus", "charged_renewals", "first_charged_at", "is_final")
                == ["{EXTRA}", "0", "NULL", "true"])
    }

    @Test func consentFunnel_whenSomeWereAsked_givesRatesAndNullsForNobody() async throws {
        let rows = try await Self.read(.consentFunnel)

        #expect(
            rows.map { Self.pick($0, "direction", "forecast_consent", "changes", "sent") }
                == [
                    ["increase", "required", "2", "2"], ["increase", "not_required", "5", "4"],
                    ["decrease", "none", "1", "1"],
                ])
        #expect(
            rows.map {
                Self.pick(
                    $0, "asked_for_consent", "consented", "informed", "effective", "declined",
                    "cancelled", "open")
            } == [
                ["2", "1", "0", "1", "1", "0", "0"], ["1", "0", "2", "1", "0", "1", "3"],
                ["0", "0", "0", "1", "0", "0", "0"],
            ])
        #expect(rows.map { $0["consented_basis_points"] } == ["5000", "0", "NULL"])
        #expect(rows.map { $0["cancelled_basis_points"] } == ["0", "2500", "0"])
    }

    @Test func revenueImpact_whenRenewalsWereCharged_countsUpliftOnceAndByCurrency() async throws {
        let rows = try await Self.read(.revenueImpact)

        #expect(
            rows.map { Self.pick($0, "currency", "storefront", "period", "changes") }
                == [
                    ["EUR", "DEU", "P1M", "3"], ["JPY", "JPN", "P1Y", "1"],
                    ["USD", "USA", "P1M", "3"], ["USD", "USA", "P1W", "1"],
                ])
        #expect(
            rows.map {
                Self.pick(
                    $0, "charged_changes", "charged_renewals", "old_total_milliunits",
                    "new_total_milliunits", "uplift_milliunits", "uplift_per_period_milliunits",
                    "uplift_per_month_milliunits")
            } == [
                ["0", "0", "0", "0", "0", "0", "0"], ["0", "0", "0", "0", "0", "0", "0"],
                ["2", "3", "24970", "31970", "7000", "4000", "4000"],
                ["1", "2", "5980", "3980", "-2000", "-1000", "-4333"],
            ])
        #expect(
            rows.map {
                Self.pick(
                    $0, "declined_lost_per_period_milliunits",
                    "cancelled_lost_per_period_milliunits", "dependents_cancelled",
                    "lost_per_period_milliunits", "lost_per_month_milliunits")
            } == [
                ["0", "0", "0", "0", "0"], ["1000000", "0", "1", "1500000", "125000"],
                ["0", "0", "0", "0", "0"], ["0", "0", "0", "0", "0"],
            ])
    }

    @Test func revenueImpact_everyFurtherPeriod_isOfThoseWhoAreSetToRenew() async throws {
        let leaving =
            "UPDATE repricer.price_changes SET is_leaving = true WHERE original_transaction_id = '2';"

        let rows = try await Self.read(.revenueImpact, sql: ReportFixture.everyState + leaving)

        let monthly = try #require(rows.first { $0["currency"] == "USD" && $0["period"] == "P1M" })
        #expect(
            Self.pick(
                monthly, "charged_changes", "uplift_milliunits", "old_per_period_milliunits",
                "uplift_per_period_milliunits") == ["2", "7000", "9990", "3000"])
    }

    /// Who had been told of an increase, and left or lapsed; what else a subscription carried that ended for it; what fell
    /// with a declined item. Not who left before, or on a decrease.
    @Test func revenueImpact_loss_isOfTheIncreaseAndWhole() async throws {
        func ended(_ id: String, _ line: Int, _ state: String, new: Int = 6000, _ more: String)
            -> String
        {
            ReportFixture.Change(
                subscription: id, line: line, old: 5000, new: new,
                consent: new > 5000 ? "required" : "none",
                state: state
            ).sql
                + "UPDATE repricer.price_changes SET ended_at = '2026-03-01Z'\(more) WHERE line = \(line);"
        }
        let asked = ", consent_asked_at = '2026-02-01Z'"
        let sql =
            ReportFixture.batchSQL(ReportFixture.batch, name: "spring", rows: 7)
            + ended("1", 2, "declined", asked)
            + ended("2", 3, "declined", asked + ", reason = 'parent_declined'")
            + ended("3", 4, "cancelled", asked) + ended("4", 5, "cancelled", "")
            + ended("5", 6, "cancelled", new: 4000, asked) + ended("6", 7, "lapsed", asked)
            + ended("7", 8, "declined", asked)
            + ["1", "7"].map { id in
                ["OTHER", "PLAN"].map { sku in
                    """
                    INSERT INTO repricer.charges (original_transaction_id, bucket, transaction_id, sku, purchased_at,
                        expires_at, price_milliunits, currency)
                    VALUES ('\(id)', repricer.bucket_of('\(id)'), 't\(id)', '\(sku)', '2026-02-01Z', '2026-03-01Z', 1990, 'USD');
                    """
                }.joined()
            }.joined()
                + """
                INSERT INTO repricer.subscription_events (original_transaction_id, bucket, signed_at, evidence_id, source, type,
                    subtype, statement)
                VALUES ('1', repricer.bucket_of('1'), '2026-03-01Z', 'e', 'notification', 'EXPIRED', 'PRICE_INCREASE', '{}');
                """

        let rows = try await Self.read(.revenueImpact, sql: sql)
        let funnel = try await Self.read(.consentFunnel, sql: "SELECT 1")

        #expect(
            Self.pick(
                try #require(rows.first), "declined", "declined_lost_per_period_milliunits",
                "cancelled", "cancelled_lost_per_period_milliunits", "lapsed",
                "lapsed_lost_per_period_milliunits", "dependents_cancelled",
                "dependent_lost_per_period_milliunits", "other_items_lost_per_period_milliunits",
                "lost_per_period_milliunits")
                == ["2", "10000", "3", "5000", "1", "5000", "1", "5000", "1990", "26990"])
        #expect(
            funnel.map {
                Self.pick($0, "declined", "cancelled", "lapsed", "fell_with_parent", "open")
            }
                == [["2", "2", "1", "1", "0"], ["0", "1", "0", "0", "0"]])
    }

    @Test func revenueImpact_whenThePriceComesBack_countsEachRenewalOnce() async throws {
        let changes = [(2, 9990, 12990, "03"), (3, 12990, 9990, "04"), (4, 9990, 12990, "05")].map {
            ReportFixture.Change(
                subscription: "1", line: $0.0, old: $0.1, new: $0.2,
                consent: $0.2 > $0.1 ? "not_required" : "none", state: "effective",
                effective: "2026-\($0.3)-01Z")
        }
        let prices = [("03", 12990), ("04", 9990), ("05", 12990), ("06", 12990)]
        let sql =
            ReportFixture.batchSQL(ReportFixture.batch, name: "waves", rows: 3)
            + changes.map(\.sql).joined()
            + prices.map { ReportFixture.charge("1", "2026-\($0.0)-01Z", $0.1) }.joined()

        let rows = try await Self.read(.priceChange, sql: sql)

        #expect(rows.map { $0["charged_renewals"] } == ["1", "1", "2"])
        #expect(rows.map { $0["charged_uplift_milliunits"] } == ["3000", "-3000", "6000"])
    }

    @Test func revenueImpact_whenADependentIsLostByItsOwnChange_isNotCountedTwice() async throws {
        let own = """
            INSERT INTO repricer.price_changes (original_transaction_id, bucket, change_id, batch_id, line,
                sku, direction, currency, storefront, period, current_price_milliunits,
                new_price_milliunits, forecast_consent, forecast_effective_at, send_by,
                due_effective_at, state, state_since, submitted_by)
            SELECT original_transaction_id, bucket, '00000000-0000-7000-8000-0000000000ff', batch_id, 99,
                'EXTRA', direction, currency, storefront, period, 500000, 600000, 'not_required',
                forecast_effective_at, send_by, due_effective_at, 'cancelled', state_since, submitted_by
            FROM repricer.price_changes WHERE original_transaction_id = '3';
            """

        let rows = try await Self.read(.revenueImpact, sql: ReportFixture.everyState + own)

        let yen = try #require(rows.first { $0["currency"] == "JPY" })
        #expect(
            Self.pick(yen, "dependents_cancelled", "lost_per_period_milliunits")
                == ["1", "1500000"])
        #expect(yen["cancelled_lost_per_period_milliunits"] == "0")
    }

    /// The last charge of the dependent bears its former name, and its cancellation the present one.
    @Test func revenueImpact_whenALostDependentWasRenamed_countsItOnce() async throws {
        let renamed = """
            UPDATE repricer.price_changes SET current_dependent_skus = '{EXTRA2}', ended_at = '2026-03-01Z'
            WHERE original_transaction_id = '3';
            UPDATE repricer.dependent_cancellations SET dependent_sku = 'EXTRA2';
            INSERT INTO repricer.charges (original_transaction_id, bucket, transaction_id, sku, purchased_at, expires_at,
                price_milliunits, currency)
            VALUES ('3', repricer.bucket_of('3'), 't', 'EXTRA', '2025-03-01Z', '2026-03-01Z', 500000, 'JPY');
            INSERT INTO repricer.subscription_events (original_transaction_id, bucket, signed_at, evidence_id, source, type,
                subtype, statement)
            VALUES ('3', repricer.bucket_of('3'), '2026-03-01Z', 'e', 'notification', 'EXPIRED', 'PRICE_INCREASE', '{}');
            """

        let rows = try await Self.read(.revenueImpact, sql: ReportFixture.everyState + renamed)

        let yen = try #require(rows.first { $0["currency"] == "JPY" })
        #expect(
            Self.pick(
                yen, "dependent_lost_per_period_milliunits",
                "other_items_lost_per_period_milliunits",
                "lost_per_period_milliunits") == ["500000", "0", "1500000"])
    }

    /// 50,000 a month beside a parent of 1,000,000 a year.
    @Test func revenueImpact_whenACrossSubscriptionDependentHasAnotherPeriod_turnsItIntoItsParents()
        async throws
    {
        let elsewhere = """
            INSERT INTO repricer.subscriptions (original_transaction_id, bucket, period) VALUES ('30', repricer.bucket_of('30'), 'P1M');
            UPDATE repricer.dependent_cancellations SET is_cross_subscription = true, price_milliunits = 50000,
                target_transaction_id = '30';
            """

        let rows = try await Self.read(.revenueImpact, sql: ReportFixture.everyState + elsewhere)

        let yen = try #require(rows.first { $0["currency"] == "JPY" })
        #expect(
            Self.pick(
                yen, "dependent_lost_per_period_milliunits", "lost_per_period_milliunits",
                "lost_per_month_milliunits") == ["600000", "1600000", "133333"])
    }

    @Test(arguments: [
        ("", "P1Y"),
        (
            """
            INSERT INTO repricer.subscriptions (original_transaction_id, bucket, period) VALUES ('30', repricer.bucket_of('30'), 'P1M');
            UPDATE repricer.dependent_cancellations SET is_cross_subscription = true, target_transaction_id = '30';
            """, "P1M"
        ),
    ])
    func dependentCancellation_saysByWhichPeriodItIsPaid(more: String, period: String) async throws
    {
        let rows = try await Self.read(.dependentCancellation, sql: ReportFixture.everyState + more)

        #expect(rows.map { Self.pick($0, "price_milliunits", "period") } == [["500000", period]])
    }

    /// Its customer took the end back within the paid period. What was bought anew is another matter, and what was given
    /// back in full brings nothing. A seat that was added is no such purchase.
    @Test(arguments: [
        ("false, 0", true), ("true, 0", false), ("false, 500000", false),
    ])
    func dependent_thatRenewedSinceItWasProvedGone_isNoLoss(
        charge: String, isReturned: Bool
    ) async throws {
        let elsewhere =
            ReportFixture.everyState + """
                INSERT INTO repricer.subscriptions (original_transaction_id, bucket, period) VALUES ('30', repricer.bucket_of('30'), 'P1Y');
                UPDATE repricer.dependent_cancellations SET is_cross_subscription = true, dependent_sku = '30/EXTRA',
                    target_transaction_id = '30';
                INSERT INTO repricer.charges (original_transaction_id, bucket, transaction_id, sku, purchased_at,
                    price_milliunits, currency, is_purchase, refunded_milliunits)
                VALUES ('30', repricer.bucket_of('30'), 'back', 'EXTRA', '2026-04-01Z', 500000, 'JPY', \(charge));
                INSERT INTO repricer.charges (original_transaction_id, bucket, transaction_id, sku, purchased_at,
                    price_milliunits, currency, is_purchase, is_added_seat)
                VALUES ('30', repricer.bucket_of('30'), 'seat', 'EXTRA', '2026-03-20Z', 500000, 'JPY', true, true);
                """

        let impact = try await Self.read(.revenueImpact, sql: elsewhere)
        let cancellations = try await Self.read(.dependentCancellation, sql: "")
        let checks = try await Self.read(.reconciliation, sql: "")

        let yen = try #require(impact.first { $0["currency"] == "JPY" })
        #expect(
            Self.pick(yen, "dependents_cancelled", "dependent_lost_per_period_milliunits")
                == (isReturned ? ["0", "0"] : ["1", "500000"]))
        #expect(
            cancellations.map { Self.pick($0, "is_proved") } == [[isReturned ? "false" : "true"]])
        let check = try #require(checks.first { $0["check_name"] == "dependents_in_discrepancy" })
        #expect(check["problems"] == (isReturned ? "1" : "0"))
    }

    @Test func pendingConsent_whenDueLater_isNotOverdue() async throws {
        let rows = try await Self.read(.pendingConsent)

        #expect(
            rows.map { Self.pick($0, "original_transaction_id", "consent_due_at", "is_overdue") }
                == [["5", "2026-07-01T00:00:00Z", "false"]])
    }

    @Test func upcomingEffective_whenOpen_listsByDueDate() async throws {
        let rows = try await Self.read(.upcomingEffective)

        #expect(
            rows.map { Self.pick($0, "original_transaction_id", "is_settled", "is_overdue") }
                == [["6", "true", "true"], ["5", "false", "false"], ["7", "false", "false"]])
    }

    @Test func dependentCancellation_whenConfirmed_isProved() async throws {
        let rows = try await Self.read(.dependentCancellation)

        #expect(
            rows.map {
                Self.pick($0, "parent_sku", "dependent_sku", "price_milliunits", "is_proved")
            } == [["PLAN", "EXTRA", "500000", "true"]])
    }

    @Test func forecastAccuracy_whenConsentCame_comparesIt() async throws {
        let rows = try await Self.read(.forecastAccuracy)

        #expect(
            rows.map {
                Self.pick($0, "forecast_consent", "came_consent", "changes", "is_as_forecast")
            }
                == [
                    ["none", "none", "1", "true"], ["not_required", "not_required", "2", "true"],
                    ["not_required", "required", "1", "false"],
                    ["not_required", "NULL", "2", "NULL"], ["required", "required", "2", "true"],
                ])
        #expect(rows.map { $0["effective_as_forecast"] } == ["1", "0", "0", "0", "1"])
    }

    @Test func forecastAccuracy_byReasonSourceAndDay_isAConfusionMatrix() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.script(ReportFixture.everyState)
        try await connection.script(
            """
            UPDATE repricer.price_changes SET forecast_reasons = '{threshold}',
                forecast_threshold_source = 'estimated' WHERE original_transaction_id = '1';
            UPDATE repricer.price_changes SET forecast_threshold_source = 'apple'
                WHERE original_transaction_id = '2';
            """)
        let rows = try await connection.query(
            """
            SELECT concat_ws(' ', forecast_consent, came_consent, consent_outcome,
                array_to_string(forecast_reasons, '+'), forecast_threshold_source,
                effective_earlier, effective_as_forecast, effective_later) AS line, changes
            FROM report.forecast_accuracy
            """)
        let lines = Set(try rows.map { "\(try $0.text("line")): \(try $0.int64("changes"))" })
        let total = try rows.reduce(0) { $0 + (try $1.int64("changes")) }
        let stored = try await connection.query("SELECT count(*) AS n FROM repricer.price_changes")
            .one().int64("n")
        await connection.close()

        #expect(lines.contains("required required as_forecast threshold estimated 0 1 0: 1"))
        #expect(lines.contains("not_required not_required as_forecast  apple 0 0 1: 1"))
        #expect(lines.contains { $0.hasPrefix("not_required required missed") })
        #expect(total == stored)
    }

    @Test func forecastAccuracy_whereTheForecastDidNotSay_isNeitherMissedNorAFalseAlarm()
        async throws
    {
        let connection = try await TestDatabase.connect()
        try await connection.script(ReportFixture.everyState)
        try await connection.script(
            """
            UPDATE repricer.price_changes SET forecast_consent = 'not_known' WHERE direction = 'increase'
            """)
        let lines = try await connection.query(
            """
            SELECT concat_ws(' ', coalesce(came_consent, '-'), consent_outcome, is_as_forecast) AS line
            FROM report.forecast_accuracy WHERE forecast_consent = 'not_known' ORDER BY line
            """
        ).map { try $0.text("line") }
        let funnel = try await connection.query(
            "SELECT forecast_consent, changes FROM report.consent_funnel ORDER BY changes DESC")
        await connection.close()

        #expect(
            lines == ["- not_known", "not_required was_not_known", "required was_not_known"])
        #expect(try funnel.map { try $0.text("forecast_consent") } == ["not_known", "none"])
    }

    @Test(arguments: [("item_missing_at_renewal", "missed"), ("parent_declined", "not_known")])
    func forecastAccuracy_whenTheAskingWasNeverSeen_readsItFromTheDecline(
        reason: String, expected: String
    ) async throws {
        let connection = try await TestDatabase.connect()
        try await connection.script(ReportFixture.everyState)
        _ = try await connection.execute(
            """
            UPDATE repricer.price_changes SET state = 'declined', reason = \(reason),
                forecast_consent = 'not_required', forecast_reasons = '{increase_within_12_months}',
                consent_asked_at = NULL, accepted_at = NULL, acceptance = NULL
            WHERE original_transaction_id = '3'
            """)
        let outcomes = try await connection.query(
            """
            SELECT DISTINCT consent_outcome FROM report.forecast_accuracy
            WHERE forecast_reasons = '{increase_within_12_months}'
            """
        ).map { try $0.text("consent_outcome") }
        await connection.close()

        #expect(outcomes == [expected])
    }

    @Test func reconciliation_whenAppleIsSilent_saysSoAndNothingElse() async throws {
        let rows = try await Self.read(.reconciliation)

        #expect(rows.count == 16)
        #expect(
            rows.filter { $0["is_ok"] == "false" }.map { Self.pick($0, "check_name", "problems") }
                == [["silent_past_renewal", "1"]])
        #expect(
            rows.filter { $0["problems"] != "0" }.map { Self.pick($0, "check_name", "is_ok") }
                == [["charges_refunded", "true"], ["silent_past_renewal", "false"]])
    }

    private static let everyFault = """
        UPDATE repricer.batches SET row_count = 9;
        DELETE FROM repricer.charges WHERE original_transaction_id = '2';
        DELETE FROM repricer.dependent_cancellations;
        INSERT INTO repricer.dependent_cancellations (original_transaction_id, bucket, change_id,
            dependent_sku, parent_sku, batch_id, cause, state, requested_at,
            requested_by_evidence)
        SELECT '3', repricer.bucket_of('3'), change_id, 'OTHER', 'PLAN', batch_id, 'declined', 'discrepancy',
            '2026-03-01Z', 'e1'
        FROM repricer.price_changes WHERE original_transaction_id = '3';
        INSERT INTO repricer.store_calls (bucket, subject, call_id, kind, carries, intent, state,
            lease_owner, lease_until, in_flight_until, prepared_at)
        SELECT repricer.bucket_of('7'), '7', gen_random_uuid(), 'price_change', ARRAY[change_id],
            '{}', 'unknown', gen_random_uuid(), '2026-03-01Z', '2026-03-01Z', '2026-03-01Z'
        FROM repricer.price_changes WHERE original_transaction_id = '7';
        INSERT INTO repricer.subscriptions (original_transaction_id, bucket, items) VALUES ('8', repricer.bucket_of('8'),
            '[{"sku": "PLAN", "renews": true, "increase": {"status": "SCHEDULED", "price": 4990}}]');
        UPDATE repricer.price_changes SET state = 'aborted', request_reference_id = gen_random_uuid()
        WHERE original_transaction_id = '8';
        INSERT INTO repricer.notifications (notification_uuid, received_at, understood,
            signed_payload) VALUES ('n', '2026-05-31Z', false, 'p');
        -- Seats of 1 are given back with an amount, those of 2 without.
        INSERT INTO repricer.notifications (notification_uuid, received_at, signed_at, type, subtype,
            original_transaction_id, understood, signed_payload)
        SELECT 's' || i, '2026-05-31Z', '2026-05-31Z', 'REFUND', 'SEATS', i, true, 'p' FROM unnest('{1, 2}'::text[]) AS i;
        INSERT INTO repricer.money_entries (original_transaction_id, bucket, transaction_id, sku, kind, occurred_at,
            number, correction, amount_milliunits, currency, evidence_id)
        VALUES ('1', repricer.bucket_of('1'), 't', 'PLAN', 'refund', '2026-05-30T20:00Z', 0, 0, -1, 'USD', 's1');
        -- Of what was told after its time was compacted, one refund was told before, and one says nothing of money.
        INSERT INTO repricer.overdue_statements (original_transaction_id, bucket, signed_at, evidence_id, type)
        SELECT '1', repricer.bucket_of('1'), t.at::timestamptz, t.at || t.type, t.type
        FROM (VALUES ('2026-05-30Z', 'REFUND'), ('2025-01-05Z', 'REFUND'), ('2025-01-05Z', 'DID_RENEW'),
            ('2025-01-05Z', 'DID_CHANGE_RENEWAL_STATUS')) AS t (at, type);
        INSERT INTO repricer.inbox (original_transaction_id, bucket, notification_uuid, received_at,
            error) VALUES ('1', repricer.bucket_of('1'), 'm', '2026-05-31T23:59Z', 'why'), ('1', repricer.bucket_of('1'), 'o', '2026-05-01Z', NULL),
            ('1', repricer.bucket_of('1'), 'p', '2026-05-31T23:59Z', NULL);
        -- Amounts that cannot be meant, of 1, of somebody without a change, and of a month that was dropped; and a text.
        INSERT INTO repricer.subscription_events (original_transaction_id, bucket, signed_at, evidence_id, source,
            statement)
        SELECT i, repricer.bucket_of(i), '2026-05-01Z', n, 'status', jsonb_build_object('ignored', jsonb_build_array(n))
        FROM unnest('{1, 99}'::text[]) AS i,
            unnest('{transaction.items.price, renewal.items.price, transaction.storefront}'::text[]) AS n;
        INSERT INTO repricer.kept_statements (original_transaction_id, bucket, signed_at, evidence_id, source, recorded_at,
            left_out)
        SELECT '1', repricer.bucket_of('1'), d, 'k', 'status', d, '["transaction.items.refunds"]' FROM unnest('{2026-05-02Z, 2025-05-01Z}'::timestamptz[]) AS d;
        """

    @Test func reconciliation_whenEverythingIsWrong_countsEachCheck() async throws {
        let rows = try await Self.read(
            .reconciliation, batch: nil, sql: ReportFixture.everyState + Self.everyFault)

        let parts = try await Self.read(.unknownPart, batch: nil, sql: "")
        let leftOut =
            ["2 renewal.items.price", "2 transaction.items.price"]
            + ["2 transaction.items.refunds", "2 transaction.storefront"]
        #expect(
            parts.map { "\($0["notifications"] ?? "") \($0["name"] ?? "")" } == leftOut)
        // What can be wrong with a charge has tests of its own.
        #expect(rows.count == 21)
        #expect(
            rows.filter { !($0["check_name"]?.hasPrefix("charges_") ?? false) }
                .map { Self.pick($0, "batch_name", "check_name", "problems") }
                == [
                    ["spring", "amounts_left_out", "2"],
                    ["spring", "dependents_in_discrepancy", "1"],
                    ["spring", "dependents_not_recorded", "1"],
                    ["spring", "effective_without_charge", "1"],
                    ["spring", "ended_yet_applied", "1"],
                    ["spring", "requests_unknown", "1"], ["spring", "rows_add_up", "1"],
                    ["spring", "silent_past_renewal", "1"], ["NULL", "amounts_left_out", "4"],
                    ["NULL", "inbox_stuck", "2"],
                    ["NULL", "notifications_not_understood", "1"],
                    ["NULL", "overdue_money", "2"],
                    ["NULL", "refunds_without_amount", "1"],
                ])
    }

    /// Once its price is charged it is announced no more; the App Store has it all the same.
    @Test(arguments: [
        (4990, "2026-03-01Z", "1"), (3990, "2026-03-01Z", "0"), (4990, "2020-03-01Z", "0"),
    ])
    func reconciliation_whenARefusedRowIsCharged_namesItAtItsPrice(
        price: Int, at: String, problems: String
    ) async throws {
        let rows = try await Self.read(
            .reconciliation, batch: nil,
            sql: ReportFixture.everyState
                + "UPDATE repricer.price_changes SET state = 'rejected' WHERE original_transaction_id = '8';"
                + ReportFixture.charge("8", at, price))

        #expect(
            rows.filter { $0["check_name"] == "ended_yet_applied" }.map { $0["problems"] }
                == [problems])
    }

    /// A listed refund that does not say how much, or when, is no line of the ledger. The parts are as `UnknownPartTests` has
    /// them; each notification counts once.
    @Test func reconciliation_whenARefundSaysNotHowMuchOrWhen_countsItsNotification() async throws {
        let place = "transaction.advancedCommerceInfo.items.refunds"
        func notification(_ id: String, _ parts: String...) -> String {
            """
            INSERT INTO repricer.notifications (notification_uuid, received_at, signed_at, type, original_transaction_id,
                understood, unknown, signed_payload)
            VALUES ('\(id)', '2026-05-31Z', '2026-05-31Z', 'REFUND', '1', true,
                ARRAY['\(parts.joined(separator: "', '"))'], 'p');
            """
        }
        let sql =
            notification("absent", "shape:\(place).refundAmount:absent", "field:transaction.new")
            + notification("undated", "shape:\(place).refundDate:absent")
            + notification(
                "negative", "value:\(place).refundAmount=-1", "shape:\(place).refundDate:text")
            + notification("reason", "value:\(place).refundReason=GIFT")
            + notification("other", "value:transaction.offerType=7")
                + """
                -- Of refunds that no line of the ledger is near, the first says nothing of an amount.
                INSERT INTO repricer.notifications (notification_uuid, received_at, signed_at, type, original_transaction_id,
                    understood, signed_payload)
                SELECT 'r' || i, '2026-05-01Z', '2026-05-01Z', 'REFUND', '1', true, 'p' FROM generate_series(1, 4) i;
                INSERT INTO repricer.subscription_events (original_transaction_id, bucket, signed_at, evidence_id, source, type,
                    statement)
                SELECT '1', repricer.bucket_of('1'), '2026-05-01Z', t.id, 'notification', 'REFUND', t.statement::jsonb
                FROM (VALUES ('r1', '{"transaction":{"items":[{"sku":"PLAN"}]}}'), ('r2', '{"transaction":{"revokedAt":1}}'),
                    ('r3', '{"transaction":{"items":[{"sku":"A"},{"sku":"PLAN","refunds":[{"at":1}]}]}}'),
                    ('r4', '{"transaction":{"items":[{"sku":"PLAN","revokedAt":1}]}}')) AS t (id, statement);
                """

        let rows = try await Self.read(.reconciliation, batch: nil, sql: sql)
            .filter { $0["check_name"] == "refunds_without_amount" }

        #expect(rows.map { Self.pick($0, "problems", "is_ok") } == [["4", "false"]])
    }

    /// A fifth of 12.990 is tax, and of what was given back; of the third charge it is not signed.
    @Test func upliftWithoutTax_countsWhereItIsSigned_andSaysOfHowManyRenewals() async throws {
        func entry(_ day: String, _ kind: String, _ amount: Int, _ without: String) -> String {
            """
            INSERT INTO repricer.money_entries (original_transaction_id, bucket, transaction_id, sku, kind, occurred_at,
                number, correction, amount_milliunits, tax_exclusive_milliunits, currency, evidence_id)
            VALUES ('1', repricer.bucket_of('1'), '1-\(day)', 'PLAN', '\(kind)', '\(day)', 0, 0, \(amount), \(without), 'USD',
                'e');
            """
        }
        let change = ReportFixture.Change(
            subscription: "1", line: 2, old: 9990, new: 12990, consent: "required",
            state: "effective", effective: "2026-03-01Z")
        let days = ["2026-03-01Z", "2026-04-01Z", "2026-05-01Z"]
        let sql =
            ReportFixture.batchSQL(ReportFixture.batch, name: "spring", rows: 1) + change.sql
            + days.map { ReportFixture.charge("1", $0, 12990) }.joined()
            + entry(days[0], "charge", 12990, "10392")
            + entry(days[1], "charge", 12990, "10392") + entry(days[1], "refund", -6495, "-5196")
            + entry(days[2], "charge", 12990, "NULL")
            + "UPDATE repricer.charges SET refunded_milliunits = 6495 WHERE purchased_at = '2026-04-01Z';"

        let rows = try await Self.read(.revenueImpact, sql: sql)

        // 3000 and half of it with tax, 2400 and half of it without; and 3000 of the third.
        #expect(
            rows.map {
                Self.pick(
                    $0, "charged_renewals", "uplift_milliunits", "charged_renewals_with_tax",
                    "uplift_without_tax_milliunits")
            } == [["3", "7500", "2", "3600"]])
    }

    @Test func notificationHealth_whenSomeWait_countsThemByType() async throws {
        let sql = """
            INSERT INTO repricer.notifications (notification_uuid, received_at, signed_at, type,
                subtype, original_transaction_id, understood, signed_payload)
            VALUES ('a', '2026-05-01Z', '2026-04-01Z', 'DID_RENEW', NULL, '1', true, 'p'),
                ('b', '2026-05-02Z', NULL, 'DID_RENEW', NULL, '1', true, 'p'),
                ('c', '2026-05-03Z', NULL, NULL, NULL, NULL, false, 'p');
            INSERT INTO repricer.inbox (original_transaction_id, bucket, notification_uuid, received_at)
            VALUES ('1', repricer.bucket_of('1'), 'b', '2026-05-02Z');
            """

        let rows = try await Self.read(.notificationHealth, batch: nil, sql: sql)

        #expect(
            rows.map {
                Self.pick(
                    $0, "type", "notifications", "last_received_at", "last_signed_at",
                    "not_understood", "waiting", "stuck")
            } == [
                [
                    "DID_RENEW", "2", "2026-05-02T00:00:00Z", "2026-04-01T00:00:00Z", "0", "1", "0",
                ], ["NULL", "1", "2026-05-03T00:00:00Z", "NULL", "1", "0", "0"],
            ])
    }
}
