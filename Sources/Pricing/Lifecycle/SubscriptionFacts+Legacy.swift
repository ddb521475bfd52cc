extension SubscriptionFacts {
    /// Applies an unsigned statement to the facts, unless they hold a signed one of its time or later. It changes
    /// neither `signedAt`, which is for signed statements only, nor prices, items or the renewal's date. An expiry only
    /// moves later, because only Apple's signature proves an earlier end.
    mutating func overlay(legacy event: SubscriptionEvent) {
        guard let told = event.legacy, signedAt.map({ $0 < event.key.signedAt }) ?? false else {
            return
        }
        autoRenews = told.autoRenews ?? autoRenews
        if let retry = told.isInBillingRetry {
            isInBillingRetry = retry
            gracePeriodExpiresAt = told.gracePeriodExpiresAt
        }
        if let expiry = told.expiresAt, expiresAt.map({ $0 < expiry }) ?? true {
            expiresAt = expiry
        }
    }
}
