/// Something that a customer, or somebody else, does to a subscription of their own accord, beside what price changes
/// expect: a life that the product's authors would not think of.
struct Doing: Codable, Hashable, Sendable {
    enum Kind: String, Codable, Hashable, Sendable, CaseIterable {
        /// A part of what an item was charged is given back; its service goes on.
        case refundPart
        /// All of it is given back; its service goes on.
        case refundWhole
        /// All of the subscription is given back, which ends with it.
        case refundAndEnd
        /// What was given back of the running period is taken back again; what had ended with it goes on.
        case reverseRefund
        /// Another product at a lower price takes an item's place from the next renewal on.
        case downgrade
        case takeBackDowngrade
        case turnOff, turnOn
        /// Who has left buys again, at the old price or at the one that was coming.
        case resubscribe, resubscribeAtComingPrice
        /// The account belongs to another storefront from the next renewal on.
        case move
        /// Another system lowers the price of an item, whatever is scheduled for it.
        case repriceElsewhere
        /// Seats come in the middle of the period, or one is given back.
        case addSeats, giveBackSeat

        /// Those of which any life may have some.
        fileprivate static let ofAnyLife = allCases.filter {
            $0 != .addSeats && $0 != .giveBackSeat
        }
    }

    var at: Int64
    var kind: Kind

    /// A few doings at random instants, in order; the same seed gives the same ones.
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
    /// Does the next thing of the plan, where the subscription is in a state in which it can be done.
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

    /// A new period begins at once; what had been scheduled is gone.
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
