import Pricing
import Testing

private typealias Story = LifecycleStory

/// The interaction matrix of "Handling subscription price changes" (apple-contract §1.3), every cell: what Apple
/// tells after the operation, and what becomes of our open change. The increase of A is not yet communicated
/// (`told` is nil), or communicated: pending, or accepted.
@Suite struct InteractionMatrixTests {
    enum Told: String, CaseIterable, CustomTestStringConvertible, Sendable {
        case notYet = "SCHEDULED"
        case pending = "PENDING"
        case accepted = "ACCEPTED"

        var testDescription: String { rawValue }
    }

    private func history(_ told: Told) -> [SubscriptionEvent] {
        switch told {
        case .notYet: [Story.bought, Story.priceChange]
        case .pending: [Story.bought, Story.priceChange, Story.pending]
        case .accepted: [Story.bought, Story.priceChange, Story.pending, Story.accepted]
        }
    }

    private func state(_ told: Told) -> String {
        switch told {
        case .notYet: "scheduled"
        case .pending: "pending_consent"
        case .accepted: "accepted"
        }
    }

    /// The lines that the events after the communication bring.
    private func lines(_ told: Told, _ later: [SubscriptionEvent]) -> [String] {
        let before = Story.fold(history(told)).lines.count
        return Story.fold(history(told) + later).lines.dropFirst(before).map { line in
            [line.state.rawValue, line.reason].compactMap { $0 }.joined(separator: " ")
        }
    }

    private func item(_ told: Told, _ sku: String = "A") -> StatementItem {
        Story.renewing(sku, price: told == .notYet ? 9990 : 15990, status: told.rawValue)
    }

    /// A transaction that the subscriber bought in the app within the cycle.
    private func modified(
        _ day: Int64 = 10, charged: [StatementItem],
        renewing: [StatementItem], type: String = "DID_CHANGE_RENEWAL_PREF"
    ) -> SubscriptionEvent {
        var event = Story.event(
            day, type, purchasedOn: day, charged: charged, renewing: renewing)
        event.transaction?.reason = "PURCHASE"
        return event
    }

    private var renewedHigh: SubscriptionEvent { Story.renewedAtNewPrice }

    // MARK: Reactivate

