import Testing

@testable import Pricing

private typealias Story = LifecycleStory

/// Periods that nobody told, between two that were told: what may have risen there unseen, and what cannot have.
@Suite struct LifecycleGapTests {
    /// A period that a statement tells: 31 days from `day` on.
    private struct Told {
        var day: Int64
        var prices: [String: Int64] = ["A": 9990]
        var storefront = "USA"
        var currency = "USD"
        var length = "P1M"
        /// The start of the running subscription, as the statement says it.
        var started: Int64 = 0
        /// When it was signed; by itself an hour into the period.
        var signed: Int64?
        var type = "DID_RENEW"
        var subtype: String?
        var status = 1
        /// The increases that its renewal info announces, by item.
        var announced: [String: Int64] = [:]

        var event: SubscriptionEvent {
            let items = prices.sorted { $0.key < $1.key }.map {
                Story.charged($0.key, price: $0.value)
            }
            var event = Story.event(
                signed ?? day, type, subtype, id: "\(day)-\(type)-\(length)", status: status,
                purchasedOn: day, charged: items,
                renewing: items.map { item in
                    var item = item
                    item.increasePrice = announced[item.sku]
                    item.increaseStatus = announced[item.sku].map { _ in "SCHEDULED" }
                    return item
                })
            event.transaction?.storefront = storefront
            event.transaction?.currency = currency
            event.transaction?.period = length
            event.transaction?.originalPurchaseAt = Story.at(0)
            event.transaction?.reason = type == "SUBSCRIBED" ? "PURCHASE" : "RENEWAL"
            event.renewal?.recentSubscriptionStartAt = Story.at(started)
            event.renewal?.period = length
            return event
        }
    }

    /// The same statements at once, and one after the other as the service folds them.
    private func facts(_ told: [Told], _ comment: Comment? = nil) -> SubscriptionFacts {
        let events = told.map(\.event)
        let state = Story.fold(events, []).state
        var stored = SubscriptionState(originalTransactionID: "1", changes: [])
        for (place, event) in events.enumerated() {
            let isLate = SubscriptionFold.isLate(
                [event], after: stored.foldedThrough, [], stored.facts)
            stored =
                SubscriptionFold(
                    stored, arrived: [event], all: isLate ? Array(events[...place]) : nil
                ).state
        }
        #expect(stored.facts == state.facts, comment ?? "one after the other")
        return state.facts
    }

    private static let first = Told(day: 0)

    /// What cannot be compared with the period before the gap, and what can.
    private static let laterPeriods: [(String, Told, Bool)] = [
        ("the same", Told(day: 310), true),
        ("dearer: an increase is noted", Told(day: 310, prices: ["A": 10_990]), true),
        ("an item joined", Told(day: 310, prices: ["A": 9990, "B": 7990]), false),
        ("another item", Told(day: 310, prices: ["B": 7990]), false),
        (
            "a move", Told(day: 310, prices: ["A": 13_990], storefront: "CAN", currency: "CAD"),
            false
        ),
        ("another storefront of the currency", Told(day: 310, storefront: "ECU"), false),
        ("another length", Told(day: 310, length: "P1Y"), false),
        ("a single period was not told", Told(day: 62, prices: ["A": 9990, "B": 7990]), false),
        ("the next period", Told(day: 31, prices: ["A": 9990, "B": 7990]), true),
        (
            "the next period, retried for ten days", Told(day: 41, prices: ["A": 9990, "B": 1]),
            true
        ),
        ("moved at the next renewal", Told(day: 31, storefront: "CAN", currency: "CAD"), true),
        ("another length at the next renewal", Told(day: 31, length: "P1Y"), true),
    ]

    @Test(arguments: laterPeriods.indices)
    func history_afterAnUntoldPeriod_isKnownWhereItCanBeCompared(index: Int) {
        let (what, later, isKnown) = Self.laterPeriods[index]
        let found = facts([Self.first, later])

        #expect(found.isKnownFromStart == isKnown, "\(what)")
        #expect(found.knownSince == Story.at(isKnown ? 0 : later.day), "\(what)")
    }

    /// It stays so, and a year later the last 12 months are known.
    @Test func history_afterAGap_goesOnFromThere() {
        let joined = ["A": Int64(9990), "B": 7990]
        let found = facts([
            Self.first, Told(day: 310, prices: joined), Told(day: 341, prices: joined),
            Told(day: 372, prices: joined),
        ])

        #expect(found.knownSince == Story.at(310))
    }

    /// A refund tells what was charged before the item joined, or in which storefront.
    @Test func periodToldLate_closesTheGap() {
        let joined = ["A": Int64(9990), "B": 7990]
        for (day, prices, known) in [
            (Int64(279), joined, Int64(279)), (31, joined, 0), (279, ["A": 9990], 0),
            (31, ["A": 9990], 310),
        ] {
            let found = facts([
                Self.first, Told(day: 310, prices: joined),
                Told(day: day, prices: prices, signed: 320, type: "REFUND"),
            ])
            #expect(found.knownSince == Story.at(known), "\(day)")
        }
    }

