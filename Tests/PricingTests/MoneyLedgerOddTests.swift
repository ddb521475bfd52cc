import Testing

@testable import Pricing

private typealias Story = LifecycleStory

/// Money that is told in pieces, twice, or without its currency.
@Suite struct MoneyLedgerOddTests {
    private func event(
        _ day: Int64, _ type: String, charged: [StatementItem] = [Story.charged(price: 15990)],
        _ change: (inout TransactionStatement) -> Void = { _ in }
    ) -> SubscriptionEvent {
        var event = Story.event(day, type, charged: charged, renewing: [Story.renewing()])
        event.transaction.map { told in
            var told = told
            change(&told)
            event.transaction = told
        }
        return event
    }

    private func lines(_ events: [SubscriptionEvent]) -> [String] {
        Story.fold(events).state.money.map { "\($0.key.kind) \($0.amount) \($0.currency)" }
    }

    private func refunded(_ refunds: [StatementRefund]) -> [StatementItem] {
        var item = Story.charged(price: 15990)
        item.refunds = refunds
        return [item]
    }

    @Test func revocationAfterAPartRefund_givesBackWhatIsLeft() {
        let part = event(
            5, "REFUND", charged: refunded([StatementRefund(amount: 5000, at: Story.at(4))]))
        let whole = event(9, "REFUND") { $0.revokedAt = Story.at(9) }
        let most = event(9, "REFUND") {
            $0.revokedAt = Story.at(9)
            $0.details[.revocationPercentage] = .number(90_000)
        }
        let told = ["charge 15990 USD", "refund -5000 USD", "refund -10990 USD"]

        #expect(lines([part, whole]) == told)
        #expect(lines([part, whole, whole]) == told)
        #expect(lines([part, most]) == told)
    }

    @Test func revocationThatIsListedLater_isNotGivenBackTwice() {
        let bare = event(5, "REFUND") { $0.revokedAt = Story.at(5) }
        let listed = event(
            6, "REFUND", charged: refunded([StatementRefund(amount: 15990, at: Story.at(4))])
        ) { $0.revokedAt = Story.at(5) }

        let told = lines([bare, listed])

        #expect(told == ["charge 15990 USD", "refund 0 USD", "refund -15990 USD"])
        #expect(lines([listed]) == ["charge 15990 USD", "refund -15990 USD"])
    }

    /// It is in the ledger, under no currency that anybody has; and a later statement gives it its own.
    @Test func chargeWithoutItsCurrency_isNotLost() {
        let bare = event(5, "DID_RENEW") { $0.currency = nil }
        let told = event(6, "DID_CHANGE_RENEWAL_STATUS")

        #expect(lines([bare]) == ["charge 15990 XXX"])
        #expect(lines([bare, told]) == ["charge 15990 USD"])
        let silent = event(7, "DID_CHANGE_RENEWAL_STATUS") { $0.currency = nil }
        #expect(lines([told, silent]) == ["charge 15990 USD"])
    }
}
