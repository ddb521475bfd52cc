import Batches
package import Facts
package import Pricing
import ServiceKit

/// Updates a database that has lost the data since an instant, because it was restored, or failed over to with a loss.
///
/// No call is sent from `begin` to `end`. In between it reads the notification history, and the status of each
/// subscription whose rows may have been called. A statement with exactly a row's price makes the row `scheduled`, with
/// the reason `adopted`, and is followed from then on. Each part may be run again, and continues where it stopped.
package struct Recovery: Sendable {
    private let pool: DatabasePool
    private let reconciler: Reconciler
    private let runner: StatusCheckRunner
    package let lostSince: Instant
    /// How long a call that the former database knew of may still be on its way, in real time.
    private let flightTime: Duration

    package init(
        pool: DatabasePool, reconciler: Reconciler, runner: StatusCheckRunner, lostSince: Instant,
        flightTime: Duration
    ) {
        self.pool = pool
        self.reconciler = reconciler
        self.runner = runner
        self.lostSince = lostSince
        self.flightTime = flightTime
    }

    private var list: StatusCheckQueries.List { .init(.recover, id: lostSince.text) }

    /// What recovery would do. It writes nothing.
    package func scope() async throws -> RecoveryQueries.Scope {
        let since = lostSince.milliseconds
        return try await pool.read { try RecoveryQueries.scope(since: since, on: $0) }
    }

    /// What an earlier recovery since the same instant found; nil the first time.
    package func former() async throws -> RecoveryQueries.Former? {
        let since = lostSince.milliseconds
        return try await pool.read { try RecoveryQueries.former(since: since, on: $0) }
    }

    /// Holds all calls back, and asks for the statuses of the subscriptions whose changes may have been called.
    /// Returns how many such changes there are.
    package func begin() async throws -> Int {
        let (since, list) = (lostSince.milliseconds, list)
        let dependencies = reconciler.dependencies
        let now = dependencies.clock.nowMilliseconds()
        // A dump is restored long after the calls in it, but a call of a former replica may still be on its way.
        let from = dependencies.realClock.nowMilliseconds() + flightTime.milliseconds
        let changes = try await pool.withTransaction {
            try ServiceControlQueries.beginCatchUp(
                since: since, from: from, at: now, byPerson: true, on: $0)
        }
        // In a spread database a transaction cannot read what a function of the owner has written in it, so there are
        // two. Calls wait from the first one on, and another run continues with both.
        try await pool.withTransaction { connection in
            try RecoveryQueries.wantChecks(since: since, in: list, at: now, on: connection)
            _ = try connection.pipeline([StatusCheckQueries.freeClaims(of: list)])
        }
        return changes
    }

    /// Waits until no call of the former database can be on its way.
    package func waitForFlight() async throws {
        let realClock = reconciler.dependencies.realClock
        while true {
            let controls = try await pool.read { try ServiceControlQueries.everything(on: $0) }
            guard let from = controls.catchUpFrom, from > realClock.nowMilliseconds() else {
                return
            }
            try await reconciler.dependencies.wait(.milliseconds(500))
        }
    }

    /// Reads the history. Returns nil while another process reads it.
    package func readHistory(
        progress: @escaping @Sendable (HistorySummary) -> Void
    ) async throws -> (summary: Reconciler.Summary, failure: (any Error)?)? {
        try await reconciler.readHistory(since: lostSince, progress: progress)
    }

    package func readStatuses(progress: (StatusCheckSummary) -> Void) async throws {
        var summary = StatusCheckSummary()
        try await runner.run(list, into: &summary, progress: progress)
    }

    /// Lets calls continue. Rows whose subscription could not be read are listed, and wait until it is read.
    package func end() async throws -> RecoveryQueries.Outcome {
        let (since, list) = (lostSince.milliseconds, list)
        let realNow = reconciler.dependencies.realClock.nowMilliseconds()
        let now = reconciler.dependencies.clock.nowMilliseconds()
        return try await pool.withTransaction { connection in
            // The locks of subscriptions come before all others.
            let read = try RecoveryQueries.waiting(forReadOf: list, on: connection)
            try SubscriptionQueries.lock(read, on: connection)
            try RecoveryQueries.parkUnread(in: list, until: realNow + 86_400_000, on: connection)
            try RecoveryQueries.keepAsking(for: list, on: connection)
            for group in Bucket.groups(read, of: \.self) {
                _ = try connection.pipeline([OpenChangeQueries.endStatusWait(group)])
            }
            var outcome = try RecoveryQueries.outcome(since: since, in: list, on: connection)
            outcome.isPaused = try ServiceControlQueries.everything(on: connection).isPaused
            _ = try connection.pipeline([
                ServiceControlQueries.endCatchUp(isRestored: outcome.unreadSubscriptions > 0),
                RecoveryQueries.note(outcome, since: since, at: now),
            ])
            while try StatusCheckQueries.forget(list, doneBefore: nil, limit: 5000, on: connection)
                == 5000
            {}
            return outcome
        }
    }
}
