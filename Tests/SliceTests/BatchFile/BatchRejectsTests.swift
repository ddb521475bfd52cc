import Batches
import Pricing
import Testing

struct BatchRejectsTests {
    @Test func rejects_whenReadAgain_areTheSameRows() throws {
        let text = #"""
            original_transaction_id,sku,price,currency,storefront,dependent_skus,expected_price,effective_on_or_after
            1,"A,""x""",12.990,USD,USA,B;C,9.99,2027-02-28
            2,B,1200,JPY,,,,
            x,"C,c",12.99,USD,,,,
            """#
        let batch = try BatchText(text)
        let writer = RejectsWriter(columns: batch.columns, priceUnit: .decimal)
        let fault = RowFault(.noChange, "it \"already\" costs that, too", remedy: "remove it")

        var rejects = writer.header
        for entry in batch.entries {
            switch entry {
            case .row(let row): rejects += writer.line(row, fault)
            case .spoiled(let row): rejects += writer.line(row)
            }
        }
        let again = try BatchText(rejects)

        #expect(again.rows == batch.rows)
        #expect(again.spoiled == batch.spoiled)
        #expect(
            rejects.hasPrefix(
                "original_transaction_id,sku,price,currency,storefront,dependent_skus,"
                    + "expected_price,effective_on_or_after,reject_code,reject_reason,faults\r\n"
                    + "1,\"A,\"\"x\"\"\",12.99,USD,USA,B;C,9.99,2027-02-28,no_change,"
                    + "\"it \"\"already\"\" costs that, too; remove it\",no_change\r\n"))
    }

    @Test func rejects_whenARowHasAnExtraCell_nameItInTheReason() throws {
        let batch = try BatchText(
            "original_transaction_id,sku,price,currency\n1,A,1.00,USD,surplus\n")
        let writer = RejectsWriter(columns: batch.columns, priceUnit: .decimal)

        let line = writer.line(try #require(batch.spoiled.first))

        #expect(line.hasPrefix("1,A,1.00,USD,malformed_row,"))
        #expect(line.contains("surplus"))
    }

    @Test(arguments: [
        "original_transaction_id,sku,price,currency", "currency,sku,price,original_transaction_id",
        "sku,original_transaction_id,price,currency",
    ])
    func rejects_ofARowThatCannotBeCut_holdItAndAreRefusedUntilMended(header: String) throws {
        let batch = try BatchText("\(header)\n1,\"A\"B,1.00,USD\n")
        let writer = RejectsWriter(columns: batch.columns, priceUnit: .decimal)

        let line = writer.line(try #require(batch.spoiled.first))
        let again = try BatchText(writer.header + line)

        #expect(line.hasPrefix("\"1,\"\"A\"\"B,1.00,USD\",,,,malformed_row,"))
        #expect(again.rows.isEmpty)
        #expect(again.entries.count == 1)
    }

    @Test func rejects_whichASpreadsheetWouldRun_beginWithAnApostropheUntilReadAgain() throws {
        let batch = try BatchText(
            "original_transaction_id,sku,price,currency\n1,=A,1.00,USD\n@2,-B,-5,+C\n3,'+D,1.00,USD\n"
        )
        let writer = RejectsWriter(columns: batch.columns, priceUnit: .decimal)
        let fault = RowFault(.unknownItem, "=A is not set to renew", remedy: "b")

        let lines = batch.rows.map { writer.line($0, fault) } + batch.spoiled.map(writer.line)
        let again = try BatchText(writer.header + lines.joined())

        #expect(batch.rows.map(\.sku) == ["=A", "+D"])
        #expect(lines[0].hasPrefix("1,'=A,1,USD,unknown_item,'=A is not set to renew; b"))
        #expect(lines[1].hasPrefix("3,'+D,"))
        #expect(lines[2].hasPrefix("'@2,'-B,-5,'+C,"))
        #expect(again.rows.map(\.sku) == batch.rows.map(\.sku))
        #expect(again.spoiled.map(\.cells) == batch.spoiled.map(\.cells))
    }

    @Test func rejects_whenInMilliunits_keepTheUnit() throws {
        let batch = try BatchText(
            "original_transaction_id,sku,price_milliunits,currency\n1,A,12990,USD\n")
        let writer = RejectsWriter(columns: batch.columns, priceUnit: .milliunits)

        let line = writer.line(
            try #require(batch.rows.first), RowFault(.drifted, "a", remedy: "b"))

        #expect(line == "1,A,12990,USD,drifted,a; b,drifted\r\n")
    }
}
