internal import HTTP
internal import JSON

/// Test notifications of the App Store Server API: one call a second.
extension AppStoreClient {
    /// Calls Request a Test Notification. Returns the token by which its status can be asked.
    package func requestTestNotification() async -> CallOutcome<String> {
        await call(HTTPRequest(method: "POST", target: "/inApps/v1/notifications/test")) {
            body, _ throws(AnswerReader.Failure) in
            guard
                let token = JSONDocument.read(body)?["testNotificationToken"]?.storableText,
                !token.isEmpty
            else { throw AnswerReader.Failure.undocumented }
            return token
        }
    }

    /// Calls Get Test Notification Status: the notification as it was signed, and each attempt to deliver it.
    package func testNotificationStatus(
        token: String
    ) async -> CallOutcome<NotificationHistoryPage.Entry> {
        let target = "/inApps/v1/notifications/test/\(PercentCoding.encode(token))"
        return await call(HTTPRequest(method: "GET", target: target)) {
            body, _ throws(AnswerReader.Failure) in
            guard
                let entry = JSONDocument.read(body).flatMap({
                    NotificationHistoryPage.Entry($0)
                })
            else { throw AnswerReader.Failure.undocumented }
            return entry
        }
    }
}
