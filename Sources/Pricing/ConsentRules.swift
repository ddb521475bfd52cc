/// What the consent rules look at.
struct ConsentQuestion {
    var storefront: String?
    var currency: String
    var period: Period
    var currentPrice: Int64
    var newPrice: Int64
    var history: [PastIncrease]
    /// The renewal at which another item's offer ends together with this change; nil when none does.
    var koreaConversionAt: Instant?
    var now: Instant
}

/// Our forecast of whether Apple asks for consent.
///
/// Each rule is answered, whether or not an earlier one has already decided.
package struct ConsentVerdict: Hashable, Sendable {
    package var reasons: [ConsentReason]
    package var rules: [RuleAnswer]
    package var thresholdSource: RuleSource

    package var consent: Consent { reasons.isEmpty ? .notRequired : .required }

    /// Judges an increase; a decrease asks no rule.
    init(_ question: ConsentQuestion, rules inForce: RulesInForce) {
        let threshold = question.storefront.flatMap {
            inForce.threshold(
                storefront: $0, currency: question.currency, kind: question.period.kind)
        }
        thresholdSource = threshold?.source ?? .unknown
        rules = ConsentReason.allCases.map { rule in
            switch rule {
            case .alwaysConsentStorefront: ConsentVerdict.always(question, inForce)
            case .threshold: ConsentVerdict.threshold(question, threshold)
            case .increaseWithin12Months: ConsentVerdict.history(question)
            case .koreaOfferConversion: ConsentVerdict.korea(question)
            case .unknownThreshold: ConsentVerdict.unknown(question, threshold)
            }
        }
        reasons = rules.filter(\.answer).map(\.rule)
    }

    private static func always(_ question: ConsentQuestion, _ rules: RulesInForce) -> RuleAnswer {
        let row = question.storefront.flatMap { rules.alwaysConsent(storefront: $0) }
        return RuleAnswer(
            rule: .alwaysConsentStorefront, answer: row?.isRequired ?? false,
            inputs: [
                .init(name: "storefront", value: question.storefront.map { .text($0) } ?? .missing),
                .init(
                    name: "list_source",
                    value: .text((row?.source ?? .unknown).rawValue)),
            ])
    }

    private static func threshold(
        _ question: ConsentQuestion, _ threshold: RuleSet.Threshold?
    ) -> RuleAnswer {
        let isPercentOver = question.isPercentOver
        let isAmountOver = threshold.map { question.difference > $0.amount }
        return RuleAnswer(
            rule: .threshold, answer: isPercentOver && isAmountOver == true,
            inputs: [
                .init(name: "percent_over", value: .flag(isPercentOver)),
                .init(name: "amount_over", value: isAmountOver.map { .flag($0) } ?? .missing),
                .init(name: "increase_milliunits", value: .number(question.difference)),
                .init(
                    name: "threshold_milliunits",
                    value: threshold.map { .number($0.amount) } ?? .missing),
                .init(name: "threshold_kind", value: .text(question.period.kind.rawValue)),
                .init(
                    name: "threshold_source",
                    value: .text((threshold?.source ?? .unknown).rawValue)),
            ])
    }

    private static func history(_ question: ConsentQuestion) -> RuleAnswer {
        let latest = question.history.max { ($0.at, $0.sku) < ($1.at, $1.sku) }
        let countsUntil = latest?.at.advanced(byMonths: 12)
        return RuleAnswer(
            rule: .increaseWithin12Months,
            answer: countsUntil.map { $0 > question.now } ?? false,
            inputs: [
                .init(name: "last_increase_sku", value: latest.map { .text($0.sku) } ?? .missing),
                .init(name: "last_increase_at", value: latest.map { .instant($0.at) } ?? .missing),
                .init(name: "counts_until", value: countsUntil.map { .instant($0) } ?? .missing),
            ])
    }

    private static func korea(_ question: ConsentQuestion) -> RuleAnswer {
        let conversionAt = question.storefront == "KOR" ? question.koreaConversionAt : nil
        return RuleAnswer(
            rule: .koreaOfferConversion, answer: conversionAt != nil,
            inputs: [
                .init(name: "storefront", value: question.storefront.map { .text($0) } ?? .missing),
                .init(
                    name: "offer_ends_at", value: conversionAt.map { .instant($0) } ?? .missing),
            ])
    }

    private static func unknown(
        _ question: ConsentQuestion, _ threshold: RuleSet.Threshold?
    ) -> RuleAnswer {
        RuleAnswer(
            rule: .unknownThreshold, answer: threshold == nil && question.isPercentOver,
            inputs: [
                .init(name: "percent_over", value: .flag(question.isPercentOver)),
                .init(name: "threshold_known", value: .flag(threshold != nil)),
            ])
    }
}

extension ConsentQuestion {
    /// New minus current; stops at the largest number instead of overflowing.
    var difference: Int64 {
        let (difference, overflow) = newPrice.subtractingReportingOverflow(currentPrice)
        return overflow ? .max : difference
    }

    /// Whether the increase is more than half of the current price; exactly half is not.
    var isPercentOver: Bool {
        // Twice the difference can overflow; what is over the first half cannot.
        difference > currentPrice || difference > currentPrice - difference
    }
}
