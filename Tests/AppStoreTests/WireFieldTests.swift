import JSON
import Pricing
import Testing

@testable import AppStore

/// One documented field: how it stands in JSON, and what is read of it.
struct FieldCase: Sendable, CustomTestStringConvertible {
    let shape: WireShape
    /// The payload around it, with `%` in its place.
    let around: String
    let name: String
    let sample: String
    /// nil where nothing of it is read, for it is known all the same.
    let expected: String?
    let read: @Sendable (JSONNode) -> String?

    var testDescription: String { around.replacing("%", with: name) }

    private func payload(_ value: String, besides: String = "") -> JSONNode? {
        let text = around.replacing("%", with: "\(besides)\"\(name)\":\(value)")
        return JSONDocument.read(Array(text.utf8))
    }

    func reading(_ value: String, besides: String = "") -> String? {
        payload(value, besides: besides).flatMap(read)
    }

    /// What the documented shapes do not know of it.
    func unknown(_ value: String) -> [String]? {
        payload(value).map { json in
            var scan = UnknownScan()
            scan.compare(json, with: shape, named: "x")
            return scan.parts.map(\.description)
        }
    }

    /// Values of every other JSON type.
    var wrongValues: [String] {
        let byFirst: [Character: String] = [
            "\"": "\"x\"", "t": "true", "[": "[]", "{": "{}", "1": "1",
        ]
        return byFirst.filter { $0.key != sample.first }.map(\.value).sorted()
    }
}

private func cases<Model: WireObject>(
    _ model: Model.Type, _ shape: WireShape, _ around: String,
    _ rows: [(String, String, String, @Sendable (Model) -> Any?)]
) -> [FieldCase] {
    rows.map { row in
        FieldCase(shape: shape, around: around, name: row.0, sample: row.1, expected: row.2) {
            model.init($0).flatMap(row.3).map { "\($0)" }
        }
    }
}

/// Fields that are kept under their own names: what is kept reads as it was written.
private func details<Model: WireObject>(
    _ model: Model.Type, _ shape: WireShape, _ kept: @escaping @Sendable (Model) -> SignedDetails,
    _ rows: [(SignedDetails.Field, String)]
) -> [FieldCase] {
    rows.map { field, sample in
        FieldCase(
            shape: shape, around: "{%}", name: field.rawValue, sample: sample,
            expected: sample
        ) {
            model.init($0).map(kept).flatMap { details in
                details.isEmpty ? nil : written(details, field)
            }
        }
    }
}

/// The value alone of the only one.
private func written(_ details: SignedDetails, _ field: SignedDetails.Field) -> String {
    var json = JSONWriter()
    details.write(&json)
    return String(json.text.dropFirst("{\"\(field.rawValue)\":".count).dropLast())
}

/// Fields that are known and not read.
private func known(
    _ shape: WireShape, _ around: String, _ rows: [(String, String)]
) -> [FieldCase] {
    rows.map {
        FieldCase(shape: shape, around: around, name: $0.0, sample: $0.1, expected: nil) { _ in nil
        }
    }
}

private let instant = "1767571200000"
private let token = "7e3f1a50-0000-4000-8000-000000000001"
private let instantRead = "Instant(milliseconds: 1767571200000)"
private let info = "{\"advancedCommerceInfo\":{%}}"
private let item = "{\"advancedCommerceInfo\":{\"items\":[{\"SKU\":\"S\",%}]}}"
/// A refund, which has both its amount and its date, with another field.
private func refund(_ others: String) -> String {
    "{\"advancedCommerceInfo\":{\"items\":[{\"SKU\":\"S\",\"refunds\":[{%,\(others)}]}]}}"
}
private let offer = "{\"advancedCommerceInfo\":{\"items\":[{\"SKU\":\"S\",\"offer\":{%}}]}}"