    @Test(arguments: [Told.pending, .accepted])
    func reactivate_communicated_itemNamed_isAcceptedAtTheHigherPriceAndCharged(told: Told) {
        let off = Story.event(
            6, "DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED", renewing: [item(told)],
            autoRenew: 0)
        let on = Story.event(
            7, "DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_ENABLED", renewing: [item(.accepted)])

        #expect(
            lines(told, [off, on, renewedHigh])
                == (told == .pending ? ["accepted", "effective"] : ["effective"]))
    }

    @Test func reactivate_communicated_itemNotNamed_stillNeedsConsent() {
        let off = Story.event(
            6, "DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED", renewing: [item(.pending)],
            autoRenew: 0)
        let on = Story.event(
            7, "DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_ENABLED",
            renewing: [item(.pending), Story.renewing("B", price: 990)])
        let renewed = Story.event(
            31, "DID_RENEW", purchasedOn: 31, charged: [Story.charged("B", price: 990)],
            renewing: [Story.renewing("B", price: 990)])

        #expect(lines(.pending, [off, on]) == [])
        #expect(
            lines(.pending, [off, on, renewed]) == ["declined item_missing_at_renewal"])
    }

    /// What could not be read may be this very item.
    @Test func renewal_ofWhichAnItemIsUnreadable_dropsNothing() {
        var renewed = Story.event(
            31, "DID_RENEW", purchasedOn: 31, charged: [Story.charged("B", price: 990)],
            renewing: [Story.renewing("B", price: 990)])
        renewed.renewal?.items = nil
        #expect(lines(.pending, [renewed]) == ["declined item_missing_at_renewal"])

        renewed.transaction?.isIncomplete = true

        #expect(lines(.pending, [renewed]) == [])
    }

    @Test func reactivate_notYetCommunicated_isToldLater() {
        let off = Story.event(
            6, "DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED", renewing: [item(.notYet)],
            autoRenew: 0)
        let on = Story.event(
            7, "DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_ENABLED", renewing: [item(.notYet)])
        let asked = Story.event(
            8, "PRICE_INCREASE", "PENDING", renewing: [item(.pending)])

        #expect(lines(.notYet, [off, on]) == [])
        #expect(lines(.notYet, [off, on, asked]) == ["pending_consent"])
    }

    // MARK: Modify, billing cycle kept

    @Test(arguments: Told.allCases)
    func modifyKept_itemKept_goesOn(told: Told) {
        let added = modified(
            charged: [Story.charged(), Story.charged("B", price: 990)],
            renewing: [item(told), Story.renewing("B", price: 990)])

        #expect(lines(told, [added]) == [])
    }

    /// Whether its transaction lists the added item alone is not known.
    @Test(arguments: Told.allCases)
    func modifyKept_itemKept_goesOn_whereTheTransactionIsOfTheAddedItemAlone(told: Told) {
        let added = modified(
            charged: [Story.charged("B", price: 990)],
            renewing: [item(told), Story.renewing("B", price: 990)])
        let renewed = Story.event(
            31, "DID_RENEW", purchasedOn: 31,
            charged: [Story.charged(price: 15990), Story.charged("B", price: 990)],
            renewing: [Story.renewing(price: 15990), Story.renewing("B", price: 990)])

        #expect(lines(told, [added]) == [])
        #expect(lines(told, [added, renewed]) == ["effective"])
    }

    @Test func modifyKept_pending_consentInThePaymentSheet_isAccepted() {
        let added = modified(
            charged: [Story.charged(), Story.charged("B", price: 990)],
            renewing: [item(.accepted), Story.renewing("B", price: 990)])

        #expect(lines(.pending, [added]) == ["accepted"])
        #expect(
            Story.fold(history(.pending) + [added]).state.changes[0].progress.acceptance
                == .consented)
    }

    @Test(arguments: Told.allCases)
    func modifyKept_replacedByAnotherProduct_isInvalidated(told: Told) {
        let replaced = modified(
            charged: [Story.charged("PREMIUM", price: 19990)],
            renewing: [Story.renewing("PREMIUM", price: 19990)])

        #expect(lines(told, [replaced]) == ["invalidated item_replaced"])
    }

    @Test(arguments: Told.allCases)
    func modifyKept_replacedFromTheNextCycleOn_isInvalidatedThen(told: Told) {
        let replaced = Story.event(
            10, "DID_CHANGE_RENEWAL_PREF", "DOWNGRADE", charged: [Story.charged()],
            renewing: [Story.renewing("BASIC", price: 4990)])
        let renewed = Story.event(
            31, "DID_RENEW", purchasedOn: 31, charged: [Story.charged("BASIC", price: 4990)],
            renewing: [Story.renewing("BASIC", price: 4990)])

        #expect(lines(told, [replaced]) == ["\(state(told)) item_replaced"])
        #expect(
            lines(told, [replaced, renewed])
                == ["\(state(told)) item_replaced", "invalidated item_replaced"])
    }

    /// Declined in the sheet: the item leaves the renewal, and is not shown when C is added.
    @Test func modifyKept_declined_isNotShown_andIsDeclinedAtTheRenewalOrBefore() {
        let both = modified(
            6, charged: [Story.charged(), Story.charged("B", price: 990)],
            renewing: [item(.pending), Story.renewing("B", price: 990)])
        let declined = Story.event(
            8, "DID_CHANGE_RENEWAL_PREF", "DOWNGRADE", purchasedOn: 6,
            charged: [Story.charged(), Story.charged("B", price: 990)],
            renewing: [Story.renewing("B", price: 990)])
        let others = [Story.renewing("B", price: 990), Story.renewing("C", price: 490)]
        let charged = [Story.charged("B", price: 990), Story.charged("C", price: 490)]
        let stillServed = modified(charged: [Story.charged()] + charged, renewing: others)
        let gone = modified(charged: charged, renewing: others)
        let renewed = Story.event(
            31, "DID_RENEW", purchasedOn: 31, charged: charged, renewing: others)

        #expect(lines(.pending, [both, declined, stillServed]) == [])
        #expect(
            lines(.pending, [both, declined, stillServed, renewed])
                == ["declined item_missing_at_renewal"])
        #expect(lines(.pending, [both, declined, gone]) == ["declined item_missing_at_renewal"])
    }

    /// The renewal was off as a whole: coming back with another product replaces the item.
    @Test func reactivate_withAnotherProduct_isInvalidated() {
        let off = Story.event(
            6, "DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED", renewing: [], autoRenew: 0)
        let back = modified(
            charged: [Story.charged("PREMIUM", price: 19990)],
            renewing: [Story.renewing("PREMIUM", price: 19990)])

        #expect(lines(.pending, [off, back]) == ["invalidated item_replaced"])
    }

    @Test(arguments: Told.allCases)
    func modifyKept_offerAdded_isPostponedUntilAfterIt(told: Told) {
        var offered = Story.renewing("A", price: 15990, status: "SCHEDULED")
        offered.offerPrice = 990
        offered.offerPeriod = "P1M"
        offered.offerPeriodCount = 2
        offered.offerReason = "RETENTION"
        let added = Story.event(
            10, "OFFER_REDEEMED", charged: [Story.charged()], renewing: [offered])

        #expect(lines(told, [added]) == ["scheduled postponed_by_offer"])
        let change = Story.fold(history(told) + [added]).state.changes[0]
        #expect(change.progress.dueAt.map { $0 > Story.at(31 + 55) } == true)
        #expect(change.progress.acceptance == nil)
    }

    // MARK: Modify, billing cycle reset

    @Test(arguments: [Told.pending, .accepted])
    func modifyReset_communicated_sentAtTheHigherPrice_isEffectiveAtOnce(told: Told) {
        let reset = modified(
            charged: [Story.charged(price: 15990)], renewing: [Story.renewing(price: 15990)])

        #expect(lines(told, [reset]) == ["effective"])
    }

    /// Not communicated is void whatever price is sent: what is charged then is the app's own doing.
    @Test func modifyReset_notYetCommunicated_sentAtTheHigherPrice_isInvalidated() {
        let reset = modified(
            charged: [Story.charged(price: 15990)], renewing: [Story.renewing(price: 15990)])

        #expect(lines(.notYet, [reset]) == ["invalidated cycle_reset"])
        // Told after all, only late: the verdict follows.
        let (state, _) = Story.fold(history(.accepted) + [reset])
        #expect(state.changes[0].progress.state == .effective)
    }

    /// A renewal whose own notification was lost, and seen first in a later statement, is no reset.
    @Test func renewal_firstSeenInAModification_isEffectiveThoughNoTellingWasHeardOf() {
        let seen = Story.event(
            33, "DID_CHANGE_RENEWAL_PREF", purchasedOn: 31, charged: [Story.charged(price: 15990)],
            renewing: [Story.renewing(price: 15990)])

        #expect(lines(.notYet, [seen]) == ["effective"])
    }

    @Test(arguments: Told.allCases)
    func modifyReset_notSentAtTheHigherPrice_isInvalidated(told: Told) {
        let reset = modified(charged: [Story.charged()], renewing: [Story.renewing()])

        #expect(lines(told, [reset]) == ["invalidated cycle_reset"])
    }

    @Test(arguments: Told.allCases)
    func modifyReset_replacedByAnotherProduct_isInvalidated(told: Told) {
        let reset = modified(
            charged: [Story.charged("PREMIUM", price: 19990)],
            renewing: [Story.renewing("PREMIUM", price: 19990)])

        #expect(lines(told, [reset]) == ["invalidated item_replaced"])
    }

    // MARK: Change Metadata, Migrate

    @Test(arguments: Told.allCases)
    func metadataChanged_keepsTheIncreaseUnderTheNewName(told: Told) {
        let renamed = Story.event(
            10, "METADATA_UPDATE", charged: [Story.charged()], renewing: [item(told, "A2")])
        let renewed = Story.event(
            31, "DID_RENEW", purchasedOn: 31, charged: [Story.charged("A2", price: 15990)],
            renewing: [Story.renewing("A2", price: 15990)])

        #expect(
            lines(told, [renamed, renewed])
                == ["\(state(told)) renamed from A to A2", "effective"])
    }

    /// Communicated ones can't be migrated (4030027): nothing is told, and the change goes on.
    @Test func migrated_notYetCommunicated_migratesAlong() {
        let migrated = Story.event(
            10, "MIGRATION", charged: [Story.charged()], renewing: [item(.notYet, "A_ACA")])
        let asked = Story.event(
            12, "PRICE_INCREASE", "PENDING", charged: [Story.charged()],
            renewing: [item(.pending, "A_ACA")])

        #expect(
            lines(.notYet, [migrated, asked])
                == ["scheduled renamed from A to A_ACA", "pending_consent"])
    }
}
