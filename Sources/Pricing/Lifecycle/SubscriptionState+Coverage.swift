extension SubscriptionState {
    /// Notes since when statements tell what the subscription was charged. Before that an increase may have gone
    /// unseen.
    mutating func noteCoverage(_ reading: Reading) {
        let (before, start) = (reading.before, facts.startedAt)
        // It began anew after a lapse, and nobody told of its first period. What was known before the lapse says
        // nothing of the time between.
        if let start, start != before.startedAt, let known = facts.knownSince, known < start,
            let running = facts.purchasedAt, running > start
        {
            facts.knownSince = running
        }
        guard let transaction = reading.event.transaction, let told = transaction.purchasedAt,
            !transaction.addsSeats, transaction.items.contains(where: { $0.price != nil }),
            told >= start ?? told
        else { return }
        guard let known = facts.knownSince else {
            facts.knownSince = told
            return
        }
        if told < known { facts.knownSince = told }
    }
}
