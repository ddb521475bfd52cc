/// The state of one price change as it is stored, reported and typed. The names are a contract.
package enum ChangeState: String, Hashable, Sendable, CaseIterable {
    case awaitingApproval = "awaiting_approval"
    case queued
    case sending
    case unknown
    case scheduled
    case pendingConsent = "pending_consent"
    case accepted
    case effective
    case declined
    case cancelled
    case lapsed
    case invalidated
    case rejected
    case ineligible
    case missed
    case aborted

    /// Whether nothing more is expected.
    package var isFinal: Bool {
        switch self {
        case .awaitingApproval, .queued, .sending, .unknown, .scheduled, .pendingConsent, .accepted:
            false
        case .effective, .declined, .cancelled, .lapsed, .invalidated, .rejected, .ineligible,
            .missed, .aborted:
            true
        }
    }

    /// Whether Apple has, or may have, the change.
    package var isWithApple: Bool {
        switch self {
        case .sending, .unknown, .scheduled, .pendingConsent, .accepted: true
        case .awaitingApproval, .queued, .effective, .declined, .cancelled, .lapsed, .invalidated,
            .rejected, .ineligible, .missed, .aborted:
            false
        }
    }
}
