/// What the consent rules are asked about.
struct ConsentQuestion: Hashable, Sendable {
    var storefront: String?
    var currency: String
    var period: Period
    var currentPrice: Int64
    var newPrice: Int64
    /// The latest increase of any item of the subscription that takes effect before this one.
    var lastIncrease: EarlierIncrease?
    /// Since when statements show what the subscription was charged; nil where none does.
    var knownSince: Instant?
    /// Whether they show it from the first period of the running subscription on.
    var isKnownFromStart = false
    /// The offer of another item that ends together with this change; nil where none is known to.
    var koreaConversion: OfferConversion?
    /// Another item in South Korea whose offer may end together with this change: its end is not known.
    var offerWithoutEnd: String?
    /// The instant of the call.
    var now: Instant

    /// The new price minus the current one. It stops at the largest number instead of overflowing.
    var difference: Int64 {
        let (difference, overflow) = newPrice.subtractingReportingOverflow(currentPrice)
        return overflow ? .max : difference
    }

    /// Whether the increase is more than half of the current price. Exactly half is not.
    var isPercentOver: Bool {
        // Twice the difference can overflow, but what is left beyond the first half cannot.
        difference > currentPrice || difference > currentPrice - difference
    }

    /// The increase in hundredths of a percent of the current price, rounded half up as `report` rounds; nil where
    /// the current price is 0. It is for people: the rule itself compares without rounding.
    var basisPoints: Int64? {
        guard currentPrice > 0, difference >= 0 else { return nil }
        let scaled = difference.magnitude.multipliedFullWidth(by: 10_000)
        guard scaled.high < currentPrice.magnitude else { return nil }
        let (whole, rest) = currentPrice.magnitude.dividingFullWidth(scaled)
        let roundedUp: UInt64 = rest >= currentPrice.magnitude - rest ? 1 : 0
        return Int64(exactly: whole + roundedUp)
    }

    /// The answers of the rules.
    func answers(_ figures: ConsentFigures) -> ConsentAnswers {
        ConsentAnswers(
            isAlwaysAsked: figures.always?.isRequired,
            isOverThreshold: isPercentOver ? figures.threshold?.isExceeded(by: difference) : false,
            hasRisen: hasRisen, isConversion: isConversion)
    }

    private var isConversion: Bool? {
        if koreaConversion != nil { return true }
        return offerWithoutEnd == nil ? false : nil
    }

    /// Whether an earlier increase counts now. If none is known, the answer is no only where none can have been missed.
    private var hasRisen: Bool? {
        if let lastIncrease, lastIncrease.countsUntil > now { return true }
        let isYearKnown = knownSince.map { YearBefore(now).isCovered(since: $0) } ?? false
        return isKnownFromStart || isYearKnown ? false : nil
    }
}

/// The 12 calendar months before an instant.
///
/// 29 February has no day a year before it or after it, so that its 28th stands for both. The year is counted back from
/// the instant, which is the stricter way: what it covers is covered forward from what is known, too.
struct YearBefore {
    private let instant: Instant

    init(_ instant: Instant) { self.instant = instant }

    func isCovered(since known: Instant) -> Bool {
        instant.advanced(byMonths: -12) >= known
    }

    /// The instants at which a year becomes covered, or stops being covered. It is one instant, except around a leap
    /// day.
    static func turns(since known: Instant) -> [Instant] {
        let end = known.advanced(byMonths: 12)
        guard end.day.month == 2, end.day.day == 28 else { return [end] }
        let dayLater = end.advanced(by: Instant.millisecondsPerDay)
        return [end, dayLater.day.startAt, dayLater]
    }
}

/// What each rule answers; nil where it is not known.
struct ConsentAnswers: Hashable, Sendable {
    var isAlwaysAsked: Bool?
    var isOverThreshold: Bool?
    var hasRisen: Bool?
    var isConversion: Bool?

    subscript(_ rule: ConsentReason) -> Bool? {
        switch rule {
        case .alwaysConsentStorefront: isAlwaysAsked
        case .threshold: isOverThreshold
        case .increaseWithin12Months: hasRisen
        case .koreaOfferConversion: isConversion
        }
    }

    /// Required where one rule says yes; otherwise not known where one does not know.
    var consent: Consent {
        let answers = [isAlwaysAsked, isOverThreshold, hasRisen, isConversion]
        if answers.contains(true) { return .required }
        return answers.contains(nil) ? .notKnown : .notRequired
    }

    /// The rules with this answer, in the order of `ConsentReason`.
    func rules(answering wanted: Bool?) -> [ConsentReason] {
        ConsentReason.allCases.filter { self[$0] == wanted }
    }
}

