/// Communicates increases to subscribers, and decides their answers.
extension StoreEngine {
    /// Communicates every increase that is due, in one message for all items.
    mutating func communicate(_ subscription: inout StoreSubscription) {
        var asked = false
        var informed = false
        for index in subscription.items.indices {
            guard var increase = subscription.items[index].change?.increase,
                increase.status == .scheduled, increase.communicatesAt <= now
            else { continue }
            if increase.needsConsent {
                increase.status = .pending
                asked = true
            } else {
                increase.status = .accepted
                informed = true
            }
            subscription.items[index].change?.increase = increase
        }
        decide(&subscription)
        touch(&subscription)
        if asked { notify(.priceIncrease, .pending, &subscription) }
        if informed { notify(.priceIncrease, .accepted, &subscription) }
    }

    mutating func consent(_ subscription: inout StoreSubscription) {
        for index in subscription.items.indices {
            guard var increase = subscription.items[index].change?.increase,
                increase.status == .pending, let at = increase.consentsAt, at <= now
            else { continue }
            increase.status = .accepted
            subscription.items[index].change?.increase = increase
        }
        touch(&subscription)
        notify(.priceIncrease, .accepted, &subscription)
    }

    /// Decides the subscriber's answer to the communication, which takes effect later.
    private func decide(_ subscription: inout StoreSubscription) {
        let answer = subscription.plan.answer
        for index in subscription.items.indices {
            let item = subscription.items[index]
            guard let change = item.change, var increase = change.increase,
                increase.status != .scheduled, increase.consentsAt == nil
            else { continue }
            let window = change.effectiveAt - now
            guard window > 0 else { continue }
            var random = SeededRandom(
                seed: options.seed, "answer", subscription.id, item.sku, String(change.price))
            let early = now + window * random.pick(20...300) / 1000
            let late = now + window * random.pick(800...970) / 1000
            if answer == .cancels {
                if subscription.plan.cancelsAt == nil { subscription.plan.cancelsAt = early }
                continue
            }
            guard increase.status == .pending else { continue }
            switch answer {
            case .consentsEarly: increase.consentsAt = early
            case .consentsLate: increase.consentsAt = late
            case .consentsToSome: increase.consentsAt = random.chance(50) ? early : nil
            case .ignores, .cancels: increase.consentsAt = nil
            }
            subscription.items[index].change?.increase = increase
        }
    }
}
