import Testing

@testable import SandboxStore

/// Renewal-date extensions, told month by month.
@Suite struct ExtensionScenarioTests {
    private static func terms(_ days: Int64 = 30, _ identifier: String = "one") -> ExtensionTerms {
        ExtensionTerms(days: days, reason: 3, requestIdentifier: identifier)
    }

    @Test func extension_whenItemWaitsForConsent_movesRenewalAndQuestion() throws {
        var engine = Fixture.engine(Fixture.subscription())
        _ = engine.advance(to: Fixture.instant("2026-01-12"))
        _ = try engine.change("A", to: 15_990)

        let date = try engine.extend(originalTransaction: Fixture.idText, Self.terms(20))

        #expect(date == Fixture.instant("2026-03-02"))
        #expect(
            engine.story(until: "2026-05-10") == [
                "PRICE_CHANGE 2026-01-12", "RENEWAL_EXTENDED 2026-01-12",
                "PRICE_INCREASE/PENDING 2026-02-03", "PRICE_INCREASE/ACCEPTED 2026-02-10",
                "DID_RENEW 2026-03-02", "DID_RENEW 2026-04-02", "DID_RENEW 2026-05-02",
            ])
    }

    @Test func extension_whenRepeated_movesNothingMore() throws {
        var engine = Fixture.engine(Fixture.subscription())

        let first = try engine.extend(originalTransaction: Fixture.idText, Self.terms())
        let second = try engine.extend(originalTransaction: Fixture.idText, Self.terms())

        #expect(first == second)
        #expect(engine.only.extendedAt?.count == 1)
        #expect(engine.takeOutgoing().count == 1)
    }

    @Test func extension_whenThirdWithinAYear_isRefusedUntilTheYearIsOver() throws {
        var engine = Fixture.engine(Fixture.subscription(period: .year))
        _ = try engine.extend(originalTransaction: Fixture.idText, Self.terms(1, "one"))
        _ = try engine.extend(originalTransaction: Fixture.idText, Self.terms(1, "two"))

        #expect(throws: StoreError.maxExtension) {
            try engine.extend(originalTransaction: Fixture.idText, Self.terms(1, "three"))
        }

        _ = engine.advance(to: Fixture.instant("2027-01-13"))
        _ = try engine.extend(originalTransaction: Fixture.idText, Self.terms(1, "three"))
        #expect(engine.only.extendedAt?.count == 3)
    }

    @Test func extension_whenTheCustomersOtherSubscriptionHadTwo_isRefused() throws {
        var second = Fixture.subscription()
        second.originalTransactionID += StoreSubscription.transactionsMax
        var stranger = second
        stranger.originalTransactionID += StoreSubscription.transactionsMax
        stranger.appAccountToken = "0b8c1a50-0000-4000-8000-000000000001"
        var engine = StoreEngine(
            options: .init(seed: 7, calendar: BillingCalendar()),
            now: Fixture.instant("2026-01-12"),
            subscriptions: [Fixture.subscription(), second, stranger])
        _ = try engine.extend(originalTransaction: Fixture.idText, Self.terms(1, "one"))
        _ = try engine.extend(originalTransaction: second.id, Self.terms(1, "two"))

        for id in [Fixture.idText, second.id] {
            #expect(throws: StoreError.maxExtension) {
                try engine.extend(originalTransaction: id, Self.terms(1, "three"))
            }
        }
        _ = try engine.extend(originalTransaction: stranger.id, Self.terms(1, "four"))
    }

    @Test func extension_ofWhatIsNotEligible_isRefusedByItsCode() throws {
        var free = Fixture.subscription([Fixture.item("A", 9990)])
        free.items[0].offer = StoreOffer(
            price: 0, periodsLeft: 1, periodCount: 1, reason: "ACQUISITION")
        var family = Fixture.subscription()
        family.isFamilyShared = true
        var retry = Fixture.subscription()
        retry.status = .billingRetry
        let cases: [(StoreSubscription, StoreError)] = [
            (free, .extensionIneligible), (retry, .extensionIneligible),
            (family, .familySharedExtensionIneligible),
        ]
        for (subscription, expected) in cases {
            var engine = Fixture.engine(subscription)
            #expect(throws: expected) {
                try engine.extend(originalTransaction: Fixture.idText, Self.terms())
            }
        }
        var engine = Fixture.engine(Fixture.subscription())
        #expect(throws: StoreError.originalTransactionNotFound) {
            try engine.extend(originalTransaction: "2000000000990000", Self.terms())
        }
        #expect(throws: StoreError.invalidOriginalTransactionID) {
            try engine.extend(originalTransaction: "abc", Self.terms())
        }
    }

    @Test func massExtension_whenAtWork_tellsEachSubscriptionThenTheSummary() throws {
        var engine = StoreEngine(
            options: .init(seed: 7, calendar: BillingCalendar(), massFailurePercent: 30),
            now: Fixture.instant("2026-01-12"),
            subscriptions: (0..<40).map { index in
                var one = Fixture.subscription(storefront: index < 30 ? "USA" : "CAN")
                one.originalTransactionID += Int64(index) * 10_000
                one.appAccountToken += String(index)
                return one
            })

        engine.extendAll(productID: "p", storefronts: ["USA"], Self.terms(10, "mass"))
        engine.extendAll(productID: "p", storefronts: nil, Self.terms(10, "mass"))
        let halfWay = engine.advance(to: Fixture.instant("2026-01-12T03:00:00Z"))
        let rest = engine.advance(to: Fixture.instant("2026-01-12T07:00:00Z"))

        let told = halfWay + rest
        let failed = told.count { $0.subtype == .failure }
        #expect((10...20).contains(halfWay.count))
        #expect(told.count == 31)
        #expect((1...20).contains(failed))
        #expect(told.last?.subtype == .summary)
        #expect(told.last?.summary?.failed == Int64(failed))
        #expect(told.last?.summary?.succeeded == Int64(30 - failed))
        #expect(told.dropLast().allSatisfy { $0.subscription?.storefront == "USA" })
        let mass = engine.massExtension(productID: "p", requestIdentifier: "mass")
        #expect(mass?.completedAt == told.last?.signedAt)
    }

    @Test(arguments: [
        ("{\"extendReasonCode\":1,\"requestIdentifier\":\"r\"}", StoreError.invalidExtendByDays),
        (
            "{\"extendByDays\":91,\"extendReasonCode\":1,\"requestIdentifier\":\"r\"}",
            .invalidExtendByDays
        ),
        (
            "{\"extendByDays\":90,\"extendReasonCode\":4,\"requestIdentifier\":\"r\"}",
            .invalidExtendReasonCode
        ),
        (
            "{\"extendByDays\":1,\"extendReasonCode\":0,\"requestIdentifier\":\"\"}",
            .invalidRequestIdentifier
        ),
        (
            "{\"extendByDays\":1,\"extendReasonCode\":0,\"requestIdentifier\":\"r\"}",
            .invalidProductID
        ),
        (
            "{\"extendByDays\":1,\"extendReasonCode\":0,\"requestIdentifier\":\"r\",\"productId\":\"p\",\"storefrontCountryCodes\":[]}",
            .emptyStorefronts
        ),
        (
            "{\"extendByDays\":1,\"extendReasonCode\":0,\"requestIdentifier\":\"r\",\"productId\":\"p\",\"storefrontCountryCodes\":[\"XXX\"]}",
            .invalidStorefront
        ),
    ])
    func massRequest_thatIsWrong_isRefusedByItsCode(_ body: String, _ expected: StoreError) {
        #expect(throws: expected) { try MassExtensionRequest(Array(body.utf8)) }
    }
}
