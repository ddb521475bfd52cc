import Testing

@testable import SandboxStore

/// Price changes month by month. The subscription renews on the 10th; the store opens on 12 January 2026.
@Suite struct PriceChangeScenarioTests {
    private func engine(
        _ answer: SubscriberPlan.Answer = .consentsEarly, period: BillingPeriod = .month,
        items: [StoreItem] = [Fixture.item("A", 9990), Fixture.item("B", 4990)],
        purchased: String = "2026-01-10"
    ) -> StoreEngine {
        var subscription = Fixture.subscription(items, period: period, purchased: purchased)
        subscription.plan.answer = answer
        return Fixture.engine(subscription)
    }

    @Test func increase_consented_isAskedAcceptedAndCharged() throws {
        var engine = engine()

        let told = try engine.change("A", to: 15_990)
        let story = engine.advance(to: Fixture.instant("2026-02-11"))

        #expect(told.items[0].change?.increase?.status == .scheduled)
        #expect(
            story.map(\.kind) == [.priceChange, .priceIncrease, .priceIncrease, .didRenew])
        #expect(story.map(\.subtype) == [nil, .pending, .accepted, nil])
        #expect(story[1].line == "PRICE_INCREASE/PENDING 2026-01-14")
        #expect(story[3].line == "DID_RENEW 2026-02-10")
        #expect(engine.only.items[0].price == 15_990)
        #expect(engine.only.increasedAt == Fixture.instant("2026-02-10"))
    }

    @Test func increase_whilePending_showsTheHigherPriceAtRenewal() throws {
        var engine = engine(.ignores)
        _ = try engine.change("A", to: 15_990)

        let before = engine.only.items[0].renewalPrice(nextRenewalAt: engine.only.expiresAt)
        _ = engine.advance(to: Fixture.instant("2026-01-20"))
        let after = engine.only.items[0]

        #expect(before == 9990)
        #expect(after.price == 9990)
        #expect(after.renewalPrice(nextRenewalAt: engine.only.expiresAt) == 15_990)
    }

    @Test func increase_ignoredWithDependents_dropsBothAndRenewsTheRest() throws {
        var engine = engine(
            .ignores,
            items: [Fixture.item("A", 9990), Fixture.item("B", 4990), Fixture.item("C", 990)])
        _ = try engine.change("A", to: 15_990, dependents: ["B"])

        let story = try #require(engine.advance(to: Fixture.instant("2026-02-11")).last)

        #expect(story.line == "DID_RENEW 2026-02-10")
        #expect(story.subscription?.items.map(\.sku) == ["C"])
        #expect(engine.only.status == .active)
    }

    @Test func increase_ignoredOnEveryItem_expiresForThePrice() throws {
        var engine = engine(.ignores)
        _ = try engine.change("A", to: 15_990, dependents: ["B"])

        let story = try #require(engine.advance(to: Fixture.instant("2026-02-11")).last)

        #expect(story.line == "EXPIRED/PRICE_INCREASE 2026-02-10")
        #expect(story.subscription?.expirationIntent == 3)
        #expect(story.subscription?.items.count == 2)
        #expect(story.subscription?.renewingItems.isEmpty == true)
    }

    @Test func increase_answeredByCancelling_expiresVoluntarily() throws {
        var engine = engine(.cancels)
        _ = try engine.change("A", to: 15_990)

        let story = engine.advance(to: Fixture.instant("2026-02-11"))

        #expect(
            story.map(\.kind) == [.priceChange, .priceIncrease, .didChangeRenewalStatus, .expired])
        #expect(story.last?.subtype == .voluntary)
        #expect(story.last?.subscription?.expirationIntent == 1)
    }

    @Test func increase_thatNeedsNoConsent_isAnnounced27DaysBefore() throws {
        var engine = engine()
        _ = try engine.change("A", to: 12_990)

        let story = engine.story(until: "2026-02-11")

        #expect(
            story == [
                "PRICE_CHANGE 2026-01-12", "PRICE_INCREASE/ACCEPTED 2026-01-14",
                "DID_RENEW 2026-02-10",
            ])
        #expect(engine.only.items[0].price == 12_990)
    }

    @Test func increase_calledTooLate_waitsForTheNextRenewal() throws {
        var engine = engine()
        _ = engine.advance(to: Fixture.instant("2026-01-20"))
        _ = try engine.change("A", to: 12_990)

        let story = engine.story(until: "2026-03-11")

        #expect(
            story == [
                "PRICE_CHANGE 2026-01-20", "DID_RENEW 2026-02-10",
                "PRICE_INCREASE/ACCEPTED 2026-02-11", "DID_RENEW 2026-03-10",
            ])
    }

    @Test func increase_ofAWeeklyPlanAnnounced_comesWithTheFourthRenewal() throws {
        var engine = engine(period: .week)
        _ = try engine.change("A", to: 12_990)

        let story = engine.story(until: "2026-02-08")

        #expect(story.count { $0.hasPrefix("DID_RENEW") } == 4)
        #expect(engine.only.items[0].price == 12_990)
        #expect(story.last == "DID_RENEW 2026-02-07")
        #expect(story[1] == "PRICE_INCREASE/ACCEPTED 2026-01-12")
    }

    @Test func increase_ofAWeeklyPlanAsked_givesSevenDays() throws {
        var engine = engine(.ignores, period: .week)
        _ = try engine.change("A", to: 15_990)

        let story = engine.story(until: "2026-01-25")

        #expect(
            story == [
                "PRICE_CHANGE 2026-01-12", "DID_RENEW 2026-01-17",
                "PRICE_INCREASE/PENDING 2026-01-17", "DID_RENEW 2026-01-24",
            ])
        #expect(engine.only.items.map(\.sku) == ["B"])
    }

    @Test(arguments: [BillingPeriod.twoMonths, .threeMonths, .sixMonths, .year])
    func increase_ofALongPlan_isAskedSixtyDaysBefore(period: BillingPeriod) throws {
        // In the midst of a period of two months only the renewal after the next gives sixty days.
        var engine = engine(.ignores, period: period)
        _ = try engine.change("A", to: 69_990)

        let change = try #require(engine.only.items[0].change)
        let story = engine.advance(to: change.effectiveAt)

        let asked = try #require(story.first { $0.subtype == .pending })
        #expect(change.effectiveAt - asked.signedAt == 60 * Milliseconds.day)
    }

    @Test func decrease_isToldToNobodyAndChargedNext() throws {
        var engine = engine()
        _ = try engine.change("A", to: 7990)

        let story = engine.story(until: "2026-02-11")

        #expect(story == ["PRICE_CHANGE 2026-01-12", "DID_RENEW 2026-02-10"])
        #expect(engine.only.items[0].price == 7990)
        #expect(engine.only.increasedAt == nil)
    }

    @Test func decrease_inTheLastDay_waitsOnePeriod() throws {
        var engine = engine()
        _ = engine.advance(to: Fixture.instant("2026-02-09T00:00:01Z"))
        _ = try engine.change("A", to: 7990)

        _ = engine.advance(to: Fixture.instant("2026-02-11"))
        let first = engine.only.items[0].price
        _ = engine.advance(to: Fixture.instant("2026-03-11"))

        #expect(first == 9990)
        #expect(engine.only.items[0].price == 7990)
    }

    @Test func secondIncrease_withinAYear_needsConsent() throws {
        var engine = engine()
        _ = try engine.change("A", to: 10_490)
        _ = engine.advance(to: Fixture.instant("2026-02-11"))

        let told = try engine.change("B", to: 5490, reference: 2)

        #expect(told.items[1].change?.increase?.needsConsent == true)
    }

    @Test func shortenedMonth_keepsThePriceOnceThenCommunicates() throws {
        var subscription = Fixture.subscription()
        subscription.expiresAt = subscription.purchasedAt + 300_000
        var engine = StoreEngine(
            options: .init(seed: 7, calendar: BillingCalendar(shortMonth: 300_000)),
            now: subscription.purchasedAt + 1000, subscriptions: [subscription])
        _ = try engine.change("A", to: 15_990)

        let story = engine.advance(to: subscription.purchasedAt + 600_001)

        #expect(
            story.map(\.kind) == [
                .priceChange, .didRenew, .priceIncrease, .priceIncrease, .didRenew,
            ])
        #expect(story[1].subscription?.items[0].price == 9990)
        #expect(story[2].signedAt == story[1].signedAt + 1)
        #expect(story[4].subscription?.items[0].price == 15_990)
    }

    @Test func statements_ofOneSubscription_neverShareASignedDate() throws {
        var engine = engine(period: .week)
        var seen: [Int64] = []
        _ = try engine.change("A", to: 15_990)
        for _ in 0..<3 { seen.append(try engine.statuses(transaction: Fixture.idText)[0].signedAt) }

        seen += engine.advance(to: Fixture.instant("2026-03-01")).map(\.signedAt)

        #expect(Set(seen).count == seen.count)
    }

    @Test(arguments: [
        // Apple's own edge: exactly half and exactly the amount are not over.
        (9990, 15_990, BillingPeriod.month, "USA", true),
        (2990, 7990, .month, "USA", false), (2990, 8000, .month, "USA", true),
        (60_000, 90_000, .year, "USA", false), (99_990, 149_990, .year, "USA", false),
        (99_990, 150_000, .year, "USA", true), (1_000_000, 1_490_000, .year, "USA", false),
        (9990, 15_990, .month, "ARM", false), (9990, 15_991, .month, "ARM", true),
        (10_000, 15_001, .month, "ZZZ", true), (10_000, 15_000, .month, "ZZZ", false),
    ])
    func consent_byShareAndAmount_isJudgedStrictly(
        old: Int64, new: Int64, period: BillingPeriod, storefront: String, expected: Bool
    ) {
        let item = Fixture.item("A", old)
        let subscription = Fixture.subscription([item], period: period, storefront: storefront)
        let rule = ConsentRule(
            subscription: subscription, calendar: BillingCalendar(),
            now: subscription.purchasedAt)

        #expect(rule.needsConsent(item: item, price: new) == expected)
    }

    @Test func consent_atTheEndOfAKoreanOffer_isNeeded() {
        var other = Fixture.item("B", 5_000_000)
        other.offer = StoreOffer(
            price: 0, periodsLeft: 0, periodCount: 1, reason: "ACQUISITION")
        let item = Fixture.item("A", 5_000_000)
        let subscription = Fixture.subscription([item, other], storefront: "KOR")
        let rule = ConsentRule(
            subscription: subscription, calendar: BillingCalendar(),
            now: subscription.purchasedAt)

        #expect(rule.needsConsent(item: item, price: 5_100_000))
    }

    /// Apple's own example: a trial of two months from 1 March; consent is asked for from 1 to 30 April.
    @Test func increase_atAKoreanConversion_isToldOf30DaysAhead() {
        var other = Fixture.item("B", 5_000_000)
        other.offer = StoreOffer(price: 0, periodsLeft: 0, periodCount: 1, reason: "ACQUISITION")
        let item = Fixture.item("A", 5_000_000)
        var subscription = Fixture.subscription(
            [item, other], period: .twoMonths, storefront: "KOR")
        subscription.purchasedAt = Fixture.instant("2026-03-01")
        subscription.expiresAt = Fixture.instant("2026-05-01")
        subscription.anchorDay = 1

        func decide(_ now: String) -> ConsentRule.Decision {
            ConsentRule(
                subscription: subscription, calendar: BillingCalendar(),
                now: Fixture.instant(now)
            ).decide(item: item, price: 5_100_000)
        }

        let inTime = decide("2026-03-10")
        let late = decide("2026-04-02")
        #expect(inTime.needsConsent && inTime.tellsAt == Fixture.instant("2026-04-01"))
        #expect(inTime.effectiveAt == Fixture.instant("2026-05-01"))
        // An announced increase needs 27 days.
        #expect(!late.needsConsent && late.effectiveAt == Fixture.instant("2026-07-01"))
    }

    @Test func increase_afterOneOfAnotherItem_needsConsentFromItsRenewalOn() throws {
        var engine = engine()
        _ = try engine.change("A", to: 10_490)
        let sameRenewal = try engine.change("B", to: 5490, reference: 2)
        #expect(sameRenewal.items[1].change?.increase?.needsConsent == false)

        var later = self.engine()
        _ = try later.change("A", to: 10_490)
        _ = later.advance(to: Fixture.instant("2026-01-20"))
        let next = try later.change("B", to: 5490, reference: 2)
        #expect(next.items[1].change?.increase?.needsConsent == true)
    }

    @Test func move_toAnotherStorefront_isNoIncrease() throws {
        var engine = engine()
        _ = try engine.act(
            OperatorAction(
                subscription: Fixture.idText,
                kind: .move(storefront: "CAN", prices: ["A": 13_990])))
        _ = engine.advance(to: Fixture.instant("2026-02-11"))

        #expect(engine.only.currency == "CAD")
        #expect(engine.only.items[0].price == 13_990)
        let told = try engine.change("A", to: 14_490, reference: 2)
        #expect(told.items[0].change?.increase?.needsConsent == false)
    }
}
