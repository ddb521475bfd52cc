import Testing

@testable import Pricing

/// A call in the Sandbox at minute 0, on facts that lag behind: what was known, what is told afterwards, and the renewal at
/// which the App Store applies it. Instants are minutes from the call.
struct SandboxCall: CustomTestStringConvertible, Sendable {
    private typealias Story = LifecycleStory

    var testDescription: String
    /// The period that the plan knew.
    var known: (from: Int64, to: Int64)
    /// What is signed later than that: a type or, for the answer and for a status, none.
    var told: [(type: String?, at: Int64, from: Int64, to: Int64)]
    var isIncrease = true
    var due: Int64

    static func at(_ minutes: Int64) -> Instant { Story.sent.advanced(by: minutes * 60_000) }

    /// R1, and of a decrease R0, by the length of the known period.
    var planned: Int64 {
        let length = known.to - known.from
        var renewal = known.to
        while renewal < 0 { renewal += length }
        return isIncrease ? renewal + length : renewal
    }

    var change: TrackedChange {
        var change = Story.change(to: isIncrease ? 15990 : 7990, dueAt: Self.at(planned))
        change.calledRenewalAt = Self.at(known.to)
        change.sendBy = Self.at(planned)
        return change
    }

    var statements: [SubscriptionEvent] {
        [statement("SUBSCRIBED", at: known.from, known.from, known.to)]
            + told.map { statement($0.type, at: $0.at, $0.from, $0.to) }
    }

    private func statement(
        _ type: String?, at minutes: Int64, _ from: Int64, _ to: Int64
    ) -> SubscriptionEvent {
        let isCalled = minutes > 0
        let renewing =
            isIncrease
            ? Story.renewing(status: isCalled ? "SCHEDULED" : nil)
            : Story.renewing(price: isCalled ? 7990 : 9990)
        let isAnswer = type == nil && minutes == 1
        var event = Story.event(
            3, type, source: isAnswer ? .response : type == nil ? .status : .notification,
            charged: [Story.charged()], renewing: [renewing])
        event.key = .init(
            signedAt: Self.at(minutes),
            evidenceID: isAnswer ? Story.requestID : "\(type ?? "status") \(minutes)")
        event.transaction?.transactionID = "t\(from)"
        event.transaction?.purchasedAt = Self.at(from)
        event.transaction?.expiresAt = Self.at(to)
        event.renewal?.renewalAt = Self.at(to)
        return event
    }

    private init(
        _ name: String, known: (Int64, Int64), isIncrease: Bool = true,
        told: [(type: String?, at: Int64, from: Int64, to: Int64)], due: Int64
    ) {
        testDescription = name
        self.known = known
        self.isIncrease = isIncrease
        self.told = told
        self.due = due
    }

    static let all: [SandboxCall] = [
        .init("in step", known: (-61, -1), told: [("DID_RENEW", -1, -1, 59)], due: 119),
        .init(
            "before the end of a stretched period", known: (-63, 3),
            told: [(nil, 1, -63, 3), ("DID_RENEW", 3, 3, 63)], due: 63),
        .init("one renewal, never told", known: (-69, -3), told: [(nil, 1, -3, 57)], due: 117),
        .init(
            "two renewals, both told later", known: (-127, -61),
            told: [
                ("DID_RENEW", -61, -61, -1), ("DID_RENEW", -1, -1, 59), (nil, 1, -1, 59),
            ], due: 119),
        .init(
            "two renewals, the first told later", known: (-127, -61),
            told: [("DID_RENEW", -61, -61, -1), (nil, 1, -1, 59)], due: 119),
        .init(
            "two renewals, the second told later", known: (-127, -61),
            told: [("DID_RENEW", -1, -1, 59), (nil, 1, -1, 59)], due: 119),
        .init("two renewals, never told", known: (-127, -61), told: [(nil, 1, -1, 59)], due: 119),
        .init(
            "two renewals, and the answer is lost", known: (-127, -61),
            told: [("DID_RENEW", -1, -1, 59), (nil, 30, -1, 59)], due: 119),
        .init(
            "three renewals, and no word before the next", known: (-187, -121),
            told: [(nil, 70, 59, 119)], due: 119),
        .init(
            "two renewals before a decrease", known: (-127, -61), isIncrease: false,
            told: [(nil, 1, -1, 59)], due: 59),
        .init(
            "an extension, told later", known: (-61, -1),
            told: [
                ("RENEWAL_EXTENDED", -2, -61, 5), (nil, 1, -61, 5), ("DID_RENEW", 5, 5, 65),
            ], due: 65),
        .init(
            "an extension, told by the answer", known: (-61, -1),
            told: [(nil, 1, -61, 5), ("DID_RENEW", 5, 5, 65)], due: 65),
    ]
}
