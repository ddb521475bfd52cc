import ServiceKit
import TestSupport
import Testing

@testable import SandboxStore

/// The interaction matrix of "Handling subscription price changes" as the store plays it: each operation, with the
/// increase of A communicated or not yet. Asked on 12 January with consent needed: told on 14 January, due on
/// 10 February.
@Suite struct InteractionTests {
    private let high: Int64 = 19_990

    /// An engine on a day, with A's increase asked for.
    private func engine(on day: String, answer: SubscriberPlan.Answer = .ignores) throws
        -> StoreEngine
    {
        var subscription = Fixture.subscription(purchased: "2026-01-10")
        subscription.plan.answer = answer
        var engine = Fixture.engine(subscription)
        _ = try engine.change("A", to: high, dependents: ["B"])
        _ = engine.advance(to: Fixture.instant(day))
        return engine
    }

    private func act(
        _ engine: inout StoreEngine, _ kind: OperatorAction.Kind
    ) throws -> [String] {
        _ = try engine.act(OperatorAction(subscription: Fixture.idText, kind: kind))
        return engine.takeOutgoing().map(\.line)
    }

    private func status(_ engine: StoreEngine, _ sku: String = "A") -> String? {
        engine.only.items.first { $0.sku == sku }?.change?.increase?.status.rawValue
    }

    private func prices(_ engine: StoreEngine) -> [String] {
        engine.only.items.map { "\($0.sku) \($0.price)" }
    }

