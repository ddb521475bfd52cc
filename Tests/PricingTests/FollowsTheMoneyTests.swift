import Testing

@testable import Pricing

private typealias Story = LifecycleStory

/// No end is believed against money: what the App Store charges or announces decides.
@Suite struct FollowsTheMoneyTests {
    private func last(_ events: [SubscriptionEvent], _ change: TrackedChange = Story.change())
        -> String
    {
        let change = Story.fold(events, [change]).state.changes[0]
        return "\(change.progress.state.rawValue) \(change.progress.reason ?? "-")"
    }

    private func renewed(
        _ day: Int64, _ price: Int64, reason: String = "RENEWAL",
        renewing: [StatementItem]? = nil, _ change: (inout TransactionStatement) -> Void = { _ in }
    ) -> SubscriptionEvent {
        var event = Story.event(
            day, "DID_RENEW", purchasedOn: day, charged: [Story.charged(price: price)],
            renewing: renewing ?? [Story.renewing(price: price)])
        event.transaction?.reason = reason
        if var transaction = event.transaction {
            change(&transaction)
            event.transaction = transaction
        }
        return event
    }

    private let asked = [Story.bought, Story.priceChange, Story.pending]
    private let downgraded = Story.event(
        10, "DID_CHANGE_RENEWAL_PREF", "DOWNGRADE", charged: [Story.charged()],
        renewing: [Story.renewing("OTHER", price: 4990)])
    private let left = Story.event(
        31, "EXPIRED", "VOLUNTARY", status: 2, charged: [Story.charged()], renewing: [],
        autoRenew: 0, intent: 1)

    /// The renewal of day 31 was lost; a refund that was declined tells of its charge, after the next renewal.
    @Test func earlierCharge_thatIsToldLate_isWhenItTookEffect() {
        func told(_ price: Int64, purchasedOn day: Int64) -> SubscriptionEvent {
            Story.event(
                70, "REFUND_DECLINED", purchasedOn: day, charged: [Story.charged(price: price)],
                renewing: [Story.renewing(price: 15990)])
        }
        func effectiveAt(_ late: SubscriptionEvent) -> Instant? {
            Story.fold(asked + [renewed(62, 15990), late, renewed(93, 15990)])
                .state.changes[0].progress.effectiveAt
        }
        var offer = told(15990, purchasedOn: 31)
        offer.transaction?.items = [StatementItem(sku: "A", price: 15990, offerPrice: 990)]

        #expect(effectiveAt(told(15990, purchasedOn: 31)) == Story.at(31))
        // Another price, a charge before the call, and that of an offer are no effect of it.
        for other in [told(9990, purchasedOn: 31), told(15990, purchasedOn: 1), offer] {
            #expect(effectiveAt(other) == Story.at(62))
        }
    }

