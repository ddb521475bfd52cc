import AppStore
import Foundation
import JOSE
import SandboxStore
import Testing

@testable import Pricing

@Suite struct NotificationVerifierTests {
    private func verify(_ json: JSON) throws -> VerifiedNotification {
        try Fixture.notifications().verify(
            signedPayload: Fixture.sign(json), nowMilliseconds: signingTime)
    }

    private func verdict(_ json: JSON) throws -> String {
        try Fixture.notifications().verdict(Fixture.sign(json))
    }

    @Test func verify_whenGenuine_mapsTheEnvelope() throws {
        let filler: JSON = ["filler": String(repeating: "x", count: 6000)]
        let jws = try Fixture.sign(Fixture.notification(Fixture.data(), filler))

        let notification = try Fixture.notifications().verify(
            signedPayload: jws, nowMilliseconds: signingTime + day)

        #expect(jws.utf8.count > 20_000)
        #expect(notification.notificationUUID == "002e14d5-51f5-4503-b5a8-c3a1af68eb20")
        #expect(notification.type == "PRICE_INCREASE")
        #expect(notification.subtype == "PENDING")
        #expect(notification.signedAt == Instant(milliseconds: signingTime))
        #expect(notification.originalTransactionID == subscription)
        let event = try #require(notification.event)
        #expect(event.key.signedAt == Instant(milliseconds: signingTime))
        #expect(event.key.evidenceID == notification.notificationUUID)
        #expect(event.source == .notification)
        #expect(event.type == "PRICE_INCREASE")
        #expect(event.subtype == "PENDING")
        #expect(event.status == 1)
        #expect(event.originalTransactionID == subscription)
    }

