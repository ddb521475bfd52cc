package import HTTP

/// What the App Store client needs of HTTP: one request, one answer. Tests put a recorder in its
/// place.
package protocol HTTPSending: Sendable {
    /// Throws where no usable answer came; the error says whether the request may have arrived.
    func send(_ request: HTTPRequest) async throws(HTTPClientError) -> HTTPResponse
}

extension HTTPClient: HTTPSending {}