enum FieldTable {
    static let transaction =
        cases(
            WireTransaction.self, .transaction, "{%}",
            [
                ("transactionId", "\"20\"", "20", { $0.statement.transactionID }),
                ("originalTransactionId", "\"10\"", "10", { $0.originalTransactionId }),
                ("bundleId", "\"com.example\"", "com.example", { $0.bundleId }),
                ("productId", "\"base\"", "base", { $0.statement.productID }),
                ("purchaseDate", instant, instantRead, { $0.statement.purchasedAt }),
                ("originalPurchaseDate", instant, instantRead, { $0.statement.originalPurchaseAt }),
                ("expiresDate", instant, instantRead, { $0.statement.expiresAt }),
                (
                    "type", "\"Consumable\"", "no subscription",
                    { $0.isSubscription ? nil : "no subscription" }
                ),
                ("appAccountToken", "\"\(token)\"", token, { $0.statement.appAccountToken }),
                (
                    "inAppOwnershipType", "\"PURCHASED\"", "PURCHASED",
                    { $0.statement.ownershipType }
                ),
                ("signedDate", instant, instantRead, { $0.signedDate }),
                ("revocationDate", instant, instantRead, { $0.statement.revokedAt }),
                (
                    "offerDiscountType", "\"FREE_TRIAL\"", "FREE_TRIAL",
                    { $0.statement.offerDiscountType }
                ),
                ("environment", "\"Sandbox\"", "Sandbox", { $0.environment }),
                ("transactionReason", "\"RENEWAL\"", "RENEWAL", { $0.statement.reason }),
                ("storefront", "\"USA\"", "USA", { $0.statement.storefront }),
                ("price", "12990000000", "12990000000", { $0.statement.price }),
                ("currency", "\"USD\"", "USD", { $0.statement.currency }),
                ("advancedCommerceInfo", "{\"period\":\"P1M\"}", "P1M", { $0.statement.period }),
                ("appTransactionId", "\"40\"", "40", { $0.statement.appTransactionID }),
                ("quantity", "1", "1", { $0.statement.quantity }),
                ("offerType", "1", "1", { $0.statement.offerType }),
            ])
        + details(
            WireTransaction.self, .transaction, { $0.statement.details },
            [
                (.revocationReason, "1"), (.revocationType, "\"REFUND_FULL\""),
                (.revocationPercentage, "100000"), (.isUpgraded, "true"),
                (.offerIdentifier, "\"o\""), (.offerPeriod, "\"P1M\""),
                (.billingPlanType, "\"MONTHLY\""),
                (.additionalTransactionReason, "\"SEAT_ADDITION\""),
            ])
        + known(
            .transaction, "{%}",
            [
                ("previousOriginalTransactionId", "\"5\""), ("webOrderLineItemId", "\"30\""),
                ("subscriptionGroupIdentifier", "\"2\""), ("storefrontId", "\"143441\""),
                ("commitmentInfo", "{\"totalBillingPeriods\":12}"),
            ])
        + known(
            .transaction, "{\"commitmentInfo\":{%}}",
            [
                ("billingPeriodNumber", "1"), ("totalBillingPeriods", "12"),
                ("commitmentExpiresDate", instant), ("commitmentPrice", "12990"),
            ])
        + cases(
            WireTransaction.self, .transaction, info,
            [
                ("period", "\"P1M\"", "P1M", { $0.statement.period }),
                ("items", "[{\"SKU\":\"A\"}]", "A", { $0.statement.items.first?.sku }),
            ])
        + known(
            .transaction, info,
            [
                ("descriptors", "{\"displayName\":\"d\",\"description\":\"e\"}"),
                ("estimatedTax", "100"), ("taxExclusivePrice", "12980"), ("taxRate", "\"0.15\""),
                ("taxCode", "\"C003-00-1\""), ("requestReferenceId", "\"932c\""),
            ])
        + cases(
            WireTransaction.self, .transaction, item,
            [
                ("SKU", "\"A\"", "A", { $0.statement.items.first?.sku }),
                ("price", "1299000000000", "1299000000000", { $0.statement.items.first?.price }),
                (
                    "offer", "{\"periodCount\":3}", "3",
                    { $0.statement.items.first?.offerPeriodCount }
                ),
                ("revocationDate", instant, instantRead, { $0.statement.items.first?.revokedAt }),
            ])
        + known(
            .transaction, item,
            [
                ("displayName", "\"Größe\""), ("description", "\"d\""),
                ("refunds", "[{\"refundAmount\":1,\"refundDate\":1}]"),
            ])
        + cases(
            WireTransaction.self, .transaction, offer,
            [
                ("price", "1990", "1990", { $0.statement.items.first?.offerPrice }),
                ("period", "\"P1M\"", "P1M", { $0.statement.items.first?.offerPeriod }),
                ("periodCount", "12", "12", { $0.statement.items.first?.offerPeriodCount }),
                ("reason", "\"WIN_BACK\"", "WIN_BACK", { $0.statement.items.first?.offerReason }),
            ])
        + known(.transaction, refund("\"refundDate\":1"), [("refundAmount", "1299")])
        + known(.transaction, refund("\"refundAmount\":1"), [("refundDate", instant)])
        + known(
            .transaction, refund("\"refundAmount\":1,\"refundDate\":1"),
            [("refundReason", "\"LEGAL\""), ("refundType", "\"CUSTOM\"")])
        + known(
            .transaction, "{\"advancedCommerceInfo\":{\"descriptors\":{%}}}",
            [("displayName", "\"n\""), ("description", "\"d\"")])

