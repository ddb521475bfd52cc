/// A call of ours that turned the renewal off: it cancelled the subscription for a parent on another one. Apple calls
/// its end voluntary, since it knows of no customer who left.
package struct OwnCancel: Hashable, Sendable {
    /// Its `requestReferenceId`.
    package var requestReferenceID: String
    package var preparedAt: Instant
    /// When a statement was seen to show the renewal off; nil: not yet.
    package var settledAt: Instant?
    /// When the customer was seen to have turned it on again: what comes then is theirs.
    package var reenabledAt: Instant?

    /// Whether a renewal that is off at this instant is off by this call.
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
