import Pricing

/// What stands in a statement beside what moves a change: each field now and then, some of them nonsense.
extension StoryRandom {
    mutating func tell(_ transaction: inout TransactionStatement) {
        if chance(60) { transaction.quantity = pick(1...9) }
        if chance(60) { transaction.appTransactionID = "app-\(pick(1...3))" }
        if chance(30) { transaction.offerType = chance(90) ? pick(1...5) : .max }
        if chance(20) { transaction.offerDiscountType = "PAY_AS_YOU_GO" }
        tell(&transaction.details, SignedDetails.ofTransaction)
    }

    mutating func tell(_ renewal: inout RenewalStatement) {
        if chance(60) { renewal.autoRenewProductID = "product-\(pick(1...3))" }
        if chance(60) { renewal.appTransactionID = "app-\(pick(1...3))" }
        if chance(70) { renewal.price = Int64(chance(90) ? pick(1...9) * 1000 : -1) }
        if chance(70) { renewal.currency = "USD" }
        if chance(30) { renewal.offerType = pick(1...5) }
        tell(&renewal.details, SignedDetails.ofRenewal)
    }

    private mutating func tell(_ details: inout SignedDetails, _ fields: [SignedDetails.Field]) {
        for field in fields where chance(20) { details[field] = value(of: field) }
    }

    private mutating func value(of field: SignedDetails.Field) -> SignedDetails.Value {
        switch field {
        case .revocationDate: .number(chance(90) ? 1_772_323_200_000 : -1)
        case .revocationReason, .revocationPercentage, .priceIncreaseStatus, .renewalQuantity:
            .number(chance(90) ? Int64(pick(0...9)) : .max)
        case .isUpgraded: .flag(chance(50))
        case .eligibleWinBackOfferIds: .texts(chance(80) ? ["a", "b"] : ["\0"])
        case .offerIdentifier, .offerPeriod, .offerDiscountType, .revocationType, .billingPlanType,
            .additionalTransactionReason, .renewalBillingPlanType:
            .text(chance(90) ? "word-\(pick(1...3))" : String(repeating: "x", count: 300))
        }
    }
}
