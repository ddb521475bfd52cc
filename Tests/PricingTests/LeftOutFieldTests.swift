import FoldStories
import Testing

@testable import Pricing

private typealias Story = LifecycleStory

/// All fields of Apple's payloads are optional: what a statement leaves out, it does not take back.
@Suite struct LeftOutFieldTests {
    private static func seats(_ day: Int64, _ type: String, _ quantity: Int?) -> SubscriptionEvent {
        var event = Story.event(
            day, type, charged: [Story.charged(price: 15990)], renewing: [Story.renewing()])
        event.transaction?.quantity = quantity
        return event
    }

    /// Told together or one after the other.
    @Test(arguments: [true, false])
    func laterStatementWithoutSeats_leavesTheCharge(isOneFold: Bool) {
        let (bought, later) = (
            Self.seats(0, "SUBSCRIBED", 3), Self.seats(9, "CONSUMPTION_REQUEST", nil)
        )
        var stored = StoredSubscription(id: "1", changes: [])

        for piece in isOneFold ? [[bought, later]] : [[bought], [later]] { stored.arrive(piece) }

        let charge = stored.money.values.first
        #expect(stored.money.count == 1)
        #expect(charge?.amount == 47_970)
        #expect(charge?.terms?.quantity == 3)
    }

    /// The first statement of a renewal says nothing of its seats, and those of the period before are not its own.
    @Test func firstStatementWithoutSeats_isOfOne() {
        var stored = StoredSubscription(id: "1", changes: [])
        var renewed = Story.renewedAtNewPrice
        renewed.transaction?.quantity = nil

        stored.arrive([Self.seats(0, "SUBSCRIBED", 3)])
        stored.arrive([renewed])

        #expect(Set(stored.money.values.map(\.amount)) == [47_970, 15990])
    }

    /// Whose customer was asked shows in the status alone, and a change is declined although no price stood beside it.
    @Test(arguments: [nil, 15990, 9990, 12990] as [Int64?])
    func askedWithoutAPrice_isAboutTheScheduledIncrease(renewing price: Int64?) {
        var item = Story.renewing(price: 9990, status: "PENDING")
        item.increasePrice = nil
        item.price = price
        let asked = Story.event(
            4, "PRICE_INCREASE", "PENDING", charged: [Story.charged()], renewing: [item])
        let gone = Story.event(
            31, "DID_RENEW", purchasedOn: 31, charged: [Story.charged("B", price: 2000)],
            renewing: [Story.renewing("B", price: 2000)])

        let told = Story.states([Story.bought, Story.priceChange, asked, gone])
        let unscheduled = Story.states([Story.bought, asked])

        let isAbout = price != 12990
        #expect(told.contains("change-A pending_consent") == isAbout)
        #expect(told.contains("change-A declined") == isAbout, "\(told)")
        #expect(unscheduled.isEmpty)
    }

    /// A charge without its transaction, or without its day, is in no sum, and said to be left out.
    @Test func chargeWithoutItsTransactionOrDay_isNamed() throws {
        func leftOut(_ change: (inout TransactionStatement) -> Void) throws -> [String] {
            var event = Story.bought
            event.transaction.map { told in
                var told = told
                change(&told)
                event.transaction = told
            }
            return try event.storable().ignored ?? []
        }

        #expect(try leftOut { $0.transactionID = nil } == ["transaction.transactionId"])
        #expect(try leftOut { $0.purchasedAt = nil } == ["transaction.purchaseDate"])
        #expect(
            try leftOut {
                $0.purchasedAt = nil
                $0.items = []
            } == [])
        #expect(try leftOut { _ in } == [])
    }
}
