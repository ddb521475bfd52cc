import Pricing
import Testing

@testable import Batches

/// All that is wrong with a row's own cells, and what is not wrong: blanks and lines of separators.
struct BatchFaultsTests {
    private static let header =
        "original_transaction_id,sku,price,currency,storefront,dependent_skus,expected_price,"
        + "effective_on_or_after\n"

    private func codes(_ text: String) throws -> [[RowCode]] {
        try BatchText(text).spoiled.map(\.plan.cellFaults)
    }

    @Test(arguments: [
        (
            "x,,0,,,,,soon",
            ["malformed_row", "bad_transaction_id", "bad_sku", "bad_price", "unknown_currency"]
        ),
        ("1,A,12.995,XXX,,,,", ["unknown_currency"]),
        ("1,A,1.23456,XXX,,,,", ["price_decimals", "unknown_currency"]),
        ("1,A,1.5,JPY,,,0,", ["bad_price", "price_decimals"]),
        ("1,A,0,USD,,a\u{A0};x/B,-1,", ["bad_sku", "bad_price"]),
        ("1,A,0,USD,,B;1/A,,", ["bad_price", "dependent_self"]),
        ("1,,0,USD,,A,,", ["bad_sku", "bad_price"]),
        ("1,A,1.00", ["malformed_row"]),
    ])
    func faults_ofARow_areAllOfItsCells_inTheOrderOfTheCodes(
        _ row: String, _ expected: [String]
    ) throws {
        #expect(try codes(Self.header + row).map { $0.map(\.rawValue) } == [expected])
    }

    /// A refused row shows what its other cells say.
    @Test(
        arguments: [
            ("1,A,0,USD,CAN,,,", "USD CAN -"), ("1,A,1.00,XXX,CAN,,,", "- CAN 1000"),
            ("1,A,0, ,,,,", "- - -"), ("1,A,0,USD,CAN", "- - -"),
            ("1,A,1.005,USD,CAN,,,", "USD CAN -"), ("1,A,1.00,USD,CAN,,,soon", "- - 1000"),
            ("1,A,1.00,USD,CAN,,0,", "USD CAN 1000"),
        ])
    func rowWithAFault_keepsWhatItsOtherCellsSay(_ row: String, _ expected: String) throws {
        let plans = try BatchText(Self.header + row).spoiled.map(\.plan)

        let said = plans.map { plan in
            [plan.currency, plan.storefront, plan.newPrice.map { "\($0)" }]
                .map { $0 ?? "-" }.joined(separator: " ")
        }
        #expect(said == [expected])
    }

    @Test(arguments: [
        ("1,A,0,USD,,,,2027-03-01", ["malformed_row", "bad_price"]),
        ("1,A,0,USD,,,,soon", ["malformed_row", "bad_price"]), ("1,A,0,USD,,,, ", ["bad_price"]),
    ])
    func faults_ofARowInTheSandbox_nameItsDateToo(_ row: String, _ expected: [String]) throws {
        let spoiled = try BatchText(Self.header + row).spoiled

        let judged = spoiled.map { $0.judged(in: .sandbox) }

        #expect(judged.map { $0.plan.cellFaults.map(\.rawValue) } == [expected])
        #expect(spoiled.map { $0.judged(in: .production) } == spoiled)
    }

    @Test(arguments: [
        (",A,1.00,USD,,,,", "bad_transaction_id: original_transaction_id is empty"),
        ("1,,1.00,USD,,,,", "bad_sku: sku is empty"),
        ("1,A, ,USD,,,,", "bad_price: price is empty"),
        ("1,A,1.00,\t,,,,", "unknown_currency: currency is empty"),
    ])
    func requiredCell_whenEmpty_hasItsOwnCode(_ row: String, _ said: String) throws {
        let faults = try BatchText(Self.header + row).spoiled.flatMap(\.faults)

        #expect(faults.map { "\($0.code.rawValue): \($0.message)" } == [said])
    }

    @Test(arguments: [
        ("10000-01-01", "is after the year 9999"), ("99999-12-31", "is after the year 9999"),
        ("10000-13-01", "is not a date"), ("0000-01-01", "is not a date"),
        ("1969-12-31", "is not a date"),
    ])
    func date_beyondTheCalendar_isSaidToBeSo(_ date: String, _ said: String) throws {
        let faults = try BatchText(Self.header + "1,A,1.00,USD,,,,\(date)").spoiled
            .flatMap(\.faults)

        #expect(faults.map(\.code) == [.malformedRow])
        #expect(faults.first?.message == "effective_on_or_after '\(date)' \(said)")
    }

