import JSON
import Pricing
import Testing

@testable import Facts

/// What a fold keeps for the next one is read as it was written.
@Suite struct KeptTextTests {
    private static let at = Instant(milliseconds: 1_772_323_200_000)

    private func node(_ text: String) throws -> JSONNode {
        try #require(JSONDocument.read(Array(text.utf8)))
    }

    @Test(arguments: [3, nil])
    func addedSeats_areReadAsTheyWereWritten(ownQuantity: Int?) throws {
        var facts = SubscriptionFacts(originalTransactionID: "1")
        facts.addedSeats = AddedSeats(
            ownQuantity: ownQuantity,
            purchases: [
                .init(transactionID: "t1", purchasedAt: Self.at, seats: 2, isGivenBack: false),
                .init(transactionID: "t2", purchasedAt: Self.at, seats: 1, isGivenBack: true),
            ])

        let stored = try #require(StoredDetails(facts))
        let read: StoredDetails = try StoredJSON.object(node(StoredJSON.text(stored)))

        #expect(read.addedSeats == facts.addedSeats)
        #expect(read.transaction.isEmpty && read.renewal.isEmpty)
    }

    @Test func renames_areReadAsTheyWereWritten() throws {
        var doubtful = SubscriptionFacts.FormerName(
            from: "B", to: "C", at: Self.at, transactionID: "t1")
        doubtful.isDoubtful = true
        doubtful.isOfItsTransaction = true
        let renames = [
            SubscriptionFacts.FormerName(from: "A", to: "A2", at: Self.at, transactionID: nil),
            doubtful,
        ]

        #expect(try StoredJSON.objects(node(StoredJSON.text(renames))) == renames)
        // One that was written before any was doubtful.
        let former = #"[{"from":"A","to":"A2","at":1772323200000}]"#
        #expect(try StoredJSON.objects(node(former)) == Array(renames.prefix(1)))
    }

    @Test func toldPeriods_areReadAsTheyWereWritten() throws {
        var periods = [
            ToldPeriod(
                purchasedAt: Self.at, currency: "USD", storefront: nil, period: "P1M",
                prices: [.init(sku: "A", price: 9990), .init(sku: "B", price: 0)])
        ]
        periods.append(periods[0])
        periods[1].endsAt = Self.at.advanced(by: 5)
        periods[1].knownSince = Self.at.advanced(by: -5)
        periods[1].isAfterToldPause = true
        periods[1].announced = ["A"]
        let checkpoint = FoldCheckpoint(
            before: Self.at, facts: SubscriptionFacts(originalTransactionID: "1"), increases: [],
            seenSKUs: [], foldedThrough: nil, changes: [], money: [], cancellations: [],
            reenabledAt: [:], toldPeriods: periods)

        let text = StoredJSON.text(StoredCheckpoint(checkpoint))
        let stored: StoredCheckpoint = try StoredJSON.object(node(text))
        #expect(stored.toldPeriods == periods)
        // One that was written before periods were kept has none.
        let former = #"{"changes":[],"money":[],"cancellations":[],"reenabled":[]}"#
        let read: StoredCheckpoint = try StoredJSON.object(node(former))
        #expect(read.toldPeriods == nil)
    }
}
