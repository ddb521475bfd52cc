/// The documented fields and values of the three payloads, to the leaf.
extension WireShape {
    private static let environments: Form = .word([
        "Sandbox", "Production", "Xcode", "LocalTesting",
    ])
    private static let periods: Form = .word(["P1W", "P1M", "P2M", "P3M", "P6M", "P1Y"])
    private static let offerTypes: Form = .code([1, 2, 3, 4])
    private static let offerDiscountTypes: Form = .word([
        "FREE_TRIAL", "PAY_AS_YOU_GO", "PAY_UP_FRONT", "ONE_TIME",
    ])
    private static let billingPlanTypes: Form = .word(["BILLED_UPFRONT", "MONTHLY"])
    private static let switches: Form = .code([0, 1])

    private static let descriptors = WireShape([
        Field("displayName", .text), Field("description", .text),
    ])

    private static let offer = WireShape([
        Field("price", .integer),
        Field(
            "period",
            .word(["P3D", "P1W", "P2W", "P1M", "P2M", "P3M", "P6M", "P9M", "P1Y"])),
        Field("periodCount", .integer),
        Field("reason", .word(["ACQUISITION", "WIN_BACK", "RETENTION"])),
    ])

    static let notification = WireShape([
        Field("notificationType", .text), Field("subtype", .text),
        Field("notificationUUID", .text), Field("version", .word(["2.0"])),
        Field("signedDate", .instant), Field("data", .object(data)),
        Field("summary", .object(summary)), Field("appData", .object(appData)),
        Field("externalPurchaseToken", .object(externalPurchaseToken)),
    ])

    static let data = WireShape([
        Field("appAppleId", .integer), Field("bundleId", .text), Field("bundleVersion", .text),
        Field("environment", environments), Field("status", .code([1, 2, 3, 4, 5])),
        Field("signedTransactionInfo", .text), Field("signedRenewalInfo", .text),
        Field(
            "consumptionRequestReason",
            .word([
                "UNINTENDED_PURCHASE", "FULFILLMENT_ISSUE", "UNSATISFIED_WITH_PURCHASE", "LEGAL",
                "OTHER",
            ])),
    ])

    static let summary = WireShape([
        Field("requestIdentifier", .text), Field("environment", environments),
        Field("appAppleId", .integer), Field("bundleId", .text), Field("productId", .text),
        Field("storefrontCountryCodes", .texts), Field("succeededCount", .integer),
        Field("failedCount", .integer),
    ])

    static let appData = WireShape([
        Field("appAppleId", .integer), Field("bundleId", .text),
        Field("environment", environments), Field("signedAppTransactionInfo", .text),
    ])

    static let externalPurchaseToken = WireShape([
        Field("externalPurchaseId", .text), Field("tokenCreationDate", .instant),
        Field("tokenExpirationDate", .instant), Field("tokenType", .text),
        Field("appAppleId", .integer), Field("bundleId", .text),
    ])

    static let transaction = WireShape([
        Field("transactionId", .text), Field("originalTransactionId", .text),
        Field("previousOriginalTransactionId", .text), Field("webOrderLineItemId", .text),
        Field("appTransactionId", .text), Field("bundleId", .text), Field("productId", .text),
        Field("subscriptionGroupIdentifier", .text), Field("purchaseDate", .instant),
        Field("originalPurchaseDate", .instant), Field("expiresDate", .instant),
        Field("quantity", .integer),
        Field(
            "type",
            .word([
                "Auto-Renewable Subscription", "Non-Consumable", "Consumable",
                "Non-Renewing Subscription",
            ])),
        Field("appAccountToken", .text),
        Field("inAppOwnershipType", .word(["PURCHASED", "FAMILY_SHARED", "ASSIGNED"])),
        Field("signedDate", .instant), Field("revocationReason", .code([0, 1])),
        Field("revocationDate", .instant),
        Field(
            "revocationType",
            .word(["REFUND_FULL", "REFUND_PRORATED", "FAMILY_REVOKE", "ASSIGNMENT_REVOKE"])),
        Field("revocationPercentage", .integer), Field("isUpgraded", .boolean),
        Field("offerType", offerTypes), Field("offerIdentifier", .text),
        Field("offerDiscountType", offerDiscountTypes), Field("offerPeriod", .text),
        Field("environment", environments),
        Field("transactionReason", .word(["PURCHASE", "RENEWAL"])),
        Field("additionalTransactionReason", .word(["SEAT_ADDITION"])), Field("storefront", .text),
        Field("storefrontId", .text), Field("price", .integer), Field("currency", .text),
        Field("billingPlanType", billingPlanTypes),
        Field("commitmentInfo", .object(transactionCommitment)),
        Field("advancedCommerceInfo", .object(transactionInfo)),
    ])

