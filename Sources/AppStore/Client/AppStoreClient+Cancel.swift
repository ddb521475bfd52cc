internal import FoundationEssentials
internal import HTTP

/// One Cancel a Subscription request, before it is encoded.
package struct CancelCall: Hashable, Sendable {
    /// Stored before the first send; repeated only while the outcome is unknown.
    package var requestReferenceID: String
    /// The last one seen in renewal info: a subscription that changed since is not cancelled.
    package var consistencyToken: String?
    /// ISO 3166-1 alpha-3.
    package var storefront: String?

    package init(
        requestReferenceID: String, consistencyToken: String? = nil, storefront: String? = nil
    ) {
        self.requestReferenceID = requestReferenceID
        self.consistencyToken = consistencyToken
        self.storefront = storefront
    }
}

extension AppStoreClient {
    /// Cancel a Subscription: turns its renewal off; service goes on to the end of the period.
    ///
    /// - Parameters:
    ///   - transactionID: The subscription's original transaction id, or any later one.
    ///   - request: The id under which it is asked, and what was known then.
    ///   - leavingBefore: Later nothing of it is sent.
    package func cancel(
        transactionID: String, request: CancelCall,
        leavingBefore: ContinuousClock.Instant? = nil
    ) async -> CallOutcome<SignedAnswer> {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let body = try? encoder.encode(WireCancel(request)) else {  // Said in the outcome.
            return .notSent(reason: "the request cannot be encoded")
        }
        let path = "/advancedCommerce/v1/subscription/cancel"
        return await call(
            HTTPRequest(
                method: "POST", target: "\(path)/\(PercentCoding.encode(transactionID))",
                headers: HTTPHeaders([("Content-Type", "application/json")]), body: Array(body)),
            leavingBefore: leavingBefore
        ) { body, now throws(AnswerReader.Failure) in
            try reader.signedAnswer(
                body, evidenceID: request.requestReferenceID, transactionID: transactionID, now: now
            )
        }
    }
}

/// `SubscriptionCancelRequest` as the App Store reads it; absent optionals are left out.
private struct WireCancel: Encodable {
    struct RequestInfo: Encodable {
        var requestReferenceId: String
        var consistencyToken: String?
    }

    var requestInfo: RequestInfo
    var storefront: String?

    init(_ call: CancelCall) {
        requestInfo = RequestInfo(
            requestReferenceId: call.requestReferenceID, consistencyToken: call.consistencyToken)
        storefront = call.storefront
    }
}
