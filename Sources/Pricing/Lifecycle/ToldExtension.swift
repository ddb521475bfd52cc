/// What a statement said about an extension of the renewal date.
package struct ToldExtension: Hashable, Sendable {
    package enum Outcome: String, Hashable, Sendable, CaseIterable {
        /// A `RENEWAL_EXTENDED` notification told it.
        case extended
        /// A `RENEWAL_EXTENSION`/`FAILURE` of a mass extension told it.
        case failed
        /// A statement of another kind shows that the running period ends later than before. The notification is lost
        /// or yet to come (an inference).
        case seen
    }

    package var evidenceID: String
    package var toldAt: Instant
    package var outcome: Outcome
    package var productID: String?
    package var storefront: String?
    /// The renewal before; nil where nothing was known.
    package var renewalBefore: Instant?
    package var renewalAt: Instant?
}

extension Reading {
    /// The move of the renewal within its period by this statement, stated as an extension or shown by a later end; nil
    /// where there is none.
    var movedRenewal: (from: Instant, to: Instant)? {
        guard let from = formerRenewal, let to = facts.renewalAt, to > from,
            event.type == "RENEWAL_EXTENDED" || endsLater
        else { return nil }
        return (from, to)
    }

    /// The renewal before the statement. If the statement is the first about its period, this is the end that the
    /// period would have had, not the renewal at which it began.
    private var formerRenewal: Instant? {
        guard event.type == "RENEWAL_EXTENDED", facts.sandboxPeriod == nil,
            let known = before.renewalAt,
            let began = newTransaction?.purchasedAt, began >= known,
            let renewals = before.renewals(from: known)
        else { return before.renewalAt }
        return renewals.renewal(renewals.firstIndex(atOrAfter: began.advanced(by: 1)))
    }

    /// Whether the same period, by its purchase, has a later end. A billing failure leaves the end as it was.
    private var endsLater: Bool {
        guard let transaction = runningTransaction, let start = before.purchasedAt,
            transaction.purchasedAt == start, let known = before.expiresAt,
            let told = transaction.expiresAt
        else { return false }
        return told > known
    }
}

extension SubscriptionState {
    mutating func noteExtension(_ reading: Reading) {
        let outcome: ToldExtension.Outcome
        switch (reading.event.type, reading.event.subtype) {
        case ("RENEWAL_EXTENDED", _): outcome = .extended
        case ("RENEWAL_EXTENSION", "FAILURE"): outcome = .failed
        default:
            guard reading.movedRenewal != nil else { return }
            outcome = .seen
        }
        extensions.append(
            ToldExtension(
                evidenceID: reading.event.key.evidenceID, toldAt: reading.at, outcome: outcome,
                productID: reading.facts.productID, storefront: reading.facts.storefront,
                renewalBefore: reading.movedRenewal?.from ?? reading.before.renewalAt,
                renewalAt: reading.facts.renewalAt))
    }
}
