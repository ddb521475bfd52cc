import AppStore
import Digests
import Foundation
import JOSE
import Pricing
import Testing

@Suite struct UnknownShapeTests {
    private func verify(_ json: JSON) throws -> VerifiedNotification {
        try Fixture.notifications().verify(
            signedPayload: Fixture.sign(json), nowMilliseconds: signingTime)
    }

    private func verify(text: String) throws -> VerifiedNotification {
        try Fixture.notifications().verify(
            signedPayload: Fixture.signer().sign(Array(text.utf8)), nowMilliseconds: signingTime)
    }

    /// What Apple's every notification has is missing, and every body: a forwarder is told, and not answered 200 for ever.
    @Test(arguments: [
        "{}", "{\"a\":1}", "{\"data\":7}", "{\"notificationType\":null}",
        "{\"x\":{}}",
    ])
    func verify_whenPayloadIsNoNotification_isMalformedAndSaysWhatItIs(text: String) throws {
        let what = "a JSON object without notificationType and notificationUUID"
        #expect(throws: NotificationError.otherStatement(what)) { try verify(text: text) }
    }

    @Test(arguments: [
        "null", "7", "true", "[]", "[1]", "[{\"notificationType\":\"X\"}]", "\"text\"",
    ])
    func verify_whenPayloadIsNoObject_isMalformedAndSaysSo(text: String) throws {
        let error = NotificationError.otherStatement("a JSON value that is no object")
        #expect(throws: error) { try verify(text: text) }
        #expect(
            error.description
                == "no_notification: the payload is a JSON value that is no object, not a notification"
        )
    }

    /// One sign of a notification is enough to keep what Apple has signed.
    @Test(arguments: [
        "{\"notificationType\":\"NEW\"}", "{\"notificationUUID\":\"u\"}",
        "{\"notificationType\":7}",
        "{\"data\":{\"bundleId\":\"\(bundle)\",\"environment\":\"Sandbox\"}}",
    ])
    func verify_whenPayloadHasOneSignOfANotification_isKept(text: String) throws {
        #expect(try verify(text: text).event == nil)
    }

    @Test(arguments: ["", "{", "\u{0}", "{\"a\":1,}"])
    func verify_whenPayloadIsUnreadable_keepsItUnderItsDigest(text: String) throws {
        let notification = try verify(text: text)

        #expect(
            notification.notificationUUID
                == "sha256:\(SHA256.hexadecimalDigest(of: Array(text.utf8)))")
        #expect(notification.event == nil)
        #expect(notification.type == nil)
        #expect(notification.signedAt == Instant(milliseconds: signingTime))
    }

    @Test func verify_whenNestedTooDeep_isKept() throws {
        let deep = String(repeating: "[", count: 5000) + String(repeating: "]", count: 5000)

        #expect(try verify(text: "{\"a\":\(deep)}").event == nil)
    }

    @Test func verify_whenTypeAndFieldsAreUnknown_isAnEventWithRawValues() throws {
        let data = try Fixture.data(
            transaction: Fixture.transaction([
                "new": [["x": NSNull()]], "transactionReason": "GIFT",
            ]),
            ["status": 99, "later": true])
        let notification = try verify(
            Fixture.notification(
                data, ["notificationType": "BRAND_NEW", "subtype": "NEWER", "extra": 1.5]))

        let event = try #require(notification.event)
        #expect(event.type == "BRAND_NEW")
        #expect(event.subtype == "NEWER")
        #expect(event.status == 99)
        #expect(event.transaction?.reason == "GIFT")
    }

    @Test func verify_whenThereIsNoSubscription_hasNoEvent() throws {
        let test = try verify(
            Fixture.notification(
                Fixture.data(transaction: nil, renewal: nil), ["notificationType": "TEST"]))
        let consumable = try verify(
            Fixture.notification(
                Fixture.data(
                    transaction: Fixture.transaction(["type": "Consumable"]), renewal: nil)))
        let summary = try verify(
            Fixture.notification(
                nil,
                ["summary": ["bundleId": bundle, "environment": "Sandbox", "failedCount": 2]]))

        #expect(test.type == "TEST")
        #expect(test.event == nil)
        #expect(consumable.event == nil)
        #expect(consumable.originalTransactionID == subscription)
        #expect(summary.event == nil)
    }

    @Test func verify_whenOtherContainers_checksThemToo() throws {
        let verifier = try Fixture.notifications()
        func verdict(_ name: String, _ container: JSON) throws -> String {
            verifier.verdict(try Fixture.sign(Fixture.notification(nil, [name: container])))
        }
        let ours: JSON = ["bundleId": bundle, "environment": "Sandbox"]
        let token: JSON = ["bundleId": bundle, "externalPurchaseId": "SANDBOX_1"]

        for name in ["data", "summary", "appData"] {
            #expect(try verdict(name, ours) == "ok")
            #expect(try verdict(name, ["environment": "Sandbox"]) == "403 wrong_bundle")
            #expect(try verdict(name, ["bundleId": bundle]) == "403 wrong_environment")
        }
        #expect(try verdict("externalPurchaseToken", token) == "ok")
        #expect(
            try verdict("externalPurchaseToken", token.merging(["externalPurchaseId": "1"]) { $1 })
                == "403 wrong_environment")
    }

    @Test func verify_whenNestedIsNoJWS_hasNoEvent() throws {
        for odd in ["", "garbage", "a.b.c"] {
            let data = try Fixture.data(["signedRenewalInfo": odd])
            #expect(try verify(Fixture.notification(data)).event == nil)
        }
        let list = try Fixture.signer().sign(Array("[]".utf8))
        #expect(
            try verify(Fixture.notification(Fixture.data(["signedRenewalInfo": list]))).event == nil
        )
    }

    @Test func verify_whenNestedIsNoText_doesNotTakeHalfAPairForAWhole() throws {
        for odd: Any in [7, ["a": 1], [String](), true] {
            for name in ["signedTransactionInfo", "signedRenewalInfo"] {
                let notification = try verify(Fixture.notification(Fixture.data([name: odd])))
                #expect(notification.event == nil)
                #expect(!notification.understood)
            }
        }
        let alone = try verify(Fixture.notification(Fixture.data(["signedRenewalInfo": NSNull()])))
        #expect(alone.event?.renewal == nil)
        #expect(alone.understood)
    }

    @Test func verify_whenSubscriptionIsUnnamed_hasNoEvent() throws {
        let unnamed = Fixture.renewal(["originalTransactionId": NSNull()])

        #expect(try verify(Fixture.notification(Fixture.data(renewal: unnamed))).event == nil)
    }

    @Test func verify_whenUndated_takesTheDateOfTheParts() throws {
        let undated: JSON = ["signedDate": NSNull()]
        let dated = try verify(Fixture.notification(Fixture.data(), undated))
        let none = try verify(
            Fixture.notification(
                Fixture.data(
                    transaction: Fixture.transaction(undated), renewal: Fixture.renewal(undated)),
                undated))

        #expect(dated.event?.key.signedAt == Instant(milliseconds: signingTime + 1))
        #expect(none.event == nil)
    }

    @Test func verify_whenFieldsHaveOtherTypes_countsThemAsAbsent() throws {
        let transaction = Fixture.transaction([
            "price": "12980", "purchaseDate": "2026-01-05", "storefront": 143_441,
            "expiresDate": 1_767_571_200_000.75, "currency": NSNull(), "revocationDate": [1],
        ])
        let renewal = Fixture.renewal([
            "autoRenewStatus": "1", "isInBillingRetryPeriod": 1, "renewalDate": true,
            "advancedCommerceInfo": [1],
        ])
        let data = try Fixture.data(transaction: transaction, renewal: renewal, ["status": "1"])

        let event = try #require(try verify(Fixture.notification(data)).event)

        #expect(event.status == nil)
        #expect(event.transaction?.price == nil)
        #expect(event.transaction?.purchasedAt == nil)
        #expect(event.transaction?.storefront == nil)
        #expect(event.transaction?.expiresAt == Instant(milliseconds: 1_767_571_200_000))
        #expect(event.transaction?.currency == nil)
        #expect(event.transaction?.revokedAt == nil)
        #expect(event.transaction?.items.count == 2)
        #expect(event.renewal?.autoRenewStatus == nil)
        #expect(event.renewal?.isInBillingRetry == nil)
        #expect(event.renewal?.renewalAt == nil)
        #expect(event.renewal?.items == nil)
    }

    @Test func verify_whenNumbersAreLarge_keepsThemExact() throws {
        let info: JSON = ["items": [["SKU": "A", "price": Int64.max]]]
        let data = try Fixture.data(
            transaction: Fixture.transaction([
                "price": 9_007_199_254_740_993, "advancedCommerceInfo": info,
            ]))

        let event = try #require(try verify(Fixture.notification(data)).event)

        #expect(event.transaction?.price == 9_007_199_254_740_993)
        #expect(event.transaction?.items.first?.price == .max)
    }

    @Test func verify_whenAnItemIsUnreadable_doesNotMakeItLookDropped() throws {
        let items: [Any] = [["SKU": "A", "price": 1], ["price": 2], 7]
        let info: JSON = ["items": items]
        let data = try Fixture.data(
            transaction: Fixture.transaction(["advancedCommerceInfo": info]),
            renewal: Fixture.renewal(["advancedCommerceInfo": info]))

        let event = try #require(try verify(Fixture.notification(data)).event)

        #expect(event.renewal?.items == nil)
        #expect(event.transaction?.items.map(\.sku) == ["A"])
        #expect(event.transaction?.isIncomplete == true)
    }

    @Test func verify_whenTextHoldsZero_replacesItInEveryField() throws {
        let info: JSON = ["items": [["SKU": "A\0B"]], "consistencyToken": "\0"]
        let data = try Fixture.data(
            transaction: Fixture.transaction([
                "advancedCommerceInfo": info, "productId": "p\0",
                "originalTransactionId": "1\0",
            ]),
            renewal: Fixture.renewal([
                "advancedCommerceInfo": info, "originalTransactionId": "1\0",
            ]))

        let notification = try verify(
            Fixture.notification(
                data, ["notificationType": "T\0", "subtype": "\0", "notificationUUID": "u\0"]))

        #expect(notification.notificationUUID == "u\u{FFFD}")
        #expect(notification.type == "T\u{FFFD}")
        #expect(notification.subtype == "\u{FFFD}")
        #expect(notification.originalTransactionID == "1\u{FFFD}")
        let event = try #require(notification.event)
        #expect(event.transaction?.items.map(\.sku) == ["A\u{FFFD}B"])
        #expect(event.transaction?.productID == "p\u{FFFD}")
        #expect(event.renewal?.consistencyToken == "\u{FFFD}")
        #expect(!"\(notification)".utf8.contains(0))
    }
}
