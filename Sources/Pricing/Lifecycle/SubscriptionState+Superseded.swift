extension SubscriptionState {
    /// Ends a change that a later call of ours for the same item has taken the place of. Only a fold from the
    /// beginning meets one: the first had ended when the second was sent, and a late statement denies that end.
    ///
    /// `at` is the statement about to be read; nil is the end of the fold.
    mutating func closeSuperseded(at: Instant?) -> [Transition] {
        var lines: [Transition] = []
        for index in changes.indices where changes[index].progress.state.isWithApple {
            guard let sentAt = changes[index].sentAt else { continue }
            let later = changes.filter { other in
                guard let otherSentAt = other.sentAt else { return false }
                return other.sku == changes[index].sku && otherSentAt > sentAt
                    && other.callProgress.state.isWithApple
            }.min { ($0.sentAt ?? sentAt) < ($1.sentAt ?? sentAt) }
            guard let later, let laterSentAt = later.sentAt, at.map({ $0 >= laterSentAt }) ?? true
            else { continue }
            // One that a reversed refund opened again ends after that, so that its history ends in its state.
            let end = max(laterSentAt, changes[index].progress.since.advanced(by: 1))
            changes[index].supersede(at: end)
            lines.append(
                Transition(
                    changeID: changes[index].changeID, state: changes[index].progress.state,
                    at: end, evidenceKind: .response,
                    evidenceID: later.requestReferenceID ?? later.changeID,
                    reason: changes[index].progress.reason))
        }
        return lines
    }
}

private let replacedByALaterChange = "replaced_by_a_later_change"

extension TrackedChange {
    var isSuperseded: Bool {
        progress.state == .invalidated && progress.reason == replacedByALaterChange
    }

    fileprivate mutating func supersede(at end: Instant) {
        progress.state = .invalidated
        progress.reason = replacedByALaterChange
        progress.since = end
        progress.endedAt = end
    }
}
