import AppStore
import Calls
import Dependents
import HTTP
import ServiceKit
import Synchronization
import TestSupport
import Testing

@testable import Pricing

/// Stored intents that the App Store would refuse: each ends with a reason that names what is wrong, and no call of it
/// is ever made.
@Suite(.database) struct InvalidRequestTests {
    private typealias Harness = DeliveryHarness

    /// Counts what would be sent.
    private final class Wire: HTTPSending {
        let sent = Mutex(0)

        func prepare(_ count: Int) async {}

        func send(
            _ request: HTTPRequest, leavingBefore: ContinuousClock.Instant?
        ) async throws(HTTPClientError) -> HTTPResponse {
            sent.withLock { $0 += 1 }
            return HTTPResponse(status: 500)
        }
    }

    @Test func priceChange_whoseStorefrontIsNone_isRejectedAndNamesIt() async throws {
        let harness = try await Harness.make()
        let wire = Wire()
        // Apple told it so; whatever it means, no call can name it.
        try await harness.subscribe("1", storefront: "usa")
        try await harness.submitAndApprove([
            Harness.row("1"), Harness.row("1", "B", line: 3),
        ])

        try await harness.deliver(try harness.scheduler(calls: harness.liveCalls(wire)))

        let said =
            "rejected invalid_request: not sent: the storefront 'usa' is not three capital letters "
            + "(ISO 3166-1 alpha-3)"
        #expect(try await harness.changes() == ["A \(said)", "B \(said)"])
        #expect(Set(try await harness.requestStates()) == ["refused"])
        #expect(wire.sent.withLock { $0 } == 0)
        await harness.close()
    }

    @Test func cancel_whoseStorefrontIsNone_isAPersonsAndNamesIt() async throws {
        let harness = try await Harness.make()
        let wire = Wire()
        try await harness.subscribe("1", items: ["A", "B"])
        try await harness.subscribe("2", items: ["FAR"])
        try await harness.raise(dependents: ["2/FAR"])
        try await harness.tell(
            SubscriptionEvent(
                key: .init(signedAt: harness.at(1), evidenceID: "moved"), source: .notification,
                originalTransactionID: "2", type: "DID_CHANGE_RENEWAL_PREF", status: 1,
                transaction: TransactionStatement(storefront: "usa")))
        harness.run(to: 13)
        try await harness.tellIncrease("PENDING", on: 13)
        harness.run(to: 40)
        try await harness.tellRenewal(items: ["B"])
        harness.run(to: 41)
        let store = harness.cancellingStore()
        var limits = CallEngine.Limits()
        limits.leavesWithin = .seconds(60)
        let canceller = Canceller(
            harness.engine(limits), store: store, cancels: try harness.liveCalls(wire),
            wait: { _ in })

        try await harness.run(canceller, rounds: 3)

        #expect(try await harness.dependents() == ["2/FAR discrepancy"])
        #expect(
            try await harness.dependentDetail()
                == "Cancel a Subscription was not sent: the storefront 'usa' is not three capital "
                + "letters (ISO 3166-1 alpha-3)")
        #expect(wire.sent.withLock { $0 } == 0)
        await harness.close()
    }
}
