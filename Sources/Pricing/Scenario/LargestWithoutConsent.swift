extension RulesInForce {
    /// The highest price of the currency that needs no consent as far as the threshold decides: one step more exceeds
    /// the threshold, or has no answer. The current price may lie between the currency's steps, because for several
    /// seats it is the average. Nil where not even one step needs no consent, or the current price is not usable.
    ///
    /// As the price grows, the answer changes only once: at half of the current price, or at the threshold's amount.
    func largestBelowThreshold(
        from current: Int64, storefront: String, currency: Currency, kind: PeriodKind
    ) -> Int64? {
        let figures = ConsentFigures(
            storefront: storefront, currency: currency.code, kind: kind, rules: self)
        let first = current / currency.smallestStep * currency.smallestStep
        func isFree(_ steps: Int64) -> Bool {
            let question = ConsentQuestion(
                storefront: storefront, currency: currency.code,
                period: kind == .annual ? .year : .month, currentPrice: current,
                newPrice: first + steps * currency.smallestStep, now: .distantPast)
            return question.answers(figures).isOverThreshold == false
        }
        guard current >= 0, current < Int64.max / 8, isFree(1) else { return nil }
        // The search ends at the largest price that anybody takes.
        var free: Int64 = 1
        var over = max(2, current / currency.smallestStep)
        while isFree(over) {
            free = over
            guard over < Int64.max / 4 / currency.smallestStep else { return nil }
            over *= 2
        }
        while over - free > 1 {
            let middle = free + (over - free) / 2
            if isFree(middle) { free = middle } else { over = middle }
        }
        return first + free * currency.smallestStep
    }
}
