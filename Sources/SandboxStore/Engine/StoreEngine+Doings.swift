/// An unprompted action of a customer, or of somebody else, on a subscription. Such actions test lives of a
/// subscription that the product's authors would not think of.
struct Doing: Codable, Hashable, Sendable {
    enum Kind: String, Codable, Hashable, Sendable, CaseIterable {
        /// A part of an item's charge is refunded; its service continues.
        case refundPart
        /// All of an item's charge is refunded; its service continues.
        case refundWhole
        /// The whole subscription is refunded, and ends.
        case refundAndEnd
        /// A refund of the running period is reversed; service that ended with it continues.
        case reverseRefund
        /// Another product at a lower price takes an item's place from the next renewal on.
        case downgrade
        case takeBackDowngrade
        case turnOff, turnOn
        /// A customer whose subscription has expired buys again, at the old price or at the coming one.
        case resubscribe, resubscribeAtComingPrice
        /// The account moves to another storefront at the next renewal.
        case move
        /// Another system lowers the price of an item, whatever is scheduled for it.
        case repriceElsewhere
        /// Seats are added in the middle of the period, or one is refunded.
        case addSeats, giveBackSeat

        /// The actions that any subscription may have.
        fileprivate static let ofAnyLife = allCases.filter {
            $0 != .addSeats && $0 != .giveBackSeat
        }
    }

    var at: Int64
    var kind: Kind

    /// A few actions at random instants, in order; the same seed gives the same ones.
    static func adversarial(
        of id: String, seed: UInt64, from: Int64, until: Int64, hasSeats: Bool = false
    ) -> [Doing] {
        guard from < until else { return [] }
        var random = SeededRandom(seed: seed, "doings", id)
        let doings = (0..<random.pick(1...6)).map { _ in
            Doing(
                at: random.pick(from...until),
                kind: Kind.ofAnyLife.randomElement(using: &random) ?? .turnOff)
        }
        let seats = hasSeats ? withSeats(of: id, seed: seed, from: from, until: until) : []
        return (doings + seats).sorted { ($0.at, $0.kind.rawValue) < ($1.at, $1.kind.rawValue) }
    }
}

/// Another product that takes an item's place at the next renewal.
struct Replacement: Codable, Hashable, Sendable {
    var sku: String
    var price: Int64
}

extension StoreEngine {
    /// Performs the plan's next action, where the subscription's state allows it.
    mutating func doNext(_ subscription: inout StoreSubscription) {
        guard let doing = subscription.plan.doings?.first else { return }
        subscription.plan.doings?.removeFirst()
        var random = SeededRandom(seed: options.seed, "doing", subscription.id, String(doing.at))
        switch doing.kind {
        case .resubscribe: buyAgain(&subscription, atComingPrice: false)
        case .resubscribeAtComingPrice: buyAgain(&subscription, atComingPrice: true)
        case .reverseRefund: reverseRefund(&subscription)
        case .refundPart, .refundWhole, .refundAndEnd, .downgrade, .takeBackDowngrade, .turnOff,
            .turnOn, .move, .repriceElsewhere, .addSeats, .giveBackSeat:
            guard subscription.status == .active else { return }
            change(&subscription, doing.kind, &random)
        }
    }