    @Test func downgradeTakenBack_goesOn_andIsChargedInTheEnd() {
        let back = Story.event(
            12, "DID_CHANGE_RENEWAL_PREF", charged: [Story.charged()],
            renewing: [Story.renewing(price: 15990, status: "PENDING")])

        // What can still be taken back decides at the renewal, not before.
        #expect(last(asked + [downgraded]) == "pending_consent item_replaced")
        let other = renewed(31, 4990, renewing: [Story.renewing("OTHER", price: 4990)]) {
            $0.items = [Story.charged("OTHER", price: 4990)]
        }
        #expect(last(asked + [downgraded, other]) == "invalidated item_replaced")
        #expect(last(asked + [downgraded, left]) == "cancelled left_voluntarily")
        #expect(last(asked + [downgraded, back]) == "pending_consent announced_again")
        #expect(last(asked + [downgraded, back, renewed(31, 15990)]) == "effective -")
        #expect(last(asked + [downgraded, back, other]) == "declined item_missing_at_renewal")
        // Nobody told that it was taken back; the charge does. So it does where the replacement had been charged first.
        let charged = Story.fold(asked + [downgraded, renewed(31, 15990)]).state.changes[0].progress
        #expect(charged.state == .effective && charged.reason == nil)
        #expect(charged.effectiveAt == Story.at(31))
        #expect(
            last(asked + [downgraded, other, renewed(62, 15990)]) == "effective charged_after_all")
    }

    /// Apple asks, and does not say about which item: nothing is believed, and it is said.
    @Test func requestWithoutItsItem_movesNothing_andIsInTheHistory() {
        let bare = Story.event(
            4, "PRICE_INCREASE", "PENDING", charged: [Story.charged()],
            renewing: [Story.renewing()])

        let fold = Story.fold([Story.bought, Story.priceChange, bare])

        #expect(fold.state.changes[0].progress.state == .scheduled)
        #expect(fold.state.changes[0].progress.consentAskedAt == nil)
        #expect(fold.lines.last?.reason == "asked_without_item")
        #expect(fold.lines.last?.state == .scheduled)
        #expect(
            last([Story.bought, Story.priceChange, bare, Story.pending]) == "pending_consent -")
    }

    /// What every further period brings counts those alone who are set to renew.
    @Test func chargedItem_isLeaving_fromTheDayThatItDoesNotRenewAnyMore() {
        let charged = asked + [renewed(31, 15990)]
        let off = Story.event(
            40, "DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED",
            charged: [Story.charged(price: 15990)], renewing: [Story.renewing(price: 15990)],
            autoRenew: 0)
        let on = Story.event(
            41, "DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_ENABLED",
            charged: [Story.charged(price: 15990)], renewing: [Story.renewing(price: 15990)])
        func isLeaving(_ events: [SubscriptionEvent]) -> Bool {
            SubscriptionFold(
                SubscriptionState(originalTransactionID: "1", changes: [Story.change()]),
                arrived: events, all: events
            ).state.changes[0].isLeaving
        }

        #expect(!isLeaving(asked))
        #expect(!isLeaving(charged))
        #expect(isLeaving(charged + [off]))
        #expect(!isLeaving(charged + [off, on]))
        #expect(isLeaving(charged + [left]))
    }

    @Test func leftAndResubscribedAtTheNewPrice_isEffective() {
        let back = renewed(33, 15990, reason: "PURCHASE")

        #expect(last(asked + [left]) == "cancelled left_voluntarily")
        #expect(last(asked + [left, back]) == "effective charged_after_all")
        // It came later than was forecast, by the customer's own doing.
        let progress = Story.fold(asked + [left, back]).state.changes[0].progress
        #expect(progress.effectiveAt == Story.at(33))
        #expect(progress.slip == .other)
        #expect(
            last(asked + [left, renewed(33, 9990, reason: "PURCHASE")])
                == "cancelled left_voluntarily")
    }

    @Test func refundedAndThenRenewed_isEffective() {
        let refund = Story.event(
            10, "REFUND", status: 5, charged: [Story.charged()], renewing: [], autoRenew: 0,
            revoked: true)

        #expect(last(asked + [refund, renewed(31, 15990)]).hasPrefix("effective "))
    }

    @Test func declined_staysSo_thoughAChargeNamesIt() {
        let expired = Story.event(
            31, "EXPIRED", "PRICE_INCREASE", status: 2, charged: [Story.charged()], renewing: [],
            autoRenew: 0, intent: 3)

        #expect(
            last(asked + [expired, renewed(33, 15990, reason: "PURCHASE")]).hasPrefix("declined "))
    }

    private func renamed(_ day: Int64, purchasedOn: Int64, charged price: Int64)
        -> SubscriptionEvent
    {
        Story.event(
            day, "METADATA_UPDATE", purchasedOn: purchasedOn,
            charged: [Story.charged(price: price)],
            renewing: [Story.renewing("A2", price: price)])
    }

    /// Who left comes back, and the item is renamed then.
    @Test func renamedAfterItsEnd_isFollowedUnderItsNewName() {
        let declined = Story.event(
            31, "EXPIRED", "PRICE_INCREASE", status: 2, charged: [Story.charged()], renewing: [],
            autoRenew: 0, intent: 3)
        let back = renewed(33, 9990, reason: "PURCHASE")
        let charged = Story.event(
            64, "DID_RENEW", purchasedOn: 64, charged: [Story.charged("A2", price: 15990)],
            renewing: [Story.renewing("A2", price: 15990)])
        let further = [back, renamed(40, purchasedOn: 33, charged: 9990), charged]

        #expect(last(asked + [left] + further) == "effective charged_after_all")
        let change = Story.fold(asked + [declined] + further).state.changes[0]
        #expect(change.progress.state == .declined)
        #expect(change.sku == "A2")
        #expect(change.formerSKUs == ["A"])
    }

    /// A later change to the same price is what the App Store's words are about, and the item is the same.
    @Test func renamedAfterItsEnd_besideALaterChange_takesTheNameToo() {
        let later = Story.change(sentAt: Story.at(32), dueAt: Story.at(62), id: "change-B")
        let events =
            asked + [
                left, renewed(33, 9990, reason: "PURCHASE"), renewed(64, 15990),
                renamed(70, purchasedOn: 64, charged: 15990),
            ]

        let changes = Story.fold(events, [Story.change(), later]).state.changes

        #expect(changes.map(\.sku) == ["A2", "A2"])
    }

    /// A person closed it after the rename, and it is folded anew.
    @Test func renamedBeforeItWasClosed_keepsItsNewName() {
        var closed = Story.change()
        closed.progress.state = .invalidated
        closed.progress.reason = closedByPerson
        closed.callProgress = closed.progress
        closed.doubtfulSince = Story.at(20)

        let change = Story.fold(
            asked + [renamed(10, purchasedOn: 0, charged: 9990)], [closed]
        ).state.changes[0]

        #expect(change.isClosed)
        #expect(change.sku == "A2")
        #expect(change.formerSKUs == ["A"])
    }

    /// After the rename another item bears the former name, and takes this one's place.
    @Test(arguments: [15990, 9990, 4990])
    func anItemUnderAFormerName_isAnotherOne(price: Int64) {
        let renewedAsNew = Story.event(
            31, "DID_RENEW", purchasedOn: 31, charged: [Story.charged("A2")],
            renewing: [Story.renewing("A2", price: 15990, status: "PENDING")])
        let chosen = Story.event(
            40, "DID_CHANGE_RENEWAL_PREF", "DOWNGRADE", purchasedOn: 31,
            charged: [Story.charged("A2")], renewing: [Story.renewing("A", price: price)])
        let charged = Story.event(
            62, "DID_RENEW", purchasedOn: 62, charged: [Story.charged(price: price)],
            renewing: [Story.renewing(price: price)])
        let told = asked + [renamed(10, purchasedOn: 0, charged: 9990), renewedAsNew]

        #expect(last(told + [chosen, charged]) == "invalidated item_replaced")
    }

    @Test func renamedTwiceWithinAPeriod_isKnownByTheNameThatWasCharged() {
        let again = Story.event(
            36, "METADATA_UPDATE", purchasedOn: 31, charged: [Story.charged(price: 15990)],
            renewing: [Story.renewing("A3", price: 15990)])
        let lost = Story.event(
            34, "METADATA_UPDATE", charged: [Story.charged()],
            renewing: [Story.renewing("A2", price: 15990, status: "ACCEPTED")])

        #expect(last(asked + [Story.accepted, lost, again]) == "effective -")
    }

    /// The renewal was lost, and a rename tells of its charge, which still bears the former name.
    @Test func chargeThatARenameTellsOf_bringsItIntoEffect() {
        let told = asked + [Story.accepted, renamed(35, purchasedOn: 31, charged: 15990)]

        #expect(last(told) == "effective -")
        #expect(Story.fold(told).state.changes[0].progress.effectiveAt == Story.at(31))
    }

    @Test func aLaterChangeToThePrice_takesTheCharge() {
        var later = Story.change(sentAt: Story.at(32), dueAt: Story.at(62), id: "change-B")
        later.requestReferenceID = "0190aaaa-0000-7000-8000-000000000002"
        let state = Story.fold(
            asked + [left, renewed(33, 9990, reason: "PURCHASE"), renewed(62, 15990)],
            [Story.change(), later]
        ).state

        #expect(state.changes.map(\.progress.state) == [.cancelled, .effective])
    }

    @Test func anotherPriceAnnounced_endsTheChange() {
        let other = Story.event(
            12, "PRICE_CHANGE", charged: [Story.charged()],
            renewing: [Story.renewing(price: 12990, status: "SCHEDULED", to: 12990)])

        let lower = Story.event(
            12, "PRICE_CHANGE", charged: [Story.charged()], renewing: [Story.renewing(price: 8990)])
        let silent = Story.event(
            12, "PRICE_CHANGE", charged: [Story.charged()], renewing: [Story.renewing()])

        #expect(last(asked + [other]) == "invalidated another_price")
        #expect(last(asked + [lower]) == "invalidated another_price")
        // Announced no more, at the old price: until its renewal it may be again.
        #expect(last(asked + [silent]) == "pending_consent -")
        // What ended so comes back with the money as well.
        #expect(last(asked + [other, renewed(31, 15990)]) == "effective charged_after_all")
    }

    @Test(
        arguments: [
            // Charged lower elsewhere, at the old price once its renewal came, or in the money of another country.
            (12990, "USD", "invalidated another_price"), (9990, "USD", "invalidated another_price"),
            (8990, "GBP", "invalidated another_price"), (15990, "USD", "effective -"),
            // The same number of another currency is another price.
            (15990, "GBP", "invalidated another_price"),
        ] as [(Int64, String, String)])
    func renewalThatWasToChargeIt_decides(price: Int64, currency: String, end: String) {
        let charged = renewed(31, price) {
            $0.currency = currency
            $0.storefront = currency == "GBP" ? "GBR" : "USA"
        }

        #expect(last(asked + [charged]) == end)
    }

    @Test(arguments: [("USD", "effective -"), ("GBP", "invalidated another_price")])
    func decrease_chargedWithItsNumber_isEffectiveInItsCurrencyOnly(currency: String, end: String) {
        let told = Story.event(
            5, "PRICE_CHANGE", charged: [Story.charged()], renewing: [Story.renewing(price: 7990)])
        let charged = renewed(31, 7990) {
            $0.currency = currency
            $0.storefront = currency == "GBP" ? "GBR" : "USA"
        }

        let change = Story.change(to: 7990, dueAt: Story.at(31))
        #expect(last([Story.bought, told, charged], change) == end)
        // A charge that ends a change is no renewal that it missed.
        let progress = Story.fold([Story.bought, told, charged], [change]).state.changes[0].progress
        #expect(progress.slip == nil)
        #expect(progress.dueAt == Story.at(31))
    }

    /// The subscription's own currency is the new one from the move on; the change's is not.
    @Test func moved_isNotEffectiveByItsNumber_howeverOftenThatIsCharged() {
        var change = Story.change(to: 7990)
        change.currency = "USD"
        let told = Story.event(
            5, "PRICE_CHANGE", charged: [Story.charged()], renewing: [Story.renewing(price: 7990)])
        func charged(_ day: Int64, _ currency: String) -> SubscriptionEvent {
            renewed(day, 7990) {
                $0.currency = currency
                $0.storefront = currency == "GBP" ? "GBR" : "USA"
            }
        }
        let away = [Story.bought, told, charged(31, "GBP"), charged(62, "GBP")]

        #expect(last(away, change) == "invalidated another_price")
        // Back where it was made, the first charge of it counts.
        #expect(last(away + [charged(93, "USD")], change) == "effective charged_after_all")
        let progress = Story.fold(away + [charged(93, "USD"), charged(124, "USD")], [change]).state
            .changes[0].progress
        #expect(progress.effectiveAt == Story.at(93))
    }

    /// What is taken back ends like any other change where another price takes its place.
    @Test(
        arguments: [
            (9990, "USD", "effective -"), (9990, "GBP", "invalidated another_price"),
            (8990, "USD", "invalidated another_price"), (15990, "USD", "invalidated another_price"),
        ] as [(Int64, String, String)])
    func undo_isEffectiveAtItsPriceAlone(price: Int64, currency: String, end: String) {
        var undo = Story.change(from: 15990, to: 9990, sentAt: Story.at(4), id: "undo")
        (undo.undoes, undo.currency) = ("change-A", "USD")
        let taken = Story.event(
            5, "PRICE_CHANGE", charged: [Story.charged()], renewing: [Story.renewing()])
        let charged = renewed(31, price) {
            $0.currency = currency
            $0.storefront = currency == "GBP" ? "GBR" : "USA"
        }

        #expect(last([Story.bought, taken], undo) == "scheduled -")
        #expect(last([Story.bought, taken, charged], undo) == end)
    }

    /// Before the increase was due, and while it is announced, a charge at the former price takes nothing back: it is what
    /// everybody pays.
    @Test(
        arguments: [
            // The call, the renewal's item at the first charge, and where the undo stands after it and after the next.
            (.unknown, "SCHEDULED", ["sent", "effective -"]),
            (.unknown, nil, ["effective -", "effective -"]),
            (.unknown, "none", ["sent", "effective -"]),
            (.scheduled, "SCHEDULED", ["scheduled -", "effective -"]),
            (.scheduled, nil, ["effective -", "effective -"]),
            (.rejected, "SCHEDULED", ["rejected 4000205", "effective applied_after_all"]),
        ] as [(ChangeState, String?, [String])])
    func undo_ofAnIncreaseThatIsDueLater_isNotEffectiveByTheRenewalBefore(
        call: ChangeState, announced: String?, stands: [String]
    ) {
        var undo = Story.change(
            from: 15990, to: 9990, sentAt: Story.at(4), dueAt: Story.at(62), id: "undo")
        (undo.undoes, undo.callProgress.state, undo.requestReferenceID) = (
            "change-A", call, "undo-call"
        )
        if call == .scheduled { undo.callProgress.scheduledAt = Story.at(5) }
        if call == .rejected {
            (undo.callProgress.reason, undo.doubtfulSince) = ("4000205", Story.at(4))
        }
        undo.progress = undo.callProgress
        let items = announced == "none" ? nil : [Story.renewing(status: announced)]
        var early = renewed(31, 9990, renewing: items)
        if announced == "none" { early.renewal = nil }
        var late = renewed(62, 9990)
        late.renewal = nil

        let ends = [[early], [early, late]].map { events in
            let undo = Story.fold(
                [Story.bought, Story.priceChange] + events, [Story.change(), undo]
            )
            .state.changes[1].progress
            return undo.state == .unknown
                ? "sent" : "\(undo.state.rawValue) \(undo.reason ?? "-")"
        }

        #expect(ends == stands)
    }

    /// A late word of the charge before, a refund of it, say, does not date the undo back.
    @Test func undo_isNotInEffectSinceACharge_thatTookNothingBack() {
        var undo = Story.change(
            from: 15990, to: 9990, sentAt: Story.at(4), dueAt: Story.at(62), id: "undo")
        (undo.undoes, undo.callProgress.state) = ("change-A", .unknown)
        undo.progress = undo.callProgress
        let early = renewed(31, 9990, renewing: [Story.renewing(status: "SCHEDULED")])
        var late = renewed(62, 9990)
        late.renewal = nil
        var refund = Story.event(70, "REFUND", purchasedOn: 31, charged: [Story.charged()])
        refund.renewal = nil

        let progress = Story.fold(
            [Story.bought, Story.priceChange, early, late, refund], [Story.change(), undo]
        ).state.changes[1].progress

        #expect(progress.state == .effective && progress.effectiveAt == Story.at(62))
    }

    /// What was taken back is submitted once more, and told: that is the new change's, and the undo stays what it was.
    @Test func undo_thatWasInEffect_staysSo_whereTheSamePriceIsSentAgain() {
        var undo = Story.change(
            from: 15990, to: 9990, sentAt: Story.at(4), dueAt: Story.at(62), id: "undo")
        (undo.undoes, undo.requestReferenceID) = ("change-A", "undo-call")
        var again = Story.change(sentAt: Story.at(33), dueAt: Story.at(62), id: "again")
        again.requestReferenceID = "again-call"
        let taken = Story.event(
            5, "PRICE_CHANGE", charged: [Story.charged()], renewing: [Story.renewing()])
        let told = Story.event(
            34, "PRICE_INCREASE", "ACCEPTED", purchasedOn: 31, charged: [Story.charged()],
            renewing: [Story.renewing(price: 15990, status: "ACCEPTED")])

        let changes = Story.fold(
            [Story.bought, Story.priceChange, taken, renewed(31, 9990), told],
            [Story.change(), undo, again]
        ).state.changes

        #expect(changes.map(\.progress.state).dropFirst() == [.effective, .accepted])
        #expect(changes[1].progress.effectiveAt == Story.at(31))
    }

    @Test func undo_whoseItemIsSetToRenewAtAnotherPrice_hasEnded() {
        var undo = Story.change(from: 15990, to: 9990, sentAt: Story.at(4), id: "undo")
        undo.undoes = "change-A"
        let taken = Story.event(
            5, "PRICE_CHANGE", charged: [Story.charged()], renewing: [Story.renewing()])
        let other = Story.event(
            12, "PRICE_CHANGE", charged: [Story.charged()], renewing: [Story.renewing(price: 7990)])

        #expect(last([Story.bought, taken, other], undo) == "invalidated another_price")
    }

    /// Apple does not say that an undo takes an increase back. What the customer is told, or pays, decides.
    @Test(arguments: [
        // A status may lag behind the undo.
        ("SCHEDULED", ["invalidated undone", "scheduled -"]),
        ("PENDING", ["pending_consent -", "rejected still_scheduled"]),
        ("ACCEPTED", ["accepted -", "rejected still_scheduled"]),
        ("charged", ["effective charged_after_all", "invalidated another_price"]),
        ("charged before", ["invalidated undone", "effective -"]),
        ("told after that", ["declined expired_for_price_increase", "effective -"]),
    ])
    func undone_thenToldOrCharged_goesOn(told: String, ends: [String]) {
        var undo = Story.change(from: 15990, to: 9990, sentAt: Story.at(4), id: "undo")
        (undo.undoes, undo.requestReferenceID) = ("change-A", "call-of-the-undo")
        var events = [
            Story.bought, Story.priceChange,
            Story.event(
                5, "PRICE_CHANGE", charged: [Story.charged()], renewing: [Story.renewing()]),
        ]
        switch told {
        case "charged": events.append(renewed(31, 15990))
        case "charged before": events.append(renewed(31, 9990))
        case "told after that":
            events.append(renewed(31, 9990))
            for day in [34, 40] as [Int64] {
                events.append(
                    Story.event(
                        day, "PRICE_INCREASE", "PENDING", purchasedOn: 31,
                        charged: [Story.charged()],
                        renewing: [Story.renewing(price: 15990, status: "PENDING")]))
            }
            events.append(
                Story.event(
                    62, "EXPIRED", "PRICE_INCREASE", status: 2, purchasedOn: 31, renewing: [],
                    autoRenew: 0, intent: 3))
        default:
            events.append(
                Story.event(
                    8, "PRICE_INCREASE", told, charged: [Story.charged()],
                    renewing: [Story.renewing(price: 15990, status: told)]))
        }

        let (state, lines) = Story.fold(events, [Story.change(), undo])

        #expect(
            state.changes.map { "\($0.progress.state.rawValue) \($0.progress.reason ?? "-")" }
                == ends)
        // In pieces it ends alike.
        var pieces = SubscriptionState(
            originalTransactionID: "1", changes: [Story.change(), undo])
        var told: [Transition] = []
        for event in events { told += Lifecycle.fold([event], into: &pieces) }
        #expect(pieces.changes == state.changes)
        #expect(told.map(\.state) == lines.map(\.state))
    }

    @Test func stillAnnounced_waitsThoughARenewalChargedAnother() {
        let charged = renewed(31, 9990, renewing: [Story.renewing(status: "SCHEDULED")])
        let before = Story.change(dueAt: Story.at(62))

        #expect(last([Story.bought, Story.priceChange, charged]).hasPrefix("scheduled "))
        #expect(
            last([Story.bought, Story.priceChange, renewed(31, 9990)], before)
                .hasPrefix("scheduled "))
    }

    @Test func offersPrice_isNoOtherPrice() {
        var item = Story.charged()
        item.offerPrice = 990
        var renewing = Story.renewing(price: 15990)
        renewing.offerPrice = 990
        let charged = Story.event(
            31, "DID_RENEW", purchasedOn: 31, charged: [item], renewing: [renewing])

        #expect(!last(asked + [charged]).contains("another_price"))
    }
}
