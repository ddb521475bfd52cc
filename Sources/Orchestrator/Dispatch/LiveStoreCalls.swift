package import AppStore
import Pricing

/// The App Store client as delivery sees it: its outcomes in the words of `StoreAnswer`.
package struct LiveStoreCalls: StoreCalls {
    let client: AppStoreClient

    package init(client: AppStoreClient) {
        self.client = client
    }

    package func changePrice(
        _ intent: PriceChangeIntent, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer {
        let call: PriceChangeCall
        do {
            call = try PriceChangeCall(
                requestReferenceID: intent.requestReferenceID,
                consistencyToken: intent.consistencyToken,
                currency: intent.currency, storefront: intent.storefront,
                items: intent.items.map {
                    PriceChangeCall.Item(
                        sku: $0.sku, priceMilliunits: $0.price, dependentSKUs: $0.dependentSKUs)
                })
        } catch {
            return .invalid(error)
        }
        let outcome = await client.changePrice(
            transactionID: intent.transactionID, request: call, leavingBefore: leavingBefore)
        return StoreAnswer(outcome) { [$0.event] }
    }

    package func prepare(_ calls: Int) async {
        await client.prepare(calls)
    }

    package func look(transactionID: String) async -> StoreAnswer {
        let outcome = await client.subscriptionStatuses(transactionID: transactionID)
        return StoreAnswer(outcome) { $0.map(\.event) }
    }
}

extension StoreAnswer {
    /// The stored intent is one that the App Store would refuse: it is refused here.
    static func invalid(_ fault: RequestFault) -> StoreAnswer {
        refused(.invalidRequest, "not sent: \(fault)", StoreReply())
    }

    init<Value>(
        _ outcome: CallOutcome<Value>, events: (Value) -> [SubscriptionEvent]
    ) {
        switch outcome {
        case .answered(let value, let raw): self = .answered(events(value), StoreReply(raw))
        case .throttled(let until, let raw): self = .throttled(until: until, StoreReply(raw))
        case .unknownOutcome(let reason, let raw):
            self = .unknown(reason: reason, raw.map { StoreReply($0) } ?? StoreReply())
        case .notSent(let reason): self = .notSent(reason: reason)
        case .refused(let code, let message, let raw):
            self = Self.refused(code, message, StoreReply(raw))
        }
    }

    private static func refused(
        _ code: APIErrorCode, _ message: String, _ reply: StoreReply
    ) -> StoreAnswer {
        let meaning: StoreRefusal.Meaning
        switch code.disposition(onRetry: false) {
        case .retrySame, .waitUntil: return .unknown(reason: code.description, reply)
        case .refresh: meaning = .refresh
        case .look: meaning = .look
        case .haltBatch: meaning = .haltBatch
        case .haltStorefront: meaning = .haltStorefront
        case .haltService: meaning = .haltService
        case .reject: meaning = .reject
        }
        return .refused(
            StoreRefusal(
                code: code.rawValue, name: code.name ?? "code_\(code.rawValue)", message: message,
                meaning: meaning), reply)
    }
}

extension StoreReply {
    fileprivate init(_ raw: RawAnswer) {
        self.init(
            httpStatus: raw.status == 0 ? nil : raw.status, body: raw.status == 0 ? nil : raw.body)
    }
}
