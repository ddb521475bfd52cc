import Pricing
import Testing

@testable import AppStore

/// An instant that the App Store names is one of its own clock, which its answer's date tells.
@Suite struct RetryAfterTests {
    /// 2026-03-02T12:00:00Z by the App Store's clock.
    private static let theirs: Int64 = 1_772_452_800_000
    private static let date = "Mon, 02 Mar 2026 12:00:00 GMT"

    @Test(arguments: [
        ("1772452820000", 20_000), ("1772452820", 20_000),
        ("Mon, 02 Mar 2026 12:00:20 GMT", 20_000),
        ("20", 20_000), ("0", 1000), ("nonsense", 60_000), ("-5", 60_000),
        // It has passed already: one of the clocks is off.
        ("1772452795000", 60_000), ("1772452800", 60_000),
        ("Mon, 02 Mar 2026 11:59:00 GMT", 60_000),
    ])
    func wait_isAsLongAsItIsMeant_howeverWrongOurClockIs(value: String, wait: Int64) {
        for skew: Int64 in [-30_000, 0, 30_000] {
            let ours = Self.theirs + skew

            let until = RetryAfter.instant(value, now: ours, date: Self.date)

            #expect(until.milliseconds - ours == wait, "\(skew)")
            // The default wait is for who must wait. An outage that names none is another matter.
            let usable = RetryAfter.usable(value, now: ours, date: Self.date)
            #expect(usable == (wait == 60_000 ? nil : until), "\(skew)")
        }
    }

    /// A rehearsal's clock has nothing to do with the date of an answer.
    @Test(arguments: [nil, "yesterday", "Sun, 01 Mar 2026 12:00:00 GMT"])
    func date_thatSaysNothing_isLeftOut(date: String?) {
        let until = RetryAfter.instant("1772452820000", now: Self.theirs, date: date)

        #expect(until.milliseconds == 1_772_452_820_000)
    }
}
