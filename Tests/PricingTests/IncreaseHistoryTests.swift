import Testing

@testable import Pricing

/// Which earlier increase counts, where one of them was stated by its day alone.
struct IncreaseHistoryTests {
    private static let day = Instant.millisecondsPerDay
    private static let stated = at("2027-03-10T00:00:00Z")
    /// Until then what was stated counts: 12 months and two days.
    private static let statedEnd = at("2028-03-12T00:00:00Z")

    private static func imported(_ instant: Instant, sku: String = "A") -> EarlierIncrease {
        EarlierIncrease(sku: sku, at: instant, origin: .past(.imported))
    }
    private static func charged(_ instant: Instant, sku: String = "A") -> EarlierIncrease {
        EarlierIncrease(sku: sku, at: instant, origin: .past(.statement))
    }

    /// The stated day may begin and end up to a day earlier or later elsewhere.
    @Test(
        arguments: [
            (-1, false), (0, true), (1, true), (2 * day - 1, true), (2 * day, false),
            (3 * day - 1, false),
        ] as [(Int64, Bool)])
    func statedIncrease_whenAChargeShowsItExactly_isThatOne(later: Int64, isTheSame: Bool) {
        let exact = Self.charged(Self.stated.advanced(by: later))

        let history = IncreaseHistory([Self.imported(Self.stated), exact])

        #expect(history.ends.count == (isTheSame ? 1 : 2))
        #expect(history.ends.contains(exact.countsUntil))
    }

    @Test func statedIncrease_ofAnotherItem_isAnotherOne() {
        let history = IncreaseHistory([
            Self.imported(Self.stated), Self.charged(Self.stated, sku: "B"),
        ])

        #expect(history.ends.count == 2)
    }

    /// The later one was charged, and ends earlier than what was stated for the day before.
    @Test(
        arguments: [
            ("2028-03-10T23:59:59.999Z", "charged"), ("2028-03-11T00:00:00Z", "stated"),
            ("2028-03-11T23:59:59.999Z", "stated"), ("2028-03-12T00:00:00Z", "charged"),
        ])
    func latest_isTheLastThatStillCountsAtTheCall(call: String, expected: String) {
        let charged = Self.charged(at("2027-03-11T00:00:00Z"), sku: "B")
        let history = IncreaseHistory([Self.imported(Self.stated), charged])

        let latest = history.latest(before: at("2028-04-01T00:00:00Z"), countingAt: at(call))

        #expect(latest == (expected == "charged" ? charged : Self.imported(Self.stated)))
    }

    @Test func latest_ofTwoStatedThatCount_isTheLater_andNoneAtTheRenewalItself() {
        let renewal = at("2028-04-01T00:00:00Z")
        let earlier = Self.imported(Self.stated.advanced(by: -1), sku: "C")
        let charged = Self.charged(at("2027-03-10T12:00:00Z"), sku: "B")
        let sibling = EarlierIncrease(sku: "D", at: renewal, origin: .line(3))
        let history = IncreaseHistory([earlier, Self.imported(Self.stated), charged, sibling])

        let latest = history.latest(
            before: renewal, countingAt: at("2028-03-11T12:00:00Z"))

        #expect(latest == Self.imported(Self.stated))
        #expect(history.latest(before: renewal, countingAt: Self.statedEnd) == charged)
    }
}
