import AppStore
package import Calls
import Pricing

/// The two calls that delivery needs. The App Store client makes them; tests script their own.
package protocol StoreCalls: StatusCalls {
    /// Calls Change Subscription Price. No byte is sent after `leavingBefore`, because another process may have taken
    /// the call over by then.
    func changePrice(
        _ intent: PriceChangeIntent, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer
    /// Announces that this many calls will soon be sent, each at an exact instant, so that connections can be opened.
    func prepare(_ calls: Int) async
    /// Runs `work` while a connection is kept open, so that its call needs no handshake.
    func whileReady<T: Sendable>(_ work: @Sendable () async -> T) async -> T
}

extension StoreCalls {
    package func prepare(_ calls: Int) async {}
    package func whileReady<T: Sendable>(_ work: @Sendable () async -> T) async -> T {
        await work()
    }
}

extension LiveStoreCalls: StoreCalls {
    package func changePrice(
        _ intent: PriceChangeIntent, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer {
        do {
            let call = try PriceChangeCall(
                requestReferenceID: intent.requestReferenceID,
                consistencyToken: intent.consistencyToken,
                currency: intent.currency, storefront: intent.storefront,
                items: intent.items.map {
                    PriceChangeCall.Item(
                        sku: $0.sku, priceMilliunits: $0.price, dependentSKUs: $0.dependentSKUs)
                })
            let outcome = await client.changePrice(
                transactionID: intent.transactionID, request: call, leavingBefore: leavingBefore)
            return StoreAnswer(outcome) { [$0] }
        } catch {
            return .invalid(error)
        }
    }

    package func prepare(_ calls: Int) async {
        await client.prepare(calls)
    }

    package func whileReady<T: Sendable>(_ work: @Sendable () async -> T) async -> T {
        await client.whileReady(work)
    }
}
