package import Postgres
package import Pricing
import Synchronization

/// The rules of a service that runs for months: read again only when an import has come, and put in order again only
/// when one of them comes into force.
package final class RuleCache: Sendable {
    private struct Known {
        let revision: Int
        /// The rules are those of this instant and later.
        let from: Instant
        let rules: RuleSet
        /// Holds from `since` until the next rule comes into force.
        let inForce: RulesInForce
        let since: Instant
        let until: Instant?

        init(_ rules: RuleSet, revision: Int, from: Instant, at now: Instant) {
            self.revision = revision
            self.from = from
            self.rules = rules
            inForce = rules.inForce(at: now)
            since = now
            until = rules.nextInForce(after: now)
        }

        func holds(at now: Instant) -> Bool {
            since <= now && until.map { now < $0 } ?? true
        }
    }

    private let known = Mutex<Known?>(nil)

    package init() {}

    /// The rules that judge at this instant, within the caller's transaction.
    package func inForce(
        at now: Instant, on connection: isolated PostgresConnection
    ) throws -> RulesInForce {
        try inForce(
            at: now, revision: RuleQueries.revision(on: connection), on: connection)
    }

    /// As above, by a version just read.
    package func inForce(
        at now: Instant, revision: Int, on connection: isolated PostgresConnection
    ) throws -> RulesInForce {
        let inForce: RulesInForce? = known.withLock { known in
            guard let old = known, old.revision == revision, old.from <= now else { return nil }
            if !old.holds(at: now) {
                known = Known(old.rules, revision: revision, from: old.from, at: now)
            }
            return known?.inForce
        }
        if let inForce { return inForce }
        // An import between the two queries is read now and once more under its own number.
        let loaded = try RuleQueries.load(.from, now, on: connection)
        let read = Known(loaded, revision: revision, from: now, at: now)
        known.withLock { $0 = read }
        return read.inForce
    }
}