    @Test func faults_ofALineOfNDJSON_areAllOfItsValues() throws {
        let batch = try BatchText(
            #"{"original_transaction_id":"x","sku":" ","price":"","colour":1}"#)

        let faults = try #require(batch.spoiled.first).faults
        #expect(
            faults.map(\.code) == [
                .malformedRow, .malformedRow, .badTransactionID, .badSKU, .badPrice,
            ])
        #expect(
            faults.map(\.message).prefix(2) == [
                "there is no column 'colour'", "currency is missing",
            ])
    }

    @Test func idThatIsTooLong_isNotCalledAnythingElse() throws {
        let id = String(repeating: "9", count: 65)
        let batch = try BatchText(
            "original_transaction_id,sku,price,currency\n\(id),A,1.00,USD\n")

        let fault = try #require(batch.spoiled.first?.faults.first)
        #expect(fault.code == .badTransactionID)
        #expect(fault.message.hasSuffix("has more than 64 digits"))
    }

    @Test func blanks_aroundCellsHeadersAndListElements_areIgnored() throws {
        let batch = try BatchText(
            " original_transaction_id ,\tsku,price , \"currency\"\t,dependent_skus\n"
                + "\t1 , \"A B\" , 12.99\t,USD , B ;\tC; ;\n")
        let lines = try BatchText(
            #"{"original_transaction_id":" 1","sku ":"A B\t","price":" 12.99","currency":"USD ","#
                + #""dependent_skus":["B "," C"]}"#)

        let row = BatchRow(
            line: 2, originalTransactionID: "1", sku: "A B", newPrice: 12_990, currency: "USD",
            dependentSKUs: ["B", "C"])
        #expect(batch.rows == [row])
        #expect(lines.rows.map(\.dependentSKUs) == [row.dependentSKUs])
        #expect(lines.rows.map(\.sku) == ["A B"])
    }

    @Test func linesOfSeparators_areEmptyLines() throws {
        let batch = try BatchText(
            ",,\n \t\noriginal_transaction_id,sku,price,currency\n,,,\n1,A,1.00,USD\n , ,\t,\n\"\",,,,,\n \n2,B,1.00,USD\n,,,,,,\n"
        )

        #expect(batch.outline == ["5", "9"])
        #expect(throws: BatchFileError.self) { try BatchText(",,,\n ,\n") }
    }

    @Test func item_ofASpoiledRow_isReadWhereItsCellsNameOne() throws {
        let batch = try BatchText(
            Self.header + "1,A,0,USD,,,,\n1,B\nx,A,0,USD,,,,\n1,\"A\"b,1,USD,,,,\n1,,1,USD,,,,\n")

        #expect(batch.spoiled.map { $0.item?.sku } == ["A", "B", nil, nil, nil])
    }

    @Test func rejects_nameEachFaultOnce_andTheColumnIsIgnoredWhenReadAgain() throws {
        let batch = try BatchText("original_transaction_id,sku,price,currency\nx,,0,USD\n")
        let writer = RejectsWriter(columns: batch.columns, priceUnit: .decimal)

        let text = writer.header + writer.line(try #require(batch.spoiled.first))

        #expect(text.hasSuffix(",bad_transaction_id bad_sku bad_price\r\n"))
        #expect(text.contains("; use the subscription's original transaction id | sku is empty;"))
        #expect(try BatchText(text).spoiled == batch.spoiled)
        #expect(try BatchText(text).columns == batch.columns)
    }

    @Test func outline_ofARowWhoseTwinIsSpoiled_holdsBoth() async throws {
        let text =
            "original_transaction_id,sku,price,currency\n1,A,1.00,USD\n1,A,x,USD\n1,B,,USD\n2,A,1.00,USD\n3,A,,USD\n"
        let outline = try await BatchOutline(
            BatchInput(Array(text.utf8), path: "batch.csv"),
            rules: RuleSet.shipped.inForce(at: Instant(milliseconds: 1_796_083_200_000)))

        #expect(outline.rows(of: "1").map(\.line) == [2, 3])
        #expect(outline.rows(of: "1").map(\.sku) == ["A", "A"])
        #expect(outline.rows(of: "2").map(\.line).count <= 1)
        #expect(outline.rows(of: "3").isEmpty)
    }
}
