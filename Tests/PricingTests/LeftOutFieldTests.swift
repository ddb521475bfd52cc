import Testing

@testable import Pricing

private typealias Story = LifecycleStory

/// All fields of Apple's payloads are optional, and one that is left out is no answer.
@Suite struct LeftOutFieldTests {
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
