import ServiceKit
import Testing

@testable import SandboxStore

/// The calls besides prices, told month by month, and what the store says to malformed ones.
@Suite struct CommerceCallTests {
    private static let reference = "00000000-0000-4000-8000-0000000000ff"
    private static let info = "\"requestInfo\":{\"requestReferenceId\":\"\(reference)\"}"

    private static func bytes(_ fields: String) -> [UInt8] {
        Array("{\(info)\(fields.isEmpty ? "" : ",")\(fields)}".utf8)
    }

    private func call(
        _ engine: inout StoreEngine, _ endpoint: String, _ fields: String,
        of transaction: String = Fixture.idText
    ) throws(StoreError) {
        _ = try engine.commerce(
            endpoint, transaction, Self.bytes(fields), productID: "com.example.stream.subscription")
    }

    // MARK: What follows

    @Test func revoke_answeredNow_endsAnHourLater() throws {
        var engine = Fixture.engine(Fixture.subscription())
        try call(
            &engine, "revoke",
            "\"refundReason\":\"LEGAL\",\"refundType\":\"FULL\",\"refundRiskingPreference\":true")

        #expect(engine.only.status == .active)
        #expect(engine.story(until: "2026-01-12T00:59:00Z") == [])
        #expect(engine.story(until: "2026-03-12") == ["REFUND 2026-01-12"])
        #expect(engine.only.status == .revoked)
    }

    @Test func revoke_simulatedDecline_inTheSandbox_endsNothing() throws {
        var engine = Fixture.engine(Fixture.subscription(), shortMonth: 300_000)
        try call(
            &engine, "revoke",
            "\"refundReason\":\"SIMULATE_REFUND_DECLINE\",\"refundType\":\"FULL\","
                + "\"refundRiskingPreference\":true")

        let story = engine.advance(to: Fixture.instant("2026-01-12") + 10_000)
        #expect(story.map(\.kind) == [.refundDeclined])
        #expect(engine.only.status == .active)
    }

