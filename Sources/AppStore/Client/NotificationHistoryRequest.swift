internal import JSON
package import Pricing

/// One question to Get Notification History, checked before it is sent.
///
/// `startDate` and `endDate` are the span of time; whether the App Store counts its edges in is not
/// documented, so callers let their spans overlap by a millisecond. The page token belongs to the
/// question that it was given for: it is passed beside it, never changed.
package struct NotificationHistoryRequest: Hashable, Sendable {
    /// What the App Store filters by: a transaction or a type, never both (4000019).
    package enum Filter: Hashable, Sendable {
        case everything
        case type(String, subtype: String?)
        /// Any transaction id of a subscription.
        case transaction(String)
    }

    /// Entries of one page at most.
    package static let pageSize = 20

    package let startAt: Instant
    package let endAt: Instant
    package let filter: Filter
    /// Only what has not reached our server, what is still being retried included.
    package let onlyFailures: Bool

    /// - Parameter now: Decides how far back the history reaches.
    package init(
        startAt: Instant, endAt: Instant, filter: Filter = .everything, onlyFailures: Bool = false,
        now: Instant, environment: StoreEnvironment
    ) throws(HistoryRequestFault) {
        guard startAt.milliseconds >= 0 else { throw .startIsNoDate }
        guard startAt < endAt else { throw .startNotBeforeEnd }
        guard startAt >= Self.oldestStart(at: now, environment) else {
            throw .startTooFarBack(days: Self.days(environment))
        }
        switch filter {
        case .everything: break
        case .type(let type, let subtype):
            guard Self.isName(type), subtype.map(Self.isName) ?? true else {
                throw .typeIsNoName
            }
        case .transaction(let id):
            guard !id.isEmpty, id.utf8.count <= 64,
                id.utf8.allSatisfy({ (0x30...0x39).contains($0) })
            else { throw .transactionIsNoID }
        }
        self.startAt = startAt
        self.endAt = endAt
        self.filter = filter
        self.onlyFailures = onlyFailures
    }

    /// How far back the App Store's history reaches, in days.
    package static func days(_ environment: StoreEnvironment) -> Int64 {
        switch environment {
        case .production: 180
        case .sandbox: 30
        }
    }

    /// The earliest start that the App Store accepts at `now`.
    package static func oldestStart(at now: Instant, _ environment: StoreEnvironment) -> Instant {
        Instant(milliseconds: max(0, now.milliseconds - days(environment) * 86_400_000))
    }

    private static func isName(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.count <= 64
            && text.utf8.allSatisfy { (0x41...0x5A).contains($0) || $0 == 0x5F }
    }

    /// One text for one question, whenever it is asked.
    var body: String {
        JSONWriter.object { json in
            json.number("endDate", endAt.milliseconds)
            if case .type(let type, let subtype) = filter {
                json.text("notificationSubtype", subtype)
                json.text("notificationType", type)
            }
            if onlyFailures { json.flag("onlyFailures", true) }
            json.number("startDate", startAt.milliseconds)
            if case .transaction(let id) = filter { json.text("transactionId", id) }
        }
    }
}

/// Why a question to the notification history would be refused; said before it is sent.
package enum HistoryRequestFault: Error, Hashable, Sendable, CustomStringConvertible {
    case startIsNoDate
    case startNotBeforeEnd
    case startTooFarBack(days: Int64)
    case typeIsNoName
    case transactionIsNoID

    package var description: String {
        switch self {
        case .startIsNoDate: "the start lies before 1970"
        case .startNotBeforeEnd: "the start does not lie before the end"
        case .startTooFarBack(let days): "the App Store keeps notifications for \(days) days"
        case .typeIsNoName: "the notification type or subtype is no name such as DID_RENEW"
        case .transactionIsNoID: "the transaction id is not 1 to 64 digits"
        }
    }
}

/// One page of the notification history.
package struct NotificationHistoryPage: Hashable, Sendable {
    package struct Entry: Hashable, Sendable {
        /// The compact JWS as received, unverified: it goes the way of every notification.
        package var signedPayload: String
        package var sendAttempts: [SendAttempt]

        package init(signedPayload: String, sendAttempts: [SendAttempt] = []) {
            self.signedPayload = signedPayload
            self.sendAttempts = sendAttempts
        }
    }

    /// One attempt of the App Store to reach our server.
    package struct SendAttempt: Hashable, Sendable {
        package var attemptedAt: Instant?
        /// `SUCCESS`, `TIMED_OUT`, … as the App Store wrote it.
        package var result: String?
    }

    package var entries: [Entry]
    /// Entries without a readable `signedPayload`.
    package var unreadable: Int
    package var hasMore: Bool
    /// For the next page of the same question.
    package var paginationToken: String?

    package init(
        entries: [Entry], unreadable: Int = 0, hasMore: Bool, paginationToken: String? = nil
    ) {
        self.entries = entries
        self.unreadable = unreadable
        self.hasMore = hasMore
        self.paginationToken = paginationToken
    }
}
