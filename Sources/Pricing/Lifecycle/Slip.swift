/// Why a change is due at a later renewal, or was charged later, than was forecast.
package enum Slip: String, Hashable, Sendable, CaseIterable {
    /// A charge failed at first, and the period that followed began late.
    case billingFailure = "billing_failure"
    /// Our call was sent after the last instant in its plan.
    case lateCall = "late_call"
    /// The renewal date was extended.
    case `extension`
    /// The cause is an offer, another verdict on consent than ours, the customer's own doing, or not known.
    case other
}

extension SubscriptionFacts {
    /// Why a change that was due at a renewal, and whose call is in time, is due at a later one.
    ///
    /// Renewals fall on other days once a charge has failed and succeeded later, and also where the customer began a
    /// new period. An extension is recognised by what it leaves behind, not by these facts.
    package func slip(from due: Instant) -> Slip {
        guard transactionReason != "PURCHASE", let renewal = renewal(around: due),
            isLater(renewal, than: due)
        else { return .other }
        return .billingFailure
    }

    /// Whether it is later by more than `momentsMax`, because renewals are not charged to the second.
    func isLater(_ instant: Instant, than due: Instant) -> Bool {
        instant.milliseconds - due.milliseconds > momentsMax
    }
}

extension TrackedChange {
    /// Why the App Store applies it at a later renewal than planned, where nothing else explains it. If the call was
    /// sent in time, the App Store judged it otherwise, for instance because another item of the subscription rises
    /// first.
    var slipOfTheCall: Slip {
        guard let lastSentAt, let sendBy, lastSentAt > sendBy else { return .other }
        return .lateCall
    }

    /// Stores why it moved. The first reason stays, because later causes move a change that is late already.
    mutating func noteSlip(_ slip: Slip, from due: Instant?, to later: Instant, _ reading: Reading)
    {
        guard let due, reading.facts.isLater(later, than: due) else { return }
        progress.slip = progress.slip ?? slip
    }

    /// Notes, for a change that was charged at last, why that was later than it was due.
    mutating func noteLateCharge(_ transaction: TransactionStatement, _ reading: Reading) {
        guard let due = progress.dueAt, let began = transaction.purchasedAt else { return }
        let isLate =
            reading.before.renewalAt.map { reading.facts.isLater(began, than: $0) } ?? false
        if isLate, reading.newTransaction != nil, transaction.reason != "PURCHASE" {
            noteSlip(.billingFailure, from: due, to: began, reading)
        } else {
            noteSlip(slipOfTheCall, from: due, to: began, reading)
        }
    }
}
