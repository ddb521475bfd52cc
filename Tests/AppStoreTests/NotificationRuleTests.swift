import AppStore
import Foundation
import Testing

@testable import Pricing

/// A notification of each row of the table, and what becomes of an open increase of AD_FREE_1M from 9.99 to 12.99.
struct RuleCase: Sendable, CustomTestStringConvertible {
    enum Content: Sendable {
        /// A statement of the running period: what is set to renew, and what else is said.
        case running(Renewing, status: Int = 1, renewal: String = "{}", transaction: String = "{}")
        /// The first statement of the next period, with these items charged.
        case renewed(charged: String)
        case body(String)
    }

    enum Renewing: String, Sendable {
        case plain, scheduled, pending, accepted, withOffer, renamed, replaced
    }

    let type: String
    let subtype: String?
    let content: Content
    /// `state reason` of the change afterwards; nil where nothing is to be folded.
    let outcome: String?

    var testDescription: String { "\(type)/\(subtype ?? "-")" }

    init(_ type: String, _ subtype: String?, _ content: Content, _ outcome: String?) {
        (self.type, self.subtype) = (type, subtype)
        (self.content, self.outcome) = (content, outcome)
    }
}

enum RuleTable {
    private static let over = #"{"autoRenewStatus":0,"isInBillingRetryPeriod":false}"#
    private static let retry = #"{"isInBillingRetryPeriod":true}"#
    private static let refunded = #"{"revocationDate":1767571200000,"revocationReason":0}"#

