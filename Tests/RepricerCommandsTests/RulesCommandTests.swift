import Foundation
import Postgres
import TestSupport
import Testing

@testable import Pricing
@testable import RepricerCommands

/// Rules from a file to a verdict, as the database users who type the commands.
@Suite(.database) struct RulesCommandTests {
    /// Ana, and one subscription in Japan that renews on 1 February at 1000 JPY.
    private struct Office {
        let ana: [String: String]
        let service: [String: String]
        let folder: ScratchFolder

        init() async throws {
            let connection = try await TestDatabase.connect()
            try await connection.script(
                """
                INSERT INTO repricer.subscriptions (original_transaction_id, bucket, status, auto_renews,
                    storefront, currency, period, original_purchase_at,
                    recent_subscription_start_at, purchased_at, expires_at, renewal_at, items,
                    signed_at, folded_signed_at, folded_evidence_id, known_since)
                VALUES ('1000000000000001', repricer.bucket_of('1000000000000001'),
                    1, true, 'JPN', 'JPY', 'P1M', '2025-06-01Z',
                    '2025-06-01Z', '2026-01-01Z', '2026-02-01Z', '2026-02-01Z',
                    '[{"sku":"PLAN","currentPrice":1000000,"renewalPrice":1000000,"renews":true}]',
                    '2026-01-01Z', '2026-01-01Z', 'n-1', '2025-06-01Z');
                """)
            await connection.close()
            ana = Self.environment(
                try await TestDatabase.login("ana", memberOf: ["repricer_pricing"]))
            service = Self.environment(
                try await TestDatabase.login("serge", memberOf: ["repricer_service"]))
            folder = try ScratchFolder()
        }

        private static func environment(_ url: String) -> [String: String] {
            ["REPRICER_DATABASE_URL": url, "REPRICER_ENVIRONMENT": "Production"]
        }

        func file(_ text: String, name: String = "rules.csv") throws -> String {
            try folder.file(name, text)
        }
    }

    private static let daily = "Date, USD, JPY, \n02 January 2026, 1.25, 160, \n"

