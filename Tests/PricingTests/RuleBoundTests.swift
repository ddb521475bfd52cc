import Testing

@testable import Pricing

/// What people are told at the bounds of the rules: long lists, garbled numbers, and dates that nobody waits for. Each
/// case stands for a change of the rules that no other test found.
struct RuleBoundTests {
    @Test func unknownItem_namesTenOfTheOthersInOrder() {
        let facts = SubscriptionFacts.make {
            $0.items = (10...22).reversed().map { .make("I\($0)", price: 9990) }
        }

        let plan = Judge.make().one(.make(sku: "NONE"), facts)

        let ten = (10...19).map { "I\($0)" }.joined(separator: ", ")
        #expect(plan.fault?.remedy == "use one of \(ten)")
    }

    /// Of few rows and of many.
    @Test(arguments: [3, 8, 9, 14])
    func duplicateRow_namesTenOtherLines(count: Int) {
        let rows = (2..<2 + count).map { BatchRow.make(line: $0) }

        let plans = Judge.make().judge(rows: rows, facts: .make(), context: JudgeContext())

        let lines = (3..<2 + count).prefix(10).map { "\($0)" }.joined(separator: ", ")
        #expect(plans.allSatisfy { $0.code == .duplicateRow })
        #expect(plans[0].fault?.message.hasSuffix("is also on line \(lines)") == true)
    }

    /// Apple's largest count is 12; a garbled one is no date, and a long one is.
    @Test(arguments: [(-1, nil), (0, 0), (1, 1), (1200, 1200), (1201, nil)] as [(Int, Int?)])
    func conversion_ofAGarbledCount_isNone(left: Int, expected: Int?) throws {
        let renewals = try #require(Renewals(facts: .make(), environment: .production))
        var offer = SubscriptionFacts.Offer(price: 990)
        offer.periodsLeft = left

        #expect(renewals.conversion(of: offer) == expected.map(renewals.renewal))
    }

    /// An offer ends with its last period: at once, after periods as long as the item's, or at the first renewal from the
    /// end of longer ones on. The Sandbox shortens all, so that of longer ones nobody knows the end there.
    @Test(
        arguments: [
            (0, "P1M", 0, 0), (0, "P2M", 0, 0), (0, "P1Q", 0, 0), (1, "P1M", 1, 1), (1, nil, 1, 1),
            (2, "P1M", 2, 2), (1, "P2M", 2, nil), (2, "P1W", 1, nil), (1, "P1Q", nil, nil),
        ] as [(Int, String?, Int?, Int?)])
    func conversion_isTheRenewalAtWhichTheOfferEnds(
        left: Int, period: String?, inProduction: Int?, inSandbox: Int?
    ) throws {
        let facts = SubscriptionFacts.make { $0.purchasedAt = at("2026-11-01T00:00:00Z") }
        var offer = SubscriptionFacts.Offer(price: 990)
        (offer.periodsLeft, offer.period) = (left, period)
        let production = try #require(Renewals(facts: facts, environment: .production))
        let sandbox = try #require(Renewals(facts: facts, environment: .sandbox))

        #expect(production.conversion(of: offer) == inProduction.map(production.renewal))
        #expect(sandbox.conversion(of: offer) == inSandbox.map(sandbox.renewal))
    }

    /// The next renewal in the Sandbox is the first at or after now, to the millisecond.
    @Test(
        arguments: [
            (-1, 0), (0, 0), (1, 1), (299_999, 1), (300_000, 1), (300_001, 2), (600_000, 2),
            (600_001, 3),
        ] as [(Int64, Int)])
    func sandboxRenewal_isTheFirstAtOrAfterNow(after: Int64, index: Int) throws {
        let known = at("2026-11-01T10:00:00Z")
        let renewals = try #require(
            SandboxRenewals(knownAt: known, purchasedAt: known.advanced(by: -300_000)))