    static let all: [RuleCase] = [
        RuleCase("SUBSCRIBED", "INITIAL_BUY", .running(.scheduled), "scheduled"),
        RuleCase("SUBSCRIBED", "RESUBSCRIBE", .running(.scheduled), "scheduled"),
        RuleCase("OFFER_REDEEMED", nil, .running(.withOffer), "scheduled postponed_by_offer"),
        RuleCase("OFFER_REDEEMED", "INITIAL_BUY", .running(.scheduled), "scheduled"),
        RuleCase(
            "OFFER_REDEEMED", "RESUBSCRIBE", .running(.withOffer), "scheduled postponed_by_offer"),
        RuleCase("OFFER_REDEEMED", "UPGRADE", .running(.replaced), "invalidated item_replaced"),
        RuleCase("OFFER_REDEEMED", "DOWNGRADE", .running(.replaced), "scheduled item_replaced"),
        RuleCase("DID_CHANGE_RENEWAL_PREF", nil, .running(.scheduled), "scheduled"),
        RuleCase(
            "DID_CHANGE_RENEWAL_PREF", "UPGRADE", .running(.replaced), "invalidated item_replaced"),
        RuleCase(
            "DID_CHANGE_RENEWAL_PREF", "DOWNGRADE", .running(.replaced), "scheduled item_replaced"
        ),
        RuleCase("METADATA_UPDATE", nil, .running(.renamed), "scheduled AD_FREE_1M_NEW"),
        RuleCase("MIGRATION", nil, .running(.renamed), "scheduled AD_FREE_1M_NEW"),
        RuleCase("MIGRATE", nil, .running(.renamed), "scheduled AD_FREE_1M_NEW"),
        RuleCase("DID_CHANGE_RENEWAL_STATUS", nil, .running(.scheduled), "scheduled"),
        RuleCase(
            "DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_ENABLED", .running(.scheduled), "scheduled"),
        RuleCase(
            "DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED",
            .running(.scheduled, renewal: over), "scheduled"),
        RuleCase("DID_RENEW", nil, .renewed(charged: "AD_FREE_1M"), "effective"),
        RuleCase("DID_RENEW", "BILLING_RECOVERY", .renewed(charged: "AD_FREE_1M"), "effective"),
        RuleCase(
            "DID_FAIL_TO_RENEW", nil, .running(.scheduled, status: 3, renewal: retry), "scheduled"),
        RuleCase(
            "DID_FAIL_TO_RENEW", "GRACE_PERIOD", .running(.scheduled, status: 4, renewal: retry),
            "scheduled"),
        RuleCase(
            "GRACE_PERIOD_EXPIRED", nil, .running(.scheduled, status: 3, renewal: retry),
            "scheduled"),
        RuleCase(
            "RENEWAL_EXTENDED", nil,
            .running(
                .scheduled, renewal: #"{"renewalDate":1771027200000}"#,
                transaction: #"{"expiresDate":1771027200000}"#), "scheduled"),
        RuleCase("RENEWAL_EXTENSION", "FAILURE", .running(.scheduled), "scheduled"),
        RuleCase("RENEWAL_EXTENSION", "SUMMARY", .body("summary"), nil),
        RuleCase("RENEWAL_EXTENSION", "SUCCESS", .body("summary"), nil),
        RuleCase("EXPIRED", nil, .running(.scheduled, status: 2, renewal: over), "lapsed expired"),
        RuleCase(
            "EXPIRED", "VOLUNTARY", .running(.scheduled, status: 2, renewal: over),
            "cancelled left_voluntarily"),
        RuleCase(
            "EXPIRED", "BILLING_RETRY", .running(.scheduled, status: 2, renewal: over),
            "lapsed billing_failed"),
        RuleCase(
            "EXPIRED", "PRICE_INCREASE", .running(.pending, status: 2, renewal: over),
            "declined expired_for_price_increase"),
        RuleCase(
            "EXPIRED", "PRODUCT_NOT_FOR_SALE", .running(.scheduled, status: 2, renewal: over),
            "lapsed product_not_for_sale"),
        RuleCase(
            "REVOKE", nil, .running(.scheduled, status: 5, transaction: refunded),
            "cancelled refunded_or_revoked"),
        RuleCase("PRICE_CHANGE", nil, .running(.scheduled), "scheduled"),
        RuleCase("PRICE_INCREASE", "PENDING", .running(.pending), "pending_consent"),
        RuleCase("PRICE_INCREASE", "ACCEPTED", .running(.accepted), "accepted"),
        RuleCase(
            "REFUND", nil, .running(.scheduled, status: 5, transaction: refunded),
            "cancelled refunded_or_revoked"),
        RuleCase("REFUND", "SEATS", .running(.scheduled), "scheduled"),
        RuleCase("REFUND_DECLINED", nil, .running(.scheduled), "scheduled"),
        RuleCase("REFUND_REVERSED", nil, .running(.scheduled), "scheduled"),
        RuleCase("CONSUMPTION_REQUEST", nil, .running(.scheduled), "scheduled"),
        RuleCase("ONE_TIME_CHARGE", nil, .body("purchase"), nil),
        RuleCase("TEST", nil, .body("data"), nil),
        RuleCase("RESCIND_CONSENT", nil, .body("appData"), nil),
        RuleCase("EXTERNAL_PURCHASE_TOKEN", "UNREPORTED", .body("token"), nil),
        RuleCase("EXTERNAL_PURCHASE_TOKEN", "CREATED", .body("token"), nil),
        RuleCase("EXTERNAL_PURCHASE_TOKEN", "ACTIVE_TOKEN_REMINDER", .body("token"), nil),
    ]
}

@Suite struct NotificationRuleTests {
    @Test func table_always_hasOneRowForEveryCase() {
        let rows = NotificationRule.all.map { "\($0.type)/\($0.subtype ?? "-")" }

        #expect(Set(rows).count == rows.count)
        #expect(rows.sorted() == RuleTable.all.map(\.testDescription).sorted())
    }

    @Test(arguments: RuleTable.all)
    func notification_ofEveryRow_doesWhatItsRowSays(row: RuleCase) throws {
        let rule = try #require(NotificationRule.find(type: row.type, subtype: row.subtype))

        let read = try RuleNotification(row).read()

        #expect(read.understood)
        #expect(read.unknown == [])
        #expect(read.isWork == (rule.effect != .nothing))
        switch rule.effect {
        case .nothing:
            #expect(read.event == nil)
            #expect(row.outcome == nil)
        case .facts, .lifecycle:
            let told = try RuleNotification.fold(
                try #require(read.event), after: row.type == "PRICE_CHANGE" ? .plain : .scheduled)
            #expect(told.outcome == row.outcome)
            #expect(told.hasNewFacts)
            #expect(told.movesChange == (rule.effect == .lifecycle), "\(rule.effect)")
        }
    }

    @Test func notification_withoutTheBodyOfItsType_isNotUnderstood() throws {
        for row in RuleTable.all where row.type != "TEST" {
            let changes: JSON = [
                "notificationType": row.type, "subtype": row.subtype ?? NSNull(),
            ]
            let empty = try Fixture.data(transaction: nil, renewal: nil)
            let read = try Fixture.notifications().verify(
                signedPayload: Fixture.sign(Fixture.notification(empty, changes)),
                nowMilliseconds: signingTime)

            #expect(!read.understood, "\(row.testDescription)")
            #expect(read.unknown.map(\.kind) == [.body], "\(row.testDescription)")
            #expect(!read.isWork)
        }
    }

    @Test func find_whenUnknown_isNil() {
        #expect(NotificationRule.find(type: nil, subtype: nil) == nil)
        #expect(NotificationRule.find(type: "", subtype: nil) == nil)
        #expect(NotificationRule.find(type: "DID_RENEW", subtype: "PENDING") == nil)
        #expect(NotificationRule.find(type: "did_renew", subtype: nil) == nil)
        #expect(NotificationRule.find(type: "DID_RENEW", subtype: "")?.type == "DID_RENEW")
        #expect(NotificationRule.isKnown(type: "DID_RENEW"))
        #expect(!NotificationRule.isKnown(type: "NEW"))
    }
}

/// The signed form of a row, and its fold.
private struct RuleNotification {
    private static let renewsAt = signingTime + 29 * day
    let row: RuleCase

    init(_ row: RuleCase) { self.row = row }

    func read() throws -> VerifiedNotification {
        let changes: JSON = ["notificationType": row.type, "subtype": row.subtype ?? NSNull()]
        let json: JSON =
            switch row.content {
            case .running(let renewing, let status, let renewal, let transaction):
                Fixture.notification(
                    try Fixture.data(
                        transaction: Self.transaction(["AD_FREE_1M"], try Self.json(transaction)),
                        renewal: Self.renewal(renewing, try Self.json(renewal)),
                        ["status": status]), changes)
            case .renewed(let charged):
                Fixture.notification(
                    try Fixture.data(
                        transaction: Self.transaction(
                            [charged], price: 12_990,
                            [
                                "transactionId": "2000000099999998", "purchaseDate": Self.renewsAt,
                                "expiresDate": Self.renewsAt + 30 * day,
                                "signedDate": Self.renewsAt,
                            ]),
                        renewal: Self.renewal(.plain, price: 12_990, ["signedDate": Self.renewsAt])),
                    changes.merging(["signedDate": Self.renewsAt]) { $1 })
            case .body(let name): Self.bare(name).merging(changes) { $1 }
            }
        // The chain of the fixtures ends a day after signing, and a renewal is a month later. What
        // signatures prove is tested elsewhere.
        return NotificationVerifier.decode(
            signedPayload: try Fixture.sign(json),
            receivedAt: Instant(milliseconds: signingTime))
    }

    private static func json(_ text: String) throws -> JSON {
        try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? JSON)
    }

    private static func transaction(
        _ skus: [String], price: Int = 9990, _ changes: JSON = [:]
    ) -> JSON {
        let items: [JSON] = (skus + ["EXTRA_1M"]).map { sku in
            ["SKU": sku, "price": sku == "EXTRA_1M" ? 3990 : price]
        }
        return Fixture.transaction([
            "advancedCommerceInfo": ["period": "P1M", "items": items] as JSON
        ]).merging(changes) { $1 }
    }

    private static func renewal(
        _ renewing: RuleCase.Renewing, price: Int = 9990, _ changes: JSON = [:]
    ) -> JSON {
        var item: JSON = ["SKU": "AD_FREE_1M", "price": price]
        func increase(_ status: String) -> JSON { ["status": status, "price": 12_990] }
        switch renewing {
        case .plain: break
        case .scheduled: item["priceIncreaseInfo"] = increase("SCHEDULED")
        case .pending: item["priceIncreaseInfo"] = increase("PENDING")
        case .accepted: item["priceIncreaseInfo"] = increase("ACCEPTED")
        case .withOffer:
            item["priceIncreaseInfo"] = increase("SCHEDULED")
            item["offer"] =
                ["price": 990, "period": "P1M", "periodCount": 2, "reason": "RETENTION"] as JSON
        case .renamed:
            item["SKU"] = "AD_FREE_1M_NEW"
            item["priceIncreaseInfo"] = increase("SCHEDULED")
        case .replaced: item = ["SKU": "PREMIUM_1M", "price": 19_990]
        }
        let items: [JSON] = [item, ["SKU": "EXTRA_1M", "price": 3990]]
        let info: JSON = ["consistencyToken": "2", "period": "P1M", "items": items]
        return Fixture.renewal([
            "advancedCommerceInfo": info, "expirationIntent": NSNull(),
            "gracePeriodExpiresDate": NSNull(),
        ]).merging(changes) { $1 }
    }

    private static func bare(_ name: String) -> JSON {
        let ours: JSON = ["bundleId": bundle, "environment": "Sandbox"]
        func notification(_ name: String, _ body: JSON) -> JSON {
            Fixture.notification(nil, [name: body])
        }
        return switch name {
        case "summary":
            notification("summary", ours.merging(["succeededCount": 5, "failedCount": 1]) { $1 })
        case "appData": notification("appData", ours)
        case "token":
            notification(
                "externalPurchaseToken", ["bundleId": bundle, "externalPurchaseId": "SANDBOX_1"])
        case "purchase":
            notification(
                "data",
                ours.merging([
                    "signedTransactionInfo":
                        (try? Fixture.sign(Fixture.transaction(["type": "Consumable"]))) ?? ""
                ]) { $1 })
        default: notification("data", ours)
        }
    }

    struct Told {
        var outcome: String
        var movesChange: Bool
        var hasNewFacts: Bool
    }

    /// Folds the statement onto a subscription with an increase on its way to the App Store.
    static func fold(
        _ event: SubscriptionEvent, after renewing: RuleCase.Renewing
    ) throws -> Told {
        let sent = Instant(milliseconds: signingTime - day / 2)
        var progress = ChangeProgress(state: .sending, since: sent)
        progress.dueAt = Instant(milliseconds: renewsAt)
        let change = TrackedChange(
            changeID: "c", sku: "AD_FREE_1M", oldPrice: 9990, newPrice: 12_990,
            requestReferenceID: "r", sentAt: sent,
            callProgress: progress, progress: progress)
        var state = SubscriptionState(originalTransactionID: subscription, changes: [change])
        let bought = NotificationVerifier.decode(
            signedPayload: try Fixture.sign(
                Fixture.notification(
                    Fixture.data(
                        transaction: transaction(["AD_FREE_1M"]), renewal: renewal(renewing)),
                    [
                        "notificationType": "SUBSCRIBED", "subtype": "INITIAL_BUY",
                        "signedDate": signingTime - day / 4, "notificationUUID": "before",
                    ])), receivedAt: Instant(milliseconds: signingTime))
        _ = Lifecycle.fold([try #require(bought.event)], into: &state)
        let before = state
        _ = Lifecycle.fold([event], into: &state)
        let after = try #require(state.changes.first)
        let name = after.sku == "AD_FREE_1M" ? nil : after.sku
        return Told(
            outcome: [after.progress.state.rawValue, after.progress.reason ?? name]
                .compactMap { $0 }.joined(separator: " "),
            movesChange: state.changes != before.changes, hasNewFacts: state.facts != before.facts)
    }
}