    @Test func verify_whenGenuine_mapsEveryTransactionField() throws {
        let event = try #require(try verify(Fixture.notification(Fixture.data())).event)

        #expect(
            event.transaction
                == TransactionStatement(
                    transactionID: "2000000099999999", productID: "com.example.base",
                    appAccountToken: "7e3fb20b-4cdb-47cc-936d-99d65f608138",
                    purchasedAt: Instant(milliseconds: signingTime - day),
                    originalPurchaseAt: Instant(milliseconds: signingTime - 40 * day),
                    expiresAt: Instant(milliseconds: signingTime + 29 * day), revokedAt: nil,
                    reason: "RENEWAL", storefront: "USA", currency: "USD", price: 12_980,
                    period: "P1M",
                    items: [
                        .init(sku: "AD_FREE_1M", price: 9990),
                        .init(
                            sku: "EXTRA_1M", price: 3990, offerPrice: 2990, offerPeriod: "P1M",
                            offerPeriodCount: 3, offerReason: "ACQUISITION",
                            revokedAt: Instant(milliseconds: signingTime - 5)),
                    ]))
    }

    @Test func verify_whenGenuine_mapsEveryRenewalField() throws {
        let event = try #require(try verify(Fixture.notification(Fixture.data())).event)

        #expect(
            event.renewal
                == RenewalStatement(
                    productID: "com.example.base", autoRenewStatus: 1, isInBillingRetry: false,
                    expirationIntent: 3,
                    gracePeriodExpiresAt: Instant(milliseconds: signingTime + 3),
                    renewalAt: Instant(milliseconds: signingTime + 29 * day),
                    recentSubscriptionStartAt: Instant(milliseconds: signingTime - 40 * day),
                    currency: "USD", appAccountToken: "7e3fb20b-4cdb-47cc-936d-99d65f608138",
                    consistencyToken: "1.12345.932c6903", period: "P1M",
                    autoRenewProductID: "com.example.base",
                    items: [
                        .init(
                            sku: "AD_FREE_1M", price: 12_990, increaseStatus: "PENDING",
                            increasePrice: 12_990, dependentSKUs: ["EXTRA_1M"]),
                        .init(
                            sku: "EXTRA_1M", price: 3990, offerPrice: 2990, offerPeriod: "P1M",
                            offerPeriodCount: 2, offerReason: "ACQUISITION"),
                    ]))
    }

    @Test func decode_whenStored_agreesWithVerify() throws {
        for json in [
            try Fixture.notification(Fixture.data()), Fixture.notification(nil),
            ["notificationUUID": "u", "x": 1],
            try Fixture.notification(Fixture.data(renewal: nil)),
        ] {
            let jws = try Fixture.sign(json)
            let verifier = try Fixture.notifications()

            let verified = try verifier.verify(signedPayload: jws, nowMilliseconds: signingTime)
            let decoded = NotificationVerifier.decode(
                signedPayload: jws, receivedAt: Instant(milliseconds: signingTime))

            #expect(verified == decoded)
        }
    }

    @Test func verify_whenNoJWS_isMalformed() throws {
        let verifier = try Fixture.notifications()
        let large = String(repeating: "a", count: (1 << 20) + 1)

        #expect(verifier.verdict("") == "400 jws_malformed")
        #expect(verifier.verdict("garbage") == "400 jws_malformed")
        #expect(verifier.verdict("e30.e30.e30") == "400 jws_header")
        #expect(verifier.verdict(large) == "400 jws_too_large")
    }

    @Test func verify_whenSignedByOthers_isRefused() throws {
        let json = try Fixture.notification(Fixture.data())
        let strangers = try Fixture.strangers.get()
        let ours = try Fixture.authority.get()
        let none = try JWSSigner(
            key: ours.signingKey(), chainDER: ours.chainDER(), algorithm: "none")
        let jws = try Fixture.sign(json)
        let verifier = try Fixture.notifications()

        #expect(verifier.verdict(try Fixture.sign(json, by: strangers.signer())) == "403 jws_chain")
        #expect(verifier.verdict(try Fixture.sign(json, by: none)) == "403 jws_algorithm")
        #expect(verifier.verdict(String(jws.dropLast(2))) == "403 jws_signature")
    }

    @Test func verify_whenCertificatesExpiredSince_judgesAtTheSigning() throws {
        let old = try Fixture.sign(Fixture.notification(Fixture.data()))
        let late = try Fixture.sign(
            Fixture.notification(Fixture.data(), ["signedDate": signingTime + day]))
        let undated = try Fixture.sign(Fixture.notification(nil, ["signedDate": NSNull()]))
        let verifier = try Fixture.notifications()

        #expect(verifier.verdict(old, now: signingTime + 900 * day) == "ok")
        #expect(verifier.verdict(late) == "403 jws_chain")
        #expect(verifier.verdict(undated) == "ok")
        #expect(verifier.verdict(undated, now: signingTime + day) == "403 jws_chain")
    }

    @Test(arguments: ["com.example.other", "com.example.App", "", nil])
    func verify_whenBundleIsNotOurs_isRefused(other: String?) throws {
        let data = try Fixture.data(["bundleId": other ?? NSNull()])
        let transaction = Fixture.transaction(["bundleId": other ?? NSNull()])
        let nested = try Fixture.data(transaction: transaction)

        #expect(try verdict(Fixture.notification(data)) == "403 wrong_bundle")
        #expect(try verdict(Fixture.notification(nested)) == "403 nested_wrong_bundle")
    }

    @Test(arguments: ["Production", "Xcode", "LocalTesting", "sandbox", nil])
    func verify_whenEnvironmentIsNotOurs_isRefused(other: String?) throws {
        let change: JSON = ["environment": other ?? NSNull()]
        let transaction = Fixture.transaction(change)
        let renewal = Fixture.renewal(change)

        #expect(try verdict(Fixture.notification(Fixture.data(change))) == "403 wrong_environment")
        #expect(
            try verdict(Fixture.notification(Fixture.data(transaction: transaction)))
                == "403 nested_wrong_environment")
        #expect(
            try verdict(Fixture.notification(Fixture.data(renewal: renewal)))
                == "403 nested_wrong_environment")
    }

    @Test func verify_whenProduction_comparesTheAppID() throws {
        let production: JSON = ["environment": "Production"]
        func payload(_ id: Any) throws -> String {
            let data = try Fixture.data(
                transaction: Fixture.transaction(production),
                renewal: Fixture.renewal(production),
                ["environment": "Production", "appAppleId": id])
            return try Fixture.sign(Fixture.notification(data))
        }
        let verifier = try Fixture.notifications(.production, appAppleID: appID)
        let unset = try Fixture.notifications(.production)

        #expect(verifier.verdict(try payload(appID)) == "ok")
        #expect(verifier.verdict(try payload(appID + 1)) == "403 wrong_app_id")
        #expect(verifier.verdict(try payload(NSNull())) == "403 wrong_app_id")
        #expect(unset.verdict(try payload(appID)) == "403 wrong_app_id")
        #expect(unset.verdict(try payload(NSNull())) == "403 wrong_app_id")
    }

    @Test func verify_whenNestedIsForged_isRefused() throws {
        let strangers = try Fixture.strangers.get().signer()
        let genuine = try Fixture.sign(Fixture.renewal())
        let parts = genuine.split(separator: ".")
        let other = try Base64URL.encode(Fixture.bytes(Fixture.renewal(["autoRenewStatus": 0])))
        for (forged, code) in [
            (try Fixture.sign(Fixture.renewal(), by: strangers), "403 nested_jws_chain"),
            ("\(parts[0]).\(other).\(parts[2])", "403 nested_jws_signature"),
            (try Fixture.sign(Fixture.renewal(["signedDate": 1])), "403 nested_jws_chain"),
        ] {
            let renewal = try Fixture.data(["signedRenewalInfo": forged])
            let transaction = try Fixture.data(["signedTransactionInfo": forged])
            #expect(try verdict(Fixture.notification(renewal)) == code)
            #expect(try verdict(Fixture.notification(transaction)) == code)
        }
    }

    @Test func verify_whenNestedIsOfAnotherSubscription_isRefused() throws {
        let other = Fixture.renewal(["originalTransactionId": "2000000000000001"])

        #expect(
            try verdict(Fixture.notification(Fixture.data(renewal: other)))
                == "403 nested_other_subscription")
    }

    /// A forwarder that sends the wrong field is told so, whoever's app it is: it would be answered 200 for ever.
    @Test func verify_whenASignedThingIsNoNotification_isMalformedAndSaysWhatItIs() throws {
        let appTransaction: JSON = [
            "receiptType": "Production", "bundleId": "com.example.app", "appTransactionId": "70",
            "deviceVerification": "x",
        ]
        let retention: JSON = [
            "originalTransactionId": "1", "productId": "p", "userLocale": "en-US",
            "requestIdentifier": "70f15fdd-29b5-4ae2-b7b5-a9a4bd3a1ad2",
        ]
        for (payload, what) in [
            (Fixture.transaction(), "a transaction"),
            (Fixture.transaction(["bundleId": "com.example.other"]), "a transaction"),
            (Fixture.transaction(["environment": "Production"]), "a transaction"),
            (Fixture.renewal(), "a renewal info"), (appTransaction, "an app transaction"),
            (retention, "a request for a retention message"),
        ] {
            #expect(throws: NotificationError.otherStatement(what)) { try verify(payload) }
            #expect(
                NotificationError.otherStatement(what).description
                    == "no_notification: the payload is \(what), not a notification")
        }
        // What Apple invents is kept: a notification says so by its type or its id.
        #expect(try verdict(Fixture.notification(nil, ["transactionId": "1"])) == "ok")
    }

    @Test func verify_whenBodyIsOfAnUnknownKind_mustNotNameAnotherApp() throws {
        func verdict(_ body: JSON) throws -> String {
            try self.verdict(Fixture.notification(nil, ["licenceData": body, "number": 1]))
        }

        #expect(try verdict(["bundleId": "com.example.other"]) == "403 wrong_bundle")
        #expect(try verdict(["environment": "Production"]) == "403 wrong_environment")
        #expect(try verdict(["bundleId": bundle, "environment": "Sandbox"]) == "ok")
        #expect(try verdict(["x": 1]) == "ok")
    }

    @Test func verify_whenIdCannotBeKept_takesTheDigest() throws {
        let long = String(repeating: "0123456789abcdef", count: 400)
        for id in [long, "v1:\(long.prefix(64))", "sha256:\(long.prefix(64))"] {
            let json = try Fixture.notification(Fixture.data(), ["notificationUUID": id])
            let signed = try Fixture.sign(json)
            let notification = try Fixture.notifications().verify(
                signedPayload: signed, nowMilliseconds: signingTime)
            let made = try #require(PayloadPacker().pack(signed))
            let packed = PackedPayload(bytes: made.bytes, headers: made.headers.map(\.text))
            let receivedAt = Instant(milliseconds: signingTime)

            #expect(notification.notificationUUID.count == 71)
            #expect(notification.notificationUUID != id)
            #expect(notification.event?.key.evidenceID == notification.notificationUUID)
            #expect(
                try NotificationVerifier.decode(packed: packed, receivedAt: receivedAt)
                    .notificationUUID == notification.notificationUUID)
        }
    }

    @Test func verify_whenTypeIsTooLongForAnIndex_keepsItsBeginning() throws {
        let long = String(repeating: "0123456789", count: 800)

        let notification = try verify(
            Fixture.notification(Fixture.data(), ["notificationType": long, "subtype": long]))

        #expect(notification.type == String(long.prefix(200)))
        #expect(notification.subtype == String(long.prefix(200)))
        #expect(notification.event?.type == notification.type)
        #expect(!notification.understood)
    }

    @Test func verify_whenSubscriptionIdCannotBeKept_isEvidenceOnly() throws {
        let long: JSON = ["originalTransactionId": String(repeating: "1234567890", count: 500)]
        let data = try Fixture.data(
            transaction: Fixture.transaction(long), renewal: Fixture.renewal(long))

        let notification = try verify(Fixture.notification(data))

        #expect(notification.originalTransactionID == nil)
        #expect(notification.event == nil)
        #expect(!notification.understood)
    }

    @Test func verify_whenOnlyOneIsNested_isAnEventOfIt() throws {
        let transaction = try verify(Fixture.notification(Fixture.data(renewal: nil)))
        let renewal = try verify(Fixture.notification(Fixture.data(transaction: nil)))

        #expect(transaction.event?.originalTransactionID == subscription)
        #expect(transaction.event?.renewal == nil)
        #expect(renewal.event?.originalTransactionID == subscription)
        #expect(renewal.event?.transaction == nil)
    }

    @Test func verify_whenNestedNamesNoSubscription_hasNoEvent() throws {
        let nameless: JSON = ["originalTransactionId": NSNull()]
        let transaction = Fixture.transaction(nameless)
        let renewal = Fixture.renewal(nameless)

        for data in [
            try Fixture.data(transaction: transaction),
            try Fixture.data(transaction: transaction, renewal: renewal),
            try Fixture.data(transaction: nil, renewal: renewal),
        ] {
            #expect(try verify(Fixture.notification(data)).event == nil)
        }
    }

    @Test func verify_whenNestedIsUndated_judgesItAtTheNotificationsTime() throws {
        let undated: JSON = ["signedDate": NSNull()]
        let data = try Fixture.data(
            transaction: Fixture.transaction(undated), renewal: Fixture.renewal(undated))
        let verifier = try Fixture.notifications()

        let jws = try Fixture.sign(Fixture.notification(data))

        #expect(verifier.verdict(jws, now: signingTime + 900 * day) == "ok")
    }

    @Test func verify_whenSeveralBodiesCome_eachMustBeOurs() throws {
        let ours: JSON = ["bundleId": bundle, "environment": "Sandbox"]
        let theirs: JSON = ["bundleId": "com.example.other", "environment": "Sandbox"]

        #expect(
            try verdict(Fixture.notification(Fixture.data(), ["summary": theirs]))
                == "403 wrong_bundle")
        #expect(
            try verdict(Fixture.notification(Fixture.data(), ["appData": theirs]))
                == "403 wrong_bundle")
        #expect(
            try verdict(Fixture.notification(Fixture.data(), ["externalPurchaseToken": theirs]))
                == "403 wrong_bundle")
        #expect(
            try verdict(Fixture.notification(Fixture.data(), ["summary": ours, "appData": ours]))
                == "ok")
    }

    @Test(
        arguments: ["summary", "appData"], ["signedTransactionInfo", "signedAppTransactionInfo"])
    func verify_whenAnotherBodyNestsSomethingForged_isRefused(body: String, field: String) throws {
        let forged = try Fixture.sign(["x": 1], by: Fixture.strangers.get().signer())
        let genuine = try Fixture.sign(["x": 1])
        func container(_ jws: String) -> JSON {
            ["bundleId": bundle, "environment": "Sandbox", field: jws]
        }

        #expect(
            try verdict(Fixture.notification(nil, [body: container(forged)]))
                == "403 nested_jws_chain")
        #expect(try verdict(Fixture.notification(nil, [body: container(genuine)])) == "ok")
        #expect(try verify(Fixture.notification(nil, [body: container(genuine)])).event == nil)
    }

    @Test func verify_whenNestedHoldsEscapes_readsItAlike() throws {
        let data = try Fixture.data()
        let text = String(decoding: try Fixture.bytes(Fixture.notification(data)), as: UTF8.self)
        // The same JSON, written with an escape in each nested JWS.
        let escaped = text.replacingOccurrences(of: ":\"eyJ", with: ":\"\\u0065yJ")

        let verified = try Fixture.notifications().verify(
            signedPayload: Fixture.signer().sign(Array(escaped.utf8)), nowMilliseconds: signingTime)

        #expect(escaped != text)
        #expect(verified.event?.originalTransactionID == subscription)
        #expect(verified.event?.renewal != nil)
    }

    @Test func verify_whenChainIsRevoked_isRefusedByName() throws {
        let responder = try OpenSSLResponder(url: "http://ocsp.example/")
        let verifier = try JWSVerifier(roots: responder.authority.trustedRoots())
        let notifications = NotificationVerifier(
            verifier: verifier, bundleID: bundle, appAppleID: nil, environment: .sandbox)
        let now = Int64(Date().timeIntervalSince1970 * 1000)
        let jws = try Fixture.sign(
            Fixture.notification(nil, ["signedDate": now]), by: responder.authority.signer())
        #expect(notifications.verdict(jws, now: now) == "ok")

        verifier.setRevoked(true, try #require(verifier.revocationQuestions.first))

        #expect(notifications.verdict(jws, now: now) == "403 certificate_revoked")
    }
}
