/// A call to the App Store that changes something, as it stands in `repricer.store_calls`: written before it is made,
/// fenced by its lease, settled once. All kinds of call share it.
package struct StoreCall: Sendable, Hashable {
    /// What an open call waits for.
    package enum Step: String, Sendable {
        /// The same call with the same id.
        case send
        /// The status of what it changes.
        case check
    }

    package enum Kind: String, Sendable, CaseIterable {
        case priceChange = "price_change"
        case cancel
        case renewalExtension = "extension"
        case massExtension = "mass_extension"
    }

    package var kind: Kind
    /// The subscription that it changes, by its original transaction id; of a mass extension `product:` and the product.
    /// One call of a subject is in flight at a time, whatever its kind.
    package var subject: String
    /// Of a price change and a cancellation the `requestReferenceId` that Apple is told.
    package var callID: String
    package var bucket: Int
    /// What waits for its outcome: price changes, or the request of an extension.
    package var carries: [String]
    /// The subscriptions whose declined changes it cancels dependents of, sorted.
    package var parents: [String]
    /// The call as JSON, the very one of the first attempt.
    package var intent: String
    package var fence: Int64
    package var attempts: Int
    package var checks: Int
    package var step: Step
    /// What an earlier attempt was refused with, while checks are to tell what that means.
    package var errorCode: Int64?
    /// It may be checked and is never sent again.
    package var isOver: Bool
    /// When this process took it, a call of it could still be on its way: what a check does not show may come.
    package var isInFlight: Bool
    /// Real time, UTC milliseconds: later none of its attempts can be on its way; nil where it was just written.
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

    /// Of a mass extension, whose subject is no subscription.
    package static func subject(ofProduct productID: String) -> String { "product:\(productID)" }
}

/// How an attempt of a call ended, as it is stored.
package struct CallEnding: Sendable {
    package enum Fate: Sendable {
        /// Apple has it.
        case answered
        /// Apple has it not. `isDoubtful`: no check showed it, and nobody knows for sure.
        case refused(isDoubtful: Bool)
        /// Nobody knows yet: released for its next step at an instant in real time, UTC milliseconds. `isUncounted`:
        /// nothing of this attempt has left, so it counts as not made.
        case open(StoreCall.Step, nextAttemptAt: Int64, isUncounted: Bool)
    }

    package let call: StoreCall
    package let fate: Fate
    package var httpStatus: Int?
    package var errorCode: Int64?
    package var message: String?
    package var answer: Evidence?

    package init(
        _ call: StoreCall, _ fate: Fate, httpStatus: Int? = nil, errorCode: Int64? = nil,
        message: String? = nil, answer: Evidence? = nil
    ) {
        self.call = call
        self.fate = fate
        self.httpStatus = httpStatus
        self.errorCode = errorCode
        self.message = message
        self.answer = answer
    }

    package var isOpen: Bool {
        switch fate {
        case .open: true
        case .answered, .refused: false
        }
    }
}
