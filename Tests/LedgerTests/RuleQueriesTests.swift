import Ledger
import Postgres
import Pricing
import TestSupport
import Testing

@Suite(.database) struct RuleQueriesTests {
    @Test func seed_whenLoaded_isExactlyWhatThePricingTestsJudgeBy() async throws {
        let connection = try await TestDatabase.connect()
        let rules = try await connection.read {
            try RuleQueries.load(.at, Instant(milliseconds: 0), on: $0)
        }
        await connection.close()

        #expect(Set(rules.thresholds) == Set(RuleSet.shipped.thresholds))
        #expect(rules.thresholds.count == RuleSet.shipped.thresholds.count)
        #expect(Set(rules.currencies) == Set(RuleSet.shipped.currencies))
        #expect(rules.currencies.count == RuleSet.shipped.currencies.count)
        #expect(rules.alwaysConsent.isEmpty)
        #expect(rules.exchangeRates.isEmpty)
    }
}
