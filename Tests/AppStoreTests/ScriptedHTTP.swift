import AppStore
import Foundation
import HTTP
import JOSE
import ServiceKit
import Synchronization
import TestSupport

/// Answers with a script, the last entry for ever, and keeps what was sent.
final class ScriptedHTTP: HTTPSending {
    typealias Answer = Result<HTTPResponse, HTTPClientError>

    private let script: Mutex<[Answer]>
    private let log = Mutex<[HTTPRequest]>([])
    private let bounds = Mutex<[ContinuousClock.Instant]>([])

    init(_ answers: Answer...) {
        script = Mutex(answers)
    }

    var sent: [HTTPRequest] { log.withLock { $0 } }
    var leavingBefore: [ContinuousClock.Instant] { bounds.withLock { $0 } }

    func prepare(_ count: Int) async {}

    func send(
        _ request: HTTPRequest, leavingBefore: ContinuousClock.Instant?
    ) async throws(HTTPClientError) -> HTTPResponse {
        if let leavingBefore { bounds.withLock { $0.append(leavingBefore) } }
        log.withLock { $0.append(request) }
        let answer = script.withLock { script in
            script.count > 1 ? script.removeFirst() : script.first
        }
        guard let answer else { throw HTTPClientError(.closed, "the script is empty") }
        return try answer.get()
    }
}

extension AppStoreClient {
    static func make(
        _ http: any HTTPSending, clock: any WallClock = ManualClock(signingTime)
    ) throws -> AppStoreClient {
        let token = BearerToken(
            key: try .generate(), keyID: "KEY", issuerID: "ISSUER", bundleID: bundle, clock: clock)
        return try AppStoreClient(
            http: http, token: token, clock: clock, verifier: Fixture.verifier(), bundleID: bundle,
            environment: .sandbox)
    }
}

extension PriceChangeCall {
    /// The documentation's example.
    static func example() throws -> PriceChangeCall {
        try PriceChangeCall(
            requestReferenceID: "7c80bb86-f892-4b21-a919-1357811d6c4f", currency: "USD",
            storefront: "USA",
            items: [
                .init(
                    sku: "AD_FREE_1M", priceMilliunits: 12_990,
                    dependentSKUs: ["ADVANCED_FEATURES_1M"])
            ])
    }
}
