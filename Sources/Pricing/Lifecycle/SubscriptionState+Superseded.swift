extension SubscriptionState {
    /// Ends a change that a later call of ours for the same item has replaced: an undo that a statement shows applied,
    /// or another change. The latter happens only in a fold from the beginning, if the first change had ended when the
    /// second was sent and a late statement contradicts that end.
    ///
    /// `at` is the instant of the statement about to be read; nil stands for the end of the fold.
    mutating func closeSuperseded(at: Instant?) -> [Transition] {
        var lines: [Transition] = []
        for index in changes.indices where changes[index].progress.state.isWithApple {
            let later = changes.compactMap { other in
                other.takesOver(from: changes[index]).map { (change: other, at: $0) }
            }.min { $0.at < $1.at }
            guard let later, at.map({ $0 >= later.at }) ?? true else { continue }
            // If a reversed refund reopened the change, it ends a millisecond after that, so that the last line of its
            // history shows its state.
            let end = max(later.at, changes[index].progress.since.advanced(by: 1))
            changes[index].supersede(
                at: end,
                because: later.change.undoes == changes[index].changeID
                    ? undone : replacedByALaterChange)
            lines.append(
                Transition(
                    changeID: changes[index].changeID, state: changes[index].progress.state,
                    at: end, evidenceKind: .response,
                    evidenceID: later.change.requestReferenceID ?? later.change.changeID,
                    reason: changes[index].progress.reason))
        }
        return lines
    }

    /// Doubtful or ended changes whose price a statement of this instant shows for another reason: a later change with
    /// the same price caused it, or, for an undo, its increase is over and nothing is left to undo.
    func explainedByOthers(at: Instant) -> Set<String> {
        guard changes.contains(where: { $0.isCallDoubtful || $0.mayReturn }) else { return [] }
        return Set(changes.filter { isExplainedByAnother($0, at: at) }.map(\.changeID))
    }

    private func isExplainedByAnother(_ change: TrackedChange, at: Instant) -> Bool {
        guard change.isCallDoubtful || change.mayReturn, let sentAt = change.firstSentAt else {
            return false
        }
        if let undone = change.undoes {
            return !changes.contains { $0.changeID == undone && $0.progress.state.isWithApple }
        }
        return changes.contains { other in
            guard other.changeID != change.changeID, other.sku == change.sku,
                other.newPrice == change.newPrice, let otherSentAt = other.firstSentAt,
                (otherSentAt, other.changeID) > (sentAt, change.changeID)
            else { return false }
            return at >= otherSentAt.advanced(by: -TrackedChange.clockMargin)
                && (other.callProgress.state.isWithApple || other.isCallDoubtful
                    || other.isAppliedAfterAll)
        }
    }
}

private let replacedByALaterChange = "replaced_by_a_later_change"
private let undone = "undone"

extension TrackedChange {
    var isSuperseded: Bool { isReplacedLater || isUndone }

    var isReplacedLater: Bool {
        progress.state == .invalidated && progress.reason == replacedByALaterChange
    }

    var isUndone: Bool { progress.state == .invalidated && progress.reason == undone }

    /// When its call replaced an earlier change of the same item; nil where it did not. An undo replaces the change
    /// once a statement shows the undo applied. Until then the undone change keeps the state that Apple shows.
    fileprivate func takesOver(from earlier: TrackedChange) -> Instant? {
        guard sku == earlier.sku, let sentAt = lastSentAt, let earlierSentAt = earlier.lastSentAt,
            sentAt > earlierSentAt, callProgress.state.isWithApple || isAppliedAfterAll
        else { return nil }
        guard undoes != nil else { return sentAt }
        guard let takenAt = progress.scheduledAt else { return nil }
        // No customer is told of an increase that was undone. If one was told later, the App Store still applies the
        // increase.
        let told = [earlier.progress.consentAskedAt, earlier.progress.acceptedAt].compactMap(\.self)
        guard told.allSatisfy({ $0 <= takenAt }) else { return nil }
        return max(takenAt, sentAt)
    }

    fileprivate mutating func supersede(at end: Instant, because reason: String) {
        progress.state = .invalidated
        progress.reason = reason
        progress.since = end
        progress.endedAt = end
    }
}
