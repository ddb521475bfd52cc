import Testing

@testable import Pricing

struct CalendarTests {
    /// Bought on the 27th and extended to 31 May: the start does not lead to 30 June, so its own day counts.
    @Test func renewals_afterAnExtension_keepTheDayOfTheKnownRenewal() throws {
        let facts = SubscriptionFacts.make {
            $0.recentSubscriptionStartAt = at("2026-01-27T04:00:00Z")
            $0.purchasedAt = at("2026-05-31T04:00:00Z")
        }
        let calendar = try #require(facts.renewals(from: at("2026-06-30T04:00:00Z")))

        #expect(calendar.renewal(1).text == "2026-07-30T04:00:00Z")
        #expect(calendar.renewal(2).text == "2026-08-30T04:00:00Z")
    }

    @Test func days_whenWalkedFrom2020To2040_followEachOther() throws {
        var date = day("2020-01-01")
        var count = date.daysSinceEpoch
        #expect(count == 18_262)
        while date.year <= 2040 {
            let next = Instant(milliseconds: Int64(count + 1) * Instant.millisecondsPerDay).day
            let isNextDay =
                next.year == date.year && next.month == date.month
                && next.day == date.day + 1
            let isNextMonth =
                next.day == 1
                && CivilDate(year: date.year, month: date.month, day: date.day + 1) == nil
            #expect(isNextDay || isNextMonth)
            #expect(next.daysSinceEpoch == count + 1)
            date = next
            count += 1
        }
        #expect(date == day("2041-01-01"))
        #expect(count - 18_262 == 7671)
    }

    @Test(arguments: [
        ("1970-01-01T00:00:00Z", 0), ("2038-01-19T03:14:07Z", 2_147_483_647_000),
        ("2000-02-29T12:00:00.5Z", 951_825_600_500),
        ("2026-12-01T01:00:00+01:00", 1_796_083_200_000),
        ("2026-11-30T19:30:00.123999-04:30", 1_796_083_200_123),
    ])
    func instant_whenWritten_isRead(text: String, expected: Int64) throws {
        #expect(Instant(text)?.milliseconds == expected)
        #expect(Instant(Instant(milliseconds: expected).text)?.milliseconds == expected)
    }

    @Test(arguments: [
        "", "2026-12-01", "2026-12-01T00:00:00", "2026-02-29T00:00:00Z", "2026-13-01T00:00:00Z",
        "2026-12-01T24:00:00Z", "2026-12-01T00:60:00Z", "2026-12-01 00:00:00Z",
        "2026-12-01T00:00:00.Z", "2026-12-01T00:00:00+1:00", "26-12-01T00:00:00Z",
    ])
    func instant_whenNotRFC3339_isRefused(text: String) {
        #expect(Instant(text) == nil)
    }

    @Test func instant_whenShown_hasAFractionOnlyWhenNotZero() {
        #expect(Instant(milliseconds: 1_796_083_200_000).text == "2026-12-01T00:00:00Z")
        #expect(Instant(milliseconds: 1_796_083_200_007).text == "2026-12-01T00:00:00.007Z")
        #expect(Instant(milliseconds: -1).text == "1969-12-31T23:59:59.999Z")
    }

    @Test(arguments: [
        ("2024-02-29T10:00:00Z", 12, "2025-02-28T10:00:00Z"),
        ("2023-02-28T10:00:00Z", 12, "2024-02-28T10:00:00Z"),
        ("2026-01-31T00:00:00Z", 1, "2026-02-28T00:00:00Z"),
        ("2026-12-31T00:00:00Z", 2, "2027-02-28T00:00:00Z"),
        ("2026-03-31T00:00:00Z", -1, "2026-02-28T00:00:00Z"),
    ])
    func months_whenAdded_stayInTheMonth(from: String, months: Int, expected: String) {
        #expect(at(from).advanced(byMonths: months).text == expected)
    }

    @Test(arguments: [
        ("P1M", "2026-01-31", "2026-02-28", ["02-28", "03-31", "04-30", "05-31"]),
        ("P1M", "2026-01-28", "2026-02-28", ["02-28", "03-28", "04-28", "05-28"]),
        ("P2M", "2025-12-31", "2026-02-28", ["02-28", "04-30", "06-30", "08-31"]),
        // Stepping from 31 January by two months never meets February.
        ("P2M", "2026-01-31", "2026-02-28", ["02-28", "04-28", "06-28", "08-28"]),
        ("P3M", "2025-11-30", "2026-02-28", ["02-28", "05-30", "08-30", "11-30"]),
        ("P1W", "2026-01-31", "2026-02-28", ["02-28", "03-07", "03-14", "03-21"]),
        // A start after the renewal is no anchor.
        ("P1M", "2027-01-31", "2026-02-28", ["02-28", "03-28", "04-28", "05-28"]),
    ])
    func renewals_whenStepped_keepTheAnchorDay(
        period: String, start: String, known: String, expected: [String]
    ) throws {
        let calendar = try #require(
            RenewalCalendar(
                knownAt: at(known + "T08:30:00Z"), period: Period(period),
                startedAt: at(start + "T08:29:59Z")))

