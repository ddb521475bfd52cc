import Pricing
import Testing

/// What an analyst reads of a batch: largest moves, warnings, money a month.
@Suite struct FiguresTests {
    private func row(
        _ line: Int, now: Int64 = 9990, then: Int64 = 12_990, id: String = "17",
        currency: String = "USD", period: String = "P1M", consent: Consent = .notRequired,
        effectiveAt: String = "2026-12-01T00:00:00Z"
    ) -> PlanRow {
        var row = PlanRow(line: line, originalTransactionID: id, sku: "A")
        row.direction = then > now ? .increase : .decrease
        (row.currency, row.storefront, row.period) = (currency, "USA", period)
        (row.currentPrice, row.newPrice, row.consent) = (now, then, consent)
        row.effectiveAt = at(effectiveAt)
        return row
    }

    private func figures(_ rows: [PlanRow]) -> BatchFigures {
        var forecast = BatchForecast(asOf: at("2026-11-01T00:00:00Z"))
        for row in rows { forecast.add(row) }
        return forecast.figures
    }

    @Test func decreases_areRankedByTheirShare() {
        let figures = figures([
            row(2, now: 10_000, then: 9000), row(3, now: 1000, then: 100),
            row(4, now: 100_000, then: 50_000), row(5, then: 12_990),
        ])

        #expect(figures.decreases.moves.map(\.line) == [3, 4, 2])
        #expect(figures.decreases.moves.map(\.permille) == [-900, -500, -100])
        #expect(figures.increases.moves.map(\.line) == [5])
    }

    @Test(
        arguments: [
            (0, 9990, nil), (9990, 29_970, 2000), (9990, .max, nil), (3, 2, -334), (-5, 5, nil),
            (3, 4, 334), (63_990, 100, -999), (2000, 2001, 1), (7, 7, 0),
        ] as [(Int64, Int64, Int64?)])
    func permille_isAbsentWhereNoPercentageSaysAnything(
        _ now: Int64, _ then: Int64, _ expected: Int64?
    ) {
        let move = PriceMove(
            line: 1, originalTransactionID: "1", sku: "A", currency: "USD", currentPrice: now,
            newPrice: then)

        #expect(move.permille == expected)
    }

    /// In the same words as the limits of approvers: no part of a decrease is hidden by rounding it down.
    @Test(
        arguments: [
            (63_990, 100, -9985), (9990, 12_990, 3004), (10_000, 12_500, 2500), (0, 990, nil),
        ] as [(Int64, Int64, Int64?)])
    func basisPoints_areRoundedAwayFromZero(_ now: Int64, _ then: Int64, _ expected: Int64?) {
        let move = PriceMove(
            line: 1, originalTransactionID: "1", sku: "A", currency: "USD", currentPrice: now,
            newPrice: then)

        #expect(move.basisPoints == expected)
    }

    @Test(
        arguments: [
            (63_990, 1290, [BatchWarning.lessThanAThird]), (10_990, 10, [.lessThanAThird]),
            (9990, 3330, []), (9990, 3329, [.lessThanAThird]), (9990, 29_970, []),
            (9990, 29_971, [.moreThanThreefold]), (0, 990, [.moreThanThreefold]),
            (1, .max, [.moreThanThreefold]), (.max, 1, [.lessThanAThird]),
        ] as [(Int64, Int64, [BatchWarning])])
    func warning_ofAPrice_isMoreThanThreeTimesOrLessThanAThird(
        _ now: Int64, _ then: Int64, _ expected: [BatchWarning]
    ) {
        let warnings = figures([row(7, now: now, then: then)]).warnings

        #expect(Array(warnings.keys) == expected)
        #expect(warnings.values.allSatisfy { $0 == .init(count: 1, lines: [7]) })
    }

    @Test(arguments: [
        ("2028-11-01T00:00:00Z", 0), ("2028-11-01T00:00:01Z", 1), ("9999-12-31T00:00:00Z", 1),
    ])
    func warning_ofADate_isMoreThanTwoYearsAhead(_ effectiveAt: String, _ count: Int) {
        let warnings = figures([row(2, effectiveAt: effectiveAt)]).warnings

        #expect(warnings[.farAhead]?.count ?? 0 == count)
    }