    @Test func refund_thatEndsAnItem_leavesTheOthersToRenew() throws {
        var engine = Fixture.engine(Fixture.subscription())
        _ = try engine.change("A", to: 19_990)
        _ = engine.takeOutgoing()
        try call(
            &engine, "requestRefund",
            "\"items\":[{\"SKU\":\"A\",\"refundReason\":\"OTHER\",\"refundType\":\"PRORATED\","
                + "\"revoke\":true}],\"refundRiskingPreference\":false")

        #expect(
            engine.story(until: "2026-02-11") == ["REFUND 2026-01-12", "DID_RENEW 2026-02-10"])
        #expect(engine.only.items.map(\.sku) == ["B"])
        let refunded = engine.only.past?.first?.items.first { $0.sku == "A" }?.refund
        // All but two of 31 days.
        #expect((9_000...9_500).contains(refunded?.amount ?? 0))
    }

    @Test func metadata_atTheNextCycle_isListedNowAndChargedThen() throws {
        var engine = Fixture.engine(Fixture.subscription())
        _ = try engine.change("A", to: 9_000, dependents: [])
        _ = engine.takeOutgoing()
        try call(
            &engine, "changeMetadata",
            "\"items\":[{\"currentSKU\":\"B\",\"effective\":\"NEXT_BILL_CYCLE\",\"SKU\":\"B2\","
                + "\"displayName\":\"Better\"}],\"descriptors\":{\"effective\":\"NEXT_BILL_CYCLE\","
                + "\"displayName\":\"More\"}")

        #expect(engine.only.items.map(\.sku) == ["A", "B"])
        #expect(engine.only.renewingItems.map(\.renewalSKU) == ["A", "B2"])
        #expect(
            engine.story(until: "2026-02-11") == [
                "METADATA_UPDATE 2026-01-12", "DID_RENEW 2026-02-10",
            ])
        #expect(engine.only.items.map(\.sku) == ["A", "B2"])
        #expect(engine.only.items.map(\.displayName) == ["A", "Better"])
        #expect(engine.only.descriptors?.displayName == "More")
        #expect(engine.only.descriptors?.description == StoreNames.usual.description)
    }

    @Test func metadata_ofADependent_keepsItADependent() throws {
        var subscription = Fixture.subscription()
        subscription.plan.answer = .ignores
        var engine = Fixture.engine(subscription)
        _ = try engine.change("A", to: 19_990, dependents: ["B"])
        try call(
            &engine, "changeMetadata",
            "\"items\":[{\"currentSKU\":\"B\",\"effective\":\"NEXT_BILL_CYCLE\",\"SKU\":\"B2\"}]")

        #expect(engine.story(until: "2026-02-11").last == "EXPIRED/PRICE_INCREASE 2026-02-10")
    }

    @Test func restart_afterACall_isTheSameStore() async throws {
        let folder = try TemporaryFolder()
        let store = StoreFile(
            identity: .init(
                bundleID: "com.example.stream", appAppleID: 7, environment: "Production"),
            issuerID: "issuer", keyID: "STOREKEY01",
            options: .init(seed: 7, calendar: BillingCalendar()),
            start: Fixture.instant("2026-01-12"), subscriptions: [Fixture.subscription()])
        let body = Self.bytes(
            "\"items\":[{\"currentSKU\":\"A\",\"effective\":\"IMMEDIATELY\",\"SKU\":\"A2\"}]")
        var engine = StoreEngine(
            options: store.options, now: store.start, subscriptions: store.subscriptions)
        _ = try engine.commerce(
            "changeMetadata", Fixture.idText, body, productID: store.identity.productID)
        let record = CallRecord(
            at: store.start, endpoint: "changeMetadata", transactionId: Fixture.idText,
            requestReferenceId: Self.reference, status: 200, errorCode: nil, applied: true,
            body: String(decoding: body, as: UTF8.self))
        let storeFolder = try StoreFolder(folder.path)
        try JournalFile(path: storeFolder.file("calls.ndjson")).append(record)

        let keeper = try StoreKeeper(
            store: store, folder: storeFolder, clock: ManualClock(store.start),
            realSecond: 1000)

        #expect(await keeper.subscription(Fixture.idText) == engine.only)
    }

    // MARK: Refusals

    @Test func codes_allHaveAMessage_andTheStatusOfTheirFirstDigits() {
        for error in StoreError.allCases {
            #expect(!error.message.isEmpty, "\(error)")
            #expect([400, 401, 403, 404, 429, 500].contains(error.httpStatus), "\(error)")
        }
    }

    @Test(arguments: [
        ("", StoreError.nullRefundReason),
        ("\"refundReason\":\"WHIM\"", .invalidRefundReason),
        ("\"refundReason\":\"SIMULATE_REFUND_DECLINE\"", .declineOnlyInSandbox),
        ("\"refundReason\":\"LEGAL\"", .nullRefundType),
        ("\"refundReason\":\"LEGAL\",\"refundType\":\"HALF\"", .invalidRefundType),
        ("\"refundReason\":\"LEGAL\",\"refundType\":\"CUSTOM\"", .nullRefundAmount),
        ("\"refundReason\":\"LEGAL\",\"refundType\":\"FULL\"", .nullRefundRisking),
    ])
    func revoke_malformed_isRefusedByItsCode(fields: String, expected: StoreError) {
        #expect(throws: expected) { try RevokeOrder(Self.bytes(fields), isProduction: true) }
    }

    @Test(arguments: [
        ("", StoreError.nullItems), ("\"items\":[]", .atLeastOneItem),
        ("\"items\":[null]", .nullItem), ("\"items\":[{}]", .nullSKU),
        (
            "\"items\":[{\"SKU\":\"A\",\"refundReason\":\"LEGAL\",\"refundType\":\"FULL\"}]",
            .malformedPayload
        ),
        (
            "\"items\":[{\"SKU\":\"A\",\"refundReason\":\"LEGAL\",\"refundType\":\"CUSTOM\",\"revoke\":true}]",
            .nullRefundAmount
        ),
        (
            "\"items\":[{\"SKU\":\"A\",\"refundReason\":\"LEGAL\",\"refundType\":\"CUSTOM\",\"revoke\":true,\"refundAmount\":-1}]",
            .negativeRefundAmount
        ),
        (
            "\"items\":[{\"SKU\":\"A\",\"refundReason\":\"LEGAL\",\"refundType\":\"FULL\",\"revoke\":true,\"refundAmount\":1}]",
            .refundAmountWithoutCustom
        ),
        (
            "\"items\":[{\"SKU\":\"A\",\"refundReason\":\"LEGAL\",\"refundType\":\"FULL\",\"revoke\":true}]",
            .nullRefundRisking
        ),
        (
            "\"items\":[{\"SKU\":\"A\",\"refundReason\":\"LEGAL\",\"refundType\":\"FULL\",\"revoke\":true},"
                + "{\"SKU\":\"A\",\"refundReason\":\"LEGAL\",\"refundType\":\"FULL\",\"revoke\":true}]",
            .multipleOperations
        ),
        (
            "\"items\":[{\"SKU\":\"A\",\"refundReason\":\"LEGAL\",\"refundType\":\"FULL\",\"revoke\":true},"
                + "{\"SKU\":\"B\",\"refundReason\":\"SIMULATE_REFUND_DECLINE\",\"refundType\":\"FULL\",\"revoke\":true}]",
            .partialDecline
        ),
    ])
    func refund_malformed_isRefusedByItsCode(fields: String, expected: StoreError) {
        #expect(throws: expected) { try RefundOrder(Self.bytes(fields), isProduction: false) }
    }

    @Test(arguments: [
        ("", StoreError.invalidProductChanges), ("\"items\":[{}]", .nullCurrentSKU),
        ("\"items\":[{\"currentSKU\":\"A\"}]", .nullEffective),
        ("\"items\":[{\"currentSKU\":\"A\",\"effective\":\"SOON\"}]", .malformedPayload),
        (
            "\"items\":[{\"currentSKU\":\"A\",\"effective\":\"IMMEDIATELY\"}]",
            .invalidProductChanges
        ),
        (
            "\"items\":[{\"currentSKU\":\"A\",\"effective\":\"IMMEDIATELY\",\"displayName\":\"\(String(repeating: "n", count: 31))\"}]",
            .displayNameLengthExceeded
        ),
        (
            "\"items\":[{\"currentSKU\":\"A\",\"effective\":\"IMMEDIATELY\",\"description\":\"\(String(repeating: "n", count: 46))\"}]",
            .descriptionLengthExceeded
        ),
        ("\"descriptors\":{\"effective\":\"IMMEDIATELY\"}", .nameOrDescription),
        ("\"taxCode\":\"none\"", .invalidTaxCode),
    ])
    func metadata_malformed_isRefusedByItsCode(fields: String, expected: StoreError) {
        #expect(throws: expected) { try MetadataOrder(Self.bytes(fields)) }
    }

    @Test(arguments: [
        ("", StoreError.nullDescriptors),
        ("\"descriptors\":{\"description\":\"d\"}", .nullDisplayName),
        ("\"descriptors\":{\"displayName\":\"n\"}", .nullDescription),
        ("\"descriptors\":{\"displayName\":\"n\",\"description\":\"d\"}", .nullItems),
        (
            "\"descriptors\":{\"displayName\":\"n\",\"description\":\"d\"},"
                + "\"items\":[{\"SKU\":\"A\",\"displayName\":\"n\",\"description\":\"d\"}]",
            .nullTargetProductID
        ),
        (
            "\"descriptors\":{\"displayName\":\"n\",\"description\":\"d\"},\"targetProductId\":\"p\","
                + "\"items\":[{\"SKU\":\"A\",\"displayName\":\"n\",\"description\":\"d\"}]",
            .nullTaxCode
        ),
    ])
    func migration_malformed_isRefusedByItsCode(fields: String, expected: StoreError) {
        #expect(throws: expected) { try MigrateOrder(Self.bytes(fields)) }
    }

    @Test(arguments: [
        (["sort": ["UP"]], StoreError.invalidSort), (["revoked": ["maybe"]], .invalidRevoked),
        (["startDate": ["x"]], .invalidStartDate), (["endDate": ["-1"]], .invalidEndDate),
        (["startDate": ["5"], "endDate": ["5"]], .startDateAfterEndDate),
        (["revision": ["?"]], .invalidRevision), (["productId": [""]], .invalidProductID),
    ])
    func transactions_askedForWrongly_areRefusedByTheirCode(
        query: [String: [String]], expected: StoreError
    ) {
        #expect(throws: expected) { try TransactionQuery(query) }
    }
}
