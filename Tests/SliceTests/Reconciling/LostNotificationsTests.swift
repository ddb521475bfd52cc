import AppStore
import Calls
import HTTP
import JOSE
import Notifications
import Postgres
import Pricing
import Reconciliation
import ServiceKit
import TestSupport
import Testing

@testable import SandboxStore

/// The simulated App Store over TLS, all of whose notifications are lost; only its history has them.
@Suite(.database) struct LostNotificationsTests {
    private static let firstID: Int64 = 2_000_000_000_010_000
    private static let subscribers: Int64 = 6

    @Test func changes_whoseNotificationsAreAllLost_endByReconcilingAlone() async throws {
        let harness = try await DeliveryHarness.make()
        let store = try await LossyStore.open(for: harness, subscriptions: Self.subscriptions())
        defer { store.close() }
        let intake = StoreIntake(harness, store.verifier)
        for payload in store.firstPayloads { _ = await intake.take(payload) }
        let projector = Projector(pool: harness.service, log: .silent, metrics: Metrics())
        while try await projector.foldOnce() > 0 {}
        let prices: [Int64] = [10990, 19990]
        try await harness.submitAndApprove(
            (0..<Self.subscribers).map { number in
                DeliveryHarness.row(
                    "\(Self.firstID + number * 10_000)", to: prices[Int(number % 2)],
                    line: Int(number) + 2)
            })
        try await harness.deliver(harness.scheduler(calls: LiveStoreCalls(client: store.client)))
        #expect(try await harness.changes().allSatisfy { $0.hasPrefix("A scheduled") })

        harness.clock.advance(by: .seconds(75 * 86_400))
        _ = try await store.keeper.tick()
        let reconciler = { (intake: any HistoryIntake) in
            harness.reconciler(
                store.client, intake, store: LiveStoreCalls(client: store.client))
        }
        let torn = try #require(try await reconciler(TearingIntake(intake, after: 10)).runOnce())
        let whole = try #require(try await reconciler(intake).runOnce())
        let again = try #require(try await reconciler(intake).runOnce())

        #expect(torn.failure != nil)
        #expect(torn.summary.history.new > 0)
        #expect(whole.failure == nil, "\(String(describing: whole.failure))")
        #expect(whole.summary.history.new > 0)
        #expect([again.summary.history.new, again.summary.checks.drifted] == [0, 0])
        let found = try await harness.changes()
        let expected = await store.ends(of: Self.subscribers, from: Self.firstID, prices)
        #expect(found.count == Int(Self.subscribers))
        for (change, end) in zip(found, expected) {
            #expect(change.hasPrefix("A \(end)"), "\(change) is not \(end)")
        }
        await harness.close()
    }

    private static func subscriptions() -> [StoreSubscription] {
        let purchasedAt = DeliveryHarness.start.milliseconds - 10 * 86_400_000
        return (0..<subscribers).map { number in
            StoreSubscription(
                originalTransactionID: firstID + number * 10_000, storefront: "USA",
                currency: "USD", period: .month,
                appAccountToken: "7c80bb86-f892-4b21-a919-1357811d6c\(number + 10)",
                purchaseReferenceID: "932c6903-0ab8-4469-9f21-015f6fab013c",
                startedAt: purchasedAt, anchorDay: Milliseconds.date(of: purchasedAt).day,
                purchasedAt: purchasedAt,
                expiresAt: BillingCalendar().end(
                    of: .month, from: purchasedAt,
                    anchorDay: Milliseconds.date(of: purchasedAt).day),
                items: ["A", "B"].map {
                    StoreItem(sku: $0, displayName: $0, description: $0, price: 9990)
                }, lastSignedAt: purchasedAt)
        }
    }
}

/// The way in of a receiver, without its HTTP.
struct StoreIntake: HistoryIntake {
    let intake: NotificationIntake

    init(_ harness: DeliveryHarness, _ verifier: JWSVerifier) {
        intake = NotificationIntake(
            check: appStoreCheck(
                NotificationVerifier(
                    verifier: verifier, bundleID: "com.example.stream", appAppleID: 7,
                    environment: .production)),
            clock: harness.clock, metrics: Metrics(),
            store: NotificationStore(pool: harness.service))
    }

    func take(_ signedPayload: String) async -> IntakeOutcome { await intake.take(signedPayload) }
}

