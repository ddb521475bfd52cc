internal import JSON
package import Pricing

/// One question to Get Notification History, checked before it is sent.
///
/// `startDate` and `endDate` are the span of time; whether the App Store counts its edges in is not
/// documented, so callers let their spans overlap by a millisecond. The page token belongs to the
/// question that it was given for: it is passed beside it, never changed.
package struct NotificationHistoryRequest: Hashable, Sendable {
    package let startAt: Instant
    package let endAt: Instant
    /// Whether it asks only for what has not reached our server, including what is still being retried.
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

    /// The body of the question, the same text whenever it is asked.
    var body: String {
        JSONWriter.object { json in
            json.number("endDate", endAt.milliseconds)
            if onlyFailures { json.flag("onlyFailures", true) }
            json.number("startDate", startAt.milliseconds)
        }
    }
}

/// Why a question to the notification history would be refused. It is found before it is sent.
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
    /// The token for the next page of the same question.
    package var paginationToken: String?
}
