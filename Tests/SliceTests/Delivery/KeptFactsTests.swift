import Pricing
import Testing

@testable import Batches

@Suite("Facts that a plan keeps for rows far behind")
struct KeptFactsTests {
    private typealias Known = PlanQueries.FactRows.Known

    /// With everything that a plan reads of a subscription but the customer, whom only dependents ask for.
    private static func facts(_ id: String) -> SubscriptionFacts {
        var facts = SubscriptionFacts(originalTransactionID: id)
        facts.status = 1
        facts.autoRenews = true
        facts.isInBillingRetry = true
        facts.storefront = "DEU"
        facts.currency = "EUR"
        facts.period = "P1M"
        facts.ownershipType = "PURCHASED"
        var item = SubscriptionFacts.Item(sku: "A")
        item.currentPrice = 9990
        item.renews = true
        facts.items = [item]
        facts.originalPurchaseAt = Instant(milliseconds: 1)
        facts.recentSubscriptionStartAt = Instant(milliseconds: 2)
        facts.purchasedAt = Instant(milliseconds: 3)
        facts.expiresAt = Instant(milliseconds: 4)
        facts.renewalAt = Instant(milliseconds: 5)
        facts.signedAt = Instant(milliseconds: 6)
        facts.knownSince = nil
        return facts
    }

    private let plain = JudgeContext(increaseHistory: [])

    @Test("They are what was read, whatever form the id has")
    func same() {
        let kept = KeptFacts()
        let ids = ["2000000000007919", "0042", "12345678901234567890123"]
        kept.keep(ids.map { Known(Self.facts($0), plain) })
        let found = kept.found(ids + ["7"])
        #expect(found.map { $0 != nil } == [true, true, true, false])
        for (id, known) in zip(ids, found) {
            #expect(known?.facts == Self.facts(id))
            #expect(known?.context == plain)
        }
    }

    @Test("A subscription with more to say is read again")
    func readAgain() {
        let kept = KeptFacts()
        let past = PastIncrease(sku: "A", at: Instant(milliseconds: 7))
        kept.keep([Known(Self.facts("1"), JudgeContext(increaseHistory: [past]))])
        #expect(kept.found(["1"]).allSatisfy { $0 == nil })
    }
}
