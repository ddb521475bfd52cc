package import HTTP
package import Pricing

/// What became of one call to the App Store. Nothing is thrown: each outcome has its own next step.
package enum CallOutcome<Value: Sendable>: Sendable {
    /// It was done, and the answer is verified and decoded.
    case answered(Value, raw: RawAnswer)
    /// It was definitely not done. `APIErrorCode.disposition` says what comes next.
    case refused(code: APIErrorCode, message: String, raw: RawAnswer)
    /// It was definitely not done, because there were too many calls. None may come before this instant.
    case throttled(until: Instant, raw: RawAnswer)
    /// It may have been done. It is repeated with the same reference id, or the status is read.
    case unknownOutcome(reason: String, raw: RawAnswer?)
    /// It was definitely not done, because nothing reached the App Store.
    case notSent(reason: String)
}

extension CallOutcome {
    /// A request that the App Store would refuse is refused here and not sent.
    static func faulty(_ fault: RequestFault) -> CallOutcome {
        .refused(code: .invalidRequest, message: "not sent: \(fault)", raw: .none)
    }
}

extension CallOutcome: Equatable where Value: Equatable {}

/// An answer as it came, bounded, fit for a `text` column.
package struct RawAnswer: Hashable, Sendable {
    /// Longer bodies are cut here.
    package static let bodyBytesMax = 64 << 10

    /// The HTTP status; 0 where nobody was asked.
    package var status: Int
    /// Invalid UTF-8 and U+0000 are replaced by U+FFFD.
    package var body: String
    /// How long the `Retry-After` of an error asks to wait, in real time.
    package var retryAfter: Duration?
    /// When it left, by the clock of whoever sent it: RFC 9110, `Date`, and RFC 9111, `Age`. Nil where that is not told, or
    /// where the clock of a rehearsal counts, which is not that of the answer.
    package var leftAt: Instant?

    static let none = RawAnswer(HTTPResponse(status: 0))

    package init(_ response: HTTPResponse) {
        status = response.status
        body = storable(
            String(decoding: response.body.prefix(Self.bodyBytesMax), as: UTF8.self))
    }
}
