import Testing

@testable import SandboxStore

/// One request, one code: what Apple checks before it takes a price change.
@Suite struct RequestTests {
    private static let good = "[{\"SKU\":\"A\",\"price\":12990}]"
    private static let long = String(repeating: "x", count: 129)

    private static func info(_ key: String, _ value: String) -> String {
        "{\"requestReferenceId\":\"7c80bb86-f892-4b21-a919-1357811d6c4f\",\"\(key)\":\"\(value)\"}"
    }

    private static let bodies: [([UInt8], Int)] = [
        (Fixture.body(good), 200),
        (Fixture.body(good, more: ",\"currency\":\"USD\",\"storefront\":\"USA\""), 200),
        (Fixture.body(good, more: ",\"currency\":null,\"futureField\":[1]"), 200),
        (Array("{".utf8), 4_000_173), (Array("[]".utf8), 4_000_173), ([], 4_000_173),
        ([0xff, 0x00], 4_000_173),
        (Array("{\"items\":\(good)}".utf8), 4_000_079),
        (Fixture.body(good, info: "null"), 4_000_079),
        (Fixture.body(good, info: "{}"), 4_000_080),
        (Fixture.body(good, info: "{\"requestReferenceId\":null}"), 4_000_080),
        (Fixture.body(good, info: "{\"requestReferenceId\":\"1\"}"), 4_000_081),
        (Fixture.body(good, info: "{\"requestReferenceId\":7}"), 4_000_081),
        (
            Fixture.body(
                good,
                info: info("appAccountToken", "x")), 4_000_033
        ),
        (
            Fixture.body(
                good,
                info: info("appAccountToken", "")), 200
        ),
        (
            Fixture.body(
                good,
                info: info("consistencyToken", "stale")), 4_000_082
        ),
        (Fixture.body("null"), 4_000_101), (Fixture.body("[]"), 4_000_101),
        (Fixture.body("7"), 4_000_173), (Fixture.body("[null]"), 4_000_102),
        (Fixture.body("[{\"price\":12990}]"), 4_000_105),
        (Fixture.body("[{\"SKU\":\"\",\"price\":12990}]"), 4_000_105),
        (Fixture.body("[{\"SKU\":\"\(long)\",\"price\":12990}]"), 4_000_087),
        (
            Fixture.body("[{\"SKU\":\"A\",\"price\":12990,\"dependentSKUs\":[\"\(long)\"]}]"),
            4_000_087
        ),
        (Fixture.body("[{\"SKU\":\"A\"}]"), 4_000_109),
        (Fixture.body("[{\"SKU\":\"A\",\"price\":-10}]"), 4_000_086),
        (Fixture.body("[{\"SKU\":\"A\",\"price\":0}]"), 4_000_086),
        (Fixture.body("[{\"SKU\":\"A\",\"price\":\"12990\"}]"), 4_000_173),
        (Fixture.body("[{\"SKU\":\"A\",\"price\":12990.5}]"), 4_000_173),
        (Fixture.body("[{\"SKU\":\"A\",\"price\":9223372036854775807}]"), 4_000_173),
        (Fixture.body("[{\"SKU\":\"A\",\"price\":12995}]"), 4_000_173),
        (Fixture.body(good, more: ",\"currency\":\"XXX\""), 4_000_053),
        (Fixture.body(good, more: ",\"currency\":\"EUR\""), 4_000_053),
        (Fixture.body(good, more: ",\"storefront\":\"US\""), 4_000_028),
        (Fixture.body(good, more: ",\"storefront\":\"CAN\""), 4_000_133),
        (
            Fixture.body("[{\"SKU\":\"A\",\"price\":12990},{\"SKU\":\"A\",\"price\":13990}]"),
            4_000_194
        ),
        (
            Fixture.body(
                "[{\"SKU\":\"A\",\"price\":12990,\"dependentSKUs\":[\"C\"]},{\"SKU\":\"B\",\"price\":5990,\"dependentSKUs\":[\"C\"]}]"
            ), 4_000_192
        ),
        (
            Fixture.body(
                "[{\"SKU\":\"A\",\"price\":12990,\"dependentSKUs\":[\"B\"]},{\"SKU\":\"B\",\"price\":5990,\"dependentSKUs\":[\"C\"]}]"
            ), 4_000_193
        ),
        (Fixture.body("[{\"SKU\":\"A\",\"price\":12990,\"dependentSKUs\":[\"A\"]}]"), 4_000_193),
        (Fixture.body("[{\"SKU\":\"Z\",\"price\":12990}]"), 4_000_220),
    ]

    private func code(_ body: [UInt8], _ engine: inout StoreEngine) -> Int {
        do throws(StoreError) {
            let request = try ChangePriceRequest(body)
            _ = try engine.changePrice(transaction: Fixture.idText, request: request)
            return 200
        } catch {
            return error.rawValue
        }
    }

    @Test(arguments: bodies)
    func changePrice_withThisBody_hasThisCode(body: [UInt8], expected: Int) {
        var engine = Fixture.engine(
            Fixture.subscription([
                Fixture.item("A", 9990), Fixture.item("B", 4990), Fixture.item("C", 990),
            ]))

        #expect(code(body, &engine) == expected)
    }

