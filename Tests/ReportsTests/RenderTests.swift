import Pricing
import Testing

@testable import Reports

@Suite struct RenderTests {
    static let columns = [
        ReportColumn(name: "batch_id", kind: .text, meaning: "The batch."),
        ReportColumn(name: "batch_name", kind: .text, meaning: ""),
        ReportColumn(name: "currency", kind: .text, meaning: ""),
        ReportColumn(
            name: "uplift_per_month_milliunits", kind: .integer, meaning: "Money <a month>"),
        ReportColumn(name: "lost_per_month_milliunits", kind: .integer, meaning: ""),
        ReportColumn(name: "rate_basis_points", kind: .integer, meaning: ""),
        ReportColumn(name: "is_ok", kind: .boolean, meaning: ""),
        ReportColumn(name: "dependent_skus", kind: .list, meaning: ""),
    ]

    static func render(
        _ rows: [[String?]], as format: ReportFormat, name: ReportName = .revenueImpact
    ) -> String {
        var renderer = ReportRenderer(ReportQuery(name), format: format)
        let head = renderer.begin(columns)
        let body = rows.map { renderer.add([$0]) }.joined()
        return head + body + renderer.end()
    }

    @Test func csv_whenCellsNeedQuotes_quotesThem() {
        let rows: [[String?]] = [
            ["b", "a \"big\", one\nline", "USD", "12990", "0", nil, "true", "{A,\"B;C\"}"],
            ["c", "", "JPY", "-310000", "0", "1234", "false", nil],
        ]

        let text = Self.render(rows, as: .csv)

        let expected =
            "batch_id,batch_name,currency,uplift_per_month_milliunits,lost_per_month_milliunits,"
            + "rate_basis_points,is_ok,dependent_skus\r\n"
            + "b,\"a \"\"big\"\", one\nline\",USD,12990,0,,true,\"{A,\"\"B;C\"\"}\"\r\n"
            + "c,\"\",JPY,-310000,0,1234,false,\r\n"
        #expect(text == expected)
    }

    @Test(arguments: ["=HYPERLINK(1)", "+1", "-1", "@x", "\t=1", "'=1"])
    func csv_whenATextWouldRunAsAFormula_beginsWithAnApostrophe(_ name: String) {
        var renderer = ReportRenderer(ReportQuery(.batchSummary), format: .csv)
        _ = renderer.begin([
            ReportColumn(name: "name", kind: .text, meaning: ""),
            ReportColumn(name: "net", kind: .integer, meaning: ""),
        ])

        #expect(renderer.add([[name, "-5"]]) == "'\(name),-5\r\n")
    }

    @Test(arguments: ["\r=1", "\n=1", "\r\n=1"])
    func csv_whenATextBeginsWithALineEnd_isQuotedAndBeginsWithAnApostrophe(_ name: String) {
        let row: [String?] = [name, nil, nil, nil, nil, nil, nil, nil]

        #expect(Self.render([row], as: .csv).hasSuffix("\"'\(name)\",,,,,,,\r\n"))
    }

    @Test func csv_whenCarriageReturnAndLineFeedAreOneCharacter_quotesStill() {
        let row: [String?] = ["b", "a\r\nb", nil, nil, nil, nil, nil, nil]

        let text = Self.render([row], as: .csv)

        #expect(text.hasSuffix("b,\"a\r\nb\",,,,,,\r\n"))
    }

