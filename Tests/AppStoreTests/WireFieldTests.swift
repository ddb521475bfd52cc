import JSONReading
import Testing

@testable import AppStore

/// One documented field: how it stands in JSON, and what is read of it.
struct FieldCase: Sendable, CustomTestStringConvertible {
    let model: String
    let name: String
    let sample: String
    let expected: String
    let read: @Sendable (JSONNode) -> String?

    var testDescription: String { "\(model).\(name)" }

    /// The field in an object of its own; what cannot be read without a SKU has one.
    func reading(_ value: String, besides: String = "") -> String? {
        let text = "{\"SKU\":\"S\",\(besides)\"\(name)\":\(value)}"
        return JSONDocument.read(Array(text.utf8)).flatMap(read)
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
    _ model: Model.Type, _ name: String,
    _ rows: [(String, String, String, @Sendable (Model) -> Any?)]
) -> [FieldCase] {
    rows.map { row in
        FieldCase(model: name, name: row.0, sample: row.1, expected: row.2) { json in
            model.init(json).flatMap(row.3).map { "\($0)" }
        }
    }
}

private let instant = "1767571200000"
private let instantRead = "Instant(milliseconds: 1767571200000)"

enum FieldTable {
    static let transaction = cases(
        WireTransaction.self, "transaction",
        [
            ("transactionId", "\"20\"", "20", { $0.transactionId }),
            ("originalTransactionId", "\"10\"", "10", { $0.originalTransactionId }),
            ("previousOriginalTransactionId", "\"5\"", "5", { $0.previousOriginalTransactionId }),
            ("webOrderLineItemId", "\"30\"", "30", { $0.webOrderLineItemId }),
            ("appTransactionId", "\"40\"", "40", { $0.appTransactionId }),
            ("bundleId", "\"com.example\"", "com.example", { $0.bundleId }),
            ("productId", "\"base\"", "base", { $0.productId }),
            ("subscriptionGroupIdentifier", "\"2\"", "2", { $0.subscriptionGroupIdentifier }),
            ("purchaseDate", instant, instantRead, { $0.purchaseDate }),
            ("originalPurchaseDate", instant, instantRead, { $0.originalPurchaseDate }),
            ("expiresDate", instant, instantRead, { $0.expiresDate }),
            ("quantity", "1", "1", { $0.quantity }),
            ("type", "\"Consumable\"", "Consumable", { $0.type }),
            ("appAccountToken", "\"7e3f\"", "7e3f", { $0.appAccountToken }),
            ("inAppOwnershipType", "\"PURCHASED\"", "PURCHASED", { $0.inAppOwnershipType }),
            ("signedDate", instant, instantRead, { $0.signedDate }),
            ("revocationReason", "1", "1", { $0.revocationReason }),
            ("revocationDate", instant, instantRead, { $0.revocationDate }),
            ("revocationType", "\"REFUND_FULL\"", "REFUND_FULL", { $0.revocationType }),
            ("revocationPercentage", "100000", "100000", { $0.revocationPercentage }),
            ("isUpgraded", "true", "true", { $0.isUpgraded }),
            ("offerType", "1", "1", { $0.offerType }),
            ("offerIdentifier", "\"o\"", "o", { $0.offerIdentifier }),
            ("offerDiscountType", "\"FREE_TRIAL\"", "FREE_TRIAL", { $0.offerDiscountType }),
            ("offerPeriod", "\"P1M\"", "P1M", { $0.offerPeriod }),
            ("environment", "\"Sandbox\"", "Sandbox", { $0.environment }),
            ("transactionReason", "\"RENEWAL\"", "RENEWAL", { $0.transactionReason }),
            ("storefront", "\"USA\"", "USA", { $0.storefront }),
            ("storefrontId", "\"143441\"", "143441", { $0.storefrontId }),
            ("price", "12990000000", "12990000000", { $0.price }),
            ("currency", "\"USD\"", "USD", { $0.currency }),
            ("billingPlanType", "\"MONTHLY\"", "MONTHLY", { $0.billingPlanType }),
            (
                "commitmentInfo", "{\"totalBillingPeriods\":12}", "12",
                { $0.commitmentInfo?.totalBillingPeriods }
            ),
            (
                "advancedCommerceInfo", "{\"taxCode\":\"C\"}", "C",
                { $0.advancedCommerceInfo?.taxCode }
            ),
        ])

