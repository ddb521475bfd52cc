import ServiceKit
import Testing

@Suite struct HTTPDateTests {
    @Test(arguments: [
        (Int64(784_111_777_999), "Sun, 06 Nov 1994 08:49:37 GMT"),
        (0, "Thu, 01 Jan 1970 00:00:00 GMT"), (-5, "Thu, 01 Jan 1970 00:00:00 GMT"),
        (951_782_400_000, "Tue, 29 Feb 2000 00:00:00 GMT"),
        (4_102_444_799_000, "Thu, 31 Dec 2099 23:59:59 GMT"),
    ])
    func date_isWrittenAsTheProtocolWants(milliseconds: Int64, text: String) {
        #expect(HTTPDate.text(milliseconds) == text)
    }

    @Test(
        arguments: [
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777_000), ("yesterday", nil),
            ("Sun, 06 Nov 1994 08:49:37 CET", nil), ("Sun, 31 Feb 2026 00:00:00 GMT", nil),
        ] as [(String, Int64?)])
    func httpDate_isReadInItsUsualForm(_ text: String, _ expected: Int64?) {
        #expect(HTTPDate.parse(text) == expected)
    }
}
