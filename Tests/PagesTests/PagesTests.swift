import Foundation
import HTTP
import Postgres
import Reports
import ServiceKit
import TestSupport
import Testing

@testable import Pages

/// What the pages say, over HTTP, of batches in each state.
@Suite(.database) struct PagesTests {
    static let all =
        [
            "/", "/batches/\(PagesFixture.waiting)", "/batches/\(PagesFixture.underWay)",
            "/batches/\(PagesFixture.finished)", "/batches/\(PagesFixture.halted)",
            "/batches/\(PagesFixture.waiting)/approval",
            "/batches/\(PagesFixture.underWay)/approval",
            "/subscriptions/\(PagesFixture.subscription)", "/subscriptions/2000000000000107",
            "/search", "/search?q=PLAN", "/search?q=%3Cscript%3E", "/reports", "/health",
        ] + ReportName.allCases.map { "/reports/\($0.rawValue)" } + [
            "/reports/price_change?batch=\(PagesFixture.underWay)",
            "/reports/forecast_accuracy?as_of=2026-03-30",
            "/reports/money?batch=\(PagesFixture.finished)&currency=EUR",
        ]

    @Test func pages_ofStoredMarkup_showItAsTextAndRunNothing() async throws {
        try await PagesFixture.fill()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            var shown = 0
            for target in Self.all {
                let page = try await ask("GET", target, [:])

                #expect(page.status == 200, "\(target): \(page.text.suffix(600))")
                #expect(!page.text.contains("<script"), "\(target)")
                #expect(!page.text.contains(" style="), "\(target)")
                #expect(page.text.contains("<html lang=\"en\">"), "\(target)")
                let policy = try #require(page.headers["Content-Security-Policy"])
                #expect(policy.hasPrefix("default-src 'none'; style-src 'sha256-"))
                #expect(!policy.contains("unsafe"))
                #expect(page.headers["X-Content-Type-Options"] == "nosniff")
                #expect(page.headers["Cache-Control"] == "no-store")
                shown += page.text.contains("&lt;script&gt;") ? 1 : 0
            }
            // Names, items and reasons bear it.
            #expect(shown >= 10)
        }
    }

    /// What a page of a report looks like without rows says nothing of its columns.
    @Test func everyReport_ofTheFixture_hasRows() async throws {
        try await PagesFixture.fill()
        try await PagesFixture.fillReports()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            for name in ReportName.allCases {
                let text = try await ask("GET", "/reports/\(name.rawValue)", [:]).text
                #expect(!text.contains("There are no rows"), "\(name)")
            }
        }
    }

    @Test func report_ofManyColumns_saysHowManyAndThatItGoesOnSideways() async throws {
        try await PagesFixture.fill()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            let text = try await ask(
                "GET", "/reports/price_change?batch=\(PagesFixture.underWay)", [:]
            ).text
            let columns = PageTables(text)[ReportName.priceChange.title].first?.count ?? 0
            #expect(columns > 9)
            #expect(text.contains("\(columns) columns: scroll sideways, or save the CSV."))
        }
    }

    @Test func home_saysOfEachBatchHowFarItIsAndWhatNeedsSomebody() async throws {
        try await PagesFixture.fill()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            let text = try await PagesHarness.whole("/", ask)

            #expect(text.contains("<meta http-equiv=\"refresh\" content=\"10\">"))
            #expect(text.contains("4 batches: 2 under way, 1 awaiting approval."))
            // The newest first.
            let names = ["autumn ", "halted one</a></th>", "spring</a></th>", "winter</a></th>"]
            let rows = try #require(text.firstRange(of: "Batches, the newest first"))
            let places = names.map { name in
                text[rows.upperBound...].firstRange(of: name)?.lowerBound
            }
            #expect(places.compactMap(\.self).count == 4)
            #expect(places.compactMap(\.self) == places.compactMap(\.self).sorted())
            #expect(text.contains("<strong>To approve:</strong>"))
            #expect(text.contains("href=\"/batches/\(PagesFixture.waiting)/approval\""))
            #expect(text.contains("<strong>Halted:</strong>"))
            #expect(text.contains("storefront MEX of"))
            #expect(text.contains("<strong>Parked:</strong>"))
            #expect(text.contains("<strong>Overdue:</strong>"))
            #expect(text.contains("2 cancellations of"))
            #expect(text.contains("new prices take effect"))
            #expect(text.contains("customers must have answered"))
            // Of sixty rows fifteen have no answer of the App Store, twenty more none of the customer; eighteen are final.
            for part in ["75 %", "42 %", "30 %"] { #expect(text.contains("<span>\(part)</span>")) }

            let still = try await ask("GET", "/?refresh=off", [:])
            #expect(!still.text.contains("http-equiv=\"refresh\""))
        }
    }

    @Test func home_ofAnInstallationAtRest_loadsAgain_soThatTheNextBatchAppears() async throws {
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            let empty = try await PagesHarness.whole("/", ask)
            #expect(empty.contains("No batch was submitted yet"))
            #expect(empty.contains("http-equiv=\"refresh\" content=\"10\""))
        }
    }

    /// A person must decide, and the list of batches does not show it.
    @Test func home_namesTheExtensionThatWaitsForApproval() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            INSERT INTO repricer.mass_extensions (extension_id, product_id, storefronts, extend_by_days, reason_code, note,
                submitted_by, submitted_at, eligible_count)
            VALUES ('019a0000-0000-7000-8000-000000000001', 'generic <x>', '{CHE,JPN}', 7, 3, 'outage <y>', 'ana',
                '2026-03-01Z', 1)
            """)
        await connection.close()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            let text = try await PagesHarness.whole("/", ask)
            #expect(
                text.contains(
                    "the extension of 1 subscription of generic &lt;x&gt; in CHE, JPN by 7 days, requested by ana (outage &lt;y&gt;)"
                ))
            #expect(text.contains("repricer approve 019a0000-0000-7000-8000-000000000001"))
        }
    }

    /// What halted it, and the person who paused it since.
    @Test func home_ofAHaltedBatchThatAPersonPaused_namesBoth() async throws {
        try await PagesFixture.fill()
        let connection = try await TestDatabase.connect()
        try await connection.script(
            "SELECT repricer.set_pause('\(PagesFixture.halted)', '2026-03-30Z', true, 'ask legal')")
        await connection.close()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            let text = try await PagesHarness.whole("/", ask)
            #expect(text.contains(#/refused with &lt;script&gt;.*; also paused since/#))
            #expect(text.contains(": ask legal."))
        }
    }

    @Test func home_whileTheFirstCountTakesLong_listsTheBatchesAndLoadsAgain() async throws {
        try await PagesFixture.fill()
        let other = try await TestDatabase.connect()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            try await other.script(
                "BEGIN; LOCK TABLE repricer.figure_tallies IN ACCESS EXCLUSIVE MODE")
            let early = try await ask("GET", "/", [:])
            try await other.script("ROLLBACK")
            let late = try await PagesHarness.whole("/", ask)

            #expect(early.status == 200)
            #expect(early.text.contains("Their rows are being counted"))
            #expect(early.text.contains(">spring</a>"))
            #expect(early.text.contains("http-equiv=\"refresh\" content=\"3\""))
            #expect(!late.contains("are being counted"))
        }
        await other.close()
    }

    /// The figures are kept for a while. A batch that came since was not counted, and is not final.
    @Test func home_ofABatchYoungerThanItsFigures_claimsNothingOfIt() async throws {
        try await PagesFixture.fill()
        let other = try await TestDatabase.connect()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            let before = try await PagesHarness.whole("/", ask)
            #expect(!before.contains(">young</a>"))
            try await other.script(
                """
                INSERT INTO repricer.batches (batch_id, name, state, content_sha256, plan_hash, planned_as_of, row_count,
                    submitted_by, submitted_at)
                VALUES ('\(PagesFixture.batch(9))', 'young', 'awaiting_approval', 'c9', 'h9', '2026-03-31Z', 4321,
                    'ana', '2026-03-31Z');
                """)
            try await other.script(
                "BEGIN; LOCK TABLE repricer.figure_tallies IN ACCESS EXCLUSIVE MODE")
            let early = try await ask("GET", "/", [:]).text
            try await other.script("ROLLBACK")

            let row = try #require(
                early.split(separator: "<tr").dropFirst().first {
                    $0.contains(">young</a>") && $0.contains("4,321")
                })
            #expect(!row.contains("%"))
            #expect(row.contains("…"))
            #expect(early.contains("http-equiv=\"refresh\" content=\"3\""))
        }
        await other.close()
    }

    @Test func batch_tellsItsStoryBeforeItsTables() async throws {
        try await PagesFixture.fill()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            let text = try await PagesHarness.whole("/batches/\(PagesFixture.underWay)", ask)

            #expect(text.contains("<h1>spring</h1>"))
            let order = [
                "Halted:", "Parked:", "Delivered", "From the batch to the charge",
                "Changes in effect, summed up day by day", "Money by currency",
                "Guards: what halts", "Waves", "Parked rows by reason", "Forecast against fact",
                "Rows by state", "Reports of this batch",
            ].map { text.firstRange(of: $0)?.lowerBound }
            #expect(order.allSatisfy { $0 != nil })
            #expect(order.compactMap(\.self) == order.compactMap(\.self).sorted())
            #expect(text.contains("Agreed") == false || text.contains("Informed, need not agree"))
            #expect(
                text.contains("by hand: <code>repricer release \(PagesFixture.underWay)</code>"))
            #expect(text.contains("EUR</td>") && text.contains("JPY</td>"))
            #expect(text.contains("4000000 odd &lt;script&gt;"))
            let address = "/batches/\(PagesFixture.finished.uppercased())"
            _ = try await PagesHarness.whole(address, ask)
            let other = try await ask("GET", address, [:])
            #expect(other.status == 200)
            #expect(!other.text.contains("http-equiv=\"refresh\""))
        }
    }

    @Test func approval_saysWhatASecondPersonWantsToKnowAndWhatToType() async throws {
        try await PagesFixture.fill()
        try await TestDatabase.shipDefaultLimits()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            let path = "/batches/\(PagesFixture.waiting)/approval"
            let text = try await ask("GET", path, [:]).text

            // Somebody else may decide meanwhile.
            #expect(text.contains("http-equiv=\"refresh\" content=\"60\""))
            #expect(text.contains("<h1>To approve: autumn &lt;script&gt;"))
            #expect(
                text.contains("<pre><code>repricer approve \(PagesFixture.waiting)</code></pre>"))
            #expect(text.contains("Any member of repricer_pricing other than ana"))
            #expect(text.contains("+30.04 %") && text.contains("-20.03 %"))
            #expect(text.contains("bad_sku"))
            #expect(text.contains("Another increase within 12 months"))
            #expect(text.contains("Why it is not known"))
            #expect(text.contains("9.99 EUR") && text.contains("12.99 EUR"))

            let decided = try await PagesHarness.whole(
                "/batches/\(PagesFixture.finished)/approval", ask)
            #expect(decided.contains("Nothing is left to decide here."))
            #expect(!decided.contains("repricer approve"))
        }
    }

    /// A sum in another currency says by which rate, whose, and of which day.
    @Test func approval_ofMoneyInAnotherCurrency_showsRateAndDate() async throws {
        try await PagesFixture.fill()
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            INSERT INTO repricer.exchange_rates (currency, valid_from, revision, imported_by, recorded_at,
                billionths_per_euro, source)
            SELECT 'USD', '2020-01-02Z', revision, imported_by, imported_at, 1250000000, 'ecb'
            FROM (SELECT * FROM repricer.rule_imports ORDER BY revision DESC LIMIT 1) i
            """)
        await connection.close()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            let path = "/batches/\(PagesFixture.waiting)/approval?currency=USD"
            let text = try await ask("GET", path, [:]).text

            #expect(text.contains("1 USD = 0.8 EUR (ecb, of 2020-01-02)."))
        }
    }

    @Test func approval_whenTheServiceReadsIt_needsNoOtherRight() async throws {
        try await PagesFixture.fill()
        let service = try await TestDatabase.login("d", memberOf: ["repricer_service"])
        try await PagesHarness.withPages(conninfo: service) { ask, _ in
            for target in Self.all {
                let page = try await ask("GET", target, [:])
                #expect(page.status == 200, "\(target): \(page.text.suffix(600))")
            }
        }
    }

    @Test func subscription_showsForecastFactMoneyAndEvidence() async throws {
        try await PagesFixture.fill()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            let text = try await ask("GET", "/subscriptions/2000000000000181", [:]).text

            #expect(text.contains("<h1>Subscription 2000000000000181</h1>"))
            #expect(text.contains("Active · renews on"))
            #expect(text.contains(">9.99 EUR</") && text.contains(">12.99 EUR</"))
            #expect(text.contains("<td>charge</td>") || text.contains(">charge<"))
            #expect(text.contains("<code class=\"long\">e-2</code>"))
            #expect(text.contains("9.99 → 12.99 EUR"))
            #expect(!text.contains("milliunits"))
        }
    }

    @Test func search_findsByIdCustomerItemAndBatch() async throws {
        try await PagesFixture.fill()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            let id = try await ask("GET", "/search?q=%20\(PagesFixture.subscription)%20", [:])
            #expect(id.status == 303)
            #expect(id.headers["Location"] == "/subscriptions/\(PagesFixture.subscription)")

            let customer = try await ask("GET", "/search?q=\(PagesFixture.token)", [:]).text
            #expect(customer.contains("Subscriptions of this customer"))
            #expect(customer.contains("2000000000000101") && customer.contains("2000000000000102"))
            let item = try await ask("GET", "/search?q=PLAN", [:]).text
            #expect(item.contains("Subscriptions with this item"))
            let batch = try await ask("GET", "/search?q=WINTER", [:]).text
            #expect(batch.contains("href=\"/batches/\(PagesFixture.finished)\""))
            let short = try await ask(
                "GET", "/search?q=\(PagesFixture.finished.prefix(8).uppercased())", [:]
            ).text
            #expect(short.contains("href=\"/batches/\(PagesFixture.finished)\""))
            // No index finds an item, so it is searched beside a batch only when asked for, and never for a name with a space.
            #expect(batch.contains("They were not looked for"))
            let asked = try await ask("GET", "/search?q=WINTER&items=yes", [:]).text
            #expect(!asked.contains("They were not looked for"))
            #expect(asked.contains("href=\"/batches/\(PagesFixture.finished)\""))
            let named = try await ask("GET", "/search?q=halted%20one", [:]).text
            #expect(
                named.contains(">halted one</a>") && !named.contains("They were not looked for"))
            let nothing = try await ask("GET", "/search?q=%22%3E%3Cscript%3E%25%27", [:])
            #expect(nothing.status == 200)
            #expect(nothing.text.contains("Nothing was found."))
            #expect(nothing.text.contains("value=\"&quot;&gt;&lt;script&gt;%&#39;\""))
        }
    }

    @Test(arguments: [
        ("/batches/00000000-0000-7000-8000-0000000000ff", 404, "There is no such batch"),
        ("/batches/00000000-0000-7000-8000-0000000000ff/approval", 404, "There is no such batch"),
        ("/batches/%27%3B", 404, "There is no such batch"),
        ("/batches/spring", 404, "There is no such batch"),
        ("/subscriptions/999", 404, "This subscription is not known"),
        ("/subscriptions/%00", 404, "This subscription is not known"),
        ("/subscriptions/" + String(repeating: "9", count: 300), 404, "is not known"),
        ("/search?q=" + String(repeating: "x", count: 129), 400, "too long"),
        ("/search?q=a%00b", 400, "cannot be searched for"),
        ("/reports/nothing", 404, "There is no such report"),
        ("/reports/money?batch=spring", 404, "There is no such batch"),
        ("/reports/money?batch=00000000-0000-7000-8000-0000000000ff", 404, "no such batch"),
        ("/reports/money?as_of=yesterday", 400, "This is no instant"),
        ("/reports/money?as_of=2999-01-01", 400, "cannot be asked about"),
        ("/reports/money?currency=euro", 400, "This is no currency"),
        ("/reports/money?colour=red", 400, "There is no such filter"),
        ("/reports/money?format=xml", 400, "There is no such format"),
        ("/reports/unknown_part?batch=\(PagesFixture.finished)", 400, "has no batches"),
        ("/reports/notification_health?as_of=2026-01-01", 400, "cannot look back"),
        ("/reports/holdout?currency=EUR", 400, "has no currency"),
        ("/reports/money?reporting_currency=EUR", 400, "has no reporting currency"),
        ("/batches/\(PagesFixture.waiting)/approval?currency=euros", 400, "This is no currency"),
    ])
    func page_askedWrongly_saysWhatIsWrongAndWhatToDo(
        _ target: String, _ status: Int, _ words: String
    ) async throws {
        try await PagesFixture.fill()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            let answer = try await ask("GET", target, [:])

            #expect(answer.status == status)
            #expect(answer.text.contains(words), "\(answer.text.suffix(900))")
            #expect(answer.text.contains("<main id=\"content\""))
            #expect(answer.headers["Content-Security-Policy"] != nil)
        }
    }

    @Test func report_isFilteredAndSavedAsCSV() async throws {
        try await PagesFixture.fill()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            let base = "/reports/price_change?batch=\(PagesFixture.underWay)"
            let page = try await ask("GET", base + "&currency=EUR&storefront=&as_of=", [:]).text
            #expect(page.contains("value=\"\(PagesFixture.underWay)\" selected"))
            #expect(page.contains("&amp;currency=EUR&amp;format=csv"))
            #expect(page.contains("12.99 EUR") && !page.contains("12.99 USD"))

            let csv = try await ask("GET", base + "&currency=EUR&format=csv", [:])
            #expect(csv.headers["Content-Type"]?.hasPrefix("text/csv") == true)
            #expect(
                csv.headers["Content-Disposition"] == "attachment; filename=\"price_change.csv\"")
            let lines = csv.text.split(separator: "\r\n")
            #expect(lines.first?.hasPrefix("batch_id,batch_name,line") == true)
            #expect(lines.count == 19)
            #expect(lines.dropFirst().allSatisfy { $0.contains(",EUR,") })

            let past = try await ask("GET", "/reports/batch_summary?as_of=2026-02-15", [:]).text
            #expect(past.contains("As it was known at"))
            #expect(past.contains("winter") && !past.contains("halted one</a>"))
        }
    }
}