    static let renewal =
        cases(
            WireRenewal.self, .renewal, "{%}",
            [
                ("originalTransactionId", "\"10\"", "10", { $0.originalTransactionId }),
                ("productId", "\"base\"", "base", { $0.statement.productID }),
                ("autoRenewStatus", "1", "1", { $0.statement.autoRenewStatus }),
                ("isInBillingRetryPeriod", "true", "true", { $0.statement.isInBillingRetry }),
                ("expirationIntent", "1", "1", { $0.statement.expirationIntent }),
                (
                    "gracePeriodExpiresDate", instant, instantRead,
                    { $0.statement.gracePeriodExpiresAt }
                ),
                ("signedDate", instant, instantRead, { $0.signedDate }),
                ("environment", "\"Production\"", "Production", { $0.environment }),
                (
                    "recentSubscriptionStartDate", instant, instantRead,
                    { $0.statement.recentSubscriptionStartAt }
                ),
                ("renewalDate", instant, instantRead, { $0.statement.renewalAt }),
                ("currency", "\"EUR\"", "EUR", { $0.statement.currency }),
                ("appAccountToken", "\"\(token)\"", token, { $0.statement.appAccountToken }),
                (
                    "advancedCommerceInfo", "{\"consistencyToken\":\"1.2\"}", "1.2",
                    { $0.statement.consistencyToken }
                ),
                ("autoRenewProductId", "\"base\"", "base", { $0.statement.autoRenewProductID }),
                ("renewalPrice", "12990000000", "12990000000", { $0.statement.price }),
                ("offerType", "1", "1", { $0.statement.offerType }),
                ("appTransactionId", "\"40\"", "40", { $0.statement.appTransactionID }),
            ])
        + details(
            WireRenewal.self, .renewal, { $0.statement.details },
            [
                (.priceIncreaseStatus, "1"), (.offerIdentifier, "\"o\""),
                (.offerDiscountType, "\"ONE_TIME\""), (.offerPeriod, "\"P1M\""),
                (.eligibleWinBackOfferIds, "[\"a\",\"b\"]"),
                (.renewalBillingPlanType, "\"MONTHLY\""), (.renewalQuantity, "12"),
            ])
        + known(
            .renewal, "{%}", [("commitmentInfo", "{\"commitmentAutoRenewStatus\":1}")])
        + known(
            .renewal, "{\"commitmentInfo\":{%}}",
            [
                ("commitmentAutoRenewProductId", "\"base\""), ("commitmentAutoRenewStatus", "1"),
                ("commitmentRenewalBillingPlanType", "\"MONTHLY\""),
                ("commitmentRenewalDate", instant), ("commitmentRenewalPrice", "12990"),
            ])
        + cases(
            WireRenewal.self, .renewal, info,
            [
                ("consistencyToken", "\"1.2.3\"", "1.2.3", { $0.statement.consistencyToken }),
                ("items", "[{\"SKU\":\"A\"}]", "A", { $0.statement.items?.first?.sku }),
                ("period", "\"P1Y\"", "P1Y", { $0.statement.period }),
            ])
        + known(
            .renewal, info,
            [
                ("descriptors", "{\"description\":\"d\"}"), ("requestReferenceId", "\"932c\""),
                ("taxCode", "\"C\""),
            ])
        + cases(
            WireRenewal.self, .renewal, item,
            [
                ("SKU", "\"A\"", "A", { $0.statement.items?.first?.sku }),
                ("price", "12990", "12990", { $0.statement.items?.first?.price }),
                (
                    "offer", "{\"period\":\"P1M\"}", "P1M",
                    { $0.statement.items?.first?.offerPeriod }
                ),
                (
                    "priceIncreaseInfo", "{\"status\":\"PENDING\"}", "PENDING",
                    { $0.statement.items?.first?.increaseStatus }
                ),
            ])
        + known(.renewal, item, [("displayName", "\"n\""), ("description", "\"d\"")])
        + cases(
            WireRenewal.self, .renewal, offer,
            [
                ("price", "1990", "1990", { $0.statement.items?.first?.offerPrice }),
                ("period", "\"P1M\"", "P1M", { $0.statement.items?.first?.offerPeriod }),
                ("periodCount", "12", "12", { $0.statement.items?.first?.offerPeriodCount }),
                ("reason", "\"WIN_BACK\"", "WIN_BACK", { $0.statement.items?.first?.offerReason }),
            ])
        + cases(
            WireRenewal.self, .renewal,
            "{\"advancedCommerceInfo\":{\"items\":[{\"SKU\":\"S\",\"priceIncreaseInfo\":{%}}]}}",
            [
                (
                    "status", "\"SCHEDULED\"", "SCHEDULED",
                    { $0.statement.items?.first?.increaseStatus }
                ),
                ("price", "12990", "12990", { $0.statement.items?.first?.increasePrice }),
                (
                    "dependentSKUs", "[\"B\"]", "[\"B\"]",
                    { $0.statement.items?.first?.dependentSKUs }
                ),
            ])
        + known(
            .renewal, "{\"advancedCommerceInfo\":{\"descriptors\":{%}}}",
            [("displayName", "\"n\""), ("description", "\"d\"")])

