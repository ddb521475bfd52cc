/// What the consent rules look at.
struct ConsentQuestion: Hashable, Sendable {
    var storefront: String?
    var currency: String
    var period: Period
    var currentPrice: Int64
    var newPrice: Int64
    /// The latest earlier increase of any item of the subscription.
    var lastIncrease: PastIncrease?
    /// Since when statements tell what the subscription was charged; nil: none does.
    var knownSince: Instant?
    /// Whether they tell it from the running subscription's first period on.
    var isKnownFromStart = false
    /// Another item whose offer ends together with this change; nil when none does.
    var koreaConversion: OfferConversion?
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

    /// The increase in hundredths of a per cent of the current price, rounded half up as `report` does; nil
    /// where the current price is 0. For people: the rule itself compares without rounding.
    var basisPoints: Int64? {
        guard currentPrice > 0, difference >= 0 else { return nil }
        let scaled = difference.magnitude.multipliedFullWidth(by: 10_000)
        guard scaled.high < currentPrice.magnitude else { return nil }
        let (whole, rest) = currentPrice.magnitude.dividingFullWidth(scaled)
        let roundedUp: UInt64 = rest >= currentPrice.magnitude - rest ? 1 : 0
        return Int64(exactly: whole + roundedUp)
    }

    /// Until when the last increase counts.
    var countsUntil: Instant? { lastIncrease?.at.advanced(byMonths: 12) }

    /// The instants after now at which time alone turns an answer: the last increase no longer counts, or a whole year
    /// is known.
    var turns: [Instant] {
        [countsUntil, knownSince?.advanced(byMonths: 12)].compactMap { $0 }
            .filter { $0 > now }.sorted()
    }

    /// Whether an increase counts now. That none is known says no only where none can have been overlooked.
    var hasRisen: Bool? {
        if let countsUntil, countsUntil > now { return true }
        let isYearKnown = knownSince.map { $0.advanced(byMonths: 12) <= now } ?? false
        return isKnownFromStart || isYearKnown ? false : nil
    }
}

/// An item that goes from a trial or a discounted offer to its full price.
struct OfferConversion: Hashable, Sendable {
    var sku: String
    /// The renewal that first charges the full price.
    var at: Instant

    /// South Korea: consent is asked for in the 30 days before the conversion day, that day excluded
    /// (1 May: 1 to 30 April). Days are UTC, as all dates of a plan.
    var windowFirstDay: CivilDate { at.advanced(by: -30 * Instant.millisecondsPerDay).day }
    var windowLastDay: CivilDate { at.advanced(by: -Instant.millisecondsPerDay).day }
}

/// Our forecast of whether Apple asks for consent.
///
/// Each rule is answered, whether or not an earlier one has already decided. A plan of a million rows holds
/// a million of these, so the answers are kept as their inputs and put into words when they are read.
package struct ConsentVerdict: Hashable, Sendable {
    private let question: ConsentQuestion
    private let threshold: ThresholdInForce?
    private let always: RulesInForce.AlwaysAnswer?
    /// The rules that require consent, in the order of `ConsentReason`.
    package private(set) var reasons: [ConsentReason] = []
    /// The rules whose answer nobody knows, in the same order.
    package private(set) var notKnown: [ConsentReason] = []

    package var consent: Consent {
        guard reasons.isEmpty else { return .required }
        return notKnown.isEmpty ? .notRequired : .notKnown
    }
    package var thresholdSource: RuleSource { threshold?.source ?? .unknown }

    /// Whether the amount of the threshold matters: above 50 % it decides, or would without another reason.
    package var restsOnThreshold: Bool { question.isPercentOver }

    /// The latest earlier increase that was looked at.
    var lastIncrease: PastIncrease? { question.lastIncrease }

    /// The amount that it was compared with, milliunits; nil where none is known.
    var thresholdAmount: Int64? { threshold?.amount }

    /// The renewal at which another item's offer ends together with this change.
    var offerEndsAt: Instant? { conversion?.at }

    /// Every rule with its inputs and its answer.
    package var rules: [RuleAnswer] {
        ConsentReason.allCases.map {
            RuleAnswer(rule: $0, answer: answer($0), inputs: inputs($0))
        }
    }

    /// Judges an increase; a decrease asks no rule.
    init(_ question: ConsentQuestion, rules: RulesInForce) {
        self.question = question
        threshold = question.storefront.flatMap {
            rules.thresholdInForce(
                storefront: $0, currency: question.currency, kind: question.period.kind)
        }
        always = question.storefront.flatMap { rules.alwaysAnswer(storefront: $0) }
        reasons = those(answering: true)
        notKnown = those(answering: nil)
    }

    private func those(answering wanted: Bool?) -> [ConsentReason] {
        ConsentReason.allCases.filter { answer($0) == wanted }
    }

    private func answer(_ rule: ConsentReason) -> Bool? {
        switch rule {
        case .alwaysConsentStorefront: always?.isRequired
        case .threshold: question.isPercentOver ? isAmountOver : false
        case .increaseWithin12Months: question.hasRisen
        case .koreaOfferConversion: conversion != nil
        }
    }

    private var isAmountOver: Bool? { threshold.map { question.difference > $0.amount } }

    private var conversion: OfferConversion? {
        question.storefront == "KOR" ? question.koreaConversion : nil
    }
}

