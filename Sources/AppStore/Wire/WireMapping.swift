internal import Pricing

extension WireTransaction {
    /// The product types that the App Store documents and that are no subscriptions.
    private static let otherTypes: Set<String> = [
        "Consumable", "Non-Consumable", "Non-Renewing Subscription",
    ]

    /// Unknown and absent types count as subscriptions.
    var isSubscription: Bool { !Self.otherTypes.contains(type ?? "") }

    var statement: TransactionStatement {
        TransactionStatement(
            transactionID: transactionId,
            productID: productId,
            appAccountToken: appAccountToken,
            ownershipType: inAppOwnershipType,
            purchasedAt: purchaseDate,
            originalPurchaseAt: originalPurchaseDate,
            expiresAt: expiresDate,
            revokedAt: revocationDate,
            reason: transactionReason,
            storefront: storefront,
            currency: currency,
            price: price,
            period: advancedCommerceInfo?.period,
            offerDiscountType: offerDiscountType,
            items: advancedCommerceInfo?.items?.elements.map(\.statement) ?? [])
    }
}

extension WireTransaction.Item {
    fileprivate var statement: TransactionStatement.Item {
        TransactionStatement.Item(
            sku: SKU,
            price: price,
            offerPrice: offer?.price,
            offerPeriod: offer?.period,
            offerPeriodCount: offer?.periodCount,
            offerReason: offer?.reason,
            revokedAt: revocationDate)
    }
}

extension WireRenewal {
    var statement: RenewalStatement {
        RenewalStatement(
            productID: productId,
            autoRenewStatus: autoRenewStatus,
            isInBillingRetry: isInBillingRetryPeriod,
            expirationIntent: expirationIntent,
            gracePeriodExpiresAt: gracePeriodExpiresDate,
            renewalAt: renewalDate,
            recentSubscriptionStartAt: recentSubscriptionStartDate,
            currency: currency,
            appAccountToken: appAccountToken,
            consistencyToken: advancedCommerceInfo?.consistencyToken,
            period: advancedCommerceInfo?.period,
            items: items)
    }

    /// Nil also where one item is unreadable: an item that only seems to be missing would look
    /// declined.
    private var items: [RenewalStatement.Item]? {
        guard let list = advancedCommerceInfo?.items, list.unreadable == 0 else { return nil }
        return list.elements.map(\.statement)
    }
}

extension WireRenewal.Item {
    fileprivate var statement: RenewalStatement.Item {
        RenewalStatement.Item(
            sku: SKU,
            price: price,
            offerPrice: offer?.price,
            offerPeriod: offer?.period,
            offerPeriodCount: offer?.periodCount,
            offerReason: offer?.reason,
            increaseStatus: priceIncreaseInfo?.status,
            increasePrice: priceIncreaseInfo?.price,
            dependentSKUs: priceIncreaseInfo?.dependentSKUs?.elements)
    }
}
