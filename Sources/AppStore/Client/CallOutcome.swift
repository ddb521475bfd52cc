package import HTTP
package import Pricing

/// The outcome of one call to the App Store. Nothing is thrown, because each outcome has its own next step.
package enum CallOutcome<Value: Sendable>: Sendable {
    /// It was done, and the answer is verified and decoded.
    case answered(Value, StoreReply)
    /// It was definitely not done. `APIErrorCode.disposition` says what comes next.
    case refused(code: APIErrorCode, message: String, StoreReply)
    /// It was definitely not done, because there were too many calls. None may come before this instant.
    case throttled(until: Instant, StoreReply)
    /// It may have been done. It is repeated with the same reference id, or the status is read.
    case unknown(reason: String, StoreReply)
    /// It was definitely not done, because nothing reached the App Store.
    case notSent(reason: String)
}

extension CallOutcome {
    /// A request that the App Store would refuse is refused here and not sent.
    static func faulty(_ fault: RequestFault) -> CallOutcome {
        .refused(code: .invalidRequest, message: "not sent: \(fault)", StoreReply())
    }
}

extension CallOutcome: Equatable where Value: Equatable {}

/// The answer as received, cut to a limit and made storable in a `text` column.
package struct StoreReply: Hashable, Sendable {
    /// Longer bodies are cut here.
    package static let bodyBytesMax = 64 << 10

    /// nil where there was no answer or nothing was sent; then `body` is nil too.
    package var httpStatus: Int?
    /// Invalid UTF-8 and U+0000 are replaced by U+FFFD.
    package var body: String?
    /// How long the `Retry-After` of an error asks to wait, in real time.
    package var retryAfter: Duration?
    /// When the answer was made, by its sender's clock: `Date` (RFC 9110) plus `Age` (RFC 9111). Nil where the answer
    /// does not say, and in a rehearsal, whose clock is not that of the answer.
    package var leftAt: Instant?
    /// Whether the App Store's signatures in it were verified.
    package var isVerified = false

    package init(
        httpStatus: Int? = nil, body: String? = nil, retryAfter: Duration? = nil,
        leftAt: Instant? = nil
    ) {
        self.httpStatus = httpStatus
        self.body = body
        self.retryAfter = retryAfter
        self.leftAt = leftAt
    }

    package init(_ response: HTTPResponse) {
        httpStatus = response.status
        body = storable(
            String(decoding: response.body.prefix(Self.bodyBytesMax), as: UTF8.self))
    }
}
