package import Postgres
package import Pricing
import Synchronization

/// The rules of a service that runs for months. They are read again only after an import.
package final class RuleCache: Sendable {
    private struct Known {
        let revision: Int
        /// The rules are valid for this instant and later.
        let from: Instant
        let course: RuleCourse
    }

    private let known = Mutex<Known?>(nil)

    package init() {}

    /// The rules that judge from this instant on, within the caller's transaction.
    package func course(
        from now: Instant, on connection: isolated PostgresConnection
    ) throws -> RuleCourse {
        try course(from: now, revision: RuleQueries.revision(on: connection), on: connection)
    }

    /// The same, for a version number that was just read.
    package func course(
        from now: Instant, revision: Int, on connection: isolated PostgresConnection
    ) throws -> RuleCourse {
        let course: RuleCourse? = known.withLock { known in
            guard let known, known.revision == revision, known.from <= now else { return nil }
            return known.course
        }
        if let course { return course }
        // If an import comes between the two queries, its rules are read now, and read again under its own number.
        let read = RuleCourse(try RuleQueries.load(.from, now, on: connection), from: now)
        known.withLock { $0 = Known(revision: revision, from: now, course: read) }
        return read
    }
}
