import Testing

@testable import Pricing

struct TimelineTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var name: String
        var period = "P1M"
        var price: Int64 = 9990
        var newPrice: Int64 = 12_990
        var renewalAt = "2026-12-01T00:00:00Z"
        var startedAt = "2026-01-01T00:00:00Z"
        var now: String
        var onOrAfter: String?
        var effective: String
        var notice: String?
        var sendAfter: String?
        var sendBy: String

        var testDescription: String { name }
    }

    static let cases = [
        Case(
            name: "announced, in time", now: "2026-11-01T00:00:00Z",
            effective: "2026-12-01T00:00:00Z", notice: "2026-11-04T00:00:00Z",
            sendBy: "2026-11-04T00:00:00Z"),
        Case(
            name: "announced, at the last instant", now: "2026-11-04T00:00:00Z",
            effective: "2026-12-01T00:00:00Z", notice: "2026-11-04T00:00:00Z",
            sendBy: "2026-11-04T00:00:00Z"),
        Case(
            name: "announced, a millisecond late", now: "2026-11-04T00:00:00.001Z",
            effective: "2027-01-01T00:00:00Z", notice: "2026-12-05T00:00:00Z",
            sendBy: "2026-12-05T00:00:00Z"),
        Case(
            name: "consent, yearly, at the last instant", period: "P1Y", price: 99_990,
            newPrice: 150_000, now: "2026-10-02T00:00:00Z", effective: "2026-12-01T00:00:00Z",
            notice: "2026-10-02T00:00:00Z", sendBy: "2026-10-02T00:00:00Z"),
        Case(
            name: "consent, yearly, a millisecond late", period: "P1Y", price: 99_990,
            newPrice: 150_000, now: "2026-10-02T00:00:00.001Z",
            effective: "2027-12-01T00:00:00Z", notice: "2027-10-02T00:00:00Z",
            sendBy: "2027-10-02T00:00:00Z"),
        Case(
            name: "announced, yearly", period: "P1Y", price: 99_990, newPrice: 109_990,
            now: "2026-11-04T00:00:00Z", effective: "2026-12-01T00:00:00Z",
            notice: "2026-11-04T00:00:00Z", sendBy: "2026-11-04T00:00:00Z"),
        Case(
            name: "consent, two months", period: "P2M", newPrice: 15_990,
            now: "2026-11-01T00:00:00Z", effective: "2027-02-01T00:00:00Z",
            notice: "2026-12-03T00:00:00Z", sendBy: "2026-12-03T00:00:00Z"),
        Case(
            name: "consent, monthly", newPrice: 15_990, now: "2026-11-04T00:00:00Z",
            effective: "2026-12-01T00:00:00Z", notice: "2026-11-04T00:00:00Z",
            sendBy: "2026-11-04T00:00:00Z"),
        Case(
            name: "decrease, at the last instant", newPrice: 7990, now: "2026-11-30T00:00:00Z",
            effective: "2026-12-01T00:00:00Z", sendBy: "2026-11-30T00:00:00Z"),
        Case(
            name: "decrease, a millisecond late", newPrice: 7990, now: "2026-11-30T00:00:00.001Z",
            effective: "2027-01-01T00:00:00Z", sendBy: "2026-12-31T00:00:00Z"),
        Case(
            name: "consent, weekly, at the last instant", period: "P1W", newPrice: 15_990,
            now: "2026-11-24T00:00:00Z", effective: "2026-12-01T00:00:00Z",
            notice: "2026-11-24T00:00:00Z", sendBy: "2026-11-24T00:00:00Z"),
        Case(
            name: "consent, weekly, a millisecond late", period: "P1W", newPrice: 15_990,
            now: "2026-11-24T00:00:00.001Z", effective: "2026-12-08T00:00:00Z",
            notice: "2026-12-01T00:00:00Z", sendBy: "2026-12-01T00:00:00Z"),
        Case(
            name: "announced, weekly: the fourth renewal; notice not before now", period: "P1W",
            now: "2026-11-30T00:00:00Z", effective: "2026-12-22T00:00:00Z",
            notice: "2026-11-30T00:00:00Z", sendBy: "2026-11-30T00:00:00Z"),
        Case(
            name: "announced, weekly, a millisecond late", period: "P1W",
            now: "2026-11-30T00:00:00.001Z", effective: "2026-12-29T00:00:00Z",
            notice: "2026-12-02T00:00:00Z", sendBy: "2026-12-07T00:00:00Z"),
        Case(
            name: "held back to a later renewal", now: "2026-11-01T00:00:00Z",
            onOrAfter: "2027-02-01", effective: "2027-02-01T00:00:00Z",
            notice: "2027-01-05T00:00:00Z", sendAfter: "2026-12-05T00:00:00.001Z",
            sendBy: "2027-01-05T00:00:00Z"),
        Case(
            name: "on the day itself", now: "2026-11-01T00:00:00Z", onOrAfter: "2026-12-01",
            effective: "2026-12-01T00:00:00Z", notice: "2026-11-04T00:00:00Z",
            sendBy: "2026-11-04T00:00:00Z"),
        Case(
            name: "a day after it", now: "2026-11-01T00:00:00Z", onOrAfter: "2026-12-02",
            effective: "2027-01-01T00:00:00Z", notice: "2026-12-05T00:00:00Z",
            sendAfter: "2026-11-04T00:00:00.001Z", sendBy: "2026-12-05T00:00:00Z"),
        Case(
            name: "held back only where now is too early", now: "2026-11-20T00:00:00Z",
            onOrAfter: "2026-12-02", effective: "2027-01-01T00:00:00Z",
            notice: "2026-12-05T00:00:00Z", sendBy: "2026-12-05T00:00:00Z"),
        Case(
            name: "weekly, announced, held back: the fourth renewal is meant", period: "P1W",
            now: "2026-11-28T00:00:00Z", onOrAfter: "2026-12-23",
            effective: "2026-12-29T00:00:00Z", notice: "2026-12-02T00:00:00Z",
            sendAfter: "2026-11-30T00:00:00.001Z", sendBy: "2026-12-07T00:00:00Z"),
        Case(
            name: "decrease held back", newPrice: 7990, now: "2026-11-28T00:00:00Z",
            onOrAfter: "2026-12-15", effective: "2027-01-01T00:00:00Z",
            sendAfter: "2026-11-30T00:00:00.001Z", sendBy: "2026-12-31T00:00:00Z"),
        Case(
            name: "stale renewal", renewalAt: "2026-09-01T00:00:00Z", now: "2026-11-01T00:00:00Z",
            effective: "2026-12-01T00:00:00Z", notice: "2026-11-04T00:00:00Z",
            sendBy: "2026-11-04T00:00:00Z"),
        Case(
            name: "anchored on the 31st", renewalAt: "2027-02-28T12:00:00Z",
            startedAt: "2026-01-31T12:00:00Z", now: "2027-02-10T00:00:00Z",
            effective: "2027-03-31T12:00:00Z", notice: "2027-03-04T12:00:00Z",
            sendBy: "2027-03-04T12:00:00Z"),
    ]

    @Test(arguments: cases)
    func dates_inProduction_followTheContract(_ item: Case) {
        let facts = SubscriptionFacts.make(
            period: item.period, renewalAt: item.renewalAt, startedAt: item.startedAt,
            price: item.price)

        let plan = Judge.make(now: item.now).one(
            .make(item.newPrice, onOrAfter: item.onOrAfter), facts)

        #expect(plan.code == nil)
        #expect(plan.effectiveAt?.text == item.effective)
        #expect(plan.noticeAt?.text == item.notice)
        #expect(plan.sendAfter?.text == item.sendAfter)
        #expect(plan.sendBy?.text == item.sendBy)
    }

    @Test func renewalAt_whenTheKnownOneIsPast_isTheFirstSteppedAtOrAfterNow() {
        let facts = SubscriptionFacts.make(renewalAt: "2026-09-01T00:00:00Z")

        #expect(Judge.make().one(.make(), facts).renewalAt == at("2026-11-01T00:00:00Z"))
    }

    @Test(
        arguments: [
            (12_990, "2026-11-01T10:05:00Z", "2026-11-01T10:00:00Z"),
            (7990, "2026-11-01T10:00:00Z", nil),
        ] as [(Int64, String, String?)])
    func dates_inTheSandbox_areOneShortPeriodApart(
        newPrice: Int64, effective: String, notice: String?
    ) {
        let facts = SubscriptionFacts.make(renewalAt: "2026-11-01T10:00:00Z") {
            $0.purchasedAt = at("2026-11-01T09:55:00Z")
        }

        let plan = Judge.make(now: "2026-11-01T09:56:00Z", environment: .sandbox).one(
            .make(newPrice), facts)

        #expect(plan.effectiveAt?.text == effective)
        #expect(plan.noticeAt?.text == notice)
        #expect(plan.sendBy?.text == "2026-11-01T10:00:00Z")
        #expect(plan.sendAfter == nil)
    }

    @Test func row_withADateInTheSandbox_isRefused() {
        let facts = SubscriptionFacts.make(renewalAt: "2026-11-01T10:00:00Z") {
            $0.purchasedAt = at("2026-11-01T09:55:00Z")
        }

        let plan = Judge.make(now: "2026-11-01T09:56:00Z", environment: .sandbox).one(
            .make(onOrAfter: "2027-06-01"), facts)

        #expect(plan.code == .malformedRow)
    }

    @Test func dates_inTheSandboxAfterAStaleRenewal_stepByTheShortPeriod() {
        let facts = SubscriptionFacts.make(renewalAt: "2026-11-01T09:54:00Z") {
            $0.purchasedAt = at("2026-11-01T09:49:00Z")
        }

        let plan = Judge.make(now: "2026-11-01T09:59:30Z", environment: .sandbox).one(
            .make(), facts)

        #expect(plan.renewalAt?.text == "2026-11-01T10:04:00Z")
        #expect(plan.effectiveAt?.text == "2026-11-01T10:09:00Z")
    }
}
