import Foundation
import Postgres
import TestSupport
import Testing

@testable import RepricerCommands

/// The question before the batch, over real facts.
@Suite(.database) struct ScenarioCommandTests {
    private struct Desk {
        let environment: [String: String]
        private let scratch: ScratchFolder
        var folder: String { scratch.path }

        /// `A` at 9.99 for USD, 9.99 for EUR, and 1,000 for JPY, by the remainder of the id.
        init(subscriptions: Int = 12) async throws {
            let connection = try await TestDatabase.connect()
            _ = try await connection.execute(
                """
                INSERT INTO repricer.subscriptions (original_transaction_id, bucket, status, auto_renews,
                    storefront, currency, period, original_purchase_at, recent_subscription_start_at,
                    purchased_at, expires_at, renewal_at, items, signed_at, folded_signed_at,
                    folded_evidence_id, known_since)
                SELECT i::text, repricer.bucket_of(i::text), CASE WHEN i = 12 THEN 2 ELSE 1 END, true,
                    (ARRAY['USA', 'AUT', 'JPN'])[i % 3 + 1], (ARRAY['USD', 'EUR', 'JPY'])[i % 3 + 1],
                    'P1M', '2025-06-01Z', '2025-06-01Z', '2026-01-10Z', '2026-02-10Z', '2026-02-10Z',
                    jsonb_build_array(
                        jsonb_build_object('sku', 'A', 'renews', true,
                            'currentPrice', (ARRAY[9990, 9990, 1000000])[i % 3 + 1],
                            'renewalPrice', (ARRAY[9990, 9990, 1000000])[i % 3 + 1]),
                        jsonb_build_object('sku', 'B', 'renews', i <> 1, 'currentPrice', 2990,
                            'renewalPrice', 2990)),
                    '2026-01-10Z', '2026-01-10Z', 'n-1', '2025-06-01Z'
                FROM generate_series(1, \(subscriptions)::integer) AS i
                """)
            await connection.close()
            let url = try await TestDatabase.login("ana", memberOf: ["repricer_pricing"])
            environment = ["REPRICER_DATABASE_URL": url, "REPRICER_ENVIRONMENT": "Production"]
            scratch = try ScratchFolder()
        }

        func scenario(_ arguments: String...) async -> Outcome {
            await run(["scenario"] + arguments, environment: environment)
        }
    }

    @Test func scenario_ofSeveralRules_isOneTableWithAColumnEach() async throws {
        let desk = try await Desk()

        let outcome = await desk.scenario(
            "--sku", "A", "--storefront", "USA", "--rule", "+10%", "max-without-consent", "--rule",
            "=19.99", "--decline-rate", "10")

        #expect(outcome.code == .done, "\(outcome.messages)")
        let lines = outcome.output.split(separator: "\n").map { line in
            line.split(separator: " ", omittingEmptySubsequences: true).joined(separator: " ")
        }
        #expect(lines.first == "SCENARIO +10% max-without-consent =19.99")
        #expect(lines.contains("rows 3 3 3"))
        #expect(lines.contains("can go 3 3 3"))
        #expect(lines.contains("required 0 0 3"))
        #expect(lines.contains("not required 3 3 0"))
        #expect(lines.contains("2026-02 3 3 3"))
        // Twelve charges from 10 February 2026 to 4 January 2027, at 1.00, 5.00 and 10.00 more, less a tenth of those and 9.99.
        #expect(lines.contains("12 months, 10 % declining"))
        #expect(lines.contains("USD 33.00 165.00 264.03"))
        #expect(outcome.output.split(separator: "\n").allSatisfy { $0.count <= 80 })
    }

