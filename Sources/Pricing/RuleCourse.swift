internal import Synchronization

/// The rules over time. A row is judged by the rules in force when it is sent, and an increase that Apple shows by the
/// rules of the day on which Apple first showed it.
///
/// It is a class, because every row that is judged holds it.
package final class RuleCourse: Sendable {
    private let from: Instant
    private let first: RulesInForce
    private let later: [(from: Instant, rules: RulesInForce)]
    private let earlier: EarlierRules?

    /// A course with only these rules, whenever a row is sent.
    package init(_ rules: RulesInForce) {
        (from, first, later, earlier) = (.distantPast, rules, [], nil)
    }

    /// `now` is the instant of the plan. For earlier instants it uses the rows that `rules` still holds.
    package init(_ rules: RuleSet, from now: Instant) {
        from = now
        first = rules.inForce(at: now)
        let starts = rules.starts
        later = starts.filter { $0 > now }.map { ($0, rules.inForce(at: $0)) }
        earlier = EarlierRules(rules, starts: starts.filter { $0 <= now })
    }

    /// The rules in force at an instant.
    package func rules(at instant: Instant) -> RulesInForce {
        guard instant >= from else { return earlier?.rules(at: instant) ?? first }
        return later.last { $0.from <= instant }?.rules ?? first
    }

    /// Whether the rules are surely the same at both instants.
    func areSame(_ one: Instant, _ other: Instant) -> Bool {
        guard one != other else { return true }
        let (start, end) = (min(one, other), max(one, other))
        return start >= from && !later.contains { start < $0.from && $0.from <= end }
    }

    /// When other rules come into force.
    var starts: [Instant] { later.map(\.from) }
}

/// The rules of past days. Few rows need them, and only for few days, so each day's rules are indexed when they are
/// first needed.
private final class EarlierRules: Sendable {
    private let rules: RuleSet
    private let starts: [Instant]
    private let known = Mutex<[Instant: RulesInForce]>([:])

    init(_ rules: RuleSet, starts: [Instant]) {
        self.rules = rules
        self.starts = starts
    }

    func rules(at instant: Instant) -> RulesInForce {
        let start = starts.last { $0 <= instant } ?? .distantPast
        return known.withLock { known in
            if let rules = known[start] { return rules }
            let rules = rules.inForce(at: start)
            known[start] = rules
            return rules
        }
    }
}
