/// Why bytes are not an acceptable message.
package struct HTTPParseError: Error, Equatable, CustomStringConvertible {
    package enum Kind: Sendable, CaseIterable {
        case malformed, lengthRequired, bodyTooLarge, targetTooLong, expectationUnknown,
            headTooLarge
        /// The input ended inside a message.
        case truncated

        /// The status that a server answers with. It is never a 5xx, not even 501 or 505, which RFC 9110 allows: the
        /// fault is the sender's, and a sender that retries after a 5xx would retry in vain.
        package var status: Int {
            switch self {
            case .malformed, .truncated: 400
            case .lengthRequired: 411
            case .bodyTooLarge: 413
            case .targetTooLong: 414
            case .expectationUnknown: 417
            case .headTooLarge: 431
            }
        }
    }

    package let kind: Kind
    package let reason: String

    package init(_ kind: Kind, _ reason: String) {
        self.kind = kind
        self.reason = reason
    }

    package var description: String { reason }
}
