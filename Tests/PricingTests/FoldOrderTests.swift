import FoldStories
import Pricing
import TestSupport
import Testing

@Suite(.ownThread) struct FoldOrderTests {
    /// The release build folds 100,000 (`Deploy/test`, step orders); here as many as a debug build does in a
    /// few seconds.
    @Test func fold_randomOrdersWithRepeats_endAsTheOrderedStoryDoes() {
        #expect(FoldOrders.firstDifference(count: 2000, seed: 1) == nil)
    }

    /// The second promise of `fold`: what retention forgets changes no end.
    @Test func fold_besideRetention_endsAsTheWholeStoryDoes() {
        var forgotten = 0
        for seed in 0..<400 as Range<UInt64> {
            let difference = FoldOrders.differencesBesideRetention(
                seed: seed, orders: 5, forgotten: &forgotten)
            #expect(difference == nil, "story \(seed)")
        }
        #expect(forgotten > 1000)
    }

    /// A dependent elsewhere, asked for by two statements of one millisecond: the first of them is named, whichever
    /// arrived first.
    @Test func fold_ofACrossSubscriptionDependent_namesTheFirstStatementThatAskedForIt() {
        #expect(FoldOrders.differences(seed: 576_199_590, orders: 20) == nil)
    }

    /// Taken for the subscription's own until a late statement shows that it never was.
    @Test func fold_ofACrossSubscriptionDependent_isNotProvedByTheEndOfItsParentsSubscription() {
        #expect(FoldOrders.differences(seed: 1_800_024_443, orders: 20) == nil)
    }

    /// The generator is only worth what it tells: every state and detour occurs.
    @Test func stories_ofManySeeds_reachEveryState() {
        var states: Set<ChangeState> = []
        var reasons: Set<String> = []
        var cancellations: Set<DependentCancellation.State> = []
        var slips: Set<Slip> = []
        var details: Set<SignedDetails.Field> = []
        for seed in 0..<600 as Range<UInt64> {
            let story = RandomStory(seed: seed, steps: 4 + Int(seed % 9))
            var stored = StoredSubscription(id: "1", changes: story.changes)
            stored.arrive(story.events)
            states.formUnion(stored.history.map(\.state))
            reasons.formUnion(stored.history.compactMap(\.reason))
            cancellations.formUnion(stored.state.cancellations.map(\.state))
            slips.formUnion(stored.state.changes.compactMap(\.progress.slip))
            let facts = stored.state.facts
            details.formUnion(
                SignedDetails.Field.allCases.filter {
                    facts.transactionDetails[$0] != nil || facts.renewalDetails[$0] != nil
                })
        }

        #expect(
            states.isSuperset(of: [
                .scheduled, .pendingConsent, .accepted, .effective, .declined, .cancelled, .lapsed,
                .invalidated,
            ]))
        #expect(
            reasons.isSuperset(of: [
                "cycle_reset", "item_replaced", "postponed_by_offer", "renewal_extended",
                "refund_reversed", "item_missing_at_renewal", "parent_declined",
            ]))
        #expect(cancellations.contains(.confirmed))
        #expect(slips == Set(Slip.allCases))
        #expect(details == Set(SignedDetails.Field.allCases))
    }
}
