import Batches
import Pricing
import Testing

struct BatchCSVTests {
    static let header = "original_transaction_id,sku,price,currency"
    static let full =
        header + ",storefront,dependent_skus,expected_price,effective_on_or_after"

    @Test func row_whenComplete_holdsEachCell() throws {
        let batch = try BatchText(
            Self.full + "\n2000000012345678,AD_FREE_1M,12.990,USD,USA,B;C;B,9.99,2027-02-28\n")

        #expect(
            batch.rows == [
                BatchRow(
                    line: 2, originalTransactionID: "2000000012345678", sku: "AD_FREE_1M",
                    newPrice: 12_990, currency: "USD", storefront: "USA",
                    dependentSKUs: ["B", "C"], expectedPrice: 9990,
                    effectiveOnOrAfter: CivilDate("2027-02-28"))
            ])
    }

    @Test(arguments: [1, 2, 3, 65_536])
    func file_whenFromASpreadsheet_isReadWithPhysicalLines(chunkBytes: Int) throws {
        let text =
            "\u{FEFF}\r\n" + Self.header + "\r\n\r\n1,\"A,\"\"x\"\"\",1.00,USD\r\n"
            + "2,\"B\r\nC\",1.00,USD\r\n\r\n3,D,1.00,USD"

        let batch = try BatchText(text, chunkBytes: chunkBytes)

        #expect(batch.outline == ["4", "5 malformed_row", "6 malformed_row", "8"])
        #expect(batch.rows.map(\.sku) == ["A,\"x\"", "D"])
    }

    @Test func columns_whenInAnyOrder_areFoundByName() throws {
        let batch = try BatchText(
            "currency,price_milliunits,sku,reject_reason,original_transaction_id,reject_code\n"
                + "USD,12990,A,\"old, reason\",1,bad_price\n")

        #expect(batch.rows.map(\.newPrice) == [12_990])
        #expect(
            batch.columns.map(\.rawValue) == [
                "currency", "price_milliunits", "sku", "original_transaction_id",
            ])
    }

    @Test(arguments: [
        ("", BatchFileError.Code.emptyFile), ("\n\r\n", .emptyFile),
        ("original_transaction_id,sku,price,currency,colour\n", .unknownColumn),
        ("original_transaction_id,sku,price,currency,\n", .unknownColumn),
        ("original_transaction_id,sku,price,currency,sku\n", .duplicateColumn),
        ("original_transaction_id,price,currency\n", .missingColumn),
        ("original_transaction_id,sku,currency\n", .priceColumns),
        ("original_transaction_id,sku,price,price_milliunits,currency\n", .priceColumns),
        ("original_transaction_id;sku;price;currency\n", .badHeader),
        ("\"original_transaction_id,sku\n1,2\n", .badHeader),
        ("original_transaction_id,sku,price,currency\r1,A,1.00,USD\r", .badHeader),
        ("Spring price list,,,\noriginal_transaction_id,sku,price,currency\n", .badHeader),
    ])
    func header_whenWrong_makesTheFileUnusable(text: String, expected: BatchFileError.Code) {
        let error = #expect(throws: BatchFileError.self) { try BatchText(text) }

        #expect(error?.code == expected)
        #expect(error?.description.hasPrefix("batch.csv:") == true)
    }

    @Test func file_whenUTF16_isNamedAsSuch() {
        let error = #expect(throws: BatchFileError.self) {
            try BatchText([0xFF, 0xFE, 0x6F, 0x00])
        }

        #expect(error?.code == .badEncoding)
        #expect(
            error?.description == "batch.csv:1: bad_encoding: the file is UTF-16; save it as UTF-8")
    }

    @Test func file_whenAbsent_isUnreadable() {
        let error = #expect(throws: BatchFileError.self) {
            try FileByteSource(path: "/nonexistent/batch.csv")
        }

        #expect(error?.code == .unreadableFile)
    }

    @Test(arguments: [
        ("1,A,1.00", RowCode.malformedRow), ("1,A,1.00,USD,x", .malformedRow),
        ("1,A\u{0},1.00,USD", .malformedRow), ("1,\"A\"b,1.00,USD", .malformedRow),
        ("1,A\"b,1.00,USD", .malformedRow), (",A,1.00,USD", .badTransactionID),
        ("2.0E+15,A,1.00,USD", .badTransactionID), ("\"2,0E+15\",A,1.00,USD", .badTransactionID),
        ("12x,A,1.00,USD", .badTransactionID), ("\u{A0}12,A,1.00,USD", .badTransactionID),
        ("-12,A,1.00,USD", .badTransactionID), ("١٢,A,1.00,USD", .badTransactionID),
        ("1,,1.00,USD", .badSKU), ("1,\u{A0}A,1.00,USD", .badSKU), ("1,A\tB,1.00,USD", .badSKU),
        ("1,A,,USD", .badPrice), ("1,A,-1,USD", .badPrice), ("1,A,0,USD", .badPrice),
        ("1,A,1e2,USD", .badPrice), ("1,A,\"1,299.00\",USD", .badPrice),
        ("1,A,99999999999999999999,USD", .badPrice), ("1,A,$5,USD", .badPrice),
        ("1,A,1000000000000.01,USD", .badPrice),
        ("1,A,12.995,USD", .priceDecimals), ("1,A,310.95,JPY", .priceDecimals),
        ("1,A,12.9955,XXX", .priceDecimals), ("1,A,12.99,XXX", .unknownCurrency),
        ("1,A,12.99,usd", .unknownCurrency), ("1,A,12.99,", .unknownCurrency),
        ("x,,0,", .badTransactionID), ("1,,0,", .badSKU), ("1,A,0,", .badPrice),
    ])
    func row_whenSpoiled_hasTheFirstCode(line: String, expected: RowCode) throws {
        let batch = try BatchText(Self.header + "\n" + line + "\n9,GOOD,1.00,USD\n")

        #expect(batch.outline == ["2 \(expected.rawValue)", "3"])
    }

    @Test(arguments: [
        ("B;;C;", ["B", "C"]), ("", []), ("B", ["B"]),
    ])
    func dependents_whenListed_countOnce(cell: String, expected: [String]) throws {
        let batch = try BatchText(Self.full + "\n1,A,1.00,USD,,\(cell),,\n")

        #expect(batch.rows.map(\.dependentSKUs) == [expected])
    }

    @Test(arguments: [
        ("USA,B;\u{A0}C,,", RowCode.badSKU), (",,x,", .badPrice), (",,0,", .badPrice),
        (",,9.9955,", .badPrice), (",,,2026-02-29", .malformedRow),
        (",,,28.02.2027", .malformedRow),
        (",,,2027-02-28T00:00:00Z", .malformedRow),
    ])
    func optionalCell_whenWrong_hasItsCode(cells: String, expected: RowCode) throws {
        let batch = try BatchText(Self.full + "\n1,A,1.00,USD,\(cells)\n")

        #expect(batch.outline == ["2 \(expected.rawValue)"])
    }

    @Test func sku_whenAtTheLimit_isTaken() throws {
        let longest = String(repeating: "é", count: 128)

        let batch = try BatchText(
            Self.header + "\n1,\(longest),1.00,USD\n1,\(longest)x,1.00,USD\n")

        #expect(batch.outline == ["2", "3 bad_sku"])
    }

    @Test func mangledID_whenFromASpreadsheet_isNamedAsSuch() throws {
        let batch = try BatchText(Self.header + "\n2.0E+15,A,1.00,USD\n")

        #expect(batch.spoiled[0].fault.message.contains("spreadsheet"))
        #expect(
            batch.spoiled[0].fault.text(file: "b.csv", line: batch.spoiled[0].line)
                .hasPrefix("b.csv:2: bad_transaction_id: "))
        #expect(batch.spoiled[0].plan.json.contains(#""original_transaction_id":"2.0E+15""#))
    }

    @Test func row_whenNotUTF8_isMalformedAlone() throws {
        let text = Array((Self.header + "\n1,").utf8) + [0xC3, 0x28] + Array(",1.00,USD\n".utf8)

        let batch = try BatchText(text + Array("2,B,1.00,USD\n".utf8))

        #expect(batch.outline == ["2 malformed_row", "3"])
    }

    @Test func quote_whenNeverClosed_costsItsOwnLineAlone() throws {
        let good = (3...250).map { "\($0),S,1.00,USD\n" }.joined()

        let batch = try BatchText(Self.header + "\n2,\"A,1.00,USD\n" + good)

        #expect(batch.outline == ["2 malformed_row"] + (3...250).map { "\($0)" })
    }

    @Test func quote_whenClosedInALaterRow_costsItsOwnLineAlone() throws {
        let batch = try BatchText(
            Self.header + "\n2,\"A,1.00,USD\n3,B,1.00,USD\n4,\"C\",1.00,USD\n")

        #expect(batch.outline == ["2 malformed_row", "3", "4"])
    }

    /// Quotes that close one another over several rows would make one row of them, and the others would be gone.
    @Test(arguments: [
        "1,A,1.00,USD,,,\"see Tim,\n2,B,1.00,USD,,,\n3,C,1.00,USD,,,ok\",\n4,D,1.00,USD,,,\n",
        "1,A,1.00,USD,,,\"two\nlines\",\n2,B,1.00,USD,,,\n3,C,1.00,USD,,,\"x\n4,D,1.00,USD,,,\"\n",
    ])
    func quotes_thatEncloseLineBreaks_loseNoRow(rows: String) throws {
        let header = Self.header + ",reject_code,reject_reason,faults"
        let batch = try BatchText(header + "\n" + rows)

        let lines = rows.split(separator: "\n").count
        #expect(batch.outline.count == lines, "\(batch.outline)")
        #expect(batch.spoiled.allSatisfy { $0.fault.code == .malformedRow })
        #expect(batch.spoiled.first?.fault.message.contains("not closed on its line") == true)
    }

    @Test func line_whenTenMegabytesLong_isMalformedAlone() throws {
        let long = String(repeating: "x", count: 10_000_000)

        let batch = try BatchText(
            Self.header + "\n1,\(long),1.00,USD\n2,B,1.00,USD\n3,\"\(long)\n4,D,1.00,USD\n",
            chunkBytes: 65_536)

        #expect(batch.outline == ["2 malformed_row", "3", "4 malformed_row", "5"])
    }

    @Test func digest_whenTheFileWasRead_isThatOfItsBytes() throws {
        let source = DigestingByteSource(MemoryByteSource(Array("abc".utf8), chunkBytes: 2))

        while try !source.read().isEmpty {}

        #expect(
            source.hexadecimalDigest
                == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    }
}