    private mutating func change(
        _ subscription: inout StoreSubscription, _ kind: Doing.Kind, _ random: inout SeededRandom
    ) {
        let places = subscription.items.indices.filter { !subscription.items[$0].isLeaving }
        guard let place = places.randomElement(using: &random) else { return }
        switch kind {
        case .refundPart: giveBack(&subscription, place, percent: random.pick(1...99))
        case .refundWhole: giveBack(&subscription, place, percent: 100)
        case .refundAndEnd:
            subscription.plan.refundedAt = now
            perform(StoreAction(at: now, kind: .refund), on: &subscription)
        case .downgrade:
            guard subscription.autoRenews, subscription.items[place].replacement == nil else {
                return
            }
            let item = subscription.items[place]
            subscription.items[place].replacement = Replacement(
                sku: "\(item.sku)_LITE\(subscription.renewalCount)", price: item.price / 2 / 10 * 10
            )
            touch(&subscription)
            notify(.didChangeRenewalPref, .downgrade, &subscription)
        case .takeBackDowngrade:
            guard subscription.items.contains(where: { $0.replacement != nil }) else { return }
            for index in subscription.items.indices { subscription.items[index].replacement = nil }
            touch(&subscription)
            notify(.didChangeRenewalPref, nil, &subscription)
        case .turnOff: if subscription.autoRenews { turnOffRenewal(&subscription) }
        case .turnOn: if !subscription.autoRenews { turnOnRenewal(&subscription) }
        case .move:
            let home = subscription.storefront == "GBR" ? "USA" : "GBR"
            subscription.nextHome = .init(storefront: home, prices: [:])
        case .repriceElsewhere:
            guard subscription.items[place].change?.isCommunicated != true else { return }
            subscription.items[place].change = PendingChange(
                price: subscription.items[place].price * 4 / 5 / 10 * 10,
                effectiveAt: subscription.expiresAt, kind: .decrease)
            touch(&subscription)
            notify(.priceChange, nil, &subscription)
        case .addSeats: addSeats(&subscription, Int(random.pick(1...2)))
        case .giveBackSeat: giveBackSeat(&subscription)
        case .resubscribe, .resubscribeAtComingPrice, .reverseRefund: break
        }
    }

    private mutating func giveBack(
        _ subscription: inout StoreSubscription, _ place: Int, percent: Int64
    ) {
        let item = subscription.items[place]
        guard item.refund == nil, item.chargedPrice > 0 else { return }
        subscription.items[place].refund = ItemRefund(
            amount: max(1, item.chargedPrice * Int64(subscription.seats) * percent / 100), at: now,
            type: percent < 100 ? "PRORATED" : "FULL", revokes: false)
        touch(&subscription)
        notify(.refund, nil, &subscription)
    }

    private mutating func reverseRefund(_ subscription: inout StoreSubscription) {
        let hasEnded = subscription.status == .revoked && subscription.revokedAt != nil
        guard hasEnded || subscription.items.contains(where: { $0.refund != nil }) else { return }
        for index in subscription.items.indices { subscription.items[index].refund = nil }
        if hasEnded {
            subscription.revokedAt = nil
            subscription.status = subscription.expiresAt > now ? .active : .expired
        }
        touch(&subscription)
        notify(.refundReversed, nil, &subscription)
        if hasEnded { setAddedSeats(of: &subscription, areGivenBack: false) }
    }

    /// A new period begins at once, without the changes that were scheduled.
    private mutating func buyAgain(_ subscription: inout StoreSubscription, atComingPrice: Bool) {
        guard subscription.status == .expired else { return }
        subscription.keepPeriod()
        for index in subscription.items.indices {
            if atComingPrice, let change = subscription.items[index].change {
                subscription.items[index].price = change.price
            }
            (subscription.items[index].change, subscription.items[index].isLeaving) = (nil, false)
            (subscription.items[index].offer, subscription.items[index].replacement) = (nil, nil)
        }
        subscription.status = .active
        subscription.autoRenews = true
        subscription.expirationIntent = nil
        (subscription.recoversAt, subscription.nextHome) = (nil, nil)
        subscription.renewalCount += 1
        subscription.lastWasPurchase = true
        subscription.purchasedAt = now
        subscription.boughtAgainAt = now
        subscription.anchorDay = Milliseconds.date(of: now).day
        subscription.expiresAt = options.calendar.end(
            of: subscription.period, from: now, anchorDay: subscription.anchorDay)
        touch(&subscription)
        notify(.subscribed, .resubscribe, &subscription)
    }
}
