import Testing

@testable import Pricing

private typealias Story = LifecycleStory

/// What Apple signs as charged and given back, line by line.
@Suite struct MoneyLedgerTests {
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
        Story.fold(events).state.money.map {
            "\($0.key.kind) \($0.key.sku) \($0.amount) \($0.taxExclusive.map(String.init) ?? "-")"
        }
    }

    @Test func refundsOfAnItem_giveBackTheirAmounts_alsoWithoutARevocation() {
        var item = Story.charged(price: 15990)
        item.refunds = [
            StatementRefund(amount: 5000, at: Story.at(3)),
            StatementRefund(amount: 990, at: Story.at(3)),
            StatementRefund(amount: 10_000, at: Story.at(4)),
        ]
        let refund = event(5, "REFUND", charged: [item, Story.charged("B", price: 2000)])

        #expect(
            lines([Story.bought, refund, refund]) == [
                "charge A 15990 -", "refund A -5000 -", "refund A -990 -", "refund A -10000 -",
                "charge B 2000 -",
            ])
    }

    @Test func revocation_givesBackAll_orThePercentageThatIsSigned() {
        func revoked(_ percentage: Int64?, _ type: String? = nil) -> [String] {
            lines([
                event(5, "REFUND") {
                    $0.revokedAt = Story.at(5)
                    $0.details[.revocationPercentage] = percentage.map { .number($0) }
                    $0.details[.revocationType] = type.map { .text($0) }
                }
            ])
        }

        #expect(revoked(nil) == ["charge A 15990 -", "refund A -15990 -"])
        #expect(revoked(33_333, "REFUND_PRORATED") == ["charge A 15990 -", "refund A -5330 -"])
        #expect(revoked(0) == ["charge A 15990 -", "refund A 0 -"])
        #expect(revoked(100_000, "REFUND_FULL") == ["charge A 15990 -", "refund A -15990 -"])
        // A share that can't be meant says nothing; the revocation does.
        #expect(revoked(100_001) == ["charge A 15990 -", "refund A -15990 -"])
        #expect(revoked(nil, "FAMILY_REVOKE") == ["charge A 15990 -"])
        #expect(revoked(nil, "ASSIGNMENT_REVOKE") == ["charge A 15990 -"])
    }

    /// Whatever part of the money is given back, the charge says when it was revoked, until that is taken back.
    @Test func revocation_isKeptOfItsItem_untilItIsReversed() {
        func revoked(_ events: [SubscriptionEvent]) -> [Int64?] {
            Story.fold(events).state.money.filter { $0.terms != nil }.map {
                $0.terms?.revokedAt?.milliseconds
            }
        }
        var item = Story.charged(price: 15990)
        item.revokedAt = Story.at(4)
        item.refunds = [StatementRefund(amount: 990, at: Story.at(5))]
        let ofItem = event(6, "REFUND", charged: [item, Story.charged("B", price: 2000)])
        let inPart = event(6, "REFUND") {
            $0.revokedAt = Story.at(5)
            $0.details[.revocationPercentage] = .number(50_000)
        }
        let ofFamily = event(6, "REVOKE") {
            $0.revokedAt = Story.at(5)
            $0.details[.revocationType] = .text("FAMILY_REVOKE")
        }
        let reversed = event(7, "REFUND_REVERSED") { $0.revokedAt = Story.at(5) }

        #expect(revoked([ofItem]) == [Story.at(4).milliseconds, nil])
        #expect(revoked([inPart]) == [Story.at(5).milliseconds])
        #expect(revoked([ofFamily]) == [nil])
        #expect(revoked([inPart, reversed]) == [nil])
    }

    /// An item that bears its own revocation is prorated like its transaction. Where only some items are revoked, what is
    /// given back of the transaction is theirs.
    @Test func revocationOfItems_isProrated_whereTheRefundIs() {
        func revoked(_ type: String?, _ items: [StatementItem], at: Instant? = Story.at(5))
            -> [String]
        {
            lines([
                event(5, "REFUND", charged: items) {
                    $0.revokedAt = at
                    $0.details[.revocationPercentage] = .number(25_000)
                    $0.details[.revocationType] = type.map { .text($0) }
                }
            ])
        }
        var item = Story.charged(price: 15990)
        item.revokedAt = Story.at(5)
        let other = Story.charged("B", price: 15990)

        #expect(revoked("REFUND_PRORATED", [item]) == ["charge A 15990 -", "refund A -3998 -"])
        #expect(revoked("REFUND_FULL", [item]) == ["charge A 15990 -", "refund A -15990 -"])
        #expect(revoked(nil, [item]) == ["charge A 15990 -", "refund A -15990 -"])
        // A quarter of the whole is half of the one item that is revoked.
        for revokedAt in [nil, Story.at(5)] {
            #expect(
                revoked("REFUND_PRORATED", [item, other], at: revokedAt) == [
                    "charge A 15990 -", "refund A -7995 -", "charge B 15990 -",
                ])
        }
    }

    /// A transaction is marked as revoked, too, where an item of it is: what its items tell of that is all of it.
    @Test(arguments: ["refund", "revocation", "part"])
    func revocationOfAnItem_givesBackNothingOfItsSiblings(told: String) {
        var item = Story.charged("B", price: 2990)
        if told != "revocation" {
            item.refunds = [StatementRefund(amount: told == "part" ? 1000 : 2990, at: Story.at(5))]
        }
        if told != "part" { item.revokedAt = Story.at(5) }
        let back = told == "part" ? 1000 : 2990
        func revoked(_ percentage: Int64?, _ more: [StatementItem] = []) -> [String] {
            lines([
                event(5, "REFUND", charged: [item] + more + [Story.charged(price: 10_990)]) {
                    $0.revokedAt = Story.at(5)
                    $0.details[.revocationPercentage] = percentage.map { .number($0) }
                    $0.details[.revocationType] = .text("REFUND_PRORATED")
                }
            ])
        }

        let expected = ["charge B 2990 -", "refund B -\(back) -", "charge A 10990 -"].sorted()
        #expect(revoked(nil).sorted() == expected)
        if told != "revocation" {
            #expect(revoked(told == "part" ? 7153 : 21_388).sorted() == expected)
        }
        // What was given back of an item before is no word of this revocation.
        var earlier = Story.charged("C", price: 4990)
        earlier.refunds = [StatementRefund(amount: 90, at: Story.at(3))]
        item = Story.charged("B", price: 2990)
        #expect(
            revoked(nil, [earlier]).filter { $0.hasPrefix("refund") }.sorted() == [
                "refund A -10990 -", "refund B -2990 -", "refund C -90 -",
            ])
    }

    /// A statement that takes refunds back and still lists one of them leaves that one given back.
    @Test func refundReversed_leavesWhatItStillLists_besideWhatItDoesNot() {
        let (first, second) = (
            StatementRefund(amount: 4000, at: Story.at(3)),
            StatementRefund(amount: 1000, at: Story.at(4))
        )
        func told(_ day: Int64, _ type: String, _ refunds: [StatementRefund]) -> SubscriptionEvent {
            var item = Story.charged(price: 15990)
            item.refunds = refunds
            return event(day, type, charged: [item])
        }
        let refund = told(5, "REFUND", [first, second])
        let part = ["charge A 15990 -", "refund A -4000 -", "refund A -1000 -"]

        #expect(
            lines([refund, told(7, "REFUND_REVERSED", [second])]) == part + ["reversal A 4000 -"])
        #expect(
            lines([refund, told(7, "REFUND_REVERSED", [first, second])])
                == part + ["reversal A 5000 -"])
        #expect(lines([refund, told(7, "REFUND_REVERSED", [])]) == part + ["reversal A 5000 -"])
        // Told once more, it takes nothing more back.
        #expect(
            lines([
                refund, told(7, "REFUND_REVERSED", [second]), told(8, "REFUND_REVERSED", [second]),
            ]) == part + ["reversal A 4000 -"])
    }

    /// It takes back the refund of one item of a transaction, and lists that of another one still.
    @Test func refundReversed_leavesWhatItStillLists_ofAnotherItem() {
        func told(_ type: String, _ a: [StatementRefund], _ b: [StatementRefund], day: Int64)
            -> SubscriptionEvent
        {
            var (first, second) = (Story.charged(price: 15990), Story.charged("B", price: 3990))
            first.refunds = a
            second.refunds = b
            return event(day, type, charged: [first, second])
        }
        let back = [StatementRefund(amount: 15990, at: Story.at(3))]
        let other = [StatementRefund(amount: 3990, at: Story.at(3))]
        let refund = told("REFUND", back, other, day: 5)
        let part = [
            "charge A 15990 -", "refund A -15990 -", "charge B 3990 -", "refund B -3990 -",
        ]

        #expect(
            lines([refund, told("REFUND_REVERSED", [], other, day: 7)])
                == part + ["reversal A 15990 -"])
        #expect(
            lines([refund, told("REFUND_REVERSED", back, other, day: 7)])
                == part + ["reversal A 15990 -", "reversal B 3990 -"])
    }

    /// Both items were revoked, without amounts or with one of them, and one is reversed: the other is revoked still.
    @Test(arguments: [nil, 1000] as [Int64?])
    func refundReversed_leavesTheRevocationThatItStillLists_ofAnotherItem(part: Int64?) {
        func told(_ type: String, aIsRevoked: Bool, bIsRevoked: Bool, day: Int64)
            -> SubscriptionEvent
        {
            var (first, second) = (Story.charged(price: 15990), Story.charged("B", price: 3990))
            if aIsRevoked { first.revokedAt = Story.at(3) }
            if bIsRevoked {
                second.revokedAt = Story.at(3)
                second.refunds = part.map { [StatementRefund(amount: $0, at: Story.at(3))] } ?? []
            }
            return event(day, type, charged: [first, second])
        }
        let refund = told("REFUND", aIsRevoked: true, bIsRevoked: true, day: 5)
        let ofOne = told("REFUND_REVERSED", aIsRevoked: false, bIsRevoked: true, day: 7)
        let ofBoth = told("REFUND_REVERSED", aIsRevoked: false, bIsRevoked: false, day: 7)
        let given = part ?? 3990
        let before = [
            "charge A 15990 -", "refund A -15990 -", "charge B 3990 -", "refund B -\(given) -",
        ]
        func revoked(_ events: [SubscriptionEvent]) -> [String] {
            Story.fold(events).state.money.filter { $0.terms?.revokedAt != nil }.map(\.key.sku)
        }

        #expect(lines([refund, ofOne]) == before + ["reversal A 15990 -"])
        #expect(revoked([refund, ofOne]) == ["B"])
        #expect(
            lines([refund, ofBoth]) == before + ["reversal A 15990 -", "reversal B \(given) -"])
        #expect(revoked([refund, ofBoth]) == [])
    }

    @Test func refundReversed_takesBackWhatWasGivenBack_howeverItIsTold() {
        var item = Story.charged(price: 15990)
        item.refunds = [StatementRefund(amount: 5000, at: Story.at(3))]
        let refund = event(5, "REFUND", charged: [item])
        let again = event(9, "REFUND") { $0.revokedAt = Story.at(9) }
        let silent = event(7, "REFUND_REVERSED")
        let listed = event(7, "REFUND_REVERSED", charged: [item])

        let told = ["charge A 15990 -", "refund A -5000 -", "reversal A 5000 -"]
        #expect(lines([refund, silent]) == told)
        #expect(lines([refund, listed]) == told)
        #expect(lines([refund, silent, again]) == told + ["refund A -15990 -"])
        #expect(lines([silent]) == ["charge A 15990 -"])
    }

    @Test func refundReversed_foldsFromTheBeginning_forItsAmountIsToldBefore() {
        let refund = event(5, "REFUND") { $0.revokedAt = Story.at(5) }
        let reversed = event(7, "REFUND_REVERSED")
        let before = Story.fold([refund]).state

        #expect(SubscriptionFold.isLate([reversed], after: before.foldedThrough, [], nil))
        #expect(
            !SubscriptionFold.isLate([event(8, "DID_RENEW")], after: before.foldedThrough, [], nil))
    }

    /// Of several seats Apple signs the average price; what is left of it without tax may be an average, too.
    @Test(
        arguments: [
            (15990, 31_980), (13_000, 26_000), (31_980, 31_980), (20_000, 20_000),
        ] as [(Int64, Int64)])
    func taxExclusivePrice_ofSeveralSeats_isThatOfOne_whereItIsNoMoreThanItsPrice(
        signed: Int64, counted: Int64
    ) {
        let seats = event(5, "DID_RENEW") {
            $0.quantity = 2
            $0.taxExclusivePrice = signed
        }

        #expect(lines([seats]) == ["charge A 31980 \(counted)"])
    }

    /// Beside an item that cannot be read, has no price, or is listed twice, no share can be told.
    /// Apple may sign it in one statement of a transaction and not in another; what it signed holds for that amount.
    @Test func taxExclusivePrice_thatAnotherStatementLeavesOut_stays() {
        let charged = StatementItem(sku: "A", price: 9990)
        let other = StatementItem(sku: "A", price: 8990)
        let tax: (inout TransactionStatement) -> Void = { $0.taxExclusivePrice = 9227 }
        let with = event(5, "DID_RENEW", charged: [charged], tax)
        let without = event(6, "DID_CHANGE_RENEWAL_STATUS", charged: [charged])

        #expect(lines([with, without]) == ["charge A 9990 9227"])
        #expect(
            lines([
                event(5, "DID_RENEW", charged: [charged]),
                event(6, "DID_CHANGE_RENEWAL_STATUS", charged: [charged], tax),
            ])
                == ["charge A 9990 9227"])
        #expect(
            lines([with, event(6, "DID_CHANGE_RENEWAL_STATUS", charged: [other])]) == [
                "charge A 8990 -"
            ])
    }

    @Test func taxExclusivePrice_besideWhatIsNotUnderstood_isNobodys() {
        let charged = Story.charged("A", price: 9990)
        var free = Story.charged("B", price: 990)
        free.price = nil
        let tax: (inout TransactionStatement) -> Void = { $0.taxExclusivePrice = 9227 }

        let unread = event(5, "DID_RENEW", charged: [charged]) {
            tax(&$0)
            $0.isIncomplete = true
        }

        #expect(lines([event(5, "DID_RENEW", charged: [charged], tax)]) == ["charge A 9990 9227"])
        #expect(lines([unread]) == ["charge A 9990 -"])
        #expect(
            lines([event(5, "DID_RENEW", charged: [charged, free], tax)]) == ["charge A 9990 -"])
        #expect(
            lines([event(5, "DID_RENEW", charged: [charged, charged], tax)]) == ["charge A 9990 -"])
    }

    @Test func taxExclusivePrice_isSharedByPrice_andItsSharesAddUp() {
        let items = [
            Story.charged("A", price: 9990), Story.charged("B", price: 990),
            Story.charged("C", price: 0),
        ]
        let told = event(5, "REFUND", charged: items) {
            $0.taxExclusivePrice = 9227
            $0.revokedAt = Story.at(5)
        }

        #expect(
            lines([told]) == [
                "charge A 9990 8395", "refund A -9990 -8395", "charge B 990 832",
                "refund B -990 -832", "charge C 0 0", "refund C 0 -",
            ])
        // More than was charged can't be meant.
        #expect(
            lines([event(5, "DID_RENEW") { $0.taxExclusivePrice = -1 }]) == ["charge A 15990 -"])
    }

    @Test func seats_multiplyTheirAverage_andEachTransactionOfAPeriodIsACharge() {
        let added = event(6, "DID_CHANGE_RENEWAL_PREF") {
            $0.transactionID = "t0-seat"
            $0.details[.additionalTransactionReason] = .text("SEAT_ADDITION")
        }

        #expect(lines([event(5, "DID_RENEW") { $0.quantity = 3 }]) == ["charge A 47970 -"])
        #expect(lines([event(5, "DID_RENEW"), added]) == ["charge A 15990 -", "charge A 15990 -"])
        #expect(
            lines([event(5, "DID_RENEW") { $0.quantity = .max }]).first?.hasPrefix("charge A ")
                == true)
    }

    @Test(arguments: ["FAMILY_SHARED", "ASSIGNED"])
    func whoPaysNothing_isChargedNothing(ownership: String) {
        #expect(lines([event(5, "DID_RENEW") { $0.ownershipType = ownership }]).isEmpty)
    }

    @Test func chargeToldAnew_isTheSameLine_withWhatIsSaidLast() {
        let told = event(5, "DID_RENEW")
        let anew = event(6, "DID_RENEW", charged: [Story.charged(price: 14990)]) {
            $0.purchasedAt = Story.at(1)
            $0.currency = "EUR"
        }
        let money = Story.fold([told, anew]).state.money

        #expect(money.map(\.amount) == [14990])
        #expect(money.map(\.key.occurredAt) == [Story.at(1)])
        #expect(money.map(\.currency) == ["EUR"])
    }

    @Test func shares_roundHalfAwayFromZero_andNeverLeaveTheWhole() {
        #expect(Int64(15990).part(1, of: 2) == 7995)
        #expect(Int64(5).part(1, of: 2) == 3)
        #expect(Int64(-5).part(1, of: 2) == -3)
        #expect(Int64.max.part(Int64.max, of: Int64.max) == .max)
        #expect(Int64(5).part(2, of: 1) == nil)
        #expect(Int64(5).part(-1, of: 2) == nil)
        #expect(Int64(5).part(0, of: 0) == nil)
    }
}
