package import HTTP

/// The HTTP that the App Store client needs: one request, one answer. Tests use a recorder instead.
package protocol HTTPSending: Sendable {
    /// Sends one request. Throws where no usable answer came; the error says whether the request may have arrived. No
    /// byte is sent after `leavingBefore`.
    func send(
        _ request: HTTPRequest, leavingBefore: ContinuousClock.Instant?
    ) async throws(HTTPClientError) -> HTTPResponse
    /// Opens connections for this many requests that must be sent at exact instants.
    func prepare(_ count: Int) async
    /// Runs `work` while an open connection is held for the first request that it sends.
    func whileReady<T: Sendable>(_ work: @Sendable () async -> T) async -> T
}

extension HTTPSending {
    package func whileReady<T: Sendable>(_ work: @Sendable () async -> T) async -> T {
        await work()
    }
}

extension HTTPClient: HTTPSending {}
