import JOSE

/// A notification of the size and shape of a real one: 20 KB, three times the same chain of 4.3 KB,
/// ids, tokens and signatures that differ. Signed by nobody.
struct RealisticPayload {
    /// 2026-06-01T00:00:00Z.
    static let signedAt: Int64 = 1_780_272_000_000
    static let header: String = {
        var random = SplitMix(state: 1)
        let certificates = [1054, 753, 594].map { size in
            "\"" + Base64.encode((0..<size).map { _ in random.byte() }) + "\""
        }
        let json = "{\"alg\":\"ES256\",\"x5c\":[\(certificates.joined(separator: ","))]}"
        return Base64URL.encode(Array(json.utf8))
    }()

    let uuid: String
    let subscription: String
    let text: String
    /// What a price call of it would be answered.
    let answer: String

    init(_ number: Int) {
        var random = SplitMix(state: UInt64(number) &* 7919 &+ 3)
        uuid = random.uuid()
        subscription = "20000000\(random.digits(8))"
        let token = random.uuid()
        let transaction = """
            {"transactionId":"20000010\(random.digits(8))","originalTransactionId":"\(subscription)",\
            "webOrderLineItemId":"20000000\(random.digits(8))","bundleId":"com.example.app",\
            "productId":"com.example.app.subscription","subscriptionGroupIdentifier":"21000001",\
            "purchaseDate":\(Self.signedAt - 5000),"originalPurchaseDate":\(Self.signedAt - 86_400_000),\
            "expiresDate":\(Self.signedAt + 2_592_000_000),"quantity":1,\
            "type":"Auto-Renewable Subscription","appAccountToken":"\(token)",\
            "inAppOwnershipType":"PURCHASED","signedDate":\(Self.signedAt),"environment":"Production",\
            "transactionReason":"RENEWAL","storefront":"USA","storefrontId":"143441","price":12980,\
            "currency":"USD","appTransactionId":"70420000\(random.digits(8))",\
            "advancedCommerceInfo":{"descriptors":{"displayName":"Streaming","description":"All channels"},\
            "estimatedTax":1090,"taxExclusivePrice":11890,"taxCode":"C003-00-1","taxRate":"0.0925",\
            "period":"P1M","requestReferenceId":"\(random.uuid())","items":[{"SKU":"AD_FREE_1M",\
            "displayName":"Without advertising","description":"No advertising in any programme",\
            "price":9990},{"SKU":"EXTRA_1M","displayName":"Sports","description":"All leagues, live",\
            "price":2990,"offer":{"price":1990,"period":"P1M","periodCount":3,"reason":"ACQUISITION"}}]}}
            """
        let renewal = """
            {"originalTransactionId":"\(subscription)","autoRenewProductId":"com.example.app.subscription",\
            "productId":"com.example.app.subscription","autoRenewStatus":1,"renewalPrice":15980,\
            "currency":"USD","signedDate":\(Self.signedAt),"environment":"Production",\
            "recentSubscriptionStartDate":\(Self.signedAt - 86_400_000),\
            "renewalDate":\(Self.signedAt + 2_592_000_000),"appTransactionId":"70420000\(random.digits(8))",\
            "appAccountToken":"\(token)","isInBillingRetryPeriod":false,"advancedCommerceInfo":{\
            "consistencyToken":"1.\(random.digits(5)).\(random.digits(8))","descriptors":{\
            "displayName":"Streaming","description":"All channels"},"period":"P1M",\
            "requestReferenceId":"\(random.uuid())","taxCode":"C003-00-1","items":[{"SKU":"AD_FREE_1M",\
            "displayName":"Without advertising","description":"No advertising in any programme",\
            "price":12990,"priceIncreaseInfo":{"status":"PENDING","price":12990,"dependentSKUs":["EXTRA_1M"]}\
            },{"SKU":"EXTRA_1M","displayName":"Sports","description":"All leagues, live","price":2990}]}}
            """
        let signed = (Self.jws(transaction, &random), Self.jws(renewal, &random))
        answer = #"{"signedRenewalInfo":"\#(signed.1)","signedTransactionInfo":"\#(signed.0)"}"#
        let outer = """
            {"notificationType":"PRICE_INCREASE","subtype":"PENDING","notificationUUID":"\(uuid)","data":{\
            "appAppleId":1234567890,"bundleId":"com.example.app","bundleVersion":"1.2.3",\
            "environment":"Production","signedTransactionInfo":"\(signed.0)",\
            "signedRenewalInfo":"\(signed.1)","status":1},"version":"2.0",\
            "signedDate":\(Self.signedAt)}
            """
        text = Self.jws(outer, &random)
    }

    private static func jws(_ payload: String, _ random: inout SplitMix) -> String {
        let signature = (0..<64).map { _ in random.byte() }
        return "\(header).\(Base64URL.encode(Array(payload.utf8))).\(Base64URL.encode(signature))"
    }
}

private struct SplitMix {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = (state ^ (state >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    mutating func byte() -> UInt8 { UInt8(truncatingIfNeeded: next() >> 56) }

    mutating func digits(_ count: Int) -> String {
        String((0..<count).map { _ in Character(String(next() % 10)) })
    }

    mutating func uuid() -> String {
        let digits = Array("0123456789abcdef")
        let pieces = [8, 4, 4, 4, 12].map { count in
            String((0..<count).map { _ in digits[Int(next() % 16)] })
        }
        return pieces.joined(separator: "-")
    }
}
