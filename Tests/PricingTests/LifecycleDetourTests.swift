import Testing

@testable import Pricing

private typealias Story = LifecycleStory

/// Renames, replacements, resets, offers, removals: the interaction matrix of "Handling subscription price
/// changes", each case told in notifications, the expected lines first.
@Suite struct LifecycleDetourTests {
    private func line(_ lines: [Transition]) -> [String] {
        lines.map { [$0.state.rawValue, $0.reason].compactMap { $0 }.joined(separator: " ") }
    }

    /// Two items at one price with one increase: whose customer was asked tells them apart.
    @Test func renamedTogether_eachIncreaseFollowsItsOwnStatus() {
        func told(_ day: Int64, _ type: String, asked: String, other: String) -> SubscriptionEvent {
            Story.event(
                day, type, charged: [Story.charged(), Story.charged("B")],
                renewing: [
                    Story.renewing(asked, status: "PENDING"),
                    Story.renewing(other, status: "SCHEDULED"),
                ])
        }

        let (state, _) = Story.fold([
            Story.event(
                0, "SUBSCRIBED", charged: [Story.charged(), Story.charged("B")],
                renewing: [Story.renewing(), Story.renewing("B")]),
            told(4, "PRICE_INCREASE", asked: "A", other: "B"),
            told(6, "METADATA_UPDATE", asked: "Z", other: "Y"),
        ])

        #expect(state.changes[0].sku == "Z")
    }

