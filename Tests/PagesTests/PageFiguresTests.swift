import Foundation
import HTTP
import Postgres
import Reports
import ServiceKit
import TestSupport
import Testing

@testable import Pages

/// Figures of the pages, counted by hand in the fixture. No two that a page shows side by side are equal there, so that
/// one shown in place of another is found.
@Suite(.database) struct PageFiguresTests {
    private static func read<T: Sendable>(
        _ target: String, _ look: @Sendable (PageTables) -> T
    ) async throws -> T {
        try await PagesFixture.fill()
        return try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            look(PageTables(try await PagesHarness.whole(target, ask)))
        }
    }

    @Test func home_showsEachBatchByItsOwnFigures() async throws {
        let (rows, deadlines, notices) = try await Self.read("/") {
            ($0.rows("Batches"), $0.rows("Deadlines this week"), $0.notices)
        }

        let script = PagesFixture.script
        #expect(
            rows.map { $0.prefix(10).joined(separator: " | ") } == [
                "autumn \(script) | awaiting approval | 30 Mar 2026 | 20 | 0 % | 0 % | 0 % | 0 | 0 | 0",
                "halted one | approved, halted | 1 Mar 2026 | 17 | 41 % | 12 % | 12 % | 0 | 0 | 0",
                "spring | approved, under way 12 overdue 4 parked 1 wave waits 2 dependents | 1 Feb 2026 | 60 | 75 % | 42 % | 30 % | 15 | 5 | 11",
                "winter | approved, finished | 1 Nov 2025 | 23 | 100 % | 100 % | 100 % | 12 | 6 | 0",
            ])
        #expect(
            deadlines.map { $0.joined(separator: " | ") } == [
                "1 Apr 2026, 00:00 UTC | spring | new prices take effect | 7",
                "3 Apr 2026, 00:00 UTC | autumn \(script) | calls must leave | 5",
                "3 Apr 2026, 00:00 UTC | spring | customers must have answered | 3",
                "3 Apr 2026, 00:00 UTC | halted one | calls must leave | 3",
                "6 Apr 2026, 00:00 UTC | spring | calls must leave | 2",
            ])
        let told = notices.joined(separator: "\n")
        for part in [
            "To approve: autumn \(script), 20 rows, submitted by ana; the first call must leave by 3 Apr 2026, 00:00 UTC.",
            "Parked: 4 rows of spring wait after a refusal or without an answer, and are tried again: "
                + "4000000 odd \(script) (3), its status could not be read (1).",
            "Overdue: 12 rows of spring are not sent", "Dependents: 2 cancellations of spring",
        ] {
            #expect(told.contains(part), "\(told)")
        }
    }

    @Test(arguments: [PagesFixture.underWay, PagesFixture.finished])
    func home_andBatchPage_showTheSameEffect(_ batch: String) async throws {
        try await PagesFixture.fill()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            let home = PageTables(try await PagesHarness.whole("/", ask))
            let page = PageTables(try await PagesHarness.whole("/batches/\(batch)", ask))
            let name = batch == PagesFixture.finished ? "winter" : "spring"
            let effect = try #require(home["Batches"].first { $0.first == name }?.last)
            let card = try #require(page.cards.first { $0.hasPrefix("Effect a month | ") })

            // One currency of several would be read as the effect of the whole.
            let isTotal = effect.contains(" of 4 currencies")
            #expect(isTotal || effect.hasSuffix(", 3 more"), "\(effect)")
            #expect(
                isTotal || card.contains("those of most changes, and 1 more currency"), "\(card)")
            let value = effect.replacing(#/ *of 4.*|, 3 more.*/#, with: "")
            #expect(isTotal || value.split(separator: " ").count == 2, "\(value)")
            #expect(card.hasPrefix("Effect a month | \(value)"), "\(card) \(effect)")
        }
    }

    /// No command settles one, so what is told for ever would hide the newest.
    @Test func home_ofADependentLeftToAPersonLongAgo_doesNotTellOfIt() async throws {
        try await PagesFixture.fill()
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            UPDATE repricer.dependent_cancellations SET requested_at = '2026-01-30Z' WHERE state = 'discrepancy'
                AND ctid <> (SELECT min(ctid) FROM repricer.dependent_cancellations WHERE state = 'discrepancy');
            """)
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            let home = PageTables(try await PagesHarness.whole("/", ask))
            #expect(
                home.notices.contains { $0.hasPrefix("Dependents: 1 cancellation of spring") })
        }
        try await owner.script(
            "UPDATE repricer.dependent_cancellations SET requested_at = '2026-01-30Z'")
        await owner.close()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            let home = PageTables(try await PagesHarness.whole("/", ask))
            #expect(!home.notices.contains { $0.hasPrefix("Dependents:") })
            #expect(
                home["Batches"].first { $0.first == "spring" }?[1].contains("dependent") == false)
        }
    }

    /// One of the 23 rows ended before its call, and half of them are withdrawn, or all.
    @Test(arguments: [(0, "96 %"), (2, "48 %"), (1, "")])
    func home_ofAnAbortedBatch_showsHowFarItCame_andThatAllIsFinal(_ every: Int, _ bar: String)
        async throws
    {
        try await PagesFixture.fill()
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            UPDATE repricer.price_changes SET state = CASE WHEN line % 5 = 0 THEN 'ineligible' ELSE 'aborted' END
            WHERE batch_id = '\(PagesFixture.finished)' AND \(every) > 0 AND line % nullif(\(every), 0) = 0;
            UPDATE repricer.batches SET state = 'aborted' WHERE batch_id = '\(PagesFixture.finished)'
            """)
        await owner.close()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            let home = PageTables(try await PagesHarness.whole("/", ask))
            let row = try #require(home["Batches"].first { $0.first == "winter" })
            #expect(row[4...5].allSatisfy { $0 == bar }, "\(row)")
            #expect(row[6] == (bar.isEmpty ? "" : "100 %"), "\(row)")
            guard !bar.isEmpty else { return }
            let page = PageTables(
                try await PagesHarness.whole("/batches/\(PagesFixture.finished)", ask))
            #expect(page.cards.prefix(2).allSatisfy { $0.contains("| \(bar) |") }, "\(page.cards)")
            #expect(page.cards.dropFirst(2).first?.contains("| 100 % |") == true, "\(page.cards)")
        }
    }

    /// What the App Store has goes on, and somebody may want to take it back.
    @Test func batch_thatIsAborted_saysWhatGoesOn_andWhatWasNotHeardOf() async throws {
        try await PagesFixture.fill()
        let owner = try await TestDatabase.connect()
        try await owner.script(
            "UPDATE repricer.batches SET state = 'aborted' WHERE batch_id = '\(PagesFixture.underWay)'"
        )
        let open = try await owner.query(
            """
            SELECT count(*) AS rows FROM repricer.price_changes
            WHERE batch_id = \(uuid: PagesFixture.underWay) AND ended_at IS NULL
            """
        ).one().int64("rows")
        await owner.close()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            let page = PageTables(
                try await PagesHarness.whole("/batches/\(PagesFixture.underWay)", ask))
            let aborted = try #require(page.notices.first { $0.hasPrefix("Aborted:") })
            #expect(aborted.contains("\(open) rows had been called before and go on"), "\(aborted)")
            #expect(aborted.contains("repricer undo "))
            #expect(page.notices.contains { $0.hasPrefix("Silence:") }, "\(page.notices)")
        }
    }

    /// Whoever looks a customer up is told that a charge is wrong.
    @Test func subscription_whoseChargeIsWrong_saysWhatIs() async throws {
        try await PagesFixture.fill()
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            INSERT INTO repricer.kept_exceptions (original_transaction_id, bucket, change_id, batch_id, transaction_id, sku,
                exception, occurred_at, amount_milliunits, refunded_milliunits, currency)
            SELECT m.original_transaction_id, m.bucket, c.change_id, c.batch_id, m.transaction_id, m.sku,
                'declined_yet_charged', m.occurred_at, m.amount_milliunits, 0, m.currency
            FROM repricer.money_entries m JOIN repricer.price_changes c USING (original_transaction_id, bucket)
            WHERE m.original_transaction_id = '2000000000000181' AND m.kind = 'charge'
            ORDER BY m.occurred_at DESC LIMIT 1
            """)
        await owner.close()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            let text = try await ask("GET", "/subscriptions/2000000000000181", [:]).text
            let charges = PageTables(text).rows("Charges and refunds, the newest first")
            #expect(
                charges.count { $0.joined(separator: " ").contains("declined yet charged") } == 1,
                "\(charges)")
        }
    }

    /// All of it is final, and none of it is done.
    @Test func batch_ofWhichNothingWasSent_saysSo() async throws {
        try await PagesFixture.fill()
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            UPDATE repricer.price_changes SET state = 'ineligible', reason = 'drifted'
            WHERE batch_id = '\(PagesFixture.finished)'
            """)
        await owner.close()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            let page = PageTables(
                try await PagesHarness.whole("/batches/\(PagesFixture.finished)", ask))
            #expect(page.notices.contains { $0.hasPrefix("Nothing was sent:") }, "\(page.notices)")
        }
    }

    /// Statuses are asked for by the reconciler alone. A page that says so where none runs gives a false comfort.
    @Test(arguments: [
        ("2026-03-31T12:00Z", "; the status is asked for."),
        ("2026-03-30Z", "; nobody has asked for the status since 30 Mar 2026, 00:00 UTC: "),
    ])
    func health_ofSilentChanges_saysWhetherAnybodyAsks(
        _ ranAt: String, _ words: String
    ) async throws {
        try await PagesFixture.fill()
        let owner = try await TestDatabase.connect()
        try await owner.script(
            "INSERT INTO repricer.service_leases (name, last_run_at) VALUES ('reconcile', '\(ranAt)')"
        )
        await owner.close()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            let page = PageTables(try await ask("GET", "/health", [:]).text)
            let notice = try #require(page.notices.first { $0.hasPrefix("Silence:") })
            #expect(notice.contains(words), "\(notice)")
        }
    }

    /// That a payment failed was told. Of three of the nine, one in its billing retry and two in their grace period, something
    /// was heard.
    @Test func health_ofChangesWhosePaymentIsRetried_saysNoSilence() async throws {
        try await PagesFixture.fill()
        let owner = try await TestDatabase.connect()
        let retried = try await owner.execute(
            """
            INSERT INTO repricer.subscriptions AS s (original_transaction_id, bucket, items, status, in_billing_retry)
            SELECT c.original_transaction_id, c.bucket, '[]', CASE number WHEN 1 THEN 3 ELSE 4 END, number = 1
            FROM (
                SELECT original_transaction_id, bucket, row_number() OVER () AS number FROM repricer.price_changes
                WHERE stage IN ('scheduled', 'pending_consent', 'accepted') AND due_effective_at < '2026-03-31Z'
                LIMIT 3) c
            ON CONFLICT (original_transaction_id, bucket) DO UPDATE
                SET status = EXCLUDED.status, in_billing_retry = EXCLUDED.in_billing_retry
            """)
        await owner.close()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            let page = PageTables(try await ask("GET", "/health", [:]).text)
            let notice = try #require(page.notices.first { $0.hasPrefix("Silence:") })
            #expect(notice.hasPrefix("Silence: of \(9 - retried) changes nothing"), "\(notice)")
            #expect(retried > 0)
        }
    }

    /// One is no several.
    @Test func pages_sayOneAsPeopleDo() async throws {
        try await PagesFixture.fill()
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            DELETE FROM repricer.dependent_cancellations WHERE state = 'discrepancy' AND ctid <> (
                SELECT min(ctid) FROM repricer.dependent_cancellations WHERE state = 'discrepancy');
            UPDATE repricer.batches SET rejected_row_count = 1
            """)
        await owner.close()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            let home = PageTables(try await PagesHarness.whole("/", ask))
            let finished = "/batches/\(PagesFixture.finished)"
            let page = PageTables(try await ask("GET", finished, [:]).text)

            let state = home["Batches"].first { $0.first == "spring" }?[1] ?? ""
            #expect(state.hasSuffix(" 1 dependent"), "\(state)")
            #expect(
                page.cards.contains(
                    "Refused in the file | 1 | row that was never stored as a change"),
                "\(page.cards)")
        }
    }

    @Test func batch_showsItsFiguresAtAGlance() async throws {
        let (cards, funnel) = try await Self.read("/batches/\(PagesFixture.underWay)") {
            ($0.cards, $0.rows("Consent funnel"))
        }

        #expect(
            cards.filter { !$0.hasPrefix("Effect") } == [
                "Delivered | 75 % | 45 of 60; the App Store has answered, or no call is needed",
                "Answered | 42 % | 25 of 60; agreed, informed, or ended",
                "Final | 30 % | 18 of 60; nothing more is expected",
                "A call was due by | 24 Feb 2026, 00:00 UTC | it has not left, and goes to a later renewal",
            ])
        #expect(
            funnel.map { "\($0[0]) \($0[2])" } == [
                "In the batch 60 (100 %)", "Sent to the App Store 46 (77 %)",
                "Customer asked to agree 22 (37 %)", "Agreed 6 (10 %)",
                "Informed, need not agree 9 (15 %)", "Charged the new price 8 (13 %)",
                "Did not agree 5 (8 %)", "Left 3 (5 %)", "Lapsed: billing or product 2 (3 %)",
                "Still open 42 (70 %)",
            ])
    }

    @Test func batch_showsWhatStopsItAndHowItEnded() async throws {
        let tables = try await Self.read("/batches/\(PagesFixture.underWay)") { page in
            [
                "Guards", "Waves", "Parked rows", "Rows by state", "Changes that ended otherwise",
                "Dependents of who declined",
            ].map { name in page.rows(name).map { $0.joined(separator: " | ") } }
        }

        #expect(
            tables[0] == [
                "Declined, of the customers who were asked | more than 10% of at least 10 | 5 of 22 (23 %) "
                    + "| 31 Mar 2026, 00:00 UTC"
            ])
        #expect(
            tables[1] == [
                "1 | 10% | 24 | 6 | 2 Feb 2026, 00:00 UTC",
                "2 | rest | 36 | 8 | by hand: repricer release \(PagesFixture.underWay)",
            ])
        #expect(
            tables[2] == [
                "4000000 odd \(PagesFixture.script) | 3 | 2000000000000121",
                "its status could not be read | 1 | 2000000000000124",
            ])
        #expect(
            tables[3].map { $0.split(separator: " | ", omittingEmptySubsequences: false) }
                .map { "\($0[0]) \($0[2])" } == [
                    "queued 14", "unknown 1", "scheduled 9", "pending consent 11", "accepted 7",
                    "effective 8", "declined 5", "cancelled 3", "lapsed 2", "All rows 60",
                ])
        #expect(
            tables[4] == [
                "declined | expired for price increase | 5", "cancelled |  | 3", "lapsed |  | 2",
            ])
        #expect(tables[5] == ["confirmed | 3", "discrepancy | 2"])
    }

    /// Of twelve that took effect, six did on the day of the forecast, one earlier and five later.
    @Test func batch_comparesForecastAndFact() async throws {
        let rows = try await Self.read("/batches/\(PagesFixture.finished)") {
            $0.rows("Forecast against fact")
        }

        #expect(
            rows.map { $0.joined(separator: " | ") } == [
                "Required: the customer must agree | 6 | 2 | 3 | 1 | 2 | 0 | 2 | 40 %",
                "Not known: sent as if required | 11 | 6 | 2 | 3 | 2 | 1 | 3 | –",
                "Not required: the customer is told | 4 | 3 | 1 | 0 | 1 | 0 | 0 | 25 %",
                "Decrease: nobody is asked | 2 | 0 | 2 | 0 | 1 | 0 | 0 | 50 %",
            ])
    }

    @Test(arguments: [
        (PagesFixture.odd(6), "Never sent | 7 rows | rejected: too much for Italy"),
        (PagesFixture.odd(3), "Never sent | 9 rows | nothing of it can be sent any more"),
    ])
    func batch_thatWasNeverSent_isNotSaidToBeDelivered(_ id: String, _ card: String) async throws {
        try await PagesFixture.fillOdd()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            let text = try await PagesHarness.whole("/batches/\(id)", ask)

            #expect(PageTables(text).cards.first == card)
            #expect(!text.contains("Delivered") && !text.contains("Forecast against fact</h2>"))
        }
    }

    @Test func batch_thatIsWithdrawn_asksForNoRelease() async throws {
        try await PagesFixture.fill()
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            UPDATE repricer.batches SET state = 'aborted', waves = waves #- '{0,released_at}'
            WHERE batch_id = '\(PagesFixture.underWay)'
            """)
        await connection.close()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            for target in ["", "/approval"] {
                let address = "/batches/\(PagesFixture.underWay)\(target)"
                let page = PageTables(try await PagesHarness.whole(address, ask))
                let waves = page.rows("Waves")

                #expect(
                    waves.map { $0.last } == [
                        "never, the batch is withdrawn", "never, the batch is withdrawn",
                    ])
            }
        }
    }

    @Test func approval_ofAnUndo_saysThatNobodyIsAsked() async throws {
        try await PagesFixture.fill()
        let owner = try await TestDatabase.connect()
        try await owner.script(
            "UPDATE repricer.batches SET undoes_batch_id = '\(PagesFixture.finished)' WHERE batch_id = '\(PagesFixture.waiting)'"
        )
        await owner.close()

        let page = try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            try await PagesHarness.whole("/batches/\(PagesFixture.waiting)/approval", ask)
        }

        #expect(page.contains("Undo: nobody is asked"))
        #expect(!page.contains("Decrease: nobody is asked"))
    }

    @Test(arguments: [
        (
            "INSERT INTO repricer.first_approvals (batch_id, approver, approved_at, exceeded) VALUES ($1, 'postgres', '2026-03-31Z', '{}')",
            "Approved first by postgres; a second approval is missing."
        ),
        (
            "UPDATE repricer.batches SET undoes_batch_id = '\(PagesFixture.finished)' WHERE batch_id = $1",
            "Takes back: another batch, before its prices are charged."
        ),
        (
            "UPDATE repricer.price_changes SET forecast_effective_at = '2026-03-31Z', forecast_notice_at = NULL WHERE batch_id = $1",
            "Out of date: planned on 30 Mar 2026"
        ),
    ])
    func approval_saysWhatIsSpecialAboutTheBatch(_ change: String, _ notice: String) async throws {
        try await PagesFixture.fill()
        let path = "/batches/\(PagesFixture.waiting)/approval"
        func notices() async throws -> [String] {
            try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
                PageTables(try await PagesHarness.whole(path, ask)).notices
            }
        }

        let before = try await notices()
        let connection = try await TestDatabase.connect()
        try await connection.script(change.replacing("$1", with: "'\(PagesFixture.waiting)'"))
        await connection.close()
        let after = try await notices()

        #expect(!before.contains { $0.hasPrefix(notice) })
        #expect(after.contains { $0.hasPrefix(notice) }, "\(after)")
    }

    @Test func approval_showsWhatWasSubmitted() async throws {
        let path = "/batches/\(PagesFixture.waiting)/approval"
        let (cards, tables, paragraphs, definitions) = try await Self.read(path) { page in
            (
                page.cards,
                [
                    "Money a month by currency", "Forecast of consent", "Why consent is required",
                    "Why it is not known", "New prices take effect", "Rows that were refused",
                ].map { name in page.rows(name).map { $0.joined(separator: " | ") } },
                page.paragraphs, page.definitions
            )
        }

        #expect(
            cards == [
                "Change a month | +14.00 USD | if everybody stays; 8 of 20 rows are in it",
                "At risk a month | 9.99 USD to 39.96 USD | if nobody agrees who must, and who may have to; dependents counted in; 8 of 20 rows are in it",
                "Consent required | 5 | of 20 rows",
                "Consent not known | 9 | rows that may have to agree; sent as if required",
                "First call by | 3 Apr 2026, 00:00 UTC | 0 must leave within a day, 5 within a week",
            ])
        // Six of each ten are in EUR and USD; a row costs 9.99 and shall cost 12.99, or 7.99 in the two decreases.
        #expect(
            tables == [
                [
                    "EUR | 6 | 59.94 EUR | 77.94 EUR | +18.00 EUR | 19.98 EUR | 29.97 EUR",
                    "JPY | 4 | 3,996 JPY | 5,196 JPY | +1,200 JPY | 999 JPY | 1,998 JPY",
                    "MXN | 2 | 1,998 MXN | 2,598 MXN | +600 MXN | 999 MXN | 999 MXN",
                    "USD | 8 | 79.92 USD | 93.92 USD | +14.00 USD | 9.99 USD | 29.97 USD",
                    "part, in USD | 8 | 79.92 USD | 93.92 USD | +14.00 USD | 9.99 USD | 29.97 USD",
                ],
                [
                    "Required: the customer must agree |  | 5 (25 %)",
                    "Not known: sent as if required |  | 9 (45 %)",
                    "Not required: the customer is told |  | 4 (20 %)",
                    "Decrease: nobody is asked |  | 2 (10 %)",
                ],
                [
                    "The storefront always asks | 1",
                    "Over 50 % and over the storefront's threshold | 4",
                ],
                [
                    "Over 50 % and over the storefront's threshold | 3 | JPN USA | repricer rules import",
                    "Another increase within 12 months | 7 | DEU JPN MEX USA "
                        + "| repricer reconcile --since or repricer ingest, back to 12 months",
                ],
                ["May 2026 |  | 18 up, 2 down"],
                [
                    "the item does not renew there (unknown_item) | 6",
                    "no item is called so (bad_sku) | 1",
                ],
            ])
        for part in [
            "20 rows submitted by ana on 30 Mar 2026, 00:00 UTC, 7 refused",
            "That part lacks 12 rows in EUR, JPY, MXN: to convert them, their rates against the euro and that of USD are missing",
            "20 of 20 rows may go at once. The first must go by 3 Apr 2026, 00:00 UTC.",
        ] {
            #expect(paragraphs.contains { $0.contains(part) }, "\(part): \(paragraphs)")
        }
        #expect(
            definitions == [
                "Planned | as of 30 Mar 2026, 00:00 UTC", "Grouping | announced",
                "Halts if | errors>5%", "Held out | nobody", "Plan hash | h1",
                "Batch id | \(PagesFixture.waiting)",
            ])
    }

    @Test func approval_ofOneCurrencyWithoutARate_showsItsOwnSums() async throws {
        try await PagesFixture.fill()
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            DELETE FROM repricer.price_changes WHERE batch_id = '\(PagesFixture.waiting)' AND currency <> 'MXN'
            """)
        await owner.close()

        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            let path = "/batches/\(PagesFixture.waiting)/approval"
            let page = PageTables(try await PagesHarness.whole(path, ask))

            #expect(
                Array(page.cards.prefix(2)) == [
                    "Change a month | +600 MXN | if everybody stays, in MXN",
                    "At risk a month | 999 MXN to 1,998 MXN | if nobody agrees who must, and who may have to; dependents counted in",
                ])
        }
    }

    @Test func subscription_showsOldAndNewPrices() async throws {
        let (items, changes, money, lead) = try await Self.read("/subscriptions/2000000000000181") {
            page in
            let rows = ["Items", "Price changes", "Charges and refunds"].map { name in
                page.rows(name).map { $0.joined(separator: " | ") }
            }
            return (rows[0], rows[1], rows[2], page.paragraphs)
        }

        #expect(items == ["PLAN | 9.99 EUR | 12.99 EUR | yes"])
        #expect(
            changes == [
                "winter | PLAN | 9.99 EUR | 12.99 EUR | effective | Not known: sent as if required "
                    + "| was asked | 27 Nov 2025, 00:00 UTC | 27 Nov 2025, 00:00 UTC  in effect"
            ])
        #expect(
            money == [
                "27 Nov 2025, 00:00 UTC | charge | PLAN | 12.99 EUR |  | e-1",
                "Sum |  |  | 12.99 EUR |  | ",
            ])
        #expect(lead.first == "Active · renews on 10 Apr 2026, 00:00 UTC")
    }

    @Test func health_showsEachQueueByItsOwnFigure() async throws {
        try await PagesFixture.fill()
        try await PagesFixture.fillQueues()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            let page = PageTables(try await ask("GET", "/health", [:]).text)

            #expect(
                page.cards == [
                    "Newest notification | 2 hours ago | 31 Mar 2026, 22:00 UTC",
                    "Notifications to process | 13 | the oldest since 31 Mar 2026, 00:04 UTC",
                    "Calls under way | 8 | the oldest since 28 Mar 2026, 00:00 UTC",
                    "Changes not heard of | 9 | nothing was heard when it was due",
                    "History read | 2 days ago | 30 Mar 2026, 00:00 UTC",
                ])
            #expect(
                page.definitions.prefix(6) == [
                    "Notifications waiting | 13", "Notifications in quarantine | 3",
                    "Notifications not understood | 4: what is unknown",
                    "Status checks waiting | 7",
                    "Webhooks pending | 5, since 31 Mar 2026, 00:00 UTC",
                    "Subscriptions not summed up yet | 12",
                ])
            #expect(
                page.rows("Rates").map { $0.joined(separator: " | ") } == [
                    "change price | 11 | until 1 Apr 2026, 00:05 UTC", "status | 1 | no",
                ])
            #expect(
                page.rows("Calls under way").map { $0.joined(separator: " | ") } == [
                    "cancel | sending | 6 | 28 Mar 2026, 00:00 UTC",
                    "price change | unknown | 2 | 29 Mar 2026, 00:00 UTC",
                ])
            let told = page.notices.joined(separator: "\n")
            for part in [
                "Halted: halted one since", "Halted: storefront MEX of spring since",
                "Quarantine: 3 notifications",
                "Silence: of 9 changes nothing was heard when it was due; nobody has asked for the status so far: ",
                "Silence asked for: the App Store takes no calls of change price until",
            ] {
                #expect(told.contains(part), "\(told)")
            }
            #expect(page.notices.count == 5)
            #expect(
                page.paragraphs.first
                    == "3 things need somebody, and 1 more holds calls back; 1 warning.")
        }
    }
}
