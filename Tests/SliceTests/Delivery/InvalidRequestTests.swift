import AppStore
import Calls
import Dependents
import HTTP
import JOSE
import Pricing
import ServiceKit
import Synchronization
import TestSupport
import Testing

/// Stored intents that the App Store would refuse: each ends with a reason that names what is wrong, and no call of it
/// is ever made.
@Suite(.database) struct InvalidRequestTests {
    private typealias World = DeliveryWorld

    /// Counts what would be sent.
    private final class Wire: HTTPSending {
        let sent = Mutex(0)

        func send(
            _ request: HTTPRequest, leavingBefore: ContinuousClock.Instant?
        ) async throws(HTTPClientError) -> HTTPResponse {
            sent.withLock { $0 += 1 }
            return HTTPResponse(status: 500)
        }
    }

    private func calls(_ wire: Wire, _ world: World) throws -> LiveStoreCalls {
        let authority = try CertificateAuthority(
            validFrom: 1_577_836_800_000, validUntil: 2_208_988_800_000)
        return LiveStoreCalls(
            client: AppStoreClient(
                http: wire,
                token: BearerToken(
                    key: try .generate(), keyID: "KEY", issuerID: "ISSUER",
                    bundleID: "com.example.app", clock: world.clock),
                clock: world.clock,
                verifier: try JWSVerifier(roots: authority.trustedRoots()),
                bundleID: "com.example.app", environment: .production))
    }

    @Test func priceChange_whoseStorefrontIsNone_isRejectedAndNamesIt() async throws {
        let world = try await World.make()
        let wire = Wire()
        // Apple told it so; whatever it means, no call can name it.
        try await world.subscribe("1", storefront: "usa")
        try await world.submitAndApprove([World.row("1"), World.row("1", "B", line: 3)])

        try await world.deliver(try world.scheduler(calls: calls(wire, world)))

        let said =
            "rejected invalid_request: not sent: the storefront 'usa' is not three capital letters "
            + "(ISO 3166-1 alpha-3)"
        #expect(try await world.changes() == ["A \(said)", "B \(said)"])
        #expect(Set(try await world.requestStates()) == ["refused"])
        #expect(wire.sent.withLock { $0 } == 0)
        await world.close()
    }

    @Test func cancel_whoseStorefrontIsNone_isAPersonsAndNamesIt() async throws {
        let world = try await World.make()
        let wire = Wire()
        try await world.subscribe("1", items: ["A", "B"])
        try await world.subscribe("2", items: ["FAR"])
        try await world.raise(dependents: ["2/FAR"])
        try await world.tell(
            SubscriptionEvent(
                key: .init(signedAt: world.at(1), evidenceID: "moved"), source: .notification,
                originalTransactionID: "2", type: "DID_CHANGE_RENEWAL_PREF", status: 1,
                transaction: TransactionStatement(storefront: "usa")))
        world.run(to: 13)
        try await world.tellIncrease("PENDING", on: 13)
        world.run(to: 40)
        try await world.tellRenewal(items: ["B"])
        world.run(to: 41)
        let store = world.cancellingStore()
        var limits = CallEngine.Limits()
        limits.leavesWithin = .seconds(60)
        let canceller = Canceller(
            world.engine(limits), store: store, cancels: try calls(wire, world), wait: { _ in })

        try await world.run(canceller, rounds: 3)

        #expect(try await world.dependents() == ["2/FAR discrepancy"])
        #expect(
            try await world.dependentDetail()
                == "Cancel a Subscription was not sent: the storefront 'usa' is not three capital "
                + "letters (ISO 3166-1 alpha-3)")
        #expect(wire.sent.withLock { $0 } == 0)
        await world.close()
    }
}
