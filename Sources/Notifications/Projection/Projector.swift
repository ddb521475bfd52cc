import AppStore
package import Facts
import Pricing
package import ServiceKit

/// Folds the inbox into facts and states: one subscription at a time, and many subscriptions in a transaction.
package struct Projector: Service {
    package let name = "projector"
    private let pool: DatabasePool
    private let log: Log
    private let metrics: Metrics
    private let limits: Limits

    package struct Limits: Sendable {
        /// The most notifications of a transaction: about 4 MB of packed evidence.
        package var notificationsPerFold = 1000
        /// How many buckets are folded at the same time, each on a connection of its own.
        package var workers = 2
        /// How long an idle projector waits. It polls, so nothing has to wake it.
        package var idleWait: Duration = .milliseconds(50)
        package var failureWait: Duration = .seconds(1)

        package init() {}
    }

    package init(pool: DatabasePool, log: Log, metrics: Metrics, limits: Limits = Limits()) {
        self.pool = pool
        self.log = log
        self.metrics = metrics
        metrics.declareCounter("repricer_folded_total", "Notifications folded.")
        metrics.declareCounter(
            "repricer_quarantined_total", "Notifications that could not be folded.")
        metrics.declareCounter(
            "repricer_fold_failures_total",
            "Rounds of folding that failed and are tried again.")
        self.limits = limits
    }

    package func run() async throws {
        await Rounds(
            log: log, failure: "folding failed; trying again", failureWait: limits.failureWait,
            count: { metrics.increment("repricer_fold_failures_total") }
        ).run {
            try await foldOnce() == 0 ? limits.idleWait : .zero
        }
    }

    /// Folds what waits now, and returns how many notifications were folded or quarantined. The failure of a bucket
    /// does not stop the next ones, unless the database cannot be reached. The first failure is thrown at the end.
    package func foldOnce() async throws -> Int {
        let buckets = try await pool.read { try EventQueries.bucketsWithWork(on: $0) }
        // Each worker takes every n-th bucket, so two never ask for the same subscriptions.
        let workers = max(1, min(limits.workers, buckets.count))
        return try await withThrowingTaskGroup(of: Progress.self) { group in
            for worker in 0..<workers {
                group.addTask {
                    try await fold(
                        buckets: stride(from: worker, to: buckets.count, by: workers)
                            .map { buckets[$0] })
                }
            }
            var all = Progress()
            for try await one in group {
                all.folded += one.folded
                all.failure = all.failure ?? one.failure
            }
            if let failure = all.failure { throw failure }
            return all.folded
        }
    }

    private struct Progress: Sendable {
        var folded = 0
        var failure: (any Error)?
    }

    private func fold(buckets: [Int]) async throws -> Progress {
        var progress = Progress()
        for bucket in buckets {
            do {
                progress.folded += try await fold(bucket: bucket)
            } catch let error as DatabaseServerError where !error.isConnectionLoss {
                progress.failure = progress.failure ?? error
            }
        }
        return progress
    }

    private struct Outcome {
        var folded = 0
        var quarantined = 0

        static func += (sum: inout Outcome, more: Outcome) {
            sum.folded += more.folded
            sum.quarantined += more.quarantined
        }
    }

    private func fold(bucket: Int) async throws -> Int {
        var outcome: Outcome
        do {
            outcome = try await foldTogether(bucket: bucket)
        } catch  where isDataFault(error) {
            // One of many could not be stored, so the whole transaction failed. Separate transactions find out which
            // one.
            outcome = try await foldApart(bucket: bucket)
        }
        metrics.increment("repricer_folded_total", by: outcome.folded)
        if outcome.quarantined > 0 {
            metrics.increment("repricer_quarantined_total", by: outcome.quarantined)
            log.error(
                "notifications quarantined; see report notification_health",
                ["count": String(outcome.quarantined)])
        }
        return outcome.folded + outcome.quarantined
    }

    private func foldTogether(bucket: Int) async throws -> Outcome {
        let limits = limits
        return try await pool.withTransaction { connection in
            let waiting = try EventQueries.waitingSubscriptions(
                bucket: bucket, limit: limits.notificationsPerFold, on: connection)
            guard !waiting.isEmpty else { return Outcome() }
            return try Self.fold(
                waiting, limit: limits.notificationsPerFold, on: connection)
        }
    }

    /// Folds each subscription in a transaction of its own, and where one fails, each of its notifications. It
    /// quarantines those that cannot be folded.
    private func foldApart(bucket: Int) async throws -> Outcome {
        let limit = limits.notificationsPerFold
        let ids = try await pool.read {
            try EventQueries.waitingSubscriptions(bucket: bucket, limit: limit, on: $0)
        }
        var outcome = Outcome()
        for id in ids.sorted() {
            do {
                outcome += try await pool.withTransaction {
                    try Self.fold([id], limit: limit, on: $0)
                }
            } catch  where isDataFault(error) {
                outcome += try await foldEach(of: id)
            }
        }
        return outcome
    }

    private func foldEach(of id: String) async throws -> Outcome {
        let limit = limits.notificationsPerFold
        let waiting = try await pool.read { try EventQueries.waiting([id], limit: limit, on: $0) }
        var outcome = Outcome()
        for notification in waiting {
            outcome += try await foldAlone(notification)
        }
        return outcome
    }

    private func foldAlone(_ notification: EventQueries.Waiting) async throws -> Outcome {
        let id = notification.originalTransactionID
        let uuid = notification.notificationUUID
        do {
            return try await pool.withTransaction { connection in
                try SubscriptionQueries.create([id], on: connection)
                guard try !SubscriptionQueries.lockFree([id], on: connection).isEmpty else {
                    return Outcome()
                }
                // Another projector may have folded it meanwhile.
                return try Self.fold(
                    try EventQueries.waiting(id, uuid: uuid, on: connection), on: connection)
            }
        } catch  where isDataFault(error) {
            let why = "can't be folded: \(error)"
            log.error("a notification can't be folded", ["notification": uuid, "error": why])
            try await pool.write(EventQueries.quarantine(id, uuid: uuid, error: why))
            return Outcome(quarantined: 1)
        }
    }

    /// Folds the waiting notifications of those subscriptions that no other session has locked.
    private static func fold(
        _ waiting: [String], limit: Int, on connection: isolated DatabaseConnection
    ) throws -> Outcome {
        try SubscriptionQueries.create(waiting, on: connection)
        let ids = try SubscriptionQueries.lockFree(waiting, on: connection)
        return try fold(
            try EventQueries.waiting(ids, limit: limit, on: connection), on: connection)
    }

    /// Folds notifications of locked subscriptions and takes them out of the inbox.
    private static func fold(
        _ notifications: [EventQueries.Waiting], on connection: isolated DatabaseConnection
    ) throws -> Outcome {
        let (events, faults) = decode(notifications)
        let reread = try forget(notifications.filter(\.isReread), on: connection)
        try SubscriptionFolder.fold(events, reread: reread, on: connection)
        // Today's code reads no statement about these subscriptions any more, so they are folded without one.
        let rest = reread.subtracting(events.map(\.originalTransactionID)).sorted()
        if !rest.isEmpty {
            try SubscriptionFolder.foldAnew(rest, isReread: true, on: connection)
        }
        let done = EventQueries.deleteWaiting(
            Set(events.map(\.originalTransactionID)).sorted(),
            uuids: events.map(\.key.evidenceID))
        try connection.sendLater(faults + [done])
        return Outcome(folded: events.count, quarantined: faults.count)
    }

    /// Deletes the statements that were read from these notifications before, and returns their subscriptions.
    private static func forget(
        _ reread: [EventQueries.Waiting], on connection: isolated DatabaseConnection
    ) throws -> Set<String> {
        guard !reread.isEmpty else { return [] }
        let ids = Set(reread.map(\.originalTransactionID)).sorted()
        let rows = try connection.query(
            EventQueries.forgetting(ids, uuids: reread.map(\.notificationUUID)))
        return Set(try rows.map { try $0.text("original_transaction_id") })
    }

    /// The statements of the notifications, and what quarantines the notifications without one.
    private static func decode(
        _ notifications: [EventQueries.Waiting]
    ) -> ([SubscriptionEvent], faults: [DatabaseStatement]) {
        var events: [SubscriptionEvent] = []
        var faults: [DatabaseStatement] = []
        for waiting in notifications {
            let receivedAt = Instant(milliseconds: waiting.receivedAt)
            var why = "the stored payload no longer reads as a statement on this subscription"
            var signed: SubscriptionEvent?
            // It was verified when it arrived, so it only has to be read here.
            do { signed = try waiting.evidence.decoded(receivedAt: receivedAt).event } catch {
                why = "the stored payload is damaged: \(error)"
            }
            let event = signed ?? waiting.legacyEvent(receivedAt: receivedAt)
            if let event, event.originalTransactionID == waiting.originalTransactionID {
                do {
                    events.append(try event.storable())
                    continue
                } catch {
                    why = "can't be folded: \(error)"
                }
            }
            faults.append(
                EventQueries.quarantine(
                    waiting.originalTransactionID, uuid: waiting.notificationUUID, error: why))
        }
        return (events, faults)
    }
}

extension EventQueries.Waiting {
    /// The content of a V1 notification, which is kept without the secret that proved it.
    fileprivate func legacyEvent(receivedAt: Instant) -> SubscriptionEvent? {
        guard case .whole(let text) = evidence else { return nil }
        return LegacyNotification.storedEvent(text, id: notificationUUID, receivedAt: receivedAt)
    }
}
