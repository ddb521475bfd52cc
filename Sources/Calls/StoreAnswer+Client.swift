package import AppStore
import Pricing

extension StoreAnswer {
    /// The App Store would refuse the stored intent, so it is refused here.
    package static func invalid(_ fault: RequestFault) -> StoreAnswer {
        refused(.invalidRequest, "not sent: \(fault)", StoreReply())
    }

    package init<Value>(_ outcome: CallOutcome<Value>, words: (Value) -> StoreWords) {
        switch outcome {
        case .answered(let value, let raw):
            var reply = StoreReply(raw)
            reply.isVerified = true
            self = .answered(words(value), reply)
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
        case .checkStatus: meaning = .checkStatus
        case .haltBatch: meaning = .haltBatch
        case .haltStorefront: meaning = .haltStorefront
        case .haltService: meaning = .haltService
        // Until other calls show what such an answer is worth, only a documented code about the customer is believed.
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

extension StoreReply {
    fileprivate init(_ raw: RawAnswer) {
        self.init(
            httpStatus: raw.status == 0 ? nil : raw.status, body: raw.status == 0 ? nil : raw.body,
            retryAfter: raw.retryAfter, leftAt: raw.leftAt)
    }
}
