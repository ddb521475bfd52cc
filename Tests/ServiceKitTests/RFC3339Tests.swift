import Testing

@testable import ServiceKit

@Suite struct RFC3339Tests {
    static let known: [(String, Int64)] = [
        ("1970-01-01T00:00:00Z", 0), ("1969-12-31T23:59:59.999Z", -1),
        ("2026-12-01T00:00:00Z", 1_796_083_200_000), ("2000-02-29T12:00:00Z", 951_825_600_000),
        ("2024-02-29T23:59:59.001Z", 1_709_251_199_001),
        ("0001-01-01T00:00:00Z", -62_135_596_800_000),
        ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
    ]

    @Test(arguments: known)
    func instant_inBothDirections_isTheSame(text: String, milliseconds: Int64) {
        #expect(RFC3339.parse(text) == milliseconds)
        #expect(RFC3339.format(milliseconds) == text)
    }

    @Test func instant_withOffsetOrLongFraction_isUnderstood() {
        #expect(RFC3339.parse("2026-12-01T02:00:00+02:00") == 1_796_083_200_000)
        #expect(RFC3339.parse("2026-11-30t22:30:00-01:30") == 1_796_083_200_000)
        #expect(RFC3339.parse("1970-01-01T00:00:00.0009999z") == 0)
        #expect(RFC3339.parse("1970-01-01T00:00:00.1Z") == 100)
    }

    static let bad = [
        "", "2026-12-01", "2026-12-01T00:00:00", "2026-12-01 00:00:00Z", "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z", "2026-02-29T00:00:00Z", "2100-02-29T00:00:00Z",
        "2026-04-31T00:00:00Z", "2026-12-01T24:00:00Z", "2026-12-01T00:60:00Z",
        "2026-12-01T00:00:60Z", "2026-12-01T00:00:00.Z", "2026-12-01T00:00:00+2:00",
        "2026-12-01T00:00:00+24:00", "2026-12-01T00:00:00Zz", "26-12-01T00:00:00Z",
        "2026-12-01T00:00:00+0200", "-026-12-01T00:00:00Z", "２026-12-01T00:00:00Z",
    ]

    @Test(arguments: bad)
    func text_whenItIsNoInstant_isRefused(text: String) {
        #expect(RFC3339.parse(text) == nil)
    }

    @Test func days_overFourCenturies_comeBack() {
        var previous = RFC3339.format(-86_400_000)
        for day in stride(from: Int64(0), to: 146_097, by: 5) {
            let text = RFC3339.format(day * 86_400_000)
            #expect(RFC3339.parse(text) == day * 86_400_000 && text > previous)
            previous = text
        }
    }

    /// What is recorded bears microseconds, and a report is asked of them.
    @Test(
        arguments: [
            ("2026-12-01T00:00:00.375756Z", 375, 756, "2026-12-01T00:00:00.375756Z"),
            ("2026-12-01T00:00:00.375000Z", 375, 0, "2026-12-01T00:00:00.375Z"),
            ("2026-12-01T00:00:00.375Z", 375, 0, "2026-12-01T00:00:00.375Z"),
            ("2026-12-01T00:00:00.9999Z", 999, 900, "2026-12-01T00:00:00.999900Z"),
            ("2026-12-01T01:00:00.0000017+01:00", 0, 1, "2026-12-01T00:00:00.000001Z"),
            ("2026-12-01T00:00:00Z", 0, 0, "2026-12-01T00:00:00Z"),
        ] as [(String, Int64, Int64, String)])
    func instant_withMoreDigits_keepsMicroseconds(
        text: String, milliseconds: Int64, microseconds: Int64, written: String
    ) throws {
        let read = try #require(RFC3339.parse(text))

        #expect(read == 1_796_083_200_000 + milliseconds)
        #expect(RFC3339.microseconds(beyondMillisecondsOf: text) == microseconds)
        #expect(RFC3339.format(read, microseconds: microseconds) == written)
    }
}
