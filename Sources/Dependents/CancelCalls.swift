import AppStore
package import Calls
import Foundation
import Pricing

/// What a call of Cancel a Subscription contains, kept as JSON with the intent, so that a retry sends the very same
/// content.
package struct CancelIntent: Hashable, Sendable, Codable {
    /// The original transaction id of the subscription to be cancelled.
    package var transactionID: String
    package var requestReferenceID: String
    /// The token of the status that was just read. If anything has changed since, the App Store refuses the call.
    package var consistencyToken: String?
    package var storefront: String?

    package init(
        transactionID: String, requestReferenceID: String, consistencyToken: String?,
        storefront: String?
    ) {
        self.transactionID = transactionID
        self.requestReferenceID = requestReferenceID
        self.consistencyToken = consistencyToken
        self.storefront = storefront
    }
}

/// The only call of the canceller besides status checks. The App Store client makes it; tests script their own.
package protocol CancelCalls: Sendable {
    /// Cancels the subscription. No byte is sent after `leavingBefore`, because another process may have taken the call
    /// over by then.
    func cancel(
        _ intent: CancelIntent, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer
}

extension LiveStoreCalls: CancelCalls {
    package func cancel(
        _ intent: CancelIntent, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer {
        do {
            let call = try CancelCall(
                requestReferenceID: intent.requestReferenceID,
                consistencyToken: intent.consistencyToken, storefront: intent.storefront)
            let outcome = await client.cancel(
                transactionID: intent.transactionID, request: call, leavingBefore: leavingBefore)
            return StoreAnswer(outcome) { [$0] }
        } catch {
            return .invalid(error)
        }
    }
}
