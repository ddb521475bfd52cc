import Foundation
package import HTTP
package import JOSE
package import ServiceKit

/// The store without sockets, for a simulation in one process. Requests go in and notifications come out, the caller
/// owns the clock, and the store's true state can be read at the end.
package struct SimulatedStore: Sendable {
    package static let bundleID = "com.example.stream"
    package static let appAppleID: Int64 = 7
    package static let keyID = "KEY"
    package static let issuerID = "issuer"

    package let roots: TrustedRoots
    package let apiKey: ES256PrivateKey
    package let productID: String
    /// The latest signed payload of each subscription at the start.
    package let firstPayloads: [String]
    /// The `appAccountToken` of each customer.
    package let customers: Set<String>
    private let keeper: StoreKeeper
    private let routes: Routes

    /// One notification that is due.
    package struct Delivery: Sendable {
        package let index: Int
        package let uuid: String
        package let payload: String
    }

    /// What a simulated world is made of.
    package struct World: Sendable {
        package var seed: UInt64
        package var subscriptions: Int
        package var start: Int64
        package var until: Int64

        package init(seed: UInt64, subscriptions: Int, start: Int64, until: Int64) {
            self.seed = seed
            self.subscriptions = subscriptions
            self.start = start
            self.until = until
        }
    }

    /// - Parameter folder: Holds its keys and journal; the caller removes it.
    package init(_ world: World, folder: String, clock: any WallClock) throws {
        let storeFolder = try StoreFolder(folder)
        let keys = try StoreKeys.loadOrMake(in: storeFolder)
        let statements = Statements(
            identity: .init(
                bundleID: Self.bundleID, appAppleID: Self.appAppleID, environment: "Production"),
            signer: try keys.authority.signer())
        var options = StoreEngine.Options(seed: world.seed, calendar: BillingCalendar())
        options.repeats = StoreEngine.Repeats.allCases[Int(world.seed % 3)]
        var lives = SimulatedLives(seed: world.seed, start: world.start, until: world.until)
            .all(world.subscriptions)
        var payloads: [String] = []
        for index in lives.indices {
            let event = StoreEngine.latestEvent(of: &lives[index], options: options)
            payloads.append(try statements.signed(event))
        }
        let file = StoreFile(
            identity: statements.identity, issuerID: Self.issuerID, keyID: Self.keyID,
            options: options, start: world.start, subscriptions: lives)
        keeper = try StoreKeeper(store: file, folder: storeFolder, clock: clock, realSecond: 1000)
        routes = Routes(
            keeper: keeper,
            courier: Courier(
                keeper: keeper, statements: statements,
                client: try HTTPClient(baseURL: "http://127.0.0.1:1"), target: "/", isFast: false,
                log: Log(component: "store", level: .error, sink: { _ in })),
            statements: statements,
            bearer: BearerCheck(
                key: keys.apiKey.publicKey, keyID: Self.keyID, issuerID: Self.issuerID,
                bundleID: Self.bundleID, leewaySeconds: 60),
            clockSpecification: nil, log: Log(component: "store", level: .error, sink: { _ in }))
        roots = try keys.authority.trustedRoots()
        apiKey = keys.apiKey
        productID = statements.identity.productID
        firstPayloads = payloads
        customers = Set(lives.map { $0.appAccountToken.lowercased() })
    }

    package func handle(_ request: HTTPRequest) async -> HTTPResponse {
        await routes.handle(request)
    }

    /// Lets everything happen up to the clock's instant.
    package func tick() async throws { _ = try await keeper.tick() }

    /// The next notification that is due. It is in flight until `settle`.
    package func nextDelivery() async throws -> Delivery? {
        guard let delivery = await keeper.nextDelivery() else { return nil }
        return Delivery(
            index: delivery.index, uuid: delivery.event.notificationUUID,
            payload: try routes.statements.signed(delivery.event))
    }

    /// A notification that was not accepted is retried by Apple's schedule.
    package func settle(_ delivery: Delivery, isTaken: Bool) async throws {
        try await keeper.delivered(delivery.index, isTaken ? .success : .unsuccessful)
    }

    /// The store's true state as JSON, for an auditor.
    package func truth() async throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys]
        let lives = await keeper.engine.subscriptions.values.sorted {
            $0.originalTransactionID < $1.originalTransactionID
        }
        let truth = StoreTruth(
            now: await keeper.engine.now, subscriptions: lives.map(StoreTruth.Subscription.init),
            calls: await keeper.callRecords(),
            events: await keeper.eventRecords())
        return String(decoding: try encoder.encode(truth), as: UTF8.self)
    }
}

/// The store's state in its own terms, independent of the product's.
private struct StoreTruth: Encodable {
    struct Charge: Encodable {
        var transaction: String
        var sku: String
        var price: Int64
        var refunded: Int64
        var currency: String
        var from: Int64
        var until: Int64
    }

    struct Subscription: Encodable {
        var id: String
        var customer: String
        var status: Int
        var autoRenews: Bool
        var storefront: String
        /// A family member pays nothing.
        var isFamilyShared: Bool
        var expiresAt: Int64
        var isBilledOrWaiting: Bool
        var extendedAt: [Int64]
        /// Of the running period.
        var items: [ItemRecord]
        /// The SKU under which each item renews, or would renew.
        var renewalNames: [String]
        /// The SKUs under which the renewing items renew.
        var renewing: [String]
        var charges: [Charge]

        init(_ life: StoreSubscription) {
            id = life.id
            customer = life.appAccountToken
            status = life.status.rawValue
            autoRenews = life.autoRenews
            storefront = life.storefront
            isFamilyShared = life.isFamilyShared ?? false
            expiresAt = life.expiresAt
            isBilledOrWaiting = life.isBilledOrWaiting
            extendedAt = life.extendedAt ?? []
            items = life.items.map(ItemRecord.init)
            renewalNames = life.items.map(\.renewalSKU)
            renewing = life.renewingItems.map(\.renewalSKU)
            let numbers = (life.past ?? []).map { life.originalTransactionID + Int64($0.number) }
            charges = (numbers + [life.transactionID]).compactMap {
                life.asOf(transaction: $0)
            }.flatMap { period in
                period.items.map { item in
                    Charge(
                        transaction: String(period.transactionID), sku: item.sku,
                        price: item.chargedPrice,
                        refunded: item.refund?.amount
                            ?? (period.revokedAt == nil ? 0 : item.chargedPrice),
                        currency: period.currency, from: period.purchasedAt,
                        until: period.expiresAt)
                }
            }
        }
    }

    var now: Int64
    var subscriptions: [Subscription]
    var calls: [CallRecord]
    /// All events for which a notification was made, whether or not it was delivered.
    var events: [EventRecord]
}
