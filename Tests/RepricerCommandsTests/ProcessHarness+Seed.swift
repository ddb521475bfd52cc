import Foundation
import HTTP
import JOSE
import ServiceKit
import TestSupport
import Testing

@testable import SandboxStore

extension ProcessHarness {
    /// What the store holds when it opens: all have just paid.
    struct Seed: Sendable {
        /// Seconds.
        var month = 3
        var subscriptions = [
            Subscription(parent, ["A", "B"]), Subscription(other, ["FAR"], .year),
        ]
        /// Of the subscriptions that a mass extension reaches, how many in a hundred fail.
        var massFailurePercent = 0

        static let issuer = "57246542-96fe-1a63-e053-0824d011072a"
        static let keyID = "ABCDEFGHIJ"

        func file(now: Int64) throws -> StoreFile {
            var options = StoreEngine.Options(
                seed: 7, calendar: BillingCalendar(shortMonth: Int64(month) * 1000), renewalsMax: 12
            )
            options.massFailurePercent = massFailurePercent
            return StoreFile(
                identity: StoreIdentity(
                    bundleID: "com.example.stream", appAppleID: 7, environment: "Sandbox"),
                issuerID: Self.issuer, keyID: Self.keyID, options: options, start: now,
                subscriptions: try subscriptions.map { try $0.held(options.calendar, now: now) })
        }
    }

    /// Items at 4.99.
    struct Subscription: Sendable {
        var id: String
        var skus: [String]
        var period: BillingPeriod
        /// Those with the same digit are one customer's.
        var customer: Int
        var answer: SubscriberPlan.Answer

        init(
            _ id: String, _ skus: [String], _ period: BillingPeriod = .month, customer: Int = 0,
            answer: SubscriberPlan.Answer = .ignores
        ) {
            self.id = id
            self.skus = skus
            self.period = period
            self.customer = customer
            self.answer = answer
        }

        func held(_ calendar: BillingCalendar, now: Int64) throws -> StoreSubscription {
            let day = Milliseconds.date(of: now).day
            var subscription = StoreSubscription(
                originalTransactionID: try #require(Int64(id)), storefront: "USA",
                currency: "USD", period: period,
                appAccountToken: "7c80bb86-f892-4b21-a919-1357811d6c4\(customer)",
                purchaseReferenceID: "932c6903-0ab8-4469-9f21-015f6fab013c", startedAt: now,
                anchorDay: day, purchasedAt: now,
                expiresAt: calendar.end(of: period, from: now, anchorDay: day),
                items: skus.map {
                    StoreItem(sku: $0, displayName: $0, description: $0, price: 4990)
                }, lastSignedAt: now)
            subscription.plan.answer = answer
            return subscription
        }
    }

    /// The store's `number`th subscription, from 1.
    static func id(_ number: Int) -> String { String(2_000_000_000_000_000 + number * 10_000) }

    /// What somebody does in the app; what the store answers otherwise is kept in `unexpectedAnswers`.
    func act(
        _ id: String, _ action: String, _ more: String = "", answers status: Int = 200
    ) async throws {
        let body = "{\"subscription\":\"\(id)\",\"action\":\"\(action)\"\(more)}"
        let answer = try await post("/sandbox/act", body)
        let text = String(decoding: answer?.body ?? [], as: UTF8.self)
        if answer?.status != status { unexpectedAnswers.append("\(body): \(text)") }
    }

    /// Tells a story in which the months of the store must not pass while people and calls do their part. A machine that
    /// stands still for so long tells another one, which the teller notices and says `false`: then it is told anew, with
    /// longer months.
    static func tell(
        months: [Int], _ story: @Sendable (_ month: Int) async throws -> Bool
    ) async throws {
        guard let first = months.first else { return }
        if try await story(first) { return }
        for month in months.dropFirst() {
            if try await TestDatabase.withAnother({ try await story(month) }) { return }
        }
        Issue.record("the machine stood still each time, in months of \(months) seconds")
    }

    /// A call of another program that has our key.
    func callAsAnother(_ target: String, _ body: String) async throws {
        let pem = try String(contentsOfFile: "\(scratch.path)/store/key.p8", encoding: .utf8)
        let until = SystemClock().nowMilliseconds() / 1000 + 300
        let claims =
            "{\"iss\":\"\(Seed.issuer)\",\"aud\":\"appstoreconnect-v1\","
            + "\"bid\":\"com.example.stream\",\"exp\":\(until)}"
        let header = "{\"alg\":\"ES256\",\"kid\":\"\(Seed.keyID)\",\"typ\":\"JWT\"}"
        let token = try signCompactJWS(
            header: Array(header.utf8), payload: Array(claims.utf8),
            key: try ES256PrivateKey(pem: pem))
        let answer = try await post(target, body, token: "Bearer \(token)")
        #expect(answer?.status == 200)
    }

    func post(_ target: String, _ body: String, token: String? = nil) async throws -> HTTPResponse?
    {
        var headers = HTTPHeaders([("Content-Type", "application/json")])
        headers["Authorization"] = token
        return try await client?.send(
            HTTPRequest(method: "POST", target: target, headers: headers, body: Array(body.utf8)))
    }
}
