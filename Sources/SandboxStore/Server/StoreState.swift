/// What `GET /sandbox/state` tells an auditor.
struct StoreState: Encodable, Sendable {
    var now: Int64
    var subscriptions: Int
    var subscriptionsByStatus: [String: Int]
    var pendingActions: Int
    var openIncreases: [String: Int]
    var notifications: Int
    var undeliveredNotifications: Int
    var lostNotifications: Int
    var calls: Int
    var callsByAnswer: [String: Int]
    /// Change calls whose request id had been answered before.
    var repeatedRequestReferenceIds: Int
    /// Change requests that had an effect, each counted once.
    var appliedChanges: Int
    /// (transaction, SKU, price) that took effect under more than one request id.
    var changesAppliedTwice: Int
    /// Cancel calls that turned a renewal off.
    var appliedCancels: Int
    /// Subscriptions that were cancelled under more than one request id.
    var cancelledTwice: Int

    init(
        now: Int64, engine: StoreEngine, outbox: NotificationOutbox, records: [CallRecord]
    ) {
        self.now = now
        subscriptions = engine.subscriptionCount
        var byStatus: [String: Int] = [:]
        var increases: [String: Int] = [:]
        for subscription in engine.subscriptions.values {
            byStatus["\(subscription.status)", default: 0] += 1
            for item in subscription.renewingItems {
                guard let increase = item.change?.increase else { continue }
                increases[increase.status.rawValue, default: 0] += 1
            }
        }
        subscriptionsByStatus = byStatus
        openIncreases = increases
        pendingActions = engine.pendingActionCount
        notifications = outbox.entries.count
        undeliveredNotifications = outbox.unsettledCount
        lostNotifications = outbox.entries.count { entry in
            entry.isSettled && !entry.attempts.contains { $0.result == .success }
        }
        calls = records.count
        callsByAnswer = records.reduce(into: [:]) { counts, record in
            let answer = record.errorCode ?? record.status
            counts["\(record.endpoint) \(answer)", default: 0] += 1
        }
        let changes = records.filter { $0.endpoint == "changePrice" }
        repeatedRequestReferenceIds = changes.count { $0.repeated }
        let effective = changes.filter { $0.applied && !$0.repeated }
        appliedChanges = effective.count
        var references: [String: Int] = [:]
        for record in effective {
            // The body was valid when the call was applied.
            guard let request = try? ChangePriceRequest(Array((record.body ?? "").utf8)) else {
                continue
            }
            for item in request.items {
                references["\(record.transactionId) \(item.sku) \(item.price)", default: 0] += 1
            }
        }
        changesAppliedTwice = references.values.count { $0 > 1 }
        let cancels = records.filter { $0.endpoint == "cancel" && $0.applied && !$0.repeated }
        appliedCancels = cancels.count
        let cancelled = cancels.reduce(into: [:]) { $0[$1.transactionId, default: 0] += 1 }
        cancelledTwice = cancelled.values.count { $0 > 1 }
    }
}