    /// Nobody told anything between, because there was nothing: payment failed, or the subscription was over.
    @Test func pauseThatWasTold_isNoGap() {
        let joined = ["A": Int64(9990), "B": 7990]
        let retried = facts([
            Self.first,
            Told(day: 0, signed: 31, type: "DID_FAIL_TO_RENEW", status: 3),
            Told(day: 80, prices: joined, type: "DID_RENEW", subtype: "BILLING_RECOVERY"),
        ])
        let over = facts([
            Self.first, Told(day: 0, signed: 31, type: "EXPIRED", subtype: "VOLUNTARY", status: 2),
            Told(day: 80, prices: joined, type: "SUBSCRIBED", subtype: "RESUBSCRIBE"),
        ])

        #expect(retried.isKnownFromStart)
        #expect(over.isKnownFromStart)
    }

    /// A payment is retried for 60 days, and Apple counts a lapse of up to 60 days to the same subscription. After a longer
    /// pause a recovery is that of a later failure, and a purchase in the same subscription follows one that nobody told.
    @Test(arguments: [(92, true), (93, false), (150, false)] as [(Int64, Bool)])
    func pauseThatWasTold_isNoLongerThanApplesOwn(day: Int64, isKnown: Bool) {
        let joined = ["A": Int64(9990), "B": 7990]
        let expired = Told(day: 0, signed: 31, type: "EXPIRED", subtype: "VOLUNTARY", status: 2)
        var back = Told(day: day, prices: joined, type: "SUBSCRIBED", subtype: "RESUBSCRIBE")
        let retried = facts([
            Self.first,
            Told(day: 0, signed: 31, type: "DID_FAIL_TO_RENEW", status: 3),
            Told(day: day, prices: joined, type: "DID_RENEW", subtype: "BILLING_RECOVERY"),
        ])
        let same = facts([Self.first, expired, back])
        back.started = day
        let anew = facts([Self.first, expired, back])

        #expect(retried.knownSince == Story.at(isKnown ? 0 : day))
        #expect(same.knownSince == Story.at(isKnown ? 0 : day))
        #expect(anew.isKnownFromStart)
    }

    /// What was told before says nothing of what came after: its first period may have been missed.
    @Test func pauseThatWasTold_andALaterPeriod_isAGap() {
        let joined = ["A": Int64(9990), "B": 7990]
        let over = facts([
            Self.first, Told(day: 0, signed: 31, type: "EXPIRED", subtype: "VOLUNTARY", status: 2),
            Told(day: 111, prices: joined),
        ])

        #expect(over.knownSince == Story.at(111))
    }

    /// A refund of a period before the lapse is the first to say when the running subscription began.
    @Test func start_toldByARefundOfAnOlderPeriod_isNotKnown() {
        let before = [
            Told(day: 0), Told(day: 31), Told(day: 62),
            Told(day: 62, signed: 95, type: "EXPIRED", subtype: "VOLUNTARY", status: 2),
            Told(day: 62, started: 200, signed: 250, type: "REFUND"),
        ]
        let running = Told(day: 262, started: 200)
        let found = facts(before + [running])
        let withFirst = facts(
            before + [
                running, Told(day: 200, started: 200, signed: 270, type: "REFUND"),
            ])

        #expect(found.knownSince == Story.at(262))
        #expect(!found.isKnownFromStart)
        #expect(withFirst.isKnownFromStart)
    }

    private static let announcing = Told(
        day: 0, prices: ["A": 9990, "B": 7990], announced: ["A": 12_990])

    /// Whether what the App Store had announced took effect in the gap.
    private static let afterAnnouncements: [(String, Told, Bool)] = [
        ("it shows", Told(day: 310, prices: ["A": 12_990, "B": 7990]), true),
        ("a further one shows", Told(day: 310, prices: ["A": 14_990, "B": 7990]), true),
        ("it does not show", Told(day: 310, prices: ["A": 9990, "B": 7990]), false),
        ("its item left", Told(day: 310, prices: ["B": 7990]), false),
        ("another rose", Told(day: 310, prices: ["A": 9990, "B": 8990]), false),
        ("no gap, and it does not show", Told(day: 31, prices: ["A": 9990, "B": 7990]), true),
        ("no gap, and its item left", Told(day: 31, prices: ["B": 7990]), true),
    ]

    @Test(arguments: afterAnnouncements.indices)
    func announcedIncrease_notSeenAfterAGap_isNotKnown(index: Int) {
        let (what, later, isKnown) = Self.afterAnnouncements[index]
        let found = facts([Self.announcing, later])

        #expect(found.knownSince == Story.at(isKnown ? 0 : later.day), "\(what)")
    }

    /// It was taken back while its period ran, so nothing was to take effect.
    @Test func announcedIncrease_takenBackBeforeAGap_leavesNothingOpen() {
        let taken = Told(
            day: 0, prices: ["A": 9990, "B": 7990], signed: 5, type: "PRICE_CHANGE")
        let found = facts([Self.announcing, taken, Told(day: 310, prices: ["B": 7990])])

        #expect(found.isKnownFromStart)
    }

    /// A refund tells that it took effect before its item left; or only that the item had left by then.
    @Test func announcedIncrease_toldLate_closesTheGap() {
        for (day, prices, known) in [
            (Int64(31), ["A": Int64(12_990), "B": 7990], Int64(0)), (279, ["B": 7990], 279),
        ] {
            let found = facts([
                Self.announcing, Told(day: 310, prices: ["B": 7990]),
                Told(day: day, prices: prices, signed: 320, type: "REFUND"),
            ])
            #expect(found.knownSince == Story.at(known), "\(day)")
        }
    }
}
