package import Postgres
package import Pricing
import Synchronization

/// The rules of a service that runs for months: read again only when an import has come.
package final class RuleCache: Sendable {
    private struct Known {
        var revision: Int
        var from: Instant
        var rules: RuleSet
    }

    private let known = Mutex<Known?>(nil)

    package init() {}

    /// The rules that judge at this instant and later, within the caller's transaction.
    package func rules(
        at now: Instant, on connection: isolated PostgresConnection
    ) throws -> RuleSet {
        try rules(
            at: now, revision: RuleQueries.revision(on: connection), on: connection)
    }

    /// As above, by a version just read.
    package func rules(
        at now: Instant, revision: Int, on connection: isolated PostgresConnection
    ) throws -> RuleSet {
        let rules: RuleSet? = known.withLock { known in
            guard let known, known.revision == revision, known.from <= now else { return nil }
            return known.rules
        }
        if let rules { return rules }
        // An import between the two queries is read now and once more under its own number.
        let loaded = try RuleQueries.load(.from, now, on: connection)
        known.withLock { $0 = Known(revision: revision, from: now, rules: loaded) }
        return loaded
    }
}
