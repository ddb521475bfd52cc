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
    /// Of an error: no further try within, as its `Retry-After` asks. Real time.
    package var retryAfter: Duration?
    /// What it holds of the App Store's signatures was verified.
    package var isVerified = false

    package init(httpStatus: Int? = nil, body: String? = nil, retryAfter: Duration? = nil) {
        self.httpStatus = httpStatus
        self.body = body
        self.retryAfter = retryAfter
    }
}

package struct StoreRefusal: Hashable, Sendable {
    package enum Meaning: Hashable, Sendable {
        /// Final for this change.
        case reject
        /// Not understood, or "not found": nobody knows whether it is about this change.
        case suspect
        /// The token is stale: read the status, judge again, new id.
        case refresh
        /// Perhaps the price is ours already: the status is checked before anything is believed.
        case checkStatus
        /// The form of the call is wrong, by its code: others of its batch may fare no better.
        case haltBatch
        /// The product is not set up for the storefront, by its code.
        case haltStorefront
        /// Our key, token or way to the App Store is wrong, by its code.
        case haltService
    }

    /// 0: our own check, before anything was sent.
    package var code: Int
    package var name: String
    package var message: String
    package var meaning: Meaning
    /// The call was refused so, and the checks that followed show that it was not applied.
    package var isAfterChecks = false

    package init(code: Int, name: String, message: String, meaning: Meaning) {
        self.code = code
        self.name = name
        self.message = message
        self.meaning = meaning
    }

    /// What it says is about the customer, the item or the price: final where others fare well. All else may be about us,
    /// whatever it says.
    package var isAboutCustomer: Bool { meaning == .reject || meaning == .checkStatus }

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

    package var isRefusal: Bool { refusal != nil }

    package var refusal: StoreRefusal? {
        switch self {
        case .refused(let refusal, _): refusal
        case .answered, .throttled, .unknown, .notSent: nil
        }
    }

    var isAnswered: Bool {
        switch self {
        case .answered: true
        case .refused, .throttled, .unknown, .notSent: false
        }
    }

    var isUnknown: Bool {
        switch self {
        case .unknown: true
        case .answered, .refused, .throttled, .notSent: false
        }
    }

    var unknownReason: String? {
        switch self {
        case .unknown(let reason, _): reason
        case .answered, .refused, .throttled, .notSent: nil
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
