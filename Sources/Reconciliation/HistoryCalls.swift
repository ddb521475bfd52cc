package import AppStore

/// The call that reading the history needs. The App Store client makes it; tests script their own.
package protocol HistoryCalls: Sendable {
    /// Calls Get Notification History for one page.
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

/// Where notifications are handed in. What comes from the history is verified and stored as if it had come over HTTP.
package protocol NotificationDoor: Sendable {
    func take(_ signedPayload: String) async -> DoorAnswer
}

package enum DoorAnswer: Hashable, Sendable {
    /// It is durable. `isNew` is false where it was known.
    case stored(isNew: Bool)
    /// It is forged, of another app, or cannot be stored. The code is stable and short.
    case refused(code: String)
    /// It is not stored, because the database is away or too much waits.
    case unavailable(String)
    /// It is not stored, because the database has been migrated for newer programs.
    case outdated(String)
}
