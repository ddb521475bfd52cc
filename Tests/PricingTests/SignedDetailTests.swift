import JSON
import Testing

@testable import Pricing

private typealias Story = LifecycleStory

/// What was signed beside what moves a change: the newest statement wins, in whatever order they come.
@Suite struct SignedDetailTests {
    /// Told on a day: `change` says what besides.
    private static func told(
        _ day: Int64, purchasedOn: Int64 = 0, _ change: (inout SubscriptionEvent) -> Void
    ) -> SubscriptionEvent {
        var event = Story.event(
            day, "DID_RENEW", purchasedOn: purchasedOn, charged: [Story.charged()],
            renewing: [Story.renewing()])
        change(&event)
        return event
    }

    private static let first = told(1) {
        $0.transaction?.offerType = 2
        $0.transaction?.quantity = 3
        $0.transaction?.appTransactionID = "app"
        $0.transaction?.reason = "PURCHASE"
        $0.transaction?.details[.offerIdentifier] = .text("spring")
        $0.transaction?.details[.isUpgraded] = .flag(true)
        $0.renewal?.autoRenewProductID = "large"
        $0.renewal?.price = 12990
        $0.renewal?.currency = "USD"
        $0.renewal?.offerType = 4
        $0.renewal?.details[.eligibleWinBackOfferIds] = .texts(["back"])
    }

    @Test func facts_ofOneStatement_keepWhatItSays() {
        let facts = Story.fold([Self.first]).state.facts

        #expect(facts.offerType == 2 && facts.renewalOfferType == 4)
        #expect(facts.quantity == 3)
        #expect(facts.appTransactionID == "app")
        #expect(facts.transactionReason == "PURCHASE")
        #expect(facts.autoRenewProductID == "large")
        #expect(facts.renewalTotal == 12990 && facts.renewalCurrency == "USD")
        #expect(facts.transactionDetails[.offerIdentifier] == .text("spring"))
        #expect(facts.renewalDetails[.eligibleWinBackOfferIds] == .texts(["back"]))
    }

    /// What Apple leaves out where it does not hold any more is gone; what it only forgets to say stays.
    @Test func facts_ofANewerStatementThatSaysLess_keepWhatStillHolds() {
        let facts = Story.fold([Self.first, Self.told(2) { $0.status = 1 }]).state.facts

        #expect(facts.offerType == nil && facts.renewalOfferType == nil)
        #expect(facts.transactionDetails.isEmpty && facts.renewalDetails.isEmpty)
        #expect(facts.renewalTotal == nil && facts.renewalCurrency == nil)
        #expect(facts.quantity == 3)
        #expect(facts.appTransactionID == "app")
        #expect(facts.autoRenewProductID == "large")
    }

    /// The prices of the items are in it, whether or not the total is told.
    @Test func currencyOfTheRenewal_isKnownWithoutTheTotal() {
        let moved = Self.told(3) { $0.renewal?.currency = "EUR" }

        let facts = Story.fold([Self.first, moved]).state.facts

        #expect(facts.renewalTotal == nil && facts.renewalCurrency == "EUR")
        #expect(facts.currency != "EUR")
    }

    /// A refund of an earlier period says nothing of the running one.
    @Test func facts_ofAnEarlierPeriodToldLate_areNotTheRunningOnes() {
        let running = Self.told(31, purchasedOn: 31) { $0.transaction?.offerType = 3 }
        let late = Self.told(33) {
            $0.type = "REFUND"
            $0.transaction?.offerType = 1
            $0.transaction?.details[.revocationReason] = .number(1)
        }

        let facts = Story.fold([Self.first, running, late]).state.facts

        #expect(facts.offerType == 3)
        #expect(facts.transactionDetails.isEmpty)
    }

    @Test func facts_ofStatementsInAnyOrder_areTheSame() {
        let later = Self.told(3) {
            $0.transaction?.quantity = 5
            $0.transaction?.details[.offerPeriod] = .text("P1M")
            $0.renewal?.price = 9990
            $0.renewal?.currency = "EUR"
        }
        let inOrder = Story.fold([Self.first, Self.told(2) { $0.status = 1 }, later]).state.facts
        let before = SubscriptionState(originalTransactionID: "1", changes: [])

        let ahead = SubscriptionFold(before, arrived: [later], all: nil)
        let all = SubscriptionFold(
            ahead.state, arrived: [Self.first],
            all: [later, Self.first, Self.told(2) { $0.status = 1 }])

        #expect(all.state.facts == inOrder)
        #expect(inOrder.quantity == 5 && inOrder.renewalCurrency == "EUR")
    }

    @Test func details_readFromTheirOwnText_areTheSameInWhateverOrder() throws {
        var details = SignedDetails()
        details[.renewalQuantity] = .number(3)
        details[.offerIdentifier] = .text("\"spring\"")
        details[.eligibleWinBackOfferIds] = .texts(["a", "b"])
        let text = JSONWriter.object { $0.key("details") { details.write(&$0) } }
        let reordered =
            #"{"details":{"renewalQuantity":3,"eligibleWinBackOfferIds":["a","b"],"offerIdentifier":"\"spring\""}}"#

        for text in [text, reordered] {
            let json = try #require(JSONDocument.read(Array(text.utf8))?["details"])
            #expect(SignedDetails(json, SignedDetails.ofRenewal) == details)
        }
    }

    @Test func fields_areListedInTheOrderThatTheyAreWrittenIn() {
        for fields in [SignedDetails.ofTransaction, SignedDetails.ofRenewal] {
            #expect(fields == SignedDetails.Field.allCases.filter(fields.contains))
        }
        #expect(
            Set(SignedDetails.ofTransaction + SignedDetails.ofRenewal)
                == Set(SignedDetails.Field.allCases))
        for field in SignedDetails.Field.allCases { #expect("\(field.name)" == field.rawValue) }
    }
}