    @Test(arguments: ["METADATA_UPDATE", "MIGRATION", "MIGRATE"])
    func change_itemRenamed_followsUnderTheNewName(type: String) throws {
        let renamed = Story.event(
            6, type, charged: [Story.charged()],
            renewing: [Story.renewing("A2", price: 15990, status: "PENDING")])
        let accepted = Story.event(
            7, "PRICE_INCREASE", "ACCEPTED", charged: [Story.charged()],
            renewing: [Story.renewing("A2", price: 15990, status: "ACCEPTED")])
        let renewed = Story.event(
            31, "DID_RENEW", purchasedOn: 31, charged: [Story.charged("A2", price: 15990)],
            renewing: [Story.renewing("A2", price: 15990)])

        let (state, lines) = Story.fold([
            Story.bought, Story.priceChange, Story.pending, renamed, accepted, renewed,
        ])

        #expect(
            line(lines) == [
                "scheduled", "pending_consent", "pending_consent renamed from A to A2", "accepted",
                "effective",
            ])
        let change = try #require(state.changes.first)
        #expect(change.sku == "A2")
        #expect(change.calledSKU == "A")
        #expect(change.progress.acceptance == .consented)
        #expect(state.facts.items.map(\.sku) == ["A2"])
        #expect(state.increases.map(\.sku) == ["A2"])
    }

    /// The increase tells it: none is announced for an item that a customer takes in place of another.
    @Test(arguments: [(15990, true), (16990, false), (nil, false)] as [(Int64?, Bool)])
    func change_whoseRenameWasLost_followsWhereItsIncreaseStandsUnderAnotherName(
        price: Int64?, isFollowed: Bool
    ) throws {
        let item = price.map { Story.renewing("A2", price: 15990, status: "ACCEPTED", to: $0) }
        let accepted = Story.event(
            7, "PRICE_INCREASE", "ACCEPTED", charged: [Story.charged()],
            renewing: [item ?? Story.renewing("A2", price: 15990)])
        let renewed = Story.event(
            31, "DID_RENEW", purchasedOn: 31, charged: [Story.charged("A2", price: 15990)],
            renewing: [Story.renewing("A2", price: 15990)])

        let (state, lines) = Story.fold([
            Story.bought, Story.priceChange, Story.pending, accepted, renewed,
        ])

        let followed = ["pending_consent renamed from A to A2", "accepted", "effective"]
        let ended = ["declined item_missing_at_renewal"]
        #expect(
            line(lines) == ["scheduled", "pending_consent"] + (isFollowed ? followed : ended))
        #expect(try #require(state.changes.first).sku == (isFollowed ? "A2" : "A"))
    }

    @Test func facts_renameAheadOfTheRenewal_keepTheRunningPriceUnderTheNewName() {
        let renamed = Story.event(
            6, "METADATA_UPDATE", charged: [Story.charged()], renewing: [Story.renewing("A2")])
        let read = Story.event(
            7, source: .status, charged: [Story.charged()], renewing: [Story.renewing("A2")])

        let items = Story.fold([Story.bought, renamed, read], []).state.facts.items

        #expect(
            items == [
                SubscriptionFacts.Item(
                    sku: "A2", currentPrice: 9990, renewalPrice: 9990, renews: true, chargedAs: "A")
            ])
    }

    @Test func rename_ofSeveral_pairsThoseWithTheSameIncreaseAndPrice() {
        let bought = Story.event(
            0, "SUBSCRIBED",
            charged: [Story.charged(), Story.charged("B", price: 3990), Story.charged("C")],
            renewing: [Story.renewing(), Story.renewing("B", price: 3990), Story.renewing("C")])
        let told = Story.event(
            3, "PRICE_CHANGE",
            renewing: [
                Story.renewing(status: "SCHEDULED"), Story.renewing("B", price: 3990),
                Story.renewing("C"),
            ])
        let renamed = Story.event(
            6, "METADATA_UPDATE",
            renewing: [
                Story.renewing("X", price: 3990), Story.renewing("Y"),
                Story.renewing("Z", status: "SCHEDULED"),
            ])

        let state = Story.fold([bought, told, renamed], [Story.change(dependents: ["B"])]).state

        #expect(state.changes[0].sku == "Z")
        #expect(state.changes[0].dependentSKUs == ["X"])
        #expect(state.changes[0].unfolded.dependentSKUs == ["B"])
        #expect(state.facts.items.map(\.sku) == ["X", "Y", "Z"])
    }

    /// Renewals in between leave nothing of a rename in the facts.
    @Test(arguments: [
        (["A2"], "A2" as String?), (["A2", "A3"], "A3"), (["A2", "A"], nil), ([], nil),
    ])
    func nameToday_afterRenamesAndRenewals_isTheLast(names: [String], expected: String?) {
        var events = [Story.bought]
        for (turn, name) in names.enumerated() {
            let day = Int64(31 * turn)
            events.append(
                Story.event(day + 10, "METADATA_UPDATE", renewing: [Story.renewing(name)]))
            events.append(
                Story.event(
                    day + 31, "DID_RENEW", purchasedOn: day + 31, charged: [Story.charged(name)],
                    renewing: [Story.renewing(name)]))
        }

        #expect(Lifecycle.nameToday(of: "A", after: events) == expected)
        #expect(Lifecycle.nameToday(of: "B", after: events) == nil)
    }

    /// Retention drops the statements, and the facts keep the renames.
    @Test func nameToday_whereTheRenameIsDropped_isThatOfTheFacts() {
        func known(_ from: String, _ to: String) -> SubscriptionFacts.FormerName {
            .init(from: from, to: to, at: Story.bought.key.signedAt, transactionID: nil)
        }
        let names = [known("A", "A2"), known("A2", "A3"), known("C", "B")]

        #expect(Lifecycle.nameToday(of: "A", after: [], known: names) == "A3")
        #expect(Lifecycle.nameToday(of: "B", after: [], known: names) == nil)
    }

    @Test func rename_ofADependentWhoseCancellationIsOpen_isADiscrepancyForAPerson() {
        let bought = Story.event(
            0, "SUBSCRIBED", charged: [Story.charged(), Story.charged("B", price: 3990)],
            renewing: [Story.renewing(), Story.renewing("B", price: 3990)])
        let pending = Story.event(
            4, "PRICE_INCREASE", "PENDING",
            renewing: [
                Story.renewing(price: 15990, status: "PENDING"), Story.renewing("B", price: 3990),
            ])
        let renewed = Story.event(
            31, "DID_RENEW", purchasedOn: 31, charged: [Story.charged("B", price: 3990)],
            renewing: [Story.renewing("B", price: 3990)])
        let renamed = Story.event(
            32, "METADATA_UPDATE", purchasedOn: 31, charged: [Story.charged("B", price: 3990)],
            renewing: [Story.renewing("B2", price: 3990)])

        let state = Story.fold(
            [bought, pending, renewed, renamed], [Story.change(dependents: ["B"])]
        ).state

        #expect(state.cancellations.map(\.state) == [.discrepancy])
        #expect(state.cancellations[0].detail == "renamed to B2 before it was cancelled")
    }

    @Test func change_billingCycleResetAtTheOldPrice_isInvalidated() {
        var reset = Story.event(
            10, "DID_CHANGE_RENEWAL_PREF", "UPGRADE", purchasedOn: 10,
            charged: [Story.charged(), Story.charged("B", price: 990)],
            renewing: [Story.renewing(), Story.renewing("B", price: 990)])
        reset.transaction?.reason = "PURCHASE"

        #expect(
            line(Story.fold([Story.bought, Story.priceChange, reset]).lines)
                == ["scheduled", "invalidated cycle_reset"])
    }

    @Test func change_billingCycleResetAtTheHigherPrice_isEffective() {
        var reset = Story.event(
            10, "DID_CHANGE_RENEWAL_PREF", purchasedOn: 10, charged: [Story.charged(price: 15990)],
            renewing: [Story.renewing(price: 15990)])
        reset.transaction?.reason = "PURCHASE"

        let state = Story.fold([Story.bought, Story.pending, reset]).state

        #expect(state.changes[0].progress.state == .effective)
        #expect(state.changes[0].progress.effectiveAt == Story.at(10))
    }

    @Test func change_modifiedWithinTheCycle_goesOnWhereTheIncreaseIsStillTold() {
        var added = Story.event(
            10, "DID_CHANGE_RENEWAL_PREF", purchasedOn: 10,
            charged: [Story.charged(), Story.charged("B", price: 990)],
            renewing: [
                Story.renewing(price: 15990, status: "PENDING"), Story.renewing("B", price: 990),
            ])
        added.transaction?.reason = "PURCHASE"

        #expect(
            Story.states([Story.bought, Story.pending, added])
                == ["change-A scheduled", "change-A pending_consent"])
    }

    @Test func change_offerPutOnTheItem_isPostponedUntilAfterIt() {
        var inOffer = Story.renewing(price: 15990, status: "SCHEDULED")
        inOffer.offerPrice = 4990
        inOffer.offerPeriod = "P1M"
        inOffer.offerPeriodCount = 2
        inOffer.offerReason = "RETENTION"
        let redeemed = Story.event(
            6, "OFFER_REDEEMED", charged: [Story.charged()], renewing: [inOffer])
        let charged = StatementItem(
            sku: "A", price: 15990, offerPrice: 4990, offerPeriod: "P1M")
        let duringOffer = Story.event(
            31, "DID_RENEW", purchasedOn: 31, charged: [charged],
            renewing: [Story.renewing(price: 15990, status: "SCHEDULED")])
        let afterOffer = Story.event(
            93, "DID_RENEW", purchasedOn: 93, charged: [Story.charged(price: 15990)],
            renewing: [Story.renewing(price: 15990)])

        let postponed = Story.fold([Story.bought, Story.pending, redeemed])
        let all = Story.fold([
            Story.bought, Story.pending, redeemed, duringOffer,
            Story.event(
                62, "PRICE_INCREASE", "ACCEPTED", purchasedOn: 62, charged: [charged],
                renewing: [Story.renewing(price: 15990, status: "ACCEPTED")]), afterOffer,
        ])

        #expect(
            line(postponed.lines) == [
                "scheduled", "pending_consent", "scheduled postponed_by_offer",
            ])
        // 1 April and 1 May are at the offer's price.
        #expect(postponed.state.changes[0].progress.dueAt == Instant("2026-06-01T00:00:00Z"))
        #expect(
            line(all.lines).suffix(2) == ["accepted", "effective"])
        #expect(all.state.changes[0].progress.effectiveAt == Story.at(93))
        #expect(all.state.changes[0].progress.acceptance == .consented)
    }

    @Test func change_renewalExtended_isDueWithIt() {
        var extended = Story.event(
            6, "RENEWAL_EXTENDED", charged: [Story.charged()],
            renewing: [Story.renewing(status: "SCHEDULED")])
        extended.transaction?.expiresAt = Story.at(41)
        extended.renewal?.renewalAt = Story.at(41)

        let (state, lines) = Story.fold([Story.bought, Story.priceChange, extended])

        #expect(line(lines) == ["scheduled", "scheduled renewal_extended"])
        #expect(state.changes[0].progress.dueAt == Story.at(41))
        #expect(state.facts.renewalAt == Story.at(41))
    }

    @Test func change_chargeFailedAndRecoveredLater_isDueOnTheDaysThatRenewalsFallOnThen() {
        let due = Story.start.advanced(by: 61 * Story.day)  // 1 May: the renewal after the next.
        let failed = Story.event(
            31, "DID_FAIL_TO_RENEW", status: 3, charged: [Story.charged()],
            renewing: [Story.renewing(status: "SCHEDULED")])
        var recovered = Story.event(
            34, "DID_RENEW", "BILLING_RECOVERY", purchasedOn: 34, charged: [Story.charged()],
            renewing: [Story.renewing(status: "SCHEDULED")])
        let renewal = Story.start.advanced(by: 64 * Story.day)  // 4 May.
        recovered.transaction?.expiresAt = renewal
        recovered.renewal?.renewalAt = renewal

        let (state, lines) = Story.fold(
            [Story.bought, Story.priceChange, failed, recovered], [Story.change(dueAt: due)])

        #expect(line(lines) == ["scheduled", "scheduled renewals_moved"])
        #expect(state.changes[0].progress.dueAt == renewal)
    }

    @Test func change_chargeFailedInTheSandbox_isDueARunningPeriodLater() {
        let hour: Int64 = 3_600_000
        func told(_ type: String, at: Int64, purchased: Int64) -> SubscriptionEvent {
            var event = Story.event(
                3, type, charged: [Story.charged()],
                renewing: [Story.renewing(status: "SCHEDULED")])
            event.key = .init(signedAt: Story.sent.advanced(by: at), evidenceID: "\(at)")
            event.transaction?.transactionID = "t\(purchased)"
            event.transaction?.purchasedAt = Story.sent.advanced(by: purchased)
            event.transaction?.expiresAt = Story.sent.advanced(by: purchased + hour)
            event.renewal?.renewalAt = Story.sent.advanced(by: purchased + hour)
            return event
        }
        let due = Story.sent.advanced(by: 2 * hour - 1000)

        let (state, _) = Story.fold(
            [
                told("PRICE_CHANGE", at: 0, purchased: -1000),
                told("DID_RENEW", at: hour + 400, purchased: hour + 400),
            ], [Story.change(dueAt: due)])

        #expect(state.changes[0].progress.dueAt == Story.sent.advanced(by: 2 * hour + 400))
    }

    /// The App Store tells nobody before the lead of the renewal that it means. Told on day 31.
    @Test(
        arguments: [
            // An extension before the call had moved this renewal out of the lead, and was not known at the call.
            (true, "P3M", 91, 183, 91), (true, "P1M", 58, 89, 58), (false, "P1M", 58, 89, 58),
            // The very renewal that is announced.
            (true, "P3M", 91, 91, 91), (true, "P1M", 58, 58, 58), (false, "P1M", 58, 58, 58),
            // None is near enough to be the one that is announced.
            (true, "P3M", 95, 187, 187),
        ] as [(Bool, String, Int64, Int64, Int64)])
    func change_announcedTooEarlyForItsRenewal_isDueAtTheOneThatIsAnnounced(
        asks: Bool, period: String, renewsOn: Int64, plannedOn: Int64, dueOn: Int64
    ) {
        func told(_ day: Int64, _ type: String, _ status: String?) -> SubscriptionEvent {
            var event = Story.event(
                day, type, charged: [Story.charged()], renewing: [Story.renewing(status: status)])
            event.transaction?.expiresAt = Story.at(renewsOn)
            event.transaction?.period = period
            event.renewal?.renewalAt = Story.at(renewsOn)
            event.renewal?.period = period
            return event
        }
        let (state, lines) = Story.fold(
            [
                told(0, "SUBSCRIBED", nil), told(3, "PRICE_CHANGE", "SCHEDULED"),
                told(31, "PRICE_INCREASE", asks ? "PENDING" : "ACCEPTED"),
            ], [Story.change(dueAt: Story.at(plannedOn))])

        #expect(lines.contains { $0.reason == "renewals_moved" } == (dueOn != plannedOn))
        #expect(state.changes[0].progress.dueAt == Story.at(dueOn))
        #expect(state.changes[0].progress.slip == nil)
    }

    /// A weekly plan, called on day 2, that was dated as if it needed consent: who is only told is charged at the fourth
    /// renewal that lies a day or more after the call. Nobody's call was late.
    @Test(
        arguments: [
            ("ACCEPTED", 5, 12, 26), ("ACCEPTED", 3, 10, 24), ("ACCEPTED", 2, 9, 30),
            // The plan said so itself.
            ("ACCEPTED", 5, 26, 26),
            // Who is asked is charged at the renewal that the plan gave.
            ("PENDING", 5, 12, 12),
        ] as [(String, Int64, Int64, Int64)])
    func weeklyChange_onlyToldOf_isDueAtTheFourthRenewal(
        status: String, renewsOn: Int64, plannedOn: Int64, dueOn: Int64
    ) {
        func told(_ day: Int64, _ type: String, _ status: String?) -> SubscriptionEvent {
            var event = Story.event(
                day, type, charged: [Story.charged()], renewing: [Story.renewing(status: status)])
            event.transaction?.purchasedAt = Story.at(renewsOn - 7)
            event.transaction?.expiresAt = Story.at(renewsOn)
            event.transaction?.period = "P1W"
            event.renewal?.renewalAt = Story.at(renewsOn)
            event.renewal?.period = "P1W"
            return event
        }
        let (state, lines) = Story.fold(
            [
                told(0, "SUBSCRIBED", nil), told(2, "PRICE_CHANGE", "SCHEDULED"),
                // Nobody is asked more than seven days before.
                told(status == "PENDING" ? 5 : 2, "PRICE_INCREASE", status),
            ], [Story.change(dueAt: Story.at(plannedOn))])

        #expect(state.changes[0].progress.dueAt == Story.at(dueOn))
        #expect(state.changes[0].progress.slip == (dueOn == plannedOn ? nil : .other))
        #expect(lines.contains { $0.reason == "renewals_moved" } == (dueOn != plannedOn))
    }

    /// A weekly plan whose consent is not known is dated as if it needed consent: called on day 2 for the renewal of day 14,
    /// it may leave until day 7. The App Store asks nobody yet at that renewal, for a sibling rises only there; at the next
    /// one it does, and charges that one. The call was in time. Only one that left after its last instant was late.
    @Test(
        arguments: [(7, .other), (2, .other), (1, .lateCall), (nil, .other)]
            as [(Int64?, Slip)])
    func weeklyChange_thatTheStoreDatesAWeekLater_isLateOnlyByItsOwnLastInstant(
        sendBy: Int64?, expected: Slip
    ) {
        func told(
            _ day: Int64, _ type: String, from start: Int64, _ status: String, sibling: Int64 = 2990
        ) -> SubscriptionEvent {
            var event = Story.event(
                day, type, purchasedOn: start,
                charged: [Story.charged(), Story.charged("B", price: sibling)],
                renewing: [
                    Story.renewing(status: status),
                    sibling == 2990 && start < 14
                        ? Story.renewing("B", price: 2990, status: "SCHEDULED", to: 3290)
                        : Story.renewing("B", price: sibling),
                ])
            event.transaction?.expiresAt = Story.at(start + 7)
            event.transaction?.period = "P1W"
            event.renewal?.renewalAt = Story.at(start + 7)
            event.renewal?.period = "P1W"
            return event
        }
        var change = Story.change(dueAt: Story.at(14))
        change.sendBy = sendBy.map(Story.at)

        let (state, lines) = Story.fold(
            [
                told(0, "SUBSCRIBED", from: 0, "NONE"),
                told(2, "PRICE_CHANGE", from: 0, "SCHEDULED"),
                told(7, "DID_RENEW", from: 7, "SCHEDULED"),
                told(14, "DID_RENEW", from: 14, "PENDING", sibling: 3290),
            ], [change])

        #expect(state.changes[0].progress.dueAt == Story.at(21))
        #expect(state.changes[0].progress.slip == expected)
        #expect(lines.map(\.reason).contains("renewals_moved"))
    }

    /// The answer was lost, and the charge at the old price told first: who was in time is not late for that either.
    @Test(arguments: [(20, Slip.other), (1, .lateCall)] as [(Int64, Slip)])
    func change_seenScheduledAfterItsRenewal_isLateOnlyByItsOwnLastInstant(
        sendBy: Int64, expected: Slip
    ) {
        var change = Story.change()
        change.sendBy = Story.at(sendBy)
        func told(_ day: Int64, _ type: String, _ item: StatementItem) -> SubscriptionEvent {
            Story.event(
                day, type, purchasedOn: 31, charged: [Story.charged()], renewing: [item])
        }
        let later = Story.event(
            62, "DID_RENEW", purchasedOn: 62, charged: [Story.charged(price: 15990)],
            renewing: [Story.renewing(price: 15990)])

        let renewed = told(31, "DID_RENEW", Story.renewing())
        let seen = Story.fold(
            [Story.bought, renewed, told(33, "PRICE_CHANGE", Story.renewing(status: "SCHEDULED"))],
            [change])
        let charged = Story.fold([Story.bought, renewed, later], [change])

        #expect(seen.state.changes[0].progress.slip == expected)
        #expect(charged.state.changes[0].progress.state == .effective)
        #expect(charged.state.changes[0].progress.slip == expected)
    }

    /// The renewal of 1 April was never told; the first word of its period is that it was extended to 6 May. What is due at
    /// its end is due then, and not a month later.
    @Test(arguments: [(61, 66), (92, 97)] as [(Int64, Int64)])
    func change_whoseRunningPeriodIsFirstToldAsExtended_keepsItsRenewal(
        dueOn: Int64, expectedOn: Int64
    ) {
        var extended = Story.event(
            40, "RENEWAL_EXTENDED", purchasedOn: 31, charged: [Story.charged()],
            renewing: [Story.renewing(status: "SCHEDULED")])
        extended.transaction?.expiresAt = Story.at(66)
        extended.renewal?.renewalAt = Story.at(66)
        var change = Story.change(sentAt: Story.at(33), dueAt: Story.at(dueOn))
        change.calledRenewalAt = Story.at(31)

        let (state, _) = Story.fold([Story.bought, extended], [change])

        #expect(state.changes[0].progress.dueAt == Story.at(expectedOn))
        #expect(state.changes[0].progress.slip == .extension)
    }

    /// In the Sandbox an increase takes effect at R1 as of the call. Renewals of that time are told after it, after the
    /// answer or never, and the running period was longer than those that follow: 66 minutes, not 60. R1 is counted from
    /// the period that ran at the call, whatever the plan could know.
    @Test(arguments: SandboxCall.all)
    func sandboxCall_afterARenewalThatWasNotTold_isDueAtTheSecondOneAfterIt(_ call: SandboxCall) {
        let (state, lines) = Story.fold(call.statements, [call.change])

        #expect(state.changes[0].progress.dueAt == SandboxCall.at(call.due), "\(call)")
        #expect(lines.contains { $0.reason == "renewals_moved" } == (call.due != call.planned))
    }

    /// In the Sandbox, with a first period of 66 minutes that an extension had made longer than the hour of the others.
    @Test(arguments: [false, true])
    func change_plannedInAStretchedSandboxPeriod_keepsItsTurn(isRenewalKnown: Bool) {
        let minute: Int64 = 60_000
        func at(_ minutes: Int64) -> Instant { Story.sent.advanced(by: minutes * minute) }
        func told(
            _ type: String?, at minutes: Int64, from: Int64, to: Int64,
            source: SubscriptionEvent.Source = .notification
        ) -> SubscriptionEvent {
            var event = Story.event(
                3, type, source: source, charged: [Story.charged()],
                renewing: [Story.renewing(status: type == nil ? "SCHEDULED" : nil)])
            event.key = .init(
                signedAt: at(minutes), evidenceID: type == nil ? Story.requestID : "\(minutes)")
            event.transaction?.transactionID = "t\(from)"
            event.transaction?.purchasedAt = at(from)
            event.transaction?.expiresAt = at(to)
            event.renewal?.renewalAt = at(to)
            return event
        }
        // Called by the stretched period; the renewal before the call is told after it, or never.
        var change = Story.change(dueAt: at(-3 + 2 * 66))
        change.calledRenewalAt = at(-3)
        let renewed = told("DID_RENEW", at: -3, from: -3, to: 57)

        let (state, lines) = Story.fold(
            [told("SUBSCRIBED", at: -69, from: -69, to: -3)] + (isRenewalKnown ? [renewed] : [])
                + [told(nil, at: 1, from: -3, to: 57, source: .response)], [change])

        #expect(state.changes[0].progress.dueAt == at(-3 + 2 * 60))
        #expect(lines.contains { $0.reason == "renewals_moved" })
        #expect(lines.allSatisfy { $0.at >= Story.sent.advanced(by: -TrackedChange.clockMargin) })
    }

    @Test func change_renewedAtTheOldPriceAndStillScheduled_isDueAtTheNextRenewal() {
        let next = Story.start.advanced(by: 61 * Story.day)  // 1 May.
        func renewed(_ items: [StatementItem]) -> SubscriptionEvent {
            var event = Story.event(
                31, "DID_RENEW", purchasedOn: 31, charged: [Story.charged()], renewing: items)
            event.transaction?.expiresAt = next
            event.renewal?.renewalAt = next
            return event
        }

        let (state, lines) = Story.fold([
            Story.bought, Story.priceChange, renewed([Story.renewing(status: "SCHEDULED")]),
        ])
        let vanished = Story.fold([Story.bought, Story.priceChange, renewed([Story.renewing()])])

        #expect(line(lines) == ["scheduled", "scheduled renewals_moved"])
        #expect(state.changes[0].progress.dueAt == next)
        #expect(vanished.state.changes[0].progress.dueAt == Story.renewal)
    }

    /// The answer was lost, the renewal went by at the old price, and only then a statement shows the change.
    @Test func change_seenScheduledAfterItsRenewal_isDueAtTheNextOne() {
        let next = Story.start.advanced(by: 61 * Story.day)  // 1 May.
        func told(
            _ day: Int64, _ type: String, _ charged: Int64, _ item: StatementItem
        ) -> SubscriptionEvent {
            var event = Story.event(
                day, type, purchasedOn: 31, charged: [Story.charged(price: charged)],
                renewing: [item])
            event.transaction?.expiresAt = next
            event.renewal?.renewalAt = next
            return event
        }
        let renewed = told(31, "DID_RENEW", 9990, Story.renewing())

        let late = Story.fold([
            Story.bought, renewed,
            told(33, "PRICE_CHANGE", 9990, Story.renewing(status: "SCHEDULED")),
        ])
        let charged = Story.fold([
            Story.bought, told(33, "DID_RENEW", 15990, Story.renewing(price: 15990)),
        ])

        #expect(line(late.lines) == ["scheduled", "scheduled renewals_moved"])
        #expect(late.state.changes[0].progress.dueAt == next)
        #expect(charged.state.changes[0].progress.effectiveAt == Story.at(31))
        #expect(charged.state.changes[0].progress.dueAt == Story.renewal)
    }

    @Test func change_aRenewalThatWasNeverTold_movesNothing() {
        let due = Story.start.advanced(by: 92 * Story.day)  // 1 June.
        var second = Story.event(
            61, "DID_RENEW", purchasedOn: 61, charged: [Story.charged()],
            renewing: [Story.renewing(status: "SCHEDULED")])
        second.transaction?.expiresAt = due
        second.renewal?.renewalAt = due

        let state = Story.fold(
            [Story.bought, Story.priceChange, second], [Story.change(dueAt: due)]
        ).state

        #expect(state.changes[0].progress.dueAt == due)
    }

    @Test func change_itemMissingThoughNeverAsked_isTheSubscribersRemoval_untilTheQuestionIsFound()
    {
        let without = Story.event(
            31, "DID_RENEW", purchasedOn: 31, charged: [Story.charged("B", price: 1000)],
            renewing: [Story.renewing("B", price: 1000)])

        #expect(
            line(Story.fold([Story.bought, Story.priceChange, without]).lines)
                == ["scheduled", "cancelled item_missing_at_renewal"])
        #expect(
            line(Story.fold([Story.bought, Story.priceChange, without, Story.pending]).lines)
                == ["scheduled", "pending_consent", "declined item_missing_at_renewal"])
    }

    @Test func change_itemRemovedAndReactivatedBeforeTheRenewal_goesOn() {
        let removed = Story.event(
            6, "DID_CHANGE_RENEWAL_PREF",
            charged: [Story.charged(), Story.charged("B", price: 990)],
            renewing: [Story.renewing("B", price: 990)])

        let bought = Story.event(
            0, "SUBSCRIBED", charged: [Story.charged(), Story.charged("B", price: 990)],
            renewing: [Story.renewing(), Story.renewing("B", price: 990)])
        let pending = Story.event(
            4, "PRICE_INCREASE", "PENDING",
            renewing: [
                Story.renewing(price: 15990, status: "PENDING"), Story.renewing("B", price: 990),
            ])
        let after = [bought, pending, removed]
        #expect(Story.fold(after).state.changes[0].progress.state == .pendingConsent)
        #expect(
            Story.fold(after + [Story.renewedAtNewPrice]).state.changes[0].progress.state
                == .effective)
    }

    /// Where no status is told, or it says that the subscription is over, the mark on the transaction decides.
    @Test(arguments: [
        (1, false), (3, false), (4, false), (2, true), (5, true), (nil as Int?, true),
    ])
    func change_ofARefundedPeriod_goesOnWhereTheStatusSaysSo(status: Int?, isEnded: Bool) {
        var refund = Story.event(
            10, "REFUND", charged: [Story.charged()], renewing: [Story.renewing()], revoked: true)
        refund.status = status

        let state = Story.fold([Story.bought, Story.pending, refund]).state

        #expect(state.changes[0].progress.state.isFinal == isEnded)
        #expect(state.money.map(\.amount) == [9990, -9990])
    }

    @Test func change_refundReversed_goesOnAndItsChargeCountsAgain() {
        let refund = Story.event(
            10, "REFUND", status: 5, charged: [Story.charged()], renewing: [], autoRenew: 0,
            revoked: true)
        let reversed = Story.event(
            12, "REFUND_REVERSED", charged: [Story.charged()],
            renewing: [Story.renewing(price: 15990, status: "PENDING")])

        let refunded = Story.fold([Story.bought, Story.pending, refund])
        let (state, lines) = Story.fold([Story.bought, Story.pending, refund, reversed])

        #expect(line(refunded.lines).last == "cancelled refunded_or_revoked")
        #expect(refunded.state.money.map(\.amount) == [9990, -9990])
        #expect(line(lines).last == "pending_consent refund_reversed")
        #expect(state.changes[0].progress.endedAt == nil)
        #expect(state.money.map(\.amount) == [9990, -9990, 9990])
        #expect(state.money.map(\.key.kind) == [.charge, .refund, .reversal])
        #expect(state.facts.status == 1)
    }

    @Test func change_partlyRefundedWhileApplesStatusIsActive_staysOpen() {
        let read = Story.event(
            10, source: .status, charged: [Story.charged()],
            renewing: [Story.renewing(status: "SCHEDULED")], revoked: true)

        let state = Story.fold([Story.bought, Story.priceChange, read]).state

        #expect(state.changes[0].progress.state == .scheduled)
        #expect(state.facts.status == 1)
    }

    @Test func change_subscriptionExpiredForAnotherItemsIncrease_isNotDeclined() {
        let bothTold = Story.event(
            4, "PRICE_INCREASE", "PENDING", charged: [Story.charged(), Story.charged("B")],
            renewing: [
                Story.renewing(price: 15990, status: "ACCEPTED"),
                Story.renewing("B", price: 20000, status: "PENDING", to: 20000),
            ])
        let expired = Story.event(
            31, "EXPIRED", "PRICE_INCREASE", status: 2, renewing: [], autoRenew: 0, intent: 3)
        let other = Story.change("B", to: 20000, id: "change-B")

        let state = Story.fold([Story.bought, bothTold, expired], [Story.change(), other]).state

        #expect(state.changes.map(\.progress.state) == [.cancelled, .declined])
        #expect(state.changes[0].progress.reason == "expired_for_another_increase")
    }

    @Test func change_askedAfterAcceptance_staysAcceptedAndTheHistoryShowsIt() {
        let asked = Story.event(
            6, "PRICE_INCREASE", "PENDING", charged: [Story.charged()],
            renewing: [Story.renewing(price: 15990, status: "PENDING")])

        #expect(
            line(Story.fold([Story.bought, Story.accepted, asked]).lines)
                == ["scheduled", "accepted", "accepted asked_after_acceptance"])
    }
}