    private static func summary(_ wire: WireNotification) -> ExtensionSummary? {
        NotificationParts(
            payload: [], wire: wire, transaction: .absent, renewal: .absent
        ).notification(receivedAt: Instant(milliseconds: 0)).summary
    }

    static let notification =
        cases(
            WireNotification.self, .notification, "{%}",
            [
                ("notificationType", "\"TEST\"", "TEST", { $0.notificationType }),
                ("subtype", "\"PENDING\"", "PENDING", { $0.subtype }),
                ("notificationUUID", "\"u\"", "u", { $0.name }),
                ("signedDate", instant, instantRead, { $0.signedDate }),
                ("data", "{\"status\":5}", "5", { $0.data?["status"]?.int }),
                ("summary", "{\"productId\":\"p\"}", "p", { summary($0)?.productID }),
                ("appData", "{\"bundleId\":\"b\"}", "b", { $0.appData?["bundleId"]?.text }),
                (
                    "externalPurchaseToken", "{\"externalPurchaseId\":\"x\"}", "x",
                    { $0.externalPurchaseToken?["externalPurchaseId"]?.text }
                ),
            ])
        + known(.notification, "{%}", [("version", "\"2.0\"")])
        + known(
            .notification, "{\"data\":{%}}",
            [
                ("appAppleId", "1234567890123"), ("bundleId", "\"b\""), ("bundleVersion", "\"1\""),
                ("environment", "\"Sandbox\""), ("status", "1"),
                ("signedTransactionInfo", "\"a.b.c\""), ("signedRenewalInfo", "\"a.b.c\""),
                ("consumptionRequestReason", "\"LEGAL\""),
            ])
        + cases(
            WireNotification.self, .notification, "{\"summary\":{%}}",
            [
                ("requestIdentifier", "\"r\"", "r", { summary($0)?.requestIdentifier }),
                ("productId", "\"p\"", "p", { summary($0)?.productID }),
                ("storefrontCountryCodes", "[\"USA\"]", "[\"USA\"]", { summary($0)?.storefronts }),
                ("succeededCount", "1", "1", { summary($0)?.succeeded }),
                ("failedCount", "1", "1", { summary($0)?.failed }),
            ])
        + known(
            .notification, "{\"externalPurchaseToken\":{%}}",
            [
                ("externalPurchaseId", "\"SANDBOX_1\""), ("tokenCreationDate", instant),
                ("tokenExpirationDate", instant), ("tokenType", "\"ACQUISITION\""),
            ])
        + known(
            .notification, "{\"appData\":{%}}", [("signedAppTransactionInfo", "\"a.b.c\"")])

    static let all = transaction + renewal + notification
    static let read = all.filter { $0.expected != nil }
}

