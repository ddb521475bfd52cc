import JSON
import Testing

@Suite struct JSONLimitTests {
    private func nested(_ depth: Int, _ open: String, _ close: String) -> [UInt8] {
        Array(
            (String(repeating: open, count: depth) + "0" + String(repeating: close, count: depth))
                .utf8)
    }

    @Test func init_whenAsDeepAsAllowed_isRead() {
        #expect(fault(nested(64, "[", "]")) == nil)
        #expect(fault(nested(64, "{\"a\":", "}")) == nil)
    }

    @Test func init_whenTooDeep_isRefusedAtThatDepth() {
        #expect(fault(nested(65, "[", "]")) == JSONFault(code: .tooDeep, offset: 64))
        #expect(fault(nested(1_000_000, "[", "]"))?.code == .tooDeep)
        #expect(fault(nested(100_000, "{\"a\":", "}"))?.code == .tooDeep)
        #expect(fault([UInt8](repeating: UInt8(ascii: "["), count: 1_000_000))?.code == .tooDeep)
    }

    @Test func init_whenTooLarge_isRefusedUnread() {
        let limits = JSONDocument.Limits(bytesMax: 4)

        #expect(fault(Array("1234".utf8), limits) == nil)
        #expect(fault(Array("xxxxx".utf8), limits) == JSONFault(code: .tooLarge, offset: 4))
    }

    @Test func init_whenTooManyValues_isRefused() {
        let limits = JSONDocument.Limits(valuesMax: 4)

        #expect(fault(Array("[1,2,3]".utf8), limits) == nil)
        #expect(fault(Array("[1,2,3,4]".utf8), limits)?.code == .tooMany)
        #expect(fault(Array("{\"a\":1,\"b\":2}".utf8), limits)?.code == .tooMany)
    }

    @Test func init_whenLimitIsBeyondTheIndex_isCapped() {
        #expect(JSONDocument.Limits(bytesMax: .max).bytesMax == Int(UInt32.max))
    }

    @Test(arguments: [
        ("[1, x]", JSONFault(code: .unexpectedByte, offset: 4)),
        ("{\"a\":tru", JSONFault(code: .cutShort, offset: 8)),
        ("[01]", JSONFault(code: .badNumber, offset: 3)),
        ("\"\\q\"", JSONFault(code: .badEscape, offset: 1)),
        ("\"\\u12", JSONFault(code: .cutShort, offset: 5)),
    ])
    func init_whenRefused_saysWhere(text: String, expected: JSONFault) {
        #expect(fault(text) == expected)
        #expect("\(expected)".hasSuffix(", at byte \(expected.offset)"))
    }
}
