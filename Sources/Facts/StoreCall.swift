/// A call to the App Store that changes something, as a row of `repricer.store_calls`: it is written before it is
/// made, fenced by its lease and settled once. All kinds of call share it.
package struct StoreCall: Sendable, Hashable {
    /// What an open call waits for.
    package enum Step: String, Sendable {
        /// The same call is sent again with the same id.
        case send
        /// The status of what it changes is read.
        case check
    }

    package enum Kind: String, Sendable, CaseIterable {
        case priceChange = "price_change"
        case cancel
        case renewalExtension = "extension"
        case massExtension = "mass_extension"
    }

    package var kind: Kind
    /// The subscription that it changes, by its original transaction id; for a mass extension `product:` and the
    /// product. One call of a subject is in flight at a time, whatever its kind.
    package var subject: String
    /// The id of the call. For a price change and a cancellation it is the `requestReferenceId` that Apple is told.
    package var callID: String
    package var bucket: Int
    /// The ids of what waits for its outcome: price changes, or the request of an extension.
    package var carries: [String]
    /// The subscriptions with declined changes whose dependents it cancels, sorted.
    package var parents: [String]
    /// The content of the call as JSON, the same for every attempt.
    package var intent: String
    package var fence: Int64
    package var attempts: Int
    package var checks: Int
    package var step: Step
    /// The code with which an earlier attempt was refused, while checks find out what that means.
    package var errorCode: Int64?
    /// Whether it is never sent again. It may still be checked.
    package var isOver: Bool
    /// Whether an attempt could still be on its way when this process took the call over. Then an effect that a check
    /// does not show may still come.
    package var isInFlight: Bool
    /// After this instant (real time, UTC milliseconds) none of its attempts can be on its way; nil where it was just
    /// written.
    package var inFlightUntil: Int64?

    package init(
        _ kind: Kind, subject: String, callID: String, bucket: Int, carries: [String] = [],
        parents: [String] = [], intent: String, fence: Int64 = 1, attempts: Int = 1,
        checks: Int = 0, step: Step = .send, errorCode: Int64? = nil, isOver: Bool = false,
        isInFlight: Bool = true, inFlightUntil: Int64? = nil
    ) {
        self.kind = kind
        self.subject = subject
        self.callID = callID
        self.bucket = bucket
        self.carries = carries
        self.parents = parents
        self.intent = intent
        self.fence = fence
        self.attempts = attempts
        self.checks = checks
        self.step = step
        self.errorCode = errorCode
        self.isOver = isOver
        self.isInFlight = isInFlight
        self.inFlightUntil = inFlightUntil
    }

    /// Whether no earlier attempt with this id can have been applied.
    package var isFirstAttempt: Bool { attempts == 1 && checks == 0 }

    /// The subject of a mass extension, which is no subscription.
    package static func subject(ofProduct productID: String) -> String { "product:\(productID)" }
}

/// How an attempt of a call ended, as it is stored.
package struct CallEnding: Sendable {
    package enum State: String, Sendable {
        /// Apple has applied it.
        case answered
        /// Apple has not applied it, as far as is known.
        case refused
        /// Nobody knows yet, so it is released for its next step.
        case unknown
    }

    package let call: StoreCall
    package let state: State
    /// Whether it may have been applied although it was refused, because no check showed it and nobody knows for sure.
    package var isDoubtful = false
    /// What it waits for while its outcome is unknown.
    package var nextStep = StoreCall.Step.send
    /// When that step is due, in real time (UTC milliseconds); nil where there is none.
    package var nextAttemptAt: Int64?
    /// Whether nothing of this attempt has left, so that it does not count.
    package var isUncounted = false
    package var httpStatus: Int?
    package var errorCode: Int64?
    package var message: String?
    package var answer: Evidence?

    package init(_ call: StoreCall, _ state: State) {
        self.call = call
        self.state = state
    }

    package var isOpen: Bool { state == .unknown }
}
