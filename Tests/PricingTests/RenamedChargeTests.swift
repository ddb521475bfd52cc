import FoldStories
import Testing

@testable import Pricing

private typealias Story = LifecycleStory

/// An item that is renamed at once may bear its new name in the transaction that had charged it. It was charged once.
@Suite struct RenamedChargeTests {
    private static func items(_ a: String, _ b: String) -> [StatementItem] {
        [Story.charged(a), Story.charged(b, price: 2000)]
    }

    private static func told(
        _ day: Int64, _ type: String, of purchase: Int64, as names: (String, String),
        renewing: (String, String)? = nil, givenBack: Int64? = nil
    ) -> SubscriptionEvent {
        let (a, b) = renewing ?? names
        var event = Story.event(
            day, type, purchasedOn: purchase, charged: items(names.0, names.1),
            renewing: [Story.renewing(a), Story.renewing(b, price: 2000)])
        if let givenBack {
            event.transaction?.items[0].refunds = [
                StatementRefund(amount: givenBack, at: Story.at(day))
            ]
        }
        return event
    }

    /// Renamed at once, then at the renewal, then at once again before that renewal; and what was charged before the first
    /// rename is told under each of the names.
    private static let life = [
        told(0, "SUBSCRIBED", of: 0, as: ("A", "B")),
        told(10, "METADATA_UPDATE", of: 0, as: ("A2", "B")),
        told(11, "DID_CHANGE_RENEWAL_STATUS", of: 0, as: ("A2", "B")),
        told(31, "DID_RENEW", of: 31, as: ("A2", "B")),
        told(35, "METADATA_UPDATE", of: 31, as: ("A2", "B"), renewing: ("A3", "B2")),
        told(36, "MIGRATION", of: 31, as: ("A4", "B2")),
        told(40, "REFUND", of: 0, as: ("A4", "B2"), givenBack: 990),
        told(41, "REFUND_DECLINED", of: 0, as: ("A2", "B"), renewing: ("A4", "B2")),
        told(42, "REFUND_DECLINED", of: 31, as: ("A2", "B"), renewing: ("A4", "B2")),
        told(62, "DID_RENEW", of: 62, as: ("A4", "B2")),
    ]

    private static let lines: Set = [
        "t0 charge A 9990", "t0 charge B 2000", "t0 refund A -990", "t31 charge A2 9990",
        "t31 charge B 2000", "t62 charge A4 9990", "t62 charge B2 2000",
    ]

    private static func lines(of stored: StoredSubscription) -> Set<String> {
        Set(
            stored.money.values.map {
                "\($0.key.transactionID) \($0.key.kind) \($0.key.sku) \($0.amount)"
            })
    }

    @Test func itemRenamedAtOnce_isChargedOnce_underItsNameOfThen_inAnyOrder() {
        var random = StoryRandom(seed: 7)
        for order in 0..<300 {
            var stored = StoredSubscription(id: "1", changes: [])
            for piece in ArrivalOrder(Self.life, random: &random).pieces { stored.arrive(piece) }
            #expect(Self.lines(of: stored) == Self.lines, "order \(order)")
        }
    }

    @Test func itemRenamedAtOnce_isChargedOnce_besideRetention() {
        var random = StoryRandom(seed: 8)
        for cut in Self.life.map(\.key.signedAt) + [Story.at(70)] {
            for order in 0..<20 {
                var stored = StoredSubscription(id: "1", changes: [])
                let early = Self.life.filter { $0.key.signedAt < cut || random.chance(30) }
                for piece in ArrivalOrder(early, random: &random).pieces { stored.arrive(piece) }
                let isForgotten = stored.forget(before: cut)
                #expect(isForgotten)
                let late = Self.life.filter { $0.key.signedAt >= cut || random.chance(30) }
                for piece in ArrivalOrder(late, random: &random).pieces { stored.arrive(piece) }
                #expect(Self.lines(of: stored) == Self.lines, "order \(order), cut \(cut)")
            }
        }
    }

    /// The charge is told under the new name alone until a late statement tells the rename, or that it was none.
    @Test func renameToldLate_movesTheLineToTheNameOfThen() {
        let bought = Self.told(0, "SUBSCRIBED", of: 0, as: ("A", "B"))
        let renamed = Self.told(10, "METADATA_UPDATE", of: 0, as: ("A2", "B"))
        let since = Self.told(11, "DID_CHANGE_RENEWAL_STATUS", of: 0, as: ("A2", "B"))
        var stored = StoredSubscription(id: "1", changes: [])
        stored.arrive([since])
        let alone = Self.lines(of: stored)
        stored.arrive([renamed])
        stored.arrive([bought])

        #expect(alone == ["t0 charge A2 9990", "t0 charge B 2000"])
        #expect(Self.lines(of: stored) == ["t0 charge A 9990", "t0 charge B 2000"])
    }

    /// A name that one item gave away and another one took means the item that had it, where nothing says otherwise.
    @Test func nameTakenByAnotherItem_isThatOfItsTransaction() {
        func ledger(_ names: (String, String)) -> Set<String> {
            var stored = StoredSubscription(id: "1", changes: [])
            stored.arrive([
                Self.told(0, "SUBSCRIBED", of: 0, as: ("A", "B")),
                Self.told(5, "METADATA_UPDATE", of: 0, as: ("A", "B"), renewing: ("C", "B")),
                Self.told(6, "METADATA_UPDATE", of: 0, as: ("A", "B"), renewing: ("C", "A")),
                Self.told(7, "REFUND_DECLINED", of: 0, as: names, renewing: ("C", "A")),
            ])
            return Self.lines(of: stored)
        }
        let once: Set = ["t0 charge A 9990", "t0 charge B 2000"]

        #expect(ledger(("A", "B")) == once)
        #expect(ledger(("C", "B")) == once)
        #expect(ledger(("C", "A")) == once)
    }

    /// The statement of the rename was lost. The transaction bears another name, and its price is the one that it charged.
    @Test(arguments: [Int64(2000), 2500])
    func renameNeverTold_isThatOfTheRunningTransaction_whereThePriceIsTheSame(price: Int64) {
        var since = Self.told(11, "DID_CHANGE_RENEWAL_STATUS", of: 0, as: ("A", "B2"))
        since.transaction?.items[1].price = price
        var random = StoryRandom(seed: 9)
        let events = [
            Self.told(0, "SUBSCRIBED", of: 0, as: ("A", "B")), since,
            Self.told(12, "DID_CHANGE_RENEWAL_STATUS", of: 0, as: ("A", "B2")),
        ]
        var once: Set = ["t0 charge A 9990", "t0 charge B 2000"]
        // Another price may be another item, so it stays in the ledger.
        if price != 2000 { once.insert("t0 charge B2 2000") }
        for order in 0..<30 {
            var stored = StoredSubscription(id: "1", changes: [])
            for piece in ArrivalOrder(events, random: &random).pieces { stored.arrive(piece) }
            #expect(Self.lines(of: stored) == once, "order \(order)")
        }
    }

    @Test func itemBoughtSince_bearsTheNameThatItHas() {
        var stored = StoredSubscription(id: "1", changes: [])
        stored.arrive([
            Self.told(0, "SUBSCRIBED", of: 0, as: ("A", "B")),
            Self.told(5, "METADATA_UPDATE", of: 0, as: ("A2", "B")),
            Self.told(20, "DID_CHANGE_RENEWAL_PREF", of: 20, as: ("A2", "A")),
        ])

        #expect(
            Self.lines(of: stored) == [
                "t0 charge A 9990", "t0 charge B 2000", "t20 charge A2 9990", "t20 charge A 2000",
            ])
    }
}
