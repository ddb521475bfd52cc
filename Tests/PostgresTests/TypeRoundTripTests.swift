import TestSupport
import Testing

@testable import Postgres

@Suite(.database)
struct TypeRoundTripTests {
    private static let nasty = [
        "", " ", "NULL", "null", "{}", "{,}", "a,b", #"quote " and \ backslash"#,
        "tab\tnewline\ncr\r",
        "\\N", "\\.", "'; DROP TABLE x; --", "$1", "日本語 🧾 e\u{301}", "\u{1}\u{7f}",
        String(repeating: "x", count: 100_000),
    ]

    @Test func text_whenNasty_comesBackAsItWas() async throws {
        let connection = try await TestDatabase.connect()

        for text in Self.nasty {
            let row = try await connection.query("SELECT \(text)::text AS value").one()

            #expect(try row.text("value") == text)
        }
    }

    @Test func textArray_whenNastyAndNull_comesBackAsItWas() async throws {
        let connection = try await TestDatabase.connect()
        let values: [String?] = Self.nasty.map { $0 } + [nil]

        let row = try await connection.query("SELECT \(texts: values) AS value").one()

        #expect(try row.optionalTexts("value") == values)
        #expect(throws: PostgresError.self) { try row.texts("value") }
    }

    @Test func textArray_whenLengthsDiffer_comesBackAsItWas() async throws {
        let connection = try await TestDatabase.connect()
        let values: [String?] = [nil, "", String(repeating: "long ", count: 3000), "é", nil, "b"]

        let row = try await connection.query("SELECT \(texts: values) AS value").one()

        #expect(try row.optionalTexts("value") == values)
    }

    @Test func emptyArrays_whenBound_comeBackEmpty() async throws {
        let connection = try await TestDatabase.connect()

        let row = try await connection.query(
            "SELECT \([String]()) AS texts, \([Int64]()) AS numbers, \(uuids: []) AS uuids"
        ).one()

        #expect(try row.texts("texts") == [])
        #expect(try row.int64s("numbers") == [])
        #expect(try row.texts("uuids") == [])
    }