    @Test(arguments: [
        ((1...5).map { "200000001234\($0)7\($0)0" }, true),
        ((1...4).map { "200000001234\($0)7\($0)0" }, false),
        ((1...5).map { "200000001234\($0)7\($0)0" } + ["2000000012345671"], false),
        // A spreadsheet leaves 15 digits: these zeros are somebody's way of numbering.
        ((1...5).map { "20000000000\($0)0000" }, false),
        ((1...5).map { "20000000001237\($0)000" }, true), ((1...9).map { "\($0)0" }, true),
    ])
    func warning_ofIDsThatASpreadsheetRounded(_ ids: [String], _ expected: Bool) {
        var rows = ids.enumerated().map { row($0 + 2, id: $1) }
        // A refused row's id was in the spreadsheet, too.
        rows[0].fault = RowFault(.unknownSubscription, "", remedy: "")

        let warning = figures(rows).warnings[.idsEndInZero]

        #expect((warning != nil) == expected)
        #expect(warning.map { $0.count == ids.count && $0.lines.isEmpty } ?? true)
    }

    @Test func warnings_nameTheFirstTenLines() {
        let warnings = figures((2...30).map { row($0, then: 99_990) }).warnings

        #expect(warnings[.moreThanThreefold] == .init(count: 29, lines: Array(2...11)))
    }

    @Test func dates_areCountedByWeekAndByMonth() {
        let figures = figures([
            row(2, effectiveAt: "2026-11-30T12:00:00Z"),
            row(3, then: 1, effectiveAt: "2026-12-31T00:00:00Z"),
        ])

        #expect(figures.months.mapValues(\.rows) == [day("2026-11-01"): 1, day("2026-12-01"): 1])
        #expect(figures.weeks.mapValues(\.rows) == [day("2026-11-30"): 1, day("2026-12-28"): 1])
        #expect(figures.months[day("2026-12-01")]?.decreases == 1)
    }

    @Test func sums_ofAbsurdPrices_areKnownToBeTooLarge() throws {
        let figures = figures([row(2, then: .max), row(3, then: .max)])
        let sum = try #require(figures.money.values.first)

        #expect(sum.then.isTooLarge)
        #expect(sum.change.isTooLarge)
        #expect(sum.isTooLarge)
        #expect(!sum.now.isTooLarge)
        #expect(!BatchFigures.Money(now: 5, then: 3).isTooLarge)
        #expect(BatchFigures.Money(now: 5, then: 3).change == -2)
        #expect(MoneyAMonth(figures.money, in: "USD", by: rules([:])).isTooLarge)
    }

    private func rules(_ rates: [String: Int64]) -> RulesInForce {
        RuleSet(
            rates.compactMap { code, billionths in
                Rate(billionths: billionths).map {
                    .exchangeRate(
                        code, perEuro: $0,
                        validFrom: at(
                            code == "USD" ? "2026-10-30T00:00:00Z" : "2026-10-31T00:00:00Z"),
                        source: "ecb")
                }
            }
        ).inForce(at: at("2026-11-01T00:00:00Z"))
    }

    @Test func money_isSummedByCurrencyAndInOne_withRateAndDateBesideIt() throws {
        let figures = figures([
            row(2, now: 10_000, then: 12_000),
            row(3, now: 120_000, then: 60_000, period: "P1Y"),
            row(4, now: 10_000, then: 20_000, currency: "EUR", consent: .required),
            row(5, now: 1_000_000, then: 2_000_000, currency: "JPY", consent: .notKnown),
        ])

        let money = MoneyAMonth(
            figures.money, in: "USD",
            by: rules(["USD": 1_250_000_000, "JPY": 200_000_000_000]))

        #expect(money.lines.map(\.currency) == ["EUR", "JPY", "USD"])
        let dollars = BatchFigures.Money(rows: 2, now: 20_000, then: 17_000)
        #expect(money.lines.last?.money == dollars)
        // A euro is 1.25 USD, 160 JPY are one.
        let total = BatchFigures.Money(
            rows: 4, now: 38_750, then: 54_500, atRisk: 12_500, maybeAtRisk: 6250)
        #expect(money.total == total)
        #expect(money.rates.map(\.rate.text) == ["0.8", "160"])
        #expect(money.rates.map { $0.validFrom?.day.text } == ["2026-10-30", "2026-10-30"])
        #expect(money.rates.map(\.source) == ["ecb", "ecb"])
        #expect(money.missingRates.isEmpty)
    }

    @Test func money_withoutARate_namesTheCurrencyAndItsRows() {
        let figures = figures([
            row(2), row(3, currency: "JPY"), row(4, currency: "EUR"), row(5, period: "odd"),
        ])

        let money = MoneyAMonth(figures.money, in: "USD", by: rules(["USD": 1_250_000_000]))
        let none = MoneyAMonth(figures.money, in: "USD", by: rules([:]))

        #expect(money.missingRates == ["JPY"])
        #expect(money.withoutRate.map(\.money.rows) == [1])
        #expect(money.total.rows == 2)
        #expect(money.rowsWithoutMonth == 1)
        #expect(none.missingRates == ["JPY", "USD"])
        #expect(none.total.rows == 1)
    }
}
