import Facts
import Pricing
import ServiceKit
import Synchronization

/// Watches which sessions hold rows that delivery needs. It notes since when changes are due but none can be claimed
/// though calls are allowed, and which sessions hold the rows of some changes while others continue.
final class UnclaimedWatch: Sendable {
    private static let toldAfter: Duration = .seconds(60)
    /// The time between two queries for sessions that hold rows.
    private static let checkEvery: Duration = .seconds(15)
    /// How long a session may hold rows before it is named. Decisions and claims take less.
    private static let heldAfter: Duration = .seconds(15)
    /// How long after a claim that was too slow its changes may wait, so that nothing seems due.
    private static let putBackFor: Duration = .seconds(5)

    fileprivate struct State {
        /// Since when changes are due and none could be claimed.
        var since: ContinuousClock.Instant?
        /// The transactions that are in the way, with the instant at which each was first seen.
        var holders: [String: ContinuousClock.Instant] = [:]
        /// The transactions that the log has named.
        var told: Set<String> = []
        var isTold = false
        /// How long claims took whose calls were all held back, because the database was too slow; otherwise zero.
        var claimsTook: Duration = .zero
        /// When such a claim ended.
        var slowAt: ContinuousClock.Instant?
        /// Whether it is stored, for `status`.
        var isNoted = false
    }

    private let state = Mutex(State())
    private let pool: DatabasePool
    private let realClock: any WallClock
    private let log: Log
    private let metrics: Metrics
    private let busy: BusyBuckets

    init(
        busy: BusyBuckets = BusyBuckets(), pool: DatabasePool, realClock: any WallClock, log: Log,
        metrics: Metrics
    ) {
        self.busy = busy
        self.pool = pool
        self.realClock = realClock
        self.log = log
        self.metrics = metrics
        metrics.declareGauge(
            "repricer_changes_due_unclaimed_seconds",
            "Real time since changes are due and none could be claimed; 0: they are, or none is due."
        )
        metrics.declareGauge(
            "repricer_sessions_holding_rows",
            "Sessions of other database users that hold rows which calls and folds wait for.")
        metrics.set("repricer_changes_due_unclaimed_seconds", to: 0)
        metrics.set("repricer_sessions_holding_rows", to: 0)
    }

    /// - Parameters:
    ///   - isStuck: Whether changes were due, calls were allowed, and nothing was claimed, or only by claims so slow that
    ///     no call may leave after them.
    ///   - claimsTook: How long such claims took.
    func note(
        isStuck: Bool, claimsTook: Duration = .zero, now: ContinuousClock.Instant = .now
    ) {
        state.withLock {
            $0.since = isStuck ? $0.since ?? now : nil
            $0.claimsTook = isStuck ? max($0.claimsTook, claimsTook) : .zero
            $0.slowAt = !isStuck ? nil : claimsTook > .zero ? now : $0.slowAt
        }
        metrics.set("repricer_changes_due_unclaimed_seconds", to: waited(now).seconds)
    }

    /// Notes that nothing is due. Where the last claim was too slow, its changes are only put back for a moment.
    func noteNothingDue(now: ContinuousClock.Instant = .now) {
        let isPutBack = state.withLock { state in
            state.slowAt.map { now - $0 < Self.putBackFor } ?? false
        }
        note(isStuck: isPutBack, now: now)
    }

    /// Polls for sessions that hold rows. It runs in parallel to delivery, because a round of delivery may be waiting
    /// for such a session.
    func run() async {
        await Rounds(
            log: log, level: .warning,
            failure: "sessions that hold rows are not asked for; trying again", failureWait: .zero
        ).run {
            try await Alarm.shared.wait(for: Self.checkEvery)
            try await check()
            return .zero
        }
    }

    func check(now: ContinuousClock.Instant = .now) async throws {
        let waited = waited(now)
        metrics.set("repricer_changes_due_unclaimed_seconds", to: waited.seconds)
        let holdsChanges = busy.haveHeldChanges
        let sessions = try await pool.read {
            try BlockerQueries.sessions(holdingChanges: holdsChanges, on: $0)
        }
        if waited >= Self.toldAfter { return try await tellUnclaimed(sessions, waited, now) }
        state.withLock { $0.isTold = false }
        try await tellHolders(sessions, now)
    }

