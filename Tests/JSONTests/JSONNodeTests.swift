import JSON
import Testing

@Suite struct JSONNodeTests {
    @Test(
        arguments: [
            ("0", 0, 0), ("-0", 0, 0), ("12990", 12_990, 12_990), ("-5", -5, -5),
            ("9223372036854775807", Int64.max, Int64.max),
            ("-9223372036854775808", Int64.min, Int64.min),
            ("9223372036854775808", nil, nil), ("-9223372036854775809", nil, nil),
            ("9007199254740993", 9_007_199_254_740_993, 9_007_199_254_740_993),
            ("1.0", 1, 1), ("12.990e3", 12_990, 12_990), ("1e2", 100, 100), ("1E+2", 100, 100),
            ("1200e-2", 12, 12), ("0.5", nil, 0), ("-0.5", nil, -1), ("-1.000", -1, -1),
            ("1767571200000.75", nil, 1_767_571_200_000),
            ("9223372036854775807.9", nil, Int64.max), ("-9223372036854775808.1", nil, nil),
            ("-9223372036854775807.1", nil, Int64.min),
            ("1e18", 1_000_000_000_000_000_000, 1_000_000_000_000_000_000), ("1e19", nil, nil),
            ("0e999999999999999999999", 0, 0), ("1e999999999999999999999", nil, nil),
            ("1e-999999999999999999999", nil, 0), ("-1e-999999999999999999999", nil, -1),
            ("0.00e-5", 0, 0), ("9223372036854775807000e-3", Int64.max, Int64.max),
        ] as [(String, Int64?, Int64?)])
    func int64_whenNumberIsWritten_isExact(text: String, exact: Int64?, roundedDown: Int64?) throws
    {
        let node = try #require(read(text))

        #expect(node.int64 == exact)
        #expect(node.int64RoundedDown == roundedDown)
        #expect(node.raw == text)
    }

    @Test func int64_whenDigitsAreMany_isOutOfRangeOrExact() throws {
        let digits = String(repeating: "9", count: 100_000)
        let zeros = String(repeating: "0", count: 100_000)

        #expect(try #require(read(digits)).int64 == nil)
        #expect(try #require(read("-\(digits).\(digits)e-\(digits)")).int64RoundedDown == -1)
        #expect(try #require(read("7.\(zeros)")).int64 == 7)
        #expect(try #require(read("7\(zeros)e-100000")).int64 == 7)
    }

    @Test(
        arguments: [
            ("\"\\ud800\"", nil), ("\"\\udc00\"", nil), ("\"\\ud800\\ud800\"", nil),
            ("\"\\ud800x\"", nil), ("\"\\ud800\\n\"", nil), ("\"\\udc00\\ud800\"", nil),
            ("\"\\uD83D\\uDE00\"", "😀"), ("\"\\u0000\"", "\u{0}"), ("\"\\ufffe\"", "\u{FFFE}"),
            ("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\u{8}\u{C}\n\r\t"),
            ("\"\\udbff\\udfff\"", "\u{10FFFF}"),
        ] as [(String, String?)])
    func text_whenEscaped_isUnescapedOrAbsent(text: String, expected: String?) throws {
        let node = try #require(read(text))

        #expect(node.kind == .text)
        #expect(node.text == expected)
        #expect(node.textBytes.map(Array.init) == expected.map { Array($0.utf8) })
    }

    @Test func subscript_whenNameIsTwice_hasTheLastValue() throws {
        let root = try #require(read("{\"a\":1,\"b\":{\"a\":5},\"\\u0061\":2,\"aa\":3}"))

        #expect(root["a"]?.int64 == 2)
        #expect(root.count(of: "a") == 2)
        #expect(root.count(of: "c") == 0)
    }

    @Test func subscript_whenNamesDifferByBytesOnly_tellsThemApart() throws {
        let root = try #require(read("{\"e\u{301}\":1,\"\\ud800\":2}"))

        #expect(root["é"] == nil)
        #expect(root["e\u{301}"]?.int64 == 1)
        #expect(root["\u{FFFD}"] == nil)
    }

    @Test func subscript_whenValueIsNoObject_isNil() throws {
        for text in ["[\"a\",1]", "\"a\"", "1", "null"] {
            let node = try #require(read(text))
            #expect(node["a"] == nil)
            #expect(node.count(of: "a") == 0)
        }
    }

    @Test func faces_whenKindIsAnother_areNil() throws {
        let texts = ["null", "true", "1", "\"1\"", "[]", "{}"]
        let nodes = try texts.map { try #require(read($0)) }

        #expect(nodes.map(\.kind) == [.null, .boolean, .number, .text, .array, .object])
        #expect(nodes.map { $0.boolean != nil } == [false, true, false, false, false, false])
        #expect(nodes.map { $0.int64 != nil } == [false, false, true, false, false, false])
        #expect(
            nodes.map { $0.int64RoundedDown != nil } == [false, false, true, false, false, false])
        #expect(nodes.map { $0.text != nil } == [false, false, false, true, false, false])
        #expect(nodes.map { $0.elements != nil } == [false, false, false, false, true, false])
        #expect(nodes.map(\.isNull) == [true, false, false, false, false, false])
    }

    @Test func forEachMember_whenValuesAreNested_visitsOnlyItsOwn() throws {
        let root = try #require(read("{\"a\":{\"x\":[1,{\"y\":2}]},\"b\":[],\"c\":3}"))
        var names: [String?] = []

        root.forEachMember { name, _ in names.append(name.text) }

        #expect(names == ["a", "b", "c"])
    }

    @Test func forEachMember_ofNames_findsTheirPlaces() throws {
        let names: [StaticString] = ["", "a", "ab", "ba", "price", "pricf", "é"]
        let text = #"{"price":1,"":2,"\u0061":3,"ba":4,"e\u0301":5,"\u00e9":6,"pric":7,"\ud800":8}"#
        var places: [Int?] = []

        try #require(read(text)).forEachMember(of: JSONNames(names)) { place, _, _ in
            places.append(place)
        }

        #expect(places == [4, 0, 1, 3, nil, 6, nil, nil])
    }

    @Test func isText_whenSurrogateIsAlone_isFalse() throws {
        let texts = ["\"a\"", "\"\\n\"", "\"\\ud800\"", "1", "[\"a\"]"]

        #expect(
            try texts.map { try #require(read($0)).isText } == [true, true, false, false, false])
    }
}
