/// Why a request got no usable response.
package struct HTTPClientError: Error, Equatable, CustomStringConvertible {
    package enum Code: Sendable, CaseIterable {
        /// The base URL or the CA file cannot be used.
        case badURL, badCAFile
        /// The method, target or a header field cannot be written.
        case badRequest
        case cannotConnect
        /// The TLS handshake failed, mostly because a certificate is not trusted or not for this host.
        case tlsFailed
        /// The connection broke before a byte of the request was sent.
        case notSent
        case timedOut
        case connectionLost
        case malformedResponse
        case responseTooLarge
        /// The calling task was cancelled.
        case cancelled
        /// The client has been closed, or too many requests wait for a connection.
        case closed, overloaded
    }

    package let code: Code
    package let reason: String
    /// False only when it is certain that the server has not seen the whole request.
    package let requestMayHaveArrived: Bool

    package init(_ code: Code, _ reason: String, requestMayHaveArrived: Bool = false) {
        self.code = code
        self.reason = reason
        self.requestMayHaveArrived = requestMayHaveArrived
    }

    package var description: String { "\(reason) (\(code))" }
}