    @Test(arguments: [
        ("off", 4_030_010), ("grace", 4_030_010), ("retry", 4_030_010), ("offer", 4_030_010),
        ("expired", 4_030_008), ("revoked", 4_030_008), ("india", 4_000_221),
        ("communicated", 4_000_205),
    ])
    func changePrice_inThisState_hasThisCode(state: String, expected: Int) {
        var subscription = Fixture.subscription()
        switch state {
        case "off": subscription.autoRenews = false
        case "grace": subscription.status = .gracePeriod
        case "retry": subscription.status = .billingRetry
        case "expired": subscription.status = .expired
        case "revoked": subscription.status = .revoked
        case "india": (subscription.storefront, subscription.currency) = ("IND", "INR")
        case "communicated":
            subscription.items[0].change = PendingChange(
                price: 11_990, effectiveAt: subscription.expiresAt,
                kind: .increase(
                    .init(
                        status: .pending, needsConsent: true, communicatesAt: 0,
                        dependentSKUs: [])))
        default:
            subscription.items[0].offer = StoreOffer(
                price: 1990, periodsLeft: 1, periodCount: 3, reason: "RETENTION")
        }
        var engine = Fixture.engine(subscription)

        #expect(code(Fixture.body("[{\"SKU\":\"A\",\"price\":13000}]"), &engine) == expected)
    }

    @Test func changePrice_ofAnIndianDecrease_isTaken() {
        var subscription = Fixture.subscription()
        (subscription.storefront, subscription.currency) = ("IND", "INR")
        var engine = Fixture.engine(subscription)

        #expect(code(Fixture.body("[{\"SKU\":\"A\",\"price\":5000}]"), &engine) == 200)
    }

    @Test(arguments: [
        ("2000000000010000", 200), ("2000000000010001", 4_040_010),
        ("1999999999999999", 4_040_010), ("abc", 4_000_006), ("-1", 4_000_006),
        ("99999999999999999999", 4_000_006),
    ])
    func status_ofThisTransaction_hasThisCode(id: String, expected: Int) {
        var engine = Fixture.engine(Fixture.subscription())
        let code: Int
        do throws(StoreError) {
            _ = try engine.statuses(transaction: id)[0]
            code = 200
        } catch {
            code = error.rawValue
        }

        #expect(code == expected)
    }

    @Test func laterTransaction_namesTheSameSubscription() throws {
        var engine = Fixture.engine(Fixture.subscription())
        _ = engine.advance(to: Fixture.instant("2026-03-11"))

        let answer = try engine.statuses(transaction: String(Fixture.id + 2))[0]

        #expect(answer.subscription.id == Fixture.idText)
    }

    @Test func statuses_ofACustomerWithTwo_areThoseOfBothAndOfNobodyElse() throws {
        var second = Fixture.subscription()
        second.originalTransactionID += StoreSubscription.transactionsMax
        var stranger = second
        stranger.originalTransactionID += StoreSubscription.transactionsMax
        stranger.appAccountToken = "0b8c1a50-0000-4000-8000-000000000001"
        var engine = StoreEngine(
            options: .init(seed: 7, calendar: BillingCalendar()),
            now: Fixture.instant("2026-01-12"),
            subscriptions: [stranger, second, Fixture.subscription()])

        let asked = try engine.statuses(transaction: second.id)
        let alone = try engine.statuses(transaction: stranger.id)

        #expect(asked.map(\.subscription.id) == [Fixture.idText, second.id])
        #expect(alone.map(\.subscription.id) == [stranger.id])
    }

    @Test func repeat_withTheSameRequestID_isAnsweredAndChangesNothing() throws {
        var engine = Fixture.engine(Fixture.subscription())
        _ = try engine.change("A", to: 12_990)
        let events = engine.takeOutgoing()

        _ = try engine.change("A", to: 12_990)

        #expect(events.count == 1)
        #expect(engine.takeOutgoing().isEmpty)
    }

    @Test func repeat_withAnotherBody_isRefused() throws {
        var engine = Fixture.engine(Fixture.subscription())
        _ = try engine.change("A", to: 12_990)

        #expect(throws: StoreError.repeatedRequestReferenceID) {
            try engine.change("A", to: 13_990)
        }
    }

    @Test func consistencyToken_afterEachChange_isANewOne() throws {
        var engine = Fixture.engine(Fixture.subscription())
        let first = try engine.statuses(transaction: Fixture.idText)[0].consistencyToken
        _ = try engine.change("A", to: 12_990)
        let second = try engine.statuses(transaction: Fixture.idText)[0].consistencyToken
        let again = try engine.statuses(transaction: Fixture.idText)[0].consistencyToken

        #expect(first.hasPrefix("1.\(Fixture.idText)."))
        #expect(first != second)
        #expect(second == again)
    }

    @Test func dependents_acrossTwoRequests_mayNotBeShared() throws {
        var engine = Fixture.engine(
            Fixture.subscription([
                Fixture.item("A", 9990), Fixture.item("B", 4990), Fixture.item("C", 990),
            ]))
        _ = try engine.change("A", to: 15_990, dependents: ["C"])

        #expect(throws: StoreError.dependentsShared) {
            try engine.change("B", to: 10_990, dependents: ["C"], reference: 2)
        }
    }

    @Test func cancel_turnsRenewalOffOnce() throws {
        var engine = Fixture.engine(Fixture.subscription())
        let info = try Fixture.request("A", 1).info
        let other = try Fixture.request("A", 1, reference: 2).info

        let answer = try engine.cancel(
            transaction: Fixture.idText, info: info, storefront: "USA")

        #expect(!answer.subscription.autoRenews)
        #expect(throws: StoreError.notEligible) {
            try engine.cancel(transaction: Fixture.idText, info: other, storefront: nil)
        }
        #expect(
            engine.story(until: "2026-02-11") == [
                "DID_CHANGE_RENEWAL_STATUS/AUTO_RENEW_DISABLED 2026-01-12",
                "EXPIRED/VOLUNTARY 2026-02-10",
            ])
    }
}
