/// Apple's consent rule as this store reads it, and the renewal at which a change takes effect.
///
/// It was written from Apple's documentation and not from the product's code, so that a rehearsal can reveal the
/// product's mistakes.
struct ConsentRule: Sendable {
    var subscription: StoreSubscription
    var calendar: BillingCalendar
    var now: Int64

    struct Decision: Hashable, Sendable {
        var needsConsent: Bool
        /// The renewal that first charges the new price.
        var effectiveAt: Int64
        /// When the subscriber is told; for a decrease, which nobody is told, the renewal itself.
        var tellsAt: Int64
    }

    /// The outcome of a call that is made now.
    func decide(item: StoreItem, price: Int64) -> Decision {
        let isIncrease = price > item.price
        func needs(_ index: Int) -> Bool {
            isIncrease && needsConsent(item: item, price: price, at: index)
        }
        if calendar.isShortened {
            // The first renewal after the call keeps the price. At that renewal the store behaves as if it told the
            // subscriber.
            let index = isIncrease ? 1 : 0
            return Decision(
                needsConsent: needs(index), effectiveAt: renewal(index), tellsAt: renewal(0))
        }
        var index = 0
        while latestCall(for: item, at: index, isIncrease, needs(index)) < now { index += 1 }
        let lead = isIncrease ? lead(for: item, at: index, needs(index)) : 0
        return Decision(
            needsConsent: needs(index), effectiveAt: renewal(index),
            tellsAt: max(now, renewal(index) - lead))
    }

    /// Whether raising `item` to `price` at a renewal needs the subscriber's consent.
    func needsConsent(item: StoreItem, price: Int64, at index: Int = 0) -> Bool {
        let rise = price - item.price
        guard rise > 0 else { return false }
        if wasIncreasedWithinYear(before: renewal(index), besides: item) { return true }
        if isKoreanConversion(at: index, besides: item) { return true }
        // Consent is needed above half the price and above the amount. A rise that equals a limit is not above it.
        guard rise > item.price - rise else { return false }
        guard let market = Markets.byStorefront[subscription.storefront] else { return true }
        let amount =
            subscription.period == .year ? market.thresholds.annual : market.thresholds.nonAnnual
        return rise > amount
    }

    private func renewal(_ index: Int) -> Int64 {
        subscription.renewal(index, calendar: calendar)
    }

    /// An increase that was charged, or one of another item that will be charged at an earlier renewal.
    private func wasIncreasedWithinYear(before renewal: Int64, besides item: StoreItem) -> Bool {
        let scheduled = subscription.items.filter { $0.sku != item.sku }.compactMap { other in
            other.change?.increase == nil ? nil : other.change?.effectiveAt
        }
        let increases =
            scheduled.filter { $0 < renewal } + [subscription.increasedAt].compactMap { $0 }
        return increases.contains { yearAfter($0) > now }
    }

    private func yearAfter(_ instant: Int64) -> Int64 {
        let (days, rest) = Milliseconds.split(instant)
        let date = CivilDate(daysSinceEpoch: days)
        return date.stepped(months: 12, anchorDay: date.day).daysSinceEpoch * Milliseconds.day
            + rest
    }

    /// Whether another item's offer turns into its full price at this very renewal.
    private func isKoreanConversion(at index: Int, besides item: StoreItem) -> Bool {
        guard subscription.storefront == "KOR" else { return false }
        return subscription.items.contains { other in
            other.sku != item.sku && !other.isLeaving && other.offer?.periodsLeft == index
        }
    }

    private func lead(for item: StoreItem, at index: Int, _ needsConsent: Bool) -> Int64 {
        // Korea has its own window, the 30 days before the conversion.
        if isKoreanConversion(at: index, besides: item) { return 30 * Milliseconds.day }
        return (needsConsent ? subscription.period.consentLeadDays : 27) * Milliseconds.day
    }

    /// The last instant at which a call still takes effect at this renewal.
    private func latestCall(
        for item: StoreItem, at index: Int, _ isIncrease: Bool, _ needsConsent: Bool
    ) -> Int64 {
        guard isIncrease else { return renewal(index) - Milliseconds.day }
        if !needsConsent, subscription.period == .week {
            // 27 days span four weeks: the fourth renewal in a row is the first at the new price.
            return index < 3 ? .min : renewal(index - 3) - Milliseconds.day
        }
        return renewal(index)
            - max(lead(for: item, at: index, needsConsent), Milliseconds.day)
    }
}
