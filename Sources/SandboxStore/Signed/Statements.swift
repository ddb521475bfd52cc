import Foundation

/// The app and environment in the payloads.
struct StoreIdentity: Codable, Hashable, Sendable {
    var bundleID: String
    var appAppleID: Int64
    /// `Production` or `Sandbox`.
    var environment: String

    var productID: String { "\(bundleID).subscription" }
}

/// Turns subscriptions into the payloads that Apple would sign.
struct Statements: Sendable {
    /// The group of all subscriptions.
    static let subscriptionGroup = "21000001"

    var identity: StoreIdentity
    var signer: JWSSigner

    /// The two statements of a response.
    func signed(_ answer: StoreEngine.Answer) throws -> (transaction: String, renewal: String) {
        let told = answer.transactionID.flatMap { answer.subscription.asOf(transaction: $0) }
        let transaction = transaction(told ?? answer.subscription, signedAt: answer.signedAt)
        let renewal = renewal(
            answer.subscription, signedAt: answer.signedAt, token: answer.consistencyToken)
        return (try sign(transaction), try sign(renewal))
    }

    /// `signedPayload` of one notification; its nested statements are signed at the same instant.
    func signed(_ event: StoreEvent) throws -> String {
        let isProduction = identity.environment == "Production"
        guard let subscription = event.subscription else {
            return try sign(
                NotificationPayload(
                    notificationType: event.kind.rawValue, subtype: event.subtype?.rawValue,
                    notificationUUID: event.notificationUUID, signedDate: event.signedAt,
                    summary: event.summary.map { SummaryPayload($0, identity) }))
        }
        let parts = try signed(
            StoreEngine.Answer(
                subscription: subscription, signedAt: event.signedAt,
                consistencyToken: event.consistencyToken, transactionID: event.transactionID))
        return try sign(
            NotificationPayload(
                notificationType: event.kind.rawValue, subtype: event.subtype?.rawValue,
                notificationUUID: event.notificationUUID, signedDate: event.signedAt,
                data: .init(
                    appAppleId: isProduction ? identity.appAppleID : nil,
                    bundleId: identity.bundleID, environment: identity.environment,
                    status: subscription.status.rawValue,
                    signedTransactionInfo: parts.transaction, signedRenewalInfo: parts.renewal)))
    }

    /// The `TEST` notification, which carries no subscription.
    func signedTest(uuid: String, signedAt: Int64) throws -> String {
        let isProduction = identity.environment == "Production"
        return try sign(
            NotificationPayload(
                notificationType: "TEST", notificationUUID: uuid, signedDate: signedAt,
                data: .init(
                    appAppleId: isProduction ? identity.appAppleID : nil,
                    bundleId: identity.bundleID, environment: identity.environment)))
    }

    func transaction(_ subscription: StoreSubscription, signedAt: Int64) -> TransactionPayload {
        let price = subscription.chargedPrice
        return TransactionPayload(
            originalTransactionId: subscription.id,
            transactionId: String(subscription.transactionID),
            webOrderLineItemId: String(subscription.transactionID - 1_000_000_000_000_000),
            bundleId: identity.bundleID,
            productId: identity.productID,
            subscriptionGroupIdentifier: Self.subscriptionGroup,
            purchaseDate: subscription.purchasedAt,
            originalPurchaseDate: subscription.startedAt, expiresDate: subscription.expiresAt,
            quantity: subscription.seats, appAccountToken: subscription.appAccountToken,
            inAppOwnershipType: subscription.ownershipType,
            signedDate: signedAt,
            revocationReason: subscription.revokedAt == nil ? nil : 0,
            revocationDate: subscription.revokedAt, environment: identity.environment,
            storefront: subscription.storefront,
            storefrontId: Markets.byStorefront[subscription.storefront]?.storefrontID ?? "0",
            transactionReason: subscription.renewalCount == 0
                || subscription.lastWasPurchase == true
                ? "PURCHASE" : "RENEWAL",
            additionalTransactionReason: subscription.isAddedSeat == true ? "SEAT_ADDITION" : nil,
            price: price, currency: subscription.currency,
            appTransactionId: "7\(subscription.id)",
            advancedCommerceInfo: .init(
                taxExclusivePrice: price * Int64(subscription.seats),
                period: subscription.period.rawValue,
                requestReferenceId: subscription.purchaseReferenceID,
                items: subscription.items.map { transactionItem($0, subscription) }))
    }

