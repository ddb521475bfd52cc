import Foundation
import Postgres
import TestSupport
import Testing

@testable import RepricerCommands

/// What an analyst reads of a plan, and an approver of a batch.
@Suite(.database) struct SummaryCommandTests {
    private static let header =
        "original_transaction_id,sku,price,currency,dependent_skus,effective_on_or_after\n"
    /// Up, up with dependents, down a lot, up from 10.99 to next to nothing, in euros, two years ahead.
    private static let rows = """
        1000000000000001,PLAN,12.99,USD,,
        1000000000000002,PLAN,29.99,USD,ADD;1000000000000006/PLAN,
        1000000000000003,PLAN,3.32,USD,,
        1000000000000004,PLAN,31.00,USD,,
        1000000000000005,PLAN,10.99,EUR,,
        1000000000000007,PLAN,10.99,USD,,2028-03-01

        """

    private let ana: [String: String]
    private let ben: [String: String]
    private let scratch: ScratchFolder

    init() async throws {
        let team = try await PricingTeam(
            subscriptions: """
                SELECT '100000000000000' || i, repricer.bucket_of('100000000000000' || i), 1, true,
                    CASE WHEN i IN (5, 6) THEN 'DEU' ELSE 'USA' END, CASE WHEN i IN (5, 6) THEN 'EUR' ELSE 'USD' END,
                    'P1M', 'generic', '2024-06-01Z', 'customer', '2024-06-01Z', '2026-01-01Z', '2026-02-01Z', '2026-02-01Z',
                    '[{"sku":"PLAN","currentPrice":9990,"renewalPrice":9990,"renews":true},
                      {"sku":"ADD","currentPrice":1990,"renewalPrice":1990,"renews":true}]',
                    '2026-01-01Z', '2026-01-01Z', 'n-1', '2024-06-01Z'
                FROM generate_series(1, 7) AS i
                """)
        try await TestDatabase.shipDefaultLimits()
        (ana, ben, scratch) = (team.ana, team.ben, team.scratch)
    }

    private func file(_ rows: String = Self.rows, _ name: String = "batch.csv") throws -> String {
        try scratch.file(name, Self.header + rows)
    }

    private func rates() async throws {
        let path = try scratch.file(
            "rates.csv",
            """
            rule,currency,per_euro,valid_from
            exchange_rate,USD,1.25,2026-01-02

            """)
        let outcome = await run("rules", "import", path, environment: ana)
        #expect(outcome.code == .done, "\(outcome.messages)")
    }

    private func submit() async throws -> String {
        let outcome = await run("submit", try file(), "--name", "spring", environment: ana)
        #expect(outcome.code == .done, "\(outcome.messages)")
        return String(outcome.output.dropLast())
    }

    private func object(_ text: String) throws -> [String: Any] {
        try #require(JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
    }

    @Test func plan_inText_answersInOrder_onOneScreen() async throws {
        let outcome = await run("plan", try file(), environment: ana)

        let lines = outcome.output.split(separator: "\n", omittingEmptySubsequences: false)
        #expect(outcome.code == .done, "\(outcome.messages)")
        #expect(lines.allSatisfy { $0.count <= 80 || $0.hasPrefix("file") }, "\(outcome.output)")
        #expect((20...40).contains(lines.count), "\(lines.count) lines")
        let begins = [
            "can go  yes: all of 6 rows", "CONSENT", "required", "A MONTH", "EUR", "USD",
            "part, in USD",
            "That part lacks 1 row in EUR: to convert it, the rate of USD against the euro",
            "EFFECTIVE, WEEK OF",
            "late: 3 rows", " LARGEST", "+210.32 %",
            "-66.77 %",
            "warning: more than 3 times", "warning: less than a third",
            "warning: effective in more than two years",
            "plan hash",
        ]
        let places = begins.map { begin in
            lines.firstIndex { $0.hasPrefix(begin) || $0.hasPrefix(" " + begin) } ?? -1
        }
        #expect(places == places.sorted() && !places.contains(-1), "\(places) \(outcome.output)")
        #expect(outcome.output.contains("less than a third of today's price: 1 row, line 4\n"))
        #expect(outcome.output.contains("more than 3 times today's price: 2 rows, lines 3, 5\n"))
        #expect(outcome.output.contains("more than two years: 1 row, line 7\n"))
        #expect(!outcome.output.contains("STOREFRONT"))
    }

