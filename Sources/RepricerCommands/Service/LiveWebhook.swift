import HTTP
import Outbox
import ServiceKit

/// Posts webhooks over HTTPS. It follows no redirect: an event goes to the configured address, or nowhere.
struct LiveWebhook: WebhookPosting {
    private let client: HTTPClient
    private let target: String

    static let requestDeadline: Duration = .seconds(10)

    init(
        url: WebhookURL, caFile: String?, deadline: Duration = requestDeadline
    ) throws(HTTPClientError) {
        var limits = HTTPClientLimits()
        limits.connectionsMax = 16
        limits.connectTimeout = .seconds(5)
        limits.requestDeadline = deadline
        // Only the status of the answer matters.
        limits.responseBytesMax = 64 * 1024
        limits.isBodyNeeded = false
        client = try HTTPClient(baseURL: url.base, extraCAFile: caFile, limits: limits)
        target = url.target
    }

    func post(_ message: WebhookMessage) async -> WebhookAnswer {
        let request = HTTPRequest(
            method: "POST", target: target,
            headers: HTTPHeaders([
                ("Content-Type", "application/json"), ("User-Agent", "repricer"),
                ("Repricer-Event-Id", message.eventID), ("Repricer-Event-Type", message.type),
                (WebhookSignature.header, message.signature),
            ]), body: message.body)
        do throws(HTTPClientError) {
            return .status(try await client.send(request).status)
        } catch {
            return .failed("\(error)")
        }
    }
}
