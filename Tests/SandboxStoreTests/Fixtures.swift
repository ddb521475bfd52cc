import JOSE
import ServiceKit

@testable import SandboxStore

/// Instants from their text, subscriptions and engines for the scenarios.
enum Fixture {
    static func instant(_ text: String) -> Int64 {
        guard let value = RFC3339.parse(text.contains("T") ? text : text + "T00:00:00Z") else {
            preconditionFailure("\(text) is no instant")
        }
        return value
    }

    static let id: Int64 = 2_000_000_000_010_000
    static var idText: String { String(id) }

    static func item(_ sku: String, _ price: Int64) -> StoreItem {
        StoreItem(sku: sku, displayName: sku, description: sku, price: price)
    }

    static func subscription(
        _ items: [StoreItem] = [item("A", 9990), item("B", 4990)],
        period: BillingPeriod = .month, storefront: String = "USA", currency: String = "USD",
        purchased: String = "2026-01-10", anchorDay: Int? = nil
    ) -> StoreSubscription {
        let purchasedAt = instant(purchased)
        let day = anchorDay ?? Milliseconds.date(of: purchasedAt).day
        return StoreSubscription(
            originalTransactionID: id, storefront: storefront, currency: currency,
            period: period, appAccountToken: "7c80bb86-f892-4b21-a919-1357811d6c4f",
            purchaseReferenceID: "932c6903-0ab8-4469-9f21-015f6fab013c", startedAt: purchasedAt,
            anchorDay: day, purchasedAt: purchasedAt,
            expiresAt: BillingCalendar().end(
                of: period, from: purchasedAt, anchorDay: day),
            items: items, lastSignedAt: purchasedAt)
    }

    static func engine(
        _ subscription: StoreSubscription, now: String = "2026-01-12", shortMonth: Int64? = nil
    ) -> StoreEngine {
        StoreEngine(
            options: .init(seed: 7, calendar: BillingCalendar(shortMonth: shortMonth)),
            now: instant(now), subscriptions: [subscription])
    }

    static func body(
        _ items: String, info: String? = nil, more: String = "", reference: Int = 1
    ) -> [UInt8] {
        let number = String(reference)
        let padded = String(repeating: "0", count: 12 - number.count) + number
        let given =
            info ?? "{\"requestReferenceId\":\"00000000-0000-4000-8000-\(padded)\"}"
        return Array("{\"requestInfo\":\(given),\"items\":\(items)\(more)}".utf8)
    }

    static func request(
        _ sku: String, _ price: Int64, dependents: [String] = [], reference: Int = 1
    ) throws -> ChangePriceRequest {
        let list = dependents.map { "\"\($0)\"" }.joined(separator: ",")
        return try ChangePriceRequest(
            body(
                "[{\"SKU\":\"\(sku)\",\"price\":\(price),\"dependentSKUs\":[\(list)]}]",
                reference: reference))
    }
}

extension StoreEngine {
    /// The notifications until an instant, each as `TYPE/SUBTYPE day`.
    mutating func story(until text: String) -> [String] {
        advance(to: Fixture.instant(text)).map(\.line)
    }

    mutating func change(
        _ sku: String, to price: Int64, dependents: [String] = [], reference: Int = 1
    ) throws -> StoreSubscription {
        let request = try Fixture.request(sku, price, dependents: dependents, reference: reference)
        let answer = try changePrice(transaction: Fixture.idText, request: request)
        return answer.subscription
    }

    var only: StoreSubscription {
        guard let found = subscriptions[Fixture.id] else { preconditionFailure("it was put in") }
        return found
    }
}

extension StoreEvent {
    var line: String {
        let name = subtype.map { "\(kind.rawValue)/\($0.rawValue)" } ?? kind.rawValue
        return "\(name) \(Milliseconds.date(of: signedAt).text)"
    }
}

extension JWSVerifier {
    /// The payload of `jws`, once everything about it is proved.
    func payload(of jws: String, at time: Int64) throws -> [UInt8] {
        let signed = try open(jws)
        try signed.check(validAt: time)
        return signed.bytes
    }
}
