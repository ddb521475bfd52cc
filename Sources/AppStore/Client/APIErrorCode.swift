/// An error code of the Advanced Commerce API, known or not.
///
/// The first three of its seven digits are the HTTP status. Where an answer carried no code, the
/// raw value is the bare HTTP status.
package struct APIErrorCode: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    package let rawValue: Int

    package init(rawValue: Int) {
        self.rawValue = rawValue
    }

    /// Whether the answer was not one of the App Store's, but a proxy's page or an empty body.
    package var isBareStatus: Bool { rawValue < 1000 }

    /// The HTTP status that belongs to the code.
    package var httpStatus: Int { isBareStatus ? rawValue : rawValue / 10_000 }

    /// The App Store's name; nil for codes that are not documented.
    package var name: String? {
        self == .invalidRequest
            ? "invalid_request" : Self.documented[rawValue]?.name ?? Self.serverAPINames[rawValue]
    }

    /// The name shown beside the number.
    package var label: String { name ?? (isBareStatus ? "without_code" : "code_\(rawValue)") }

    /// What the code means to a person, and what to do; nil where there is only the App Store's own message.
    package var meaning: String? { Self.meanings[rawValue] }

    package var description: String {
        if self == .invalidRequest { return "invalid_request" }
        return name.map { "\(rawValue) \($0)" } ?? "\(rawValue)"
    }
}

extension APIErrorCode {
    /// Our own check refused the request before anything was sent. The App Store has no such code.
    package static let invalidRequest = APIErrorCode(rawValue: 0)
    package static let alreadyCommunicated = APIErrorCode(rawValue: 4_000_205)
    package static let startDateTooFarInPast = APIErrorCode(rawValue: 4_000_012)
    package static let invalidPaginationToken = APIErrorCode(rawValue: 4_000_014)
    package static let paginationTokenExpired = APIErrorCode(rawValue: 4_000_017)
    package static let statusRequestNotFound = APIErrorCode(rawValue: 4_040_009)

    /// What to do next about a refused price change.
    package enum Disposition: String, Hashable, Sendable, CaseIterable {
        /// The same request is sent again with the same reference id.
        case retrySame
        /// The status is read, and the change is requested again with the new consistency token and a new reference id.
        case refresh
        /// An earlier attempt may have been applied, so the status is read before anything else.
        case checkStatus
        /// The refusal is final for this change.
        case reject
        /// It is about the form of the call. The change is parked where others succeed, and its batch halts where
        /// they are refused alike.
        case haltBatch
        /// The product is not set up for the storefront. It is handled like `haltBatch`, and counted by storefronts.
        case haltStorefront
        /// It is about our key or our route to the App Store. It is handled like `haltBatch`, and the service halts
        /// where all batches are refused alike.
        case haltService
        /// There were too many calls. The same request is sent again at the instant in the answer.
        case waitUntil
    }

    /// - Parameter onRetry: Whether an earlier attempt of the same intent may have arrived.
    package func disposition(onRetry: Bool) -> Disposition {
        if self == .alreadyCommunicated || self == .invalidRequest {
            return onRetry ? .checkStatus : .reject
        }
        if let documented = Self.documented[rawValue] { return documented.disposition }
        if Self.ofOtherRequests.contains(rawValue) { return .haltBatch }
        if let ofServerAPI = Self.serverAPIDispositions[rawValue] { return ofServerAPI }
        // The App Store Server API documents these "not found" codes as retryable.
        if [4_040_002, 4_040_004, 4_040_006].contains(rawValue) { return .retrySame }
        switch httpStatus {
        case 401: return .haltService
        case 408, 500...599: return .retrySame
        case 429: return .waitUntil
        // A refusal without a code comes from something between us and the App Store, such as a proxy. If it ended
        // rows, a wrong address would end all rows of a batch one by one.
        default: return isBareStatus ? .haltService : .reject
        }
    }
}