        #expect(renewals.firstIndex(atOrAfter: known.advanced(by: after)) == index)
    }

    /// The Sandbox's running period has a length, or there is nothing to step by.
    @Test(arguments: [("2026-12-01T00:00:00Z", false), ("2026-11-30T23:59:59.999Z", true)])
    func sandboxPeriod_ofNoLength_isNone(purchasedAt: String, isOne: Bool) {
        let renewals = SandboxRenewals(
            knownAt: at("2026-12-01T00:00:00Z"), purchasedAt: at(purchasedAt))

        #expect((renewals != nil) == isOne)
    }

    /// The renewals that a calendar has: the last is on the last day of the year 9999.
    @Test(arguments: ["998", "999"])
    func calendar_endsWithTheYear9999(fraction: String) throws {
        let known = at("2026-12-31T23:59:59.\(fraction)Z")
        let calendar = try #require(
            RenewalCalendar(knownAt: known, period: .month, startedAt: nil))

        let index = calendar.firstIndex(atOrAfter: .distantFuture)

        let last = (9999 - 2026) * 12
        #expect(index == (fraction == "999" ? last : last + 1))
    }

    /// Ten years of weeks are a date as any other.
    @Test func weeklyRow_thatIsHeldForTenYears_waitsForItsRenewal() throws {
        let plan = Judge.make().one(
            .make(10_490, onOrAfter: "2036-12-01"), .make(period: "P1W"))

        #expect(plan.code == nil)
        #expect(try #require(plan.effectiveAt) >= at("2036-12-01T00:00:00Z"))
        #expect(try #require(plan.effectiveAt) < at("2036-12-08T00:00:00Z"))
    }

    /// A decrease goes when its day lets it, and is judged for that instant.
    @Test func decrease_thatIsHeld_isJudgedForTheInstantAtWhichItGoes() {
        let plan = Judge.make().one(.make(7990, onOrAfter: "2027-03-01"))

        #expect(plan.sendAfter != nil)
        #expect(plan.judgedAt == plan.sendAfter)
    }

    @Test func factsWithoutDates_areNotStale_andTheRowSaysWhatIsMissing() {
        let undated = Judge.make().one(.make(), .make(renewalAt: nil))
        let nowhere = Judge.make().one(.make(), .make(storefront: nil))

        #expect(!undated.isStale)
        #expect(undated.fault?.message == "Apple has not said when this subscription renews")
        #expect(nowhere.fault?.message == "Apple has not said its storefront")
    }

    /// Of two prices of one item, an offer's count that is not known is no further period.
    @Test(arguments: [(nil, false), (0, false), (1, true)] as [(Int?, Bool)])
    func offer_isInForceWhilePeriodsAreLeft(left: Int?, expected: Bool) {
        var offer = SubscriptionFacts.Offer(price: 990)
        offer.periodsLeft = left

        #expect(offer.isInForce == expected)
    }

    /// The search for the largest free price ends where prices end; below that it finds one.
    @Test func largestPrice_isFoundUpToTheLargestCurrentPrice() {
        let rules = RuleSet.shipped.inForce(at: at("2026-11-01T00:00:00Z"))
        func largest(_ current: Int64) -> Int64? {
            rules.largestBelowThreshold(
                from: current, storefront: "USA", currency: Currency(code: "USD", decimals: 2),
                kind: .nonannual)
        }

        // From nothing everything is above half of it, so that the amount alone decides.
        #expect(largest(0) == 5000)
        #expect(largest(Int64.max / 8) == nil)
        #expect(largest(Int64.max / 8 - 1) != nil)
    }

    /// Where a step is a third of the price, the second one is over half of it.
    @Test func largestPrice_ofAFewSmallestSteps_isTheLastThatIsFree() {
        let rules = RuleSet.shipped.inForce(at: at("2026-11-01T00:00:00Z"))
        let won = Currency(code: "KRW", decimals: 0)

        let largest = [2000, 3000, 4000].map {
            rules.largestBelowThreshold(
                from: $0, storefront: "KOR", currency: won, kind: .nonannual)
        }

        #expect(largest == [3000, 4000, 6000])
    }

    /// A threshold may be absurd, and the answer stays a price that can be added to.
    @Test(arguments: [(10, false), (2000, true)] as [(Int64, Bool)])
    func largestPrice_underAnAbsurdThreshold_isBounded(current: Int64, isFound: Bool) {
        var rules = RuleSet.shipped
        rules[.threshold].append(
            .threshold(
                storefront: "USA", currency: "USD", kind: .nonannual,
                amount: 3_000_000_000_000_000_000,
                source: .apple))

        let largest = rules.inForce(at: at("2026-11-01T00:00:00Z")).largestBelowThreshold(
            from: current, storefront: "USA", currency: Currency(code: "USD", decimals: 2),
            kind: .nonannual)

        #expect((largest != nil) == isFound)
    }

    /// Rules of other storefronts come into force, too, and change nothing for this one.
    @Test func turn_isTheFirstThatChangesTheVerdict() {
        var rules = RuleSet.shipped
        rules[.alwaysConsent] = [
            .alwaysConsent("JPN", validFrom: at("2026-11-05T00:00:00Z")),
            .alwaysConsent("USA", validFrom: at("2026-11-10T00:00:00Z")),
        ]
        let now = at("2026-11-01T00:00:00Z")
        let judge = Judge(
            rules: RuleCourse(rules, from: now), environment: .production, now: now)

        let soon = judge.one(.make(10_490), .make(renewalAt: "2026-12-20T00:00:00Z"))
        let held = judge.one(
            .make(10_490, onOrAfter: "2026-12-15"), .make(renewalAt: "2026-12-03T00:00:00Z"))

        #expect(soon.consent == .notRequired)
        #expect(soon.turn?.at == at("2026-11-10T00:00:00Z"))
        #expect(soon.turn?.consent == .required)
        // The first of the turns lies before its call, the second after it.
        #expect(held.turn?.at == at("2026-11-10T00:00:00Z"))
    }

    /// A year gets known before a rule comes into force: what is told is what happens first.
    @Test func turn_isTheEarliest_whateverBringsIt() {
        var rules = RuleSet.shipped
        rules[.alwaysConsent] = [
            .alwaysConsent("USA", validFrom: at("2026-11-25T00:00:00Z"))
        ]
        let now = at("2026-11-01T00:00:00Z")
        let judge = Judge(
            rules: RuleCourse(rules, from: now), environment: .production, now: now)
        let facts = SubscriptionFacts.make(
            renewalAt: "2027-01-15T00:00:00Z", startedAt: "2024-01-15T00:00:00Z"
        ) { $0.knownSince = at("2025-11-10T00:00:00Z") }

        let plan = judge.one(.make(10_490), facts)

        #expect(plan.consent == .notKnown)
        #expect(plan.turn?.at == at("2026-11-10T00:00:00Z"))
        #expect(plan.turn?.consent == .notRequired)
    }

    /// Of two that tell of one increase the one that came last is named.
    @Test func increases_thatAreAlike_nameTheLast() {
        let told = EarlierIncrease(
            sku: "ITEM", at: at("2026-12-01T00:00:00Z"), origin: .past(.statement))
        var ours = told
        ours.origin = .change("c1")
        var added = IncreaseHistory([told])
        added.add(ours)

        #expect(added.latest(before: .distantFuture) == ours)
        #expect(IncreaseHistory([told, ours]).latest(before: .distantFuture) == ours)
        #expect(IncreaseHistory([ours, told]).latest(before: .distantFuture) == told)
    }
}
