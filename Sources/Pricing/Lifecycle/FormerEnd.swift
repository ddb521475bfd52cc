/// An EXPIRED that the App Store signed only after the customer had come back. It has the last transaction of what
/// expired, and says nothing about the running subscription (an inference: Apple promises no order of notifications).
extension SubscriptionFacts {
    /// Where the known period only renewed the one that a statement calls expired, the statement is about the running
    /// subscription.
    func isFormerEnd(_ event: SubscriptionEvent) -> Bool {
        guard event.type == "EXPIRED", let last = event.transaction, !last.addsSeats,
            isOlder(last), let began = last.purchasedAt
        else { return false }
        return transactionReason == "PURCHASE" || startedAt.map { $0 > began } ?? false
    }
}

extension SubscriptionEvent {
    /// Without its status and what was set to renew: both are of the subscription that expired.
    var ofFormerEnd: SubscriptionEvent {
        var event = self
        event.status = nil
        event.renewal = renewal.map { RenewalStatement(expirationIntent: $0.expirationIntent) }
        return event
    }
}

extension Reading {
    /// Why the subscription was over before the customer came back, if this statement says so.
    var formerEnd: SubscriptionEnd? { isFormerEnd ? toldEnd : nil }

    var isFormerEnd: Bool { before.isFormerEnd(event) }
}

extension TrackedChange {
    /// Reads why the subscription had ended. The return alone had looked like a new cycle of a subscription that never
    /// ended.
    mutating func readFormerEnd(_ reading: Reading, _ lines: inout [Transition]) {
        guard progress.state == .invalidated, progress.reason == cycleReset,
            let end = reading.formerEnd
        else { return }
        progress.state = stateWithApple
        let ending = ending(by: end, reading)
        move(to: ending.state, reason: ending.reason, reading, &lines)
    }
}