/// Our forecast of whether Apple asks for consent.
///
/// Each rule is answered, whether or not an earlier one has already decided. A plan of a million rows holds a million
/// verdicts. So each keeps only the inputs of its answers, in one place that all copies of a row share, and puts them
/// into words when they are read.
package struct ConsentVerdict: Hashable, Sendable {
    private final class Basis: Hashable, Sendable {
        let question: ConsentQuestion
        let figures: ConsentFigures
        let answers: ConsentAnswers

        init(_ question: ConsentQuestion, _ figures: ConsentFigures) {
            self.question = question
            self.figures = figures
            answers = question.answers(figures)
        }

        static func == (left: Basis, right: Basis) -> Bool {
            left.question == right.question && left.figures == right.figures
        }

        func hash(into hasher: inout Hasher) {
            hasher.combine(question)
            hasher.combine(figures)
        }
    }

    private let basis: Basis
    private var question: ConsentQuestion { basis.question }
    private var threshold: ThresholdInForce? { basis.figures.threshold }
    private var always: RulesInForce.AlwaysAnswer? { basis.figures.always }
    private var answers: ConsentAnswers { basis.answers }

    /// The rules that require consent, in the order of `ConsentReason`.
    package var reasons: [ConsentReason] { answers.rules(answering: true) }
    /// The rules whose answer is not known, in the same order.
    package var notKnown: [ConsentReason] { answers.rules(answering: nil) }
    package var consent: Consent { answers.consent }
    package var thresholdSource: RuleSource { threshold?.source ?? .unknown }

    /// Whether the amount of the threshold matters. It does above 50 %, where it decides, or would decide if no other
    /// rule did.
    package var restsOnThreshold: Bool { question.isPercentOver }

    /// The latest earlier increase that counted.
    var lastIncrease: EarlierIncrease? { question.lastIncrease }

    /// The amount with which it was compared, in milliunits; nil where none is known.
    var thresholdAmount: Int64? { threshold?.amount }

    /// The error of an estimated amount, in milliunits; nil for an amount of Apple's.
    var thresholdError: Int64? { threshold?.estimate?.error }

    /// The renewal at which another item's offer ends together with this change.
    var offerEndsAt: Instant? { conversion?.at }

    /// Every rule with its inputs and its answer.
    package var rules: [RuleAnswer] {
        ConsentReason.allCases.map {
            RuleAnswer(rule: $0, answer: answers[$0], inputs: inputs($0))
        }
    }

    /// Judges an increase. A decrease needs no rule.
    init(_ question: ConsentQuestion, _ figures: ConsentFigures) {
        basis = Basis(question, figures)
    }

    private var isAmountOver: Bool? { threshold?.isExceeded(by: question.difference) }

    private var conversion: OfferConversion? { question.koreaConversion }
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
            answers.hasRisen == true ? [.init("because", last?.because)] : []
        // A plan stores a million of these, so the source is left out where there is no increase.
        let source: [RuleAnswer.Input] =
            last?.source.map { [.init("increase_source", .text($0.rawValue))] } ?? []
        return because + source + [
            .init("last_increase_sku", last.map { .text($0.sku) }),
            .init("last_increase_at", last.map { .instant($0.at) }),
            .init("counts_until", last.map { .instant($0.countsUntil) }),
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
        // A plan stores a million of these, so an input that only one storefront has is left out of the others.
        guard let conversion else {
            return inputs + (question.offerWithoutEnd.map { [.init("offer_sku", .text($0))] } ?? [])
        }
        return inputs + [
            .init("offer_sku", .text(conversion.sku)),
            .init("conversion_on", .text(conversion.day.text)),
            .init("window_first_on", .text(conversion.windowFirstDay.text)),
            .init("window_last_on", .text(conversion.windowLastDay.text)),
        ]
    }
}

extension ThresholdEstimate {
    fileprivate var inputs: [RuleAnswer.Input] {
        let basis: [RuleAnswer.Input] = [
            .init("threshold_error_milliunits", .number(error)),
            .init("estimate_rows", .number(Int64(rows))),
            .init(
                "estimate_basis", .text(conversion == nil ? "same_currency" : "all_currencies")),
        ]
        guard let conversion else { return basis }
        return basis + [
            .init("usd_threshold_milliunits", .number(conversion.usdAmount)),
            .init("units_per_eur", .text(conversion.perEuro.text)),
            .init("usd_per_eur", .text(conversion.usdPerEuro.text)),
            .init("correction", .text(conversion.correction.text)),
            .init("rates_from", conversion.ratesFrom.map { .instant($0) }),
            .init("rates_source", .text(conversion.source)),
        ]
    }
}

extension RuleAnswer.Input {
    fileprivate init(_ name: String, _ value: RuleAnswer.Value?) {
        self.init(name: name, value: value ?? .missing)
    }
}

extension EarlierIncrease {
    fileprivate var because: RuleAnswer.Value {
        switch origin {
        case .past: .instant(at)
        case .change(let id): .text(id)
        case .line(let line): .text("line \(line)")
        }
    }
}
