import HTTP
import Outbox
import ServiceKit

/// Webhooks over HTTPS. It follows no redirect: an event goes where it was configured to go, or nowhere.
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
        // What it says is of no interest.
        limits.responseBytesMax = 64 * 1024
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

/// `https://HOST[:PORT]/PATH[?QUERY]`, or `http://` on this machine.
struct WebhookURL: Equatable, Sendable {
    let base: String
    let target: String

    /// nil for what is no such URL.
    init?(_ text: String) {
        guard let scheme = text.range(of: "://") else { return nil }
        let rest = text[scheme.upperBound...]
        let end = rest.firstIndex { $0 == "/" || $0 == "?" } ?? rest.endIndex
        base = String(text[..<end])
        var path = String(rest[end...])
        if !path.hasPrefix("/") { path = "/" + path }
        target = path
        guard let url = BaseURL(base), url.isTLS || url.isLoopback,
            path.utf8.allSatisfy({ (0x21...0x7E).contains($0) && $0 != 0x23 })
        else { return nil }
    }
}