    private func transactionItem(
        _ item: StoreItem, _ subscription: StoreSubscription
    ) -> TransactionPayload.Item {
        let refunds = item.refund.map { refund in
            [
                TransactionPayload.Refund(
                    refundAmount: refund.amount, refundDate: refund.at, refundReason: "OTHER",
                    refundType: refund.type)
            ]
        }
        return TransactionPayload.Item(
            SKU: item.sku, displayName: item.displayName, description: item.description,
            price: item.price,
            offer: item.offer.map { offer(of: subscription, $0, count: $0.periodCount) },
            refunds: refunds,
            revocationDate: subscription.revokedAt
                ?? item.refund.flatMap { $0.revokes ? $0.at : nil })
    }

    func renewal(
        _ subscription: StoreSubscription, signedAt: Int64, token: String
    ) -> RenewalPayload {
        let items = subscription.renewingItems.map { renewalItem($0, subscription) }
        let statuses = subscription.renewingItems.compactMap { $0.change?.increase?.status }
        let status: Int? =
            statuses.contains(.pending) ? 0 : statuses.contains(.accepted) ? 1 : nil
        return RenewalPayload(
            originalTransactionId: subscription.id,
            autoRenewProductId: identity.productID, productId: identity.productID,
            autoRenewStatus: subscription.autoRenews ? 1 : 0,
            isInBillingRetryPeriod: subscription.status == .billingRetry
                || subscription.status == .gracePeriod,
            expirationIntent: subscription.expirationIntent, priceIncreaseStatus: status,
            gracePeriodExpiresDate: subscription.graceEndsAt, signedDate: signedAt,
            environment: identity.environment,
            recentSubscriptionStartDate: subscription.boughtAgainAt ?? subscription.startedAt,
            renewalDate: subscription.expiresAt,
            renewalPrice: items.isEmpty
                ? nil : items.reduce(0) { $0 + ($1.offer?.price ?? $1.price) },
            renewalQuantity: subscription.seats > 1 || subscription.renewalSeatCount != nil
                ? subscription.renewalSeatCount ?? subscription.seats : nil,
            currency: subscription.currency, appTransactionId: "7\(subscription.id)",
            appAccountToken: subscription.appAccountToken,
            advancedCommerceInfo: .init(
                consistencyToken: token, items: items, period: subscription.period.rawValue,
                requestReferenceId: subscription.purchaseReferenceID))
    }

    private func renewalItem(
        _ item: StoreItem, _ subscription: StoreSubscription
    ) -> RenewalPayload.Item {
        let next = item.offer.flatMap { $0.periodsLeft > 0 ? $0 : nil }
        return RenewalPayload.Item(
            SKU: item.renewalSKU, displayName: item.displayName, description: item.description,
            price: item.renewalPrice(nextRenewalAt: subscription.expiresAt),
            offer: next.map { offer(of: subscription, $0, count: $0.periodsLeft) },
            priceIncreaseInfo: item.replacement != nil
                ? nil
                : item.change.flatMap { change in
                    change.increase.map { increase in
                        .init(
                            status: increase.status.rawValue, price: change.price,
                            dependentSKUs: increase.dependentSKUs.isEmpty
                                ? nil : increase.dependentSKUs.map(subscription.renewalSKU(of:)))
                    }
                })
    }

    private func offer(
        of subscription: StoreSubscription, _ offer: StoreOffer, count: Int
    ) -> OfferPayload {
        OfferPayload(
            price: offer.price, period: subscription.period.rawValue, periodCount: count,
            reason: offer.reason)
    }

    private func sign(_ payload: some Encodable) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return try signer.sign(Array(encoder.encode(payload)))
    }
}
