import Pricing
import Testing

@testable import Batches

struct RuleFileTests {
    private static let header =
        "rule,storefront,currency,period_kind,amount,amount_milliunits,required,decimals,per_euro,"
        + "valid_from,source\n"
    private static let now = Instant(milliseconds: 1_793_491_200_000)  // 2026-11-01

    private func read(_ text: String) throws -> RuleFile {
        try RuleFile(source: MemoryByteSource(Array(text.utf8), chunkBytes: 7), file: "rules.csv")
    }

    private func outline(_ file: RuleFile) -> [String] {
        file.rows.map {
            "\($0.line) \($0.rule.key.text): \($0.rule.words) from \($0.rule.validFrom?.text ?? "now")"
        }
    }

    private func outline(_ change: RuleImport) -> [String] {
        change.changes.map {
            "\($0.rule.key.text): \($0.old?.words ?? "-") -> \($0.rule.words) "
                + ($0.rule.validFrom?.text ?? "ever")
        }
    }

    @Test func file_ofOurColumns_isReadRowByRow() throws {
        let file = try read(
            "\u{FEFF}" + Self.header
                + "threshold,DEU,EUR,nonannual,5,,,,,2026-12-01,\r\n"
                + "threshold,DEU,EUR,annual,,50000,,,,2026-12-01T12:00:00Z,estimated\r\n"
                + "always_consent,CHL,,,,,,,,,\r\n\r\n"
                + "always_consent,AUT,,,,,false,,,,apple\r\n"
                + "currency,,BHD,,,,,3,,,\r\n" + "exchange_rate,,USD,,,,,,\"1.0876\",,desk\r\n")

        #expect(file.faults.isEmpty)
        #expect(
            outline(file) == [
                "2 threshold DEU EUR nonannual: 5.00 EUR (apple) from 2026-12-01T00:00:00Z",
                "3 threshold DEU EUR annual: 50.00 EUR (estimated) from 2026-12-01T12:00:00Z",
                "4 always_consent CHL: required (apple) from now",
                "6 always_consent AUT: not required (apple) from now",
                "7 currency BHD: 3 decimals (apple) from now",
                "8 exchange_rate USD: 1.0876 per EUR (desk) from now",
            ])
    }

    /// Where a decimal sign is a comma, spreadsheets separate cells by semicolons; and they write truth in capitals.
    @Test(arguments: [";", "\t"])
    func file_asSpreadsheetsSaveIt_isRead(separator: String) throws {
        let file = try read(
            (Self.header
                + "threshold,POL,PLN,nonannual,24@99,,,,,2026-12-01,\n"
                + "always_consent,CHL,,,,,TRUE,,,,\nalways_consent,AUT,,,,,False,,,,\n"
                + "exchange_rate,,USD,,,,,,1@08765,,desk\n")
                .replacing(",", with: separator).replacing("@", with: ","))

        #expect(file.faults.isEmpty)
        #expect(
            outline(file) == [
                "2 threshold POL PLN nonannual: 24.99 PLN (apple) from 2026-12-01T00:00:00Z",
                "3 always_consent CHL: required (apple) from now",
                "4 always_consent AUT: not required (apple) from now",
                "5 exchange_rate USD: 1.08765 per EUR (desk) from now",
            ])
    }

    /// A comma is a decimal sign where a number is meant, and in no other cell.
    @Test(arguments: [";", "\t"])
    func text_withACommaAmongDigits_staysAsItIsWritten(separator: String) throws {
        let file = try read(
            (Self.header
                + "exchange_rate,,USD,,,,,,1@5,,12@5\nthreshold,1@5,PLN,nonannual,24@99,,,,,,\n"
                + "threshold,POL,PLN,nonannual,24@99,,,,,1@2028,\n")
                .replacing(",", with: separator).replacing("@", with: ","))

        #expect(outline(file) == ["2 exchange_rate USD: 1.5 per EUR (12,5) from now"])
        #expect(file.faults.map(\.code) == [.badStorefront, .badDate])
        #expect(file.faults.map { $0.message.contains("1,") } == [true, true])
    }

    @Test func amount_thatMayBeInThousands_isRefused() throws {
        let file = try read(
            (Self.header + "threshold,DEU,EUR,nonannual,5@000,,,,,2026-12-01,\n")
                .replacing(",", with: ";").replacing("@", with: ","))

        #expect(file.faults.map(\.code) == [.badAmount])
    }

    @Test(arguments: [
        "Date, USD, JPY, CYP, \n02 October 2026, 1.0876, 163.45, N/A, \n",
        "Date,USD,JPY,CYP,\n2026-10-02,1.0876,163.45,N/A,\n",
        "Date,USD,JPY,CYP\n2 October 2026,1.0876,163.45,N/A\n",
    ])
    func file_ofTheCentralBank_isReadAsItIs(_ text: String) throws {
        let file = try read(text)

        #expect(file.form == .europeanCentralBank(days: 1))
        #expect(file.faults.isEmpty)
        #expect(
            outline(file) == [
                "2 exchange_rate USD: 1.0876 per EUR (ecb) from 2026-10-02T00:00:00Z",
                "2 exchange_rate JPY: 163.45 per EUR (ecb) from 2026-10-02T00:00:00Z",
            ])
    }

    @Test(arguments: [
        ("threshold,DE,EUR,annual,5,,,,,,", "bad_storefront"),
        ("threshold,,EUR,annual,5,,,,,,", "bad_storefront"),
        ("threshold,ZZZ,EUR,annual,5,,,,,,", "unknown_storefront"),
        ("always_consent,ZZZ,,,,,,,,,", "unknown_storefront"),
        ("threshold,DEU,eur,annual,5,,,,,,", "bad_currency"),
        ("threshold,DEU,EUR,yearly,5,,,,,,", "bad_period_kind"),
        ("threshold,DEU,EUR,annual,,,,,,,", "bad_amount"),
        ("threshold,DEU,EUR,annual,5,5000,,,,,", "bad_amount"),
        ("threshold,DEU,EUR,annual,5.0001,,,,,,", "bad_amount"),
        ("threshold,DEU,EUR,annual,0,,,,,,", "bad_amount"),
        ("threshold,DEU,EUR,annual,-5,,,,,,", "bad_amount"),
        ("threshold,DEU,EUR,annual,,5.5,,,,,", "bad_amount"),
        ("threshold,DEU,EUR,annual,99999999999999999999,,,,,,", "bad_amount"),
        ("threshold,DEU,EUR,annual,5,,,,,,ecb", "bad_source"),
        ("threshold,DEU,EUR,annual,5,,,2,,,", "unexpected_cell"),
        ("always_consent,CHL,CLP,,,,,,,,", "unexpected_cell"),
        ("always_consent,CHL,,,,,maybe,,,,", "bad_required"),
        ("currency,,BHD,,,,,,,,", "bad_decimals"), ("currency,,BHD,,,,,4,,,", "bad_decimals"),
        ("currency,,BHD,,,,,+2,,,", "bad_decimals"),
        ("exchange_rate,,USD,,,,,,,,", "bad_rate"), ("exchange_rate,,USD,,,,,,0,,", "bad_rate"),
        ("exchange_rate,,USD,,,,,,\"1,08\",,", "bad_rate"),
        ("exchange_rate,,USD,,,,,,1.0876,2026-02-30,", "bad_date"),
        ("exchange_rate,,USD,,,,,,1.0876,1.12.2026,", "bad_date"),
        ("percent,,USD,,,,,,,,", "unknown_rule"), (",,,,,,,,,,apple", "unknown_rule"),
        ("threshold,DEU", "malformed_row"), ("thresh\"old,,,,,,,,,,", "malformed_row"),
        ("\"threshold,,,,,,,,,,", "malformed_row"),
    ])
    func row_whenWrong_isNamedWithItsLineAndARemedy(row: String, code: String) throws {
        let file = try read(Self.header + "always_consent,CHL,,,,,,,,,\n" + row + "\n")

        let texts = file.faults.map { $0.text(file: "rules.csv") }
        #expect(texts.count == 1)
        #expect(texts.first?.hasPrefix("rules.csv:3: \(code): ") == true, "\(texts)")
        #expect(texts.first?.contains("; ") == true)
    }

    @Test(arguments: [
        ("Date,USD,JPY,\n2026-10-02,1.0876\n", "malformed_row"),
        ("Date,USD,JPY,\n2026-10-02,1.0876,\n", "bad_rate"),
        ("Date,USD,JPY,\n2026-10-02,1.0876,163,45,\n", "malformed_row"),
        ("Date,USD,JPY,\n2026-10-02,1.0876,-,\n", "bad_rate"),
        ("Date,USD,JPY,\n2026-10-02,1.0876,,\n", "bad_rate"),
        ("Date,USD,JPY,\n2026-13-02,1.0876,163.45,\n", "bad_date"),
        ("Date,USD,JPY,\n02 Octember 2026,1.0876,163.45,\n", "bad_date"),
        ("Date,USD,\n2026-10-02,1.0876,\n2026-10-02,1.0877,\n", "duplicate_row"),
    ])
    func centralBankRow_whenWrong_isNamed(text: String, code: String) throws {
        #expect(try read(text).faults.map(\.code.rawValue) == [code])
    }

    @Test(arguments: [
        ("", BatchFileError.Code.emptyFile), ("\n\n", .emptyFile),
        ("rule,storefront\n", .emptyFile),
        ("rule,storefrnt\nx,y\n", .unknownColumn), ("storefront\nUSA\n", .missingColumn),
        ("rule,rule\nx,y\n", .duplicateColumn),
        ("Date,USD,USD\n2026-10-02,1,1\n", .duplicateColumn),
        ("Date,USD,dollar\n2026-10-02,1,1\n", .unknownColumn),
        ("Date,\n2026-10-02,\n", .missingColumn),
        ("\u{0}\n", .badEncoding), ("\"rule\n", .badHeader),
    ])
    func file_thatIsNone_isRefused(text: String, code: BatchFileError.Code) {
        #expect {
            try read(text)
        } throws: {
            ($0 as? BatchFileError)?.code == code
        }
    }

    @Test func rows_whenTheSameTwice_nameEachOther() throws {
        let row = "threshold,FRA,EUR,annual,50,,,,,,\n"
        let file = try read(Self.header + row + "always_consent,CHL,,,,,,,,,\n" + row)

        #expect(
            file.faults.map { $0.text(file: "r") } == [
                "r:4: duplicate_row: threshold FRA EUR annual from the import is also on line 2; "
                    + "keep one of the rows"
            ])
    }

    @Test func import_whenCompared_showsOldAndNew() throws {
        let file = try read(
            Self.header + "threshold,USA,USD,nonannual,6,,,,,,\n"
                + "threshold,USA,USD,annual,50,,,,,,\n" + "threshold,DEU,EUR,annual,50,,,,,,\n")

        let change = RuleImport(file, stored: .shipped, from: Self.now)

        #expect(
            outline(change) == [
                "threshold USA USD nonannual: 5.00 USD (apple) -> 6.00 USD (apple) 2026-11-01T00:00:00Z",
                "threshold DEU EUR annual: - -> 50.00 EUR (apple) 2026-11-01T00:00:00Z",
            ])
        #expect(change.unchangedCount == 1)
        #expect(change.faults.isEmpty)
    }

    @Test func import_ofAHistory_comparesEachDayWithTheDayBefore() throws {
        let file = try read("Date,USD,\n2026-10-03,1.3,\n2026-10-02,1.2,\n2026-10-01,1.1,\n")
        let known = RuleImport(
            try read("Date,USD,\n2026-10-02,1.2,\n"), stored: .shipped, from: Self.now)
        var stored = RuleSet.shipped
        stored.rows += known.changes.map(\.rule)

        let change = RuleImport(file, stored: stored, from: Self.now)

        #expect(
            outline(change) == [
                "exchange_rate USD: - -> 1.1 per EUR (ecb) 2026-10-01T00:00:00Z",
                "exchange_rate USD: 1.2 per EUR (ecb) -> 1.3 per EUR (ecb) 2026-10-03T00:00:00Z",
            ])
        #expect(change.unchangedCount == 1)
    }

    @Test func import_ofADayThatRepeatsTheRate_isKeptAsAFactOfItsOwn() throws {
        var stored = RuleSet.shipped
        stored.rows +=
            RuleImport(
                try read("Date,USD,\n2026-10-01,1.1,\n"), stored: stored, from: Self.now
            ).changes.map(\.rule)

        let change = RuleImport(
            try read("Date,USD,\n2026-10-03,1.1,\n"), stored: stored, from: Self.now)

        #expect(change.changes.count == 1)
    }

    @Test func import_inAnUnknownCurrency_isRefusedUnlessTheFileBringsIt() throws {
        let threshold = "threshold,BHR,BHD,annual,20,,,,,,\n"

        let alone = RuleImport(
            try read(Self.header + threshold), stored: .shipped, from: Self.now)
        let both = RuleImport(
            try read(Self.header + threshold + "currency,,BHD,,,,,3,,,\n"), stored: .shipped,
            from: Self.now)

        #expect(alone.faults.map(\.code) == [.unknownCurrency])
        #expect(both.faults.isEmpty)
    }

    @Test func import_whereADatedRowMeetsAnUndatedOne_isRefused() throws {
        let file = try read(
            Self.header + "always_consent,CHL,,,,,,,,,\n"
                + "always_consent,CHL,,,,,false,,,2026-11-01,\n")

        let change = RuleImport(file, stored: .shipped, from: Self.now)

        #expect(change.faults.map(\.code) == [.duplicateRow])
    }

    @Test(arguments: [
        "Rule;Storefront;Currency;Period Kind;Amount\nthreshold;DEU;EUR;nonannual;5\n",
        "RULE\tSTOREFRONT\tCURRENCY\tPERIOD_KIND\tAMOUNT\r\nthreshold\tDEU\tEUR\tnonannual\t5\r\n",
        "\u{FEFF}rule;storefront;currency;period_kind;amount\n;;;;\nthreshold;DEU;EUR;nonannual;\"5\"\n",
    ])
    func file_withOtherSeparatorsAndCapitals_isReadAlike(_ text: String) throws {
        let file = try read(text)

        #expect(file.faults.isEmpty)
        #expect(file.rows.map(\.rule.key.text) == ["threshold DEU EUR nonannual"])
        #expect(file.rows.map(\.rule.words) == ["5.00 EUR (apple)"])
    }

    @Test(arguments: [
        "ISO,cur,non-annual,annual\nDEU,EUR,5,50\n",
        "ISO;Currency;Non-annual amount;Annual amount\r\nDEU;EUR;5;50\r\n",
        "Storefront (ISO alpha-3);currency;non-annual amount;annual amount\nDEU;EUR;5;50\n",
        "Country or Region\tCountry or region code\tCurrency\tNon-annual threshold\tAnnual threshold\n"
            + "Germany\tDEU\tEUR\t5.00\t50.00\n",
        "Storefront;Currency;Non-annual;Annual\nDEU;EUR;5,00;50,0\n",
        "Country or Region\tStorefront\tCurrency\tNon-annual\tAnnual\nGermany\tDEU\tEUR\t5,0\t50,00\n",
    ])
    func file_ofApplesTable_isReadAsItIsCopied(_ text: String) throws {
        let file = try read(text)

        #expect(file.form == .appleTable)
        #expect(
            outline(file).map { $0.replacing(" from now", with: "") } == [
                "2 threshold DEU EUR nonannual: 5.00 EUR (apple)",
                "2 threshold DEU EUR annual: 50.00 EUR (apple)",
            ])
    }

    @Test(arguments: [";", "\t"])
    func applesTable_withACommaInAText_showsItAsItIsWritten(separator: String) throws {
        let file = try read(
            "Storefront@Currency@Non-annual\n1,5@EUR@5,00\n".replacing("@", with: separator))

        #expect(file.faults.map(\.code) == [.badStorefront])
        #expect(file.faults.allSatisfy { $0.message.contains("1,5") })
    }

    @Test(arguments: [";", "\t"])
    func fileOfTheCentralBank_withDecimalCommas_isRead(separator: String) throws {
        let file = try read(
            "Date@USD@JPY\n2026-10-02@1,0876@163,45\n".replacing("@", with: separator))

        #expect(file.faults.isEmpty)
        #expect(file.rows.map(\.rule.words).map { $0.prefix(6) } == ["1.0876", "163.45"])
    }

    @Test func applesTable_withWrongRows_namesEachFaultOnce() throws {
        let file = try read("ISO,cur,non-annual,annual\nZZZ,eur,5,50\nDEU,EUR,,\nDEU,EUR,5 €,x\n")

        #expect(
            file.faults.map { "\($0.line) \($0.code.rawValue)" } == [
                "2 unknown_storefront", "2 bad_currency", "3 bad_amount", "4 bad_amount",
                "4 bad_amount",
            ])
    }

    @Test func row_withSeveralFaults_namesThemAll() throws {
        let file = try read(Self.header + "threshold,DE,eur,yearly,-5,,,2,,1.12.2026,ecb\n")

        #expect(
            file.faults.map(\.code) == [
                .unexpectedCell, .badStorefront, .badCurrency, .badPeriodKind, .badAmount, .badDate,
                .badSource,
            ])
    }

    @Test func header_withSeveralUnknownColumns_namesThemAll() {
        #expect {
            try read("rule,storefrnt,curency\nx,y,z\n")
        } throws: {
            ($0 as? BatchFileError)?.message == "there is no column 'storefrnt', 'curency'"
        }
    }
}