    @Test func import_ofTheBanksFile_turnsUnknownIntoEstimated() async throws {
        let office = try await Office()
        let explain = ["explain", "1000000000000001", "PLAN", "1600", "--json"]

        let before = await run(explain, environment: office.ana)
        let imported = await run(
            "rules", "import", try office.file(Self.daily), environment: office.ana)
        let again = await run(
            "rules", "import", try office.file(Self.daily), environment: office.ana)
        let after = await run(explain, environment: office.ana)
        let past = await run(
            explain + ["--as-of", "2026-01-01T23:59:59Z"], environment: office.ana)

        let unknown = #""not_known":["always_consent_storefront","threshold"]"#
        #expect(before.output.contains(#""consent":"not_known","reasons":[],\#(unknown)"#))
        #expect(imported.code == .done, "\(imported.messages)")
        #expect(
            imported.output == """
                RULE               OLD  NEW                    FROM
                exchange_rate USD  -    -> 1.25 per EUR (ecb)  2026-01-02T00:00:00Z
                exchange_rate JPY  -    -> 160 per EUR (ecb)   2026-01-02T00:00:00Z

                2 added as version 2 of the rules.

                """)
        #expect(again.code == .done)
        #expect(again.output.hasSuffix("changes nothing: all 2 rules are in force already.\n"))
        #expect(after.output.contains(#""not_known":["always_consent_storefront","threshold"]"#))
        #expect(after.output.contains(#""threshold_milliunits":640000"#))
        #expect(after.output.contains(#""threshold_source":"estimated""#))
        #expect(past.output.contains(unknown))
    }

    @Test func import_whenARowIsBad_storesNoneAndNamesAll() async throws {
        let office = try await Office()
        let file = try office.file(
            "rule,storefront,required\nalways_consent,JPN,\nalways_consent,JP,\nnever,JPN,\n")

        let outcome = await run("rules", "import", file, environment: office.ana)
        let shown = await run("rules", "show", "--json", environment: office.ana)

        #expect(outcome.code == .inputRejected)
        #expect(outcome.output.isEmpty)
        #expect(
            outcome.messages == """
                \(file):3: bad_storefront: storefront cannot be 'JP'; write ISO 3166-1 alpha-3 in \
                capitals, as USA
                \(file):4: unknown_rule: there is no rule 'never'; use threshold, always_consent, \
                currency, exchange_rate
                repricer: nothing imported: 2 rows of \(file) are wrong

                """)
        #expect(shown.output.contains(#""version":1,"#))
        #expect(shown.output.contains(#""always_consent":[]"#))
    }

    @Test func import_whenOneRowIsSpoiledAndOneIsUnknown_namesBothAtOnce() async throws {
        let office = try await Office()
        let file = try office.file(
            """
            rule,storefront,currency,period_kind,amount
            threshold,JPN,QQQ,annual,500
            threshold,JP,JPY,annual,500
            threshold,JPN,JPY,annual,500
            threshold,JPN,JPY,annual,600

            """)

        let outcome = await run("rules", "import", file, environment: office.ana)

        #expect(outcome.code == .inputRejected)
        #expect(
            outcome.messages == """
                \(file):2: unknown_currency: Apple has no prices in QQQ; correct it, or add a row for \
                the currency and its decimals
                \(file):3: bad_storefront: storefront cannot be 'JP'; write ISO 3166-1 alpha-3 in \
                capitals, as USA
                \(file):4: implausible_amount: 500 JPY cannot be checked: no amount in JPY and no exchange \
                rate of it is known; import exchange rates before it, such as the European Central Bank's \
                eurofxref.csv, or check it yourself
                \(file):5: duplicate_row: threshold JPN JPY annual from the import is also on line 4; \
                keep one of the rows
                repricer: nothing imported: 4 rows of \(file) are wrong

                """)
    }

    @Test func import_withEffectiveFrom_holdsFromThen() async throws {
        let office = try await Office()
        let file = try office.file("rule,storefront\nalways_consent,JPN\n")

        let dry = await run(
            "rules", "import", file, "--dry-run", "--effective-from", "2026-03-01",
            environment: office.ana)
        let outcome = await run(
            "rules", "import", file, "--effective-from", "2026-03-01", "--json",
            environment: office.ana)
        let now = await run("rules", "show", "--json", environment: office.ana)
        let later = await run(
            "rules", "show", "--json", "--as-of", "2026-03-01", environment: office.ana)

        #expect(dry.output.contains("1 would be added; nothing was stored"))
        #expect(
            outcome.output.hasSuffix(
                #""version":2,"added":1,"unchanged":0,"dry_run":false,"accepted_implausible":[],"changes":[{"#
                    + #""rule":"always_consent JPN","old":null,"new":"required (apple)","#
                    + #""valid_from":"2026-03-01T00:00:00Z","withdrawn":false}],"changes_left_out":0}"#
                    + "\n"))
        #expect(now.output.contains(#""always_consent":[]"#))
        #expect(
            later.output.contains(
                #""always_consent":[{"storefront":"JPN","source":"apple","#
                    + #""valid_from":"2026-03-01T00:00:00Z","recorded_at":"2026-01-05T00:00:00Z"}]"#
            ))
        #expect(later.output.contains(#""imported_by":"ana_"#))
    }

    @Test func effectiveFrom_ofAHistory_isAUsageError() async throws {
        let office = try await Office()
        let file = try office.file("Date,USD,\n2026-01-02,1.2,\n2026-01-01,1.1,\n")

        let outcome = await run(
            "rules", "import", file, "--effective-from", "2026-03-01", environment: office.ana)

        #expect(outcome.code == .usage)
        #expect(outcome.messages.contains("rates of 2 days, each with its own"))
    }

    @Test func import_asTheService_isRefused() async throws {
        let office = try await Office()

        let outcome = await run(
            "rules", "import", try office.file(Self.daily), environment: office.service)

        #expect(outcome.code == .approvalNeededOrRefused)
        #expect(outcome.messages.contains("permission denied for function import_rules"))
    }

    @Test func explain_forAPerson_saysEachRuleInWords() async throws {
        let office = try await Office()
        _ = await run("rules", "import", try office.file(Self.daily), environment: office.ana)

        let outcome = await run(
            "explain", "1000000000000001", "PLAN", "1800", environment: office.ana)
        let close = await run(
            "explain", "1000000000000001", "PLAN", "1799", environment: office.ana)

        let estimate =
            "640 JPY (nonannual, estimated: 5.00 USD x 160 / 1.25 x 1, ecb of 2026-01-02, may be off by "
            + "160 JPY)\n"
        #expect(
            outcome.output.contains(
                "threshold                  yes        +80.00 %, over 50 %; +800 JPY, over "
                    + estimate))
        #expect(
            close.output.contains(
                "threshold                  not known  +79.90 %, over 50 %; +799 JPY, close to the "
                    + "line: " + estimate))
        #expect(outcome.output.contains("not known  no row says whether JPN always asks\n"))
        #expect(
            outcome.output.contains(
                "no earlier increase is known; statements tell from its first period on\n"))
    }

    /// An increase of ours that is scheduled counts as well, before it has taken effect.
    @Test(arguments: [("2026-01-01T00:00:00Z", "rises"), ("2026-03-01T00:00:00Z", "rose")])
    func increase_thatIsStillToCome_isNotToldAsPast(judged: String, verb: String) throws {
        let increase = try #require(Instant("2026-02-01T00:00:00Z"))
        let answer = RuleAnswer(
            rule: .increaseWithin12Months, answer: true,
            inputs: [
                .init(name: "last_increase_at", value: .instant(increase)),
                .init(name: "counts_until", value: .instant(increase)),
                .init(name: "last_increase_sku", value: .text("PLAN")),
            ])

        let words = RuleInWords(
            answer, currency: "USD", judgedAt: Instant(judged))

        #expect(words.text.hasPrefix("PLAN \(verb) at 2026-02-01T00:00:00Z"))
    }

    @Test func rules_importedLater_changeNoEarlierPlan() async throws {
        let office = try await Office()
        let batch = try office.file(
            "original_transaction_id,sku,price,currency\n1000000000000001,PLAN,1800,JPY\n",
            name: "batch.csv")
        let plan = ["plan", batch, "--json", "--as-of", "2026-01-03"]
        let header = "rule,storefront,currency,period_kind,amount,valid_from\n"
        // The clock of the tests says 5 January.
        let before = await run(plan, environment: office.ana)

        let imported = await run(
            "rules", "import",
            try office.file(header + "threshold,JPN,JPY,nonannual,800,2026-01-01\n"),
            "--accept-implausible", environment: office.ana)
        let after = await run(plan, environment: office.ana)
        let now = await run(
            ["plan", batch, "--json", "--as-of", "2027-01-01"], environment: office.ana)
        let shown = await run(
            "rules", "show", "--json", "--as-of", "2026-01-03", environment: office.ana)

        #expect(imported.code == .done, "\(imported.messages)")
        #expect(before.output == after.output)
        #expect(before.output.contains(#""threshold_source":"unknown""#))
        #expect(!now.output.contains(#""threshold_source":"unknown""#))
        #expect(shown.output.contains(#""version":1,"#))
    }

    @Test func rules_recordedByAClockThatIsAhead_areKnownToAPlanOfNow() async throws {
        let office = try await Office()
        let connection = try await TestDatabase.connect()
        try await connection.script("UPDATE repricer.service_controls SET is_rehearsal = false")
        await connection.close()
        let explain = ["explain", "1000000000000001", "PLAN", "1800", "--json"]
        _ = await run(
            "rules", "import",
            try office.file(
                "rule,storefront,currency,period_kind,amount,valid_from\n"
                    + "threshold,JPN,JPY,nonannual,700,2026-01-01\n"),
            "--accept-implausible", environment: office.ana)

        let now = await run(explain, environment: office.ana)
        let asOf = await run(explain + ["--as-of", "2026-01-05"], environment: office.ana)

        #expect(now.output.contains(#""threshold_source":"apple""#))
        #expect(asOf.output.contains(#""threshold_source":"unknown""#))
    }

    @Test func import_ofWhatCanHardlyBeMeant_needsAFlagThatIsAudited() async throws {
        let office = try await Office()
        let file = try office.file(
            "rule,storefront,currency,period_kind,amount\nthreshold,DEU,EUR,nonannual,500000\n")

        let refused = await run("rules", "import", file, environment: office.ana)
        let taken = await run(
            "rules", "import", file, "--accept-implausible", environment: office.ana)
        let audit = await run("audit", "show", "--json", environment: office.ana)

        #expect(refused.code == .inputRejected)
        #expect(
            refused.messages == """
                \(file):2: implausible_amount: 500000.00 EUR is more than ten times what Apple's other \
                amounts suggest, 5.00 EUR; correct the amount
                repricer: nothing imported: 1 row of \(file) is wrong; correct them, or take them with \
                --accept-implausible

                """)
        #expect(taken.code == .done)
        #expect(taken.output.contains("1 added as version 2 of the rules"))
        #expect(audit.output.contains("500000.00 EUR is more than ten times"))
    }

    @Test func import_ofAStorefrontThatIsNone_isRefusedWithTheFlagToo() async throws {
        let office = try await Office()
        let file = try office.file(
            """
            rule,storefront,currency,period_kind,amount
            threshold,ZZZ,EUR,nonannual,5
            threshold,JPN,JPY,nonannual,800.50

            """)

        let outcome = await run(
            "rules", "import", file, "--accept-implausible", environment: office.ana)

        #expect(outcome.code == .inputRejected)
        #expect(outcome.messages.contains(":2: unknown_storefront: "))
        #expect(
            outcome.messages.contains(":3: amount_decimals: 800.50 has more decimals than JPY"))
    }

    @Test func import_ofAWithdrawal_letsTheFormerRowHoldAgain() async throws {
        let office = try await Office()
        let header = "rule,storefront,currency,period_kind,amount,valid_from,withdrawn\n"
        _ = await run(
            "rules", "import",
            try office.file(header + "threshold,USA,USD,nonannual,9,2026-01-01,\n"),
            environment: office.ana)
        let withdrawal = try office.file(
            header + "threshold,USA,USD,nonannual,,2026-01-01,true\n")

        let outcome = await run("rules", "import", withdrawal, environment: office.ana)
        let again = await run("rules", "import", withdrawal, environment: office.ana)
        try await TestDatabase.shipDefaultLimits()
        let audit = await run("audit", "verify", environment: office.ana)

        #expect(outcome.code == .done, "\(outcome.messages)")
        #expect(
            outcome.output == """
                RULE                         OLD               NEW                              FROM
                threshold USA USD nonannual  9.00 USD (apple)  -> 5.00 USD (apple) (withdrawn)  \
                2026-01-01T00:00:00Z

                1 withdrawn as version 3 of the rules.

                """)
        #expect(again.code == .inputRejected)
        #expect(again.messages.contains("nothing_to_withdraw"))
        #expect(audit.code == .done)
    }

    @Test func show_ofEstimates_printsTheirError() async throws {
        let office = try await Office()
        _ = await run("rules", "import", try office.file(Self.daily), environment: office.ana)

        let text = await run("rules", "show", environment: office.ana)
        let json = await run("rules", "show", "--json", environment: office.ana)

        #expect(
            text.output.contains(
                "JPY       nonannual                  640            160                  25  "
                    + "all_currencies\n"))
        #expect(
            json.output.contains(
                #"{"currency":"JPY","period_kind":"nonannual","amount_milliunits":640000,"#
                    + #""error_milliunits":160000,"rows":25,"basis":"all_currencies","source":"estimated"}"#
            ))
    }

    /// A picture or a program, dropped on the wrong command, is named for what it is.
    @Test(arguments: [["rules", "import"], ["history", "import"], ["plan"]])
    func binaryFile_isNoText(command: [String]) async throws {
        let office = try await Office()
        let file = try office.file("rule,\u{7F}ELF\u{1}\u{0}\u{0}\nthreshold\n")

        let outcome = await run(command + [file], environment: office.ana)

        #expect(outcome.code == .inputRejected)
        #expect(
            outcome.messages
                == "\(file):1: bad_encoding: the file is no text; save it as CSV in UTF-8\n")
    }

    @Test func show_ofWhatIsMissing_namesWhatToImport() async throws {
        let office = try await Office()
        _ = await run("rules", "import", try office.file(Self.daily), environment: office.ana)

        let text = await run("rules", "show", "--missing", environment: office.ana)
        let json = await run("rules", "show", "--missing", "--json", environment: office.ana)

        #expect(text.code == .done)
        #expect(text.output.split(separator: "\n").allSatisfy { $0.count <= 80 })
        let paragraphs = text.output.split(separator: "\n\n").map {
            $0.split(whereSeparator: \.isWhitespace).joined(separator: " ")
        }
        let without = try #require(
            paragraphs.first { $0.hasPrefix("Without a row or an estimate (annual, nonannual):") })
        #expect(without.contains(" TWD ") && !without.contains("JPY"))
        let rates = try #require(paragraphs.first { $0.hasPrefix("Of these without") })
        #expect(rates.contains(" TWD ") && !rates.contains("No exchange rate of USD"))
        #expect(
            paragraphs.contains { $0.contains("JPN 1 annual, nonannual missing") })
        #expect(paragraphs.contains { $0.hasSuffix("without open subscriptions: the same.") })
        #expect(
            json.output.contains(
                #"{"currency":"TWD","missing_kinds":["annual","nonannual"],"import":["exchange_rate TWD"]}"#
            ))
        #expect(
            json.output.contains(
                #"{"storefront":"JPN","subscriptions":1,"missing_kinds":["annual","nonannual"],"#
                    + #""always_consent":"missing","import":["threshold JPN annual","#))
        #expect(
            json.output.contains(
                #"{"storefront":"USA","subscriptions":0,"missing_kinds":[],"always_consent":"inferred","#
            ))
    }
}
