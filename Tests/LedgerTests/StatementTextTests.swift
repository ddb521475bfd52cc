import FoldStories
import Foundation
import Pricing
import Testing

@testable import Ledger

@Suite struct StatementTextTests {
    @Test func statements_ofRandomStories_readBackAsWritten_andAsCodableReadsThem() throws {
        for seed in 0..<60 as Range<UInt64> {
            for event in RandomStory(seed: seed).events {
                let text = StatementText.text(event)
                #expect(try StatementText.event(text) == event)
                #expect(try JSONText.decode(SubscriptionEvent.self, text) == event)
                #expect(try StatementText.event(try JSONText.encode(event)) == event)
            }
        }
    }

    @Test func items_ofRandomStories_readBackAsWritten() throws {
        for seed in 0..<60 as Range<UInt64> {
            let story = RandomStory(seed: seed)
            var stored = StoredSubscription(id: "1", changes: story.changes)
            stored.arrive(story.events)
            let text = StatementText.text(stored.state.facts.items)

            let items = Array(text.utf8).withUnsafeBytes { StoredItems.items($0) }

            #expect(items == stored.state.facts.items)
        }
    }

    @Test func increases_readBackAsWritten_andAsCodableReadsThem() throws {
        let increases = [
            RecordedIncrease(sku: "A\"\\\n", price: 9990),
            RecordedIncrease(
                sku: "B", price: -1, communicatedAt: Instant(milliseconds: 1),
                effectiveAt: Instant(milliseconds: 2), origin: .elsewhere,
                consentAskedAt: Instant(milliseconds: 3), acceptedAt: Instant(milliseconds: 4),
                refusedAt: Instant(milliseconds: 5)),
        ]
        let text = StatementText.text(increases)

        #expect(try JSONText.decode([RecordedIncrease].self, text) == increases)
        let plain = StatementText.text(Array(increases.dropFirst()))
        let read = Array(plain.utf8).withUnsafeBytes { StoredItems.increases($0) }
        #expect(read == Array(increases.dropFirst()))
        #expect(StatementText.text([RecordedIncrease]()) == "[]")
    }

    @Test func numbers_atTheirLimits_readBack() throws {
        let increases = [Int64.min, .min + 1, -10, -1, 0, 9, 10, .max].map {
            RecordedIncrease(sku: "A", price: $0)
        }

        let text = StatementText.text(increases)

        #expect(try JSONText.decode([RecordedIncrease].self, text) == increases)
    }

    @Test func statement_withEveryKindOfCharacter_readsBack() throws {
        var event = try #require(RandomStory(seed: 1).events.first)
        event.type = "\u{1}\"\\/\n é 🎬 \u{2028}"
        event.ignored = ["a", "b"]
        event.transaction = TransactionStatement(period: "P1M", offerDiscountType: "FREE_TRIAL")

        #expect(try StatementText.event(StatementText.text(event)) == event)
    }
}
