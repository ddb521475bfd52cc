package import AppStore
package import Notifications

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

/// The intake of notifications. Entries of the history are verified and stored as if they had arrived over HTTP.
package protocol HistoryIntake: Sendable {
    func take(_ signedPayload: String) async -> IntakeOutcome
}

extension NotificationIntake: HistoryIntake {
    package func take(_ signedPayload: String) async -> IntakeOutcome {
        await take(signedPayload, seen: { _ in })
    }
}
