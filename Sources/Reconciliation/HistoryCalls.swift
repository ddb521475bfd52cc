package import AppStore

/// The call that reading the history needs. The live one is the App Store client; tests script their own.
package protocol HistoryCalls: Sendable {
    /// Get Notification History, one page.
    func history(
        _ request: NotificationHistoryRequest, paginationToken: String?
    ) async -> CallOutcome<NotificationHistoryPage>
}

extension AppStoreClient: HistoryCalls {
    package func history(
        _ request: NotificationHistoryRequest, paginationToken: String?
    ) async -> CallOutcome<NotificationHistoryPage> {
        await notificationHistory(request, paginationToken: paginationToken)
    }
}

/// The one way in for notifications: what comes from the history is verified and stored as if it had come over
/// HTTP.
package protocol NotificationDoor: Sendable {
    func take(_ signedPayload: String) async -> DoorAnswer
}

package enum DoorAnswer: Hashable, Sendable {
    /// Durable; `isNew` is false for one that was known.
    case stored(isNew: Bool)
    /// Forged, of another app, or nothing that can be stored; the code is stable and short.
    case refused(code: String)
    /// Not stored: the database is away, or too much waits.
    case unavailable(String)
}
