extension SubscriptionFacts {
    /// Lays an unsigned statement over the facts, unless they hold a signed one of its time or later. It changes
    /// neither `signedAt`, which belongs to signed statements, nor prices, items or the renewal's date. An expiry
    /// only moves later, because when access really ends is for Apple to sign.
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
