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

        let read = try StatementText.details(node(#require(StatementText.details(facts))))

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

        #expect(try StatementText.renames(node(StatementText.text(renames))) == renames)
        // One that was written before any was doubtful.
        let former = #"[{"from":"A","to":"A2","at":1772323200000}]"#
        #expect(try StatementText.renames(node(former)) == Array(renames.prefix(1)))
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
        let checkpoint = FoldCheckpoint(
            before: Self.at, facts: SubscriptionFacts(originalTransactionID: "1"), increases: [],
            seenSKUs: [], foldedThrough: nil, changes: [], money: [], cancellations: [],
            reenabledAt: [:], toldPeriods: periods)

        #expect(
            try CheckpointText.rest(node(CheckpointText.text(checkpoint))).toldPeriods == periods)
        // One that was written before periods were kept has none.
        let former = #"{"changes":[],"money":[],"cancellations":[],"reenabled":[]}"#
        #expect(try CheckpointText.rest(node(former)).toldPeriods.isEmpty)
    }
}
