extension SubscriptionFacts {
    /// The period from the next renewal on.
    package var comingPeriod: String? { renewalPeriod ?? period }

    /// The facts as a price change applies to them. Where the length of the period changes at the renewal, prices of
    /// the running period cannot be compared with those of the coming one. Each item then counts as one that only joins
    /// at the renewal, at its renewal price (an inference). Where the renewal is off there is no coming period.
    package var asChanging: SubscriptionFacts {
        guard let renewalPeriod, items.contains(where: \.renews) else { return self }
        var coming = self
        coming.period = renewalPeriod
        coming.renewalPeriod = nil
        for index in coming.items.indices { coming.items[index].currentPrice = nil }
        return coming
    }

    /// Stores separately what the newest statement says of the running period and of the coming one.
    mutating func notePeriod(coming told: String?) {
        if let told { renewalPeriod = told }
        if renewalPeriod == period { renewalPeriod = nil }
        if period == nil, let coming = renewalPeriod {
            // No transaction has given the length of the running period.
            period = coming
            renewalPeriod = nil
        }
    }
}