    @Test func textWithNul_whenBound_isRefusedBeforeSending() async throws {
        let connection = try await TestDatabase.connect()

        for sql: SQL in [
            "SELECT \("a\0b")", "SELECT \(["a", "b\0"])", "SELECT \(json: "\"\0\"")",
            "SELECT \(jsons: ["\0"])",
        ] {
            await #expect { try await connection.query(sql) } throws: {
                ($0 as? PostgresError)?.code == .nulInText
            }
        }
        #expect(try await connection.query("SELECT 1 AS one").one().int("one") == 1)
    }

    @Test func integers_whenExtreme_comeBackAsTheyWere() async throws {
        let connection = try await TestDatabase.connect()

        let row = try await connection.query(
            """
            SELECT \(Int64.min) AS low, \(Int64.max) AS high, \(Int32.min) AS small, \(7) AS seven,
                \([Int64.min, 0, Int64.max]) AS numbers, \(ints: [1, nil]) AS gaps
            """
        ).one()

        #expect(try row.int64("low") == .min)
        #expect(try row.int64("high") == .max)
        #expect(try row.int64("small") == Int64(Int32.min))
        #expect(try row.int("seven") == 7)
        #expect(try row.int64s("numbers") == [.min, 0, .max])
        #expect(try row.optionalTexts("gaps") == ["1", nil])
    }

    @Test func otherScalars_whenBound_comeBackAsTheyWere() async throws {
        let connection = try await TestDatabase.connect()
        let bytes = (0...255).map { UInt8($0) }
        let id = "01890a5d-ac96-774b-bcce-b302099a8057"

        let row = try await connection.query(
            """
            SELECT \(true) AS yes, \(false) AS no, \(bytes) AS bytes, \([UInt8]()) AS nothing, \(uuid: id) AS id,
                \(uuids: [id, nil]) AS ids,
                \(json: #"{"a":[1,null,"\u00e9"]}"#) AS json, \(jsons: ["1", nil]) AS jsons,
                \(bools: [true, nil, false]) AS bools, \(blobs: [[0, 255], nil]) AS blobs
            """
        ).one()

        #expect(try row.bool("yes"))
        #expect(try !row.bool("no"))
        #expect(try row.bytes("bytes") == bytes)
        #expect(try row.bytes("nothing") == [])
        #expect(try row.text("id") == id)
        #expect(try row.optionalTexts("ids") == [id, nil])
        #expect(try row.text("json") == #"{"a": [1, null, "é"]}"#)
        #expect(try row.optionalTexts("jsons") == ["1", nil])
        #expect(try row.optionalTexts("bools") == ["t", nil, "f"])
        #expect(try row.optionalTexts("blobs") == [#"\x00ff"#, nil])
    }

    @Test func instants_whenBound_comeBackToTheMillisecond() async throws {
        let connection = try await TestDatabase.connect()
        let instants: [Int64] = [
            0, -1, 1, 999, 946_684_800_000, 951_782_400_000, 1_767_571_200_123, -62_135_596_800_000,
            253_402_300_799_999, 253_402_300_800_000,
        ]

        for instant in instants {
            let row = try await connection.query("SELECT \(timestamp: instant) AS at").one()

            #expect(try row.milliseconds("at") == instant)
        }
        let row = try await connection.query(
            "SELECT extract(epoch FROM x) AS s FROM unnest(\(timestamps: [1500, nil])) AS x"
        ).first
        #expect(try row?.text("s") == "1.500000")
    }

    @Test func instant_whenOutOfRangeOrInfinite_isTyped() async throws {
        let connection = try await TestDatabase.connect()

        await #expect { try await connection.query("SELECT \(timestamp: Int64.max)") } throws: {
            ($0 as? PostgresError)?.code == .unrepresentableValue
        }
        let row = try await connection.query("SELECT 'infinity'::timestamptz AS at").one()
        #expect { try row.milliseconds("at") } throws: {
            ($0 as? PostgresError)?.code == .undecodableColumn
        }
    }

    @Test func nulls_whenBound_areNull() async throws {
        let connection = try await TestDatabase.connect()
        let nothing: String? = nil

        let row = try await connection.query(
            """
            SELECT \(nothing)::text AS a, \(nil as Int64?) AS b, \(nil as Bool?) AS c,
                \(nil as [UInt8]?) AS d, \(timestamp: nil) AS e, \(uuid: nil) AS f, \(json: nil) AS g
            """
        ).one()

        #expect(try row.textOrNil("a") == nil)
        #expect(try row.int64OrNil("b") == nil)
        #expect(try row.boolOrNil("c") == nil)
        #expect(try row.bytesOrNil("d") == nil)
        #expect(try row.millisecondsOrNil("e") == nil)
        #expect(try row.textOrNil("f") == nil)
    }

    @Test func accessors_whenColumnDoesNotFit_sayWhy() async throws {
        let connection = try await TestDatabase.connect()
        let row = try await connection.query("SELECT NULL::text AS empty, 'x' AS word").one()

        func code(_ body: () throws -> some Any) -> PostgresError.Code? {
            do {
                _ = try body()
                return nil
            } catch { return (error as? PostgresError)?.code }
        }

        #expect(code { try row.text("absent") } == .missingColumn)
        #expect(code { try row.text("empty") } == .unexpectedNull)
        #expect(code { try row.int64("word") } == .undecodableColumn)
        #expect(code { try row.bool("word") } == .undecodableColumn)
        #expect(code { try row.texts("word") } == .undecodableColumn)
        #expect(code { try row.bytes("word") } == .undecodableColumn)
    }

    @Test func columns_whenTheirNamesLookAlike_areToldApart() async throws {
        let connection = try await TestDatabase.connect()

        let row = try await connection.query("SELECT 1 AS state, 2 AS skate, 3 AS state").one()

        #expect(try row.int("state") == 1)
        #expect(try row.int("skate") == 2)
        #expect(throws: PostgresError.self) { try row.int("slate") }
    }

    @Test(arguments: [
        "no", "", "01890a5d-ac96-774b-bcce-b302099a805", "01890a5d-ac96-774b-bcce-b302099a80577",
        "01890a5dac96-774b-bcce-b302099a8057-", "0189-a5d-ac96-774b-bcce-b302099a8057",
        "g1890a5d-ac96-774b-bcce-b302099a8057", "01890a5d-ac96-774b-bcce-b302099a805g",
        "01890a5d-ac96-774b-bcce-b302099a80é",
    ])
    func uuidArray_whenMalformed_isRefusedBeforeSending(text: String) async throws {
        let connection = try await TestDatabase.connect()
        let good = "01890a5d-ac96-774b-bcce-b302099a8057"

        await #expect { try await connection.query("SELECT \(uuids: [good, nil, text])") } throws: {
            ($0 as? PostgresError)?.code == .unrepresentableValue
        }
    }

    @Test func arrays_whenEmptyOrOfEmptyElements_comeBackAsTheyWere() async throws {
        let connection = try await TestDatabase.connect()
        let id = "01890A5D-AC96-774B-BCCE-B302099A8057"

        let row = try await connection.query(
            """
            SELECT \(jsons: []) AS jsons, \(blobs: []) AS blobs, \(timestamps: []) AS instants,
                \(bools: []) AS bools, \(texts: []) AS texts, \(blobs: [[], nil, [7]]) AS bytes,
                \(texts: ["", nil, ""]) AS gaps, \(uuids: [id]) AS ids
            """
        ).one()

        for column in ["jsons", "blobs", "instants", "bools", "texts"] {
            #expect(try row.optionalTexts(column) == [])
        }
        #expect(try row.optionalTexts("bytes") == [#"\x"#, nil, #"\x07"#])
        #expect(try row.optionalTexts("gaps") == ["", nil, ""])
        #expect(try row.optionalTexts("ids") == [id.lowercased()])
    }

    @Test func fragments_whenNested_areRenumbered() async throws {
        let connection = try await TestDatabase.connect()
        let inner: SQL = "\(2) + \(3)"

        let sql: SQL = "SELECT \(1) + (\(fragment: inner)) * \(unsafe: "10") AS total"

        #expect(sql.text == "SELECT $1 + ($2 + $3) * 10 AS total")
        #expect(try await connection.query(sql).one().int("total") == 51)
    }
}

extension Row {
    /// An array of any type by its text form, NULL elements as nil.
    fileprivate func optionalTexts(_ column: String) throws -> [String?] {
        let texts = try decoded(column) { ArrayText.parse(String(decoding: $0, as: UTF8.self)) }
        return try #require(texts)
    }
}
