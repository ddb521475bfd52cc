extension SubscriptionFacts {
    /// The period from the next renewal on.
    package var comingPeriod: String? { renewalPeriod ?? period }

    /// The facts as a price change meets them. Where the length of the period changes at the renewal, no price of the
    /// running period can be compared with one of the coming: each item then counts as one that only joins there, at the
    /// price that renews (an inference). Where the renewal is off nothing comes.
    package var asChanging: SubscriptionFacts {
        guard let renewalPeriod, items.contains(where: \.renews) else { return self }
        var coming = self
        coming.period = renewalPeriod
        coming.renewalPeriod = nil
        for index in coming.items.indices { coming.items[index].currentPrice = nil }
        return coming
    }

    /// Keeps apart what the newest statement says of the running period and of the coming one.
    mutating func notePeriod(coming told: String?) {
        if let told { renewalPeriod = told }
        if renewalPeriod == period { renewalPeriod = nil }
        if period == nil, let coming = renewalPeriod {
            // No transaction has told the running one.
            period = coming
            renewalPeriod = nil
        }
    }
}