    @Test func reactivate_communicated_namedItemsComeBackAtTheHigherPrice() throws {
        var engine = try engine(on: "2026-01-20")
        _ = try act(&engine, .turnOff)

        #expect(
            try act(&engine, .reactivate(["A", "B"])) == [
                "DID_CHANGE_RENEWAL_STATUS/AUTO_RENEW_ENABLED 2026-01-20",
                "PRICE_INCREASE/ACCEPTED 2026-01-20",
            ])
        #expect(engine.story(until: "2026-02-11") == ["DID_RENEW 2026-02-10"])
        #expect(prices(engine) == ["A 19990", "B 4990"])
    }

    @Test func reactivate_communicated_othersAreNotRaisedWithoutConsent() throws {
        var engine = try engine(on: "2026-01-20")
        _ = try act(&engine, .turnOff)

        #expect(
            try act(&engine, .reactivate(["B"])) == [
                "DID_CHANGE_RENEWAL_STATUS/AUTO_RENEW_ENABLED 2026-01-20"
            ])
        #expect(status(engine) == "PENDING")
        #expect(engine.story(until: "2026-02-11") == ["EXPIRED/PRICE_INCREASE 2026-02-10"])
    }

    @Test func reactivate_notYetCommunicated_isToldOnTheNextEligibleDate() throws {
        var engine = try engine(on: "2026-01-13")
        _ = try act(&engine, .turnOff)
        #expect(engine.story(until: "2026-01-20") == [])

        _ = try act(&engine, .reactivate([]))

        #expect(engine.story(until: "2026-01-21") == ["PRICE_INCREASE/PENDING 2026-01-20"])
    }

    @Test(arguments: ["2026-01-13", "2026-01-20"])
    func modifyWithinTheCycle_itemKept_keepsTheIncrease(day: String) throws {
        var engine = try engine(on: day)
        let isTold = status(engine) == "PENDING"
        let before = engine.only.expiresAt
        let kind = OperatorAction.Kind.modify(
            retainsCycle: true,
            items: [
                .init(currentSKU: "A", sku: "A", price: high), .init(sku: "C", price: 990),
            ], removed: [])

        #expect(try act(&engine, kind) == ["DID_CHANGE_RENEWAL_PREF \(day)"])

        #expect(engine.only.expiresAt == before)
        #expect(engine.only.lastWasPurchase == true)
        #expect(status(engine) == (isTold ? "ACCEPTED" : "SCHEDULED"))
    }

    @Test(arguments: ["2026-01-13", "2026-01-20"], [true, false])
    func modify_itemReplaced_invalidates(day: String, retains: Bool) throws {
        var engine = try engine(on: day)

        _ = try act(
            &engine,
            .modify(
                retainsCycle: retains,
                items: [.init(currentSKU: "A", sku: "PREMIUM", price: 14_990)], removed: []))

        #expect(engine.only.items.map(\.sku) == ["PREMIUM", "B"])
        #expect(engine.only.items.allSatisfy { $0.change == nil })
    }

    @Test(arguments: ["2026-01-13", "2026-01-20"])
    func modifyWithinTheCycle_offerAdded_postponesUntilAfterIt(day: String) throws {
        var engine = try engine(on: day)

        _ = try act(
            &engine,
            .modify(
                retainsCycle: true,
                items: [
                    .init(
                        currentSKU: "A", sku: "A", price: high, offerPrice: 990, offerPeriods: 2)
                ], removed: []))

        #expect(status(engine) == "SCHEDULED")
        #expect(engine.only.items[0].change?.effectiveAt == Fixture.instant("2026-04-10"))
        _ = engine.advance(to: Fixture.instant("2026-03-11"))
        #expect(engine.only.items[0].price == 9990)
    }

    @Test func modifyWithinTheCycle_offerAtTheOldPrice_isRefused() throws {
        var engine = try engine(on: "2026-01-20")

        #expect(throws: StoreError.invalidPriceInIncrease) {
            try act(
                &engine,
                .modify(
                    retainsCycle: true,
                    items: [
                        .init(currentSKU: "A", sku: "A", price: 9990, offerPrice: 990)
                    ], removed: []))
        }
    }

    @Test(arguments: [
        ("2026-01-20", Int64(19_990), "A 19990"), ("2026-01-20", 9990, "A 9990"),
        ("2026-01-13", 9990, "A 9990"), ("2026-01-13", 19_990, "A 19990"),
    ])
    func modifyWithANewCycle_takesTheHigherPriceOnlyWhereItIsSent(
        day: String, sent: Int64, expected: String
    ) throws {
        var engine = try engine(on: day)
        let isRaised = sent == high

        _ = try act(
            &engine,
            .modify(
                retainsCycle: false,
                items: isRaised ? [.init(currentSKU: "A", sku: "A", price: sent)] : [], removed: [])
        )

        #expect(prices(engine)[0] == expected)
        #expect(engine.only.items[0].change == nil)
        #expect(engine.only.purchasedAt == Fixture.instant(day))
        #expect(engine.only.anchorDay == (day == "2026-01-20" ? 20 : 13))
    }

    @Test func modify_ofADeclinedItem_isNoLongerOffered() throws {
        var engine = try engine(on: "2026-01-20")
        _ = try act(&engine, .modify(retainsCycle: true, items: [], removed: ["A"]))

        #expect(throws: StoreError.changeItemNotFound) {
            try act(
                &engine,
                .modify(
                    retainsCycle: true, items: [.init(currentSKU: "A", sku: "A", price: high)],
                    removed: []))
        }
        _ = try act(
            &engine,
            .modify(retainsCycle: true, items: [.init(sku: "C", price: 990)], removed: []))

        _ = engine.advance(to: Fixture.instant("2026-02-11"))
        // B depends on it.
        #expect(prices(engine) == ["C 990"])
    }

    @Test func modify_priceOfAnItemWithoutAnIncrease_isRefused() throws {
        var engine = try engine(on: "2026-01-13")

        #expect(throws: StoreError.priceChangeThroughModify) {
            try act(
                &engine,
                .modify(
                    retainsCycle: true, items: [.init(currentSKU: "B", sku: "B", price: 5990)],
                    removed: []))
        }
    }

    @Test(arguments: [("2026-01-13", "SCHEDULED"), ("2026-01-20", "PENDING")])
    func rename_keepsTheIncrease(day: String, kept: String) throws {
        var engine = try engine(on: day)

        #expect(
            try act(&engine, .rename(from: "A", to: "A2")) == ["METADATA_UPDATE \(day)"])
        _ = try act(&engine, .rename(from: "B", to: "B2"))

        #expect(status(engine, "A2") == kept)
        #expect(engine.only.items[0].change?.increase?.dependentSKUs == ["B2"])
    }

    @Test func rename_atTheRenewal_isListedNowAndChargedThen() throws {
        var engine = Fixture.engine(Fixture.subscription())
        #expect(
            try act(&engine, .rename(from: "B", to: "B2", atRenewal: true))
                == ["METADATA_UPDATE 2026-01-12"])

        #expect(engine.only.items.map(\.sku) == ["A", "B"])
        #expect(engine.only.renewingItems.map(\.renewalSKU) == ["A", "B2"])
        #expect(engine.story(until: "2026-02-11") == ["DID_RENEW 2026-02-10"])
        #expect(engine.only.items.map(\.sku) == ["A", "B2"])
    }

    @Test func rename_ofADependentAtTheRenewal_keepsItADependent() throws {
        var engine = try engine(on: "2026-01-13")
        _ = try act(&engine, .rename(from: "B", to: "B2", atRenewal: true))

        #expect(engine.story(until: "2026-02-11").last == "EXPIRED/PRICE_INCREASE 2026-02-10")
    }

    @Test func refund_thatEndsAnItem_leavesTheOthersToRenew() throws {
        var engine = try engine(on: "2026-01-12")
        #expect(
            try act(&engine, .refund([.init(sku: "A", revokes: true, isProrated: true)]))
                == ["REFUND 2026-01-12"])

        #expect(engine.story(until: "2026-02-11") == ["DID_RENEW 2026-02-10"])
        #expect(engine.only.items.map(\.sku) == ["B"])
        let refunded = engine.only.past?.first?.items.first { $0.sku == "A" }?.refund
        // All but two of 31 days.
        #expect((9_000...9_500).contains(refunded?.amount ?? 0))
    }

    @Test func refund_ofAnEarlierTransaction_leavesTheRunningPeriodPaid() throws {
        var engine = Fixture.engine(Fixture.subscription())
        _ = engine.story(until: "2026-02-11")
        #expect(try act(&engine, .refund([.init(sku: "A")])) == ["REFUND 2026-02-11"])

        #expect(engine.only.status == .active)
        #expect(engine.only.past?.first?.items.first { $0.sku == "A" }?.refund?.amount == 9990)
        #expect(engine.only.items.allSatisfy { $0.refund == nil })
        #expect(throws: StoreError.alreadyRefunded) {
            try act(&engine, .refund([.init(sku: "A")]))
        }
        #expect(throws: StoreError.invalidSKU) { try act(&engine, .refund([.init(sku: "X")])) }
    }

    @Test func refund_thatWouldEndEveryItem_isRefused() throws {
        var engine = Fixture.engine(Fixture.subscription())

        #expect(throws: StoreError.removalOfAll) {
            try act(
                &engine,
                .refund([.init(sku: "A", revokes: true), .init(sku: "B", revokes: true)]))
        }
    }

    @Test func refund_declined_endsNothing() throws {
        var engine = Fixture.engine(Fixture.subscription())

        #expect(try act(&engine, .declineRefund) == ["REFUND_DECLINED 2026-01-12"])
        #expect(engine.only.status == .active)
    }

    @Test func migrate_isAllowedUntilTheSubscriberWasTold() throws {
        var early = try engine(on: "2026-01-13")
        #expect(try act(&early, .migrate(suffix: "_ACA")) == ["MIGRATION 2026-01-13"])
        #expect(status(early, "A_ACA") == "SCHEDULED")

        var late = try engine(on: "2026-01-20")
        #expect(throws: StoreError.migrationAfterCommunication) {
            try act(&late, .migrate(suffix: "_ACA"))
        }
    }

    @Test func restart_afterAnAction_isTheSameStore() async throws {
        let folder = try ScratchFolder()
        let store = StoreFile(
            identity: .init(
                bundleID: "com.example.stream", appAppleID: 7, environment: "Production"),
            issuerID: "issuer", keyID: "STOREKEY01",
            options: .init(seed: 7, calendar: BillingCalendar()),
            start: Fixture.instant("2026-01-12"), subscriptions: [Fixture.subscription()])
        let body =
            "{\"subscription\":\"\(Fixture.idText)\",\"action\":\"rename\","
            + "\"currentSKU\":\"A\",\"SKU\":\"A2\"}"
        var engine = StoreEngine(
            options: store.options, now: store.start, subscriptions: store.subscriptions)
        _ = try engine.act(OperatorAction.parse(Array(body.utf8)).get())
        let record = CallRecord(
            at: store.start, endpoint: "act", transactionId: Fixture.idText,
            requestReferenceId: nil, status: 200, errorCode: nil, applied: true, body: body)
        let storeFolder = try StoreFolder(folder.path)
        try JournalFile(path: storeFolder.file("calls.ndjson")).append(record)

        let keeper = try StoreKeeper(
            store: store, folder: storeFolder, clock: ManualClock(store.start),
            realSecond: 1000)

        #expect(await keeper.subscription(Fixture.idText) == engine.only)
    }

    @Test func codes_allHaveAMessage_andTheStatusOfTheirFirstDigits() {
        for error in StoreError.allCases {
            #expect(!error.message.isEmpty, "\(error)")
            #expect([400, 401, 403, 404, 429, 500].contains(error.httpStatus), "\(error)")
        }
    }

    @Test(arguments: [
        ("{}", "subscription is missing"), ("[]", "the body is no JSON object"),
        (
            "{\"subscription\":\"1\",\"action\":\"dance\"}",
            "unknown action; there are \(OperatorAction.kinds)"
        ),
        ("{\"subscription\":\"1\",\"action\":\"rename\"}", "rename needs currentSKU and SKU"),
    ])
    func operatorAction_wrongBody_saysWhat(body: String, expected: String) {
        guard case .failure(let fault) = OperatorAction.parse(Array(body.utf8)) else {
            Issue.record("taken")
            return
        }
        #expect(fault.text == expected)
    }

    @Test(
        arguments: [
            (
                "\"action\":\"refund\",\"items\":[{\"SKU\":\"A\",\"revoke\":true,\"refundType\":\"PRORATED\"}]",
                .refund([.init(sku: "A", revokes: true, isProrated: true)])
            ), ("\"action\":\"refund\"", .refund([])),
            ("\"action\":\"decline_refund\"", .declineRefund),
            (
                "\"action\":\"rename\",\"currentSKU\":\"A\",\"SKU\":\"B\",\"effective\":\"NEXT_BILL_CYCLE\"",
                .rename(from: "A", to: "B", atRenewal: true)
            ),
        ] as [(String, OperatorAction.Kind)])
    func operatorAction_refundOrRename_isReadWhole(
        fields: String, expected: OperatorAction.Kind
    ) throws {
        let body = "{\"subscription\":\"1\",\(fields)}"

        #expect(try OperatorAction.parse(Array(body.utf8)).get().kind == expected)
    }

    @Test func operatorAction_modify_isReadWhole() throws {
        let body = """
            {"subscription":"1","action":"modify","retainBillingCycle":false,"removeItems":["B"],
             "items":[{"currentSKU":"A","SKU":"A","price":12990,
                       "offer":{"price":990,"periodCount":3}},{"SKU":"C"}]}
            """

        let action = try OperatorAction.parse(Array(body.utf8)).get()

        #expect(
            action.kind
                == .modify(
                    retainsCycle: false,
                    items: [
                        .init(
                            currentSKU: "A", sku: "A", price: 12_990, offerPrice: 990,
                            offerPeriods: 3),
                        .init(sku: "C"),
                    ], removed: ["B"]))
    }
}
