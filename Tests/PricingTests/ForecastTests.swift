import Pricing
import Testing

@Suite struct ForecastTests {
    private func row(
        _ id: String = "1", _ sku: String = "A", line: Int = 2, now: Int64 = 9990,
        then: Int64 = 12_990, consent: Consent = .notRequired, period: String = "P1M",
        sendBy: String = "2026-11-04T00:00:00Z", sendAfter: String? = nil,
        effectiveAt: String = "2026-12-01T00:00:00Z"
    ) -> PlanRow {
        var row = PlanRow(line: line, originalTransactionID: id, sku: sku)
        row.direction = then > now ? .increase : .decrease
        (row.currency, row.storefront, row.period) = ("USD", "USA", period)
        (row.currentPrice, row.newPrice, row.consent) = (now, then, consent)
        (row.sendBy, row.sendAfter) = (at(sendBy), sendAfter.map(at))
        row.effectiveAt = at(effectiveAt)
        return row
    }

    private func forecast(_ rows: [PlanRow]) -> BatchForecast {
        var forecast = BatchForecast()
        for row in rows { forecast.add(row) }
        return forecast
    }

    @Test func counts_ofRefusedRows_goToTheirCodesAlone() {
        let refused = PlanRow(line: 3, fault: RowFault(.noChange, "", remedy: ""))

        let forecast = forecast([row(), refused, row(line: 4, then: 4990, consent: .none)])

        #expect((forecast.rowCount, forecast.canGoCount, forecast.refusedCount) == (3, 2, 1))
        #expect(forecast.codes == [.noChange: 1])
        #expect(forecast.directions == [.increase: 1, .decrease: 1])
        #expect(forecast.consents == [.notRequired: 1, .none: 1])
    }

    @Test(arguments: [
        ("2026-11-30T00:00:00Z", "2026-11-30"), ("2026-12-06T23:59:59Z", "2026-11-30"),
        ("2026-12-07T00:00:00Z", "2026-12-07"), ("2024-02-29T12:00:00Z", "2024-02-26"),
    ])
    func week_beginsOnItsMonday(_ effectiveAt: String, _ monday: String) {
        let forecast = forecast([row(effectiveAt: effectiveAt)])

        #expect(forecast.weeks.mapValues(\.increases) == [day(monday): 1])
        #expect(forecast.weeks.mapValues(\.rows) == [day(monday): 1])
    }

    @Test func money_sumsPeriodsAndWhatNeedsConsent() {
        let forecast = forecast([
            row(), row(line: 3, now: 5000, then: 9000, consent: .required),
        ])

        #expect(forecast.money.keys.map(\.storefront) == ["USA"])
        #expect(forecast.money.values.map(\.rows) == [2])
        #expect(forecast.money.values.map(\.now) == [14_990])
        #expect(forecast.money.values.map(\.then) == [21_990])
        #expect(forecast.money.values.map(\.atRisk) == [5000])
    }

    @Test(arguments: [
        ("P1M", 9990, 9990), ("P1Y", 120_000, 10_000), ("P1Y", 6, 1), ("P1Y", -6, -1),
        ("P1W", 3000, 13_000), ("P3M", 100, 33), ("P6M", Int64.max, Int64.max / 6), ("odd", 1, nil),
    ])
    func month_ofAPeriod(_ period: String, _ amount: Int64, _ month: Int64?) {
        #expect(Period(period).perMonth(MoneySum(amount))?.milliunits == month)
    }

    @Test func largest_areTheTenByPercent_ofEqualOnesTheFirst() {
        let rows = (1...12).map { row(line: $0 + 1, now: 1000, then: 1000 + Int64($0 % 6) * 100) }

        let largest = forecast(rows + [row(line: 20, now: 10, then: 30)]).increases.moves

        #expect(largest.map(\.line) == [20, 6, 12, 5, 11, 4, 10, 3, 9, 2])
        #expect(largest.first?.permille == 2000)
    }

    @Test func calls_areGroupedAsTheyAreSent() {
        let forecast = forecast([
            row("1", "A", line: 2), row("1", "B", line: 9),
            row("1", "C", line: 3, consent: .required),
            row("1", "D", line: 4, consent: .required),
            row("1", "E", line: 5, then: 1, consent: .none),
            row("1", "F", line: 6, effectiveAt: "2027-01-01T00:00:00Z"), row("2", "A", line: 7),
        ])

        #expect(quota(forecast).calls == 6)
    }

    @Test func quota_atHalfACallASecond_takesTwoSecondsEach() {
        let forecast = forecast((1...5).map { row("\($0)", line: $0) })

        let quota = quota(forecast, rate: 500)

        #expect(quota.seconds == 10)
        #expect(quota.lateRowCount == 0)
    }

    @Test func quota_whenDeadlinesAreTooClose_namesTheLateRowsByDeadline() {
        // One call a second from 00:00:00: the n-th goes at n - 1 seconds.
        let forecast = forecast([
            row("1", line: 2, sendBy: "2026-11-01T00:00:09Z"),
            row("2", line: 3, sendBy: "2026-11-01T00:00:01Z"),
            row("3", line: 4, sendBy: "2026-11-01T00:00:01Z"),
            row("4", line: 5, sendBy: "2026-11-01T00:00:01Z"),
            row("007", line: 6, sendBy: "2026-11-01T00:00:01Z"),
            // It is overdue, which no rate changes.
            row("6", line: 7, sendBy: "2026-10-31T00:00:00Z"),
        ])

        let quota = quota(forecast, rate: 1000)

        #expect(quota.lateRows.map(\.line) == [5, 6])
        #expect(quota.lateRows.map(\.originalTransactionID) == ["4", "007"])
        #expect((quota.lateCalls, quota.lateRowCount) == (2, 2))
    }

    @Test func quota_whenACallMayNotGoYet_givesItsPlaceToOthers() {
        let forecast = forecast([
            row(
                "1", line: 2, sendBy: "2026-11-01T00:00:10Z", sendAfter: "2026-11-01T00:00:10Z"),
            row("2", line: 3, sendBy: "2026-11-01T00:00:20Z"),
        ])

        #expect(quota(forecast, rate: 1000).lateRows.isEmpty)
        #expect(quota(forecast, rate: 50).lateRows.map(\.line) == [2])
    }

    private func quota(_ forecast: BatchForecast, rate: Int = 50_000) -> CallList.Quota {
        forecast.calls.quota(
            callsPerThousandSeconds: rate, now: at("2026-11-01T00:00:00Z"), lateRowsMax: 100)
    }
}
