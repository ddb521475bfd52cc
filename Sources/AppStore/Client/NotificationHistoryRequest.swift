internal import JSON
package import Pricing

/// One request to Get Notification History, checked before it is sent.
///
/// `startDate` and `endDate` are the span of time. Whether it includes both ends is not documented, so callers let
/// their spans overlap by a millisecond. A page token is valid only for the request that it was given for, and is
/// passed separately and unchanged.
package struct NotificationHistoryRequest: Hashable, Sendable {
    package let startAt: Instant
    package let endAt: Instant
    /// Whether it requests only notifications that have not reached our server, including those still being retried.
    package let onlyFailures: Bool

    /// - Parameter now: The instant that decides how far back the history reaches.
    package init(
        startAt: Instant, endAt: Instant, onlyFailures: Bool = false, now: Instant,
        environment: StoreEnvironment
    ) throws(HistoryRequestFault) {
        guard startAt.milliseconds >= 0 else { throw .startIsNoDate }
        guard startAt < endAt else { throw .startNotBeforeEnd }
        guard startAt >= Self.oldestStart(at: now, environment) else {
            throw .startTooFarBack(days: Self.days(environment))
        }
        self.startAt = startAt
        self.endAt = endAt
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

    /// The body of the request, the same text each time.
    var body: String {
        JSONWriter.object { json in
            json.number("endDate", endAt.milliseconds)
            if onlyFailures { json.flag("onlyFailures", true) }
            json.number("startDate", startAt.milliseconds)
        }
    }
}

/// Why a request to the notification history would be refused. It is found before the request is sent.
package enum HistoryRequestFault: Error, Hashable, Sendable, CustomStringConvertible {
    case startIsNoDate
    case startNotBeforeEnd
    case startTooFarBack(days: Int64)

    package var description: String {
        switch self {
        case .startIsNoDate: "the start lies before 1970"
        case .startNotBeforeEnd: "the start does not lie before the end"
        case .startTooFarBack(let days): "the App Store keeps notifications for \(days) days"
        }
    }
}

/// One page of the notification history.
package struct NotificationHistoryPage: Hashable, Sendable {
    package struct Entry: Hashable, Sendable {
        /// The compact JWS as it was received, unverified. It is handled like every notification.
        package var signedPayload: String
        package var sendAttempts: [SendAttempt] = []
    }

    /// One attempt of the App Store to reach our server.
    package struct SendAttempt: Hashable, Sendable {
        /// `SUCCESS`, `TIMED_OUT`, … as the App Store wrote it.
        package var result: String?
    }

    package var entries: [Entry]
    /// Entries without a readable `signedPayload`.
    package var unreadable = 0
    package var hasMore: Bool
    /// The token for the next page of the same request.
    package var paginationToken: String?
}
