import FoldStories
import JSON
import Testing

@testable import Facts
@testable import Pricing

@Suite struct StatementTextTests {
    private func node(_ text: String) throws -> JSONNode {
        try #require(JSONDocument.read(Array(text.utf8)))
    }

    private func event(_ text: String) throws -> SubscriptionEvent {
        try StoredJSON.object(node(text))
    }

    @Test func statements_ofRandomStories_readBackAsWritten() throws {
        for seed in 0..<60 as Range<UInt64> {
            for told in RandomStory(seed: seed).events {
                #expect(try event(StoredJSON.text(told)) == told)
            }
        }
    }

    @Test func items_ofRandomStories_readBackAsWritten() throws {
        for seed in 0..<60 as Range<UInt64> {
            let story = RandomStory(seed: seed)
            var stored = StoredSubscription(id: "1", changes: story.changes)
            stored.arrive(story.events)
            let text = StoredJSON.text(stored.state.facts.items)

            #expect(try StoredJSON.objects(node(text)) == stored.state.facts.items)
        }
    }

    @Test func increases_readBackAsWritten() throws {
        let increases = [
            RecordedIncrease(sku: "A\"\\\n", price: 9990),
            RecordedIncrease(
                sku: "B", price: -1, communicatedAt: Instant(milliseconds: 1),
                effectiveAt: Instant(milliseconds: 2), origin: .elsewhere,
                consentAskedAt: Instant(milliseconds: 3), acceptedAt: Instant(milliseconds: 4),
                refusedAt: Instant(milliseconds: 5)),
        ]

        #expect(try StoredJSON.objects(node(StoredJSON.text(increases))) == increases)
        #expect(StoredJSON.text([RecordedIncrease]()) == "[]")
    }

    @Test func numbers_atTheirLimits_readBack() throws {
        let increases = [Int64.min, .min + 1, -10, -1, 0, 9, 10, .max].map {
            RecordedIncrease(sku: "A", price: $0)
        }

        #expect(try StoredJSON.objects(node(StoredJSON.text(increases))) == increases)
    }

    @Test func statement_withEveryKindOfCharacter_readsBack() throws {
        var told = try #require(RandomStory(seed: 1).events.first)
        told.type = "\u{1}\"\\/\n é 🎬 \u{2028}"
        told.ignored = ["a", "b"]
        told.transaction = TransactionStatement(period: "P1M", offerDiscountType: "FREE_TRIAL")

        #expect(try event(StoredJSON.text(told)) == told)
    }

    @Test func statement_ofV1_readsBack() throws {
        let told = SubscriptionEvent(
            key: .init(signedAt: Instant(milliseconds: 7), evidenceID: "v1:a"), source: .legacy,
            originalTransactionID: "1", type: "DID_RENEW",
            legacy: LegacyStatement(
                autoRenews: false, isInBillingRetry: true,
                gracePeriodExpiresAt: Instant(milliseconds: 8),
                expiresAt: Instant(milliseconds: 9)))

        #expect(try event(StoredJSON.text(told)) == told)
    }

    @Test(arguments: [
        "[]", "{}", #"{"key":{"signedAt":1,"evidenceID":"e"},"source":"status"}"#,
        #"{"key":{"signedAt":"1","evidenceID":"e"},"source":"status","originalTransactionID":"1"}"#,
        #"{"key":{"signedAt":1,"evidenceID":"e"},"source":"rumour","originalTransactionID":"1"}"#,
        #"{"key":{"signedAt":1,"evidenceID":"e"},"source":"status","originalTransactionID":"1","transaction":{}}"#,
    ])
    func statement_ofAnotherShape_isRefused(text: String) {
        #expect(throws: JSONRecord.Fault.self) { try event(text) }
    }
}
