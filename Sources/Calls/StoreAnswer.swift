package import AppStore
package import Pricing

/// How a call to the App Store ended, in the same words for every kind of call.
package enum StoreAnswer: Sendable {
    /// The call was applied, or a status came, with what Apple said in return.
    case answered(StoreWords, StoreReply)
    /// It was refused for good. The refusal says what to do about its code.
    case refused(StoreRefusal, StoreReply)
    /// It was not applied, and Apple asked for silence until the instant.
    case throttled(until: Instant, StoreReply)
    /// It may have been applied: there was no answer, a 5xx, or an answer that cannot be read.
    case unknown(reason: String, StoreReply)
    /// It was certainly not applied, because the request never left.
    case notSent(reason: String)
}

/// What the App Store said in an answer.
package struct StoreWords: Sendable, ExpressibleByArrayLiteral {
    /// What Apple signed. It changes facts.
    package var statements: [SubscriptionEvent]
    /// The renewal date after an extension. It is unsigned.
    package var extendedTo: Instant?
    /// How far a mass extension is. It is unsigned.
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

package struct StoreRefusal: Hashable, Sendable {
    package enum Meaning: Hashable, Sendable {
        /// The refusal is final for this change.
        case reject
        /// The answer is not understood, or says "not found": nobody knows whether it is about this change.
        case suspect
        /// The token is stale. The status is read, and the change is judged again under a new id.
        case refresh
        /// The price may be ours already, so the status is checked before anything is believed.
        case checkStatus
        /// The code says that the form of the call is wrong, so other calls of its batch may be refused too.
        case haltBatch
        /// The code says that the product is not set up for the storefront.
        case haltStorefront
        /// The code says that our key, our token or our route to the App Store is wrong.
        case haltService
    }

    /// Apple's error code; 0 where our own check refused it before anything was sent.
    package var code: Int
    package var name: String
    package var message: String
    package var meaning: Meaning
    /// Whether checks followed this refusal and show that the call was not applied.
    package var isAfterChecks = false

    package init(code: Int, name: String, message: String, meaning: Meaning) {
        self.code = code
        self.name = name
        self.message = message
        self.meaning = meaning
    }

    /// Whether the code is about the customer, the item or the price. Then it is final while others succeed. Every
    /// other code may be about us, whatever it says.
    package var isAboutCustomer: Bool { meaning == .reject || meaning == .checkStatus }

    /// Whether our key, or the token that it signed, was refused, whatever was asked for.
    package var isAboutKey: Bool { APIErrorCode(rawValue: code).isAboutKey }

    /// Whether it is no word of the App Store's, but an answer without a code, as a proxy gives it. The App Store may have
    /// applied the call all the same. It refuses a key without a code too (401), and then applies nothing.
    package var mayBeApplied: Bool { Self.mayBeApplied(code) }

    /// An answer with HTTP 200 that shows no effect, judged beside the answers to other calls. A status tells whether
    /// the call was applied after all.
    static let answeredInVain = StoreRefusal(
        code: Int(ResolutionTable.answeredCode), name: "no_effect",
        message: ResolutionTable.noEffect, meaning: .checkStatus)

    static func mayBeApplied(_ code: Int) -> Bool {
        code >= 300 && code != 401 && APIErrorCode(rawValue: code).isBareStatus
    }

    /// Whether our own check refused the request, so that nothing was sent.
    package var isOurs: Bool { code == 0 }

    package var codeAndName: String { "\(code) \(name)" }

    /// What a rejected change shows: code and name, or what is wrong with a request that was never sent.
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

    /// This status, as it counts for a subscription. One that does not show the subscription tells nothing of it, and is
    /// no sign that a call was not applied.
    package func about(_ id: String) -> StoreAnswer {
        guard case .answered(let words, let reply) = self,
            !words.statements.contains(where: { $0.originalTransactionID == id })
        else { return self }
        return .refused(
            StoreRefusal(
                code: reply.httpStatus ?? 200, name: "not_listed",
                message: "the status does not show the subscription", meaning: .suspect), reply)
    }

    /// Why a status tells nothing of a subscription although the App Store gave a definite answer; nil where it tells
    /// something, or where another check may.
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

extension APIErrorCode {
    /// Any answered call shows that our key is good.
    var isAboutKey: Bool { httpStatus == 401 }
}
