extension NotificationRule {
    /// Every documented type and subtype. Inferences are marked as such.
    package static let all: [NotificationRule] =
        subscribing + renewing + ending + repricing + refunding + aside

    private static let subscribing: [NotificationRule] = [
        // A first purchase: its period, items and prices.
        .init("SUBSCRIBED", "INITIAL_BUY", .subscription, .facts),
        // Bought again after it had expired: the new period, its items and prices.
        .init("SUBSCRIBED", "RESUBSCRIBE", .subscription, .facts),
        // An offer on the running subscription: an item in its offer postpones its change.
        .init("OFFER_REDEEMED", nil, .subscription, .lifecycle),
        // A first purchase with an offer.
        .init("OFFER_REDEEMED", "INITIAL_BUY", .subscription, .facts),
        // Bought again with an offer: an item in its offer postpones its change.
        .init("OFFER_REDEEMED", "RESUBSCRIBE", .subscription, .lifecycle),
        // Another product at once, with an offer: a replaced item invalidates its change.
        .init("OFFER_REDEEMED", "UPGRADE", .subscription, .lifecycle),
        // Another product from the next renewal, with an offer: the renewal decides about items that leave.
        .init("OFFER_REDEEMED", "DOWNGRADE", .subscription, .lifecycle),
        // Back to the running product: what is set to renew.
        .init("DID_CHANGE_RENEWAL_PREF", nil, .subscription, .facts),
        // Another product at once, in a new period: a replaced item invalidates its change.
        .init("DID_CHANGE_RENEWAL_PREF", "UPGRADE", .subscription, .lifecycle),
        // Another product from the next renewal: it decides about an item that leaves.
        .init("DID_CHANGE_RENEWAL_PREF", "DOWNGRADE", .subscription, .lifecycle),
        // We called Change Subscription Metadata: an open change follows its item's new name.
        .init("METADATA_UPDATE", nil, .subscription, .lifecycle),
        // We called Migrate: a pending increase comes along.
        .init("MIGRATION", nil, .subscription, .lifecycle),
        // MIGRATION, as the changelog of March 2025 spells it.
        .init("MIGRATE", nil, .subscription, .lifecycle),
    ]

    private static let renewing: [NotificationRule] = [
        // Auto-renewal was switched; left out after a price increase notice.
        .init("DID_CHANGE_RENEWAL_STATUS", nil, .subscription, .facts),
        // Will renew again.
        .init("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_ENABLED", .subscription, .facts),
        // Will not renew; only its expiry decides about a change, for it can be switched back.
        .init("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED", .subscription, .facts),
        // Charged: the new price takes effect, and an item that is missing was declined.
        .init("DID_RENEW", nil, .subscription, .lifecycle),
        // Charged after billing had failed: as any renewal.
        .init("DID_RENEW", "BILLING_RECOVERY", .subscription, .lifecycle),
        // Billing failed, without a grace period: billing retry.
        .init("DID_FAIL_TO_RENEW", nil, .subscription, .facts),
        // Billing failed, within a grace period.
        .init("DID_FAIL_TO_RENEW", "GRACE_PERIOD", .subscription, .facts),
        // The grace period is over, and billing retry continues.
        .init("GRACE_PERIOD_EXPIRED", nil, .subscription, .facts),
        // The renewal date moved: so does the renewal at which a change is due.
        .init("RENEWAL_EXTENDED", nil, .subscription, .lifecycle),
        // The renewal date of this one did not move.
        .init("RENEWAL_EXTENSION", "FAILURE", .subscription, .facts),
        // How many renewal dates a mass extension moved.
        .init("RENEWAL_EXTENSION", "SUMMARY", .summary, .nothing),
        // SUMMARY, as one of Apple's pages spells it.
        .init("RENEWAL_EXTENSION", "SUCCESS", .summary, .nothing),
    ]

    private static let ending: [NotificationRule] = [
        // Expired for some other reason; expirationIntent may tell more.
        .init("EXPIRED", nil, .subscription, .lifecycle),
        // Expired because the subscriber left: a change is cancelled.
        .init("EXPIRED", "VOLUNTARY", .subscription, .lifecycle),
        // Expired because billing failed to the end: a change lapses.
        .init("EXPIRED", "BILLING_RETRY", .subscription, .lifecycle),
        // Expired without the consent it needed: a change is declined.
        .init("EXPIRED", "PRICE_INCREASE", .subscription, .lifecycle),
        // Expired because the product is no longer sold: a change lapses.
        .init("EXPIRED", "PRODUCT_NOT_FOR_SALE", .subscription, .lifecycle),
        // No longer shared within the family: a change is cancelled.
        .init("REVOKE", nil, .purchase, .lifecycle),
    ]

    private static let repricing: [NotificationRule] = [
        // We called Change Subscription Price: the increase or decrease is scheduled.
        .init("PRICE_CHANGE", nil, .subscription, .lifecycle),
        // The customer was asked for consent and has not answered.
        .init("PRICE_INCREASE", "PENDING", .subscription, .lifecycle),
        // The customer consented, or was informed where no consent is needed.
        .init("PRICE_INCREASE", "ACCEPTED", .subscription, .lifecycle),
    ]

    private static let refunding: [NotificationRule] = [
        // A transaction was refunded: its charge no longer counts; of the running period, the
        // subscription is over.
        .init("REFUND", nil, .purchase, .lifecycle),
        // Seats of a transaction were refunded, which is not revoked.
        .init("REFUND", "SEATS", .purchase, .facts),
        // A refund was asked for and not given.
        .init("REFUND_DECLINED", nil, .purchase, .facts),
        // A refund was taken back: the charge counts again.
        .init("REFUND_REVERSED", nil, .purchase, .facts),
        // Apple asks how much was consumed; answering is another service's business.
        .init("CONSUMPTION_REQUEST", nil, .purchase, .facts),
    ]

    private static let aside: [NotificationRule] = [
        // A purchase that does not renew: it has no price to change.
        .init("ONE_TIME_CHARGE", nil, .purchase, .nothing),
        // We asked for a test notification.
        .init("TEST", nil, .data, .nothing),
        // A guardian withdrew a child's consent to use the app: not a consent to a price.
        .init("RESCIND_CONSENT", nil, .appData, .nothing),
        // A token of External Purchase was not reported.
        .init("EXTERNAL_PURCHASE_TOKEN", "UNREPORTED", .externalPurchaseToken, .nothing),
        // A token of External Purchase was made.
        .init("EXTERNAL_PURCHASE_TOKEN", "CREATED", .externalPurchaseToken, .nothing),
        // A token of External Purchase is still in use.
        .init("EXTERNAL_PURCHASE_TOKEN", "ACTIVE_TOKEN_REMINDER", .externalPurchaseToken, .nothing),
    ]
}
