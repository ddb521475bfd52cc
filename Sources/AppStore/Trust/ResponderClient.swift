internal import HTTP

/// Posts OCSP requests (RFC 6960 appendix A) over plain HTTP, which responders use because their answers are signed. It
/// opens one connection for each request and follows no redirects.
package enum ResponderClient {
    private static let answerBytesMax = 64 << 10

    /// Throws where no body with status 200 came within ten seconds.
    package static func call(
        url: String, request: [UInt8]
    ) async throws(ResponderError) -> [UInt8] {
        guard let (origin, target) = parts(of: url) else {
            throw ResponderError("the responder's URL is unusable")
        }
        var limits = HTTPClientLimits()
        limits.connectionsMax = 1
        limits.connectTimeout = .seconds(5)
        limits.requestDeadline = .seconds(10)
        limits.responseBytesMax = answerBytesMax
        do throws(HTTPClientError) {
            let client = try HTTPClient(baseURL: origin, limits: limits, isPlainAllowed: true)
            defer { client.close() }
            let headers = HTTPHeaders([
                ("Content-Type", "application/ocsp-request"),
                ("Accept", "application/ocsp-response"),
            ])
            let response = try await client.send(
                HTTPRequest(method: "POST", target: target, headers: headers, body: request))
            guard response.status == 200 else {
                throw HTTPClientError(.malformedResponse, "HTTP status \(response.status)")
            }
            return response.body
        } catch {
            throw ResponderError(error.reason)
        }
    }

    /// The `http://host[:port]` of a URL, and the rest.
    static func parts(of url: String) -> (origin: String, target: String)? {
        let scheme = "http://"
        guard url.lowercased().hasPrefix(scheme) else { return nil }
        let rest = url.dropFirst(scheme.count)
        let end = rest.firstIndex { "/?#".contains($0) } ?? rest.endIndex
        let target = rest[end...].prefix { $0 != "#" }
        return (
            scheme + rest[..<end], target.hasPrefix("/") ? String(target) : "/" + String(target)
        )
    }
}
