package import HTTP

/// What the App Store client needs of HTTP: one request, one answer. Tests put a recorder in its
/// place.
package protocol HTTPSending: Sendable {
    /// Sends one request. Throws where no usable answer came; the error says whether the request may have arrived. No
    /// byte leaves after `leavingBefore`.
    func send(
        _ request: HTTPRequest, leavingBefore: ContinuousClock.Instant?
    ) async throws(HTTPClientError) -> HTTPResponse
    /// Prepares for so many requests that must leave at their instants.
    func prepare(_ count: Int) async
    /// Does work while an open connection is held for the first request that it sends.
    func whileReady<T: Sendable>(_ work: @Sendable () async -> T) async -> T
}

extension HTTPSending {
    package func whileReady<T: Sendable>(_ work: @Sendable () async -> T) async -> T {
        await work()
    }
}

extension HTTPClient: HTTPSending {}
