import Testing

@testable import Pricing

/// Rows of a wave are forecast for calls from its release on.
struct WaveForecastTests {
    @Test func row_ofALaterWave_takesEffectAtTheRenewalThatItsReleaseReaches() {
        let judge = Judge.make(now: "2026-11-01T00:00:00Z")

        let atOnce = judge.one()
        let later = judge.calling(from: at("2026-11-10T00:00:00Z")).one()

        #expect(atOnce.effectiveAt == at("2026-12-01T00:00:00Z"))
        #expect(later.effectiveAt == at("2027-01-01T00:00:00Z"))
        #expect(later.sendBy == at("2026-12-05T00:00:00Z"))
        #expect(later.judgedAt == at("2026-11-10T00:00:00Z"))
        // The next renewal is one of today, whenever the wave is released.
        #expect(later.renewalAt == at("2026-12-01T00:00:00Z"))
        // A person may release the wave before its time, so no date of the row holds it back.
        #expect(later.sendAfter == nil)
    }

    @Test func row_ofALaterWave_isHeldBackOnlyForItsOwnDay() {
        let judge = Judge.make(now: "2026-11-01T00:00:00Z")
            .calling(from: at("2026-11-10T00:00:00Z"))

        #expect(
            judge.one(.make(onOrAfter: "2027-02-01")).sendAfter == at("2026-12-05T00:00:00.001Z"))
        #expect(judge.one(.make(onOrAfter: "2027-01-01")).sendAfter == nil)
    }

    /// An increase of last December counts until this December.
    @Test func consent_isThatOfACallAtTheRelease() {
        var context = JudgeContext()
        context.increaseHistory = [
            PastIncrease(sku: "ITEM", at: at("2025-12-20T00:00:00Z"), isOurs: false)
        ]
        let judge = Judge.make(now: "2026-11-01T00:00:00Z")
        let facts = SubscriptionFacts.make(startedAt: "2025-01-01T00:00:00Z")

        let atOnce = judge.one(.make(), facts, context)
        let later = judge.calling(from: at("2027-01-10T00:00:00Z")).one(.make(), facts, context)

        #expect(atOnce.consent == .required)
        #expect(later.consent == .notRequired)
    }

    /// What a plan of that day would say, where nothing happens until then.
    @Test func row_ofALaterWave_isWhatThePlanOfThatDaySays() {
        for (index, hours) in stride(from: 0, through: 9000, by: 13).enumerated() {
            let release = at("2026-11-01T00:00:00Z").advanced(by: Int64(hours) * 3_600_000)
            let period = ["P1W", "P1M", "P2M", "P1Y"][index % 4]
            let price: Int64 = [7990, 10_990, 15_990][index % 3]
            let facts = SubscriptionFacts.make(period: period)

            let later = Judge.make(now: "2026-11-01T00:00:00Z").calling(from: release)
                .one(.make(price), facts)
            let then = Judge.make(now: release).one(.make(price), facts)

            #expect(later.effectiveAt == then.effectiveAt, "\(release.text) \(period) \(price)")
            #expect(later.sendBy == then.sendBy, "\(release.text) \(period) \(price)")
            #expect(later.noticeAt == then.noticeAt, "\(release.text) \(period) \(price)")
            #expect(later.consent == then.consent, "\(release.text) \(period) \(price)")
            #expect(later.sendAfter == then.sendAfter, "\(release.text) \(period) \(price)")
            #expect(later.turn == then.turn, "\(release.text) \(period) \(price)")
        }
    }

    /// Two waves of a call each: beside the calls of today the second has all the time that it needs, but not beside those
    /// of its own day.
    @Test func calls_ofALaterWave_areCountedFromItsReleaseOn() throws {
        let now = at("2026-11-01T00:00:00Z")
        let waves = try WavePlan("50%,rest@2026-11-03T23:59:00Z")
        var forecast = BatchForecast(BatchTerms(waves: waves), asOf: now)
        let release = waves.earliestReleases(approvedAt: now)[1]
        var counts = [0, 0]
        for number in 1...20 {
            let id = "20000000000000\(number + 10)"
            let wave = try #require(waves.wave(ofSubscription: id, storefront: "USA"))
            counts[wave - 1] += 1
            let judge =
                wave == 1 ? Judge.make(now: now) : Judge.make(now: now).calling(from: release)
            var row = BatchRow.make(line: number + 1)
            row.originalTransactionID = id
            let facts = SubscriptionFacts.make { $0.originalTransactionID = id }
            forecast.add(judge.one(row, facts))
        }

        let quota = forecast.calls.quota(callsPerThousandSeconds: 100, now: now, lateRowsMax: 9)

        // The last instant is 60 seconds after the release, and a call takes ten.
        #expect(forecast.waves == counts)
        #expect(counts[1] > 7)
        #expect(quota.lateRowCount == counts[1] - 7)
    }
}
