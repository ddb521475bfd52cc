import AppStore
import Testing

@testable import Pricing

@Suite struct LegacyNotificationTests {
    static let secret = "0123456789abcdef0123456789abcdef"
    static let receivedAt = Instant(milliseconds: 1_780_272_000_000)
    static let changedAt: Int64 = 1_780_200_000_000
    static let purchasedAt: Int64 = 1_780_100_000_000

    /// The current layout, with everything that a fact could be made of.
    static func body(_ type: String, password: String = secret, extra: String = "") -> [UInt8] {
        Array(
            """
            {"notification_type":"\(type)","password":"\(password)","environment":"Sandbox",
            "bid":"com.example.app","bvrs":"1","original_transaction_id":2000000012345678,
            "auto_renew_status":"false","auto_renew_status_change_date_ms":"\(changedAt)",
            "auto_renew_product_id":"com.example.bundle"\(extra),
            "unified_receipt":{"environment":"Sandbox","status":0,"latest_receipt":"\(secret)AAAA",
            "latest_receipt_info":[
            {"original_transaction_id":"2000000012345678","purchase_date_ms":"\(purchasedAt)",
            "expires_date_ms":"1782700000000"},
            {"original_transaction_id":"2000000012345678","purchase_date_ms":"1770000000000",
            "expires_date_ms":"1772600000000"},
            {"original_transaction_id":"1","purchase_date_ms":"1780271000000",
            "expires_date_ms":"1999999999999"}],
            "pending_renewal_info":[{"original_transaction_id":"2000000012345678",
            "auto_renew_status":"0","is_in_billing_retry_period":"1","price_consent_status":"1",
            "grace_period_expires_date_ms":"1780500000000","expiration_intent":"3"}]}}
            """.utf8)
    }

    static let retry = LegacyStatement(
        isInBillingRetry: true,
        gracePeriodExpiresAt: Instant(milliseconds: 1_780_500_000_000))
    static let renewed = LegacyStatement(
        isInBillingRetry: true,
        gracePeriodExpiresAt: Instant(milliseconds: 1_780_500_000_000),
        expiresAt: Instant(milliseconds: 1_782_700_000_000))

    @Test(
        arguments: [
            ("CANCEL", nil), ("CONSUMPTION_REQUEST", nil), ("DID_CHANGE_RENEWAL_PREF", nil),
            ("DID_CHANGE_RENEWAL_STATUS", LegacyStatement(autoRenews: false)),
            ("DID_FAIL_TO_RENEW", retry), ("DID_RECOVER", renewed), ("DID_RENEW", renewed),
            ("INITIAL_BUY", renewed), ("INTERACTIVE_RENEWAL", renewed), ("RENEWAL", renewed),
            ("PRICE_INCREASE_CONSENT", nil), ("REFUND", nil), ("REVOKE", nil), ("NEW_TYPE", nil),
        ] as [(String, LegacyStatement?)])
    func event_ofEveryType_tellsOnlyWhatTheTableAllows(
        _ type: String, _ told: LegacyStatement?
    ) throws {
        let notification = try LegacyNotification(Self.body(type))

        let event = notification.event(id: "v1:x", receivedAt: Self.receivedAt)

        #expect(notification.originalTransactionID == "2000000012345678")
        #expect(event?.legacy == told)
        #expect(event?.transaction == nil && event?.renewal == nil && event?.status == nil)
        #expect((event?.key.signedAt.milliseconds ?? Self.changedAt) == Self.changedAt)
        #expect((notification.kind == nil) == (type == "NEW_TYPE"))
    }

    @Test func types_always_areAllInTheTest() {
        #expect(LegacyType.allCases.count == 13)
    }

    @Test func event_ofAnInstantInTheFuture_isNotLaterThanItsArrival() throws {
        let early = Instant(milliseconds: Self.changedAt - 1)
        let notification = try LegacyNotification(Self.body("DID_CHANGE_RENEWAL_STATUS"))

        #expect(notification.event(id: "v1:x", receivedAt: early)?.key.signedAt == early)
    }

    @Test func redacted_always_lacksTheSecretAndNothingElse() throws {
        let notification = try LegacyNotification(Self.body("DID_RENEW"))

        let text = notification.redacted()

        #expect(!text.contains(Self.secret))
        #expect(text.contains(#""password":"[shared secret]""#))
        let back = text.replacing(LegacyNotification.redaction, with: Self.secret)
        #expect(Array(back.utf8) == Self.body("DID_RENEW"))
        let event = LegacyNotification.storedEvent(text, id: "v1:x", receivedAt: Self.receivedAt)
        #expect(event == notification.event(id: "v1:x", receivedAt: Self.receivedAt))
        #expect(
            LegacyNotification.storedEvent(text, id: "x", receivedAt: Self.receivedAt) == nil)
    }

    @Test func id_ofTheSameNotification_isTheSameWhateverTheSecret() throws {
        let one = try LegacyNotification(Self.body("DID_RENEW")).redacted()
        let other = try LegacyNotification(
            Self.body("DID_RENEW").map { $0 }
        ).redacted()
        let another = try LegacyNotification(Self.body("DID_RECOVER")).redacted()

        #expect(LegacyNotification.id(ofRedacted: one) == LegacyNotification.id(ofRedacted: other))
        #expect(
            LegacyNotification.id(ofRedacted: one) != LegacyNotification.id(ofRedacted: another))
        #expect(LegacyNotification.id(ofRedacted: one).hasPrefix("v1:"))
    }

    @Test(arguments: [
        ("", "not_json"), ("[]", "not_json"), ("{", "not_json"), ("{}", "no_notification_type"),
        (#"{"notification_type":7}"#, "no_notification_type"),
        (#"{"notification_type":"CANCEL","password":"a","password":"b"}"#, "two_passwords"),
    ])
    func init_ofWhatIsNone_saysWhy(_ body: String, _ code: String) {
        let fault = #expect(throws: LegacyFault.self) {
            _ = try LegacyNotification(Array(body.utf8))
        }

        #expect(fault?.code == code)
    }

    @Test(
        arguments: [
            (#""original_transaction_id":"12""#, "12"), (#""original_transaction_id":1e3"#, "1000"),
            (#""original_transaction_id":"x""#, nil), (#""original_transaction_id":-5"#, nil),
            (#""latest_receipt_info":{"original_transaction_id":"7"}"#, "7"),
            (
                #""latest_receipt_info":[{"original_transaction_id":"7"},{"original_transaction_id":"8"}]"#,
                nil
            ),
            (#""bid":"b""#, nil),
        ] as [(String, String?)])
    func originalTransactionID_inEveryLayout_isTheOneNamed(
        _ member: String, _ id: String?
    ) throws {
        let body = #"{"notification_type":"RENEWAL",\#(member)}"#

        #expect(try LegacyNotification(Array(body.utf8)).originalTransactionID == id)
    }
}
