import Foundation
import JSON
import Testing

@Suite struct JSONGrammarTests {
    @Test func read_whenTextIsJSON_keepsEveryValueAsWritten() throws {
        let root = try #require(read(sample))

        let items = try #require(root["items"]?.elements)
        #expect(items.map(\.kind) == [.object, .object, .array, .array])
        #expect(items.first?["SKU"]?.text == "Aé😀\n")
        #expect(items.first?["price"]?.raw == "-1299.50e+1")
        #expect(items.first?["on"]?.boolean == true)
        #expect(items.last?.raw == "[[]]")
        #expect(root["né€😀"]?.isNull == true)
        #expect(root[""]?.boolean == false)
        #expect(root["long"]?.text == "0123456789abcdef0123456789\\abcdef")
        #expect(root["long"]?.raw == "\"0123456789abcdef0123456789\\\\abcdef\"")
        #expect(root["absent"] == nil)
    }

    @Test(arguments: [
        "", " ", "{", "}", "[", "]", "[,]", "[1,]", "[1 2]", "{,}", "{\"a\"}", "{\"a\":}",
        "{\"a\":1,}", "{\"a\" 1}", "{a:1}", "{1:1}", "{\"a\":1]", "[1}", "1 2", "{}{}", "{} x",
        "nul", "nulL", "tru", "truE", "fals", "NaN", "Infinity", "-", "+1", "01", "-01", "00", "1.",
        ".5", "1.e1", "1e", "1e+", "0x10", "1_0", "'a'", "\"", "\"a", "\"\\", "\"\\x\"", "\"\\u\"",
        "\"\\u12\"", "\"\\u12g4\"", "\"\\u+123\"", "\"a\nb\"", "\"a\tb\"", "\"\u{1}\"", "\u{0}",
        "{}\u{0}", "\u{FEFF}{}", "// c\n{}", "{} /* c */", "\u{A0}1", "\u{2028}1",
    ])
    func read_whenTextIsNoJSON_isNil(text: String) {
        #expect(read(text) == nil)
    }

    @Test(arguments: ["null", " true\t", "\n-0\r", "\"\"", "[]", "{}", "1E-7", "\"\u{7F}/\\/\""])
    func read_whenTextIsOneValue_isThatValue(text: String) throws {
        let node = try #require(read(text))

        #expect(node.raw == text.trimmingCharacters(in: .whitespacesAndNewlines))
    }

    @Test func init_whenTextIsCutAtAnyByte_isRefused() {
        let bytes = Array(sample.utf8)

        for count in 0..<bytes.count {
            #expect(fault(Array(bytes[..<count])) != nil, "\(count) bytes")
        }
    }

    @Test func init_whenAByteIsReplaced_neverTraps() {
        let bytes = Array(sample.utf8)
        var accepted = 0

        for index in bytes.indices {
            for byte in Array("\"\\{}[]:,u0-.eE \0n".utf8) + [
                0x1F, 0x7F, 0x80, 0xC3, 0xED, 0xF0, 0xFF,
            ] {
                var changed = bytes
                changed[index] = byte
                guard let root = JSONDocument.read(changed) else { continue }
                accepted += 1
                touch(root)
            }
        }

        #expect(accepted > bytes.count)
    }

    @Test func init_whenUTF8IsIllFormed_isRefused() {
        let illFormed: [[UInt8]] = [
            [0x80], [0xBF], [0xC0, 0xAF], [0xC1, 0xBF], [0xC3], [0xC3, 0x28], [0xE0, 0x9F, 0xBF],
            [0xE2, 0x82], [0xED, 0xA0, 0x80], [0xED, 0xBF, 0xBF], [0xEF, 0xBF],
            [0xF0, 0x8F, 0xBF, 0xBF],
            [0xF0, 0x9F, 0x98], [0xF4, 0x90, 0x80, 0x80], [0xF5, 0x80, 0x80, 0x80], [0xFE], [0xFF],
        ]

        for bytes in illFormed {
            for padding in 0..<9 {
                let text = [UInt8](repeating: 0x61, count: padding) + bytes
                let quote = UInt8(ascii: "\"")
                #expect(fault([quote] + text + [quote])?.code == .badUTF8, "\(bytes) at \(padding)")
                let name = [UInt8(ascii: "{"), quote] + text + Array("\":1}".utf8)
                #expect(fault(name)?.code == .badUTF8, "\(bytes) at \(padding)")
            }
        }
    }

    @Test func init_whenUTF8IsWellFormed_isThatText() throws {
        for scalar in [
            "\u{80}", "\u{7FF}", "\u{800}", "\u{D7FF}", "\u{E000}", "\u{FFFF}", "\u{10000}",
            "\u{10FFFF}",
        ] {
            for padding in 0..<9 {
                let text = String(repeating: "a", count: padding) + scalar
                #expect(read("\"\(text)\"")?.text == text)
            }
        }
    }

    @Test func init_whenEveryByteStandsAlone_acceptsWhatATextMayHold() {
        for byte in UInt8.min...0x7F {
            for padding in 0..<17 {
                let text = [UInt8](repeating: 0x61, count: padding) + [byte]
                let isPlain = byte >= 0x20 && byte != 0x22 && byte != 0x5C
                let quote = UInt8(ascii: "\"")
                let isAccepted = fault([quote] + text + [quote]) == nil
                #expect(isAccepted == isPlain, "byte \(byte) at \(padding)")
            }
        }
    }

    /// Reads a value in every way there is.
    private func touch(_ node: JSONNode) {
        _ = (node.text, node.int64, node.int64RoundedDown, node.boolean, node.raw, node.textBytes)
        _ = (node["SKU"], node["né€😀"], node.count(of: "items"))
        node.forEachMember { name, value in
            _ = name.text
            touch(value)
        }
        node.elements?.forEach(touch)
    }
}
