/// What the consent rules look at.
struct ConsentQuestion: Hashable, Sendable {
    var storefront: String?
    var currency: String
    var period: Period
    var currentPrice: Int64
    var newPrice: Int64
    /// The latest earlier increase of any item of the subscription.
    var lastIncrease: PastIncrease?
    /// The renewal at which another item's offer ends together with this change; nil when none does.
    var koreaConversionAt: Instant?
    var now: Instant

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

    /// Until when the last increase counts.
    var countsUntil: Instant? { lastIncrease?.at.advanced(byMonths: 12) }
}

/// Our forecast of whether Apple asks for consent.
///
/// Each rule is answered, whether or not an earlier one has already decided. A plan of a million rows holds
/// a million of these, so the answers are kept as their inputs and put into words when they are read.
package struct ConsentVerdict: Hashable, Sendable {
    private let question: ConsentQuestion
    private let amount: Int64?
    private let isAlways: Bool
    private let listSource: RuleSource
    package let thresholdSource: RuleSource
    /// In the order of `ConsentReason`.
    package private(set) var reasons: [ConsentReason] = []

    package var consent: Consent { reasons.isEmpty ? .notRequired : .required }

    /// Every rule with its inputs and its answer.
    package var rules: [RuleAnswer] {
        ConsentReason.allCases.map {
            RuleAnswer(rule: $0, answer: answer($0), inputs: inputs($0))
        }
    }

    /// Judges an increase; a decrease asks no rule.
    init(_ question: ConsentQuestion, rules: RulesInForce) {
        self.question = question
        let threshold = question.storefront.flatMap {
            rules.threshold(storefront: $0, currency: question.currency, kind: question.period.kind)
        }
        let always = question.storefront.flatMap { rules.alwaysConsent(storefront: $0) }
        amount = threshold?.amount
        thresholdSource = threshold?.source ?? .unknown
        isAlways = always?.isRequired ?? false
        listSource = always?.source ?? .unknown
        reasons = ConsentReason.allCases.filter(answer)
    }

    private func answer(_ rule: ConsentReason) -> Bool {
        switch rule {
        case .alwaysConsentStorefront: isAlways
        case .threshold: question.isPercentOver && isAmountOver == true
        case .increaseWithin12Months: question.countsUntil.map { $0 > question.now } ?? false
        case .koreaOfferConversion: koreaConversionAt != nil
        case .unknownThreshold: question.isPercentOver && amount == nil
        }
    }

    private var isAmountOver: Bool? { amount.map { question.difference > $0 } }

    private var koreaConversionAt: Instant? {
        question.storefront == "KOR" ? question.koreaConversionAt : nil
    }

    private func inputs(_ rule: ConsentReason) -> [RuleAnswer.Input] {
        switch rule {
        case .alwaysConsentStorefront:
            [
                .init(name: "storefront", value: .init(text: question.storefront)),
                .init(name: "list_source", value: .text(listSource.rawValue)),
            ]
        case .threshold:
            [
                .init(name: "percent_over", value: .flag(question.isPercentOver)),
                .init(name: "amount_over", value: isAmountOver.map { .flag($0) } ?? .missing),
                .init(name: "increase_milliunits", value: .number(question.difference)),
                .init(name: "threshold_milliunits", value: amount.map { .number($0) } ?? .missing),
                .init(name: "threshold_kind", value: .text(question.period.kind.rawValue)),
                .init(name: "threshold_source", value: .text(thresholdSource.rawValue)),
            ]
        case .increaseWithin12Months:
            [
                .init(name: "last_increase_sku", value: .init(text: question.lastIncrease?.sku)),
                .init(name: "last_increase_at", value: .init(instant: question.lastIncrease?.at)),
                .init(name: "counts_until", value: .init(instant: question.countsUntil)),
            ]
        case .koreaOfferConversion:
            [
                .init(name: "storefront", value: .init(text: question.storefront)),
                .init(name: "offer_ends_at", value: .init(instant: koreaConversionAt)),
            ]
        case .unknownThreshold:
            [
                .init(name: "percent_over", value: .flag(question.isPercentOver)),
                .init(name: "threshold_known", value: .flag(amount != nil)),
            ]
        }
    }
}

extension RuleAnswer.Value {
    fileprivate init(text: String?) {
        self = text.map { .text($0) } ?? .missing
    }

    fileprivate init(instant: Instant?) {
        self = instant.map { .instant($0) } ?? .missing
    }
}
