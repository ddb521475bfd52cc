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

    /// A change knows since when its item is charged under a newer name, in any order and beside retention. Until then a charge
    /// under a former name is its own. A further rename does not reopen an earlier one.
    @Test func changedItem_hasEachFormerName_untilTheFirstPeriodChargedUnderANewerOne() {
        var random = StoryRandom(seed: 9)
        var change = Story.change(sentAt: Story.at(1))
        change.callProgress.since = Story.at(1)
        func told(_ days: ClosedRange<Int64>, forgetting cut: Int64? = nil) -> [TrackedChange] {
            let statements = Self.life.filter { days.contains($0.key.signedAt.days) }
            var stored = StoredSubscription(id: "1", changes: [change])
            let early = statements.filter { $0.key.signedAt.days < cut ?? .max }
            for piece in ArrivalOrder(early, random: &random).pieces { stored.arrive(piece) }
            if let cut { _ = stored.forget(before: Story.at(cut)) }
            let late = statements.filter { $0.key.signedAt.days >= cut ?? .max }
            for piece in ArrivalOrder(late, random: &random).pieces { stored.arrive(piece) }
            return stored.state.changes
        }
        let steps: [(until: Int64, sku: String, ends: [String: Int64])] = [
            (10, "A2", [:]), (11, "A2", [:]), (31, "A2", ["A": 31]), (35, "A3", ["A": 31]),
            (36, "A4", ["A": 31]), (42, "A4", ["A": 31]),
            (62, "A4", ["A": 31, "A2": 62, "A3": 62]),
        ]

        let cuts: [Int64?] = [20, 33, 37, 45, 70] + Array(repeating: nil, count: 30)

        for (until, sku, ends) in steps {
            for cut in cuts {
                let change = told(0...until, forgetting: cut)[0]
                #expect(change.sku == sku, "until \(until)")
                #expect(change.formerUntil == ends.mapValues(Story.at), "until \(until)")
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
    func renameNeverTold_isThatOfItsTransaction_whateverThePrice(price: Int64) {
        func since(_ day: Int64) -> SubscriptionEvent {
            var event = Self.told(day, "DID_CHANGE_RENEWAL_STATUS", of: 0, as: ("A", "B2"))
            event.transaction?.items[1].price = price
            return event
        }
        var random = StoryRandom(seed: 9)
        let events = [Self.told(0, "SUBSCRIBED", of: 0, as: ("A", "B")), since(11), since(12)]
        // One transaction charges once, as the newest statement of it says.
        let once: Set = ["t0 charge A 9990", "t0 charge B \(price)"]
        for order in 0..<30 {
            var stored = StoredSubscription(id: "1", changes: [])
            for piece in ArrivalOrder(events, random: &random).pieces { stored.arrive(piece) }
            #expect(Self.lines(of: stored) == once, "order \(order)")
        }
    }

    /// A transaction of which two statements list different items, in the running period and later, beside retention, and the
    /// names of one before that were other items.
    @Test func transactionThatIsToldWithOtherItems_chargesWhatItsNewestStatementLists() {
        func event(
            _ day: Int64, of purchase: Int64, _ items: [(String, Int64)],
            _ type: String = "DID_CHANGE_RENEWAL_STATUS", renewing: [String]? = nil
        ) -> SubscriptionEvent {
            Story.event(
                day, type, purchasedOn: purchase,
                charged: items.map { Story.charged($0.0, price: $0.1) },
                renewing: (renewing ?? items.map(\.0)).map { Story.renewing($0) })
        }
        let life = [
            event(0, of: 0, [("A", 1000), ("B", 2000), ("OLD", 5000)], "SUBSCRIBED"),
            event(31, of: 31, [("A", 1000), ("B", 2000)], "DID_RENEW"),
            // Both at another price; then one under a name that only the renewal had before, and as it was.
            event(32, of: 31, [("A2", 1100), ("B2", 2100)]),
            event(33, of: 31, [("A2", 1100), ("B2", 2100)], renewing: ["A2", "B3"]),
            event(34, of: 31, [("A2", 1100), ("B3", 2200)]),
            event(35, of: 31, [("A2", 1000), ("B3", 2200)]),
            event(62, of: 62, [("A2", 1100), ("B3", 2200)], "DID_RENEW"),
            // Of the first one, when it is long over: one that nobody had named, and one that was another item then.
            event(63, of: 0, [("A9", 1500), ("B", 2000), ("OLD", 5000)], "REFUND_DECLINED"),
            event(64, of: 62, [("A2", 1100), ("OLD", 2300)]),
            event(65, of: 0, [("A9", 1500), ("B", 2000), ("OLD", 5000)], "REFUND_DECLINED"),
        ]
        let once: Set = [
            "t0 charge A 1500", "t0 charge B 2000", "t0 charge OLD 5000", "t31 charge A 1000",
            "t31 charge B 2200", "t62 charge A2 1100", "t62 charge B3 2300",
        ]
        var random = StoryRandom(seed: 10)
        for order in 0..<200 {
            var stored = StoredSubscription(id: "1", changes: [])
            for piece in ArrivalOrder(life, random: &random).pieces { stored.arrive(piece) }
            #expect(Self.lines(of: stored) == once, "order \(order)")
        }
        for cut in life.map(\.key.signedAt) {
            var stored = StoredSubscription(id: "1", changes: [])
            let early = life.filter { $0.key.signedAt < cut || random.chance(30) }
            for piece in ArrivalOrder(early, random: &random).pieces { stored.arrive(piece) }
            let isForgotten = stored.forget(before: cut)
            #expect(isForgotten)
            for piece in ArrivalOrder(life, random: &random).pieces { stored.arrive(piece) }
            #expect(Self.lines(of: stored) == once, "cut \(cut)")
        }
    }

    /// An item that is told in turn under two names has two names, however often.
    @Test func itemToldInTurnUnderTwoNames_isNotedOnceForEach() {
        var stored = StoredSubscription(id: "1", changes: [])
        stored.arrive([Self.told(0, "SUBSCRIBED", of: 0, as: ("A", "B"))])
        for day in 1..<20 as Range<Int64> {
            stored.arrive([
                Self.told(
                    day, "DID_CHANGE_RENEWAL_STATUS", of: 0, as: (day % 2 == 0 ? "A" : "A2", "B"))
            ])
        }

        #expect(stored.state.facts.renames.count == 2)
        #expect(Self.lines(of: stored) == ["t0 charge A 9990", "t0 charge B 2000"])
    }

    /// Each of three names in turn is noted with the one before it, and so is the way back.
    @Test func itemToldInTurnUnderThreeNames_isNotedForEachStep() {
        var stored = StoredSubscription(id: "1", changes: [])
        for (day, name) in ["A", "A2", "A", "A3", "A2"].enumerated() {
            stored.arrive([
                Self.told(Int64(day), "DID_CHANGE_RENEWAL_STATUS", of: 0, as: (name, "B"))
            ])
        }

        #expect(
            stored.state.facts.renames.map { "\($0.from) \($0.to)" }
                == ["A A2", "A2 A", "A A3", "A3 A2"])
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

extension Instant {
    /// Since the start of the story.
    fileprivate var days: Int64 { (milliseconds - LifecycleStory.start.milliseconds) / 86_400_000 }
}
