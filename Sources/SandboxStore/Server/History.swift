import Foundation

/// `NotificationHistoryRequest`, checked.
struct HistoryQuery: Sendable {
    static let pageSize = 20
    static let productionDaysMax: Int64 = 180
    static let testDaysMax: Int64 = 30

    var startDate: Int64
    var endDate: Int64
    var type: String?
    var subtype: String?
    var transaction: String?
    var onlyFailures = false
    var offset = 0

    init(
        _ body: [UInt8], token: String?, now: Int64, isProduction: Bool
    ) throws(StoreError) {
        guard let fields = JSONValue.parse(body)?.object else { throw .malformedPayload }
        guard let start = fields.present("startDate")?.integer else { throw .invalidStartDate }
        guard let end = fields.present("endDate")?.integer else { throw .invalidEndDate }
        let days = isProduction ? HistoryQuery.productionDaysMax : HistoryQuery.testDaysMax
        guard start >= 0 else { throw .invalidStartDate }
        guard start >= now - days * Milliseconds.day else { throw .startDateTooFarInPast }
        guard start < end else { throw .startDateAfterEndDate }
        startDate = start
        endDate = min(end, now)
        type = fields.present("notificationType")?.string
        subtype = fields.present("notificationSubtype")?.string
        transaction = fields.present("transactionId")?.string
        if case .bool(let only) = fields.present("onlyFailures") { onlyFailures = only }
        if type != nil, transaction != nil { throw .multipleFilters }
        if subtype != nil, type == nil { throw .invalidNotificationType }
        if let token {
            guard let number = Int(token), number >= 0 else { throw .invalidPaginationToken }
            offset = number
        }
    }

    func page(of entries: [NotificationOutbox.Entry]) -> HistoryPage {
        var found: [NotificationOutbox.Entry] = []
        var position = 0
        for entry in entries where matches(entry) {
            if position >= offset { found.append(entry) }
            position += 1
            if found.count > HistoryQuery.pageSize { break }
        }
        let hasMore = found.count > HistoryQuery.pageSize
        return HistoryPage(
            entries: Array(found.prefix(HistoryQuery.pageSize)), hasMore: hasMore,
            token: hasMore ? String(offset + HistoryQuery.pageSize) : nil)
    }

    private func matches(_ entry: NotificationOutbox.Entry) -> Bool {
        let event = entry.event
        guard (startDate...max(startDate, endDate)).contains(event.signedAt) else { return false }
        if let type, type != event.kind.rawValue { return false }
        if let subtype, subtype != event.subtype?.rawValue { return false }
        if let transaction, !event.subscription.owns(transaction) { return false }
        return !onlyFailures || !entry.attempts.contains { $0.result == .success }
    }
}

extension StoreSubscription {
    /// Whether a transaction id of any period names this subscription.
    func owns(_ transaction: String) -> Bool {
        guard let number = Int64(transaction) else { return false }
        return number >= originalTransactionID
            && number < originalTransactionID + StoreSubscription.transactionsMax
    }
}

/// One page of the notification history.
struct HistoryPage: Sendable {
    var entries: [NotificationOutbox.Entry]
    var hasMore: Bool
    var token: String?
}

/// `NotificationHistoryResponse`.
struct HistoryPayload: Encodable, Sendable {
    struct Item: Encodable, Sendable {
        var signedPayload: String
        var sendAttempts: [Attempt]
    }

    struct Attempt: Encodable, Sendable {
        var attemptDate: Int64
        var sendAttemptResult: String
    }

    var notificationHistory: [Item]
    var hasMore: Bool
    var paginationToken: String?
}

/// `StatusResponse` of Get All Subscription Statuses.
struct StatusPayload: Encodable, Sendable {
    struct Group: Encodable, Sendable {
        var subscriptionGroupIdentifier = "21000001"
        var lastTransactions: [Item]
    }

    struct Item: Encodable, Sendable {
        var originalTransactionId: String
        var status: Int
        var signedTransactionInfo: String
        var signedRenewalInfo: String
    }

    var environment: String
    var bundleId: String
    var appAppleId: Int64?
    var data: [Group]
}
