import Digests
import Foundation
import JOSE

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
    /// Where the page begins in the store's outbox. Later notifications and retries do not shift it.
    var position = 0

    /// `isTokenExpired` comes from a fault. An old token is refused even without it.
    init(
        _ body: [UInt8], token: String?, now: Int64, realNow: Int64, isProduction: Bool,
        isTokenExpired: Bool = false
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
        if let type, !HistoryQuery.types.contains(type) { throw .invalidNotificationType }
        if let transaction, Int64(transaction) == nil { throw .invalidTransactionID }
        guard let token else { return }
        guard let page = PageToken(token), page.question == question(body) else {
            throw .invalidPaginationToken
        }
        let isOld = realNow - page.givenAt > PageToken.lifeMilliseconds
        guard !isOld, !isTokenExpired else { throw .paginationTokenExpired }
        position = page.position
        endDate = page.endDate
    }

    /// Apple's notification types; a filter by another one is refused.
    static let types: Set<String> = [
        "CONSUMPTION_REQUEST", "DID_CHANGE_RENEWAL_PREF", "DID_CHANGE_RENEWAL_STATUS",
        "DID_FAIL_TO_RENEW", "DID_RENEW", "EXPIRED", "EXTERNAL_PURCHASE_TOKEN",
        "GRACE_PERIOD_EXPIRED", "METADATA_UPDATE", "MIGRATION", "OFFER_REDEEMED", "ONE_TIME_CHARGE",
        "PRICE_CHANGE", "PRICE_INCREASE", "REFUND", "REFUND_DECLINED", "REFUND_REVERSED",
        "RENEWAL_EXTENDED", "RENEWAL_EXTENSION", "RESCIND_CONSENT", "REVOKE", "SUBSCRIBED", "TEST",
    ]

    private func question(_ body: [UInt8]) -> String { SHA256.hexadecimalDigest(of: body) }

    /// The page from `position` on, with a token for the next one.
    func page(
        of entries: [NotificationOutbox.Entry], body: [UInt8], realNow: Int64
    ) -> HistoryPage {
        var found: [NotificationOutbox.Entry] = []
        var next = position
        while next < entries.count {
            if matches(entries[next]) {
                if found.count == HistoryQuery.pageSize { break }
                found.append(entries[next])
            }
            next += 1
        }
        guard next < entries.count else {
            return HistoryPage(entries: found, hasMore: false, token: nil)
        }
        let token = PageToken(
            position: next, endDate: endDate, question: question(body), givenAt: realNow)
        return HistoryPage(entries: found, hasMore: true, token: token.text)
    }

    private func matches(_ entry: NotificationOutbox.Entry) -> Bool {
        let event = entry.event
        guard (startDate...max(startDate, endDate)).contains(event.signedAt) else { return false }
        if let type, type != event.kind.rawValue { return false }
        if let subtype, subtype != event.subtype?.rawValue { return false }
        if let transaction, event.subscription?.owns(transaction) != true { return false }
        return !onlyFailures || !entry.attempts.contains { $0.result == .success }
    }
}

/// Where the next page of one query begins; opaque to the client.
struct PageToken: Hashable, Sendable {
    /// In real time, whatever the store's clock says. Apple does not document a token's lifetime.
    static let lifeMilliseconds: Int64 = 3_600_000

    var position: Int
    var endDate: Int64
    var question: String
    var givenAt: Int64

    init(position: Int, endDate: Int64, question: String, givenAt: Int64) {
        self.position = position
        self.endDate = endDate
        self.question = question
        self.givenAt = givenAt
    }

    init?(_ text: String) {
        guard let bytes = Base64URL.decode(text) else { return nil }
        let parts = String(decoding: bytes, as: UTF8.self).split(separator: " ")
        guard parts.count == 4, let position = Int(parts[0]), position >= 0,
            let endDate = Int64(parts[1]), let givenAt = Int64(parts[3])
        else { return nil }
        self.init(
            position: position, endDate: endDate, question: String(parts[2]), givenAt: givenAt)
    }

    var text: String {
        Base64URL.encode(Array("\(position) \(endDate) \(question) \(givenAt)".utf8))
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
        var subscriptionGroupIdentifier = Statements.subscriptionGroup
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
