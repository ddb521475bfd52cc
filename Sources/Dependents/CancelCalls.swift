import AppStore
package import Calls
import Foundation
import Pricing

/// What a call of Cancel a Subscription says, kept as JSON with the intent: a retry sends the very same words.
package struct CancelIntent: Hashable, Sendable, Codable {
    /// The original transaction id of the subscription to be cancelled.
    package var transactionID: String
    package var requestReferenceID: String
    /// Of the status just read: if anything changed since, the App Store refuses.
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

/// The one call that the canceller makes of its own. The live one is the App Store client; tests script theirs.
package protocol CancelCalls: Sendable {
    /// Nothing of it leaves once `leavingBefore` has passed: somebody else may have taken the intent over.
    func cancel(
        _ intent: CancelIntent, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer
}

extension LiveStoreCalls: CancelCalls {
    package func cancel(
        _ intent: CancelIntent, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer {
        let call: CancelCall
        do {
            call = try CancelCall(
                requestReferenceID: intent.requestReferenceID,
                consistencyToken: intent.consistencyToken, storefront: intent.storefront)
        } catch {
            return .invalid(error)
        }
        let outcome = await client.cancel(
            transactionID: intent.transactionID, request: call, leavingBefore: leavingBefore)
        return StoreAnswer(outcome) { StoreWords([$0]) }
    }
}