    /// On a terminal the summary leaves room for what is typed next. On a small one it says less; nothing is cut off.
    @Test(arguments: [20, 24, 30, 35, 60])
    func plan_onATerminal_fitsItsScreen(_ rows: Int) async throws {
        let mixed = try file(
            Self.rows + """
                1000000000000001,ADD,2.49,USD,,2026-03-01
                1000000000000006,PLAN,12.99,EUR,,2026-04-01
                1000000000000003,NONE,2.49,USD,,
                1000000000000004,ADD,2.499,USD,,

                """)
        let elsewhere = await run("plan", mixed, environment: ana)

        let outcome = await run("plan", mixed, "--no-pager", environment: ana) {
            $0.isOutputTerminal = true
            $0.terminalSize = { (80, rows) }
            $0.environment["NO_COLOR"] = "1"
        }

        let lines = outcome.output.split(separator: "\n", omittingEmptySubsequences: false)
            .dropLast()
        #expect(lines.allSatisfy { $0.count <= 80 }, "\(outcome.output)")
        if rows == 20 {
            // Nothing fits so small a screen, and the pager gets all of it.
            #expect(lines.count > rows, "\(outcome.output)")
        } else {
            let below = rows == 24 ? 1 : 2
            #expect(lines.count <= rows - below, "\(lines.count) lines\n\(outcome.output)")
        }
        let isLow = (24...35).contains(rows)
        let begins = [
            "can go  not all: 8 of 10 rows, 2 refused (below)", "CONSENT", "required",
            "not required",
            "A MONTH", "EUR", "USD", "part, in USD",
            isLow
                ? "That part lacks 2 rows; rates to import: USD" : "That part lacks 2 rows in EUR",
            rows == 24 ? "effective, week of: 2026-01-26 5, " : "EFFECTIVE", "late: ", " LARGEST",
            "+210.32 %", "-66.77 %",
            "warning",
            isLow
                ? "refused: 1 more decimals than the currency has, 1 the item does not renew there"
                : "REFUSED         ROWS  WHY", "plan hash",
        ]
        let places = begins.map { begin in
            lines.firstIndex { $0.hasPrefix(begin) || $0.hasPrefix(" " + begin) } ?? -1
        }
        #expect(
            places == places.sorted() && !places.contains(-1), "\(places)\n\(outcome.output)")
        if rows == 60 {
            #expect(outcome.output.replacing("█", with: "#") == elsewhere.output)
        }
    }

    /// What a program reads of standard output is one thing.
    @Test func rowsOnStandardOutput_standAlone_andTheSummaryIsBesideThem() async throws {
        let batch = try file("1000000000000001,PLAN,12.99,USD,,\n1000000000000001,ADD,2.99,USD,,\n")
        let wrong = try file("1000000000000001,PLAN,0,USD,,\n", "wrong.csv")

        let json = await run("plan", batch, "--rows", "-", "--json", environment: ana)
        let text = await run("plan", batch, "--rows", "-", environment: ana)
        let rejects = await run("plan", wrong, "--rejects", "-", "--json", environment: ana)

        #expect(json.output == text.output)
        let lines = json.output.split(separator: "\n")
        #expect(try lines.map { try object(String($0))["line"] as? Int } == [2, 3])
        #expect(try object(json.messages)["rows"] as? Int == 2)
        #expect(text.messages.hasPrefix("file"))
        #expect(rejects.output.hasPrefix("original_transaction_id,"))
        #expect(!rejects.output.contains("{"))
        let summary = try #require(rejects.messages.split(separator: "\n").last)
        #expect(try object(String(summary))["refused"] as? Int == 1)
    }

    /// A price beyond any is a typing error.
    @Test func price_beyondAny_isRefusedWithItsText() async throws {
        let batch = try file(
            """
            1000000000000001,PLAN,1000000000000.01,USD,,
            1000000000000002,PLAN,9000000000000000.00,USD,,

            """)

        let text = await run("plan", batch, "--rejects", "-", environment: ana)
        let submitted = await run("submit", batch, "--name", "absurd", environment: ana)

        #expect(text.code == .inputRejected && submitted.code == .inputRejected)
        for price in ["1000000000000.01", "9000000000000000.00"] {
            #expect(
                text.output.contains("\(price)") && text.output.contains("is too large"),
                "\(text.output)")
        }
    }

    /// The highest price of many rows sums to more than a number of 64 bits, and must not look like a sum.
    @Test func sums_beyondAnyNumber_areSaidToBeSo() async throws {
        let count = 9_300
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            CREATE TEMPORARY TABLE many AS SELECT * FROM repricer.subscriptions
                WHERE original_transaction_id = '1000000000000001';
            INSERT INTO repricer.subscriptions SELECT (jsonb_populate_record(s, jsonb_build_object(
                    'original_transaction_id', id, 'bucket', repricer.bucket_of(id)))).*
                FROM many s, (SELECT '2' || lpad(i::text, 15, '0') AS id FROM generate_series(1, \(count)) i) ids
            """)
        await connection.close()
        let rows = (1...count).map { number in
            "2\(String(repeating: "0", count: 15 - "\(number)".count))\(number),PLAN,1000000000000.00,USD,,"
        }
        let batch = try file(rows.joined(separator: "\n") + "\n")
        let text = await run("plan", batch, environment: ana)
        let json = await run("plan", batch, "--json", environment: ana)
        let submitted = await run("submit", batch, "--name", "absurd", environment: ana)
        let shown = await run("show", "absurd", environment: ana)
        let shownJSON = await run("show", "absurd", "--json", environment: ana)

        #expect(submitted.code == .done, "\(submitted.messages)")
        for outcome in [text, shown] {
            #expect(outcome.output.contains("too large"))
            #expect(
                outcome.output.contains(
                    "too large: a sum of more than 9,223,372,036,854,775, which is not shown"))
        }
        for outcome in [json, shownJSON] {
            let money = try #require(try object(outcome.output)["money_a_month"] as? [String: Any])
            let sum = try #require(money["in_reporting_currency"] as? [String: Any])
            #expect(sum["then_per_month_milliunits"] is NSNull)
            #expect(sum["now_per_month_milliunits"] as? Int == count * 9990)
            #expect(sum["too_large"] as? Bool == true)
            #expect(outcome.output.contains(#""then_per_period_milliunits":null"#))
        }
    }

    /// A million rows bring sums that no screen is wide enough for.
    @Test func sums_widerThanAScreen_areShownInWholeUnits() async throws {
        try await rates()
        let price = "9999999999.99"
        let rows = (1...5).map { "100000000000000\($0),PLAN,\(price),\($0 == 5 ? "EUR" : "USD"),," }
        let outcome = await run("plan", try file(rows.joined(separator: "\n")), environment: ana)

        let lines = outcome.output.split(separator: "\n")
        #expect(lines.allSatisfy { $0.count <= 80 || $0.hasPrefix("file") }, "\(outcome.output)")
        let dollars = try #require(lines.first { $0.hasPrefix("USD") })
        #expect(
            dollars.split(separator: " ").map(String.init)[..<5]
                == ["USD", "4", "40", "40,000,000,000", "+39,999,999,960"])
        #expect(lines.contains { $0.hasPrefix("all, in USD") })
        #expect(lines.contains("large sums in whole units: --details has them in full"))
    }

    /// Ordinary prices of one currency are a hundred thousand times those of another.
    @Test func sumsOfALargeCurrency_takeNoDigitFromAnother() async throws {
        let rows = (1...5).map {
            "100000000000000\($0),PLAN,\($0 == 5 ? "10.99" : "99999999999.99"),"
                + "\($0 == 5 ? "EUR" : "USD"),,"
        }
        let outcome = await run("plan", try file(rows.joined(separator: "\n")), environment: ana)

        let lines = outcome.output.split(separator: "\n").map(String.init)
        #expect(lines.allSatisfy { $0.count <= 80 || $0.hasPrefix("file") }, "\(outcome.output)")
        let euros = try #require(lines.first { $0.hasPrefix("EUR") })
        #expect(
            euros.split(separator: " ").map(String.init)[..<5]
                == ["EUR", "1", "9.99", "10.99", "+1.00"])
        #expect(lines.contains { $0.hasPrefix("USD ") && $0.contains("400,000,000,000") })
    }

    @Test func plan_withDetails_endsWithEveryList() async throws {
        let outcome = await run("plan", try file(), "--details", environment: ana)

        for heading in ["CURRENCY  STOREFRONT  PERIOD", "EFFECTIVE IN THE WEEK OF", "send by"] {
            #expect(outcome.output.contains(heading))
        }
    }

    @Test func plan_withARate_sumsInOneCurrency_rateAndDateBesideIt() async throws {
        try await rates()

        let text = await run("plan", try file(), environment: ana)
        let euros = await run(
            "plan", try file(), "--reporting-currency", "EUR", "--json", environment: ana)
        let wrong = await run(
            "plan", try file(), "--reporting-currency", "euro", environment: ana)

        #expect(text.output.contains("1 USD = 0.8 EUR (import, of 2026-01-02)\n"), "\(text.output)")
        // Five plans of 9.99 USD are 39.96 EUR, and one more of 9.99 EUR.
        #expect(
            euros.output.contains(
                #""in_reporting_currency":{"currency":"EUR","rows":6,"now_per_month_milliunits":49950,"#
            ))
        #expect(wrong.code == .usage)
    }

    @Test func show_ofTheStoredPlan_saysWhatThePlanSaid() async throws {
        let planned = try object(await run("plan", try file(), "--json", environment: ana).output)
        let id = try await submit()
        let shown = await run("show", "spring", "--json", environment: ben)
        let text = await run("show", id, environment: ben)

        let stored = try object(shown.output)
        for key in [
            "direction", "consent", "reasons", "not_known", "money_a_month", "money", "weeks",
            "months",
            "largest_increases", "largest_decreases", "first_send_by",
            "last_effective_at",
            "plan_hash", "grouping",
        ] {
            #expect(planned[key] as? NSObject == stored[key] as? NSObject, "\(key)")
        }
        // The plan names lines of late rows, too.
        let warnings = try #require(planned["warnings"] as? [Any])
        #expect((stored["warnings"] as? [Any])?.count == warnings.count)
        #expect(
            shown.output.contains(#"{"warning":"less_than_a_third","rows":1,"first_lines":[4]}"#))
        #expect(shown.output.contains(#""at_risk_per_month_milliunits":21970"#), "\(shown.output)")
        #expect(text.output.split(separator: "\n").allSatisfy { $0.count <= 80 }, "\(text.output)")
        #expect(text.output.contains("halts if: errors>5%"))
        #expect(
            text.output.contains("due: 6 of 6 rows") || text.output.contains("due: 5 of 6 rows"))
        #expect(text.output.contains("approval: by two members of repricer_pricing, not ana"))
    }

    @Test func status_beforeTheDecision_saysByWhenAndWhoApprovedFirst() async throws {
        let id = try await submit()
        let sendBy = try #require(
            object(await run("show", id, "--json", environment: ben).output)["first_send_by"]
                as? String)
        let before = await run("status", id, environment: ana)
        let first = await run("approve", id, "--yes", environment: ben)
        let after = await run("status", id, environment: ana)

        #expect(before.output.contains("next send by         \(sendBy)"), "\(before.output)")
        #expect(!before.output.contains("approved first"))
        #expect(first.code == .approvalNeededOrRefused, "\(first.messages)")
        let said = /approved first +by ben\S*; somebody else must approve, too/
        #expect(after.output.contains(said), "\(after.output)")
    }

    @Test func plan_whileNotificationsWait_saysWhatItLacks() async throws {
        let complete = await run("plan", try file(), environment: ana)
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            INSERT INTO repricer.inbox (original_transaction_id, bucket, notification_uuid, received_at, error)
            VALUES ('1000000000000001', repricer.bucket_of('1000000000000001'), 'n-2', '2026-01-02Z', NULL),
                ('1000000000000002', repricer.bucket_of('1000000000000002'), 'n-3', '2026-01-02Z', 'not understood')
            """)
        await connection.close()
        let lacking = await run("plan", try file(), environment: ana)
        let json = try object(await run("plan", try file(), "--json", environment: ana).output)

        #expect(!complete.output.contains("not processed yet"))
        #expect(
            lacking.output.contains(
                "lacks   1 notification not processed yet; `repricer serve` does that"),
            "\(lacking.output)")
        #expect(json["notifications_waiting"] as? Int == 1)
    }

    @Test func show_ofAnUnknownBatch_exits3_andWeb_isTheAddressAlone() async throws {
        let id = try await submit()
        var elsewhere = ana
        elsewhere["REPRICER_PAGES_LISTEN"] = "10.0.0.7:9000"
        var off = ana
        off["REPRICER_PAGES_LISTEN"] = "off"

        #expect(await run("show", "nothing", environment: ana).code == .inputRejected)
        let web = await run("show", "spring", "--web", environment: ana)
        #expect(web.output == "http://127.0.0.1:8081/batches/\(id)/approval\n")
        #expect(web.messages.contains("this is the default address"))
        let json = await run("show", "spring", "--web", "--json", environment: elsewhere)
        #expect(json.output == "{\"url\":\"http://10.0.0.7:9000/batches/\(id)/approval\"}\n")
        #expect(json.messages.isEmpty)
        let other = await run("show", "spring", "--web", environment: elsewhere)
        #expect(other.output == "http://10.0.0.7:9000/batches/\(id)/approval\n")
        let none = await run("show", "spring", "--web", environment: off)
        #expect(none.code == .failed && none.messages.contains("REPRICER_PAGES_LISTEN"))
    }

    @Test func approve_withoutATerminal_asksForYes_andDoesNothing() async throws {
        _ = try await submit()

        let outcome = await run("approve", "spring", environment: ben)
        let status = await run("status", "spring", "--json", environment: ben)

        #expect(outcome.code == .usage)
        #expect(outcome.output.isEmpty)
        #expect(outcome.messages.contains("give --yes to approve without a question"))
        #expect(status.output.contains(#""awaiting_approval":6"#))
    }

    @Test(arguments: [
        ("n", false), ("", false), (nil, false), ("approve", false), (" Y ", true), ("yes", true),
    ])
    func approve_onATerminal_showsAndAsks(_ answer: String?, _ isTaken: Bool) async throws {
        _ = try await submit()

        let outcome = await run("approve", "spring", environment: ben) {
            $0.isInputTerminal = true
            $0.readAnswer = { answer }
        }

        #expect(outcome.output.hasPrefix("batch      spring"))
        #expect(outcome.messages.contains("approve these 6 changes of spring? [y/N] "))
        #expect(outcome.messages.contains("nothing was changed") == !isTaken)
        // Beyond the shipped limits: the approval is the first.
        #expect(outcome.messages.contains("recorded as the first") == isTaken)
        #expect(outcome.code == .approvalNeededOrRefused)
    }

    /// It counts within twelve months before the call, which leaves up to sixty days before the renewal.
    @Test(arguments: [
        ("2026-06-01", true), ("2027-02-01", true), ("2027-03-01", true), ("2027-06-01", false),
    ])
    func plan_beforeAnOpenIncrease_warnsThatItWillHaveToAsk(day: String, asks: Bool) async throws {
        let first = await run(
            "submit", try file("1000000000000001,ADD,2.49,USD,,\(day)\n", "open.csv"), "--name",
            "open",
            environment: ana)
        #expect(first.code == .done, "\(first.messages)")

        let before = await run(
            "plan", try file("1000000000000001,PLAN,10.99,USD,,\n"), environment: ana)
        let after = await run(
            "plan", try file("1000000000000001,PLAN,10.99,USD,,2027-07-01\n"), environment: ana)

        #expect(
            before.output.contains("need consent: 1 open change, line 2\n") == asks,
            "\(before.output)")
        #expect(!after.output.contains("need consent:"))
    }

    @Test(arguments: [
        ("2026-06-01", true), ("2027-02-01", true), ("2027-03-01", true), ("2027-06-01", false),
    ])
    func show_ofABatchBeforeAnOpenIncrease_warnsTheApproverToo(day: String, asks: Bool) async throws
    {
        for (name, row, instant) in [
            ("later", "1000000000000001,ADD,2.49,USD,,\(day)\n", 1_767_571_200_000),
            ("before", "1000000000000001,PLAN,10.99,USD,,\n", 1_767_571_260_000),
        ] {
            let submitted = await run(
                "submit", try file(row, name + ".csv"), "--name", name, environment: ana
            ) { $0.realClock = ManualClock(Int64(instant)) }
            #expect(submitted.code == .done, "\(submitted.messages)")
        }

        let before = await run("show", "before", environment: ben)
        let later = await run("show", "later", environment: ben)

        #expect(
            before.output.contains("need consent: 1 open change, line 2\n") == asks,
            "\(before.output)")
        #expect(!later.output.contains("need consent:"), "\(later.output)")
    }

    @Test func plan_ofARowWithSeveralFaults_namesEach_andItsTwinIsADuplicate() async throws {
        let rows =
            "x,,0,USD,,\n1000000000000001,PLAN,12.99,USD,,\n1000000000000001,PLAN,free,USD,,\n"
        let path = try file(rows)

        let outcome = await run(
            "plan", path, "--rows", "\(scratch.path)/rows", environment: ana)
        let planned = try String(contentsOfFile: "\(scratch.path)/rows", encoding: .utf8)

        let said = outcome.messages.split(separator: "\n").map {
            $0.dropFirst(path.count + 1).prefix { $0 != ";" }
        }
        #expect(
            said.map { $0.split(separator: ":").prefix(2).joined() } == [
                "2 bad_transaction_id", "2 bad_sku", "2 bad_price", "3 duplicate_row",
                "4 bad_price",
            ])
        #expect(planned.contains(#""faults":["bad_transaction_id","bad_sku","bad_price"]"#))
        #expect(planned.contains(#""faults":["duplicate_row"]"#))
    }

    /// What is known of its item stands beside a fault of its cells, and a verdict does not.
    @Test func plan_ofASpoiledRow_holdsWhatIsKnownOfItsItem() async throws {
        let rows =
            "1000000000000001,PLAN,free,USD,,\n1000000000000001,PLAN,12.995,USD,,\n"
            + "1000000000000001,PLAN,12.99,XXX,,\n1000000000000001,NONE,free,USD,,\n1,PLAN,free,USD,,\n"

        let outcome = await run("plan", try file(rows), "--rows", "-", environment: ana)
        let good = await run(
            "plan", try file("1000000000000001,PLAN,12.99,USD,,\n"), "--rows", "-", environment: ana
        )

        let known = try object(good.output)
        let planned = try outcome.output.split(separator: "\n").map { try object(String($0)) }
        #expect(
            planned.map { $0["code"] as? String } == [
                "bad_price", "price_decimals", "unknown_currency", "bad_price", "bad_price",
            ])
        #expect(planned.map { $0["direction"] as? String } == [nil, nil, "increase", nil, nil])
        #expect(planned.map { $0["currency"] as? String } == ["USD", "USD", "USD", "USD", "USD"])
        for key in ["period", "storefront", "current_price_milliunits", "facts_at", "renewal_at"] {
            let told = try #require(known[key], "\(key)") as? NSObject
            #expect(planned.prefix(3).allSatisfy { $0[key] as? NSObject == told }, "\(key)")
            #expect(planned[4][key] is NSNull, "\(key)")
        }
        #expect(planned[3]["current_price_milliunits"] is NSNull)
        for key in ["consent", "effective_at", "send_by", "judged_at"] {
            #expect(planned.allSatisfy { $0[key] is NSNull }, "\(key)")
        }
    }

    /// A plan lay about until its last renewal had passed.
    @Test func show_ofAPlanWhoseRenewalsHavePassed_saysWhatToDo() async throws {
        let id = try await submit()
        let before = await run("show", id, environment: ben)
        let owner = try await TestDatabase.connect()
        try await owner.script(
            "UPDATE repricer.price_changes SET forecast_effective_at = '2026-01-04Z', forecast_notice_at = NULL"
        )
        await owner.close()

        let after = await run("show", id, environment: ben)
        let json = try object(await run("show", id, "--json", environment: ben).output)

        #expect(!before.output.contains("out of date"), "\(before.output)")
        #expect(after.output.contains("out of date: every renewal"), "\(after.output)")
        #expect((json["due"] as? [String: Any])?["is_out_of_date"] as? Bool == true)
    }

    /// The chain is there whether or not the other row's price is one.
    @Test func plan_besideASpoiledRow_findsTheChainThatBothMake() async throws {
        let path = try file(
            "1000000000000001,PLAN,10.99,USD,ADD,\n1000000000000001,ADD,free,USD,OTHER,\n")

        let outcome = await run("plan", path, environment: ana)

        #expect(outcome.messages.contains(":2: dependent_chained: "), "\(outcome.messages)")
    }

    @Test func plan_withRowsAsCSV_hasEachKeyButTheRules() async throws {
        let csv = "\(scratch.path)/rows.CSV"

        let outcome = await run(
            "plan", try file(), "--rows", csv, "--waves", "50%,rest", environment: ana)
        let lines = try String(contentsOfFile: csv, encoding: .utf8).split(separator: "\r\n")

        #expect(outcome.code == .done)
        #expect(lines.count == 7)
        let names = lines[0].split(separator: ",").map(String.init)
        let json = await run("plan", try file(), "--rows", "-", environment: ana).output
        let keys = try object(String(json.prefix { $0 != "\n" })).keys
        #expect(Set(names) == Set(keys).subtracting(["rules"]).union(["wave"]))
        #expect(
            lines[1].hasPrefix(
                "2,1000000000000001,PLAN,,increase,USD,USA,P1M,9990,12990,1,not_required,,,"))
        #expect(lines[2].contains("1000000000000006/PLAN:9990:EUR:P1M"))
        #expect(lines[2].contains(",ADD 1000000000000006/PLAN,"))
    }
}
