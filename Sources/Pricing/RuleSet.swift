/// The consent rules, currency decimals and exchange rates as data, each row in force from its date on.
///
/// A later row for the same key replaces an earlier one; among rows with the same date the last one counts.
package struct RuleSet: Hashable, Sendable {
    package var rows: [Rule]

    package init(_ rows: [Rule] = []) {
        self.rows = rows
    }

    /// The rules in force at that instant, indexed.
    package func inForce(at now: Instant) -> RulesInForce { RulesInForce(self, at: now) }

    /// When rules come into force, in order.
    package var starts: [Instant] { Set(rows.compactMap(\.validFrom)).sorted() }
}
