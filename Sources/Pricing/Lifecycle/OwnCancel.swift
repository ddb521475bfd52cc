/// A call of ours that turned the renewal off: it cancelled the subscription for a parent on another subscription.
/// Apple calls the end voluntary, though no customer left.
package struct OwnCancel: Hashable, Sendable {
    /// The `requestReferenceId` of the call.
    package var requestReferenceID: String
    package var preparedAt: Instant
    /// When a statement first showed the renewal off; nil where none has yet.
    package var settledAt: Instant?
    /// When a statement showed that the customer had turned it on again. A later end is the customer's own doing.
    package var reenabledAt: Instant?

    /// Whether this call is why the renewal is off at this instant.
    fileprivate func holds(at instant: Instant) -> Bool {
        reenabledAt == nil
            && instant >= preparedAt.advanced(by: -TrackedChange.clockMargin)
    }
}

extension OwnCancel {
    package init(requestReferenceID: String, preparedAt: Instant) {
        self.requestReferenceID = requestReferenceID
        self.preparedAt = preparedAt
    }
}

extension SubscriptionState {
    mutating func noteReenabled(_ event: SubscriptionEvent) {
        guard event.renewal?.autoRenewStatus == 1 else { return }
        let at = event.key.signedAt
        for index in ownCancels.indices where ownCancels[index].reenabledAt == nil {
            guard let settledAt = ownCancels[index].settledAt, at > settledAt else { continue }
            ownCancels[index].reenabledAt = at
        }
    }

    func isCancelledByUs(at instant: Instant) -> Bool {
        ownCancels.contains { $0.holds(at: instant) }
    }
}
