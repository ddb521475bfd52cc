/// The figures of the rules for one storefront, currency and kind of period.
struct ConsentFigures: Hashable, Sendable {
    var threshold: ThresholdInForce?
    var always: RulesInForce.AlwaysAnswer?

    init(storefront: String?, currency: String, kind: PeriodKind, rules: RulesInForce) {
        guard let storefront else { return }
        threshold = rules.thresholdInForce(
            storefront: storefront, currency: currency, kind: kind)
        always = rules.alwaysAnswer(storefront: storefront)
    }

    init(_ question: ConsentQuestion, rules: RulesInForce) {
        self.init(
            storefront: question.storefront, currency: question.currency,
            kind: question.period.kind, rules: rules)
    }
}

/// One increase, which the consent rules can judge for any instant of its call and any renewal.
struct IncreaseCase {
    /// The part that depends on neither the call nor the renewal.
    private let question: ConsentQuestion
    private let rules: RuleCourse
    private let figures: ConsentFigures
    private let conversions: OfferConversions
    var history: IncreaseHistory

    init(
        _ question: ConsentQuestion, rules: RuleCourse, history: IncreaseHistory,
        conversions: OfferConversions
    ) {
        self.question = question
        self.rules = rules
        self.history = history
        self.conversions = conversions
        figures = ConsentFigures(question, rules: rules.rules(at: question.now))
    }

    func verdict(at call: Instant, for renewal: Instant) -> ConsentVerdict {
        ConsentVerdict(asked(at: call, for: renewal), figures(at: call))
    }

    func answers(at call: Instant, for renewal: Instant) -> ConsentAnswers {
        asked(at: call, for: renewal).answers(figures(at: call))
    }

    private func asked(at call: Instant, for renewal: Instant) -> ConsentQuestion {
        var asked = question
        asked.now = call
        asked.lastIncrease = history.latest(before: renewal, countingAt: call)
        asked.koreaConversion = conversion(at: renewal)
        asked.offerWithoutEnd = conversions.withoutEnd
        return asked
    }

    private func figures(at call: Instant) -> ConsentFigures {
        rules.areSame(question.now, call)
            ? figures : ConsentFigures(question, rules: rules.rules(at: call))
    }

    /// The end of another item's offer at exactly this renewal.
    func conversion(at renewal: Instant) -> OfferConversion? {
        conversions.known.first { $0.at == renewal }
    }

    /// The instants at which time alone changes an answer: an increase no longer counts, a whole year is known, or
    /// other rules come into force.
    func turns(after now: Instant) -> [Instant] {
        var turns = history.ends + rules.starts
        if let knownSince = question.knownSince, !question.isKnownFromStart {
            turns += YearBefore.turns(since: knownSince)
        }
        return turns.filter { $0 > now }.sorted()
    }
}
