/// The rules as they follow one another from an instant on: a row is judged by those in force when it is sent.
package struct RuleCourse: Sendable {
    private let first: RulesInForce
    private let later: [(from: Instant, rules: RulesInForce)]

    /// These rules, whenever a row is sent.
    package init(_ rules: RulesInForce) {
        first = rules
        later = []
    }

    package init(_ rules: RuleSet, from now: Instant) {
        first = rules.inForce(at: now)
        var later: [(from: Instant, rules: RulesInForce)] = []
        var start = rules.nextInForce(after: now)
        while let from = start {
            later.append((from, rules.inForce(at: from)))
            start = rules.nextInForce(after: from)
        }
        self.later = later
    }

    func rules(at instant: Instant) -> RulesInForce {
        later.last { $0.from <= instant }?.rules ?? first
    }

    /// When others come into force.
    var starts: [Instant] { later.map(\.from) }
}