    static let transactionParts =
        cases(
            WireTransaction.Commitment.self, "transaction.commitmentInfo",
            [
                ("billingPeriodNumber", "1", "1", { $0.billingPeriodNumber }),
                ("totalBillingPeriods", "12", "12", { $0.totalBillingPeriods }),
                ("commitmentExpiresDate", instant, instantRead, { $0.commitmentExpiresDate }),
                ("commitmentPrice", "12990", "12990", { $0.commitmentPrice }),
            ])
        + cases(
            WireTransaction.Info.self, "transaction.advancedCommerceInfo",
            [
                (
                    "descriptors", "{\"displayName\":\"d\"}", "d",
                    { $0.descriptors?.displayName }
                ),
                ("estimatedTax", "100", "100", { $0.estimatedTax }),
                ("taxExclusivePrice", "12980", "12980", { $0.taxExclusivePrice }),
                ("taxRate", "\"0.15\"", "0.15", { $0.taxRate }),
                ("taxCode", "\"C003-00-1\"", "C003-00-1", { $0.taxCode }),
                ("period", "\"P1M\"", "P1M", { $0.period }),
                ("requestReferenceId", "\"932c\"", "932c", { $0.requestReferenceId }),
                ("items", "[{\"SKU\":\"A\"}]", "[\"A\"]", { $0.items?.elements.map(\.SKU) }),
            ])
        + cases(
            WireTransaction.Item.self, "transaction.advancedCommerceInfo.items",
            [
                ("SKU", "\"A\"", "A", { $0.SKU }),
                ("displayName", "\"Größe\"", "Größe", { $0.displayName }),
                ("description", "\"d\"", "d", { $0.description }),
                ("price", "1299000000000", "1299000000000", { $0.price }),
                ("offer", "{\"periodCount\":3}", "3", { $0.offer?.periodCount }),
                (
                    "refunds", "[{\"refundType\":\"FULL\"}]", "[\"FULL\"]",
                    { $0.refunds?.elements.compactMap(\.refundType) }
                ),
                ("revocationDate", instant, instantRead, { $0.revocationDate }),
            ])
        + cases(
            WireTransaction.Refund.self, "transaction.advancedCommerceInfo.items.refunds",
            [
                ("refundAmount", "1299", "1299", { $0.refundAmount }),
                ("refundDate", instant, instantRead, { $0.refundDate }),
                ("refundReason", "\"LEGAL\"", "LEGAL", { $0.refundReason }),
                ("refundType", "\"CUSTOM\"", "CUSTOM", { $0.refundType }),
            ])

    static let sharedParts =
        cases(
            WireDescriptors.self, "advancedCommerceInfo.descriptors",
            [
                ("displayName", "\"n\"", "n", { $0.displayName }),
                ("description", "\"d\"", "d", { $0.description }),
            ])
        + cases(
            WireOffer.self, "advancedCommerceInfo.items.offer",
            [
                ("price", "1990", "1990", { $0.price }),
                ("period", "\"P1M\"", "P1M", { $0.period }),
                ("periodCount", "12", "12", { $0.periodCount }),
                ("reason", "\"WIN_BACK\"", "WIN_BACK", { $0.reason }),
            ])

    static let renewal = cases(
        WireRenewal.self, "renewal",
        [
            ("originalTransactionId", "\"10\"", "10", { $0.originalTransactionId }),
            ("autoRenewProductId", "\"base\"", "base", { $0.autoRenewProductId }),
            ("productId", "\"base\"", "base", { $0.productId }),
            ("autoRenewStatus", "1", "1", { $0.autoRenewStatus }),
            ("isInBillingRetryPeriod", "true", "true", { $0.isInBillingRetryPeriod }),
            ("expirationIntent", "1", "1", { $0.expirationIntent }),
            ("priceIncreaseStatus", "1", "1", { $0.priceIncreaseStatus }),
            ("gracePeriodExpiresDate", instant, instantRead, { $0.gracePeriodExpiresDate }),
            ("offerType", "1", "1", { $0.offerType }),
            ("offerIdentifier", "\"o\"", "o", { $0.offerIdentifier }),
            ("offerDiscountType", "\"ONE_TIME\"", "ONE_TIME", { $0.offerDiscountType }),
            ("offerPeriod", "\"P1M\"", "P1M", { $0.offerPeriod }),
            ("signedDate", instant, instantRead, { $0.signedDate }),
            ("environment", "\"Production\"", "Production", { $0.environment }),
            (
                "recentSubscriptionStartDate", instant, instantRead,
                { $0.recentSubscriptionStartDate }
            ),
            ("renewalDate", instant, instantRead, { $0.renewalDate }),
            ("renewalPrice", "12990", "12990", { $0.renewalPrice }),
            ("currency", "\"EUR\"", "EUR", { $0.currency }),
            (
                "eligibleWinBackOfferIds", "[\"a\",\"b\"]", "[\"a\", \"b\"]",
                { $0.eligibleWinBackOfferIds?.elements }
            ),
            ("appTransactionId", "\"40\"", "40", { $0.appTransactionId }),
            ("appAccountToken", "\"7e3f\"", "7e3f", { $0.appAccountToken }),
            ("renewalBillingPlanType", "\"MONTHLY\"", "MONTHLY", { $0.renewalBillingPlanType }),
            (
                "commitmentInfo", "{\"commitmentAutoRenewStatus\":1}", "1",
                { $0.commitmentInfo?.commitmentAutoRenewStatus }
            ),
            (
                "advancedCommerceInfo", "{\"consistencyToken\":\"1.2\"}", "1.2",
                { $0.advancedCommerceInfo?.consistencyToken }
            ),
        ])

