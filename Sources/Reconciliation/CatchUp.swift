import Facts
import Pricing
import ServiceKit
import Synchronization

/// Reads the App Store's history before calls continue. It does so after the service was down for longer than its
/// reconciliation allows, and in a database that was restored or failed over to, which may have lost calls. Until then
/// no replica makes a call.
package struct CatchUp: Service {
    package let name = "catch-up"
    private let reconciler: Reconciler
    /// How old the last read of the history may be, by the service's clock, before calls must wait for another read;
    /// nil where they wait only in another database.
    private let lagMax: Duration?
    /// How long a call that the former database knew of may still be on its way, in real time.
    private let flightTime: Duration
    /// Failed reads, which are logged once.
    private let outage: Outage
    /// The start of the read that was last logged, in UTC milliseconds.
    private let told = Told()
    private static let askEvery: Duration = .seconds(1)
    private static let failureWait: Duration = .seconds(10)

    package init(_ reconciler: Reconciler, lagMax: Duration?, flightTime: Duration) {
        self.reconciler = reconciler
        self.lagMax = lagMax
        self.flightTime = flightTime
        outage = Outage(
            log: reconciler.dependencies.log, level: .warning,
            failure: "the history is not read; calls wait", recovery: "the history is read again")
    }

    private var dependencies: Reconciler.Dependencies { reconciler.dependencies }

    package func run() async throws {
        var failures = 0
        await Rounds(
            log: dependencies.log, failure: "catching up failed", failureWait: Self.askEvery,
            wait: dependencies.wait
        ).run {
            failures = try await step() ? 0 : failures + 1
            // After a short outage of the database it tries again within a second. A longer outage is retried less
            // often.
            return failures > 1 ? Self.failureWait : Self.askEvery
        }
    }

    /// Holds calls back where the history must be read first. It runs before anything starts that calls.
    package func prepare() async throws {
        let lagMax = lagMax
        _ = try await noted { now in lagMax.map { now - $0.milliseconds } }
    }

    /// Detects another database, and reads the history where calls wait for it. Returns false where that failed.
    package func step() async throws -> Bool {
        let dependencies = dependencies
        let controls = try await noted { _ in nil }
        guard let since = controls.catchUpSince else {
            // Another replica may have read what this one could not.
            wentOn()
            return true
        }
        guard controls.catchUpBy == nil else { return true }
        let realNow = dependencies.realClock.nowMilliseconds()
        guard realNow >= controls.catchUpFrom ?? realNow else { return true }
        // After this instant no call of a lost database is on its way, so statements signed from now on show what those
        // calls did.
        let askedAt = dependencies.clock.nowMilliseconds()
        // Entries appear late in Apple's history, so the read overlaps with the end of the last one.
        let start = Instant(milliseconds: since - dependencies.limits.history.overlap.milliseconds)
        let through = through(controls, now: askedAt, realNow: realNow)
        // Nothing comes back while another replica reads it, which then says so, too.
        guard
            let (summary, failure) = try await reconciler.readHistory(
                since: start, through: through,
                began: {
                    guard told.isNews(since) else { return }
                    dependencies.log.notice(
                        "calls wait until the notification history is read", ["since": start.text])
                })
        else {
            return true
        }
        if let failure {
            // A cancelled service says nothing about the App Store.
            if failure is CancellationError { throw failure }
            outage.note(failure)
            try await dependencies.noteCatchUp("\(failure)")
            return false
        }
        let hasEnded = try await dependencies.pool.withTransaction { connection in
            // If a person began `recover` meanwhile, that person ends the catch-up.
            guard try ServiceControlQueries.everything(on: connection).catchUpBy == nil else {
                return false
            }
            let isRestored = controls.catchUpFrom != nil
            if isRestored { try askForStatuses(since: since, at: askedAt, on: connection) }
            _ = try connection.pipeline([ServiceControlQueries.endCatchUp(isRestored: isRestored)])
            return true
        }
        guard hasEnded else { return true }
        wentOn()
        dependencies.log.notice(
            "caught up; calls go on",
            ["missed": "\(summary.history.new)", "pages": "\(summary.history.pages)"])
        return true
    }

    /// Marks the end of the outage, so that a later failure is logged again.
    private func wentOn() {
        outage.end()
        told.forget()
    }

    /// How far the history must be read at least, by the business clock: to the instant after which no call of the lost
    /// database can be on its way, or to the allowed lag before now.
    private func through(
        _ controls: ServiceControlQueries.Everything, now: Int64, realNow: Int64
    ) -> Instant? {
        guard let from = controls.catchUpFrom else {
            return lagMax.map { Instant(milliseconds: now - $0.milliseconds) }
        }
        let real = dependencies.clock.realDuration(of: .seconds(1000)).milliseconds
        let (product, isTooMuch) = (realNow - from).multipliedReportingOverflow(by: 1_000_000)
        guard real > 0, !isTooMuch else { return nil }
        return Instant(milliseconds: now - product / real)
    }

    /// Requests a status check of each subscription that a lost database may have called, because the history may lack
    /// such calls. The calls of each subscription wait for its own status.
    private func askForStatuses(
        since: Int64, at: Int64, on connection: isolated DatabaseConnection
    ) throws {
        while try StatusCheckQueries.forget(.restored, doneBefore: nil, limit: 5000, on: connection)
            == 5000
        {}
        try RecoveryQueries.wantChecks(since: since, in: .restored, at: at, on: connection)
    }

    private func noted(
        oldest: (_ now: Int64) -> Int64?
    ) async throws -> ServiceControlQueries.Everything {
        let now = dependencies.clock.nowMilliseconds()
        let from = dependencies.realClock.nowMilliseconds() + flightTime.milliseconds
        let note = ServiceControlQueries.noteDatabase(at: now, from: from, oldest: oldest(now))
        return try await dependencies.pool.withTransaction { connection in
            _ = try connection.pipeline([note])
            return try ServiceControlQueries.everything(on: connection)
        }
    }
}

private final class Told: Sendable {
    private let since = Mutex<Int64?>(nil)

    /// Returns whether the read from this instant was not logged yet, and marks it as logged.
    func isNews(_ instant: Int64) -> Bool {
        since.withLock { since in
            defer { since = instant }
            return since != instant
        }
    }

    func forget() { since.withLock { $0 = nil } }
}