/// The database goes away after so many payloads.
private actor TearingIntake: HistoryIntake {
    private let intake: StoreIntake
    private var left: Int

    init(_ intake: StoreIntake, after count: Int) {
        self.intake = intake
        left = count
    }

    func take(_ signedPayload: String) async -> IntakeOutcome {
        guard left > 0 else { return .unavailable("away") }
        left -= 1
        return await intake.take(signedPayload)
    }
}

struct LossyStore: Sendable {
    let keeper: StoreKeeper
    let client: AppStoreClient
    let verifier: JWSVerifier
    let firstPayloads: [String]
    private let folder: ScratchFolder
    private let running: Task<Void, any Error>

    static func open(
        for harness: DeliveryHarness, subscriptions: [StoreSubscription]
    ) async throws -> LossyStore {
        try await open(clock: harness.clock, subscriptions: subscriptions)
    }

    static func open(
        clock: ManualClock, subscriptions: [StoreSubscription]
    ) async throws -> LossyStore {
        let folder = try ScratchFolder()
        let storeFolder = try StoreFolder(folder.path)
        let keys = try StoreKeys.loadOrMake(in: storeFolder)
        var known = subscriptions
        let statements = Statements(
            identity: .init(
                bundleID: "com.example.stream", appAppleID: 7, environment: "Production"),
            signer: try keys.authority.signer())
        let options = StoreEngine.Options(seed: 7, calendar: BillingCalendar())
        var payloads: [String] = []
        for index in known.indices {
            let event = StoreEngine.latestEvent(of: &known[index], options: options)
            payloads.append(try statements.signed(event))
        }
        let file = StoreFile(
            identity: statements.identity, issuerID: "issuer", keyID: "KEY", options: options,
            start: DeliveryHarness.start.milliseconds, subscriptions: known)
        let keeper = try StoreKeeper(
            store: file, folder: storeFolder, clock: clock, realSecond: 1000)
        _ = await keeper.addFault(Array("{\"kind\":\"lose\",\"count\":1000000}".utf8))
        let routes = Routes(
            keeper: keeper,
            courier: Courier(
                keeper: keeper, statements: statements,
                client: try HTTPClient(baseURL: "http://127.0.0.1:1"), target: "/",
                isFast: false, log: .silent),
            statements: statements,
            bearer: BearerCheck(
                key: keys.apiKey.publicKey, keyID: "KEY", issuerID: "issuer",
                bundleID: "com.example.stream", leewaySeconds: 60),
            clockSpecification: nil, log: .silent)
        let tls = try keys.authority.serverIdentity(
            validFrom: StoreKeys.validFrom, validUntil: StoreKeys.validUntil)
        let server = try HTTPServer(
            host: "127.0.0.1", port: 0,
            tls: ServerIdentity(
                certificateChainPEM: tls.certificateChainPEM, privateKeyPEM: tls.keyPEM),
            log: .silent, handler: { await routes.handle($0) })
        let port = try server.bind()
        let verifier = try JWSVerifier(
            roots: TrustedRoots(certificatesIn: "\(folder.path)/root.pem"))
        let client = AppStoreClient(
            http: try HTTPClient(
                baseURL: "https://localhost:\(port)", extraCAFile: "\(folder.path)/tls-ca.pem"),
            token: BearerToken(
                key: keys.apiKey, keyID: "KEY", issuerID: "issuer", bundleID: "com.example.stream",
                clock: clock),
            clock: clock, verifier: verifier, bundleID: "com.example.stream",
            environment: .production)
        return LossyStore(
            keeper: keeper, client: client, verifier: verifier, firstPayloads: payloads,
            folder: folder, running: Task { try await server.run() })
    }

    func close() { running.cancel() }

    /// What became of each subscriber's item A, read from the store itself.
    func ends(of count: Int64, from first: Int64, _ prices: [Int64]) async -> [String] {
        var ends: [String] = []
        for number in 0..<count {
            let subscription = await keeper.subscription("\(first + number * 10_000)")
            let charged = subscription?.items.first { $0.sku == "A" }?.price
            let isCharged = charged == prices[Int(number % 2)]
            let isActive = subscription?.status == .active
            // One that is over, or lost the item, ended in another way, which its reason tells.
            ends.append(isCharged ? "effective" : isActive ? "declined" : "")
        }
        return ends
    }
}
