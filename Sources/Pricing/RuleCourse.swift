/// The rules as they follow one another from an instant on: a row is judged by those in force when it is sent.
///
/// A class, for every row that is judged holds them.
package final class RuleCourse: Sendable {
    private let first: RulesInForce
    private let later: [RulesInForce]
    /// When others come into force: those of the same place in `later`.
    let starts: [Instant]

    /// These rules, whenever a row is sent.
    package init(_ rules: RulesInForce) {
        first = rules
        later = []
        starts = []
    }

    package init(_ rules: RuleSet, from now: Instant) {
        first = rules.inForce(at: now)
        var starts: [Instant] = []
        while let next = rules.nextInForce(after: starts.last ?? now) { starts.append(next) }
        later = starts.map(rules.inForce)
        self.starts = starts
    }

    func rules(at instant: Instant) -> RulesInForce {
        starts.lastIndex { $0 <= instant }.map { later[$0] } ?? first
    }

    /// What judges an increase at an instant.
    func figures(of question: ConsentQuestion, at instant: Instant) -> ConsentFigures {
        guard let index = starts.lastIndex(where: { $0 <= instant }) else {
            return ConsentFigures(question, rules: first)
        }
        return ConsentFigures(question, rules: later[index])
    }
}