    private static let transactionCommitment = WireShape([
        Field("billingPeriodNumber", .integer), Field("totalBillingPeriods", .integer),
        Field("commitmentExpiresDate", .instant), Field("commitmentPrice", .integer),
    ])

    private static let transactionInfo = WireShape([
        Field("descriptors", .object(descriptors)), Field("estimatedTax", .integer),
        Field("taxExclusivePrice", .integer), Field("taxRate", .text), Field("taxCode", .text),
        Field("period", periods), Field("requestReferenceId", .text),
        Field("items", .list(transactionItem)),
    ])

    private static let transactionItem = WireShape(
        required: ["SKU"],
        [
            Field("SKU", .text), Field("displayName", .text), Field("description", .text),
            Field("price", .integer), Field("offer", .object(offer)),
            Field("refunds", .list(refund)), Field("revocationDate", .instant),
        ])

    private static let refund = WireShape(
        required: ["refundAmount", "refundDate"],
        [
            Field("refundAmount", .amount), Field("refundDate", .instant),
            Field(
                "refundReason",
                .word([
                    "UNINTENDED_PURCHASE", "FULFILLMENT_ISSUE", "UNSATISFIED_WITH_PURCHASE",
                    "LEGAL", "OTHER", "MODIFY_ITEMS_REFUND", "SIMULATE_REFUND_DECLINE",
                ])),
            Field("refundType", .word(["FULL", "PRORATED", "CUSTOM"])),
        ])

    static let renewal = WireShape([
        Field("originalTransactionId", .text), Field("autoRenewProductId", .text),
        Field("productId", .text), Field("autoRenewStatus", switches),
        Field("isInBillingRetryPeriod", .boolean),
        Field("expirationIntent", .code([1, 2, 3, 4, 5])),
        Field("priceIncreaseStatus", switches), Field("gracePeriodExpiresDate", .instant),
        Field("offerType", offerTypes), Field("offerIdentifier", .text),
        Field("offerDiscountType", offerDiscountTypes), Field("offerPeriod", .text),
        Field("signedDate", .instant), Field("environment", environments),
        Field("recentSubscriptionStartDate", .instant), Field("renewalDate", .instant),
        Field("renewalPrice", .integer), Field("renewalQuantity", .integer),
        Field("currency", .text),
        Field("eligibleWinBackOfferIds", .texts), Field("appTransactionId", .text),
        Field("appAccountToken", .text), Field("renewalBillingPlanType", billingPlanTypes),
        Field("commitmentInfo", .object(renewalCommitment)),
        Field("advancedCommerceInfo", .object(renewalInfo)),
    ])

    private static let renewalCommitment = WireShape([
        Field("commitmentAutoRenewProductId", .text),
        Field("commitmentAutoRenewStatus", switches),
        Field("commitmentRenewalBillingPlanType", billingPlanTypes),
        Field("commitmentRenewalDate", .instant), Field("commitmentRenewalPrice", .integer),
    ])

    private static let renewalInfo = WireShape([
        Field("consistencyToken", .text), Field("descriptors", .object(descriptors)),
        Field("items", .list(renewalItem)), Field("period", periods),
        Field("requestReferenceId", .text), Field("taxCode", .text),
    ])

    private static let renewalItem = WireShape(
        required: ["SKU"],
        [
            Field("SKU", .text), Field("displayName", .text), Field("description", .text),
            Field("price", .integer), Field("offer", .object(offer)),
            Field("priceIncreaseInfo", .object(increase)),
        ])

    private static let increase = WireShape([
        Field("status", .word(["SCHEDULED", "PENDING", "ACCEPTED"])), Field("price", .integer),
        Field("dependentSKUs", .texts),
    ])
}
