import Foundation
import JSON
import Testing

@Suite struct JSONWriterTests {
    private enum Word: String { case first, second }

    @Test func writer_always_writesMembersInTheirOrder() {
        let text = JSONWriter.object { json in
            json.text("b", "x")
            json.text("absent", nil)
            json.number("a", .min)
            json.flag("on", true)
            json.member("null", String?.none)
            json.member("n", Int64?.none)
            json.texts("list", ["1", "2"])
            json.key("inner") { $0.object { $0.number("z", .max) } }
            json.list("numbers", [1, 2]) { $1.value(Int64($0)) }
            json.label("né\"w")
            json.finished("[1,{}]")
        }

        #expect(
            text == #"{"b":"x","a":-9223372036854775808,"on":true,"null":null,"n":null,"#
                + #""list":["1","2"],"inner":{"z":9223372036854775807},"numbers":[1,2],"#
                + #""né\"w":[1,{}]}"#)
        #expect(JSONWriter.list([String]()) { $1.value($0) } == "[]")
        #expect(JSONWriter.object { _ in } == "{}")
    }

    @Test func text_withEveryCharacter_readsBackAndIsOneLine() throws {
        for code in (0...0x2FF) as ClosedRange<UInt32> {
            let scalar = try #require(Unicode.Scalar(code))
            let written = JSONWriter.list(["a\(Character(scalar))🎬"]) { $1.value($0) }

            #expect(read(written)?.elements?.first?.text == "a\(Character(scalar))🎬")
            #expect(written.utf8.allSatisfy { $0 >= 0x20 })
            let foundation = try JSONDecoder().decode([String].self, from: Data(written.utf8))
            #expect(foundation == ["a\(Character(scalar))🎬"])
        }
        #expect(
            JSONWriter.list(["\u{0}\u{8}\t\n\u{B}\u{C}\r\u{1F}\"\\/\u{7F}é\u{2028}"]) {
                $1.value($0)
            } == "[\"\\u0000\\u0008\\t\\n\\u000b\\u000c\\r\\u001f\\\"\\\\/\u{7F}é\u{2028}\"]")
    }

    @Test func record_whenWrittenByUs_isReadAsStrictly() throws {
        let node = try #require(
            read(
                #"{"t":"x","n":-5,"b":false,"l":["a"],"r":{"n":1},"rs":[{},{}],"w":"second","z":null}"#
            ))
        let record = try JSONRecord(node)

        #expect(try record.text("t") == "x")
        #expect(try record.int64("n") == -5)
        #expect(try record.intOrNil("n") == -5)
        #expect(try record.bool("b") == false)
        #expect(try record.texts("l") == ["a"])
        #expect(try record.record("r").int64("n") == 1)
        #expect(try record.records("rs").count == 2)
        #expect(try record.word("w") == Word.second)
        #expect(try record.textOrNil("z") == nil)
        #expect(try record.textOrNil("none") == nil)
        #expect(try record.recordOrNil("none") == nil)
        #expect(try record.recordsOrNil("z") == nil)
    }

    @Test func record_ofAnotherShape_isAFault() throws {
        let node = try #require(
            read(#"{"t":1,"n":1.5,"b":"true","l":["a",1],"r":[],"rs":[1],"w":"third","z":null}"#))
        let record = try JSONRecord(node)

        #expect(throws: JSONRecord.Fault.self) { try record.textOrNil("t") }
        #expect(throws: JSONRecord.Fault.self) { try record.int64OrNil("n") }
        #expect(throws: JSONRecord.Fault.self) { try record.boolOrNil("b") }
        #expect(throws: JSONRecord.Fault.self) { try record.textsOrNil("l") }
        #expect(throws: JSONRecord.Fault.self) { try record.recordOrNil("r") }
        #expect(throws: JSONRecord.Fault.self) { try record.recordsOrNil("rs") }
        #expect(throws: JSONRecord.Fault.self) { () throws -> Word? in try record.wordOrNil("w") }
        for name in ["z", "none"] as [StaticString] {
            #expect(throws: JSONRecord.Fault.self) { try record.text(name) }
            #expect(throws: JSONRecord.Fault.self) { try record.record(name) }
        }
        #expect(throws: JSONRecord.Fault.self) { try JSONRecord(try #require(read("[]"))) }
        #expect(throws: JSONRecord.Fault.self) { try JSONRecord.all(node) }
    }
}
