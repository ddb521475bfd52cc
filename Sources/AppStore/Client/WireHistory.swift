internal import JSON

extension NotificationHistoryPage {
    /// Reads `NotificationHistoryResponse`; nil where it has none of the documented fields, because then it is not that
    /// response.
    init?(_ json: JSONNode) {
        guard json.kind == .object else { return nil }
        let listed = json["notificationHistory"]?.elements
        let more = json["hasMore"]?.boolean
        guard listed != nil || more != nil else { return nil }
        let entries = (listed ?? []).compactMap(Entry.init)
        let token = json["paginationToken"]?.text.flatMap { $0.isEmpty ? nil : $0 }
        self.init(
            entries: entries, unreadable: (listed?.count ?? 0) - entries.count,
            hasMore: more ?? (token != nil), paginationToken: token)
    }
}

extension NotificationHistoryPage.Entry {
    init?(_ json: JSONNode) {
        guard let payload = json["signedPayload"]?.text, !payload.isEmpty else { return nil }
        self.init(
            signedPayload: payload,
            sendAttempts: (json["sendAttempts"]?.elements ?? []).map {
                NotificationHistoryPage.SendAttempt(result: $0["sendAttemptResult"]?.storableText)
            })
    }
}
