internal import HTTP
internal import JSON
package import Pricing

/// One Cancel a Subscription request, checked before it is encoded.
package struct CancelCall: Hashable, Sendable {
    /// Its consistency token is the last one seen, so that a subscription that has changed since is not cancelled.
    package let requestInfo: CommerceRequestInfo
    /// ISO 3166-1 alpha-3.
    package let storefront: String?

    package init(
        requestReferenceID: String, consistencyToken: String? = nil, storefront: String? = nil
    ) throws(RequestFault) {
        requestInfo = try CommerceRequestInfo(
            requestReferenceID: requestReferenceID, consistencyToken: consistencyToken)
        try FieldCheck.storefront(storefront)
        self.storefront = storefront
    }

    var body: String {
        JSONWriter.object {
            $0.key("requestInfo", requestInfo.write)
            $0.text("storefront", storefront)
        }
    }
}

extension AppStoreClient {
    /// Calls Cancel a Subscription, which turns the renewal off. The subscription runs to the end of its period.
    ///
    /// - Parameters:
    ///   - transactionID: The subscription's original transaction id, or any later one.
    ///   - request: The id under which it is asked, and what was known then.
    ///   - leavingBefore: No byte is sent after this instant.
    package func cancel(
        transactionID: String, request: CancelCall,
        leavingBefore: ContinuousClock.Instant? = nil
    ) async -> CallOutcome<SubscriptionEvent> {
        await change(
            "cancel", transactionID, request.body, request.requestInfo,
            leavingBefore: leavingBefore)
    }
}