        let renewals = (0..<4).map { calendar.renewal($0).text }

        #expect(renewals == expected.map { "2026-\($0)T08:30:00Z" })
    }

    /// The running period leads to the renewal, and keeps the start day for those of another length after it.
    @Test(arguments: [
        ("P1M", "2026-11-30", "P6M", "2027-05-31"), ("P3M", "2027-02-28", "P2M", "2027-04-30"),
        ("P3M", "2027-02-28", "P3M", "2027-05-31"), ("P6M", "2027-05-31", "P1M", "2027-06-30"),
        // Stepping by half a year does not lead to it.
        ("P6M", "2026-11-30", "P1M", "2026-12-30"),
    ])
    func renewals_whereThePeriodChanges_keepTheAnchorDay(
        running: String, known: String, coming: String, expected: String
    ) {
        var facts = SubscriptionFacts.make(
            period: running, renewalAt: known + "T08:30:00Z", startedAt: "2026-08-31T08:29:59Z")
        facts.renewalPeriod = coming == running ? nil : coming

        let plan = Judge.make(now: known + "T00:00:00Z").one(.make(), facts)

        #expect(plan.effectiveAt?.text == expected + "T08:30:00Z")
    }

    @Test func renewals_whenYearly_meetTheLeapDayAgain() throws {
        let calendar = try #require(
            RenewalCalendar(
                knownAt: at("2027-02-28T00:00:00Z"), period: .year,
                startedAt: at("2024-02-29T00:00:00Z")))

        #expect(calendar.renewal(1).text == "2028-02-29T00:00:00Z")
        #expect(calendar.renewal(2).text == "2029-02-28T00:00:00Z")
    }

    @Test(arguments: ["P1W", "P1M", "P2M", "P3M", "P6M", "P1Y", "P3D", "P2W", "P9M"])
    func firstIndex_whenSearched_isTheFirst(period: String) throws {
        let calendar = try #require(
            RenewalCalendar(
                knownAt: at("2024-01-31T06:00:00Z"), period: Period(period), startedAt: nil))
        var random = SeededGenerator(seed: 7)
        for _ in 0..<300 {
            let instant = Instant(
                milliseconds: Int64.random(
                    in: 1_700_000_000_000...2_300_000_000_000, using: &random))
            let index = calendar.firstIndex(atOrAfter: instant)
            #expect(calendar.renewal(index) >= instant)
            #expect(index == 0 || calendar.renewal(index - 1) < instant)
        }
    }

    @Test(arguments: ["P1W", "P1M", "P2M", "P3M", "P1Y"], [-5, -1, 0, 1, 7])
    func calendar_countedFromAnotherRenewal_hasTheSameRenewals(period: String, first: Int) throws {
        let calendar = try #require(
            RenewalCalendar(
                knownAt: at("2024-01-31T06:00:00Z"), period: Period(period), startedAt: nil))

        let counted = calendar.counted(from: first)

        #expect(
            (-3...9).map { counted.renewal($0).text }
                == (-3...9).map { calendar.renewal(first + $0).text })
        let later = counted.renewal(4)
        #expect(counted.firstIndex(atOrAfter: later) == 4)
    }

    @Test func calendar_whenTheDataIsGarbled_isNone() {
        let far = Instant(milliseconds: .max)
        #expect(RenewalCalendar(knownAt: far, period: .month, startedAt: nil) == nil)
        #expect(
            RenewalCalendar(
                knownAt: at("2026-12-01T00:00:00Z"), period: .other("P1"), startedAt: nil) == nil)
        #expect(
            RenewalCalendar(
                knownAt: at("2026-12-31T00:00:00Z"), period: .month,
                startedAt: Instant(milliseconds: .min))?.renewal(2).text == "2027-02-28T00:00:00Z")
    }

    @Test func period_whenUnknown_isKept() {
        #expect(Period("P5Q").text == "P5Q")
        #expect(Period("P5Q").step == nil)
        #expect(Period("P4M").step == .months(4))
        #expect(Period("P0M").step == nil)
        #expect(Period("P1Y").kind == .annual)
        #expect(Period("P6M").kind == .nonannual)
    }
}