    @Test func scenario_ofManyCurrencies_sumsThemInOne_orSaysWhatRateLacks() async throws {
        let desk = try await Desk()

        let lacking = await desk.scenario("--sku", "A", "--rule", "+10%", "--json")
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            INSERT INTO repricer.exchange_rates (currency, valid_from, billionths_per_euro, source,
                revision, imported_by, recorded_at)
            SELECT currency, '2026-01-01Z', rate, 'ecb', i.revision, i.imported_by, i.imported_at
            FROM (SELECT * FROM repricer.rule_imports ORDER BY revision DESC LIMIT 1) i, (VALUES ('USD', 1250000000), ('JPY', 160000000000)) AS t (currency, rate)
            """)
        await connection.close()
        let whole = await desk.scenario("--sku", "A", "--rule", "+10%", "--json")

        #expect(lacking.output.contains(#""currencies_without_rate":["EUR","JPY"]"#))
        #expect(lacking.output.contains(#""total":null"#))
        #expect(whole.output.contains(#""rates_from":"2026-01-01","currencies_without_rate":[]"#))
        // 3 x 1.00 USD, 4 x 1.00 EUR and 4 x 100 JPY, eleven times.
        #expect(whole.output.contains(#""effect_12_months_nobody_declines_milliunits":122375"#))
    }

    @Test func sums_beyondAnyNumber_areSaidToBeSo() async throws {
        let desk = try await Desk()
        let wish = ["--sku", "A", "--storefront", "USA", "--rule", "=9000000000000000"]

        let text = await run(["scenario"] + wish, environment: desk.environment)
        let json = await run(["scenario"] + wish + ["--json"], environment: desk.environment)

        #expect(text.output.contains("too large: a sum of more than 9,223,372,036,854,775"))
        #expect(json.output.contains(#""then_per_month_milliunits":null"#))
        #expect(json.output.contains(#""effect_12_months_milliunits":null"#))
        #expect(json.output.contains(#""too_large":true"#))
    }

    /// `plan` of the batch that a scenario writes says the same of the money, to the milliunit.
    @Test func moneyOfAScenario_isThatOfItsPlan() async throws {
        let desk = try await Desk()
        let connection = try await TestDatabase.connect()
        try await connection.script(
            "UPDATE repricer.subscriptions SET period = (ARRAY['P1W', 'P1Y', 'P6M'])[bucket % 3 + 1]"
        )
        await connection.close()
        let file = "\(desk.folder)/batch.csv"

        let asked = await desk.scenario(
            "--sku", "A", "--storefront", "USA", "--rule", "=19.99", "--out", file, "--json")
        let plan = await run("plan", file, "--json", environment: desk.environment)

        for key in ["now", "then", "at_risk", "not_known"] {
            let pattern = try Regex("\"\(key)_per_month_milliunits\":(-?[0-9]+)")
            let figures = [asked, plan].map { outcome in
                outcome.output.firstMatch(of: pattern)?.output[1].substring
            }
            #expect(figures[0] != nil && figures[0] == figures[1], "\(key): \(figures)")
        }
    }

    @Test func batchOfAScenario_isAcceptedByPlanAsItIs() async throws {
        let desk = try await Desk(subscriptions: 9000)
        let file = "\(desk.folder)/batch.csv"

        let outcome = await desk.scenario(
            "--sku", "A", "--sku", "B", "--rule", "+10%", "+20%", "--round", ".99", "--out", file,
            "--choose", "2", "--json")
        let plan = await run("plan", file, "--json", environment: desk.environment)

        #expect(outcome.code == .done, "\(outcome.messages)")
        #expect(plan.code == .done, "\(plan.messages.prefix(500))")
        let canGo = outcome.output.matches(of: /"can_go":(\d+)/).compactMap { Int($0.1) }
        let planned = plan.output.firstMatch(of: /"can_go":(\d+)/).flatMap { Int($0.1) }
        #expect(canGo.count == 2 && canGo[1] == planned)
        let text = try String(contentsOfFile: file, encoding: .utf8)
        #expect(
            text.split(separator: "\r\n").first
                == "original_transaction_id,sku,price,currency,storefront,dependent_skus,expected_price"
        )
    }

    /// An item that is free, one that costs a cent, and one whose price no file could hold: all go into a batch, or are
    /// counted as refused.
    @Test(arguments: [
        ["=10.40"], ["+0.90"], ["+7.5%"], ["max-without-consent"], ["=5"],
        ["+10%", "--round", ".99"],
        ["+200%", "--round", ".00"],
    ])
    func batchOfAScenario_overOddPrices_isAcceptedByPlan(rule: [String]) async throws {
        let desk = try await Desk(subscriptions: 9)
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            UPDATE repricer.subscriptions SET items = jsonb_build_array(jsonb_build_object('sku', 'A',
                'renews', true, 'currentPrice', odd.price, 'renewalPrice', odd.price))
            FROM (VALUES ('1', 0), ('2', 10), ('3', 12345), ('4', 1), ('5', 1000500)) odd (id, price)
            WHERE original_transaction_id = odd.id
            """)
        await connection.close()
        let file = "\(desk.folder)/batch.csv"

