/// What our own calls say of a change, without any statement.
extension TrackedChange {
    /// Sets the progress with which a fold begins. States that only we decide are kept; all others are computed again from
    /// the statements. A change that was applied after we abandoned it starts as aborted at the instant of its call, so no
    /// statement is about it until one shows that it was applied.
    ///
    /// - Parameter plannedAt: The renewal for which the last call was planned.
    package mutating func beginAtCall(plannedAt: Instant?) {
        guard !isClosed else { return }
        let since = sentAt ?? doubtfulSince ?? progress.since
        func at(_ state: ChangeState) -> ChangeProgress {
            ChangeProgress(state: state, dueAt: plannedAt, since: since)
        }
        if progress.state.isTold, since == doubtfulSince {
            callProgress = at(.aborted)
            return
        }
        switch progress.state {
        case .awaitingApproval, .queued, .rejected, .ineligible, .missed, .aborted:
            callProgress = progress
            // Only a fold computes it.
            callProgress.slip = nil
        case .unknown: callProgress = at(.unknown)
        case .sending, .scheduled, .pendingConsent, .accepted, .effective, .declined, .cancelled,
            .lapsed, .invalidated:
            callProgress = at(.sending)
        }
    }

    /// When the call was sent that statements show applied, although we had abandoned it: from now on it is the call that
    /// the App Store has. nil where the last call is.
    package var adoptedCallAt: Instant? {
        guard !progress.state.isBeforeApple else { return nil }
        return sentAt == nil || callProgress.state.isBeforeApple ? doubtfulSince : nil
    }
}

extension ChangeState {
    /// Whether a statement by Apple led to the state, not a call or a decision of ours.
    fileprivate var isTold: Bool {
        switch self {
        case .awaitingApproval, .queued, .sending, .unknown, .rejected, .ineligible, .missed,
            .aborted:
            false
        case .scheduled, .pendingConsent, .accepted, .effective, .declined, .cancelled, .lapsed,
            .invalidated:
            true
        }
    }

    /// Whether no call of it is known to be with the App Store: it waits for one, or ended without one.
    fileprivate var isBeforeApple: Bool {
        switch self {
        case .awaitingApproval, .queued, .rejected, .ineligible, .missed, .aborted: true
        case .sending, .unknown, .scheduled, .pendingConsent, .accepted, .effective, .declined,
            .cancelled, .lapsed, .invalidated:
            false
        }
    }
}
