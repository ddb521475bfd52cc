import Foundation
import JOSE
import SandboxStore

/// Signed notifications in the App Store's shape and size (20 KB), one `{"signedPayload":"…"}` a
/// line, and the root that they are signed under.
enum PayloadFile {
    static let bundleID = "com.example.app"

    /// Writes `root.pem` and `payloads.ndjson` into `folder=`: `count=` renewals and price increases of
    /// `subscriptions=` subscriptions, each subscription's in the order of signing.
    static func make(_ options: Options) async throws {
        let folder = try options.text("folder")
        let count = try options.integer("count")
        let subscriptions = max(1, try options.integer("subscriptions", max(1, count / 5)))
        let now = Int64(Date().timeIntervalSince1970 * 1000)
        let day: Int64 = 86_400_000
        var profile = CertificateAuthority.Profile(
            validFrom: now - 30 * day, validUntil: now + 365 * day)
        profile.commentBytes = 300
        let authority = try CertificateAuthority(profile)
        try authority.rootPEM().write(
            toFile: "\(folder)/root.pem", atomically: true, encoding: .utf8)
        let maker = PayloadMaker(signer: try authority.signer())
        guard let file = fopen("\(folder)/payloads.ndjson", "we") else {
            throw BenchmarkFailure("\(folder)/payloads.ndjson: \(String(cString: strerror(errno)))")
        }
        defer { fclose(file) }
        for index in 0..<count {
            let line = try maker.line(
                index: index, subscription: index % subscriptions,
                signedAt: now - Int64(count - index))
            fputs(line, file)
        }
    }
}

/// Makes one notification after another.
private struct PayloadMaker {
    let signer: JWSSigner

    func line(index: Int, subscription: Int, signedAt: Int64) throws -> String {
        let id = "\(2_000_000_000_000_000 + Int64(subscription) * 7919)"
        let isRenewal = index % 2 == 0
        let data = """
            {"appAppleId":1234567890,"bundleId":"\(PayloadFile.bundleID)","bundleVersion":"1.4.2",\
            "environment":"Sandbox","status":1,\
            "signedTransactionInfo":"\(try sign(transaction(id, index, signedAt)))",\
            "signedRenewalInfo":"\(try sign(renewal(id, signedAt, isPending: !isRenewal)))"}
            """
        let payload = """
            {"notificationType":"\(isRenewal ? "DID_RENEW" : "PRICE_INCREASE")",\
            \(isRenewal ? "" : "\"subtype\":\"PENDING\",")\
            "notificationUUID":"\(UUID().uuidString.lowercased())","data":\(data),\
            "version":"2.0","signedDate":\(signedAt)}
            """
        return "{\"signedPayload\":\"\(try sign(payload))\"}\n"
    }

    private func sign(_ text: String) throws -> String {
        try signer.sign(Array(text.utf8))
    }

    private func transaction(_ id: String, _ index: Int, _ signedAt: Int64) -> String {
        """
        {"transactionId":"\(2_100_000_000_000_000 + Int64(index))","originalTransactionId":"\(id)",\
        "webOrderLineItemId":"\(700_000_000_000 + Int64(index))",\
        "bundleId":"\(PayloadFile.bundleID)","productId":"com.example.bundle",\
        "subscriptionGroupIdentifier":"20783010","purchaseDate":\(signedAt - 86_400_000),\
        "originalPurchaseDate":\(signedAt - 8_640_000_000),\
        "expiresDate":\(signedAt + 2_505_600_000),"quantity":1,\
        "type":"Auto-Renewable Subscription",\
        "appAccountToken":"7e3fb20b-4cdb-47cc-936d-99d65f608138",\
        "inAppOwnershipType":"PURCHASED","signedDate":\(signedAt),"environment":"Sandbox",\
        "transactionReason":"RENEWAL","storefront":"USA","storefrontId":"143441","price":14980,\
        "currency":"USD","appTransactionId":"704289572311513293",\
        "advancedCommerceInfo":{"descriptors":{"description":"News and sport in one bundle, every \
        day of the week","displayName":"Everything bundle"},"estimatedTax":0,"items":[\
        {"SKU":"NEWS_1M","description":"All news of the day without advertisements",\
        "displayName":"News without advertisements","price":9990},\
        {"SKU":"SPORT_1M","description":"Every match of the season, live and recorded",\
        "displayName":"Sport live","price":4990}],"period":"P1M",\
        "requestReferenceId":"932c6903-0ab8-4469-9f21-015f6fab013c","taxCode":"C003-00-1",\
        "taxExclusivePrice":14980,"taxRate":"0"}}
        """
    }

    private func renewal(_ id: String, _ signedAt: Int64, isPending: Bool) -> String {
        let increase =
            isPending
            ? ",\"priceIncreaseInfo\":{\"status\":\"PENDING\",\"price\":12990,"
                + "\"dependentSKUs\":[\"SPORT_1M\"]}" : ""
        return """
            {"originalTransactionId":"\(id)","autoRenewProductId":"com.example.bundle",\
            "productId":"com.example.bundle","autoRenewStatus":1,"renewalPrice":14980,\
            "currency":"USD","signedDate":\(signedAt),"environment":"Sandbox",\
            "recentSubscriptionStartDate":\(signedAt - 8_640_000_000),\
            "renewalDate":\(signedAt + 2_505_600_000),\
            "appTransactionId":"704289572311513293",\
            "appAccountToken":"7e3fb20b-4cdb-47cc-936d-99d65f608138",\
            "advancedCommerceInfo":{"consistencyToken":"1.\(id).932c6903-0ab8-4469-9f21-015f6fab013c",\
            "descriptors":{"description":"News and sport in one bundle, every day of the week",\
            "displayName":"Everything bundle"},"items":[{"SKU":"NEWS_1M",\
            "description":"All news of the day without advertisements",\
            "displayName":"News without advertisements",\
            "price":\(isPending ? 12_990 : 9990)\(increase)},\
            {"SKU":"SPORT_1M","description":"Every match of the season, live and recorded",\
            "displayName":"Sport live","price":4990}],"period":"P1M",\
            "requestReferenceId":"932c6903-0ab8-4469-9f21-015f6fab013c","taxCode":"C003-00-1"}}
            """
    }
}
