import AppStore
import Pricing
import Testing

@testable import Calls

/// Statuses of dependents that are refused alike: who asks on, and how often.
struct RefusedStatusesTests {
    @Test func askingOne_holdsDependentsUntilTheInstant_thenOneAtATime_untilOneIsAnswered() {
        let statuses = RefusedStatuses()
        let from = Instant(milliseconds: 60_000)

        #expect(statuses.allowed(24, at: Instant(milliseconds: 0)) == 24)
        statuses.askOne(from: from)
        #expect(statuses.allowed(24, at: Instant(milliseconds: 59_999)) == 0)
        #expect(statuses.allowed(24, at: from) == 1)
        #expect(statuses.allowed(0, at: from) == 0)
        statuses.note(DeliveryHarness.refusal(.suspect, 4_040_010), of: "1")
        #expect(statuses.allowed(24, at: from) == 1)
        statuses.note(.answered([], StoreReply(httpStatus: 200)), of: "2")
        #expect(statuses.allowed(24, at: Instant(milliseconds: 0)) == 24)
    }
}
