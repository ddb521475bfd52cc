import TestSupport
import Testing

@testable import ServiceKit

@Suite struct ClockTests {
    static let start: Int64 = 1_767_571_200_000

    @Test func virtualClock_atAnyRealTime_followsItsRate() {
        let real = ManualClock(1_000_000)
        let clock = VirtualClock(start: Self.start, rate: 86_400, origin: 1_000_000, real: real)

        let first = clock.nowMilliseconds()
        real.advance(by: .milliseconds(1500))

        #expect(first == Self.start)
        #expect(clock.nowMilliseconds() == Self.start + 129_600_000)
        #expect(clock.realDuration(of: .seconds(86_400)) == .seconds(1))
    }

    @Test func virtualClock_atTheEndsOfTime_isHeld() {
        let clock = VirtualClock(
            start: .max - 1, rate: 1e7, origin: .min, real: ManualClock(.max))

        #expect(clock.nowMilliseconds() == .max)
    }

    @Test func specification_whenParsed_givesTheSameClock() throws {
        let real = ManualClock(1_790_000_000_000)
        let first = try VirtualClock.parse("2026-01-05T00:00:00Z@86400").clock(real: real)
        real.advance(by: .seconds(3))

        let second = try VirtualClock.parse(first.specification).clock(real: real)

        #expect(first.specification == "2026-01-05T00:00:00Z@86400@1790000000000")
        #expect(second.nowMilliseconds() == first.nowMilliseconds())
        #expect(try VirtualClock.parse("2026-01-05T00:00:00Z@0.5").rate == 0.5)
    }

    static let bad = [
        "", "2026-01-05T00:00:00Z", "now@1", "2026-01-05T00:00:00Z@0", "2026-01-05T00:00:00Z@-1",
        "2026-01-05T00:00:00Z@nan", "2026-01-05T00:00:00Z@inf", "2026-01-05T00:00:00Z@1e9",
        "2026-01-05T00:00:00Z@1@x", "2026-01-05T00:00:00Z@1@2@3", "@@",
    ]

    @Test(arguments: bad)
    func clockText_whenItMakesNoClock_isRefused(text: String) {
        let error = #expect(throws: ClockFormatError.self) { try VirtualClock.parse(text) }

        #expect(error?.description.contains("START@RATE") == true)
    }

    @Test func duration_inMilliseconds_neverOverflows() {
        #expect(Duration.milliseconds(-1500).milliseconds == -1500)
        #expect(Duration.seconds(Int64.max).milliseconds == .max)
        #expect(Duration.seconds(Int64.min).milliseconds == .min)
    }
}