        let asked = await run(
            ["scenario", "--sku", "A", "--out", file, "--json", "--rule"] + rule,
            environment: desk.environment)
        let plan = await run("plan", file, "--json", environment: desk.environment)

        #expect(asked.code == .done, "\(asked.messages)")
        #expect(plan.code == .done, "\(plan.messages)")
        let figures = [asked, plan].map { outcome in
            outcome.output.firstMatch(of: /"can_go":(\d+)/).map { String($0.1) }
        }
        #expect(figures[0] != nil && figures[0] == figures[1], "\(figures)")
    }

    @Test func scenario_withoutADeclineRate_usesTheOneThatWasSeen() async throws {
        let desk = try await Desk()

        let none = await desk.scenario("--sku", "A", "--rule", "=19.99", "--json")

        #expect(none.output.contains(#""decline_rate_basis_points":0,"decline_rate_rows":0"#))
    }

    /// Of eight rows three were asked, by themselves, and have ended: one declined.
    @Test func ownDeclineRate_isOfThoseWhoWereAskedAndHaveDecided() async throws {
        let desk = try await Desk(subscriptions: 9)
        let rows = (1...8).map { number in
            let price = ["9.99", "9.99", "1000"][number % 3]
            let new = number == 7 ? "7.99" : price == "1000" ? "1100" : "10.99"
            return "\(number),A,\(new),\(["USD", "EUR", "JPY"][number % 3])\n"
        }
        let file = "\(desk.folder)/earlier.csv"
        try ("original_transaction_id,sku,price,currency\n" + rows.joined())
            .write(toFile: file, atomically: true, encoding: .utf8)
        let submitted = await run(
            "submit", file, "--name", "earlier", environment: desk.environment)
        #expect(submitted.code == .done, "\(submitted.messages)")
        let connection = try await TestDatabase.connect()
        // Two agreed, one declined, and the word that asked was lost; nobody asked the fourth; the fifth has not answered;
        // the sixth never will; the eighth fell with another item.
        try await connection.script(
            """
            UPDATE repricer.price_changes SET consent_asked_at = '2026-01-10Z', state = 'effective', effective_at = '2026-02-10Z'
                WHERE original_transaction_id IN ('1', '2', '7');
            UPDATE repricer.price_changes SET state = 'declined' WHERE original_transaction_id = '3';
            UPDATE repricer.price_changes SET state = 'effective', effective_at = '2026-02-10Z'
                WHERE original_transaction_id = '4';
            UPDATE repricer.price_changes SET consent_asked_at = '2026-01-10Z', state = 'pending_consent'
                WHERE original_transaction_id = '5';
            UPDATE repricer.price_changes SET consent_asked_at = '2026-01-10Z', state = 'invalidated'
                WHERE original_transaction_id = '6';
            UPDATE repricer.price_changes SET consent_asked_at = '2026-01-10Z', state = 'declined', reason = 'parent_declined'
                WHERE original_transaction_id = '8'
            """)
        await connection.close()

        let outcome = await desk.scenario("--sku", "A", "--rule", "=19.99", "--json")
        let other = await desk.scenario("--sku", "B", "--rule", "=19.99", "--json")

        #expect(
            outcome.output.contains(
                #""decline_rate_basis_points":3333,"decline_rate_rows":3"#), "\(outcome.output)")
        #expect(other.output.contains(#""decline_rate_basis_points":0,"decline_rate_rows":0"#))
    }

    @Test func cohortOfNobody_isSaid() async throws {
        let desk = try await Desk()

        let outcome = await desk.scenario("--sku", "NONE", "--rule", "+10%")

        #expect(outcome.code == .done)
        #expect(outcome.messages.contains("nobody is in the cohort"))
    }

    @Test func options_thatNobodyFits_areWarnedOf() async throws {
        let desk = try await Desk()

        let some = await desk.scenario(
            "--sku", "A", "--sku", "NONE", "--storefront", "USA,FRA", "--dependents", "B", "FAR",
            "--rule", "+10%", "--json")
        let all = await desk.scenario("--sku", "A", "--sku", "B", "--rule", "+10%", "--json")
        let period = await desk.scenario("--sku", "A", "--period", "P6M", "--rule", "+10%")

        #expect(
            some.messages == """
                repricer: warning: nobody in the cohort has --sku NONE
                repricer: warning: nobody in the cohort has --storefront FRA
                repricer: warning: nobody in the cohort has --dependents FAR

                """)
        #expect(
            some.output.contains(
                #""nobody_has":{"sku":["NONE"],"storefront":["FRA"],"dependents":["FAR"]}"#))
        #expect(all.messages.isEmpty)
        #expect(all.output.contains(#""nobody_has":{}"#))
        #expect(period.messages.contains("nobody is in the cohort"))
    }

    @Test func scenario_whosePageWouldReplaceItsBatchFile_isRefused() async throws {
        let desk = try await Desk()
        let path = desk.folder + "/next.csv"

        let outcome = await desk.scenario(
            "--sku", "A", "--rule", "+10%", "--out", path, "--html", path)

        #expect(outcome.code == .usage)
        #expect(outcome.messages.contains("is named twice"), "\(outcome.messages)")
    }

    /// What a program reads of standard output is one thing.
    @Test func batchOnStandardOutput_standsAlone_andTheTableIsBesideIt() async throws {
        let desk = try await Desk()

        let json = await desk.scenario("--sku", "A", "--rule", "+10%", "--out", "-", "--json")
        let text = await desk.scenario("--sku", "A", "--rule", "+10%", "--out", "-")
        let page = await desk.scenario("--sku", "A", "--rule", "+10%", "--html", "-", "--json")

        #expect(json.output == text.output)
        #expect(json.output.hasPrefix("original_transaction_id,sku,price,"))
        #expect(json.output.split(separator: "\r\n").count == 12)
        let table = try JSONSerialization.jsonObject(with: Data(json.messages.utf8))
        #expect((table as? [String: Any])?["skus"] as? [String] == ["A"])
        #expect(text.messages.hasPrefix("SCENARIO"))
        #expect(page.output.hasPrefix("<!DOCTYPE html>"))
        #expect(page.messages.hasPrefix("{"))
    }

    /// What another subscription's open change takes along is nobody else's dependent: the file has no row that its plan
    /// refuses.
    @Test func dependentsThatAnOpenChangeNames_areRefusedAsInAPlan() async throws {
        let desk = try await Desk()
        let open = "\(desk.folder)/open.csv"
        try "original_transaction_id,sku,price,currency,dependent_skus\n3,A,11.99,USD,6/B\n".write(
            toFile: open, atomically: true, encoding: .utf8)
        let submitted = await run("submit", open, "--name", "open", environment: desk.environment)
        let file = "\(desk.folder)/scenario.csv"

        let scenario = await desk.scenario(
            "--sku", "A", "--storefront", "USA", "--rule", "+10%", "--dependents", "B", "--out",
            file, "--json")
        let plan = await run("plan", file, environment: desk.environment)

        #expect(submitted.code == .done, "\(submitted.messages)")
        #expect(scenario.output.contains(#""dependent_shared":1"#), "\(scenario.output)")
        #expect(plan.code == .done, "\(plan.messages)\(plan.output)")
    }

    @Test func dependents_fallWithTheFirstItemAlone() async throws {
        let desk = try await Desk()

        let outcome = await desk.scenario(
            "--sku", "A", "--sku", "B", "--rule", "+10%", "--dependents", "C", "B", "--json")

        #expect(outcome.output.contains(#""rejected_rows":{}"#), "\(outcome.output)")
    }

    @Test func page_holdsTheTable() async throws {
        let desk = try await Desk()
        let file = "\(desk.folder)/page.html"

        let outcome = await desk.scenario(
            "--sku", "A", "--rule", "+10%", "--send-on", "2026-03-01", "2026-04-01", "--html",
            file)
        let page = try String(contentsOfFile: file, encoding: .utf8)

        #expect(outcome.code == .done)
        #expect(page.contains("<th scope=\"col\" class=\"number\">+10% on 2026-04-01</th>"))
        #expect(page.contains("<title>What if: A"))
    }

    @Test(
        arguments: [
            (["--rule", "+10%"], "missing --sku SKU"), (["--sku", "A"], "missing --rule R"),
            (["--sku", "A", "--rule", "10%"], "--rule: 10% is no rule"),
            (["--sku", "A", "--rule", "+10%", "--round", "9"], "--round takes none or an ending"),
            (
                ["--sku", "A", "--rule", "+10%", "--decline-rate", "101"],
                "--decline-rate cannot be"
            ),
            (["--sku", "A", "--rule", "+10%", "--send-on", "2020-01-01"], "--send-on cannot be"),
            (["--sku", "A", "--rule", "+10%", "+20%", "--out", "x"], "--out needs --choose N"),
            (
                ["--sku", "A", "--rule", "+10%", "--out", "x", "--choose", "2"],
                "--choose takes a number from 1 to 1"
            ),
            (["--sku", "A", "--rule", "+10%", "--choose", "1"], "--out is missing"),
            (["--sku", "A", "--rule", "+1%..+99%/1"], "the most is 20"),
            (["--sku", "A", "--rule", "+10%", "--period", "month"], "--period cannot be"),
            (["--sku", "A", "--rule", "+10%", "--period", "P5M"], "the App Store has P1W, P1M"),
            (
                ["--sku", "A", "--rule", "+10%", "--storefront", "USA,ZZZ"],
                "--storefront cannot be \"ZZZ\", which the App Store does not have"
            ),
            (["--sku", "A", "--rule", "+10%", "--storefront", "usa"], "--storefront cannot be"),
            (["--sku", "A", "--rule", "+10%", "--started-before", "10000-01-01"], "YYYY-MM-DD"),
            (["--sku", "A", "--rule", "+10%", "--send-on", "10000-01-01"], "YYYY-MM-DD"),
            (
                ["--sku", "A", "--rule", "+10%", "--as-of", "9999-12-31T23:00:00-02:00"],
                "use an instant from 1970 to the end of 9999"
            ),
            (
                ["--sku", "A", "--rule", "+10%", "--out", "-", "--html", "-"],
                "--out and --html cannot both be standard output"
            ),
            (["--sku", "A", "--rule", "+10%", "--currency", "usd"], "is not a currency"),
            (["--sku", "A", "--rule", "+10%", "--reporting-currency", "ZZZ"], "is not a currency"),
            (["--sku", "A", "--rule", "+10%", "--price-below", "x"], "--price-below cannot be"),
        ] as [([String], String)])
    func scenario_withAWrongOption_saysWhich(arguments: [String], expected: String) async {
        let outcome = await run(
            ["scenario"] + arguments,
            environment: ["REPRICER_ENVIRONMENT": "Production", "REPRICER_DATABASE_URL": "x=y"])

        #expect(outcome.code == .usage)
        #expect(outcome.messages.contains(expected), "\(outcome.messages)")
    }
}