    @Test func json_whenRowsComeInPieces_isOneObject() {
        let rows: [[String?]] = [
            ["b", "q\"\\\n\u{1}", "USD", "9007199254740993", "0", nil, "true", "{A,\"B;C\"}"],
            ["c", nil, nil, nil, nil, nil, nil, "{}"],
        ]

        let text = Self.render(rows, as: .json)

        let first =
            #"{"batch_id":"b","batch_name":"q\"\\\n\u0001","currency":"USD","#
            + #""uplift_per_month_milliunits":9007199254740993,"lost_per_month_milliunits":0,"#
            + #""rate_basis_points":null,"is_ok":true,"dependent_skus":["A","B;C"]}"#
        let second =
            #"{"batch_id":"c","batch_name":null,"currency":null,"#
            + #""uplift_per_month_milliunits":null,"lost_per_month_milliunits":null,"#
            + #""rate_basis_points":null,"is_ok":null,"dependent_skus":[]}"#
        #expect(
            text == #"{"report":"revenue_impact","batch_id":null,"as_of":null,"rows":["#
                + "\n\(first),\n\(second)\n]}\n")
    }

    @Test func table_whenMoneyHasCurrency_usesItsDecimals() {
        let rows: [[String?]] = [
            ["b", "x", "USD", "12990", "5", "1234", "true", nil],
            ["c", "y\u{1B}[31m", "JPY", "-310000", nil, "5", "false", nil],
        ]

        let text = Self.render(rows, as: .table)

        #expect(
            text == """
                batch_name  currency  uplift_per_month  lost_per_month  rate_%  is_ok  dependent_skus
                ----------  --------  ----------------  --------------  ------  -----  --------------
                x           USD                  12.99            0.01   12.34  yes
                y\u{FFFD}[31m      JPY                   -310                    0.05  no

                """)
    }

    @Test(arguments: [
        ("138092416", "JPY", "138,092"), ("138092500", "JPY", "138,093"), ("-499", "JPY", "0"),
        ("172857", "AUD", "172.86"), ("-172855", "AUD", "-172.86"),
        ("1234567891", "USD", "1,234,567.89"),
        ("1000000", "EUR", "1,000.00"), ("4", "USD", "0.00"), ("1005", "XXX", "1.005"),
        ("\(Int64.min)", "USD", "-9,223,372,036,854,775.81"),
        ("\(Int64.max)", "JPY", "9,223,372,036,854,776"),
    ])
    func table_ofMoney_isRoundedToTheCurrency(milliunits: String, currency: String, shown: String) {
        let text = Self.render([["b", "x", currency, milliunits, nil, nil, nil, nil]], as: .table)

        #expect(text.split(separator: "\n").last?.split(separator: " ").last == shown[...])
    }

    @Test func table_ofSeveralRows_addsUpEachCurrency_andCSVDoesNot() {
        let rows: [[String?]] = [
            ["b", "x", "USD", "12990", "1000", "1234", "true", nil],
            ["b", "x", "JPY", "1000000", "0", nil, "true", nil],
            ["b", "x", "USD", "-2990", nil, "1234", "true", nil],
        ]

        let text = Self.render(rows, as: .table).split(separator: "\n").suffix(2)

        #expect(text.first?.split(separator: " ") == ["total", "JPY", "1,000", "0"])
        #expect(text.last?.split(separator: " ") == ["total", "USD", "10.00", "1.00"])
        #expect(!Self.render(rows, as: .csv).contains("total"))
        #expect(Self.render(rows, as: .html).contains("<tfoot><tr><th scope=\"row\">total</th>"))
        #expect(!Self.render([rows[0], rows[1]], as: .html).contains("<tfoot>"))
    }

    /// Neither a number of the table nor one of the chart stops at 64 bits without a word.
    @Test func sums_beyond64Bits_areExact() {
        let row: [String?] = [
            "b", "x", "USD", "\(Int64.max)", "\(Int64.max)", nil, "true", "{\"A\",\"B\"}",
        ]

        let table = Self.render([row, row, row], as: .table).split(separator: "\n")
        let page = Self.render([row, row, row], as: .html)

        let sum = "27,670,116,110,564,327.42"
        #expect(table.last?.split(separator: " ") == ["total", "USD", sum[...], sum[...]])
        #expect(table.dropLast().last?.hasSuffix("A;B") == true)
        #expect(page.contains("+27,670,116,110,564,327.42 USD"))
        #expect(page.contains("-27,670,116,110,564,327.42 USD"))
    }

    @Test(arguments: [
        ("2026-12-01T00:00:00.123987Z", "2026-12-01T00:00:00.123Z"),
        ("2026-12-01T00:00:00.000987Z", "2026-12-01T00:00:00Z"),
        ("2026-12-01T00:00:00Z", "2026-12-01T00:00:00Z"), ("infinity", ""),
    ])
    func table_ofInstants_showsMilliseconds(cell: String, shown: String) {
        var renderer = ReportRenderer(ReportQuery(.pendingConsent), format: .table)
        _ = renderer.begin([
            ReportColumn(name: "sku", kind: .text, meaning: ""),
            ReportColumn(name: "consent_due_at", kind: .instant, meaning: ""),
        ])
        _ = renderer.add([["A", cell]])

        let words = renderer.end().split(separator: "\n").last?.split(separator: " ")
        #expect(words == (shown.isEmpty ? ["A"] : ["A", shown[...]]))
    }

    @Test func table_whenThereAreNoRows_saysSo() {
        #expect(Self.render([], as: .table) == "Revenue impact, tax included: no rows\n")
    }

    @Test func html_whenCellsHoldMarkup_escapesThem() {
        let row: [String?] = [
            "b", "<script>alert('&')</script>", "USD", "12990", "0", nil, "true", nil,
        ]

        let text = Self.render([row], as: .html)

        #expect(!text.contains("<script"))
        #expect(text.contains("&lt;script&gt;alert(&#39;&amp;&#39;)&lt;/script&gt;"))
        #expect(text.contains("<dd>Money &lt;a month&gt;</dd>"))
        #expect(text.contains(">12.99 USD</td>"))
    }

    @Test func html_whenRevenueHasTwoCurrencies_givesEachItsOwnScale() {
        let rows: [[String?]] = [
            ["b", "x", "USD", "1000", "500", nil, nil, nil],
            ["b", "x", "JPY", "300000", "-0", nil, nil, nil],
            ["b", "x", "USD", "1000", "500", nil, nil, nil],
        ]

        let text = Self.render(rows, as: .html)

        #expect(text.contains("<strong>Effect on revenue a month</strong>"))
        #expect(text.contains("<td class=\"number\">+2.00 USD</td>"))
        #expect(text.contains("<td class=\"number\">-1.00 USD</td>"))
        #expect(text.contains("<td class=\"number\">+300 JPY</td>"))
        #expect(text.contains("<rect class=\"gain\" width=\"1000\""))
        #expect(text.contains("<rect class=\"loss\" width=\"500\""))
    }

    @Test func html_whenSumsOverflow_staysInRange() {
        let row: [String?] = ["b", "x", "USD", "\(Int64.max)", "\(Int64.min)", nil, nil, nil]

        let text = Self.render([row, row], as: .html)

        #expect(text.contains("<rect class=\"gain\" width=\"1000\""))
    }

    @Test func html_whenThereAreTooManyRows_saysWhereTheRestIs() {
        let row: [String?] = ["b", "x", "USD", "0", "0", nil, nil, nil]
        let rows = Array(repeating: row, count: htmlRowsMax + 1)

        let text = Self.render(rows, as: .html)

        #expect(text.contains("The first 2,000 rows; CSV holds all of them."))
        #expect(text.split(separator: "<tr><th scope=\"row\">x</th>").count - 1 == htmlRowsMax)
    }

    @Test(arguments: [
        ("batch_summary", ReportName.batchSummary), ("batch-summary", .batchSummary),
        ("Consent-Funnel", .consentFunnel), ("reconciliation", .reconciliation),
    ])
    func reportName_whenTypedEitherWay_isFound(_ typed: String, _ expected: ReportName) {
        #expect(ReportName(argument: typed) == expected)
    }

    @Test func reportName_whenUnknown_isNil() {
        #expect(ReportName(argument: "batch summary") == nil)
    }

    /// Who reads the word takes the date at it for the present one.
    @Test(arguments: [1, 3, 40, 97])
    func curve_hasTheWordNow_atItsLine_clearOfTheGridsNumbers(day: Int) throws {
        let days = [CivilDate("2026-01-01"), CivilDate("2026-04-10")].compactMap { $0 }
        let points = zip(days, [7, 15]).map { (day: $0, value: Int64($1)) }
        let now =
            try #require(Instant("2026-01-01T00:00:00Z")).milliseconds + Int64(day) * 86_400_000
        let chart = Curve(
            "Changes", unit: "rows", [.init("In effect", .fact, points)],
            now: Instant(milliseconds: now)
        ).html.markup

        let line = try #require(
            chart.firstMatch(of: /<line class="now" x1="([0-9.]+%)" x2="\1" y1="(\d+)"/))
        let word = try #require(chart.firstMatch(of: /<text x="([0-9.]+%)" y="(\d+)"([^>]*)>now</))
        let number = try #require(chart.firstMatch(of: /<text x="2" y="(\d+)">15</))
        #expect(word.1 == line.1)
        #expect(!word.3.contains("dx"))
        let (baseline, first) = (try #require(Int(word.2)), try #require(Int(number.1)))
        #expect(first - baseline >= 14, "the word at \(baseline), the number at \(first)")
    }

    /// A page that ends between a name and its value, or below a title, leaves a figure that nobody can read.
    @Test func style_keepsTogetherOnPaper_whatIsReadTogether() throws {
        let served = HTMLDocument(title: "t", body: "").text
        let paper = served[try #require(served.firstRange(of: "@media print")).upperBound...]

        for (part, rule) in [
            (".facts>div", "break-inside:avoid"), (".curve", "break-inside:avoid"),
            (".bars", "break-inside:avoid"), ("h3", "break-after:avoid"),
            ("thead", "break-after:avoid"), ("figcaption", "break-after:avoid"),
            ("tbody>tr:first-child", "break-before:avoid"),
        ] {
            let isKept = paper.split(separator: "}").contains { block in
                let sides = block.split(separator: "{")
                let names = (sides.first ?? "").split { ",\n ".contains($0) }
                return sides.count == 2 && sides[1].contains(rule) && names.contains { $0 == part }
            }
            #expect(isKept, "\(part) \(rule)")
        }
    }
}
