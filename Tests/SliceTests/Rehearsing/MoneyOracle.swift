/// What finance should read of a batch, computed in plain code from the store's own book and from the calls that were made:
/// it shares no SQL, no verdict and no code with the product.
struct MoneyOracle {
    /// One item of one transaction, as the store charged it.
    struct Charge: Hashable {
        var id: String
        var transaction: String
        var sku: String
        /// Of each seat.
        var price: Int64
        var seats: Int64
        /// Beside the seats of the period that ran.
        var isAddedSeat: Bool
        var currency: String
        var isOffer: Bool
        var refunded: Int64
        var refundedAt: Int64?
        var from: Int64
        var until: Int64

        var total: Int64 { price * seats }
    }

    /// A row of the batch of which a call left.
    struct Called: Hashable {
        var id: String
        var sku: String
        var old: Int64
        var new: Int64
        var currency: String
        var at: Int64
        /// What the product says became of it; only that it was declined, or never was with the store, is believed.
        var state: String
    }

    struct Month {
        var name: String
        var from: Int64
        var to: Int64
    }

    let charges: [Charge]
    let called: [Called]
    let now: Int64

    private func charges(of change: Called) -> [Charge] {
        charges.filter { $0.id == change.id && $0.sku == change.sku }.sorted { $0.from < $1.from }
    }

    /// The charges that a change brought: from the first at its price since its call on, and at that price.
    private func brought(by change: Called) -> [Charge] {
        let states = ["declined", "rejected", "ineligible", "missed", "aborted"]
        guard !states.contains(change.state) else { return [] }
        return charges(of: change).filter {
            $0.from >= change.at && $0.price == change.new && $0.currency == change.currency
                && !$0.isOffer
        }
    }

    /// `id renewals total uplift`, a line a called change: what was kept of each charge, less the same share of what the old
    /// price would have brought.
    var uplifts: [String] {
        called.map { change in
            let kept = brought(by: change).filter { $0.refunded < $0.total }
            let total = kept.reduce(Int64(0)) { $0 + $1.total - $1.refunded }
            let old = kept.reduce(Int64(0)) { sum, charge in
                let part = change.old * (charge.total - charge.refunded)
                return sum + (2 * part + charge.price) / (2 * charge.price)
            }
            return "\(change.id) \(kept.count) \(total) \(total - old)"
        }.sorted()
    }

    /// `month opening closing`: what called items brought a month at the start of each calendar month, or at their call, and at
    /// its end.
    func bridge(_ months: [Month]) -> [String] {
        months.compactMap { month in
            let running = called.filter { $0.at < month.to && $0.at < now }
            let end = min(month.to, now)
            let opens = running.reduce(Int64(0)) { $0 + rate(of: $1, at: max(month.from, $1.at)) }
            let closes = running.reduce(Int64(0)) { $0 + rate(of: $1, at: end) }
            return opens == 0 && closes == 0 ? nil : "\(month.name) \(opens) \(closes)"
        }
    }

    /// A period runs until it is over, until the next one begins, or until all of it was given back. Seats that are added end
    /// none.
    private func rate(of change: Called, at instant: Int64) -> Int64 {
        let paid = charges(of: change)
        return paid.enumerated().reduce(Int64(0)) { sum, each in
            let charge = each.element
            let next = paid[(each.offset + 1)...].first { !$0.isAddedSeat }?.from ?? .max
            let isGiven = charge.price > 0 && charge.refunded >= charge.total
            let until = min(charge.until, next, isGiven ? charge.refundedAt ?? .max : .max)
            let counts =
                charge.currency == change.currency && charge.from < instant && instant <= until
            guard counts else { return sum }
            // An added seat may have cost a part of the price of those beside it.
            let beside = paid.last {
                !$0.isAddedSeat && $0.from <= charge.from && $0.until > charge.from
            }
            guard charge.isAddedSeat, let beside else { return sum + charge.total }
            return sum + beside.price * charge.seats
        }
    }

    /// `transaction sku`: each charge since a call above the old price, and in its money. It belongs to exactly one change that
    /// took effect, or is named once.
    var above: [String] {
        called.flatMap { change in
            charges(of: change).filter {
                $0.from >= change.at && $0.price > change.old && $0.currency == change.currency
            }.map { "\($0.transaction) \($0.sku)" }
        }.sorted()
    }

    /// `transaction sku`: each charge since a call of which something was given back, and not taken back again.
    var refunded: [String] {
        called.flatMap { change in
            charges(of: change).filter { $0.from >= change.at && $0.refunded > 0 && $0.price > 0 }
                .map { "\($0.transaction) \($0.sku)" }
        }.sorted()
    }
}
