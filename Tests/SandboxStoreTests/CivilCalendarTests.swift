import Testing

@testable import SandboxStore

@Suite struct CivilCalendarTests {
    @Test func date_ofEveryDayInFourCenturies_roundTrips() {
        let wrong = (Int64(-40_000)...110_000).filter {
            CivilDate(daysSinceEpoch: $0).daysSinceEpoch != $0
        }

        #expect(wrong.isEmpty)
    }

    @Test(arguments: [
        (Int64(0), "1970-01-01"), (19_782, "2024-02-29"), (20_458, "2026-01-05"),
        (-1, "1969-12-31"),
    ])
    func date_ofKnownDay_isThatDate(days: Int64, text: String) {
        #expect(CivilDate(daysSinceEpoch: days).text == text)
    }

    @Test(arguments: [
        ("2026-01-31", 31, ["2026-02-28", "2026-03-31", "2026-04-30"]),
        ("2028-01-30", 30, ["2028-02-29", "2028-03-30", "2028-04-30"]),
        ("2026-02-28", 31, ["2026-03-31", "2026-04-30", "2026-05-31"]),
        ("2026-11-15", 15, ["2026-12-15", "2027-01-15", "2027-02-15"]),
    ])
    func month_fromItsAnchorDay_stepsToTheLastDayWhereShorter(
        start: String, anchorDay: Int, expected: [String]
    ) {
        let calendar = BillingCalendar()
        let ends = (1...3).map { count in
            let end = calendar.end(
                of: .month, from: Fixture.instant(start), count: count, anchorDay: anchorDay)
            return Milliseconds.date(of: end).text
        }

        #expect(ends == expected)
    }

    @Test(arguments: [
        (BillingPeriod.week, "2026-01-17"), (.month, "2026-02-10"), (.twoMonths, "2026-03-10"),
        (.threeMonths, "2026-04-10"), (.sixMonths, "2026-07-10"), (.year, "2027-01-10"),
    ])
    func period_inProduction_followsTheCalendar(period: BillingPeriod, expected: String) {
        let end = BillingCalendar().end(
            of: period, from: Fixture.instant("2026-01-10"), anchorDay: 10)

        #expect(Milliseconds.date(of: end).text == expected)
    }

    @Test(arguments: [(BillingPeriod.week, Int64(180)), (.month, 300), (.year, 3600)])
    func period_shortened_keepsApplesProportions(period: BillingPeriod, seconds: Int64) {
        let end = BillingCalendar(shortMonth: 300_000).end(of: period, from: 0, anchorDay: 1)

        #expect(end == seconds * 1000)
    }
}
