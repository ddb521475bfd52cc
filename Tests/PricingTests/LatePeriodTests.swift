import FoldStories
import Testing

@testable import Pricing

private typealias Story = LifecycleStory

/// A period that is told late is compared with those beside it, whatever its item was called then, and only where prices
/// can be compared.
@Suite struct LatePeriodTests {
    private static func told(
        _ day: Int64, _ type: String, of purchase: Int64, _ sku: String, _ price: Int64,
        renewing: String? = nil, currency: String = "USD"
    ) -> SubscriptionEvent {
        var event = Story.event(
            day, type, purchasedOn: purchase, charged: [Story.charged(sku, price: price)],
            renewing: [Story.renewing(renewing ?? sku, price: price)])
        event.transaction?.currency = currency
        return event
    }

    private static func rises(_ events: [SubscriptionEvent]) -> [String] {
        var random = StoryRandom(seed: 3)
        var answers: Set<[String]> = []
        for _ in 0..<30 {
            var stored = StoredSubscription(id: "1", changes: [])
            for piece in ArrivalOrder(events, random: &random).pieces { stored.arrive(piece) }
            answers.insert(
                stored.state.increases.map {
                    let day = $0.effectiveAt.map {
                        ($0.milliseconds - Story.start.milliseconds) / Story.day
                    }
                    return "\($0.sku) \($0.price) \(day.map { "\($0)" } ?? "-")"
                })
        }
        return answers.count == 1 ? answers.first ?? [] : ["\(answers)"]
    }

    /// Renamed for the next renewal, so the running transaction has the old name; the earlier period is signed under
    /// either.
    @Test(arguments: ["A", "B"])
    func periodToldLate_underEitherName_bringsTheIncreaseToLight(name: String) {
        #expect(
            Self.rises([
                Self.told(31, "DID_RENEW", of: 31, "A", 12990),
                Self.told(40, "METADATA_UPDATE", of: 31, "A", 12990, renewing: "B"),
                Self.told(41, "REFUND_DECLINED", of: 0, name, 9990, renewing: "B"),
            ]) == ["B 12990 31"])
    }

    /// Renamed at once, and no statement of the rename came.
    @Test(arguments: ["A", "B"])
    func periodToldLate_afterARenameThatWasNeverTold_bringsTheIncreaseToLight(name: String) {
        #expect(
            Self.rises([
                Self.told(31, "DID_RENEW", of: 31, "A", 12990),
                Self.told(40, "DID_CHANGE_RENEWAL_STATUS", of: 31, "B", 12990),
                Self.told(41, "REFUND_DECLINED", of: 0, name, 9990, renewing: "B"),
            ]) == ["B 12990 31"])
    }

    /// The period between was paid in another currency: whatever its number, it says nothing of when the price rose.
    @Test(arguments: [Int64(1_500_000), 8990])
    func periodInAnotherCurrency_movesNoIncrease(price: Int64) {
        #expect(
            Self.rises([
                Self.told(0, "SUBSCRIBED", of: 0, "A", 9990),
                Self.told(62, "DID_RENEW", of: 62, "A", 12990),
                Self.told(63, "REFUND_DECLINED", of: 31, "A", price, currency: "JPY"),
            ]) == ["A 12990 62"])
    }
}
