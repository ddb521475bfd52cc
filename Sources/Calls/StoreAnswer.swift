package import AppStore
package import Pricing

/// How a call to the App Store ended, in the same words for every kind of call.
package enum StoreAnswer: Sendable {
    /// Applied, or a status; what Apple said in return.
    case answered(StoreWords, StoreReply)
    /// A definite no, with what its code asks us to do.
    case refused(StoreRefusal, StoreReply)
    /// Not applied: silence until the instant.
    case throttled(until: Instant, StoreReply)
    /// Perhaps applied: no answer, a 5xx, or one that can't be read.
    case unknown(reason: String, StoreReply)
    /// Certainly not applied: the request never left.
    case notSent(reason: String)
}

/// What the App Store said in an answer.
package struct StoreWords: Sendable, ExpressibleByArrayLiteral {
    /// Signed: what changes facts.
    package var statements: [SubscriptionEvent]
    /// Unsigned: the renewal date after an extension.
    package var extendedTo: Instant?
    /// Unsigned: how far a mass extension is.
    package var massExtension: MassExtensionStatus?

    package init(
        _ statements: [SubscriptionEvent] = [], extendedTo: Instant? = nil,
        massExtension: MassExtensionStatus? = nil
    ) {
        self.statements = statements
        self.extendedTo = extendedTo
        self.massExtension = massExtension
    }

    package init(arrayLiteral statements: SubscriptionEvent...) { self.init(statements) }
}

package struct StoreReply: Hashable, Sendable {
    package var httpStatus: Int?
    package var body: String?

    package init(httpStatus: Int? = nil, body: String? = nil) {
        self.httpStatus = httpStatus
        self.body = body
    }
}

package struct StoreRefusal: Hashable, Sendable {
    package enum Meaning: Hashable, Sendable {
        /// Final for this change.
        case reject
        /// The token is stale: read the status, judge again, new id.
        case refresh
        /// On a retry: perhaps the first attempt was applied, so look.
        case look
        /// The call is wrong, whatever the change: the next ones of its batch would fare no better.
        case haltBatch
        /// The product is not set up for the storefront: the others of the batch may go.
        case haltStorefront
        /// Our key or token is wrong: no call can succeed until somebody acts.
        case haltService
    }

    /// 0: our own check, before anything was sent.
    package var code: Int
    package var name: String
    package var message: String
    package var meaning: Meaning

    package init(code: Int, name: String, message: String, meaning: Meaning) {
        self.code = code
        self.name = name
        self.message = message
        self.meaning = meaning
    }

    /// Whether nobody was asked: the request itself is wrong.
    package var isOurs: Bool { code == 0 }

    package var codeAndName: String { "\(code) \(name)" }

    /// What a rejected change carries: code and name; of a request that was never sent, what is wrong with it.
    package var reason: String {
        isOurs && name != refusedOnRetry ? "\(name): \(message)" : "\(code) \(name)"
    }
}

extension StoreAnswer {
    package var statements: [SubscriptionEvent] {
        switch self {
        case .answered(let words, _): words.statements
        case .refused, .throttled, .unknown, .notSent: []
        }
    }

    package var isRefusal: Bool {
        switch self {
        case .refused: true
        case .answered, .throttled, .unknown, .notSent: false
        }
    }

    /// The App Store has taken the call and decided on it.
    package var isHeard: Bool {
        switch self {
        case .answered: true
        case .refused(let refusal, _): refusal.meaning != .haltService
        case .throttled, .unknown, .notSent: false
        }
    }

    /// The refusal, where it means that the batch must stop, or a storefront of it.
    package var haltsBatch: StoreRefusal? {
        switch self {
        case .refused(let refusal, _)
        where refusal.meaning == .haltBatch || refusal.meaning == .haltStorefront:
            refusal
        case .answered, .refused, .throttled, .unknown, .notSent: nil
        }
    }

    /// The refusal that says that our key or token is wrong.
    package var refusedKey: StoreRefusal? {
        switch self {
        case .refused(let refusal, _) where refusal.meaning == .haltService: refusal
        case .answered, .refused, .throttled, .unknown, .notSent: nil
        }
    }

    var notSentReason: String? {
        switch self {
        case .notSent(let reason): reason
        case .answered, .refused, .throttled, .unknown: nil
        }
    }

    var reply: StoreReply {
        switch self {
        case .answered(_, let reply), .refused(_, let reply), .throttled(_, let reply),
            .unknown(_, let reply):
            reply
        case .notSent: StoreReply()
        }
    }

    /// Why a status tells nothing of a subscription although the App Store answered for good; nil where it tells, or
    /// where another check may.
    package func whyUnreadable(_ id: String) -> String? {
        switch self {
        case .answered(let words, _):
            words.statements.contains { $0.originalTransactionID == id }
                ? nil : "the App Store's status does not show its subscription"
        case .refused(let refusal, _) where refusal.meaning != .haltService:
            "its subscription's status is refused with \(refusal.code) \(refusal.name)"
        case .refused, .throttled, .unknown, .notSent: nil
        }
    }
}
