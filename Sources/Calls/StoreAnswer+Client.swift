package import AppStore
import Pricing

extension StoreAnswer {
    /// The App Store would refuse the stored intent, so it is refused here.
    package static func invalid(_ fault: RequestFault) -> StoreAnswer {
        classified(.invalidRequest, "not sent: \(fault)", StoreReply())
    }

    package init<Value>(_ outcome: CallOutcome<Value>, words: (Value) -> StoreWords) {
        switch outcome {
        case .answered(let value, let reply): self = .answered(words(value), reply)
        case .throttled(let until, let reply): self = .throttled(until: until, reply)
        case .unknown(let reason, let reply): self = .unknown(reason: reason, reply)
        case .notSent(let reason): self = .notSent(reason: reason)
        case .refused(let code, let message, let reply):
            self = Self.classified(code, message, reply)
        }
    }

    /// The answer that a code stands for. Most are refusals; some ask to try the same call again.
    private static func classified(
        _ code: APIErrorCode, _ message: String, _ reply: StoreReply
    ) -> StoreAnswer {
        let meaning: StoreRefusal.Meaning
        switch code.disposition(onRetry: false) {
        case .retrySame, .waitUntil: return .unknown(reason: code.description, reply)
        case .refresh: meaning = .refresh
        case .checkStatus: meaning = .checkStatus
        case .haltBatch: meaning = .haltBatch
        case .haltStorefront: meaning = .haltStorefront
        case .haltService: meaning = .haltService
        // Only a documented code about the customer is believed without comparing it with what other calls got.
        case .reject where code == .alreadyCommunicated: meaning = .checkStatus
        case .reject where code.name == nil || code.httpStatus == 404: meaning = .suspect
        case .reject: meaning = .reject
        }
        return .refused(
            StoreRefusal(
                code: code.rawValue, name: code.label, message: message,
                meaning: meaning), reply)
    }
}
