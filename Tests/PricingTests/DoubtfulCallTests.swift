import Testing

@testable import Pricing

private typealias Story = LifecycleStory

/// Changes that were given up with a call of unknown outcome, and what the App Store says later.
@Suite struct DoubtfulCallTests {
    /// Given up after its call of day 2.
    private static func givenUp(
        _ state: ChangeState = .aborted, id: String = "change-A", from old: Int64 = 9990,
        to new: Int64 = 15990, since: Instant = Story.sent
    ) -> TrackedChange {
        var change = Story.change(from: old, to: new, id: id)
        let left = ChangeProgress(
            state: state, reason: state.rawValue, endedAt: state.isFinal ? since : nil,
            dueAt: Story.renewal, since: since)
        change.sentAt = nil
        change.doubtfulSince = since
        change.callProgress = left
        change.progress = left
        return change
    }

    private static func lines(
        _ events: [SubscriptionEvent], _ changes: [TrackedChange]
    ) -> [String] {
        Story.fold(events, changes).lines.map {
            [$0.changeID, $0.state.rawValue, $0.reason].compactMap { $0 }.joined(separator: " ")
        }
    }

    @Test(arguments: [ChangeState.aborted, .missed, .ineligible, .rejected, .queued])
    func change_givenUpAndSeenApplied_goesOnAsTheStatementsTell(state: ChangeState) throws {
        let (folded, _) = Story.fold(
            [Story.bought, Story.priceChange, Story.pending, Story.accepted], [Self.givenUp(state)])

        #expect(
            Self.lines(
                [Story.bought, Story.priceChange, Story.pending, Story.accepted],
                [Self.givenUp(state)]) == [
                    "change-A scheduled applied_after_all", "change-A pending_consent",
                    "change-A accepted",
                ])
        let progress = try #require(folded.changes.first).progress
        #expect(progress.endedAt == nil)
        #expect(progress.acceptance == .consented)
        #expect(folded.increases.map(\.origin) == [nil], "it is ours, not somebody else's")
    }

    @Test func change_givenUpAndFirstHeardOfWhenCharged_isEffective() throws {
        let (folded, _) = Story.fold([Story.bought, Story.renewedAtNewPrice], [Self.givenUp()])

        #expect(
            Self.lines([Story.bought, Story.renewedAtNewPrice], [Self.givenUp()])
                == ["change-A effective applied_after_all"])
        #expect(try #require(folded.changes.first).progress.effectiveAt == Story.at(31))
    }

    /// After a restored backup its call is not known. An extension before that call, of which its plan knew nothing, moved
    /// the renewals, so its date is no renewal any more.
    @Test(arguments: [true, false])
    func change_adoptedAfterAnExtension_isDueAtARenewal(isDecrease: Bool) throws {
        let price: Int64 = isDecrease ? 7990 : 15990
        var change = Self.givenUp(.queued, to: price, since: Story.at(11))
        change.requestReferenceID = nil
        change.progress.dueAt = Story.at(31)
        change.callProgress.dueAt = Story.at(31)
        func moved(_ event: SubscriptionEvent) -> SubscriptionEvent {
            var event = event
            event.renewal?.renewalAt = Story.at(40)
            event.transaction?.expiresAt = Story.at(40)
            return event
        }
        let extended = moved(
            Story.event(
                10, "RENEWAL_EXTENDED", charged: [Story.charged()], renewing: [Story.renewing()]))
        let shown = moved(
            Story.event(
                12, "PRICE_CHANGE", charged: [Story.charged()],
                renewing: [
                    isDecrease ? Story.renewing(price: price) : Story.renewing(status: "SCHEDULED")
                ]))

        let (folded, lines) = Story.fold([Story.bought, extended, shown], [change])

        #expect(lines.map(\.reason) == ["adopted", "renewals_moved"])
        #expect(folded.changes.map(\.progress.dueAt) == [Story.at(40)])
        #expect(folded.changes.map(\.progress.slip) == [.other])
    }

    /// Its plan knew the renewals, so nothing moves.
    @Test func change_adoptedWithTheRenewalsOfItsPlan_keepsItsDate() {
        var change = Self.givenUp(.queued)
        change.requestReferenceID = nil

        let (folded, lines) = Story.fold([Story.bought, Story.priceChange], [change])

        #expect(lines.map(\.reason) == ["adopted"])
        #expect(folded.changes.map(\.progress.dueAt) == [Story.renewal])
    }

    @Test func decrease_givenUpAndSeenInTheRenewal_isScheduled() {
        let told = Story.event(
            3, "PRICE_CHANGE", charged: [Story.charged()], renewing: [Story.renewing(price: 7990)])

        #expect(
            Self.lines([Story.bought, told], [Self.givenUp(to: 7990)])
                == ["change-A scheduled applied_after_all"])
    }

    /// Nothing that happens to the item is about a change that nothing shows applied.
    @Test func change_givenUpAndNeverSeenApplied_staysAsItEnded() {
        let renewed = Story.event(
            31, "DID_RENEW", purchasedOn: 31, charged: [Story.charged("OTHER")],
            renewing: [Story.renewing("OTHER")])
        let left = Story.event(
            40, "EXPIRED", "VOLUNTARY", status: 2, purchasedOn: 31, charged: [Story.charged()],
            renewing: [])

        #expect(Self.lines([Story.bought, renewed, left], [Self.givenUp()]).isEmpty)
    }

    @Test func change_refusedForSure_isNotOpenedByAnotherOfItsPrice() {
        var certain = Self.givenUp()
        certain.doubtfulSince = nil

        #expect(Self.lines([Story.bought, Story.priceChange], [certain]).isEmpty)
        #expect(
            Self.lines([Story.bought, Story.priceChange], [Self.givenUp(since: Story.at(20))])
                .isEmpty, "signed long before the call")
    }

    /// Another program had set the price before the call whose outcome nobody knows. What becomes of that is not ours.
    @Test(arguments: [ChangeState.aborted, .missed, .ineligible, .rejected, .queued])
    func change_givenUp_whosePriceWasThereBefore_isNotOpenedByWhatFollows(state: ChangeState) {
        let doubtful = Self.givenUp(state, since: Story.at(20))
        var consented = Story.pending
        consented.key = .init(signedAt: Story.at(21), evidenceID: "asked")
        let charged = Story.event(
            31, "DID_RENEW", purchasedOn: 31, charged: [Story.charged(price: 15990)],
            renewing: [Story.renewing(price: 15990)])
        let again = Story.event(
            61, "DID_RENEW", purchasedOn: 61, charged: [Story.charged(price: 15990)],
            renewing: [Story.renewing(price: 15990)])

        let (folded, lines) = Story.fold(
            [Story.bought, Story.priceChange, consented, charged, again], [doubtful])

        #expect(lines.isEmpty, "\(lines)")
        #expect(folded.changes.map(\.progress.state) == [state])
        // Charged already when the call was made.
        let late = Self.givenUp(state, since: Story.at(40))
        #expect(Self.lines([Story.bought, Story.renewedAtNewPrice, again], [late]).isEmpty)
    }

    /// Two calls for one change: one row, one outcome, whichever of them the statement is of.
    @Test func change_sentAgainUnderANewID_takesTheEffectOfTheFirstCallForItsOwn() {
        var again = Story.change(sentAt: Story.at(10))
        again.doubtfulSince = Story.sent
        let other = Story.event(
            4, "EXPIRED", "VOLUNTARY", status: 2, charged: [Story.charged()], renewing: [])

        #expect(
            Self.lines([Story.bought, Story.priceChange], [again]) == ["change-A scheduled"])
        #expect(Self.lines([Story.bought, other], [again]).isEmpty, "before the call that is out")
    }

    @Test func change_givenUp_leavesToALaterOneWhatIsThatOnesDoing() {
        let later = Story.change(sentAt: Story.at(3), id: "change-B")

        #expect(
            Self.lines([Story.bought, Story.pending], [Self.givenUp(), later])
                == ["change-B scheduled", "change-B pending_consent"])
        #expect(
            Self.lines(
                [Story.bought, Story.pending],
                [Self.givenUp(), Self.givenUp(id: "change-B", since: Story.at(3))])
                == ["change-B scheduled applied_after_all", "change-B pending_consent"])
    }

    /// An item has room for one open change: the later call stands.
    @Test func change_givenUpAndSeenBesideALaterCallOfAnotherPrice_endsAgain() {
        let later = Story.change(to: 19990, sentAt: Story.at(3), id: "change-B")

        let changes = Story.fold([Story.bought, Story.pending], [Self.givenUp(), later]).state
            .changes

        #expect(changes.map(\.progress.state) == [.invalidated, .sending])
        #expect(changes.first?.progress.reason == "replaced_by_a_later_change")
    }

    @Test func undo_givenUp_isFollowedWhileThereIsSomethingToTakeBack() {
        var undo = Self.givenUp(id: "undo", from: 15990, to: 9990, since: Story.at(4))
        undo.undoes = "change-A"
        let taken = Story.event(
            5, "PRICE_CHANGE", charged: [Story.charged()], renewing: [Story.renewing()])
        let reset = Story.event(
            5, "EXPIRED", "VOLUNTARY", status: 2, charged: [Story.charged()], renewing: [])
        let back = Story.event(
            6, "SUBSCRIBED", "RESUBSCRIBE", purchasedOn: 6, charged: [Story.charged()],
            renewing: [Story.renewing()])

        let applied = Story.fold([Story.bought, Story.priceChange, taken], [Story.change(), undo])
        let late = Story.fold(
            [Story.bought, Story.priceChange, reset, back], [Story.change(), undo])

        #expect(applied.state.changes.map(\.progress.state) == [.invalidated, .scheduled])
        #expect(late.state.changes.map(\.progress.state) == [.cancelled, .aborted])
    }

    /// The answer to the undo was signed before its effect. What Apple tells later decides.
    @Test func undo_answeredWithTheStateBefore_isAppliedOnceThatShows() {
        var undo = Story.change(from: 15990, to: 9990, sentAt: Story.at(4), id: "undo")
        (undo.undoes, undo.requestReferenceID) = ("change-A", "call-of-the-undo")
        var answer = Story.event(
            4, nil, source: .response, charged: [Story.charged()],
            renewing: [Story.renewing(status: "SCHEDULED")])
        answer.key = .init(
            signedAt: Story.at(4).advanced(by: 500), evidenceID: "call-of-the-undo")
        let taken = Story.event(
            5, "PRICE_CHANGE", charged: [Story.charged()], renewing: [Story.renewing()])
        let still = Story.event(
            5, "PRICE_CHANGE", charged: [Story.charged()],
            renewing: [Story.renewing(status: "SCHEDULED")])
        let told = { Story.fold($0, [Story.change(), undo]).state.changes.map(\.progress) }

        let answered = told([Story.bought, Story.priceChange, answer])
        let later = told([Story.bought, Story.priceChange, answer, taken])
        let never = told([Story.bought, Story.priceChange, answer, still])

        #expect(answered.map(\.state) == [.scheduled, .rejected])
        #expect(later.map(\.state) == [.invalidated, .scheduled])
        #expect(later.map(\.reason) == ["undone", "applied_after_all"])
        #expect(never.map(\.state) == [.scheduled, .rejected])
        #expect(never.map(\.reason) == [nil, "still_scheduled"])
    }

    /// The first statement about an item, told minutes before a call that is lost, shows the price that it asks for. It is
    /// folded again when a late one arrives, and proves nothing about a call that came after it.
    @Test func statementFromBeforeTheCall_whereNothingWasKnown_provesNothing() {
        let soon = Story.at(0).advanced(by: 60_000)
        var change = Story.change(from: 12990, to: 9990, sentAt: soon)
        change.callProgress.state = .unknown
        var undo = Story.change(from: 15990, to: 9990, sentAt: soon, id: "undo")
        undo.undoes = "change-A"
        var lowered = Story.bought
        lowered.renewal?.items = [Story.renewing()]

        #expect(Story.states([lowered], [change]).isEmpty)
        #expect(Story.states([lowered], [undo]).isEmpty)
    }

    /// The period that runs is dated after the undo's call, and was charged before it. Only one that is told later says
    /// what the customer pays.
    @Test func undo_whoseRunningPeriodIsDatedAhead_isEffectiveByALaterOneAlone() {
        var undo = Story.change(from: 15990, to: 9990, sentAt: Story.at(4), id: "undo")
        undo.undoes = "change-A"
        undo.requestReferenceID = "call-of-the-undo"
        func told(_ day: Int64, _ purchasedOn: Int64, _ status: String?) -> SubscriptionEvent {
            Story.event(
                day, purchasedOn: purchasedOn, charged: [Story.charged()],
                renewing: [Story.renewing(status: status)])
        }
        let booked = [Story.bought, told(3, 5, "SCHEDULED")]
        let refused = booked + [told(6, 5, "SCHEDULED")]
        let applied = booked + [told(6, 5, nil)]

        let changes = { Story.fold($0, [Story.change(), undo]).state.changes }

        #expect(changes(refused).map(\.progress.state) == [.scheduled, .sending])
        #expect(changes(applied).map(\.progress.state) == [.invalidated, .scheduled])
        #expect(
            changes(applied + [told(36, 36, nil)]).map(\.progress.state)
                == [.invalidated, .effective])
    }
}