@Suite struct WireFieldTests {
    @Test(arguments: FieldTable.read)
    func field_whenWrittenAsDocumented_isRead(field: FieldCase) {
        #expect(field.reading(field.sample) == field.expected)
        #expect(field.reading(field.sample, besides: "\"new\":[{}],") == field.expected)
    }

    @Test(arguments: FieldTable.all)
    func field_whenWrittenAsDocumented_isKnown(field: FieldCase) {
        #expect(field.unknown(field.sample) == [])
        for value in field.wrongValues {
            let parts = field.unknown(value) ?? []
            #expect(
                parts.contains { $0.hasPrefix("shape:x.") && $0.contains("\(field.name):") },
                "\(value) \(parts)")
        }
    }

    @Test(arguments: FieldTable.read)
    func field_whenNullOrOfAnotherType_isAbsent(field: FieldCase) {
        for value in ["null"] + field.wrongValues {
            #expect(field.reading(value) == nil, "\(value)")
        }
    }

    @Test(arguments: FieldTable.read.filter { $0.sample.first?.isNumber ?? false })
    func number_whenBeyondItsRange_isAbsentAndNeverRounded(field: FieldCase) {
        let isInstant = field.expected == instantRead

        #expect(field.reading("9223372036854775808") == nil)
        #expect(field.reading("1e400") == nil)
        #expect(field.reading("1.5") == (isInstant ? "Instant(milliseconds: 1)" : nil))
        #expect(field.reading("-1.5") == (isInstant ? "Instant(milliseconds: -2)" : nil))
        #expect(field.reading("\(field.sample).000") == field.expected)
    }

    @Test func number_whenLarge_isExactToTheLastDigit() {
        for field in FieldTable.read where field.sample.first?.isNumber ?? false {
            let isInstant = field.expected == instantRead
            let exact = "9007199254740993"
            #expect(
                field.reading(exact)
                    == (isInstant ? "Instant(milliseconds: \(exact))" : exact))
        }
    }

    /// Two subscriptions that bear such a text are not one customer's.
    @Test(arguments: ["", " ", "0", "customer-7", "00000000-0000-0000-0000-000000000000"])
    func customerToken_thatIsNoUUID_namesNobody(token: String) throws {
        let text = "{\"appAccountToken\":\"\(token)\"}"
        let json = try #require(JSONDocument.read(Array(text.utf8)))

        #expect(try #require(WireTransaction(json)).statement.appAccountToken == nil)
        #expect(try #require(WireRenewal(json)).statement.appAccountToken == nil)
    }

    @Test func lists_whenAnElementIsUnreadable_leaveItOut() throws {
        let items = "{\"SKU\":\"A\"},{},7,{\"SKU\":1},{\"SKU\":\"\\ud800\"}"
        let text = "{\"advancedCommerceInfo\":{\"items\":[\(items)]}}"
        let json = try #require(JSONDocument.read(Array(text.utf8)))
        let increase = "{\"dependentSKUs\":[\"A\",1]}"
        let asked =
            "{\"advancedCommerceInfo\":{\"items\":[{\"SKU\":\"S\",\"priceIncreaseInfo\":\(increase)}]}}"
        let told = try #require(JSONDocument.read(Array(asked.utf8)))

        // An item that only seems to be missing would look declined.
        #expect(WireTransaction(json)?.statement.items.map(\.sku) == ["A"])
        #expect(WireTransaction(json)?.statement.isIncomplete == true)
        #expect(WireRenewal(json)?.statement.items == nil)
        #expect(WireRenewal(told)?.statement.items?.first?.dependentSKUs == ["A"])
    }

    @Test func table_always_coversEveryDocumentedField() {
        func names(_ shape: WireShape) -> Set<String> {
            Set(
                shape.fields.flatMap { field -> Set<String> in
                    switch field.form {
                    case .object(let inner), .list(let inner):
                        names(inner).union(["\(field.name)"])
                    case .text, .integer, .amount, .instant, .boolean, .texts, .word, .code:
                        ["\(field.name)"]
                    }
                })
        }
        func names(_ cases: [FieldCase]) -> Set<String> { Set(cases.map(\.name)) }

        #expect(names(.transaction) == names(FieldTable.transaction))
        #expect(names(.renewal) == names(FieldTable.renewal))
        #expect(names(.notification) == names(FieldTable.notification))
    }
}
