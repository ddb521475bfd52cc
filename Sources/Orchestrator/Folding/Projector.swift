import AppStore
package import Ledger
import Pricing
package import ServiceKit

/// Folds the inbox into facts and states: one subscription at a time, many subscriptions a transaction.
package struct Projector: Service {
    package let name = "projector"
    private let pool: LedgerPool
    private let log: Log
    private let metrics: Metrics
    private let limits: Limits

    package struct Limits: Sendable {
        /// Subscriptions a transaction.
        package var subscriptionsPerFold = 100
        /// Wait of an idle projector; a poll, since no wake-up is ever needed.
        package var idleWait: Duration = .milliseconds(50)
        package var failureWait: Duration = .seconds(1)

        package init() {}
    }

    package init(pool: LedgerPool, log: Log, metrics: Metrics, limits: Limits = Limits()) {
        self.pool = pool
        self.log = log
        self.metrics = metrics
        self.limits = limits
    }

    package func run() async throws {
        while !Task.isCancelled {
            do {
                if try await foldOnce() == 0 { try await Task.sleep(for: limits.idleWait) }
            } catch is CancellationError {
                return
            } catch {
                log.error("folding failed; trying again", ["error": String(describing: error)])
                metrics.increment("repricer_fold_failures_total")
                try await Task.sleep(for: limits.failureWait)
            }
        }
    }

    /// Folds what waits now; returns the number of notifications folded or set aside.
    package func foldOnce() async throws -> Int {
        let buckets = try await pool.withConnection { connection in
            try await connection.read { try EventQueries.bucketsWithWork(on: $0) }
        }
        var folded = 0
        for bucket in buckets {
            folded += try await fold(bucket: bucket)
        }
        return folded
    }

    private func fold(bucket: Int) async throws -> Int {
        let limit = limits.subscriptionsPerFold
        let outcome = try await pool.withTransaction { connection -> (folded: Int, setAside: Int) in
            let waiting = try EventQueries.waitingSubscriptions(
                bucket: bucket, limit: limit, on: connection)
            guard !waiting.isEmpty else { return (0, 0) }
            try SubscriptionQueries.create(waiting, on: connection)
            let ids = try SubscriptionQueries.lockFree(waiting, on: connection)
            let notifications = try EventQueries.waiting(ids, on: connection)
            let (events, faults) = Self.decode(notifications)
            try SubscriptionFolder.fold(events, on: connection)
            let foldedUUIDs = events.map(\.key.evidenceID)
            var statements = faults.map {
                EventQueries.setAside($0.id, uuid: $0.uuid, error: $0.why)
            }
            statements.append(EventQueries.deleteWaiting(ids, uuids: foldedUUIDs))
            _ = try connection.pipeline(statements)
            return (events.count, faults.count)
        }
        metrics.increment("repricer_folded_total", by: outcome.folded)
        if outcome.setAside > 0 {
            metrics.increment("repricer_set_aside_total", by: outcome.setAside)
            log.error(
                "notifications set aside; see report notification_health",
                [
                    "count": String(outcome.setAside)
                ])
        }
        return outcome.folded + outcome.setAside
    }

    private struct Fault {
        var id: String
        var uuid: String
        var why: String
    }

    private static func decode(
        _ notifications: [EventQueries.Waiting]
    ) -> ([SubscriptionEvent], [Fault]) {
        var events: [SubscriptionEvent] = []
        var faults: [Fault] = []
        for waiting in notifications {
            // Verified when it arrived; here it only has to be read.
            let event = NotificationVerifier.decode(
                signedPayload: waiting.signedPayload,
                receivedAt: Instant(milliseconds: waiting.receivedAt)
            ).event
            if let event, event.originalTransactionID == waiting.originalTransactionID {
                events.append(event)
            } else {
                faults.append(
                    Fault(
                        id: waiting.originalTransactionID, uuid: waiting.notificationUUID,
                        why:
                            "the stored payload no longer reads as a statement on this subscription"
                    ))
            }
        }
        return (events, faults)
    }
}
