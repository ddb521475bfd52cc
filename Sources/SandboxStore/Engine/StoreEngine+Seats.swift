/// Seats: a subscription may be paid for several times, at the same prices. Apple does not document the fields that it
/// signs for them; these come from third parties (an inference).
extension StoreEngine {
    /// Adds seats at once. Their own transaction pays for them until the end of the running period; the next renewal
    /// pays for all seats.
    mutating func addSeats(_ subscription: inout StoreSubscription, _ count: Int) {
        guard subscription.autoRenews, subscription.expiresAt > now,
            let transaction = subscription.addSeats(count, at: now)
        else { return }
        touch(&subscription)
        notify(.didChangeRenewalPref, .increaseQuantity, &subscription, about: transaction)
    }

    /// With a refund of the whole subscription, also refunds the added seats of its running period, which have
    /// transactions of their own; or reverses that refund.
    mutating func setAddedSeats(of subscription: inout StoreSubscription, areGivenBack: Bool) {
        for index in (subscription.past ?? []).indices {
            guard let period = subscription.past?[index], period.isAddedSeat == true,
                period.expiresAt == subscription.expiresAt,
                period.items.contains(where: { ($0.refund == nil) == areGivenBack })
            else { continue }
            var items = period.items
            for place in items.indices {
                items[place].refund =
                    areGivenBack
                    ? ItemRefund(
                        amount: items[place].chargedPrice * Int64(period.seatCount ?? 1), at: now,
                        type: "FULL", revokes: true) : nil
            }
            subscription.past?[index].items = items
            notify(
                areGivenBack ? .refund : .refundReversed, nil, &subscription,
                about: subscription.originalTransactionID + Int64(period.number))
        }
    }

    /// Refunds one of several seats, which then does not renew. Nothing is revoked.
    mutating func giveBackSeat(_ subscription: inout StoreSubscription) {
        guard subscription.seats > 1, subscription.items.allSatisfy({ $0.refund == nil }) else {
            return
        }
        for index in subscription.items.indices where subscription.items[index].chargedPrice > 0 {
            subscription.items[index].refund = ItemRefund(
                amount: subscription.items[index].chargedPrice, at: now, type: "FULL",
                revokes: false)
        }
        let next = subscription.renewalSeatCount ?? subscription.seats
        subscription.renewalSeatCount = max(1, next - 1)
        touch(&subscription)
        notify(.refund, .seats, &subscription)
    }
}

extension StoreSubscription {
    /// Returns the transaction that pays for the seats; nil where no number is left. Such transactions are numbered
    /// from the last number down, so that renewals keep counting up.
    fileprivate mutating func addSeats(_ count: Int, at now: Int64) -> Int64? {
        let added = (past ?? []).count { $0.isAddedSeat == true }
        let number = Int(Self.transactionsMax) - 1 - added
        guard number > renewalCount + added else { return nil }
        var paid = items.filter { !$0.isLeaving }
        for index in paid.indices {
            (paid[index].change, paid[index].nextSKU) = (nil, nil)
            (paid[index].replacement, paid[index].refund) = (nil, nil)
        }
        past =
            (past ?? []) + [
                PastPeriod(
                    number: number, purchasedAt: now, expiresAt: expiresAt, wasPurchase: true,
                    storefront: storefront, currency: currency, seatCount: count, isAddedSeat: true,
                    items: paid)
            ]
        renewalSeatCount = (renewalSeatCount ?? seats) + count
        return originalTransactionID + Int64(number)
    }
}

extension Doing {
    /// Actions that add seats and refund some; the same seed gives the same ones.
    static func withSeats(
        of id: String, seed: UInt64, from: Int64, until: Int64
    ) -> [Doing] {
        guard from < until else { return [] }
        var random = SeededRandom(seed: seed, "seats", id)
        return (0..<random.pick(0...4)).map { _ in
            Doing(
                at: random.pick(from...until), kind: random.chance(60) ? .addSeats : .giveBackSeat)
        }
    }
}
