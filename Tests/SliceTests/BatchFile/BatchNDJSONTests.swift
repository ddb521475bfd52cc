import Pricing
import Testing

struct BatchNDJSONTests {
    static let good = #"{"original_transaction_id":"1","sku":"A","price":"12.99","currency":"USD"}"#

    @Test func row_whenComplete_holdsEachValue() throws {
        let batch = try BatchText(
            #"""
            {"original_transaction_id":"1","sku":"\u00c4\ud83d\ude00","price_milliunits":12990, "currency":"USD",
            """#.replacing("\n", with: "")
                + #""storefront":"USA","dependent_skus":["B","C;D"],"expected_price":9990,"#
                + #""effective_on_or_after":"2027-02-28","reject_code":null}"#)

        #expect(
            batch.rows == [
                BatchRow(
                    line: 1, originalTransactionID: "1", sku: "Ä😀", newPrice: 12_990,
                    currency: "USD", storefront: "USA", dependentSKUs: ["B", "C;D"],
                    expectedPrice: 9990, effectiveOnOrAfter: CivilDate("2027-02-28"))
            ])
    }

    @Test func lines_whenEmpty_areCountedAndSkipped() throws {
        let batch = try BatchText("\u{FEFF}\n\(Self.good)\r\n\n  \n\(Self.good)")

        #expect(batch.outline == ["2", "5"])
    }

    @Test(arguments: [
        ("{", RowCode.malformedRow), ("[]", .malformedRow), ("{}", .malformedRow),
        (good + "x", .malformedRow), ("null", .malformedRow),
        (good.replacing("\"A\"", with: "\"A"), .malformedRow),
        (good.replacing("\"A\"", with: "\"\\u0000\""), .malformedRow),
        (good.replacing("\"A\"", with: "\"\\ud83d\""), .malformedRow),
        (good.replacing("\"A\"", with: "{\"x\":1}"), .malformedRow),
        (good.replacing("sku", with: "SKU"), .malformedRow),
        (good.replacing("}", with: ",\"sku\":\"B\"}"), .malformedRow),
        (good.replacing("}", with: ",\"price_milliunits\":1}"), .malformedRow),
        (good.replacing("}", with: ",\"effective_on_or_after\":\"soon\"}"), .malformedRow),
        (good.replacing("}", with: ",\"storefront\":1}"), .malformedRow),
        (good.replacing("\"currency\":\"USD\"", with: "\"currency\":null"), .malformedRow),
        (good.replacing("\"1\"", with: "1"), .badTransactionID),
        (good.replacing("\"1\"", with: "\"2.0E+15\""), .badTransactionID),
        (good.replacing("\"A\"", with: "true"), .badSKU),
        (good.replacing("\"A\"", with: "\"\""), .badSKU),
        (good.replacing("\"12.99\"", with: "12.99"), .badPrice),
        (good.replacing("}", with: ",\"expected_price\":9.99}"), .badPrice),
        (good.replacing("12.99", with: "12.995"), .priceDecimals),
        (good.replacing("USD", with: "XXX"), .unknownCurrency),
    ])
    func line_whenSpoiled_hasItsCode(line: String, expected: RowCode) throws {
        let batch = try BatchText(Self.good + "\n" + line + "\n" + Self.good)

        #expect(batch.outline == ["1", "2 \(expected.rawValue)", "3"])
    }

    @Test(arguments: ["12.99", "-5", "1e3", "0", "\"12990\"", "99999999999999999999"])
    func milliunits_whenNotAPositiveInteger_areABadPrice(value: String) throws {
        let line =
            #"{"original_transaction_id":"1","sku":"A","price_milliunits":\#(value),"currency":"USD"}"#

        #expect(try BatchText(line).outline == ["1 bad_price"])
    }

    @Test func optionalValues_whenEmpty_countAsLeftOut() throws {
        let batch = try BatchText(
            Self.good.replacing(
                "}",
                with: #","storefront":"","expected_price":"","effective_on_or_after":""}"#))

        #expect(batch.outline == ["1"])
        #expect(batch.rows.map(\.expectedPrice) == [nil])
    }

    @Test func lines_afterASpoiledFirstOne_keepTheirUnit() throws {
        let row = Self.good.replacing("\"price\":\"12.99\"", with: "\"price_milliunits\":12990")

        let batch = try BatchText("{oops\n{}\n\n\(row)\n\(Self.good)")

        #expect(
            batch.outline == ["1 malformed_row", "2 malformed_row", "4", "5 malformed_row"])
        #expect(batch.rows.map(\.newPrice) == [12_990])
    }

    @Test func line_whenNotUTF8_isMalformed() throws {
        let bad = Array(Self.good.utf8).map { $0 == UInt8(ascii: "A") ? 0xFF : $0 }

        #expect(
            try BatchText(bad + [10] + Array(Self.good.utf8)).outline == ["1 malformed_row", "2"])
    }
}