    static let renewalParts =
        cases(
            WireRenewal.Commitment.self, "renewal.commitmentInfo",
            [
                (
                    "commitmentAutoRenewProductId", "\"base\"", "base",
                    { $0.commitmentAutoRenewProductId }
                ),
                ("commitmentAutoRenewStatus", "1", "1", { $0.commitmentAutoRenewStatus }),
                (
                    "commitmentRenewalBillingPlanType", "\"MONTHLY\"", "MONTHLY",
                    { $0.commitmentRenewalBillingPlanType }
                ),
                ("commitmentRenewalDate", instant, instantRead, { $0.commitmentRenewalDate }),
                ("commitmentRenewalPrice", "12990", "12990", { $0.commitmentRenewalPrice }),
            ])
        + cases(
            WireRenewal.Info.self, "renewal.advancedCommerceInfo",
            [
                ("consistencyToken", "\"1.2.3\"", "1.2.3", { $0.consistencyToken }),
                (
                    "descriptors", "{\"description\":\"d\"}", "d",
                    { $0.descriptors?.description }
                ),
                ("items", "[{\"SKU\":\"A\"}]", "[\"A\"]", { $0.items?.elements.map(\.SKU) }),
                ("period", "\"P1Y\"", "P1Y", { $0.period }),
                ("requestReferenceId", "\"932c\"", "932c", { $0.requestReferenceId }),
                ("taxCode", "\"C\"", "C", { $0.taxCode }),
            ])
        + cases(
            WireRenewal.Item.self, "renewal.advancedCommerceInfo.items",
            [
                ("SKU", "\"A\"", "A", { $0.SKU }),
                ("displayName", "\"n\"", "n", { $0.displayName }),
                ("description", "\"d\"", "d", { $0.description }),
                ("price", "12990", "12990", { $0.price }),
                ("offer", "{\"period\":\"P1M\"}", "P1M", { $0.offer?.period }),
                (
                    "priceIncreaseInfo", "{\"status\":\"PENDING\"}", "PENDING",
                    { $0.priceIncreaseInfo?.status }
                ),
            ])
        + cases(
            WireRenewal.Increase.self, "renewal.advancedCommerceInfo.items.priceIncreaseInfo",
            [
                ("status", "\"SCHEDULED\"", "SCHEDULED", { $0.status }),
                ("price", "12990", "12990", { $0.price }),
                ("dependentSKUs", "[\"B\"]", "[\"B\"]", { $0.dependentSKUs?.elements }),
            ])

    static let notification = cases(
        WireNotification.self, "notification",
        [
            ("notificationType", "\"TEST\"", "TEST", { $0.notificationType }),
            ("subtype", "\"PENDING\"", "PENDING", { $0.subtype }),
            ("notificationUUID", "\"u\"", "u", { $0.notificationUUID }),
            ("version", "\"2.0\"", "2.0", { $0.version }),
            ("signedDate", instant, instantRead, { $0.signedDate }),
            ("data", "{\"status\":5}", "5", { $0.data?.status }),
            ("summary", "{\"productId\":\"p\"}", "p", { $0.summary?.productId }),
            ("appData", "{\"bundleId\":\"b\"}", "b", { $0.appData?.bundleId }),
            (
                "externalPurchaseToken", "{\"externalPurchaseId\":\"x\"}", "x",
                { $0.externalPurchaseToken?.externalPurchaseId }
            ),
        ])

