extension SubscriptionFacts {
    /// Lays an unsigned statement over the facts, unless a signed one of its time or a later one is among
    /// them. It moves neither `signedAt`, which is of signed statements, nor prices, items or the renewal's
    /// date. An expiry only grows: when access really ends is for Apple to sign.
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