    private func waited(_ now: ContinuousClock.Instant) -> Duration {
        state.withLock { state in state.since.map { now - $0 } ?? .zero }
    }

    private func tellUnclaimed(
        _ sessions: [BlockerQueries.Session], _ waited: Duration, _ now: ContinuousClock.Instant
    ) async throws {
        let slow = state.withLock { $0.claimsTook }
        let text =
            !sessions.isEmpty
            ? Self.text(sessions)
            : slow > .zero
                ? "none: claims take \(slow.milliseconds) ms, and no call leaves so long after one; "
                    + "the database is too slow or too far away"
                : "a session of this database user, or an error that the service logs"
        let isFirst = state.withLock { state in
            state.note(sessions, now: now)
            state.told.formUnion(sessions.map(\.transaction))
            defer { state.isTold = true }
            return !state.isTold
        }
        if isFirst {
            log.error(
                sessions.isEmpty
                    ? "changes are due, and none can be claimed"
                    : "changes are due, and none can be claimed: another session holds their rows",
                ["seconds": "\(Int64(waited.seconds))", "sessions": text])
        }
        try await write(since: waited, text, isAll: true)
    }

    /// Logs sessions that hold the rows of some changes while others go on.
    private func tellHolders(
        _ sessions: [BlockerQueries.Session], _ now: ContinuousClock.Instant
    ) async throws {
        let (lasting, news, held, isNoted) = state.withLock { state in
            state.note(sessions, now: now)
            let lasting = sessions.filter { session in
                state.holders[session.transaction].map { now - $0 >= Self.heldAfter } ?? false
            }
            let news = lasting.filter { !state.told.contains($0.transaction) }
            state.told.formUnion(news.map(\.transaction))
            let first = lasting.compactMap { state.holders[$0.transaction] }.min()
            return (lasting, news, first.map { now - $0 } ?? .zero, state.isNoted)
        }
        metrics.set("repricer_sessions_holding_rows", to: Double(lasting.count))
        if !news.isEmpty {
            log.warning(
                "a session holds rows that calls and folds wait for",
                ["seconds": "\(Int64(held.seconds))", "sessions": Self.text(news)])
        }
        if !lasting.isEmpty {
            try await write(since: held, Self.text(lasting), isAll: false)
        } else if isNoted {
            try await write(since: nil, nil, isAll: false)
        }
    }

    /// Stores the finding for `status`. `since` is how long rows have been held; nil means that none are held any more.
    private func write(since: Duration?, _ sessions: String?, isAll: Bool) async throws {
        let since = since.map { realClock.nowMilliseconds() - $0.milliseconds }
        let note = ServiceControlQueries.noteUnclaimed(
            since: since, sessions: sessions, isAll: isAll)
        try await pool.read { _ = try $0.pipeline([note]) }
        state.withLock { $0.isNoted = since != nil }
    }

    private static func text(_ sessions: [BlockerQueries.Session]) -> String {
        sessions.map(\.text).joined(separator: "; ")
    }
}

extension UnclaimedWatch.State {
    /// Notes since when each transaction is in the way.
    fileprivate mutating func note(
        _ sessions: [BlockerQueries.Session], now: ContinuousClock.Instant
    ) {
        let seen = sessions.filter(\.isInTheWay).map { ($0.transaction, now) }
        holders = Dictionary(seen) { first, _ in first }
            .merging(holders.filter { known in seen.contains { $0.0 == known.key } }) { $1 }
        told = told.filter { transaction in sessions.contains { $0.transaction == transaction } }
    }
}

extension BlockerQueries.Session {
    /// An example: `pid 4711 of ana (psql) since 2026-12-01T00:00:00Z`
    fileprivate var text: String {
        let since = since.map { " since \(Instant(milliseconds: $0).text)" } ?? ""
        return "pid \(pid) of \(user) (\(application))\(since)"
    }
}