    static let bodies = cases(
        WireNotification.Body.self, "notification body",
        [
            ("appAppleId", "1234567890123", "1234567890123", { $0.appAppleId }),
            ("bundleId", "\"b\"", "b", { $0.bundleId }),
            ("bundleVersion", "\"1\"", "1", { $0.bundleVersion }),
            ("environment", "\"Sandbox\"", "Sandbox", { $0.environment }),
            ("status", "1", "1", { $0.status }),
            ("signedTransactionInfo", "\"a.b.c\"", "a.b.c", { $0.signedTransactionInfo }),
            ("signedRenewalInfo", "\"a.b.c\"", "a.b.c", { $0.signedRenewalInfo }),
            ("consumptionRequestReason", "\"LEGAL\"", "LEGAL", { $0.consumptionRequestReason }),
            ("requestIdentifier", "\"r\"", "r", { $0.requestIdentifier }),
            ("productId", "\"p\"", "p", { $0.productId }),
            (
                "storefrontCountryCodes", "[\"USA\"]", "[\"USA\"]",
                { $0.storefrontCountryCodes?.elements }
            ),
            ("succeededCount", "1", "1", { $0.succeededCount }),
            ("failedCount", "1", "1", { $0.failedCount }),
            ("externalPurchaseId", "\"SANDBOX_1\"", "SANDBOX_1", { $0.externalPurchaseId }),
            ("tokenCreationDate", instant, instantRead, { $0.tokenCreationDate }),
            ("tokenExpirationDate", instant, instantRead, { $0.tokenExpirationDate }),
            ("tokenType", "\"ACQUISITION\"", "ACQUISITION", { $0.tokenType }),
            ("signedAppTransactionInfo", "\"a.b.c\"", "a.b.c", { $0.signedAppTransactionInfo }),
        ])

    static let all =
        transaction + transactionParts + sharedParts + renewal + renewalParts + notification
        + bodies
}

@Suite struct WireFieldTests {
    @Test(arguments: FieldTable.all)
    func field_whenWrittenAsDocumented_isRead(field: FieldCase) {
        #expect(field.reading(field.sample) == field.expected)
        #expect(field.reading(field.sample, besides: "\"new\":[{}],") == field.expected)
    }

    @Test(arguments: FieldTable.all)
    func field_whenNullOrOfAnotherType_isAbsent(field: FieldCase) {
        for value in ["null"] + field.wrongValues {
            #expect(field.reading(value) == nil, "\(value)")
        }
    }

    @Test(arguments: FieldTable.all.filter { $0.sample.first?.isNumber ?? false })
    func number_whenBeyondItsRange_isAbsentAndNeverRounded(field: FieldCase) {
        let isInstant = field.expected == instantRead

        #expect(field.reading("9223372036854775808") == nil)
        #expect(field.reading("1e400") == nil)
        #expect(field.reading("1.5") == (isInstant ? "Instant(milliseconds: 1)" : nil))
        #expect(field.reading("-1.5") == (isInstant ? "Instant(milliseconds: -2)" : nil))
        #expect(field.reading("\(field.sample).000") == field.expected)
    }

    @Test func number_whenLarge_isExactToTheLastDigit() {
        for field in FieldTable.all where field.sample.first?.isNumber ?? false {
            let isInstant = field.expected == instantRead
            let exact = "9007199254740993"
            #expect(
                field.reading(exact)
                    == (isInstant ? "Instant(milliseconds: \(exact))" : exact))
        }
    }

    @Test func lists_whenAnElementIsUnreadable_countIt() throws {
        let text =
            "{\"items\":[{\"SKU\":\"A\"},{},7,{\"SKU\":1},{\"SKU\":\"\\ud800\"}],\"dependentSKUs\":[\"A\",1]}"
        let json = try #require(JSONDocument.read(Array(text.utf8)))

        let items = try #require(WireRenewal.Info(json)?.items)
        let dependents = try #require(WireRenewal.Increase(json)?.dependentSKUs)
        #expect(items.elements.map(\.SKU) == ["A"])
        #expect(items.unreadable == 4)
        #expect(dependents.elements == ["A"])
        #expect(dependents.unreadable == 1)
    }

    @Test func table_always_coversEveryDocumentedField() {
        func names(_ shape: WireShape) -> Set<String> {
            Set(
                shape.fields.flatMap { field -> Set<String> in
                    switch field.form {
                    case .object(let inner), .list(let inner):
                        names(inner).union(["\(field.name)"])
                    case .text, .integer, .instant, .boolean, .texts, .word, .code:
                        ["\(field.name)"]
                    }
                })
        }
        func names(_ cases: [FieldCase]) -> Set<String> { Set(cases.map(\.name)) }

        #expect(
            names(.transaction)
                == names(
                    FieldTable.transaction + FieldTable.transactionParts + FieldTable.sharedParts))
        #expect(
            names(.renewal)
                == names(FieldTable.renewal + FieldTable.renewalParts + FieldTable.sharedParts))
        #expect(names(.notification) == names(FieldTable.notification + FieldTable.bodies))
    }
}
