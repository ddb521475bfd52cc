import Testing

@testable import Pricing

private typealias Story = LifecycleStory

/// What the answer to a change's own call proves of it, by what the answer shows.
@Suite struct CallAnswerTests {
    struct Answer: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var newPrice: Int64 = 15990
        /// nil: the answer has no renewal information.
        var renewing: [StatementItem]?

        var statement: SubscriptionEvent {
            var event = Story.event(
                2, id: Story.requestID, source: .response, charged: [Story.charged()],
                renewing: renewing)
            if renewing == nil { event.renewal = nil }
            return event
        }

        var change: TrackedChange { Story.change(to: newPrice) }
    }

    private static func item(price: Int64? = 9990, status: String? = nil) -> StatementItem {
        StatementItem(sku: "A", price: price, increaseStatus: status)
    }

    private static var inOffer: StatementItem {
        var item = item(price: 990)
        item.offerPrice = 990
        return item
    }

    private static let proofs = [
        Answer(testDescription: "its price", renewing: [Story.renewing(status: "SCHEDULED")]),
        Answer(testDescription: "told already", renewing: [Story.renewing(status: "PENDING")]),
        Answer(testDescription: "increase, no price of it", renewing: [item(status: "SCHEDULED")]),
        Answer(
            testDescription: "increase, no price", renewing: [item(price: nil, status: "PENDING")]),
        Answer(
            testDescription: "decrease", newPrice: 7990, renewing: [Story.renewing(price: 7990)]),
        Answer(testDescription: "decrease, no price", newPrice: 7990, renewing: [item(price: nil)]),
        Answer(testDescription: "decrease in an offer", newPrice: 7990, renewing: [inOffer]),
    ]

    private static let contradictions = [
        Answer(testDescription: "as before", renewing: [Story.renewing()]),
        Answer(
            testDescription: "another increase",
            renewing: [Story.renewing(status: "SCHEDULED", to: 12990)]),
        Answer(
            testDescription: "an increase beside another price",
            renewing: [item(price: 4990, status: "SCHEDULED")]),
        Answer(testDescription: "no such item", renewing: [Story.renewing("B")]),
        Answer(testDescription: "no items", renewing: []),
        Answer(testDescription: "no renewal", renewing: nil),
        Answer(
            testDescription: "decrease, as before", newPrice: 7990, renewing: [Story.renewing()]),
        Answer(
            testDescription: "decrease, another price", newPrice: 7990,
            renewing: [Story.renewing(price: 5990)]),
        Answer(testDescription: "decrease, no renewal", newPrice: 7990, renewing: nil),
    ]

    @Test(arguments: proofs)
    func answer_showingTheChange_schedulesIt(answer: Answer) throws {
        let states = Story.states([Story.bought, answer.statement], [answer.change])

        #expect(states.first == "change-A scheduled")
    }

    /// HTTP 200 with a signed statement that says otherwise: nobody knows yet, so the call stays open.
    @Test(arguments: contradictions)
    func answer_contradictingItsCall_schedulesNothing(answer: Answer) throws {
        let (state, lines) = Story.fold([Story.bought, answer.statement], [answer.change])

        #expect(lines.isEmpty)
        #expect(state.changes.map(\.progress.state) == [.sending])
    }

    /// The statement that shows it later settles it, as after a lost answer.
    @Test(arguments: contradictions)
    func answer_contradictingItsCall_isMendedByALaterStatement(answer: Answer) throws {
        let shown = Story.event(
            4, charged: [Story.charged()],
            renewing: [
                answer.newPrice > 9990
                    ? Story.renewing(status: "SCHEDULED") : Story.renewing(price: answer.newPrice)
            ])

        let (state, lines) = Story.fold([Story.bought, answer.statement, shown], [answer.change])

        #expect(lines.map(\.state) == [.scheduled])
        #expect(state.changes.map(\.progress.scheduledAt) == [Story.at(4)])
    }

    /// What is judged before the answer is folded agrees with the fold. The fold alone knows which way the price goes: a
    /// raised item in an offer, without an announcement, contradicts nothing by itself.
    @Test func contradiction_beforeTheFold_agreesWithIt() {
        func contradicts(_ answer: Answer) -> Bool {
            answer.renewing?.first { $0.sku == "A" }?
                .contradicts(
                    newPrice: answer.newPrice, isDueLater: answer.statement.isTooLateForItsRenewal)
                ?? true
        }

        #expect(Self.proofs.filter(contradicts).map(\.testDescription).isEmpty)
        #expect(
            Self.contradictions.filter { !contradicts($0) }.map(\.testDescription)
                == ["an increase beside another price"])
        #expect(!Self.inOffer.contradicts(newPrice: 12990, isDueLater: false))
    }

    // MARK: Calls less than 24 hours before a renewal

    /// Signed half a day before the renewal on day 31, about a change that is due on day 62.
    private static func late(
        to newPrice: Int64, renewing: StatementItem
    ) -> (answer: SubscriptionEvent, change: TrackedChange) {
        var answer = Story.event(
            2, id: Story.requestID, source: .response, charged: [Story.charged()],
            renewing: [renewing])
        answer.key.signedAt = Story.renewal.advanced(by: -Story.day / 2)
        let change = Story.change(
            to: newPrice, sentAt: answer.key.signedAt, dueAt: Story.at(62))
        return (answer, change)
    }

    private static func renewed(
        on day: Int64, at price: Int64, renewing next: Int64
    ) -> SubscriptionEvent {
        Story.event(
            day, "DID_RENEW", purchasedOn: day, charged: [Story.charged(price: price)],
            renewing: [Story.renewing(price: next)])
    }

    /// Renewal info tells the price of the next renewal. A decrease that is due after it cannot show yet, so the answer is
    /// believed; what the renewals bring decides.
    @Test func decrease_calledWithinTheLastDay_isScheduledByAnAnswerWithTheOldPrice() throws {
        let (answer, change) = Self.late(to: 7990, renewing: Story.renewing())
        let status = Story.event(30, source: .status, renewing: [Story.renewing()])

        let (state, lines) = Story.fold(
            [
                Story.bought, answer, status, Self.renewed(on: 31, at: 9990, renewing: 7990),
                Self.renewed(on: 62, at: 7990, renewing: 7990),
            ], [change])

        #expect(lines.map(\.state) == [.scheduled, .effective])
        #expect(state.changes.map(\.progress.effectiveAt) == [Story.at(62)])
    }

    @Test(arguments: [
        (Int64(7990), Story.renewing(price: 8990)), (Int64(12990), Story.renewing()),
    ])
    func callWithinTheLastDay_isNotScheduledByWhatNoRenewalExplains(
        newPrice: Int64, item: StatementItem
    ) throws {
        let (answer, change) = Self.late(to: newPrice, renewing: item)

        let (_, lines) = Story.fold([Story.bought, answer], [change])

        #expect(lines.isEmpty)
    }

    /// What is judged before the fold: a higher price than the new one shows nothing in the last day, and a lower one does.
    @Test func contradiction_inTheLastDay_isOfRaisesAlone() {
        let (answer, _) = Self.late(to: 7990, renewing: Story.renewing())
        let isLater = answer.isTooLateForItsRenewal

        #expect(isLater)
        #expect(!Story.bought.isTooLateForItsRenewal)
        #expect(!Story.renewing().contradicts(newPrice: 7990, isDueLater: isLater))
        #expect(Story.renewing().contradicts(newPrice: 12990, isDueLater: isLater))
        #expect(
            Story.renewing(status: "SCHEDULED", to: 15990)
                .contradicts(newPrice: 7990, isDueLater: isLater))
    }
}
