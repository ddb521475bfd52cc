/// Apple's consent rule as this store reads it, and the renewal that a change reaches.
struct ConsentRule: Sendable {
    var subscription: StoreSubscription
    var calendar: BillingCalendar
    var now: Int64

    /// Whether raising `item` to `price` needs the subscriber's consent.
    func needsConsent(item: StoreItem, price: Int64) -> Bool {
        let rise = price - item.price
        guard rise > 0 else { return false }
        if wasIncreasedWithinYear { return true }
        // More than half, and more than the amount: exactly equal is not over.
        guard rise > item.price - rise, let market = Markets.byStorefront[subscription.storefront]
        else { return rise > item.price - rise || endsKoreanOffer(besides: item) }
        let amount =
            subscription.period == .year ? market.thresholds.annual : market.thresholds.nonAnnual
        return rise > amount || endsKoreanOffer(besides: item)
    }

    private var wasIncreasedWithinYear: Bool {
        guard let increasedAt = subscription.increasedAt else { return false }
        let (days, rest) = Milliseconds.split(increasedAt)
        let date = CivilDate(daysSinceEpoch: days)
        let yearLater = date.stepped(months: 12, anchorDay: date.day)
        return yearLater.daysSinceEpoch * Milliseconds.day + rest > now
    }

    private func endsKoreanOffer(besides item: StoreItem) -> Bool {
        subscription.storefront == "KOR"
            && subscription.items.contains { $0.sku != item.sku && $0.offer?.periodsLeft == 0 }
    }

    /// When a change asked for now is first charged, and when its subscriber is told.
    func schedule(isIncrease: Bool, needsConsent: Bool) -> (effectiveAt: Int64, tellsAt: Int64) {
        if calendar.isShortened {
            // The first renewal after the call keeps the price; then the store acts as if it told.
            let first = subscription.renewal(0, calendar: calendar)
            return isIncrease
                ? (subscription.renewal(1, calendar: calendar), first) : (first, first)
        }
        guard isIncrease else {
            let at = firstRenewal(withLead: Milliseconds.day)
            return (at.renewal, at.renewal)
        }
        let leadDays = needsConsent ? subscription.period.consentLeadDays : 27
        let lead = leadDays * Milliseconds.day
        if !needsConsent, subscription.period == .week {
            // 27 days span four weeks: the fourth renewal in a row is the first at the new price.
            let first = firstRenewal(withLead: Milliseconds.day)
            let fourth = subscription.renewal(first.index + 3, calendar: calendar)
            return (fourth, max(now, fourth - lead))
        }
        let at = firstRenewal(withLead: max(lead, Milliseconds.day))
        return (at.renewal, at.renewal - lead)
    }

    private func firstRenewal(withLead lead: Int64) -> (index: Int, renewal: Int64) {
        var index = 0
        while subscription.renewal(index, calendar: calendar) - lead < now { index += 1 }
        return (index, subscription.renewal(index, calendar: calendar))
    }
}
