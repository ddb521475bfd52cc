extension NotificationRule {
    /// Every type and subtype that is documented. Inferences are marked as such.
    package static let all: [NotificationRule] =
        subscribing + renewing + ending + repricing + refunding + aside

    private static let subscribing = [
        NotificationRule(
            "SUBSCRIBED", "INITIAL_BUY", .subscription, .facts,
            "a first purchase: its period, items and prices"),
        NotificationRule(
            "SUBSCRIBED", "RESUBSCRIBE", .subscription, .facts,
            "bought again after it had expired: the new period, its items and prices"),
        NotificationRule(
            "OFFER_REDEEMED", nil, .subscription, .lifecycle,
            "an offer on the running subscription: an item in its offer postpones its change"),
        NotificationRule(
            "OFFER_REDEEMED", "INITIAL_BUY", .subscription, .facts,
            "a first purchase with an offer"),
        NotificationRule(
            "OFFER_REDEEMED", "RESUBSCRIBE", .subscription, .lifecycle,
            "bought again with an offer: an item in its offer postpones its change"),
        NotificationRule(
            "OFFER_REDEEMED", "UPGRADE", .subscription, .lifecycle,
            "another product at once, with an offer: a replaced item invalidates its change"),
        NotificationRule(
            "OFFER_REDEEMED", "DOWNGRADE", .subscription, .lifecycle,
            "another product from the next renewal, with an offer: so do items that leave"),
        NotificationRule(
            "DID_CHANGE_RENEWAL_PREF", nil, .subscription, .facts,
            "back to the running product: what is set to renew"),
        NotificationRule(
            "DID_CHANGE_RENEWAL_PREF", "UPGRADE", .subscription, .lifecycle,
            "another product at once, in a new period: a replaced item invalidates its change"),
        NotificationRule(
            "DID_CHANGE_RENEWAL_PREF", "DOWNGRADE", .subscription, .lifecycle,
            "another product from the next renewal: an item that leaves invalidates its change"),
        NotificationRule(
            "METADATA_UPDATE", nil, .subscription, .lifecycle,
            "we called Change Subscription Metadata: an open change follows its item's new name"),
        NotificationRule(
            "MIGRATION", nil, .subscription, .lifecycle,
            "we called Migrate: a pending increase comes along"),
        NotificationRule(
            "MIGRATE", nil, .subscription, .lifecycle,
            "MIGRATION, as the changelog of March 2025 spells it"),
    ]

    private static let renewing = [
        NotificationRule(
            "DID_CHANGE_RENEWAL_STATUS", nil, .subscription, .facts,
            "auto-renewal was switched; left out after a price increase notice"),
        NotificationRule(
            "DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_ENABLED", .subscription, .facts,
            "will renew again"),
        NotificationRule(
            "DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED", .subscription, .facts,
            "will not renew; only its expiry decides about a change, for it can be switched back"),
        NotificationRule(
            "DID_RENEW", nil, .subscription, .lifecycle,
            "charged: the new price takes effect, and an item that is missing was declined"),
        NotificationRule(
            "DID_RENEW", "BILLING_RECOVERY", .subscription, .lifecycle,
            "charged after billing had failed: as any renewal"),
        NotificationRule(
            "DID_FAIL_TO_RENEW", nil, .subscription, .facts,
            "billing failed, without a grace period: billing retry"),
        NotificationRule(
            "DID_FAIL_TO_RENEW", "GRACE_PERIOD", .subscription, .facts,
            "billing failed, within a grace period"),
        NotificationRule(
            "GRACE_PERIOD_EXPIRED", nil, .subscription, .facts,
            "the grace period is over, billing retry goes on"),
        NotificationRule(
            "RENEWAL_EXTENDED", nil, .subscription, .lifecycle,
            "the renewal date moved: so does the renewal at which a change is due"),
        NotificationRule(
            "RENEWAL_EXTENSION", "FAILURE", .subscription, .facts,
            "the renewal date of this one did not move"),
        NotificationRule(
            "RENEWAL_EXTENSION", "SUMMARY", .summary, .nothing,
            "how many renewal dates a mass extension moved"),
        NotificationRule(
            "RENEWAL_EXTENSION", "SUCCESS", .summary, .nothing,
            "SUMMARY, as one of Apple's pages spells it"),
    ]

    private static let ending = [
        NotificationRule(
            "EXPIRED", nil, .subscription, .lifecycle,
            "expired for some other reason; expirationIntent may tell more"),
        NotificationRule(
            "EXPIRED", "VOLUNTARY", .subscription, .lifecycle,
            "expired because the subscriber left: a change is cancelled"),
        NotificationRule(
            "EXPIRED", "BILLING_RETRY", .subscription, .lifecycle,
            "expired because billing failed to the end: a change lapses"),
        NotificationRule(
            "EXPIRED", "PRICE_INCREASE", .subscription, .lifecycle,
            "expired without the consent it needed: a change is declined"),
        NotificationRule(
            "EXPIRED", "PRODUCT_NOT_FOR_SALE", .subscription, .lifecycle,
            "expired because the product is no longer sold: a change lapses"),
        NotificationRule(
            "REVOKE", nil, .purchase, .lifecycle,
            "no longer shared within the family: a change is cancelled"),
    ]

    private static let repricing = [
        NotificationRule(
            "PRICE_CHANGE", nil, .subscription, .lifecycle,
            "we called Change Subscription Price: the increase or decrease is scheduled"),
        NotificationRule(
            "PRICE_INCREASE", "PENDING", .subscription, .lifecycle,
            "the customer was asked for consent and has not answered"),
        NotificationRule(
            "PRICE_INCREASE", "ACCEPTED", .subscription, .lifecycle,
            "the customer consented, or was informed where no consent is needed"),
    ]

    private static let refunding = [
        NotificationRule(
            "REFUND", nil, .purchase, .lifecycle,
            "a transaction was refunded: its charge no longer counts; of the running period, the "
                + "subscription is over"),
        NotificationRule(
            "REFUND_DECLINED", nil, .purchase, .facts, "a refund was asked for and not given"),
        NotificationRule(
            "REFUND_REVERSED", nil, .purchase, .facts,
            "a refund was taken back: the charge counts again"),
        NotificationRule(
            "CONSUMPTION_REQUEST", nil, .purchase, .facts,
            "Apple asks how much was consumed; answering is another service's business"),
    ]

    private static let aside = [
        NotificationRule(
            "ONE_TIME_CHARGE", nil, .purchase, .nothing,
            "a purchase that does not renew: it has no price to change"),
        NotificationRule("TEST", nil, .data, .nothing, "we asked for a test notification"),
        NotificationRule(
            "RESCIND_CONSENT", nil, .appData, .nothing,
            "a guardian withdrew a child's consent to use the app: not a consent to a price"),
        NotificationRule(
            "EXTERNAL_PURCHASE_TOKEN", "UNREPORTED", .externalPurchaseToken, .nothing,
            "a token of External Purchase was not reported"),
        NotificationRule(
            "EXTERNAL_PURCHASE_TOKEN", "CREATED", .externalPurchaseToken, .nothing,
            "a token of External Purchase was made"),
        NotificationRule(
            "EXTERNAL_PURCHASE_TOKEN", "ACTIVE_TOKEN_REMINDER", .externalPurchaseToken, .nothing,
            "a token of External Purchase is still in use"),
    ]
}
