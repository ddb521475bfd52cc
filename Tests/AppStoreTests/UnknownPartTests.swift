import AppStore
import Foundation
import Testing

@Suite struct UnknownPartTests {
    private func unknown(_ json: JSON) throws -> [String] {
        try Fixture.notifications().verify(
            signedPayload: Fixture.sign(json), nowMilliseconds: signingTime
        ).unknown.map(\.description).sorted()
    }

    private func unknown(
        transaction: JSON = [:], renewal: JSON = [:], data: JSON = [:]
    ) throws -> [String] {
        try unknown(
            Fixture.notification(
                Fixture.data(
                    transaction: Fixture.transaction(transaction),
                    renewal: Fixture.renewal(renewal), data)))
    }

    @Test func verify_whenAllIsDocumented_findsNothingUnknown() throws {
        let nulls: JSON = ["offerType": NSNull(), "type": NSNull(), "items": NSNull()]

        #expect(try unknown() == [])
        #expect(try unknown(transaction: ["offerType": NSNull(), "isUpgraded": NSNull()]) == [])
        #expect(
            try unknown(renewal: ["advancedCommerceInfo": nulls]) == [
                "body:PRICE_INCREASE/PENDING:priceIncreaseInfo",
                "field:renewal.advancedCommerceInfo.offerType",
                "field:renewal.advancedCommerceInfo.type",
            ])
    }

    @Test func verify_whenFieldsValuesOrShapesAreNew_namesEach() throws {
        let items: [JSON] = [
            ["SKU": "A", "newest": 1, "offer": ["reason": "LOYALTY"]],
            ["SKU": "B", "newest": 2, "priceIncreaseInfo": ["status": "PAUSED", "price": "9"]],
            ["price": 1],
        ]

        #expect(
            try unknown(
                transaction: ["offerType": 5, "price": "12", "storefront": 1, "gift": true],
                renewal: ["expirationIntent": 9, "advancedCommerceInfo": ["items": items]],
                data: ["status": 6, "extra": NSNull(), "environment": "Sandbox"])
                == [
                    "body:PRICE_INCREASE/PENDING:priceIncreaseInfo",
                    "field:notification.data.extra",
                    "field:renewal.advancedCommerceInfo.items.newest", "field:transaction.gift",
                    "shape:renewal.advancedCommerceInfo.items.SKU:absent",
                    "shape:renewal.advancedCommerceInfo.items.priceIncreaseInfo.price:text",
                    "shape:transaction.price:text", "shape:transaction.storefront:number",
                    "value:notification.data.status=6",
                    "value:renewal.advancedCommerceInfo.items.offer.reason=LOYALTY",
                    "value:renewal.advancedCommerceInfo.items.priceIncreaseInfo.status=PAUSED",
                    "value:renewal.expirationIntent=9", "value:transaction.offerType=5",
                ])
    }

    /// What was given back, and when, is money that somebody has to look up elsewhere.
    @Test func verify_whenARefundSaysNotHowMuchOrWhen_namesIt() throws {
        let refunds: [JSON] = [
            ["refundDate": 1, "refundType": "FULL"], ["refundAmount": 1, "refundDate": NSNull()],
            ["refundAmount": -1, "refundDate": 1], ["refundAmount": 0, "refundDate": 1],
        ]
        let place = "transaction.advancedCommerceInfo.items.refunds"

        #expect(
            try unknown(transaction: [
                "advancedCommerceInfo": ["items": [["SKU": "A", "refunds": refunds]]]
            ]) == [
                "shape:\(place).refundAmount:absent", "shape:\(place).refundDate:absent",
                "value:\(place).refundAmount=-1",
            ])
    }

    /// Nobody could tell which item was asked about: that is said, and not passed over.
    @Test func verify_whenAnAnnouncedIncreaseIsNowhereToBeSeen_namesIt() throws {
        let bare: JSON = ["items": [["SKU": "A", "price": 12_990]]]

        #expect(
            try unknown(renewal: ["advancedCommerceInfo": bare]) == [
                "body:PRICE_INCREASE/PENDING:priceIncreaseInfo"
            ])
        // An ordinary subscription says it as a whole.
        #expect(
            try unknown(renewal: ["advancedCommerceInfo": bare, "priceIncreaseStatus": 0]) == [])
    }

    @Test func verify_whenTypeOrSubtypeIsNew_namesIt() throws {
        let data = try Fixture.data()

        #expect(
            try unknown(Fixture.notification(data, ["notificationType": "NEW", "subtype": "X"]))
                == ["type:NEW"])
        #expect(
            try unknown(
                Fixture.notification(data, ["notificationType": "DID_RENEW", "subtype": "X"]))
                == ["subtype:DID_RENEW/X"])
        #expect(
            try unknown(Fixture.notification(data, ["subtype": NSNull()]))
                == ["subtype:PRICE_INCREASE/"])
    }

    @Test func verify_whenThereIsTooMuch_keepsTheFirstAndCutsNames() throws {
        var extra: JSON = [:]
        for index in 0..<50 { extra["\(index)" + String(repeating: "x", count: 500)] = index }
        let parts = try Fixture.notifications().verify(
            signedPayload: Fixture.sign(Fixture.notification(Fixture.data(extra))),
            nowMilliseconds: signingTime
        ).unknown

        #expect(parts.count == 16)
        #expect(parts.allSatisfy { $0.name.count == UnknownPart.nameLengthMax })
    }

    @Test func verify_whenNamesHoldControls_keepsThemOnOneLine() throws {
        let parts = try unknown(data: ["a\nb\u{0}c\u{7F}": 1])

        #expect(parts == ["field:notification.data.a\u{FFFD}b\u{FFFD}c\u{FFFD}"])
    }

    @Test func verify_whenPayloadCantBeRead_saysThatNothingIsRead() throws {
        let notification = try Fixture.notifications().verify(
            signedPayload: Fixture.signer().sign(Array("{".utf8)), nowMilliseconds: signingTime)

        #expect(notification.unknown.map(\.description) == ["body:payload"])
        #expect(!notification.understood)
        #expect(!notification.isWork)
    }
}