extension ConsentVerdict {
    private func inputs(_ rule: ConsentReason) -> [RuleAnswer.Input] {
        switch rule {
        case .alwaysConsentStorefront:
            [
                .init("storefront", question.storefront.map { .text($0) }),
                .init("list_source", .text(always?.source ?? RuleSource.unknown.rawValue)),
            ]
        case .threshold: thresholdInputs + (threshold?.estimate?.inputs ?? [])
        case .increaseWithin12Months: historyInputs
        case .koreaOfferConversion: koreaInputs
        }
    }

    private var historyInputs: [RuleAnswer.Input] {
        let last = question.lastIncrease
        let because: [RuleAnswer.Input] =
            question.hasRisen == true
            ? [.init("because", last.map { .instant($0.at) })] : []
        return because + [
            .init("last_increase_sku", last.map { .text($0.sku) }),
            .init("last_increase_at", last.map { .instant($0.at) }),
            .init("counts_until", question.countsUntil.map { .instant($0) }),
            .init("known_since", question.knownSince.map { .instant($0) }),
            .init("known_from_start", .flag(question.isKnownFromStart)),
        ]
    }

    private var thresholdInputs: [RuleAnswer.Input] {
        [
            .init("percent_over", .flag(question.isPercentOver)),
            .init("amount_over", isAmountOver.map { .flag($0) }),
            .init("increase_basis_points", question.basisPoints.map { .number($0) }),
            .init("increase_milliunits", .number(question.difference)),
            .init("threshold_milliunits", threshold.map { .number($0.amount) }),
            .init("threshold_kind", .text(question.period.kind.rawValue)),
            .init("threshold_source", .text(thresholdSource.rawValue)),
        ]
    }

    private var koreaInputs: [RuleAnswer.Input] {
        let inputs: [RuleAnswer.Input] = [
            .init("storefront", question.storefront.map { .text($0) }),
            .init("offer_ends_at", conversion.map { .instant($0.at) }),
        ]
        // A plan stores these a million times: what no other storefront has is left out.
        guard let conversion else { return inputs }
        return inputs + [
            .init("offer_sku", .text(conversion.sku)),
            .init("conversion_on", .text(conversion.at.day.text)),
            .init("window_first_on", .text(conversion.windowFirstDay.text)),
            .init("window_last_on", .text(conversion.windowLastDay.text)),
        ]
    }
}

extension ThresholdEstimate {
    fileprivate var inputs: [RuleAnswer.Input] {
        [
            .init("usd_threshold_milliunits", .number(usdAmount)),
            .init("units_per_eur", .text(perEuro.text)),
            .init("usd_per_eur", .text(usdPerEuro.text)),
            .init("rates_from", ratesFrom.map { .instant($0) }),
            .init("rates_source", .text(source)),
        ]
    }
}

extension RuleAnswer.Input {
    fileprivate init(_ name: String, _ value: RuleAnswer.Value?) {
        self.init(name: name, value: value ?? .missing)
    }
}
