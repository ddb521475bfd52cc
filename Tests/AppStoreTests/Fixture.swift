import AppStore
import Foundation
import JOSE
import Pricing
import SandboxStore

/// 2026-01-05T00:00:00Z.
let signingTime: Int64 = 1_767_571_200_000
let day: Int64 = 86_400_000
let bundle = "com.example.app"
let appID: Int64 = 1_234_567_890
let subscription = "2000000012345678"

typealias JSON = [String: Any]

/// What the App Store would sign, field by field.
enum Fixture {
    static let authority = Result {
        try CertificateAuthority(validFrom: signingTime - day, validUntil: signingTime + day)
    }
    static let strangers = Result {
        try CertificateAuthority(validFrom: signingTime - day, validUntil: signingTime + day)
    }

    static func signer() throws -> JWSSigner { try authority.get().signer() }

    static func verifier() throws -> JWSVerifier {
        try JWSVerifier(roots: authority.get().trustedRoots())
    }

    static func notifications(
        _ environment: StoreEnvironment = .sandbox, appAppleID: Int64? = nil
    ) throws -> NotificationVerifier {
        try NotificationVerifier(
            verifier: verifier(), bundleID: bundle, appAppleID: appAppleID,
            environment: environment)
    }

    static func bytes(_ json: Any) throws -> [UInt8] {
        Array(try JSONSerialization.data(withJSONObject: json))
    }

    static func sign(_ json: JSON, by signer: JWSSigner? = nil) throws -> String {
        try (signer ?? Fixture.signer()).sign(bytes(json))
    }

    static func transaction(_ changes: JSON = [:]) -> JSON {
        let offer: JSON = [
            "price": 2990, "period": "P1M", "periodCount": 3, "reason": "ACQUISITION",
        ]
        let items: [JSON] = [
            ["SKU": "AD_FREE_1M", "displayName": "a", "description": "b", "price": 9990],
            ["SKU": "EXTRA_1M", "price": 3990, "offer": offer, "revocationDate": signingTime - 5],
        ]
        let info: JSON = [
            "estimatedTax": 0, "taxRate": "0", "taxCode": "C003-00-1", "period": "P1M",
            "items": items,
        ]
        let base: JSON = [
            "originalTransactionId": subscription, "transactionId": "2000000099999999",
            "bundleId": bundle, "environment": "Sandbox", "productId": "com.example.base",
            "type": "Auto-Renewable Subscription",
            "appAccountToken": "7e3fb20b-4cdb-47cc-936d-99d65f608138",
            "purchaseDate": signingTime - day, "originalPurchaseDate": signingTime - 40 * day,
            "expiresDate": signingTime + 29 * day, "signedDate": signingTime,
            "transactionReason": "RENEWAL", "storefront": "USA", "storefrontId": "143441",
            "price": 12_980, "currency": "USD", "advancedCommerceInfo": info,
        ]
        return base.merging(changes) { $1 }
    }

    static func renewal(_ changes: JSON = [:]) -> JSON {
        let increase: JSON = [
            "status": "PENDING", "price": 12_990, "dependentSKUs": ["EXTRA_1M"],
        ]
        let offer: JSON = [
            "price": 2990, "period": "P1M", "periodCount": 2, "reason": "ACQUISITION",
        ]
        let items: [JSON] = [
            ["SKU": "AD_FREE_1M", "price": 12_990, "priceIncreaseInfo": increase],
            ["SKU": "EXTRA_1M", "price": 3990, "offer": offer],
        ]
        let info: JSON = [
            "consistencyToken": "1.12345.932c6903", "period": "P1M", "items": items,
        ]
        let base: JSON = [
            "originalTransactionId": subscription, "environment": "Sandbox",
            "productId": "com.example.base", "autoRenewProductId": "com.example.base",
            "autoRenewStatus": 1, "isInBillingRetryPeriod": false, "expirationIntent": 3,
            "gracePeriodExpiresDate": signingTime + 3, "renewalDate": signingTime + 29 * day,
            "recentSubscriptionStartDate": signingTime - 40 * day, "currency": "USD",
            "appAccountToken": "7e3fb20b-4cdb-47cc-936d-99d65f608138",
            "signedDate": signingTime + 1, "advancedCommerceInfo": info,
        ]
        return base.merging(changes) { $1 }
    }

    static func data(
        transaction: JSON? = transaction(), renewal: JSON? = renewal(), _ changes: JSON = [:]
    ) throws -> JSON {
        var data: JSON = [
            "bundleId": bundle, "bundleVersion": "1", "environment": "Sandbox", "status": 1,
        ]
        data["signedTransactionInfo"] = try transaction.map { try sign($0) }
        data["signedRenewalInfo"] = try renewal.map { try sign($0) }
        return data.merging(changes) { $1 }
    }

    static func notification(_ data: JSON?, _ changes: JSON = [:]) -> JSON {
        var base: JSON = [
            "notificationType": "PRICE_INCREASE", "subtype": "PENDING", "version": "2.0",
            "notificationUUID": "002e14d5-51f5-4503-b5a8-c3a1af68eb20", "signedDate": signingTime,
        ]
        base["data"] = data
        return base.merging(changes) { $1 }
    }
}

extension NotificationVerifier {
    /// `ok`, or the error's code with its HTTP meaning.
    func verdict(_ payload: String, now: Int64 = signingTime) -> String {
        do {
            _ = try verify(signedPayload: payload, nowMilliseconds: now)
            return "ok"
        } catch {
            switch error {
            case .malformed, .otherStatement: return "400 \(error.code)"
            case .refused: return "403 \(error.code)"
            }
        }
    }
}
